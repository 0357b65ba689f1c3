//! Locks in lines that all members of a window map: so nobody waits for a target that computes.
//!
//! Requirements of MPI-5.0 section 12.5.
#![allow(unsafe_code)]

use farpost_fabric::member_lock::{MemberLock, SharedWords};
use std::sync::atomic::{AtomicU64, Ordering};

const LINE_BYTES: usize = 64;
/// Looks in vain, after which the holder may have died.
const PATIENCE: u32 = 1000;

/// Words of a member's, from an address on.
#[derive(Clone, Copy)]
pub(crate) struct Words(usize);

impl SharedWords for Words {
    #[cfg(not(loom))]
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the caller of `Lines::at` promised as many lines.
        unsafe { &*(core::ptr::with_exposed_provenance::<AtomicU64>(self.0 + 8 * at)) }
    }
    // Loom's atomics are no words of shared memory: its models have words of their own.
    #[cfg(loom)]
    fn word(&self, _at: usize) -> &farpost_fabric::sync::AtomicU64 {
        unreachable!()
    }
}

/// The lines of one member: the accumulate lock, and the window's lock.
pub(crate) struct Lines {
    at: usize,
    pub lock: MemberLock<Words>,
}

impl Lines {
    /// Bytes of the lines of one of `size` members.
    pub(crate) fn bytes(size: usize) -> usize {
        LINE_BYTES + 8 * MemberLock::<Words>::words(size)
    }

    /// # Safety
    /// Zeroed at first, mapped as long as this is used, aligned to a line, and used as [`Lines`] of so many members alone.
    pub(crate) unsafe fn at(address: usize, size: usize) -> Self {
        Self {
            at: address,
            lock: MemberLock::new(Words(address + LINE_BYTES), size),
        }
    }

    /// Run `body` while no other accumulate operation of this member's memory runs. A holder that has died holds nothing.
    pub(crate) fn alone<T>(&self, me: i32, has_died: impl Fn(i32) -> bool, body: impl FnOnce() -> T) -> T {
        // SAFETY: `at`'s caller promised it.
        let word = unsafe { &*(core::ptr::with_exposed_provenance::<AtomicU64>(self.at)) };
        let mine = me as u64 + 1;
        let mut looks = 0u32;
        while let Err(holder) = word.compare_exchange_weak(0, mine, Ordering::Acquire, Ordering::Relaxed) {
            looks = looks.wrapping_add(1);
            // Who has it may have lost its core.
            if looks.is_multiple_of(100) {
                std::thread::yield_now();
            }
            if looks.is_multiple_of(PATIENCE) && holder != 0 && has_died(holder as i32 - 1) {
                let _ = word.compare_exchange(holder, 0, Ordering::Acquire, Ordering::Relaxed);
            }
            std::hint::spin_loop();
        }
        let result = body();
        word.store(0, Ordering::Release);
        result
    }
}

/// When a wait for a lock asks whether those that it waits for live.
#[derive(Default)]
pub(crate) struct Patience(u32);

impl Patience {
    /// Another look in vain. True: it is time to ask.
    pub(crate) fn is_over(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        self.0 > PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::LockKind;

    #[test]
    fn operations_of_several_threads_lose_nothing_and_the_dead_hold_nothing() {
        let memory: Vec<AtomicU64> = (0..Lines::bytes(3) / 8).map(|_| AtomicU64::new(0)).collect();
        let at = memory.as_ptr().expose_provenance();
        // One that is no more had it last.
        memory[0].store(3, Ordering::Relaxed);
        let counts = [const { AtomicU64::new(0) }; 2];
        std::thread::scope(|scope| {
            for rank in 0..2 {
                let counts = &counts;
                scope.spawn(move || {
                    // SAFETY: zeroed but for a holder, and kept to the end.
                    let lines = unsafe { Lines::at(at, 3) };
                    for _ in 0..500 {
                        // A load and a store apart, which only the lock keeps together.
                        let add = |at: usize| {
                            let count: &AtomicU64 = &counts[at];
                            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        };
                        lines.alone(rank, |other| other == 2, || add(0));
                        let kind = LockKind::Exclusive;
                        while !lines.lock.try_lock(kind, rank as usize) {
                            std::thread::yield_now();
                        }
                        add(1);
                        lines.lock.unlock(kind, rank as usize);
                    }
                });
            }
        });
        assert_eq!(counts.map(AtomicU64::into_inner), [1000, 1000]);
    }
}
