//! One body per function of `api/jam.toml`, under its name in lower case.

use core::cell::{Cell, RefCell};
use core::ffi::{c_char, c_int, c_void};
use core::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use farpost_fabric::{Moment, Peer, Priority, Time};
use farpost_jam::cilk::Cilk;
use farpost_jam::rdma::Posted;
use farpost_jam::vi::Batch;
use farpost_jam::{Buffer, CallRoute, Header, Jam, Message};
use farpost_node::Interface;

use super::arrival::Arrival;
pub(crate) use super::arrival::{
    jam_arm, jam_descriptor, jam_interrupt, jam_vi_arm, jam_vi_disarm, jam_vi_exhausted, jam_vi_receive,
};
pub(crate) use super::cilk::{
    jam_cilk_counts, jam_cilk_register, jam_cilk_run, jam_cilk_spawn, jam_cilk_sync,
};
use super::{Answer, Failed, JamState, STATE, again, answer, fail, failed, refuse, rest, sentence, state};
use crate::cx::Cx;
use crate::interfaces::jam::arg;
use crate::interfaces::{self, jam::*};
use crate::node;
use crate::process;

/// Longest time that seeing off what waits may take.
const FAREWELL: Duration = Duration::from_secs(5);

pub(crate) fn jam_initialize(cx: &'static Cx) {
    let node = match node::open(cx, Interface::Jam) {
        Ok(node) => node,
        Err(why) => cx.abort(1, &format!("JAM_initialize: {why}")),
    };
    JAM_me.set(cx, node.job.rank());
    JAM_size.set(cx, node.job.size());
    if STATE.get(cx).is_none() {
        let jam = Jam::new(Rc::clone(&node.fabric), &node.settings.jam, &node.settings.wait);
        jam.set_left_over(Some(super::arrival::left_over));
        let jam = Rc::new(jam);
        // From the beginning, so that requests for work find somebody who answers.
        let cilk = match Cilk::new(Rc::clone(&jam)) {
            Ok(cilk) => cilk,
            Err(why) => cx.abort(1, &format!("JAM_initialize: {why}")),
        };
        STATE.keep(
            cx,
            JamState {
                jam,
                cilk,
                arrival: Arrival::default(),
                transfers: RefCell::default(),
                posted: RefCell::default(),
                closed: Cell::new(false),
            },
        );
    }
    if let Some(state) = STATE.get(cx) {
        state.closed.set(false);
    }
}

pub(crate) fn jam_finalize(cx: &'static Cx) {
    let Ok(state) = state(cx) else {
        return;
    };
    let now = || cx.node.get().map_or(Moment::START, |node| node.fabric.now());
    let began = now();
    while state.jam.has_waiting() && now().since(began) < FAREWELL {
        let found = state.jam.poll() > 0;
        rest(cx, state, found);
    }
    while let Some(fault) = state.jam.next_fault() {
        process::say(&format!(
            "JAM_finalize: a fault that nobody asked for: {}",
            fault.error
        ));
    }
    while let Some(call) = state.jam.failed_call() {
        process::say(&format!(
            "JAM_finalize: a call that failed, and nobody asked: procedure {} in {}: {}",
            call.procedure, call.to, call.error
        ));
    }
    super::arrival::end_all(cx, state);
    state.closed.set(true);
    if let Some(node) = cx.node.get() {
        node.close(Interface::Jam);
    }
}

pub(crate) fn jam_error(cx: &'static Cx) -> *const c_char {
    sentence(cx).borrow().as_ptr()
}

pub(crate) fn jam_refused(cx: &'static Cx) -> u64 {
    state(cx).map_or(0, |state| state.jam.refused())
}

pub(crate) unsafe fn jam_next_fault(cx: &'static Cx, a: arg::JAM_next_fault) -> c_int {
    let Ok(state) = state(cx) else {
        return 0;
    };
    let Some(fault) = state.jam.next_fault() else {
        return 0;
    };
    a.process.set(fault.peer.0);
    // SAFETY: the caller vouches for it: null or `size` writable bytes.
    unsafe { interfaces::tell(&fault.error.to_string(), a.sentence, a.size) };
    1
}

#[inline(always)]
fn priority_of(priority: c_int) -> Option<Priority> {
    match priority {
        JAM_HIGH => Some(Priority::High),
        JAM_LOW => Some(Priority::Low),
        _ => None,
    }
}

