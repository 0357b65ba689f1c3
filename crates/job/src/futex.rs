//! Sleeping on a word of shared memory.

use rustix::thread::futex::{self, Flags};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleep until somebody wakes `word`, it no longer holds `expected`, the time is over, or for no reason.
pub(crate) fn wait(word: &AtomicU32, expected: u32, time: Duration) {
    let timeout = Timespec::try_from(time).ok();
    // Every result means "look again".
    let _ = futex::wait(word, Flags::empty(), expected, timeout.as_ref());
}

/// The host's monotonic clock.
pub(crate) fn nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Wake all processes that sleep on `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, Flags::empty(), i32::MAX as u32);
}
