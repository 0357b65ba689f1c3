//! Messages in pieces: what `FM_stream *` points to.
//!
//! A message being sent is the one that the state keeps, and its handle the address of that place. A message being received
//! is on its handler's stack; its handle is valid while it is in the list of those.

use core::ffi::c_ulong;
use core::slice;
use std::cell::{Cell, RefMut};
use std::rc::Rc;
use std::time::Duration;

use farpost_fabric::{Peer, Time};
use farpost_fm::{Flow, Receive, Sending};
use farpost_node::NodeFabric;

use crate::cx::Cx;
use crate::interfaces::fm::{self as api, arg};
use crate::interfaces::refuse;
use crate::{lock, roll};

use super::functions::{bytes, narrow};
use super::state::{Failure, FmState, Node, state};

/// A message being received.
struct Receiving {
    /// The handler's, while it runs or waits.
    message: *mut Receive<'static, NodeFabric>,
    /// The handler that ran before.
    outer: u32,
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
        let number = Rc::new(Cell::new(narrow(id)));
        let known = Rc::clone(&number);
        let run = move |_: &Node, message: &mut Receive<'_, NodeFabric>, from: Peer| {
            let mut receiving = Receiving {
                message: core::ptr::from_mut(message).cast(),
                outer: state.handles(known.get()),
            };
            let stream: *mut Receiving = &raw mut receiving;
            let handle = stream.addr();
            state.receiving.borrow_mut().push(handle);
            let _listed = Listed { state, handle };
            // SAFETY: the program's function of that type; the stream lives longer than the call.
            let said = unsafe { handler(stream.cast(), from.0) };
            // SAFETY: it is here, and nobody else uses it any more.
            state.handled(unsafe { (*stream).outer });
            if said == api::FM_QUIT {
                Flow::Quit
            } else {
                Flow::Continue
            }
        };
        number.set(fm.register_handler(narrow(id), run)?);
        Ok(number.get())
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
    let receiving = a.stream.cast::<Receiving>();
    // SAFETY: as above.
    let message = unsafe { &mut *(*receiving).message };
    // SAFETY: the program's promise: `len` bytes, writable.
    let buffer = unsafe { slice::from_raw_parts_mut(a.buf.cast::<u8>(), len) };
    if message.here() >= len {
        return Ok(message.receive(buffer)?);
    }
    // SAFETY: as above.
    let me = state.handled(unsafe { (*receiving).outer });
    // The extraction that runs this handler may return while the handler waits, and another thread may go on with it:
    // this call is not inside the library meanwhile.
    lock::step_out();
    let received = message.receive(buffer);
    lock::step_in();
    let outer = state.handles(me);
    // SAFETY: as above.
    unsafe { (*receiving).outer = outer };
    Ok(received?)
}

/// No message can be begun. A handler that repeats the call may be what it waits for: after a while it is told.
#[cold]
fn not_now(cx: &'static Cx, state: &'static FmState, dest: u32) {
    state.clear_error();
    // Whose message has to end first, or who has to take something in.
    let own = state.node().ok().filter(|fm| fm.is_sending());
    roll::partner(own.map_or(dest, |fm| fm.node()));
    roll::polled_in(cx, false, |record| {
        state.tell_handler(record);
        roll::describe(record);
    });
    let (Some(handler), Some(node), Ok(fm)) = (state.handler(), cx.node.get(), state.node()) else {
        return;
    };
    let now = node.fabric.now();
    let patience = node.settings.fm.patience;
    let lasts = |since| now.since(since) > Duration::from_secs(patience);
    if !state.refused(now).is_some_and(lasts) {
        return;
    }
    state.not_refused();
    let why = if fm.is_sending() {
        "another message is being sent, which may not end before this handler returns"
    } else {
        "no slot is free, and none may be before this handler returns"
    };
    let failure = Failure::new(
        api::FM_ESTUCK,
        format!(
            "handler {handler} has tried for {patience} s (FARPOST_FM_PATIENCE) to begin a message to node {dest}: {why}; let it return, and \
             begin the message outside of handlers"
        ),
    );
    _ = state.fail("FM_begin_message", failure);
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
            state.not_refused();
            if let Ok(mut sending) = state.sending.try_borrow_mut() {
                *sending = Some(message);
                return (&raw const state.sending).cast_mut().cast();
            }
        }
        Ok(None) => not_now(cx, state, narrow(a.dest)),
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
