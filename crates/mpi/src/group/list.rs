//! A group in arbitrary order, and its lookup from process id to rank.

use crate::Rank;
use std::cell::OnceCell;

pub(super) struct List {
    pids: Box<[u32]>,
    index: OnceCell<Index>,
}

/// Built on the first lookup: many groups are made only to make others.
enum Index {
    /// `ranks[pid - base]`, `ABSENT` when not a member. Used when the ids lie close together.
    Dense { base: u32, ranks: Box<[u32]> },
    /// `(pid, rank)` sorted by pid.
    Sorted(Box<[(u32, u32)]>),
}

const ABSENT: u32 = u32::MAX;

impl List {
    pub(super) fn new(pids: Box<[u32]>) -> Self {
        Self {
            pids,
            index: OnceCell::new(),
        }
    }

    #[inline]
    pub(super) fn pids(&self) -> &[u32] {
        &self.pids
    }

    pub(super) fn rank_of(&self, pid: u32) -> Option<Rank> {
        match self.index.get_or_init(|| Index::build(&self.pids)) {
            Index::Dense { base, ranks } => {
                let at = pid.checked_sub(*base)?;
                let rank = *ranks.get(at as usize)?;
                (rank != ABSENT).then_some(rank as Rank)
            }
            Index::Sorted(pairs) => {
                let at = pairs.binary_search_by_key(&pid, |pair| pair.0).ok()?;
                Some(pairs[at].1 as Rank)
            }
        }
    }

    pub(super) fn is_distinct(&self) -> bool {
        let mut sorted = self.pids.to_vec();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair[0] != pair[1])
    }
}

impl Index {
    fn build(pids: &[u32]) -> Self {
        let base = pids.iter().copied().min().unwrap_or(0);
        let top = pids.iter().copied().max().unwrap_or(0);
        let span = (top - base) as usize + 1;
        // Twice the memory of the sorted pairs is worth the constant time.
        if span <= pids.len() * 4 + 16 {
            let mut ranks = vec![ABSENT; span].into_boxed_slice();
            for (rank, pid) in pids.iter().enumerate() {
                ranks[(pid - base) as usize] = rank as u32;
            }
            return Self::Dense { base, ranks };
        }
        let mut pairs: Box<[(u32, u32)]> = pids
            .iter()
            .enumerate()
            .map(|(rank, pid)| (*pid, rank as u32))
            .collect();
        pairs.sort_unstable();
        Self::Sorted(pairs)
    }
}
