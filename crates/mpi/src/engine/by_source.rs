//! Queues by the rank they are of.
//!
//! Cost class: *fast path* for the first [`NEAR`] ranks: a table. Those of the others are in a tree, so that a process of a very large job keeps queues of those
//! only that it talks with.

use std::collections::BTreeMap;

/// Ranks of which the table may have queues.
const NEAR: usize = 1024;

/// A queue for each rank, made when it is first needed.
pub(super) struct BySource<Q> {
    near: Vec<Q>,
    far: BTreeMap<usize, Q>,
}

impl<Q> Default for BySource<Q> {
    fn default() -> Self {
        Self {
            near: Vec::new(),
            far: BTreeMap::new(),
        }
    }
}

impl<Q: Default> BySource<Q> {
    /// The queue of a rank, if there is one.
    #[inline(always)]
    pub fn get(&self, rank: usize) -> Option<&Q> {
        match self.near.get(rank) {
            Some(queue) => Some(queue),
            None => self.get_far(rank),
        }
    }

    #[inline(never)]
    fn get_far(&self, rank: usize) -> Option<&Q> {
        self.far.get(&rank)
    }

    /// The same to be changed, if it is in the table: others are found by [`get_mut`](Self::get_mut).
    #[inline(always)]
    pub fn near_mut(&mut self, rank: usize) -> Option<&mut Q> {
        self.near.get_mut(rank)
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, rank: usize) -> Option<&mut Q> {
        if rank < self.near.len() {
            return Some(&mut self.near[rank]);
        }
        self.far_mut(rank)
    }

    #[inline(never)]
    fn far_mut(&mut self, rank: usize) -> Option<&mut Q> {
        self.far.get_mut(&rank)
    }

    /// The queue of a rank, which is made if there is none.
    #[inline(always)]
    pub fn make(&mut self, rank: usize) -> &mut Q {
        if rank < self.near.len() {
            return &mut self.near[rank];
        }
        self.grow(rank)
    }

    #[cold]
    fn grow(&mut self, rank: usize) -> &mut Q {
        if rank >= NEAR {
            return self.far.entry(rank).or_default();
        }
        self.near.resize_with(rank + 1, Q::default);
        &mut self.near[rank]
    }

    /// All queues, with their ranks in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Q)> {
        let far = self.far.iter().map(|(rank, queue)| (*rank, queue));
        self.near.iter().enumerate().chain(far)
    }

    /// All queues, in order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Q> {
        self.near.iter_mut().chain(self.far.values_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_far_ranks_are_as_those_of_near_ones() {
        let mut queues = BySource::<Vec<u8>>::default();
        for rank in [70_000, 5, NEAR, NEAR - 1] {
            assert!(queues.get(rank).is_none_or(Vec::is_empty));
            queues.make(rank).push(rank as u8);
            queues.make(rank).push(1);
            assert_eq!(queues.get_mut(rank).map(|queue| queue.len()), Some(2));
        }
        assert_eq!(queues.near.len(), NEAR);
        queues.iter_mut().for_each(|queue| queue.truncate(1));
        let filled: Vec<_> = queues.iter().filter(|(_, queue)| !queue.is_empty()).collect();
        let one = |rank: usize| vec![rank as u8];
        assert_eq!(
            filled,
            [
                (5, &one(5)),
                (NEAR - 1, &one(NEAR - 1)),
                (NEAR, &one(NEAR)),
                (70_000, &one(70_000))
            ]
        );
        assert!(queues.get(80_000).is_none());
    }
}
