//! The tool information interface. No function calls an error handler; arguments come as the program gives them.
//!
//! Requirements of MPI-5.0 sections 15.3.3, 15.3.4, 15.3.6, 15.3.7, 15.3.9, 15.3.10.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::cell::{Ref, RefCell, RefMut};

use farpost_fabric::Counters;
use farpost_fabric::Fabric as _;
use farpost_mpi::tools::{Control, DEVICE, ENUMERATIONS, Enumeration, Scope, Target, Tools, ValueKind, What};
use farpost_mpi::world::WorldConfig;
use farpost_mpi::{Result, error, fail};
use farpost_node::Settings;

use super::arg;
use crate::abi;
use crate::cx::{Cx, ProcessCell, World};
use crate::lock;
use crate::process::Stage;
use crate::settings::MpiSettings;

/// What the process keeps for tools.
struct ToolsState {
    tools: RefCell<Tools>,
    /// Set before MPI_Init.
    chosen: RefCell<Vec<(&'static str, u64)>>,
    /// What is set from outside, as long as the process has not joined its job.
    outside: (Settings, MpiSettings),
}

static STATE: ProcessCell<ToolsState> = ProcessCell::new();

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => c"",
};

fn state(cx: &'static Cx) -> &'static ToolsState {
    if let Some(state) = STATE.get(cx) {
        return state;
    }
    let mut layers = farpost_node::tunables();
    layers.extend(MpiSettings::tunables());
    let of_mpi = |layer: &str| layer.starts_with("mpi") || layer == "channel";
    let scope = |layer: &str, tunable: &farpost_tunables::Tunable| match layer {
        _ if World::is_changeable(tunable.name) => Scope::Local,
        "mpi: engine" => Scope::BeforeLocal,
        _ if of_mpi(layer) => Scope::BeforeAlike,
        _ => Scope::ReadOnly,
    };
    let mut mpi = MpiSettings::default();
    // What cannot be read will be refused when the job is joined.
    let all = Settings::find(&mut mpi).unwrap_or_default();
    STATE.keep(
        cx,
        ToolsState {
            tools: RefCell::new(Tools::new(&layers, scope)),
            chosen: RefCell::default(),
            outside: (all, mpi),
        },
    )
}

/// What tools have set before MPI_Init.
pub(crate) fn apply(cx: &'static Cx, config: &mut WorldConfig) {
    let Some(state) = STATE.get(cx) else { return };
    for (name, value) in &*state.chosen.borrow() {
        let value = value.to_string();
        // Ranges were checked when they were set.
        let _ = config.engine.set(name, &value);
        let _ = config.rsm.set(name, &value);
        let _ = config.tuning.set(name, &value);
        let _ = config.device.set(name, &value);
    }
}

pub(super) fn shared(cx: &'static Cx) -> Result<Ref<'static, Tools>> {
    let tools = state(cx).tools.borrow();
    tools.begun()?;
    Ok(tools)
}

fn changed(cx: &'static Cx) -> Result<RefMut<'static, Tools>> {
    let tools = state(cx).tools.borrow_mut();
    tools.begun()?;
    Ok(tools)
}

/// A result that must have a place.
pub(super) fn needed<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return fail!(T_ERR_INVALID: "an address is needed");
    }
    // SAFETY: not null; the program gave room for one, by the prototype.
    unsafe { place.write(value) };
    Ok(())
}

/// A result that the program need not want (MPI-5.0 section 15.3.3).
fn wanted<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: as above.
        unsafe { place.write(value) };
    }
}

/// A string result: as much as there is room for, and its length with the terminator; without a place only the length that it needs.
fn text(place: *mut c_char, len: *mut c_int, value: &str) {
    if len.is_null() {
        return;
    }
    // SAFETY: not null; the program gave the room there, by the prototype.
    let room = unsafe { len.read() };
    let mut bytes = value.len();
    if !place.is_null() && room > 0 {
        bytes = bytes.min(room as usize - 1);
        while !value.is_char_boundary(bytes) {
            bytes -= 1;
        }
        // SAFETY: `bytes` and the terminator fit the room that the program gave.
        unsafe {
            place.copy_from_nonoverlapping(value.as_ptr().cast(), bytes);
            place.add(bytes).write(0);
        }
    }
    // SAFETY: as for the room.
    unsafe { len.write(bytes as c_int + 1) };
}

