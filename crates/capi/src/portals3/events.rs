//! Event queues (section 3.11).
//!
//! Cost class: *fast path* where there is an event, else a wait.

use core::ffi::c_int;
use std::time::Duration;

use farpost_portals::host::INTERFACE as HOST;
use farpost_portals::{Error, Event, Handle, NetworkInterface, TIME_FOREVER};

use crate::cx::Cx;
use crate::interfaces::portals3::*;
use crate::interfaces::{Place, refuse};

use super::convert::c_event;
use super::state::{Answer, Failure, state, there};

pub(crate) fn ptleqalloc(cx: &'static Cx, a: arg::PtlEQAlloc) -> Answer {
    let count = a.count;
    let ni = state(cx).interface(a.ni_handle)?;
    there("eq_handle", a.eq_handle)?;
    let count = u32::try_from(count).map_err(|_| Error::NoSpace)?;
    let handler = a.eq_handler.map(|handler| ni.handlers.of(handler)).transpose();
    let handler = handler.map_err(|why| Failure::new(Error::NoSpace, why))?;
    let handled = handler.is_some();
    let made = ni.interface.eq_alloc(count, handler)?;
    if handled && (ni.interface.is_served() || ni.handle.interface() == HOST) {
        super::interface::show_handlers(cx);
    }
    a.eq_handle.set(made.0);
    Ok(())
}

pub(crate) fn ptleqfree(cx: &'static Cx, a: arg::PtlEQFree) -> Answer {
    let ni = state(cx).any(a.eq_handle, Error::EqInvalid)?;
    Ok(ni.interface.eq_free(Handle(a.eq_handle))?)
}

/// Gives the program an event.
///
/// # Errors
/// Events before it were overwritten.
#[inline(always)]
fn give(event: &Event, dropped: bool, to: Place<ptl_event_t>) -> Answer {
    to.set(c_event(event));
    told_of(dropped)
}

/// # Errors
/// Events were `dropped`, overwritten: told as the standard tells it.
#[inline(always)]
fn told_of(dropped: bool) -> Answer {
    match dropped {
        true => Err(Error::EqDropped.into()),
        false => Ok(()),
    }
}

#[inline(always)]
pub(crate) fn ptleqget(cx: &'static Cx, a: arg::PtlEQGet) -> Answer {
    let ni = state(cx).any(a.eq_handle, Error::EqInvalid)?;
    there("event", a.event)?;
    let taken = ni.interface.eq_get(Handle(a.eq_handle));
    crate::roll::polled(cx, taken.is_ok());
    if taken.is_err() && state(cx).has_beside() {
        super::interface::beside_too(cx);
    }
    let taken = taken?;
    give(&taken.event, taken.dropped, a.event)
}

#[inline(always)]
pub(crate) fn ptleqwait(cx: &'static Cx, a: arg::PtlEQWait) -> Answer {
    let ni = state(cx).any(a.eq_handle, Error::EqInvalid)?;
    there("event", a.event)?;
    // Small is what passes through the loop that waits.
    let dropped = ni
        .interface
        .eq_wait_with(Handle(a.eq_handle), |oldest: &Event, dropped| {
            a.event.set(c_event(oldest));
            dropped
        })?;
    told_of(dropped)
}

pub(crate) unsafe fn ptleqpoll(cx: &'static Cx, a: arg::PtlEQPoll) -> Answer {
    let size = a.size;
    state(cx).ready()?;
    if size <= 0 {
        return refuse!(Error::EqInvalid: "size={size}: at least one event queue is wanted");
    }
    there("eq_handles", a.eq_handles)?;
    there("event", a.event)?;
    there("which", a.which)?;
    // SAFETY: not null, and the caller vouches for `size` handles, which nobody changes meanwhile. `Handle` is one.
    let eqs = unsafe { core::slice::from_raw_parts(a.eq_handles.pointer().cast::<Handle>(), size as usize) };
    let ni = state(cx).any(eqs[0].0, Error::EqInvalid)?;
    let timeout = match a.timeout {
        TIME_FOREVER => None,
        millis => Some(Duration::from_millis(millis.into())),
    };
    let polled = ni.interface.eq_poll(eqs, timeout);
    crate::roll::polled(cx, polled.is_ok());
    let (at, taken) = polled?;
    a.which.set(at as c_int);
    give(&taken.event, taken.dropped, a.event)
}
