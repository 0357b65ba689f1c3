//! The buffer pool of an area: only its owner allocates, so there is no lock.

/// A receiver may have so many times the blocks that it leaves free: one alone three quarters of the pool, and a few that take
/// nothing leave some to others; the last free block is for one who has none. Who finds none needs another way, which there is.
const SHARE: u32 = 3;

/// Free blocks, last freed first: its lines are the likeliest to be in a cache still.
pub struct Pool {
    free: Vec<u32>,
    /// `None`: the pool is one receiver's.
    share: Option<u32>,
}

impl Pool {
    /// A pool of `blocks` free blocks, for one receiver or for several.
    pub fn new(blocks: u32, shared: bool) -> Self {
        Self {
            free: (0..blocks).rev().collect(),
            share: shared.then_some(SHARE),
        }
    }

    /// A block for a receiver that has `lent` of them, if one is free and it does not have its share.
    #[inline]
    pub fn take(&mut self, lent: u32) -> Option<u32> {
        let left = (self.free.len() as u32).saturating_sub(1);
        if lent > 0 && self.share.is_some_and(|share| lent >= share * left) {
            return None;
        }
        self.free.pop()
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
