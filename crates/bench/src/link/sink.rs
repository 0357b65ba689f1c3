//! Where handlers and procedures, which the library calls, put what arrives. One thread only, so no read-modify-write is atomic.

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};

static INTO: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static ROOM: AtomicUsize = AtomicUsize::new(0);
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// Messages that have arrived.
static ARRIVED: AtomicU64 = AtomicU64::new(0);
/// Answers, at rank 0, and requests answered, at rank 1.
static ANSWERED: AtomicU64 = AtomicU64::new(0);

/// Everything that arrives goes to `into` from here on.
pub fn set(into: &mut [u8]) {
    INTO.store(into.as_mut_ptr(), Relaxed);
    ROOM.store(into.len(), Relaxed);
}

/// Messages have so many bytes.
pub fn expect(bytes: usize) {
    LENGTH.store(bytes.min(ROOM.load(Relaxed)), Relaxed);
}

/// Where a message of the expected length goes.
#[inline]
pub fn place() -> (*mut u8, usize) {
    (INTO.load(Relaxed), LENGTH.load(Relaxed))
}

/// A message of `size` bytes at `from` is here.
///
/// # Safety
/// `from` points to `size` bytes, and what [`set`] was given lives.
#[inline]
pub unsafe fn deliver(from: *const u8, size: usize) {
    let size = size.min(ROOM.load(Relaxed));
    // SAFETY: the caller's promise, and no more than there is room for; the library's memory and ours do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from, INTO.load(Relaxed), size) };
    arrive();
}

#[inline]
pub fn arrive() {
    ARRIVED.store(ARRIVED.load(Relaxed) + 1, Relaxed);
}

#[inline]
pub fn arrived() -> u64 {
    ARRIVED.load(Relaxed)
}

#[inline]
pub fn count_answer() {
    ANSWERED.store(ANSWERED.load(Relaxed) + 1, Relaxed);
}

#[inline]
pub fn answered() -> u64 {
    ANSWERED.load(Relaxed)
}