/// The words of a message.
///
/// # Safety
/// `words` is null or points to `count` words.
#[inline(always)]
unsafe fn payload<'a>(words: *const u32, count: c_int) -> &'a [u32] {
    if words.is_null() || !(JAM_MIN_WORDS..=JAM_MAX_WORDS).contains(&count) {
        return &[];
    }
    // SAFETY: the caller vouches for them.
    unsafe { core::slice::from_raw_parts(words, count as usize) }
}

pub(crate) unsafe fn jam_send(cx: &'static Cx, a: arg::JAM_send) -> Answer {
    let (priority, flags, words, count) = (a.priority, a.flags, a.words, a.count);
    let state = state(cx)?;
    let (Some(priority), true, false) = (
        priority_of(priority),
        flags & !(JAM_RANDOM_ROUTE | (15 * JAM_UP_ROUTE)) == 0,
        words.is_null(),
    ) else {
        return refuse!(
            cx, JAM_EINVAL: "JAM_send: priority={priority}, flags={flags:#x}, words={words:p}: one of them cannot be"
        );
    };
    if !(JAM_MIN_WORDS..=JAM_MAX_WORDS).contains(&count) {
        return refuse!(
            cx, JAM_ELENGTH: "JAM_send: count={count}: allowed are {JAM_MIN_WORDS} to {JAM_MAX_WORDS} words"
        );
    }
    let mut header = Header::new(Peer(a.to), priority, a.tag);
    header.random = flags & JAM_RANDOM_ROUTE != 0;
    header.up_route = (flags / JAM_UP_ROUTE) as u8;
    // SAFETY: not null, and the caller vouches for its words.
    answer(cx, state.jam.send(&header, unsafe { payload(words, count) }))
}

/// A message as C has it.
pub(super) fn c_message(message: &Message) -> JAM_message {
    let mut words = [0; JAM_MAX_WORDS as usize];
    words[..message.words().len()].copy_from_slice(message.words());
    JAM_message {
        from: message.from.0,
        priority: message.priority as c_int,
        tag: message.tag,
        count: message.words().len() as c_int,
        words,
    }
}

pub(crate) unsafe fn jam_receive(cx: &'static Cx, a: arg::JAM_receive) -> c_int {
    let (priority, message) = (a.priority, a.message.pointer());
    let Ok(state) = state(cx) else {
        return 0;
    };
    let (Some(priority), false) = (priority_of(priority), message.is_null()) else {
        fail(
            cx,
            JAM_EINVAL,
            &format!("JAM_receive: priority={priority}, message={message:p}: one of them cannot be"),
        );
        return 0;
    };
    let mut got = false;
    state.jam.begin();
    while !got
        && state.jam.receive_in_place(
            priority,
            #[inline(always)]
            |from, tag, payload| {
                got = true;
                // SAFETY: not null, and the caller vouches for it. A payload has at most as many words as there are; those beyond it
                // are left as they are.
                unsafe {
                    (*message).from = from.0;
                    (*message).priority = priority as c_int;
                    (*message).tag = tag;
                    (*message).count = (payload.len() / 4) as c_int;
                    let words = &mut (*message).words;
                    let (pairs, odd) = payload.as_chunks::<8>();
                    let at = 2 * pairs.len();
                    for (to, pair) in words.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
                        // Each by itself, as in `farpost_fabric::copy_words`.
                        let pair = black_box(u64::from_le_bytes(*pair));
                        *to = [pair as u32, (pair >> 32) as u32];
                    }
                    if let Ok(odd) = odd.try_into() {
                        words[at] = u32::from_le_bytes(odd);
                    }
                }
            },
        )
    {}
    if !got {
        rest(cx, state, false);
        return 0;
    }
    rest(cx, state, true);
    1
}

pub(crate) fn jam_status(cx: &'static Cx) -> u32 {
    state(cx).map_or(0, |state| state.jam.status().0)
}

pub(crate) fn jam_batch_create(cx: &'static Cx, a: arg::JAM_batch_create) -> *mut JAM_batch {
    if state(cx).is_err() {
        return core::ptr::null_mut();
    }
    Box::into_raw(Box::new(Batch::new(Peer(a.to)))).cast()
}

pub(crate) unsafe fn jam_batch_free(_: &'static Cx, a: arg::JAM_batch_free) {
    if !a.batch.is_null() {
        // SAFETY: made by `jam_batch_create`, and the caller uses it no more.
        drop(unsafe { Box::from_raw(a.batch.cast::<Batch>()) });
    }
}