pub(super) fn string<'a>(address: *const c_char) -> Result<&'a str> {
    if address.is_null() {
        return fail!(T_ERR_INVALID: "name=NULL: a name is needed");
    }
    // SAFETY: not null; the program keeps a terminated string there during the call.
    unsafe { CStr::from_ptr(address) }
        .to_str()
        .map_err(|_| error!(T_ERR_INVALID_NAME: "nothing has this name"))
}

/// Indices of what a category has: as many as there is room for.
fn indices(list: &[usize], len: c_int, place: *mut c_int) -> Result<()> {
    if len < 0 || len > 0 && place.is_null() {
        return fail!(T_ERR_INVALID: "len={len}: room for so many indices is needed");
    }
    for (at, index) in list.iter().take(len as usize).enumerate() {
        // SAFETY: within the `len` elements that the program gave room for.
        unsafe { place.add(at).write(*index as c_int) };
    }
    Ok(())
}

fn datatype(kind: ValueKind) -> usize {
    match kind {
        ValueKind::Number => abi::MPI_UNSIGNED_LONG,
        ValueKind::Fraction => abi::MPI_DOUBLE,
        ValueKind::Choice(_) => abi::MPI_INT,
        ValueKind::Text => abi::MPI_CHAR,
    }
}

/// Enumerations by handle: above the ABI's constants.
const ENUMS: usize = 0x1000;

fn enumtype(kind: ValueKind) -> usize {
    match kind {
        ValueKind::Choice(which) => ENUMS + which,
        _ => abi::MPI_T_ENUM_NULL,
    }
}

fn enumeration(handle: usize) -> Result<&'static Enumeration> {
    let found = handle.checked_sub(ENUMS).and_then(|at| ENUMERATIONS.get(at));
    found.map_or_else(|| fail!(T_ERR_INVALID_HANDLE: "not an enumeration"), Ok)
}

/// Values to where the program wants them.
unsafe fn put(kind: ValueKind, values: &[u64], buf: *mut c_void) -> Result<()> {
    if buf.is_null() && !values.is_empty() {
        return fail!(T_ERR_INVALID: "buf=NULL: an address is needed");
    }
    for (at, value) in values.iter().enumerate() {
        // SAFETY: the program gave room for as many values as it was told of.
        unsafe {
            match kind {
                ValueKind::Choice(_) => buf.cast::<c_int>().add(at).write(*value as c_int),
                ValueKind::Text => buf.cast::<u8>().add(at).write(*value as u8),
                ValueKind::Number | ValueKind::Fraction => buf.cast::<u64>().add(at).write(*value),
            }
        }
    }
    Ok(())
}

/// Values that the program gives.
unsafe fn get(kind: ValueKind, count: usize, buf: *const c_void) -> Result<Vec<u64>> {
    if buf.is_null() && count > 0 {
        return fail!(T_ERR_INVALID: "buf=NULL: an address is needed");
    }
    // SAFETY: the program has as many values there as it was told of.
    let one = |at| unsafe {
        match kind {
            ValueKind::Choice(_) => i64::from(buf.cast::<c_int>().add(at).read()).cast_unsigned(),
            ValueKind::Text => u64::from(buf.cast::<u8>().add(at).read()),
            ValueKind::Number | ValueKind::Fraction => buf.cast::<u64>().add(at).read(),
        }
    };
    Ok((0..count).map(one).collect())
}

pub(crate) fn mpi_t_init_thread(cx: &'static Cx, a: arg::TInitThread) -> Result<()> {
    if !(abi::MPI_THREAD_SINGLE..=abi::MPI_THREAD_MULTIPLE).contains(&a.required) {
        return fail!(T_ERR_INVALID: "required={}: no level of threads", a.required);
    }
    needed(a.provided, a.required)?;
    state(cx).tools.borrow_mut().begin();
    if a.required == abi::MPI_THREAD_MULTIPLE {
        lock::count_in();
    }
    Ok(())
}

