//! Controllers, topology, identifiers, and the error status.

use core::ffi::{CStr, c_char, c_int, c_uint};

use farpost_rsm::{Code, Controller, RailStatus, error, fail, segmentid_range};

use super::library::{OpenController, Result, controller, imported, message, open, opened, there};
use crate::cx::Cx;
use crate::interfaces::Place;
use crate::interfaces::rsm::arg;
use crate::interfaces::{
    self,
    rsm::{
        RSM_CESR_NONE, RSM_CONNECTION_ACTIVE, RSM_CONNECTION_DOWN, rsm_connections_t, rsm_error_status_t,
        rsm_rail_t, rsm_refused_t, rsm_remote_cntlr_t, rsm_topology_t, rsmapi_controller_attr_t,
        rsmapi_controller_handle_t,
    },
};

/// Copy `text` with its end, as far as there is room.
fn copy_text(to: &mut [c_char], text: &str) {
    to.fill(0);
    // SAFETY: as many bytes as the array has.
    unsafe { interfaces::tell(text, to.as_mut_ptr(), to.len()) }
}

pub(crate) unsafe fn rsm_get_controller(cx: &'static Cx, a: arg::rsm_get_controller) -> Result<()> {
    let name = a.name;
    there(a.controller, Code::BAD_CTLR_HNDL, "controller")?;
    let library = open(cx)?;
    let controller = if name.is_null() {
        Controller::Loopback
    } else {
        // SAFETY: not null, so the caller vouches for a string.
        let name = unsafe { CStr::from_ptr(name) };
        library.rsm.controller(&name.to_string_lossy())?
    };
    a.controller
        .set(library.controllers.borrow_mut().open(controller)?);
    Ok(())
}

impl super::handles::HandleTable<OpenController> {
    /// The handle of an open controller, with a reference more, or of a newly opened one.
    fn open(&mut self, controller: Controller) -> Result<rsmapi_controller_handle_t> {
        let known = self.find(|open| open.controller == controller);
        let references = 0;
        let handle = known.map_or_else(
            || {
                self.add(OpenController {
                    controller,
                    references,
                })
            },
            Ok,
        )?;
        if let Some(open) = self.get_mut(handle) {
            open.references += 1;
        }
        Ok(handle)
    }
}

pub(crate) fn rsm_get_controller_attr(cx: &'static Cx, a: arg::rsm_get_controller_attr) -> Result<()> {
    let (library, controller) = controller(cx, a.controller)?;
    there(a.attr, Code::BAD_ADDR, "attr")?;
    let it = library.rsm.attributes(controller);
    let filled = rsmapi_controller_attr_t {
        attr_direct_access_sizes: it.direct_access_sizes,
        attr_atomic_sizes: it.atomic_sizes,
        attr_page_size: it.page_size,
        attr_max_export_segment_size: it.max_export_segment_size,
        attr_tot_export_segment_size: it.tot_export_segment_size,
        attr_max_export_segments: it.max_export_segments as _,
        attr_max_import_map_size: it.max_import_map_size,
        attr_tot_import_map_size: it.tot_import_map_size,
        attr_max_import_segments: it.max_import_segments as _,
    };
    a.attr.set(filled);
    Ok(())
}

pub(crate) fn rsm_release_controller(cx: &'static Cx, a: arg::rsm_release_controller) -> Result<()> {
    let handle = a.controller;
    let (library, _) = controller(cx, handle)?;
    let mut controllers = library.controllers.borrow_mut();
    if let Some(open) = controllers.get_mut(handle) {
        open.references -= 1;
        if open.references == 0 {
            controllers.remove(handle);
        }
    }
    Ok(())
}

/// Zeroed memory from `calloc` for `size` bytes.
fn room<T>(size: usize) -> Result<*mut T> {
    // SAFETY: a plain call.
    let at = unsafe { libc::calloc(1, size) };
    if at.is_null() {
        return fail!(INSUFFICIENT_MEM: "no memory for {size} bytes of topology");
    }
    Ok(at.cast())
}