pub(crate) unsafe fn jam_batch_push(cx: &'static Cx, a: arg::JAM_batch_push) -> Answer {
    let (batch, words, count) = (a.batch, a.words, a.count);
    if batch.is_null() || words.is_null() {
        return refuse!(cx, JAM_EINVAL: "JAM_batch_push: batch={batch:p}, words={words:p}: one is NULL");
    }
    if !(JAM_MIN_WORDS..=JAM_MAX_WORDS).contains(&count) {
        return refuse!(
            cx, JAM_ELENGTH: "JAM_batch_push: count={count}: allowed are {JAM_MIN_WORDS} to {JAM_MAX_WORDS} words"
        );
    }
    // SAFETY: made by `jam_batch_create`; not null, and the caller vouches for its words.
    let (batch, payload) = unsafe { (&mut *batch.cast::<Batch>(), payload(words, count)) };
    answer(cx, batch.push(a.tag, payload))
}

pub(crate) unsafe fn jam_batch_launch(cx: &'static Cx, a: arg::JAM_batch_launch) -> Answer {
    let state = state(cx)?;
    if a.batch.is_null() {
        return refuse!(cx, JAM_EINVAL: "JAM_batch_launch: batch is NULL");
    }
    // SAFETY: made by `jam_batch_create`.
    match state.jam.doorbell(unsafe { &mut *a.batch.cast::<Batch>() }) {
        Ok(true) => Ok(()),
        Ok(false) => Err(again(
            cx,
            c"JAM_batch_launch: the ring has no room yet: poll, then try again",
        )),
        Err(error) => Err(failed(cx, &error)),
    }
}

pub(crate) fn jam_batch_receive(cx: &'static Cx, a: arg::JAM_batch_receive) -> c_int {
    let (Ok(state), Some(receiver)) = (state(cx), a.receiver) else {
        return 0;
    };
    state.jam.poll();
    let most = usize::try_from(a.most).unwrap_or(0);
    let count = state.jam.receive_batches(most, |from, tag, words| {
        // SAFETY: the program's function, called as its type says.
        unsafe { receiver(from.0, tag, words.as_ptr(), words.len() as c_int, a.context) }
    });
    rest(cx, state, count > 0);
    count as c_int
}

pub(crate) unsafe fn jam_rdma_send(cx: &'static Cx, a: arg::JAM_rdma_send) -> Answer {
    let (buffer, transfer) = (a.buffer, a.transfer.pointer());
    let state = state(cx)?;
    if transfer.is_null() || (buffer.is_null() && a.size > 0) {
        return refuse!(
            cx, JAM_EINVAL: "JAM_rdma_send: buffer={buffer:p}, transfer={transfer:p}: one is NULL"
        );
    }
    // SAFETY: the caller leaves the block alone until the transfer has ended, and it is only read.
    let block = unsafe { Buffer::lent(buffer.cast_mut().cast(), a.size) };
    let sent = state.jam.rdma().send(Peer(a.to), a.tag, block);
    let name = sent.map_err(|error| failed(cx, &error))?;
    state.transfers.borrow_mut().insert(name);
    a.transfer.set(name.number());
    state.jam.poll();
    Ok(())
}

pub(crate) fn jam_rdma_test(cx: &'static Cx, a: arg::JAM_rdma_test) -> Answer {
    let transfer = a.transfer;
    let state = state(cx)?;
    let known = state
        .transfers
        .borrow()
        .iter()
        .find(|name| name.number() == transfer)
        .copied();
    let Some(name) = known else {
        return refuse!(
            cx, JAM_EINVAL: "JAM_rdma_test: transfer={transfer}: no such transfer, or its end was told already"
        );
    };
    state.jam.poll();
    let Some(result) = state.jam.rdma().ended(name) else {
        rest(cx, state, false);
        return Err(Failed(JAM_AGAIN));
    };
    state.transfers.borrow_mut().remove(&name);
    rest(cx, state, true);
    answer(cx, result)
}

pub(crate) unsafe fn jam_rdma_post(cx: &'static Cx, a: arg::JAM_rdma_post) -> Answer {
    let state = state(cx)?;
    if a.buffer.is_null() {
        return refuse!(cx, JAM_EINVAL: "JAM_rdma_post: buffer is NULL");
    }
    // SAFETY: the caller leaves the memory to JAM until a block that came to it is taken, or it is withdrawn.
    let memory = unsafe { Buffer::lent(a.buffer.cast(), a.size) };
    let posted = state.jam.rdma().post(memory);
    state.posted.borrow_mut().push((a.buffer.addr(), posted));
    Ok(())
}

/// The name of the oldest memory posted at that address.
fn posted_at(state: &JamState, buffer: *const c_void) -> Option<(usize, Posted)> {
    let posted = state.posted.borrow();
    let at = posted.iter().position(|(address, _)| *address == buffer.addr())?;
    Some((at, posted[at].1))
}

