//! Messages in pieces: what `FM_stream *` points to.
//!
//! A message being sent is the one that the state keeps, and its handle the address of that place. A message being received
//! is on its handler's stack; its handle is valid while it is in the list of those.

use core::ffi::c_ulong;
use core::slice;
use std::cell::RefMut;

use farpost_fabric::Peer;
use farpost_fm::{Flow, Receive, Sending};
use farpost_node::NodeFabric;

use crate::cx::Cx;
use crate::interfaces::fm::{self as api, arg};
use crate::interfaces::refuse;
use crate::lock;

use super::functions::{bytes, narrow};
use super::state::{Failure, FmState, Node, state};

/// A message being received.
struct Receiving {
    /// The handler's, while it runs or waits.
    message: *mut Receive<'static, NodeFabric>,
}

/// In the list of messages being received until dropped.
struct Listed {
    state: &'static FmState,
    handle: usize,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut list = self.state.receiving.borrow_mut();
        if let Some(at) = list.iter().rposition(|handle| *handle == self.handle) {
            list.swap_remove(at);
        }
    }
}

pub(crate) fn fm_register_handler(cx: &'static Cx, a: arg::FM_register_handler) -> c_ulong {
    let (id, handler) = (a.id, a.handler);
    let state = state(cx);
    let register = || {
        let fm = state.node()?;
        let handler = handler.ok_or_else(|| Failure::new(api::FM_EARG, "handler is NULL"))?;
        let run = move |_: &Node, message: &mut Receive<'_, NodeFabric>, from: Peer| {
            let mut receiving = Receiving {
                message: core::ptr::from_mut(message).cast(),
            };
            let stream: *mut Receiving = &raw mut receiving;
            let handle = stream.addr();
            state.receiving.borrow_mut().push(handle);
            let _listed = Listed { state, handle };
            // SAFETY: the program's function of that type; the stream lives longer than the call.
            let said = unsafe { handler(stream.cast(), from.0) };
            if said == api::FM_QUIT {
                Flow::Quit
            } else {
                Flow::Continue
            }
        };
        Ok(fm.register_handler(narrow(id), run)?)
    };
    state.registered("FM_register_handler", register())
}

fn no_stream(what: &str) -> Failure {
    Failure::new(api::FM_ESTREAM, format!("stream is not that of {what}"))
}

#[inline(always)]
pub(crate) unsafe fn fm_receive(cx: &'static Cx, a: arg::FM_receive) -> Result<(), Failure> {
    let state = state(cx);
    let len = a.len as usize;
    if !state.receiving.borrow().contains(&a.stream.addr()) {
        return Err(no_stream("a handler that runs"));
    }
    if a.buf.is_null() && len > 0 {
        return refuse!(api::FM_EARG: "buf is NULL, where {len} bytes are wanted");
    }
    if len == 0 {
        return Ok(());
    }
    // SAFETY: it is in the list, so that its handler has not returned, and it is where that handler's call keeps it.
    // Only this function uses it, and not twice at once: who waits here is not in the handler.
    let message = unsafe { &mut *(*a.stream.cast::<Receiving>()).message };
    // SAFETY: the program's promise: `len` bytes, writable.
    let buffer = unsafe { slice::from_raw_parts_mut(a.buf.cast::<u8>(), len) };
    if message.here() >= len {
        return Ok(message.receive(buffer)?);
    }
    // The extraction that runs this handler may return while the handler waits, and another thread may go on with it:
    // this call is not inside the library meanwhile.
    lock::step_out();
    let received = message.receive(buffer);
    lock::step_in();
    Ok(received?)
}

pub(crate) fn fm_begin_message(cx: &'static Cx, a: arg::FM_begin_message) -> *mut api::FM_stream {
    let state = state(cx);
    let begin = || {
        Ok(state
            .node()?
            .begin_message(narrow(a.dest), a.length as usize, narrow(a.handler))?)
    };
    match begin() {
        Ok(Some(message)) => {
            if let Ok(mut sending) = state.sending.try_borrow_mut() {
                *sending = Some(message);
                return (&raw const state.sending).cast_mut().cast();
            }
        }
        Ok(None) => state.clear_error(),
        Err(failure) => _ = state.fail("FM_begin_message", failure),
    }
    core::ptr::null_mut()
}

#[cold]
fn not_sending() -> Failure {
    no_stream("a message that is being sent")
}

/// The message that is being sent, which `stream` has to stand for.
#[inline(always)]
fn sending(
    cx: &'static Cx,
    stream: *mut api::FM_stream,
) -> Result<RefMut<'static, Option<Sending<NodeFabric>>>, Failure> {
    let state = state(cx);
    state.node()?;
    if !core::ptr::eq(stream.cast(), &raw const state.sending) {
        return Err(not_sending());
    }
    // Borrowed: from a handler that runs while a piece waits for a slot.
    state.sending.try_borrow_mut().map_err(|_| not_sending())
}

#[inline(always)]
pub(crate) unsafe fn fm_send_piece(cx: &'static Cx, a: arg::FM_send_piece) -> Result<(), Failure> {
    let mut sending = sending(cx, a.stream)?;
    let message = sending.as_mut().ok_or_else(not_sending)?;
    // SAFETY: the program's promise.
    let piece = unsafe { bytes(a.buf, a.len as usize)? };
    Ok(message.piece(piece)?)
}

pub(crate) fn fm_end_message(cx: &'static Cx, a: arg::FM_end_message) -> Result<(), Failure> {
    let message = sending(cx, a.stream)?.take();
    Ok(message.ok_or_else(not_sending)?.end()?)
}
