//! The importer's side: connections, mappings, barriers.

use core::ffi::{c_uint, c_void};
use std::cell::RefCell;
use std::rc::Rc;

use farpost_rsm::{Barrier, Code, Mode, Perm, fail};

use super::export::serve_meanwhile;
use super::library::{
    Imported, PAGE, Polled, Result, bad_segment, controller, fail, imported, opened, there,
};
use crate::cx::Cx;
use crate::interfaces::Place;
use crate::interfaces::rsm::arg;
use crate::interfaces::rsm::{
    RSM_BARRIER_MODE_EXPLICIT, RSM_BARRIER_MODE_IMPLICIT, RSM_BARRIER_SEGMENT, RSM_MAP_FIXED, RSM_MAP_NONE,
    RSM_MAP_RESERVED, rsm_barrier_type_t, rsmapi_barrier_t,
};

pub(crate) fn rsm_memseg_import_connect(cx: &'static Cx, a: arg::rsm_memseg_import_connect) -> Result<()> {
    let handle = a.controller;
    let (library, controller) = controller(cx, handle)?;
    there(a.memseg, Code::BAD_SEG_HNDL, "memseg")?;
    let import = library
        .rsm
        .connect(controller, a.node_id, a.segment_id, Perm(a.perm))?;
    let imported = Rc::new(Imported {
        import,
        window: RefCell::new(None),
        polled: Polled::default(),
    });
    a.memseg.set(library.imports.borrow_mut().add(imported)?);
    Ok(())
}

pub(crate) fn rsm_memseg_import_disconnect(
    cx: &'static Cx,
    a: arg::rsm_memseg_import_disconnect,
) -> Result<()> {
    let (library, imported) = imported(cx, a.memseg)?;
    imported.import.disconnect()?;
    library.imports.borrow_mut().remove(a.memseg);
    if library.asks.get() {
        serve_meanwhile(cx, library);
    }
    Ok(())
}

pub(crate) unsafe fn rsm_memseg_import_map(cx: &'static Cx, a: arg::rsm_memseg_import_map) -> Result<()> {
    let (attr, perm, offset) = (a.attr, a.perm, a.offset);
    let (_, imported) = imported(cx, a.memseg)?;
    there(a.address, Code::BAD_ADDR, "address")?;
    let at = match attr {
        RSM_MAP_NONE => None,
        RSM_MAP_FIXED | RSM_MAP_RESERVED => a.address.get().map(|address| address.addr()),
        _ => return fail!(BAD_ADDR: "attr {attr} is none of RSM_MAP_*"),
    };
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let perm = Perm(perm);
    let memory = imported.import.map(offset, a.length, perm)?;
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
    let window = unsafe { memory.window(offset, a.length, perm.allows(Perm::WRITE), at) };
    match window {
        Ok(window) => {
            a.address.set(window.address() as *mut c_void);
            *imported.window.borrow_mut() = Some(window);
            Ok(())
        }
        Err(error) => unmapped(Code::MAP_FAILED, format!("mapping a segment: {error}")),
    }
}

pub(crate) fn rsm_memseg_import_unmap(cx: &'static Cx, a: arg::rsm_memseg_import_unmap) -> Result<()> {
    let (_, imported) = imported(cx, a.memseg)?;
    imported.import.unmap()?;
    imported.window.borrow_mut().take();
    Ok(())
}

