//! The buffer pool of an area: only its owner allocates, so there is no lock.

/// Free blocks, last freed first: its lines are the likeliest to be in a cache still.
pub struct Pool {
    free: Vec<u32>,
}

impl Pool {
    /// A pool of `blocks` free blocks.
    pub fn new(blocks: u32) -> Self {
        Self {
            free: (0..blocks).rev().collect(),
        }
    }

    /// A block, if one is free.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
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