pub(crate) unsafe fn rsm_get_interconnect_topology(
    cx: &'static Cx,
    a: arg::rsm_get_interconnect_topology,
) -> Result<()> {
    there(a.topology, Code::BAD_TOPOLOGY_PTR, "topology")?;
    let library = open(cx)?;
    library.rsm.progress();
    let all = library.rsm.topology();
    let pointers = all.len().saturating_sub(1) * size_of::<*mut rsm_connections_t>();
    let whole: *mut rsm_topology_t = room(size_of::<rsm_topology_t>() + pointers)?;
    // SAFETY: the memory was just allocated: for the header and as many pointers as there are controllers, and per
    // controller for its header and as many remote ones as it has. All fields are numbers, characters and pointers,
    // for which the zeroes that are there are values.
    unsafe {
        (*whole).topology_hdr.local_nodeid = library.rsm.node();
        let list = (&raw mut (*whole).connections).cast::<*mut rsm_connections_t>();
        for (i, controller) in all.iter().enumerate() {
            let more = controller.remotes.len().saturating_sub(1) * size_of::<rsm_remote_cntlr_t>();
            let one: *mut rsm_connections_t = match room(size_of::<rsm_connections_t>() + more) {
                Ok(one) => one,
                Err(error) => {
                    free_topology(whole);
                    return Err(error);
                }
            };
            copy_text(&mut (*one).hdr.cntlr_name, &controller.name);
            (*one).hdr.local_hwaddr = controller.address;
            (*one).hdr.remote_cntlr_count = controller.remotes.len() as c_int;
            let remotes = (&raw mut (*one).remote_cntlr).cast::<rsm_remote_cntlr_t>();
            for (j, end) in controller.remotes.iter().enumerate() {
                let remote = &mut *remotes.add(j);
                remote.remote_nodeid = end.node;
                copy_text(&mut remote.remote_cntlrname, &controller.name);
                remote.remote_hwaddr = end.address;
                remote.connection_state = if end.active {
                    RSM_CONNECTION_ACTIVE
                } else {
                    RSM_CONNECTION_DOWN
                };
            }
            list.add(i).write(one);
            (*whole).topology_hdr.local_cntlr_count = i as c_int + 1;
        }
    }
    a.topology.set(whole);
    Ok(())
}

pub(crate) unsafe fn rsm_free_interconnect_topology(_: &'static Cx, a: arg::rsm_free_interconnect_topology) {
    if !a.topology.is_null() {
        // SAFETY: the caller vouches that it is a topology of ours, not freed before.
        unsafe { free_topology(a.topology.pointer()) }
    }
}

/// # Safety
/// A topology of [`rsm_get_interconnect_topology`], as far as it was made, which nobody uses any more.
unsafe fn free_topology(topology: *mut rsm_topology_t) {
    // SAFETY: the caller's promise; its parts are from `calloc`.
    unsafe {
        let list = (&raw mut (*topology).connections).cast::<*mut rsm_connections_t>();
        for i in 0..(*topology).topology_hdr.local_cntlr_count {
            libc::free((*list.add(i as usize)).cast());
        }
        libc::free(topology.cast());
    }
}

pub(crate) fn rsm_get_striping(cx: &'static Cx, a: arg::rsm_get_striping) -> Result<()> {
    there(a.degree, Code::BAD_ADDR, "degree")?;
    let library = open(cx)?;
    // Rails fail while nobody looks.
    library.rsm.progress();
    let striping = library.rsm.striping(a.node)?;
    a.degree.set(striping.degree);
    a.rails.set(striping.rails);
    Ok(())
}

/// List rails, as far as there is room, and say how many there are.
///
/// # Safety
/// `rails`, if not null, has as many entries as `count` says.
unsafe fn list_rails(found: &[RailStatus], rails: Place<rsm_rail_t>, count: Place<c_uint>) -> Result<()> {
    let Some(room) = count.get() else {
        return fail!(BAD_ADDR: "count is null");
    };
    count.set(found.len() as c_uint);
    if rails.is_null() {
        return Ok(());
    }
    for (i, rail) in found.iter().take(room as usize).enumerate() {
        let mut filled = rsm_rail_t {
            name: [0; 32],
            state: if rail.works {
                RSM_CONNECTION_ACTIVE
            } else {
                RSM_CONNECTION_DOWN
            },
            sent: rail.carried.sent,
            received: rail.carried.received,
        };
        copy_text(&mut filled.name, &rail.name);
        // SAFETY: the caller's promise.
        unsafe { rails.pointer().add(i).write(filled) };
    }
    Ok(())
}

pub(crate) unsafe fn rsm_get_rails(cx: &'static Cx, a: arg::rsm_get_rails) -> Result<()> {
    there(a.count, Code::BAD_ADDR, "count")?;
    let library = open(cx)?;
    library.rsm.progress();
    let found = library.rsm.rails_to(a.node)?;
    // SAFETY: the interface's contract.
    unsafe { list_rails(&found, a.rails, a.count) }
}