pub(crate) fn mpi_t_finalize(cx: &'static Cx) -> Result<()> {
    state(cx).tools.borrow_mut().end()
}

pub(crate) fn mpi_t_enum_get_info(cx: &'static Cx, a: arg::TEnumGetInfo) -> Result<()> {
    shared(cx)?;
    let found = enumeration(a.enumtype)?;
    wanted(a.num, found.items.len() as c_int);
    text(a.name, a.name_len, found.name);
    Ok(())
}

pub(crate) fn mpi_t_enum_get_item(cx: &'static Cx, a: arg::TEnumGetItem) -> Result<()> {
    shared(cx)?;
    let item = Tools::at(enumeration(a.enumtype)?.items, a.indx)?;
    wanted(a.value, a.indx);
    text(a.name, a.name_len, item);
    Ok(())
}

pub(crate) fn mpi_t_cvar_get_num(cx: &'static Cx, a: arg::TCvarGetNum) -> Result<()> {
    needed(a.num_cvar, shared(cx)?.controls.len() as c_int)
}

pub(crate) fn mpi_t_cvar_get_info(cx: &'static Cx, a: arg::TCvarGetInfo) -> Result<()> {
    let tools = shared(cx)?;
    let control = Tools::at(&tools.controls, a.cvar_index)?;
    text(a.name, a.name_len, control.name);
    text(a.desc, a.desc_len, &control.text);
    wanted(a.verbosity, abi::MPI_T_VERBOSITY_TUNER_DETAIL);
    wanted(a.datatype, datatype(control.kind));
    wanted(a.enumtype, enumtype(control.kind));
    wanted(a.bind, abi::MPI_T_BIND_NO_OBJECT);
    let scope = match control.scope {
        Scope::Constant => abi::MPI_T_SCOPE_CONSTANT,
        Scope::ReadOnly => abi::MPI_T_SCOPE_READONLY,
        Scope::BeforeLocal | Scope::Local => abi::MPI_T_SCOPE_LOCAL,
        Scope::BeforeAlike => abi::MPI_T_SCOPE_ALL_EQ,
    };
    wanted(a.scope, scope);
    Ok(())
}

pub(crate) fn mpi_t_cvar_get_index(cx: &'static Cx, a: arg::TCvarGetIndex) -> Result<()> {
    let (tools, name) = (shared(cx)?, string(a.name)?);
    let index = Tools::named(&tools.controls, |control| control.name == name)?;
    needed(a.cvar_index, index)
}

pub(crate) fn mpi_t_cvar_handle_alloc(cx: &'static Cx, a: arg::TCvarHandleAlloc) -> Result<()> {
    let mut tools = changed(cx)?;
    let text = Tools::at(&tools.controls, a.cvar_index)?.kind == ValueKind::Text;
    if a.handle.is_null() || a.count.is_null() {
        return fail!(T_ERR_INVALID: "handle or count is NULL: addresses are needed");
    }
    needed(a.handle, tools.open_control(a.cvar_index)?)?;
    let count = if text { VERSION.count_bytes() + 1 } else { 1 };
    needed(a.count, count as c_int)
}

pub(crate) fn mpi_t_cvar_handle_free(cx: &'static Cx, a: arg::TCvarHandleFree) -> Result<()> {
    let mut tools = changed(cx)?;
    tools.close_control(handle_at(a.handle)?)?;
    needed(a.handle, abi::MPI_T_CVAR_HANDLE_NULL)
}

/// A handle that will be replaced.
fn handle_at(place: *mut usize) -> Result<usize> {
    if place.is_null() {
        return fail!(T_ERR_INVALID_HANDLE: "the address of a handle is needed");
    }
    // SAFETY: not null; the program has a handle there.
    Ok(unsafe { place.read() })
}

