//! Comparing and combining whole groups, and translating ranks between them (MPI-5.0 sections 7.3.1, 7.3.2).

use super::{Comparison, Group, PROC_NULL, UNDEFINED};
use crate::{Rank, Result};

impl Group {
    /// `MPI_Group_compare`: `Ident`, `Similar` or `Unequal`.
    pub fn compare(&self, other: &Self) -> Comparison {
        if self == other {
            Comparison::Ident
        } else if self.size() == other.size() && self.iter().all(|pid| other.contains(pid)) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    /// `MPI_Group_union`: all of `self`, then those of `other` that are not in `self`.
    pub fn union(&self, other: &Self) -> Self {
        if self == other || other.is_empty() {
            return self.clone();
        }
        let mut pids = self.to_pids();
        pids.extend(other.iter().filter(|pid| !self.contains(*pid)));
        Self::from_pids(&pids)
    }

    /// `MPI_Group_intersection`: those of `self` that are also in `other`, in the order of `self`.
    pub fn intersection(&self, other: &Self) -> Self {
        self.filtered(|pid| other.contains(pid))
    }

    /// `MPI_Group_difference`: those of `self` that are not in `other`, in the order of `self`.
    pub fn difference(&self, other: &Self) -> Self {
        self.filtered(|pid| !other.contains(pid))
    }

    fn filtered(&self, keep: impl Fn(u32) -> bool) -> Self {
        let pids: Vec<u32> = self.iter().filter(|pid| keep(*pid)).collect();
        Self::from_pids(&pids)
    }

    /// `MPI_Group_translate_ranks`: the ranks in `other` of the processes with `ranks` in `self`, written to
    /// the start of `out` (`MPI_UNDEFINED` for those not in `other`; `MPI_PROC_NULL` stays itself).
    ///
    /// # Errors
    /// `MPI_ERR_RANK`: a rank that `self` does not have.
    pub fn translate_ranks(&self, ranks: &[Rank], other: &Self, out: &mut [Rank]) -> Result<()> {
        for (at, (rank, slot)) in ranks.iter().zip(out).enumerate() {
            *slot = match (*rank, self.pid(*rank)) {
                (PROC_NULL, _) => PROC_NULL,
                (_, Some(pid)) => other.rank_of(pid).unwrap_or(UNDEFINED),
                (rank, None) => {
                    return fail!(ERR_RANK: "ranks1[{at}]={rank}: group1 has {}", self.ranks_sentence());
                }
            };
        }
        Ok(())
    }
}