pub(crate) unsafe fn rsm_memseg_import_set_stripes(
    cx: &'static Cx,
    a: arg::rsm_memseg_import_set_stripes,
) -> Result<()> {
    let (library, imported) = imported(cx, a.memseg)?;
    library.rsm.progress();
    let mut stripes = Vec::new();
    for i in 0..if a.names.is_null() { 0 } else { a.count as usize } {
        // SAFETY: the interface's contract: as many names as it says.
        let name = unsafe { a.names.add(i).read() };
        if name.is_null() {
            return fail!(BAD_ADDR: "name {i} is null");
        }
        // SAFETY: not null, so the caller vouches for a string.
        let name = unsafe { CStr::from_ptr(name) };
        stripes.push(library.rsm.controller(&name.to_string_lossy())?);
    }
    imported.import.stripe_over(&stripes)
}

pub(crate) unsafe fn rsm_memseg_import_get_stripes(
    cx: &'static Cx,
    a: arg::rsm_memseg_import_get_stripes,
) -> Result<()> {
    let (library, imported) = imported(cx, a.memseg)?;
    there(a.count, Code::BAD_ADDR, "count")?;
    let told = imported.import.stripes();
    let mut found = library.rsm.rails_to(imported.import.node())?;
    found.retain(|rail| told.contains(&rail.controller));
    // SAFETY: the interface's contract.
    unsafe { list_rails(&found, a.rails, a.count) }
}

/// Where ranges of identifiers are set aside.
const SEGMENT_IDS: &str = "/etc/rsm/rsm.segmentid";
/// Names another file.
const SEGMENT_IDS_VARIABLE: &str = "FARPOST_RSM_SEGMENTID_FILE";

pub(crate) unsafe fn rsm_get_segmentid_range(_: &'static Cx, a: arg::rsm_get_segmentid_range) -> Result<()> {
    let appid = a.appid;
    if appid.is_null() {
        return fail!(BAD_APPID: "appid is null");
    }
    if a.baseid.is_null() || a.length.is_null() {
        return fail!(BAD_ADDR: "baseid or length is null");
    }
    // SAFETY: not null, so the caller vouches for a string.
    let appid = unsafe { CStr::from_ptr(appid) }.to_string_lossy();
    let file = std::env::var(SEGMENT_IDS_VARIABLE).unwrap_or_else(|_| SEGMENT_IDS.into());
    let text = std::fs::read_to_string(&file).map_err(|error| error!(BAD_CONF: "reading {file}: {error}"))?;
    let (base, count) = segmentid_range(&text, &appid)?;
    a.baseid.set(base);
    a.length.set(count);
    Ok(())
}

pub(crate) fn rsm_get_error_status(cx: &'static Cx, a: arg::rsm_get_error_status) -> Result<()> {
    there(a.status, Code::BAD_ADDR, "status")?;
    let mut filled = rsm_error_status_t {
        cause: RSM_CESR_NONE as _,
        node: 0,
        segment: 0,
        count: 0,
        message: [0; 256],
    };
    if let Some(report) = opened(cx).and_then(|library| library.rsm.take_error_status()) {
        filled.cause = report.cause as _;
        filled.node = report.node;
        filled.segment = report.segment;
        filled.count = report.count;
        copy_text(&mut filled.message, &report.message);
    }
    a.status.set(filled);
    Ok(())
}

pub(crate) unsafe fn rsm_next_fault(cx: &'static Cx, a: arg::rsm_next_fault) -> c_int {
    let fault = opened(cx).and_then(|library| {
        library.rsm.progress();
        library.rsm.next_fault()
    });
    let Some(fault) = fault else {
        return 0;
    };
    a.node.set(fault.peer.0);
    // SAFETY: the caller vouches for it: null or `size` writable bytes.
    unsafe { interfaces::tell(&fault.error.to_string(), a.sentence, a.size) };
    1
}

pub(crate) fn rsm_get_refused(cx: &'static Cx, a: arg::rsm_get_refused) -> Result<()> {
    there(a.refused, Code::BAD_ADDR, "refused")?;
    let it = opened(cx).map_or_else(Default::default, |library| library.rsm.refused());
    let filled = rsm_refused_t {
        controllers: it.controllers,
        segments: it.segments,
        ranges: it.ranges,
        strangers: it.strangers,
        malformed: it.malformed,
        late: it.late,
    };
    a.refused.set(filled);
    Ok(())
}

pub(crate) fn rsm_error_message(cx: &'static Cx) -> *const c_char {
    message(cx)
}
