//! The buffer pool of an area: only its owner allocates, so there is no lock.
//!
//! What was touched before is taken before what was not, so that the pool costs as much memory as was under way at once. Short
//! messages take a part of a block, so that several share a page.

use crate::area::PARTS;
use farpost_fabric::Moment;
use std::ops::Range;
use std::time::Duration;

/// So long unused, memory is given back.
pub const REST: Duration = Duration::from_millis(500);

/// A receiver may have so many times the parts that it leaves free: one alone three quarters of the pool, and a few that take
/// nothing leave some to others; the last free block is for one who has none. Who finds none needs another way, which there is.
const SHARE: u32 = 3;

/// What is wanted of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Block,
    Part,
}

impl Size {
    /// Parts of a block that it takes.
    #[inline]
    pub fn parts(self) -> u32 {
        match self {
            Size::Block => PARTS,
            Size::Part => 1,
        }
    }
}

/// Free blocks, last freed first: its lines are the likeliest to be in a cache still.
pub struct Pool {
    blocks: u32,
    /// Blocks from this one on were never taken, or are as if they had not been: they were given back.
    fresh: u32,
    /// Whole blocks before that which are free.
    free: Vec<u32>,
    /// Blocks that are used in parts, some of which are free: a bit for each of those.
    open: Vec<(u32, u8)>,
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
            blocks,
            fresh: 0,
            free: Vec::new(),
            open: Vec::new(),
            share: shared.then_some(SHARE),
            taken: false,
            quiet: None,
        }
    }

    /// Whether it has nothing of that size that was touched before.
    #[inline]
    pub fn is_untouched(&self, size: Size) -> bool {
        self.free.is_empty() && (size == Size::Block || self.open.is_empty())
    }

    /// The number of a block, or of a part of one, for a receiver that has `lent` parts, if one is free and it does not have its
    /// share.
    #[inline]
    pub fn take(&mut self, lent: u32, size: Size) -> Option<u32> {
        if let Some(share) = self.share {
            let whole = self.free.len() as u32 + self.blocks - self.fresh;
            let parts: u32 = self.open.iter().map(|(_, free)| free.count_ones()).sum();
            let left = (whole * PARTS + parts).saturating_sub(size.parts());
            if lent > 0 && lent >= share * left {
                return None;
            }
        }
        self.taken = true;
        if size == Size::Block {
            return self.take_whole();
        }
        if self.open.is_empty() {
            let block = self.take_whole()?;
            self.open.push((block, u8::MAX));
        }
        let (block, free) = self.open.last_mut()?;
        let part = free.trailing_zeros();
        let number = self.blocks + *block * PARTS + part;
        *free &= !(1 << part);
        if *free == 0 {
            self.open.pop();
        }
        Some(number)
    }

    #[inline]
    fn take_whole(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let block = self.fresh;
            self.fresh += u32::from(block < self.blocks);
            (block < self.blocks).then_some(block)
        })
    }

    /// Runs of free blocks that were touched, once after none was taken for [`REST`].
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
        let runs = runs.map(|run| run[run.len() - 1]..run[0] + 1).collect();
        let last = (0..)
            .zip(&self.free)
            .take_while(|(at, block)| **block + at + 1 == self.fresh);
        let last = last.count();
        self.free.drain(..last);
        self.fresh -= last as u32;
        self.free.shrink_to_fit();
        runs
    }

    /// The blocks that are taken next, in order.
    #[inline]
    pub fn next(&self) -> impl Iterator<Item = u32> {
        self.free.iter().rev().copied()
    }

    /// The part that is taken next, if one is free that was touched.
    #[inline]
    pub fn next_part(&self) -> Option<u32> {
        let first = |(block, free): &(u32, u8)| self.blocks + *block * PARTS + free.trailing_zeros();
        let split = || Some(self.blocks + *self.free.last()? * PARTS);
        self.open.last().map(first).or_else(split)
    }

    /// Parts of a block that the number of a block or of a part stands for.
    #[inline]
    pub fn parts(&self, number: u32) -> u32 {
        if number < self.blocks { PARTS } else { 1 }
    }

    /// Give a block, or a part of one, back.
    #[inline]
    pub fn give(&mut self, number: u32) {
        let Some(part) = number.checked_sub(self.blocks) else {
            debug_assert!(!self.free.contains(&number), "block {number} given back twice");
            return self.free.push(number);
        };
        let (block, bit) = (part / PARTS, 1 << (part % PARTS));
        match self.open.iter().rposition(|(of, _)| *of == block) {
            None => self.open.push((block, bit)),
            Some(at) => {
                let free = &mut self.open[at].1;
                debug_assert!(*free & bit == 0, "part {number} given back twice");
                *free |= bit;
                if *free == u8::MAX {
                    self.open.remove(at);
                    self.free.push(block);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_blocks_are_given_back_once_after_a_rest() {
        let start = Moment::START;
        let after = |ms| start + Duration::from_millis(ms);
        let mut pool = Pool::new(10, true);
        assert!(pool.unused(after(10_000)).is_empty(), "no block was ever used");
        let [a, _b, c] = [0; 3].map(|lent| pool.take(lent, Size::Block).unwrap());
        assert!(pool.unused(after(10_000)).is_empty());
        pool.give(c);
        pool.give(a);
        assert!(pool.unused(after(10_499)).is_empty());
        assert_eq!(
            pool.unused(after(10_500)),
            [2..3, 0..1],
            "the others were not touched"
        );
        assert!(pool.unused(after(20_000)).is_empty());
        assert_eq!(pool.take(PARTS, Size::Block), Some(0), "the lowest first again");
    }

    /// Whatever is taken and given back: no byte is anybody else's, and what was touched is taken first.
    #[test]
    fn blocks_and_parts_never_overlap() {
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let blocks = rng.u32(8..40);
            let mut pool = Pool::new(blocks, false);
            let (mut taken, mut used) = (Vec::new(), vec![0u8; (blocks * PARTS) as usize]);
            let (mut at_once, mut touched) = (0, 0);
            for _ in 0..2000 {
                let all = |number: u32| match number.checked_sub(blocks) {
                    None => number * PARTS..(number + 1) * PARTS,
                    Some(part) => part..part + 1,
                };
                if rng.bool() {
                    let size = if rng.bool() { Size::Block } else { Size::Part };
                    let untouched = pool.is_untouched(size);
                    let Some(number) = pool.take(0, size) else {
                        assert!(untouched, "there is one");
                        continue;
                    };
                    assert_eq!(pool.parts(number), size.parts());
                    all(number).for_each(|part| used[part as usize] += 1);
                    assert!(used.iter().all(|users| *users <= 1));
                    taken.push(number);
                    at_once = at_once.max(used.chunks(8).filter(|block| block.contains(&1)).count());
                    touched = touched.max(all(number).end.div_ceil(PARTS) as usize);
                } else if !taken.is_empty() {
                    let number = taken.swap_remove(rng.usize(0..taken.len()));
                    all(number).for_each(|part| used[part as usize] -= 1);
                    pool.give(number);
                }
            }
            assert!(
                touched <= at_once,
                "{touched} blocks were touched, {at_once} used at once"
            );
            taken.drain(..).for_each(|number| pool.give(number));
            assert_eq!(
                (0..).take_while(|_| pool.take(0, Size::Block).is_some()).count(),
                blocks as usize
            );
        }
    }

    #[test]
    fn receivers_that_take_nothing_leave_a_block_for_the_next() {
        for blocks in [8, 128, 1000] {
            for others in 1..=2 {
                let mut pool = Pool::new(blocks, true);
                for _ in 0..others {
                    let mut lent = 0;
                    while pool.take(lent, Size::Block).is_some() {
                        lent += PARTS;
                    }
                }
                assert!(
                    pool.take(0, Size::Block).is_some(),
                    "{others} others, {blocks} blocks"
                );
            }
            let mut alone = Pool::new(blocks, false);
            assert_eq!(
                (0..)
                    .take_while(|lent| alone.take(*lent * PARTS, Size::Block).is_some())
                    .count(),
                blocks as usize
            );
        }
    }
}
