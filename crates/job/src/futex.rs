//! Sleeping on a word of shared memory.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleep until somebody wakes `word`, it no longer holds `expected`, the time is over, or for no reason.
pub(crate) fn wait(word: &AtomicU32, expected: u32, time: Duration) {
    let timeout = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the word outlives the call; FUTEX_WAIT only reads it. Every result means "look again".
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &timeout,
        )
    };
}

/// The host's monotonic clock.
pub(crate) fn nanos() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists everywhere; the result goes to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Wake all processes that sleep on `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE does not access the word; its address is only a key.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