/// The value of a control variable that is no text.
fn value_of(cx: &'static Cx, control: &Control) -> u64 {
    let state = state(cx);
    let of_mpi = cx.settings.get().unwrap_or(&state.outside.1);
    if control.kind == ValueKind::Choice(DEVICE) {
        return of_mpi.device() as u64;
    }
    let chosen = state.chosen.borrow();
    let chosen = chosen.iter().rev().find(|(name, _)| *name == control.name);
    let node = cx.node.get().map_or(&state.outside.0, |node| &node.settings);
    let in_force = cx.world.get().and_then(|world| world.tunable(control.name));
    in_force
        .or_else(|| chosen.map(|(_, value)| *value))
        .or_else(|| of_mpi.value(control.name))
        .or_else(|| node.value(control.name))
        .unwrap_or_default()
}

pub(crate) unsafe fn mpi_t_cvar_read(cx: &'static Cx, a: arg::TCvarRead) -> Result<()> {
    let tools = shared(cx)?;
    let control = tools.control(a.handle)?;
    let values: Vec<u64> = match control.kind {
        ValueKind::Text => VERSION
            .to_bytes_with_nul()
            .iter()
            .map(|byte| u64::from(*byte))
            .collect(),
        _ => vec![value_of(cx, control)],
    };
    // SAFETY: the caller's promise.
    unsafe { put(control.kind, &values, a.buf) }
}

pub(crate) unsafe fn mpi_t_cvar_write(cx: &'static Cx, a: arg::TCvarWrite) -> Result<()> {
    let tools = shared(cx)?;
    let control = tools.control(a.handle)?;
    let before = cx.life.stage.get() == Stage::Before && cx.node.get().is_none();
    match control.scope {
        Scope::Constant | Scope::ReadOnly => {
            return fail!(T_ERR_CVAR_SET_NEVER: "{} is set from outside only", control.name);
        }
        Scope::BeforeLocal | Scope::BeforeAlike if !before => {
            return fail!(T_ERR_CVAR_SET_NOT_NOW: "{} is set before MPI_Init only", control.name);
        }
        _ => {}
    }
    // SAFETY: the caller's promise.
    let value = unsafe { get(control.kind, 1, a.buf) }?[0];
    if !(control.min..=control.max).contains(&value) {
        return fail!(T_ERR_INVALID: "{}={value}: allowed are {} to {}", control.name, control.min, control.max);
    }
    if before {
        state(cx).chosen.borrow_mut().push((control.name, value));
        return Ok(());
    }
    match cx.world.get().filter(|_| cx.life.stage.get().is_active()) {
        Some(world) if world.set_tunable(control.name, value) => Ok(()),
        _ => fail!(T_ERR_CVAR_SET_NOT_NOW: "{}: MPI is not initialised", control.name),
    }
}

pub(crate) fn mpi_t_pvar_get_num(cx: &'static Cx, a: arg::TPvarGetNum) -> Result<()> {
    needed(a.num_pvar, shared(cx)?.measures.len() as c_int)
}

pub(crate) fn mpi_t_pvar_get_info(cx: &'static Cx, a: arg::TPvarGetInfo) -> Result<()> {
    let tools = shared(cx)?;
    let measure = Tools::at(&tools.measures, a.pvar_index)?;
    text(a.name, a.name_len, measure.name);
    text(a.desc, a.desc_len, &measure.text);
    wanted(a.verbosity, abi::MPI_T_VERBOSITY_USER_DETAIL);
    wanted(a.var_class, measure.class as c_int);
    wanted(a.datatype, datatype(measure.kind));
    wanted(a.enumtype, enumtype(measure.kind));
    let bind = match measure.of_comm() {
        true => abi::MPI_T_BIND_MPI_COMM,
        false => abi::MPI_T_BIND_NO_OBJECT,
    };
    wanted(a.bind, bind);
    wanted(a.readonly, c_int::from(measure.is_read_only()));
    wanted(a.continuous, c_int::from(measure.is_continuous()));
    wanted(a.atomic, 1);
    Ok(())
}

pub(crate) fn mpi_t_pvar_get_index(cx: &'static Cx, a: arg::TPvarGetIndex) -> Result<()> {
    let (tools, name) = (shared(cx)?, string(a.name)?);
    let index = Tools::named(&tools.measures, |measure| {
        measure.name == name && measure.class as c_int == a.var_class
    })?;
    needed(a.pvar_index, index)
}

