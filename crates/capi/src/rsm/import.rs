//! The importer's side: connections, mappings, barriers.

use core::ffi::{c_int, c_uint, c_void};
use std::cell::RefCell;
use std::rc::Rc;

use farpost_rsm::{Barrier, Code, Mode, Perm};

use super::library::{
    Imported, Library, PAGE, Polled, Result, bad_segment, code, controller, fail, imported, opened,
};
use crate::cx::Cx;
use crate::interfaces::rsm::{
    RSM_BARRIER_MODE_EXPLICIT, RSM_BARRIER_MODE_IMPLICIT, RSM_BARRIER_SEGMENT, RSM_MAP_FIXED, RSM_MAP_NONE,
    RSM_MAP_RESERVED, rsm_barrier_mode_t, rsm_barrier_type_t, rsm_memseg_id_t, rsm_memseg_import_handle_t,
    rsm_node_id_t, rsm_permission_t, rsmapi_barrier_t, rsmapi_controller_handle_t,
};

pub(crate) unsafe fn rsm_memseg_import_connect(
    cx: &'static Cx,
    handle: rsmapi_controller_handle_t,
    node_id: rsm_node_id_t,
    segment_id: rsm_memseg_id_t,
    perm: rsm_permission_t,
    memseg: *mut rsm_memseg_import_handle_t,
) -> c_int {
    let connect = || {
        let (library, controller) = controller(cx, handle)?;
        if memseg.is_null() {
            return fail(Code::BAD_SEG_HNDL, "memseg is null");
        }
        let import = library.rsm.connect(controller, node_id, segment_id, Perm(perm))?;
        let imported = Rc::new(Imported {
            import,
            window: RefCell::new(None),
            polled: Polled::default(),
        });
        let Some(handle) = library.imports.borrow_mut().add(imported) else {
            return fail(Code::INSUFFICIENT_RESOURCES, "too many connections");
        };
        // SAFETY: not null, so the caller vouches for room for a handle.
        unsafe { memseg.write(handle) };
        Ok(())
    };
    code(cx, connect())
}

pub(crate) fn rsm_memseg_import_disconnect(cx: &'static Cx, memseg: rsm_memseg_import_handle_t) -> c_int {
    let disconnect = || {
        let (library, imported) = imported(cx, memseg)?;
        imported.import.disconnect()?;
        library.imports.borrow_mut().remove(memseg);
        Ok(())
    };
    code(cx, disconnect())
}

pub(crate) unsafe fn rsm_memseg_import_map(
    cx: &'static Cx,
    memseg: rsm_memseg_import_handle_t,
    address: *mut *mut c_void,
    attr: c_int,
    perm: rsm_permission_t,
    offset: libc::off_t,
    length: usize,
) -> c_int {
    let map = || {
        let (_, imported) = imported(cx, memseg)?;
        if address.is_null() {
            return fail(Code::BAD_ADDR, "address is null");
        }
        let at = match attr {
            RSM_MAP_NONE => None,
            // SAFETY: not null, so the caller vouches for an address there.
            RSM_MAP_FIXED | RSM_MAP_RESERVED => Some(unsafe { address.read() }.addr()),
            _ => return fail(Code::BAD_ADDR, format!("attr {attr} is none of RSM_MAP_*")),
        };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let perm = Perm(perm);
        let memory = imported.import.map(offset, length, perm)?;
        let unmapped = |code, what: String| {
            // It was mapped just now.
            let _ = imported.import.unmap();
            fail(code, what)
        };
        if let Some(at) = at
            && (at == 0 || !at.is_multiple_of(PAGE))
        {
            return unmapped(
                Code::BAD_MEM_ALIGNMENT,
                format!("address {at:#x} is not that of a page"),
            );
        }
        // SAFETY: the interface's contract: who asks for a fixed address gives the range there away.
        let window = unsafe { memory.window(offset, length, perm.allows(Perm::WRITE), at) };
        match window {
            Ok(window) => {
                // SAFETY: not null, so the caller vouches for room for an address.
                unsafe { address.write(window.address() as *mut c_void) };
                *imported.window.borrow_mut() = Some(window);
                Ok(())
            }
            Err(error) => unmapped(Code::MAP_FAILED, format!("mapping a segment: {error}")),
        }
    };
    code(cx, map())
}

pub(crate) fn rsm_memseg_import_unmap(cx: &'static Cx, memseg: rsm_memseg_import_handle_t) -> c_int {
    let unmap = || {
        let (_, imported) = imported(cx, memseg)?;
        imported.import.unmap()?;
        imported.window.borrow_mut().take();
        Ok(())
    };
    code(cx, unmap())
}

pub(crate) unsafe fn rsm_memseg_import_init_barrier(
    cx: &'static Cx,
    memseg: rsm_memseg_import_handle_t,
    kind: rsm_barrier_type_t,
    barrier: *mut rsmapi_barrier_t,
) -> c_int {
    let init = || {
        let (library, imported) = imported(cx, memseg)?;
        if barrier.is_null() {
            return fail(Code::BAD_BARRIER_PTR, "barrier is null");
        }
        if kind != 0 && kind != RSM_BARRIER_SEGMENT as rsm_barrier_type_t {
            return fail(
                Code::BAD_MODE,
                format!("barrier type {kind:#x}: only RSM_BARRIER_SEGMENT is supported"),
            );
        }
        let state = imported.import.init_barrier()?;
        let Some(private) = library.barriers.borrow_mut().add((memseg, state)) else {
            return fail(Code::INSUFFICIENT_RESOURCES, "too many barriers");
        };
        let made = rsmapi_barrier_t {
            bar_segment: memseg,
            bar_generation: imported.import.generation() as u16,
            bar_private: private,
        };
        // SAFETY: not null, so the caller vouches for room for a barrier.
        unsafe { barrier.write(made) };
        Ok(())
    };
    code(cx, init())
}

