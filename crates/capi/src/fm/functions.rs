//! One body per function of `api/fm.toml`, under its name in lower case.

use core::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use core::slice;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use farpost_fm::{Buffers, Fm, FmConfig, Tended};
use farpost_node::Interface;

use crate::cx::Cx;
use crate::interfaces::fm::{self as api, FM_nodeid, FM_numnodes, arg};
use crate::interfaces::{self, refuse};
use crate::node;
use crate::progress::{self, Reason, Served};
use crate::{process, roll};

use super::state::{Failure, state};
pub(crate) use super::streams::{
    fm_begin_message, fm_end_message, fm_receive, fm_register_handler, fm_send_piece,
};

/// Time between two looks of the thread at frames that wait for room elsewhere, which nobody announces.
const AGAIN: Duration = Duration::from_millis(1);

/// A number of the program's as the layer counts: what is too large is refused there.
#[inline(always)]
pub(super) fn narrow(number: c_ulong) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// `len` bytes of the program's at `buf`.
///
/// # Safety
/// `buf` is null or points to `len` bytes that nobody writes meanwhile.
#[inline(always)]
pub(super) unsafe fn bytes<'a>(buf: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if buf.is_null() {
        return refuse!(api::FM_EARG: "buf is NULL, where {len} bytes are wanted");
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts(buf.cast(), len) })
}

pub(crate) fn fm_set_parameter(cx: &'static Cx, a: arg::FM_set_parameter) -> Result<(), Failure> {
    let what = a.what;
    let state = state(cx);
    if state.was_opened() {
        return refuse!(api::FM_EINIT: "parameters are set before FM_initialize");
    }
    // A C int among variable arguments: its upper half means nothing.
    let int = a.value as c_int;
    match what {
        api::FM_QUIET => state.quiet.set(int != 0),
        api::FM_MAX_HANDLERS if (1..=1 << 16).contains(&int) => state.max_handlers.set(int as u32),
        api::FM_MAX_HANDLERS => {
            return refuse!(api::FM_EARG: "FM_MAX_HANDLERS = {int}: allowed are 1 to 65536");
        }
        api::FM_KEY_NAME | api::FM_GRM_NAME | api::FM_GRM_PORT | api::FM_CM_PORT => {}
        _ => return refuse!(api::FM_EARG: "there is no parameter {what}"),
    }
    Ok(())
}

pub(crate) fn fm_initialize(cx: &'static Cx) {
    match node::open(cx, Interface::Fm) {
        Ok(node) => {
            let state = state(cx);
            let settings = &node.settings;
            let config = FmConfig::new(&settings.fm, &settings.fm_features);
            let opened = state.open(|| {
                let fabric = Rc::clone(&node.fabric);
                Fm::with_config(fabric, &config, &settings.wait, state.max_handlers.get())
            });
            if let Err(why) = opened {
                cx.abort(1, &format!("FM_initialize: {why}"));
            }
            if let Ok(fm) = state.node() {
                fm.set_relax(Some(roll::relax));
            }
            if settings.fm_features.progress != 0
                && config.buffers != Buffers::None
                && node.job.size() > 1
                && let Err(why) = progress::start(cx, Reason::Fm, true, tend)
            {
                process::say(&format!("FM_initialize: {why}"));
            }
            FM_nodeid.set(cx, c_ulong::from(node.job.rank()));
            FM_numnodes.set(cx, c_ulong::from(node.job.size()));
        }
        Err(why) => cx.abort(1, &format!("FM_initialize: {why}")),
    }
}

/// What the library's own thread does while the program computes: the LANai's part (paper, section 4.4). It runs no handler.
fn tend(cx: &'static Cx) -> Served {
    let Ok(fm) = state(cx).node() else {
        return Served::Nothing;
    };
    match fm.tend() {
        Tended::Moved => Served::Moved,
        Tended::Waits => Served::After(AGAIN),
        Tended::Nothing => Served::Nothing,
    }
}

