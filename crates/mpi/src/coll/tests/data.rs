//! Memory of the test programs: 64-bit values in several layouts, with guarded gaps.

use std::rc::Rc;

use super::net::Rng;
use crate::coll::{Block, Blocks};
use crate::datatype::Datatype;
use crate::op::Op;

/// What fills gaps.
const GUARD: u64 = 0xa5a5_5a5a_a5a5_5a5a;

/// How values lie in memory, in words of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One after the other.
    Plain,
    /// Each in the middle of three words.
    Gaps,
    /// Each two words before where its element begins.
    Before,
}

pub(super) const LAYOUTS: [Layout; 3] = [Layout::Plain, Layout::Gaps, Layout::Before];

impl Layout {
    pub(super) fn pick(rng: &mut Rng) -> Self {
        LAYOUTS[rng.below(3)]
    }

    /// (first word relative to the element, words from element to element).
    fn shape(self) -> (i64, i64) {
        match self {
            Self::Plain => (0, 1),
            Self::Gaps => (1, 3),
            Self::Before => (-2, 2),
        }
    }

    pub(super) fn datatype(self) -> Datatype {
        let word = Datatype::predefined(0x258).expect("MPI_INT64_T");
        let (first, extent) = self.shape();
        if self == Self::Plain {
            return word;
        }
        let moved = Datatype::hindexed(&[1], &[first * 8], &word).expect("a valid type");
        let ty = Datatype::resized(&moved, 0, extent * 8).expect("a valid type");
        ty.commit();
        ty
    }
}

/// Room for values in one layout.
pub(super) struct Mem {
    words: Vec<u64>,
    layout: Layout,
    ty: Datatype,
    len: usize,
}

impl Mem {
    pub(super) fn new(layout: Layout, len: usize) -> Self {
        Self {
            words: vec![GUARD; 3 * len + 8],
            layout,
            ty: layout.datatype(),
            len,
        }
    }

    fn word(&self, i: usize) -> usize {
        let (first, extent) = self.layout.shape();
        (4 + first + i as i64 * extent) as usize
    }

    pub(super) fn get(&self, i: usize) -> u64 {
        assert!(i < self.len);
        // SAFETY: the index is inside the vector; read so because schedules write behind the vector's back.
        unsafe { self.words.as_ptr().add(self.word(i)).read_volatile() }
    }

    pub(super) fn set(&mut self, i: usize, value: u64) {
        let at = self.word(i);
        self.words[at] = value;
    }

    pub(super) fn fill(&mut self, value: impl Fn(usize) -> u64) {
        for i in 0..self.len {
            self.set(i, value(i));
        }
    }

    pub(super) fn clear(&mut self) {
        self.fill(|i| 0xdead_0000 + i as u64);
    }

    /// Nothing was written between the values.
    pub(super) fn check_gaps(&self) {
        let mut used = vec![false; self.words.len()];
        (0..self.len).for_each(|i| used[self.word(i)] = true);
        for (at, word) in self.words.iter().enumerate().filter(|(at, _)| !used[*at]) {
            assert_eq!(*word, GUARD, "word {at} of {:?}, a gap, was written", self.layout);
        }
    }

    /// `count` elements from `first` on.
    pub(super) fn block(&mut self, first: usize, count: usize) -> Block {
        assert!(first + count <= self.len);
        let base = self.words.as_mut_ptr().wrapping_add(4).cast();
        // SAFETY: the block is inside the vector, which is not resized and outlives the schedules.
        unsafe { Block::new(base, 0, self.ty.clone()) }
            .part(first as u64, 0)
            .with_count(count as u64)
    }

    pub(super) fn all(&mut self) -> Block {
        self.block(0, self.len)
    }

    /// Blocks of `counts`, with one element between two of them.
    pub(super) fn blocks(&mut self, counts: &[usize]) -> Blocks {
        let displs = spread(counts);
        let base = self.block(0, 0);
        Blocks::v(
            &base,
            counts.iter().map(|&c| c as u64),
            displs.iter().map(|&d| d as i64),
        )
    }
}

/// Displacements of `v` blocks: in reverse order, one element between.
pub(super) fn spread(counts: &[usize]) -> Vec<usize> {
    let mut displs = vec![0; counts.len()];
    let mut at = 1;
    for i in (0..counts.len()).rev() {
        displs[i] = at;
        at += counts[i] + 1;
    }
    displs
}

/// Elements that blocks of `counts` need.
pub(super) fn room(counts: &[usize]) -> usize {
    counts.iter().map(|c| c + 1).sum::<usize>() + 1
}

/// The value with index `i` of a rank. Odd, for the operation that composes.
pub(super) fn value(group: usize, rank: usize, i: usize) -> u64 {
    Rng::new((group as u64) << 40 | (rank as u64) << 20 | i as u64).next() | 1
}

/// A user operation on values in `layout`: `compose` when `ordered`, else the sum.
pub(super) fn op(layout: Layout, ordered: bool, compose: fn(u64, u64) -> u64) -> Op {
    if layout == Layout::Plain && !ordered {
        return Op::SUM;
    }
    let (first, extent) = layout.shape();
    let function = move |input: *const u8, inout: *mut u8, n: u64, _: &Datatype| {
        for i in 0..n as i64 {
            let at = ((first + i * extent) * 8) as isize;
            let (x, y) = (
                input.wrapping_offset(at).cast::<u64>(),
                inout.wrapping_offset(at).cast::<u64>(),
            );
            // SAFETY: a reduction passes `n` elements of the datatype of `layout`.
            unsafe {
                *y = if ordered {
                    compose(*x, *y)
                } else {
                    (*x).wrapping_add(*y)
                }
            };
        }
    };
    Op::user(Rc::new(function), !ordered)
}