/// Run `what` on a barrier and its connection.
///
/// # Safety
/// `barrier`, if not null, points to a barrier.
#[inline]
unsafe fn with_barrier(
    cx: &'static Cx,
    barrier: *mut rsmapi_barrier_t,
    what: impl FnOnce(&'static Library, &Imported, &mut Barrier) -> Result<()>,
) -> c_int {
    let run = || {
        if barrier.is_null() {
            return fail(Code::BAD_BARRIER_PTR, "barrier is null");
        }
        // SAFETY: not null, so the caller vouches for a barrier, initialised or not: a plain structure.
        let private = unsafe { (&raw const (*barrier).bar_private).read() };
        let found = opened(cx).and_then(|library| {
            let barriers = library.barriers.borrow();
            barriers
                .get(private)
                .map(|(memseg, state)| (library, *memseg, *state))
        });
        let Some((library, memseg, mut state)) = found else {
            return fail(Code::BARRIER_UNINITIALIZED, "the barrier is not initialised");
        };
        // SAFETY: as above.
        if unsafe { (&raw const (*barrier).bar_segment).read() } != memseg {
            return fail(Code::BAD_BARRIER_PTR, "the barrier was written over");
        }
        let Some(imported) = library.imports.borrow().get(memseg).map(Rc::clone) else {
            return bad_segment();
        };
        let result = what(library, &imported, &mut state);
        if let Some(kept) = library.barriers.borrow_mut().get_mut(private) {
            kept.1 = state;
        }
        result
    };
    code(cx, run())
}

pub(crate) unsafe fn rsm_memseg_import_open_barrier(
    cx: &'static Cx,
    barrier: *mut rsmapi_barrier_t,
) -> c_int {
    // SAFETY: the interface's contract.
    unsafe {
        with_barrier(cx, barrier, |_, imported, state| {
            imported.import.open_barrier(state)
        })
    }
}

pub(crate) unsafe fn rsm_memseg_import_order_barrier(
    cx: &'static Cx,
    barrier: *mut rsmapi_barrier_t,
) -> c_int {
    // SAFETY: the interface's contract.
    unsafe {
        with_barrier(cx, barrier, |_, imported, state| {
            imported.import.order_barrier(state)
        })
    }
}

pub(crate) unsafe fn rsm_memseg_import_close_barrier(
    cx: &'static Cx,
    barrier: *mut rsmapi_barrier_t,
) -> c_int {
    // SAFETY: the interface's contract.
    unsafe {
        with_barrier(cx, barrier, |_, imported, state| {
            imported.import.close_barrier(state)
        })
    }
}

pub(crate) unsafe fn rsm_memseg_import_destroy_barrier(
    cx: &'static Cx,
    barrier: *mut rsmapi_barrier_t,
) -> c_int {
    if barrier.is_null() {
        return code(cx, fail(Code::BAD_BARRIER_PTR, "barrier is null"));
    }
    let destroy = || {
        // SAFETY: not null, so the caller vouches for a barrier.
        let private = unsafe { (&raw const (*barrier).bar_private).read() };
        let gone = opened(cx).and_then(|library| {
            let gone = library.barriers.borrow_mut().remove(private)?;
            Some((library, gone))
        });
        let Some((library, (memseg, mut state))) = gone else {
            return fail(Code::BARRIER_UNINITIALIZED, "the barrier is not initialised");
        };
        // SAFETY: as above.
        unsafe { (&raw mut (*barrier).bar_private).write(core::ptr::null_mut()) };
        // Of a connection that is gone there is nothing else to end.
        match library.imports.borrow().get(memseg) {
            Some(imported) => imported.import.destroy_barrier(&mut state),
            None => Ok(()),
        }
    };
    code(cx, destroy())
}

pub(crate) unsafe fn rsm_memseg_import_get_mode(
    cx: &'static Cx,
    memseg: rsm_memseg_import_handle_t,
    mode: *mut rsm_barrier_mode_t,
) -> c_int {
    let get = || {
        let (_, imported) = imported(cx, memseg)?;
        if mode.is_null() {
            return fail(Code::BAD_ADDR, "mode is null");
        }
        // SAFETY: not null, so the caller vouches for room.
        unsafe { mode.write(imported.import.mode() as c_uint) };
        Ok(())
    };
    code(cx, get())
}

pub(crate) fn rsm_memseg_import_set_mode(
    cx: &'static Cx,
    memseg: rsm_memseg_import_handle_t,
    mode: rsm_barrier_mode_t,
) -> c_int {
    let set = || {
        let (_, imported) = imported(cx, memseg)?;
        imported.import.set_mode(match mode {
            RSM_BARRIER_MODE_EXPLICIT => Mode::Explicit,
            RSM_BARRIER_MODE_IMPLICIT => Mode::Implicit,
            other => return fail(Code::BAD_MODE, format!("mode {other} is neither of the two")),
        });
        Ok(())
    };
    code(cx, set())
}
