//! Process groups (MPI-5.0 section 7.3): ordered sets of processes.
//!
//! Cost: `size`, `pid` and `rank_of` are on the fast path and constant time; everything else is set-up path.
//! A group whose process ids are an arithmetic progression (all of `MPI_COMM_WORLD`, every row and column
//! of a Cartesian grid) takes no memory; any other is one shared array with an index built when first asked.
//!
//! Requirements of MPI-5.0 section 7.3.1.

mod list;
mod select;
mod sets;
#[cfg(test)]
mod tests;

use crate::Rank;
use list::List;
use std::rc::Rc;

/// `MPI_UNDEFINED`.
pub const UNDEFINED: i32 = -32766;
/// `MPI_PROC_NULL`.
pub const PROC_NULL: Rank = -3;

/// An ordered set of processes, each named by its process id in the job. Cheap to clone, immutable.
#[derive(Clone)]
pub struct Group(Repr, Origin);

/// The session that a group was derived from, by its handle; 0: none.
type Origin = usize;

#[derive(Clone)]
enum Repr {
    /// The process of rank `r` is `first + r * stride`. The stride is 1 when there are fewer than two.
    Run {
        first: u32,
        stride: i32,
        n: u32,
    },
    List(Rc<List>),
}

/// How two groups or communicators compare. The numbers are the ABI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Comparison {
    /// `MPI_IDENT`: same members in the same order (for communicators: the same object).
    Ident = 201,
    /// `MPI_CONGRUENT`: communicators only, same group and another context.
    Congruent = 202,
    /// `MPI_SIMILAR`: same members in another order.
    Similar = 203,
    /// `MPI_UNEQUAL`
    Unequal = 204,
}

impl Group {
    /// `MPI_GROUP_EMPTY`.
    pub fn empty() -> Self {
        Self::run(0, 1, 0)
    }

    /// The processes `0..n` in order.
    pub fn all(n: u32) -> Self {
        Self::run(0, 1, n)
    }

    fn run(first: u32, stride: i32, n: u32) -> Self {
        Self(Repr::Run { first, stride, n }, 0)
    }

    /// The processes `pids` in that order. They must be distinct (checked in debug builds only: callers
    /// of the C interface never pass process ids).
    pub fn from_pids(pids: &[u32]) -> Self {
        if let Some(group) = Self::as_run(pids) {
            return group;
        }
        let list = List::new(pids.into());
        debug_assert!(list.is_distinct(), "process named twice in {pids:?}");
        Self(Repr::List(Rc::new(list)), 0)
    }

    fn as_run(pids: &[u32]) -> Option<Self> {
        let [first, second, ..] = *pids else {
            return Some(Self::run(
                pids.first().copied().unwrap_or(0),
                1,
                pids.len() as u32,
            ));
        };
        let stride = i64::from(second) - i64::from(first);
        let even = pids
            .windows(2)
            .all(|pair| i64::from(pair[1]) - i64::from(pair[0]) == stride);
        let stride = i32::try_from(stride).ok().filter(|s| *s != 0 && even)?;
        Some(Self::run(first, stride, pids.len() as u32))
    }

    /// The same group, derived from the session with this handle (0: from none; MPI-5.0 section 11.3).
    #[must_use]
    pub fn of_session(mut self, session: usize) -> Self {
        self.1 = session;
        self
    }

    /// The handle of the session that it was derived from; 0: none.
    pub fn session(&self) -> usize {
        self.1
    }

    /// Number of processes.
    #[inline]
    pub fn size(&self) -> u32 {
        match &self.0 {
            Repr::Run { n, .. } => *n,
            Repr::List(list) => list.pids().len() as u32,
        }
    }

    /// The process of rank 0 and the number of ranks, if ranks and process ids grow together.
    pub(crate) fn as_range(&self) -> Option<(u32, u32)> {
        match self.0 {
            Repr::Run { first, stride: 1, n } => Some((first, n)),
            _ => None,
        }
    }

    /// True when no process is in the group.
    pub fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// The process id of `rank`; `None` when the group has no such rank.
    #[inline]
    pub fn pid(&self, rank: Rank) -> Option<u32> {
        let rank = u32::try_from(rank).ok()?;
        match &self.0 {
            Repr::Run { first, stride, n } => {
                (rank < *n).then(|| first.wrapping_add(rank.wrapping_mul(*stride as u32)))
            }
            Repr::List(list) => list.pids().get(rank as usize).copied(),
        }
    }

    /// The rank of process `pid`; `None` when it is not a member.
    #[inline]
    pub fn rank_of(&self, pid: u32) -> Option<Rank> {
        match &self.0 {
            Repr::Run { first, stride: 1, n } => {
                let rank = pid.wrapping_sub(*first);
                (rank < *n).then_some(rank as Rank)
            }
            Repr::Run { first, stride, n } => {
                let distance = i64::from(pid) - i64::from(*first);
                let stride = i64::from(*stride);
                let rank = distance / stride;
                (distance % stride == 0 && (0..i64::from(*n)).contains(&rank)).then_some(rank as Rank)
            }
            Repr::List(list) => list.rank_of(pid),
        }
    }

    /// The rank of process `pid`, or `MPI_UNDEFINED`: what `MPI_Group_rank` returns.
    pub fn rank_or_undefined(&self, pid: u32) -> Rank {
        self.rank_of(pid).unwrap_or(UNDEFINED)
    }

    /// True when process `pid` is a member.
    pub fn contains(&self, pid: u32) -> bool {
        self.rank_of(pid).is_some()
    }

    /// True when the process id of every rank is the rank itself.
    #[inline]
    pub fn is_identity(&self) -> bool {
        matches!(
            self.0,
            Repr::Run { n: 0, .. }
                | Repr::Run {
                    first: 0,
                    stride: 1,
                    ..
                }
        )
    }

    /// The process ids in rank order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        (0..self.size() as Rank).map(|rank| self.pid(rank).expect("rank is below the size"))
    }

    /// The process ids in rank order, as an array.
    pub fn to_pids(&self) -> Vec<u32> {
        self.iter().collect()
    }

    /// "ranks 0 to 3", for messages.
    pub fn ranks_sentence(&self) -> String {
        match self.size() {
            0 => "no ranks".into(),
            1 => "only rank 0".into(),
            n => format!("ranks 0 to {}", n - 1),
        }
    }
}

/// Same members in the same order.
impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::List(a), Repr::List(b)) => Rc::ptr_eq(a, b) || a.pids() == b.pids(),
            // One form per sequence: an arithmetic progression is never stored as a list.
            (
                Repr::Run { first, stride, n },
                Repr::Run {
                    first: first2,
                    stride: stride2,
                    n: n2,
                },
            ) => n == n2 && (*n == 0 || (first == first2 && (*n == 1 || stride == stride2))),
            _ => false,
        }
    }
}

impl Eq for Group {}

impl core::fmt::Debug for Group {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match &self.0 {
            Repr::Run { first, stride, n } => write!(f, "Group({n} from {first} by {stride})"),
            Repr::List(list) => write!(f, "Group{:?}", list.pids()),
        }
    }
}