pub(crate) fn mpi_t_pvar_session_create(cx: &'static Cx, a: arg::TPvarSessionCreate) -> Result<()> {
    let mut tools = changed(cx)?;
    needed(a.session, abi::MPI_T_PVAR_SESSION_NULL)?;
    needed(a.session, tools.open_session())
}

pub(crate) fn mpi_t_pvar_session_free(cx: &'static Cx, a: arg::TPvarSessionFree) -> Result<()> {
    let mut tools = changed(cx)?;
    if a.session.is_null() {
        return fail!(T_ERR_INVALID_SESSION: "the address of a session is needed");
    }
    tools.close_session(handle_at(a.session)?)?;
    needed(a.session, abi::MPI_T_PVAR_SESSION_NULL)
}

/// What performance variables are made of.
fn values(cx: &'static Cx) -> impl Fn(What, &[u32]) -> Option<Vec<u64>> {
    move |what, peers| match what {
        What::Stage => Some(vec![match cx.life.stage.get() {
            Stage::Before => 0,
            Stage::After => 2,
            _ => 1,
        }]),
        What::Register(register) => {
            let fabric = &cx.node.get()?.fabric;
            Some(vec![fabric.register(fabric.me(), register)])
        }
        _ => {
            let active = cx.life.stage.get().is_active();
            let mut values = cx.world.get().filter(|_| active)?.measure(what, peers)?;
            if what == What::Requests {
                let hidden = cx.check_requests.get().map_or(0, |count| count(cx));
                values[0] = values[0].saturating_sub(hidden as u64);
            }
            Some(values)
        }
    }
}

pub(crate) unsafe fn mpi_t_pvar_handle_alloc(cx: &'static Cx, a: arg::TPvarHandleAlloc) -> Result<()> {
    let mut tools = changed(cx)?;
    tools.session(a.session)?;
    let measure = Tools::at(&tools.measures, a.pvar_index)?;
    if a.handle.is_null() || a.count.is_null() {
        return fail!(T_ERR_INVALID: "handle or count is NULL: addresses are needed");
    }
    let mut peers = Vec::new();
    if measure.of_comm() {
        let handle = handle_at(a.obj_handle.cast())?;
        let world = cx.world.get().filter(|_| cx.life.stage.get().is_active());
        let Some(comm) = world.and_then(|world| world.comm(handle)) else {
            return fail!(T_ERR_INVALID_HANDLE: "obj_handle: the address of a communicator's handle is needed");
        };
        peers = comm.remote.as_ref().unwrap_or(&comm.local).iter().collect();
    }
    let handle = tools.open(a.session, a.pvar_index, peers, &values(cx))?;
    let count = tools.handle(a.session, handle)?.0.count();
    needed(a.handle, handle)?;
    needed(a.count, count as c_int)
}

pub(crate) fn mpi_t_pvar_handle_free(cx: &'static Cx, a: arg::TPvarHandleFree) -> Result<()> {
    let mut tools = changed(cx)?;
    tools.session(a.session)?;
    tools.close(a.session, handle_at(a.handle)?)?;
    needed(a.handle, abi::MPI_T_PVAR_HANDLE_NULL)
}

fn target(handle: usize) -> Target {
    match handle {
        abi::MPI_T_PVAR_ALL_HANDLES => Target::All,
        one => Target::One(one),
    }
}

pub(crate) fn mpi_t_pvar_start(cx: &'static Cx, a: arg::TPvarStart) -> Result<()> {
    changed(cx)?.start(a.session, target(a.handle), &values(cx))
}

pub(crate) fn mpi_t_pvar_stop(cx: &'static Cx, a: arg::TPvarStop) -> Result<()> {
    changed(cx)?.stop(a.session, target(a.handle), &values(cx))
}

pub(crate) fn mpi_t_pvar_reset(cx: &'static Cx, a: arg::TPvarReset) -> Result<()> {
    changed(cx)?.reset(a.session, target(a.handle), &values(cx))
}

pub(crate) unsafe fn mpi_t_pvar_read(cx: &'static Cx, a: arg::TPvarRead) -> Result<()> {
    let tools = shared(cx)?;
    let read = tools.read(a.session, a.handle, &values(cx))?;
    // SAFETY: the caller's promise.
    unsafe { put(tools.handle(a.session, a.handle)?.1.kind, &read, a.buf) }
}

