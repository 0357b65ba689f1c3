//! The buffer pool of an area: only its owner allocates, so there is no lock.

use crate::rest::REST;
use farpost_fabric::Moment;
use std::ops::Range;

/// A receiver may have so many times the blocks that it leaves free: one alone three quarters of the pool, and a few that take
/// nothing leave some to others; the last free block is for one who has none. Who finds none needs another way, which there is.
const SHARE: u32 = 3;

/// Free blocks, last freed first: its lines are the likeliest to be in a cache still.
pub struct Pool {
    free: Vec<u32>,
    /// `None`: the pool is one receiver's.
    share: Option<u32>,
    /// Whether a block was taken since the last look.
    taken: bool,
    /// Since when none was taken, until what is free is given back.
    quiet: Option<Moment>,
}

impl Pool {
    /// A pool of `blocks` free blocks, for one receiver or for several.
    pub fn new(blocks: u32, shared: bool) -> Self {
        Self {
            free: (0..blocks).rev().collect(),
            share: shared.then_some(SHARE),
            taken: false,
            quiet: None,
        }
    }

    /// A block for a receiver that has `lent` of them, if one is free and it does not have its share.
    #[inline]
    pub fn take(&mut self, lent: u32) -> Option<u32> {
        let left = (self.free.len() as u32).saturating_sub(1);
        if lent > 0 && self.share.is_some_and(|share| lent >= share * left) {
            return None;
        }
        self.taken = true;
        self.free.pop()
    }

    /// Runs of free blocks, once after none was taken for [`REST`].
    pub fn unused(&mut self, now: Moment) -> Vec<Range<u32>> {
        if std::mem::take(&mut self.taken) {
            self.quiet = Some(now);
        }
        if self.quiet.is_none_or(|since| now.since(since) < REST) {
            return Vec::new();
        }
        self.quiet = None;
        self.free.sort_unstable_by(|a, b| b.cmp(a));
        let runs = self.free.chunk_by(|next, block| *next == block + 1);
        runs.map(|run| run[run.len() - 1]..run[0] + 1).collect()
    }

    /// The blocks that are taken next, in order.
    #[inline]
    pub fn next(&self) -> impl Iterator<Item = u32> {
        self.free.iter().rev().copied()
    }

    /// Give a block back.
    #[inline]
    pub fn give(&mut self, block: u32) {
        debug_assert!(!self.free.contains(&block), "block {block} given back twice");
        self.free.push(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn free_blocks_are_given_back_once_after_a_rest() {
        let start = Moment::START;
        let after = |ms| start + Duration::from_millis(ms);
        let mut pool = Pool::new(10, true);
        assert!(pool.unused(after(10_000)).is_empty(), "no block was ever used");
        let [a, _b, c] = [0; 3].map(|lent| pool.take(lent).unwrap());
        assert!(pool.unused(after(10_000)).is_empty());
        pool.give(c);
        pool.give(a);
        assert!(pool.unused(after(10_499)).is_empty());
        assert_eq!(pool.unused(after(10_500)), [2..10, 0..1]);
        assert!(pool.unused(after(20_000)).is_empty());
        assert_eq!(pool.take(1), Some(0), "the lowest first again");
    }

    #[test]
    fn receivers_that_take_nothing_leave_a_block_for_the_next() {
        for blocks in [8, 128, 1000] {
            for others in 1..=2 {
                let mut pool = Pool::new(blocks, true);
                for _ in 0..others {
                    let mut lent = 0;
                    while pool.take(lent).is_some() {
                        lent += 1;
                    }
                }
                assert!(pool.take(0).is_some(), "{others} others, {blocks} blocks");
            }
            let mut alone = Pool::new(blocks, false);
            assert_eq!(
                (0..).take_while(|lent| alone.take(*lent).is_some()).count(),
                blocks as usize
            );
        }
    }
}
