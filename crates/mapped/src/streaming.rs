//! Whether copies for other cores use non-temporal stores.
//! When a buffer that messages go through is written again, its lines are in the cache of its last reader, and each has to be
//! fetched back from there. Between cores that share a cache that takes 2 to 8 ns a line, with many on their way at a time; between two dies of
//! an AMD EPYC 25 to 30 ns, whatever is fetched ahead: 17 µs for a message of 32 KiB that takes 3.7 µs otherwise. Non-temporal stores wait for no answer (1 to 3 ns a line), but the reader then finds the lines in memory: 4.5 µs for that message between dies, but 4.0 where
//! cores share a cache.
//!
//! How far apart two cores are the system tells only for cores that do not change, and virtual machines do not tell at all. The time of a copy does, so
//! one in a few is timed.
//!
//! Cost class: fast path; a timed copy takes two looks at the clock more.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A line that takes longer to store was fetched back from another die.
const FAR: Duration = Duration::from_nanos(14);
/// One of so many cached copies is timed; one of so many non-temporal copies is made cached and timed.
const TIMED: u32 = 8;
const RETRIED: u32 = 256;
/// Slow copies in a row, of those timed, before all copies are non-temporal: memory touched for the first time is slow too.
const SLOW: u32 = 3;

/// The policy of this process.
pub(super) static COPY_POLICY: CopyPolicy = CopyPolicy::new();

/// Chooses cached or non-temporal stores from the times of copies. Threads that use it at once may lose each other's counts.
pub(super) struct CopyPolicy {
    /// The shortest copy that may be non-temporal.
    shortest: AtomicUsize,
    streams: AtomicBool,
    copies: AtomicU32,
    slow: AtomicU32,
}

impl CopyPolicy {
    const fn new() -> Self {
        Self {
            shortest: AtomicUsize::new(usize::MAX),
            streams: AtomicBool::new(false),
            copies: AtomicU32::new(0),
            slow: AtomicU32::new(0),
        }
    }

    /// Set the shortest copy that may be non-temporal.
    pub fn from(&self, bytes: u64) {
        self.shortest
            .store(usize::try_from(bytes).unwrap_or(usize::MAX), Relaxed);
    }

    /// Whether a copy of so many bytes may be non-temporal.
    #[inline(always)]
    pub fn matters(&self, len: usize) -> bool {
        len >= self.shortest.load(Relaxed)
    }

    /// Whether a copy of so many bytes is non-temporal, but for the few that are timed.
    #[inline]
    pub fn streams(&self, len: usize) -> bool {
        self.matters(len) && self.streams.load(Relaxed)
    }

    /// Copy `len` bytes by one of two functions.
    #[inline(never)]
    pub fn copy(&self, len: usize, cached: impl FnOnce(), non_temporal: impl FnOnce()) {
        let (streams, copies) = (self.streams.load(Relaxed), self.copies.load(Relaxed));
        self.copies.store(copies.wrapping_add(1), Relaxed);
        if !copies.is_multiple_of(if streams { RETRIED } else { TIMED }) {
            if streams {
                non_temporal()
            } else {
                cached()
            }
            return;
        }
        let before = Instant::now();
        cached();
        self.learn(len, before.elapsed());
    }

    /// A cached copy took so long.
    fn learn(&self, len: usize, took: Duration) {
        let slow = if took > FAR * (len / 64) as u32 {
            (self.slow.load(Relaxed) + 1).min(SLOW)
        } else {
            0
        };
        self.slow.store(slow, Relaxed);
        if slow == 0 || slow == SLOW {
            self.streams.store(slow == SLOW, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// How many of so many copies of 4 KiB were non-temporal.
    fn streamed(way: &CopyPolicy, copies: u32) -> u32 {
        let streamed = Cell::new(0);
        for _ in 0..copies {
            way.copy(4096, || (), || streamed.set(streamed.get() + 1));
        }
        streamed.get()
    }

    #[test]
    fn slow_copies_go_past_the_caches_until_they_are_quick_again() {
        let way = CopyPolicy::new();
        way.from(2048);
        assert!(way.matters(2048) && !way.matters(2047) && !way.streams(1 << 20));
        for _ in 0..SLOW - 1 {
            way.learn(4096, Duration::from_micros(2));
        }
        assert!(!way.streams(4096));
        // One quick copy in between, and all begins anew.
        way.learn(4096, Duration::from_nanos(400));
        for _ in 0..SLOW {
            assert!(!way.streams(4096));
            way.learn(4096, Duration::from_micros(2));
        }
        assert!(way.streams(4096) && !way.streams(2047));
        way.learn(4096, Duration::from_micros(2));
        assert!(way.streams(4096));
        // Of so many one is tried; a copy of nothing is quick, unless something comes between.
        while way.streams(4096) {
            way.copies.store(1, Relaxed);
            assert_eq!(streamed(&way, RETRIED), RETRIED - 1);
        }
    }

    #[test]
    fn a_few_copies_are_timed() {
        let way = CopyPolicy::new();
        way.from(0);
        let copied = Cell::new(0);
        for _ in 0..10 * TIMED {
            way.copy(
                4096,
                || copied.set(copied.get() + 1),
                || panic!("nothing was slow"),
            );
        }
        assert_eq!(copied.get(), 10 * TIMED);
    }
}