pub(crate) fn fm_finalize(cx: &'static Cx) {
    let state = state(cx);
    let Some(node) = cx.node.get() else { return };
    let Ok(fm) = state.node() else { return };
    progress::stop(cx, Reason::Fm);
    state.sending.borrow_mut().take();
    let patience = node.settings.fm.patience;
    let settled = fm.close(Duration::from_secs(patience));
    if !state.quiet.get() {
        if !settled {
            process::say(&format!(
                "FM_finalize: after {patience} s not everything that was sent has been accepted; it may be lost"
            ));
        }
        while let Some(fault) = state.next_fault(fm) {
            process::say(&format!(
                "FM_finalize: a fault that nobody asked for: {}",
                fault.error
            ));
        }
    }
    state.close();
    node.close(Interface::Fm);
}

pub(crate) fn fm_register_message_handler(cx: &'static Cx, a: arg::FM_register_message_handler) -> c_ulong {
    let (id, handler) = (a.id, a.handler);
    let state = state(cx);
    let register = || {
        let fm = state.node()?;
        let handler = handler.ok_or_else(|| Failure::new(api::FM_EARG, "handler is NULL"))?;
        let number = Rc::new(Cell::new(narrow(id)));
        let known = Rc::clone(&number);
        let run = move |_: &_, from: farpost_fabric::Peer, bytes: &[u8]| {
            let outer = state.handles(known.get());
            // SAFETY: the program's function of that type. The bytes are this frame's alone, and gone when it returns.
            unsafe { handler(bytes.as_ptr().cast_mut().cast(), bytes.len() as c_uint, from.0) };
            state.handled(outer);
        };
        number.set(fm.register_message_handler(narrow(id), run)?);
        Ok(number.get())
    };
    state.registered("FM_register_message_handler", register())
}

#[inline(always)]
pub(crate) fn fm_send_4(cx: &'static Cx, a: arg::FM_send_4) -> Result<(), Failure> {
    roll::partner(narrow(a.dest));
    let state = state(cx);
    Ok(state
        .node()?
        .send_4(narrow(a.dest), narrow(a.handler), [a.i0, a.i1, a.i2, a.i3])?)
}

#[inline(always)]
pub(crate) unsafe fn fm_send(cx: &'static Cx, a: arg::FM_send) -> Result<(), Failure> {
    roll::partner(narrow(a.dest));
    let state = state(cx);
    let fm = state.node()?;
    // SAFETY: the program's promise.
    let bytes = unsafe { bytes(a.buf, a.size as usize)? };
    Ok(fm.send(narrow(a.dest), narrow(a.handler), bytes)?)
}

#[inline(always)]
pub(crate) fn fm_extract(cx: &'static Cx, a: arg::FM_extract) -> Result<c_int, Failure> {
    let state = state(cx);
    let fm = state.node()?;
    let most = if a.maxbytes == api::FM_ALL {
        usize::MAX
    } else {
        a.maxbytes as usize
    };
    let extracted = fm.extract_civilly(most);
    roll::polled_in(cx, !fm.found_nothing(), |record| state.tell_handler(record));
    Ok(c_int::try_from(extracted).unwrap_or(c_int::MAX))
}

#[inline(always)]
pub(crate) fn fm_extract_all(cx: &'static Cx) -> Result<c_int, Failure> {
    let maxbytes = api::FM_ALL;
    fm_extract(cx, arg::FM_extract { maxbytes })
}

pub(crate) fn fm_reallocate_credit(_cx: &'static Cx) {}

pub(crate) fn fm_error(cx: &'static Cx) -> *const c_char {
    state(cx).error()
}

pub(crate) unsafe fn fm_next_fault(cx: &'static Cx, a: arg::FM_next_fault) -> Result<c_int, Failure> {
    let state = state(cx);
    let fm = state.node()?;
    let Some(fault) = state.next_fault(fm) else {
        return Ok(0);
    };
    a.node.set(c_ulong::from(fault.peer.0));
    // SAFETY: the program's promise: null or `size` writable bytes.
    unsafe { interfaces::tell(&fault.error.to_string(), a.sentence, a.size) };
    Ok(1)
}