pub(crate) fn jam_rdma_withdraw(cx: &'static Cx, a: arg::JAM_rdma_withdraw) -> Answer {
    let buffer = a.buffer;
    let state = state(cx)?;
    let Some((at, posted)) = posted_at(state, buffer) else {
        return refuse!(cx, JAM_EINVAL: "JAM_rdma_withdraw: buffer={buffer:p}: no memory is posted there");
    };
    if state.jam.rdma().withdraw(posted).is_none() {
        return Err(again(
            cx,
            c"JAM_rdma_withdraw: a block is on its way to the memory or in it: JAM_rdma_receive gives it back",
        ));
    }
    state.posted.borrow_mut().remove(at);
    Ok(())
}

pub(crate) unsafe fn jam_rdma_receive(cx: &'static Cx, a: arg::JAM_rdma_receive) -> c_int {
    let Ok(state) = state(cx) else {
        return 0;
    };
    if a.block.is_null() {
        fail(cx, JAM_EINVAL, "JAM_rdma_receive: block is NULL");
        return 0;
    }
    state.jam.poll();
    let Some(came) = state.jam.rdma().arrived() else {
        rest(cx, state, false);
        return 0;
    };
    rest(cx, state, true);
    let buffer: *mut c_void = came.memory.bytes().as_ptr().cast_mut().cast();
    if let Some((at, _)) = posted_at(state, buffer) {
        state.posted.borrow_mut().remove(at);
    }
    a.block.set(JAM_block {
        from: came.from.0,
        tag: came.tag,
        buffer,
        size: came.len,
    });
    1
}

pub(crate) fn jam_register(cx: &'static Cx, a: arg::JAM_register) -> Answer {
    let (procedure, function) = (a.procedure, a.function);
    let state = state(cx)?;
    let Some(function) = function else {
        return refuse!(cx, JAM_EINVAL: "JAM_register: function is NULL");
    };
    if procedure > JAM_MAX_PROCEDURE as u32 {
        return refuse!(
            cx, JAM_EPROCEDURE: "JAM_register: procedure={procedure}: the highest number is {JAM_MAX_PROCEDURE}"
        );
    }
    let run = move |_: &Jam<_>, from: Peer, argument: &[u8]| {
        // SAFETY: the program's function, called as its type says.
        unsafe { function(from.0, argument.as_ptr().cast(), argument.len(), a.context) }
    };
    answer(cx, state.jam.register(procedure, Rc::new(run)))
}

pub(crate) unsafe fn jam_rpc(cx: &'static Cx, a: arg::JAM_rpc) -> Answer {
    let (procedure, size) = (a.procedure, a.size);
    let state = state(cx)?;
    if procedure > JAM_MAX_PROCEDURE as u32 {
        return refuse!(
            cx, JAM_EPROCEDURE: "JAM_rpc: procedure={procedure}: the highest number is {JAM_MAX_PROCEDURE}"
        );
    }
    let bytes: &[u8] = match (a.argument.is_null(), size) {
        (_, 0) => &[],
        (true, _) => return refuse!(cx, JAM_EINVAL: "JAM_rpc: argument is NULL and size is {size}"),
        // SAFETY: the caller vouches for them.
        (false, _) => unsafe { core::slice::from_raw_parts(a.argument.cast(), size) },
    };
    answer(cx, state.jam.rpc(Peer(a.to), procedure, bytes))
}

pub(crate) unsafe fn jam_failed_call(cx: &'static Cx, a: arg::JAM_failed_call) -> Answer {
    let Some(call) = state(cx)?.jam.failed_call() else {
        return Ok(());
    };
    a.to.set(call.to.0);
    a.procedure.set(call.procedure);
    a.size.set(call.bytes);
    Err(failed(cx, &call.error))
}

pub(crate) fn jam_calls(cx: &'static Cx, a: arg::JAM_calls) -> u64 {
    let way = match a.way {
        JAM_BY_MESSAGES => CallRoute::Messages,
        JAM_BY_BLOCK => CallRoute::Block,
        JAM_BY_ITSELF => CallRoute::Own,
        _ => return 0,
    };
    state(cx).map_or(0, |state| state.jam.calls_by(way))
}

pub(crate) fn jam_poll(cx: &'static Cx) -> c_int {
    let Ok(state) = state(cx) else {
        return 0;
    };
    let ran = state.jam.poll();
    rest(cx, state, ran > 0);
    ran as c_int
}