pub(crate) fn rsm_memseg_import_init_barrier(
    cx: &'static Cx,
    a: arg::rsm_memseg_import_init_barrier,
) -> Result<()> {
    let (memseg, kind) = (a.memseg, a.r#type);
    let (library, imported) = imported(cx, memseg)?;
    there(a.barrier, Code::BAD_BARRIER_PTR, "barrier")?;
    if kind != 0 && kind != RSM_BARRIER_SEGMENT as rsm_barrier_type_t {
        return fail!(BAD_MODE: "barrier type {kind:#x}: only RSM_BARRIER_SEGMENT is supported");
    }
    let state = imported.import.init_barrier()?;
    a.barrier.set(rsmapi_barrier_t {
        bar_segment: memseg,
        bar_generation: imported.import.generation() as u16,
        bar_private: library.barriers.borrow_mut().add((memseg, state))?,
    });
    Ok(())
}

/// Run `what` on a barrier and its connection.
///
/// # Safety
/// `barrier`, if not null, points to a barrier.
#[inline]
unsafe fn with_barrier(
    cx: &'static Cx,
    barrier: Place<rsmapi_barrier_t>,
    what: impl FnOnce(&Imported, &mut Barrier) -> Result<()>,
) -> Result<()> {
    there(barrier, Code::BAD_BARRIER_PTR, "barrier")?;
    let barrier = barrier.pointer();
    // SAFETY: not null, so the caller vouches for a barrier, initialised or not: a plain structure.
    let private = unsafe { (&raw const (*barrier).bar_private).read() };
    let found = opened(cx).and_then(|library| {
        let barriers = library.barriers.borrow();
        let (memseg, state) = barriers.get(private)?;
        Some((library, *memseg, *state))
    });
    let Some((library, memseg, mut state)) = found else {
        return fail!(BARRIER_UNINITIALIZED: "the barrier is not initialised");
    };
    // SAFETY: as above.
    if unsafe { (&raw const (*barrier).bar_segment).read() } != memseg {
        return fail!(BAD_BARRIER_PTR: "the barrier was written over");
    }
    let Some(imported) = library.imports.borrow().get(memseg).map(Rc::clone) else {
        return bad_segment();
    };
    let result = what(&imported, &mut state);
    if let Some(kept) = library.barriers.borrow_mut().get_mut(private) {
        kept.1 = state;
    }
    result
}

macro_rules! barriers {
    ($($function:ident: $run:ident;)*) => {$(
        pub(crate) unsafe fn $function(cx: &'static Cx, a: arg::$function) -> Result<()> {
            // SAFETY: the interface's contract.
            unsafe { with_barrier(cx, a.barrier, |on, state| on.import.$run(state)) }
        }
    )*};
}

barriers! {
    rsm_memseg_import_open_barrier: open_barrier;
    rsm_memseg_import_order_barrier: order_barrier;
    rsm_memseg_import_close_barrier: close_barrier;
}

pub(crate) unsafe fn rsm_memseg_import_destroy_barrier(
    cx: &'static Cx,
    a: arg::rsm_memseg_import_destroy_barrier,
) -> Result<()> {
    there(a.barrier, Code::BAD_BARRIER_PTR, "barrier")?;
    let barrier = a.barrier.pointer();
    // SAFETY: not null, so the caller vouches for a barrier.
    let private = unsafe { (&raw const (*barrier).bar_private).read() };
    let gone = opened(cx).and_then(|library| {
        let gone = library.barriers.borrow_mut().remove(private)?;
        Some((library, gone))
    });
    let Some((library, (memseg, mut state))) = gone else {
        return fail!(BARRIER_UNINITIALIZED: "the barrier is not initialised");
    };
    // SAFETY: as above.
    unsafe { (&raw mut (*barrier).bar_private).write(core::ptr::null_mut()) };
    // Of a connection that is gone there is nothing else to end.
    match library.imports.borrow().get(memseg) {
        Some(imported) => imported.import.destroy_barrier(&mut state),
        None => Ok(()),
    }
}

pub(crate) fn rsm_memseg_import_get_mode(cx: &'static Cx, a: arg::rsm_memseg_import_get_mode) -> Result<()> {
    let (_, imported) = imported(cx, a.memseg)?;
    there(a.mode, Code::BAD_ADDR, "mode")?;
    a.mode.set(imported.import.mode() as c_uint);
    Ok(())
}

pub(crate) fn rsm_memseg_import_set_mode(cx: &'static Cx, a: arg::rsm_memseg_import_set_mode) -> Result<()> {
    let (_, imported) = imported(cx, a.memseg)?;
    imported.import.set_mode(match a.mode {
        RSM_BARRIER_MODE_EXPLICIT => Mode::Explicit,
        RSM_BARRIER_MODE_IMPLICIT => Mode::Implicit,
        other => return fail!(BAD_MODE: "mode {other} is neither of the two"),
    });
    Ok(())
}
