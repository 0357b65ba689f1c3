//! The lock of a target's window: first come, first served, so that nobody starves.
//!
//! Requirements of MPI-5.0 sections 12.5, 12.5.3.

use crate::epoch::LockKind;
use std::collections::{BTreeSet, VecDeque};

#[derive(Debug, Default)]
pub(crate) struct Lock {
    exclusive: Option<i32>,
    shared: BTreeSet<i32>,
    waiting: VecDeque<(i32, LockKind)>,
}

impl Lock {
    pub(crate) fn ask(&mut self, rank: i32, kind: LockKind) {
        self.waiting.push_back((rank, kind));
    }

    /// The next who gets it, if it may be had.
    pub(crate) fn grant(&mut self) -> Option<i32> {
        let (rank, kind) = *self.waiting.front()?;
        let free = self.exclusive.is_none();
        match kind {
            LockKind::Exclusive if free && self.shared.is_empty() => self.exclusive = Some(rank),
            LockKind::Shared if free => _ = self.shared.insert(rank),
            _ => return None,
        }
        self.waiting.pop_front();
        Some(rank)
    }

    pub(crate) fn release(&mut self, rank: i32) {
        if self.exclusive == Some(rank) {
            self.exclusive = None;
        }
        self.shared.remove(&rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_not_overtaken_by_readers_that_came_later() {
        use LockKind::{Exclusive, Shared};
        let mut lock = Lock::default();
        for (rank, kind) in [(0, Shared), (1, Shared), (2, Exclusive), (3, Shared)] {
            lock.ask(rank, kind);
        }
        let all = |lock: &mut Lock| std::iter::from_fn(|| lock.grant()).collect::<Vec<_>>();
        assert_eq!(all(&mut lock), [0, 1]);
        lock.release(1);
        assert_eq!(all(&mut lock), []);
        lock.release(0);
        assert_eq!(all(&mut lock), [2]);
        lock.release(2);
        assert_eq!(all(&mut lock), [3]);
    }
}
