//! Collective communication (MPI-5.0 chapter 6) as schedules that do not know how messages move.
//!
//! A builder ([`bcast`], [`allreduce`], ...: one file each) turns the arguments of a collective at one rank
//! into a [`Plan`]: sends, receives, copies and reductions with their dependencies. A [`Schedule`] runs a
//! plan over a [`Transport`] without ever blocking; blocking, nonblocking and persistent collectives are the
//! same plan, waited for, polled, or run again.
//!
//! Two ways do without a plan and without messages, for blocking collectives: they are `world/coll`'s.
//!
//! What all builders rely on: the signatures of matching blocks are the same at both ends (so a block empty
//! at one end is empty at the other, and no message is sent for it), and every choice of algorithm depends
//! only on values that are the same at all ranks.
//!
//! Cost class: set-up path for building (linear in ranks), queued path for running.
//!
//! Requirements of MPI-5.0 section 6.2.3.
//!
//! The tag of a collective's messages is its number among those of its kind on the communicator; of a persistent one it is the number of its
//! making. So persistent collectives match in whatever order they are started, and rounds of one cannot mix, because messages of one tag are
//! received in order.

mod agree;
mod allgather;
mod allreduce;
mod alltoall;
mod barrier;
mod bcast;
mod direct;
mod hosts;
pub(crate) mod mem;
mod neighbor;
mod plan;
mod reduce;
mod reduce_scatter;
mod rooted;
mod scan;
mod schedule;
#[cfg(test)]
mod tests;
mod tuning;

pub(crate) use agree::agree;
pub use allgather::{allgather, allgatherv};
pub use allreduce::allreduce;
pub use alltoall::{alltoall, alltoallv};
pub use barrier::barrier;
pub use bcast::bcast;
pub use hosts::Hosts;
pub use mem::{Block, Blocks, Pool};
pub use neighbor::{Neighbors, neighbor_allgather, neighbor_alltoall};
pub use plan::{Lane, Plan};
pub use reduce::reduce;
pub use reduce_scatter::{reduce_scatter, reduce_scatter_block};
pub use rooted::{gather, gatherv, scatter, scatterv};
pub use scan::{exscan, scan};
pub use schedule::{Schedule, Transport};
pub use tuning::Tuning;

use crate::Result;
use plan::Builder;
use std::rc::Rc;

/// Where a collective is built: the shape of the communicator, and what it may use.
#[derive(Clone)]
pub struct Site<'a> {
    /// My rank in the (local) group.
    pub rank: usize,
    /// Ranks in the (local) group.
    pub size: usize,
    /// Ranks in the remote group; 0 on an intracommunicator.
    pub remote_size: usize,
    /// Which ranks of the (local) group share a host; `None`: all, or nobody knows.
    pub hosts: Option<Rc<Hosts>>,
    /// Switch points, the same at all ranks.
    pub tuning: &'a Tuning,
    /// Where temporaries come from.
    pub pool: &'a Pool,
}

impl<'a> Site<'a> {
    /// The shape of the communicator `t` moves messages for.
    pub fn of(t: &impl Transport, tuning: &'a Tuning, pool: &'a Pool) -> Self {
        Self {
            rank: t.rank(),
            size: t.size(),
            remote_size: t.remote_size(),
            hosts: None,
            tuning,
            pool,
        }
    }

    fn inter(&self) -> bool {
        self.remote_size > 0
    }

    fn builder(&self) -> Builder {
        Builder::new(self.rank, self.size, self.hosts.clone(), self.pool)
    }

    /// The root argument against the communicator.
    fn check_root(&self, root: Root) -> Result<()> {
        let ranks = if self.inter() { self.remote_size } else { self.size };
        match root {
            Root::Rank(r) if r >= ranks => fail!(ERR_ROOT: "root={r}: allowed are 0 to {}", ranks - 1),
            Root::Me | Root::Idle if !self.inter() => fail!(
                ERR_ROOT: "root is MPI_ROOT or MPI_PROC_NULL on an intracommunicator: allowed are 0 to {}", ranks - 1
            ),
            _ => Ok(()),
        }
    }

    /// Is there a block for every one of `n` ranks?
    fn check_blocks(&self, what: &str, blocks: &Blocks, n: usize) -> Result<()> {
        if blocks.covers(n) {
            return Ok(());
        }
        fail!(ERR_INTERN: "{what}: fewer blocks than the {n} ranks")
    }

    /// `MPI_IN_PLACE` where only an intracommunicator has it.
    fn check_in_place<B>(&self, send: &Option<B>) -> Result<()> {
        if send.is_none() && self.inter() {
            return fail!(ERR_BUFFER: "MPI_IN_PLACE: not allowed on an intercommunicator");
        }
        Ok(())
    }
}

/// The root argument of a rooted collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// That rank: of the group, or on an intercommunicator of the remote group.
    Rank(usize),
    /// `MPI_ROOT`: I am the root, the data goes to or comes from the remote group.
    Me,
    /// `MPI_PROC_NULL`: another rank of my group is the root.
    Idle,
}

impl Root {
    /// From the ABI's value.
    pub fn from_abi(root: i32) -> Result<Self> {
        match root {
            -4 => Ok(Self::Me),
            -3 => Ok(Self::Idle),
            0.. => Ok(Self::Rank(root as usize)),
            _ => fail!(
                ERR_ROOT: "root={root}: allowed are ranks of the communicator, MPI_ROOT and MPI_PROC_NULL"
            ),
        }
    }
}

/// The first of `parts` nearly equal parts of `n`, as (first, count): what is left over goes to the first ones.
fn part_of(n: u64, parts: usize, i: usize) -> (u64, u64) {
    let (parts, i) = (parts as u64, i as u64);
    let (each, more) = (n / parts, n % parts);
    (i * each + i.min(more), each + u64::from(i < more))
}
