//! What Farpost's library calls.

use crate::host::{Host, host};
use crate::rank::{Stop, running};
use crate::refusals::refuse;
use std::ptr;

/// What the library counts instructions by ([`INSTRUCTIONS`](farpost_simlink::connection::INSTRUCTIONS)).
#[unsafe(no_mangle)]
pub extern "C" fn farpost_sim_instructions() -> u64 {
    host().map_or(0, Host::instructions)
}

/// Bytes that are kept for an answer while a rank waits.
const KEPT: usize = 256;

/// What the library asks the machine by ([`CALL`](farpost_simlink::connection::CALL)).
///
/// # Safety
/// `question` is `len` bytes; `answered` has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farpost_sim_call(
    question: *const u8,
    len: usize,
    answered: *mut usize,
) -> *const u8 {
    let Some(rank) = running() else {
        return ptr::null();
    };
    if host().is_some_and(|host| !host.has_library) {
        refuse(rank, "opens Farpost's library while it runs (dlopen)");
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(question, len) };
    // What it was answered before is read by now.
    rank.answer.borrow_mut().shrink_to(KEPT);
    rank.question.replace(bytes.to_vec());
    rank.stop(Stop::Asked);
    let answer = rank.answer.borrow();
    if answer.is_empty() {
        return ptr::null();
    }
    // SAFETY: the caller's promise.
    unsafe { answered.write(answer.len()) };
    answer.as_ptr()
}