pub(crate) unsafe fn mpi_t_pvar_readreset(cx: &'static Cx, a: arg::TPvarReadreset) -> Result<()> {
    let mut tools = changed(cx)?;
    let (_, measure) = tools.handle(a.session, a.handle)?;
    let (kind, read_only) = (measure.kind, measure.is_read_only());
    if read_only {
        return fail!(T_ERR_PVAR_NO_WRITE: "{} only can be read", measure.name);
    }
    let read = tools.read(a.session, a.handle, &values(cx))?;
    // SAFETY: the caller's promise.
    unsafe { put(kind, &read, a.buf) }?;
    tools.reset(a.session, Target::One(a.handle), &values(cx))
}

pub(crate) unsafe fn mpi_t_pvar_write(cx: &'static Cx, a: arg::TPvarWrite) -> Result<()> {
    let mut tools = changed(cx)?;
    let (handle, measure) = tools.handle(a.session, a.handle)?;
    if measure.is_read_only() {
        return fail!(T_ERR_PVAR_NO_WRITE: "{} only can be read", measure.name);
    }
    // SAFETY: the caller's promise.
    let new = unsafe { get(measure.kind, handle.count(), a.buf) }?;
    tools.write(a.session, a.handle, &new, &values(cx))
}

pub(crate) fn mpi_t_category_get_num(cx: &'static Cx, a: arg::TCategoryGetNum) -> Result<()> {
    needed(a.num_cat, shared(cx)?.categories.len() as c_int)
}

pub(crate) fn mpi_t_category_get_info(cx: &'static Cx, a: arg::TCategoryGetInfo) -> Result<()> {
    let tools = shared(cx)?;
    let category = Tools::at(&tools.categories, a.cat_index)?;
    text(a.name, a.name_len, &category.name);
    text(a.desc, a.desc_len, &category.text);
    wanted(a.num_cvars, category.controls.len() as c_int);
    wanted(a.num_pvars, category.measures.len() as c_int);
    wanted(a.num_categories, category.categories.len() as c_int);
    Ok(())
}

pub(crate) fn mpi_t_category_get_index(cx: &'static Cx, a: arg::TCategoryGetIndex) -> Result<()> {
    let (tools, name) = (shared(cx)?, string(a.name)?);
    needed(
        a.cat_index,
        Tools::named(&tools.categories, |category| category.name == name)?,
    )
}

pub(crate) fn mpi_t_category_get_cvars(cx: &'static Cx, a: arg::TCategoryGetCvars) -> Result<()> {
    let tools = shared(cx)?;
    indices(
        &Tools::at(&tools.categories, a.cat_index)?.controls,
        a.len,
        a.indices,
    )
}

pub(crate) fn mpi_t_category_get_pvars(cx: &'static Cx, a: arg::TCategoryGetPvars) -> Result<()> {
    let tools = shared(cx)?;
    indices(
        &Tools::at(&tools.categories, a.cat_index)?.measures,
        a.len,
        a.indices,
    )
}

pub(crate) fn mpi_t_category_get_categories(cx: &'static Cx, a: arg::TCategoryGetCategories) -> Result<()> {
    let tools = shared(cx)?;
    indices(
        &Tools::at(&tools.categories, a.cat_index)?.categories,
        a.len,
        a.indices,
    )
}

pub(crate) fn mpi_t_category_get_num_events(cx: &'static Cx, a: arg::TCategoryGetNumEvents) -> Result<()> {
    let tools = shared(cx)?;
    Tools::at(&tools.categories, a.cat_index)?;
    needed(a.num_events, 0)
}

pub(crate) fn mpi_t_category_get_events(cx: &'static Cx, a: arg::TCategoryGetEvents) -> Result<()> {
    let tools = shared(cx)?;
    Tools::at(&tools.categories, a.cat_index)?;
    indices(&[], a.len, a.indices)
}

/// Nothing is ever added.
pub(crate) fn mpi_t_category_changed(cx: &'static Cx, a: arg::TCategoryChanged) -> Result<()> {
    shared(cx)?;
    needed(a.update_number, 0)
}
