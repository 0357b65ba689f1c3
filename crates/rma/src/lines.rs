//! Locks in lines that all members of a window map: so nobody waits for a target that computes.
//!
//! Requirements of MPI-5.0 section 12.5.
#![allow(unsafe_code)]

use crate::epoch::LockKind;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a member's lines: the accumulate lock, the lock's holders, the writers that wait.
pub(crate) const LINES: usize = 192;

/// The lines of one member.
#[derive(Clone, Copy)]
pub(crate) struct Lines(usize);

impl Lines {
    /// # Safety
    /// Zeroed at first, mapped as long as this is used, aligned to a line, and used as [`Lines`] alone.
    pub(crate) unsafe fn at(address: usize) -> Self {
        Self(address)
    }

    fn word(&self, line: usize) -> &AtomicU64 {
        // SAFETY: `at`'s caller promised as many lines.
        unsafe { &*(core::ptr::with_exposed_provenance::<AtomicU64>(self.0 + 64 * line)) }
    }

    /// Run `body` while no other accumulate operation of this member's memory runs.
    pub(crate) fn alone<T>(&self, body: impl FnOnce() -> T) -> T {
        let word = self.word(0);
        let mut looks = 0u32;
        while word
            .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            looks += 1;
            // Who has it may have lost its core.
            if looks.is_multiple_of(100) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        let result = body();
        word.store(0, Ordering::Release);
        result
    }

    fn writer(rank: i32) -> u64 {
        (rank as u64 + 1) << 32
    }

    /// A writer comes to wait: readers that come later let it pass.
    pub(crate) fn announce(&self) {
        self.word(2).fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn withdraw(&self) {
        self.word(2).fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether `rank` has got the lock.
    pub(crate) fn try_lock(&self, kind: LockKind, rank: i32) -> bool {
        let state = self.word(1);
        let now = state.load(Ordering::Relaxed);
        let then = match kind {
            LockKind::Exclusive if now == 0 => Self::writer(rank),
            LockKind::Shared if now >> 32 == 0 && self.word(2).load(Ordering::Relaxed) == 0 => now + 1,
            _ => return false,
        };
        state
            .compare_exchange(now, then, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    pub(crate) fn unlock(&self, kind: LockKind, rank: i32) {
        let amount = match kind {
            LockKind::Exclusive => Self::writer(rank),
            LockKind::Shared => 1,
        };
        self.word(1).fetch_sub(amount, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_exclude_all_and_pass_readers_that_come_later() {
        use LockKind::{Exclusive, Shared};
        let memory = [const { AtomicU64::new(0) }; LINES / 8];
        // SAFETY: zeroed, and kept to the end.
        let lines = unsafe { Lines::at(memory.as_ptr().expose_provenance()) };
        assert!(lines.try_lock(Shared, 0) && lines.try_lock(Shared, 1) && !lines.try_lock(Exclusive, 2));
        lines.announce();
        assert!(!lines.try_lock(Shared, 3));
        lines.unlock(Shared, 0);
        lines.unlock(Shared, 1);
        assert!(lines.try_lock(Exclusive, 2));
        lines.withdraw();
        assert!(!lines.try_lock(Shared, 3) && !lines.try_lock(Exclusive, 4));
        lines.unlock(Exclusive, 2);
        assert!(lines.try_lock(Shared, 3));
    }

    #[test]
    fn operations_of_several_threads_lose_nothing() {
        let memory = [const { AtomicU64::new(0) }; LINES / 8];
        let at = memory.as_ptr().expose_provenance();
        let count = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for rank in 0..3 {
                let count = &count;
                scope.spawn(move || {
                    // SAFETY: as above.
                    let lines = unsafe { Lines::at(at) };
                    for turn in 0..500 {
                        // A load and a store apart, which only the lock keeps together.
                        let add = || count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        if turn % 2 == 0 {
                            lines.alone(add);
                        } else {
                            lines.alone(|| ());
                            lines.alone(add);
                        }
                        let kind = LockKind::Shared;
                        while !lines.try_lock(kind, rank) {
                            std::thread::yield_now();
                        }
                        lines.unlock(kind, rank);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 1500);
    }
}
