//! Event queues (section 3.11).
//!
//! Cost class: *fast path* where there is an event, else a wait.

use core::ffi::c_int;
use std::time::Duration;

use farpost_portals::{Error, Event, Handle, NetworkInterface, TIME_FOREVER};

use crate::cx::Cx;
use crate::interfaces::portals3::*;

use super::convert::c_event;
use super::state::{Answer, Failure, code, state, there};

pub(crate) unsafe fn ptleqalloc(
    cx: &'static Cx,
    ni_handle: ptl_handle_ni_t,
    count: ptl_size_t,
    eq_handler: Option<ptl_eq_handler_t>,
    eq_handle: *mut ptl_handle_eq_t,
) -> c_int {
    let body = || {
        let ni = state(cx).interface(ni_handle)?;
        there("eq_handle", eq_handle)?;
        let count = u32::try_from(count).map_err(|_| Error::NoSpace)?;
        let handler = match eq_handler {
            Some(handler) => {
                let made = ni.handlers.of(handler);
                Some(made.map_err(|why| Failure::new(Error::NoSpace, why))?)
            }
            None => None,
        };
        let handled = handler.is_some();
        let made = ni.interface.eq_alloc(count, handler)?;
        if handled && ni.interface.is_served() {
            super::interface::show_handlers(cx);
        }
        // SAFETY: not null, and the caller vouches for it.
        unsafe { eq_handle.write(made.0) };
        Ok(())
    };
    code(cx, "PtlEQAlloc", body(), || format!("count={count}"))
}

pub(crate) fn ptleqfree(cx: &'static Cx, eq_handle: ptl_handle_eq_t) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::EqInvalid)?;
        Ok(ni.interface.eq_free(Handle(eq_handle))?)
    };
    code(cx, "PtlEQFree", body(), || format!("eq_handle={eq_handle:#x}"))
}

/// Gives the program an event.
///
/// # Safety
/// `to` is writable.
///
/// # Errors
/// Events before it were overwritten: told as the standard tells it.
#[inline(always)]
unsafe fn give(event: &Event, dropped: bool, to: *mut ptl_event_t) -> Answer {
    // SAFETY: the caller's promise.
    unsafe { to.write(c_event(event)) };
    if dropped {
        return Err(Error::EqDropped.into());
    }
    Ok(())
}

#[inline(always)]
pub(crate) unsafe fn ptleqget(cx: &'static Cx, eq_handle: ptl_handle_eq_t, event: *mut ptl_event_t) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::EqInvalid)?;
        there("event", event)?;
        let taken = ni.interface.eq_get(Handle(eq_handle));
        crate::roll::polled(cx, taken.is_ok());
        let taken = taken?;
        // SAFETY: not null, and the caller vouches for it.
        unsafe { give(&taken.event, taken.dropped, event) }
    };
    code(cx, "PtlEQGet", body(), || format!("eq_handle={eq_handle:#x}"))
}

#[inline(always)]
pub(crate) unsafe fn ptleqwait(
    cx: &'static Cx,
    eq_handle: ptl_handle_eq_t,
    event: *mut ptl_event_t,
) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::EqInvalid)?;
        there("event", event)?;
        // SAFETY: not null, and the caller vouches for it.
        let read = |oldest: &Event, dropped| unsafe { give(oldest, dropped, event) };
        ni.interface.eq_wait_with(Handle(eq_handle), read)?
    };
    code(cx, "PtlEQWait", body(), || format!("eq_handle={eq_handle:#x}"))
}

pub(crate) unsafe fn ptleqpoll(
    cx: &'static Cx,
    eq_handles: *mut ptl_handle_eq_t,
    size: c_int,
    timeout: ptl_time_t,
    event: *mut ptl_event_t,
    which: *mut c_int,
) -> c_int {
    let body = || {
        let ni = state(cx).any(Error::EqInvalid)?;
        if size <= 0 {
            return Err(Failure::new(
                Error::EqInvalid,
                format!("size={size}: at least one event queue is wanted"),
            ));
        }
        there("eq_handles", eq_handles)?;
        there("event", event)?;
        there("which", which)?;
        // SAFETY: not null, and the caller vouches for `size` handles, which nobody changes meanwhile. `Handle` is one.
        let eqs = unsafe { core::slice::from_raw_parts(eq_handles.cast::<Handle>(), size as usize) };
        let timeout = match timeout {
            TIME_FOREVER => None,
            millis => Some(Duration::from_millis(millis.into())),
        };
        let polled = ni.interface.eq_poll(eqs, timeout);
        crate::roll::polled(cx, polled.is_ok());
        let (at, taken) = polled?;
        // SAFETY: not null, and the caller vouches for them.
        unsafe {
            which.write(at as c_int);
            give(&taken.event, taken.dropped, event)
        }
    };
    code(cx, "PtlEQPoll", body(), || format!("size={size}"))
}
