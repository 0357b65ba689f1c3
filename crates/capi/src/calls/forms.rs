//! Collectives whose arguments are checked, and their three forms: blocking, nonblocking, persistent.

use core::ffi::c_void;
use std::rc::Rc;

use farpost_mpi::Result;
use farpost_mpi::coll::{self, Block, Blocks, Neighbors, Plan, Site};
use farpost_mpi::op::Op;

use super::blocks::Role;
use crate::cx::{CommRef, Cx};

/// A buffer that is read.
pub(crate) type Ptr = *const c_void;
/// A buffer that is written.
pub(crate) type PtrMut = *mut c_void;

/// A collective as one rank calls it, with its arguments checked. `None` as a side is MPI_IN_PLACE; what is not significant
/// at this rank is empty.
#[derive(Clone)]
pub(crate) enum Collective {
    Barrier,
    Bcast {
        role: Role,
        buffer: Block,
    },
    /// `row` has a block for each rank, at the root.
    Gather {
        role: Role,
        single: Option<Block>,
        row: Blocks,
    },
    Scatter {
        role: Role,
        single: Option<Block>,
        row: Blocks,
    },
    Allgather {
        send: Option<Block>,
        recv: Blocks,
    },
    Alltoall {
        send: Option<Blocks>,
        recv: Blocks,
    },
    NeighborAllgather {
        around: Neighbors,
        send: Block,
        recv: Blocks,
    },
    NeighborAlltoall {
        around: Neighbors,
        send: Blocks,
        recv: Blocks,
    },
    Reduction {
        of: Reduction,
        send: Option<Block>,
        recv: Block,
        op: Op,
    },
}

/// Who gets what of a reduction.
#[derive(Clone)]
pub(crate) enum Reduction {
    Rooted(Role),
    All,
    Scan,
    Exscan,
    ScatterBlock,
    /// Elements that each rank gets.
    Scatter(Vec<u64>),
}

impl Collective {
    /// What this rank does.
    ///
    /// # Errors
    /// Arguments that do not fit the communicator.
    pub(crate) fn plan(self, site: &Site<'_>) -> Result<Plan> {
        match self {
            Self::Barrier => coll::barrier(site),
            Self::Bcast { role, buffer } => coll::bcast(site, buffer, role.root),
            Self::Gather { role, single, row } => match row {
                Blocks::Even(block) => coll::gather(site, single, block, role.root),
                row => coll::gatherv(site, single, row, role.root),
            },
            Self::Scatter { role, single, row } => match row {
                Blocks::Even(block) => coll::scatter(site, block, single, role.root),
                row => coll::scatterv(site, row, single, role.root),
            },
            Self::Allgather { send, recv } => match recv {
                Blocks::Even(block) => coll::allgather(site, send, block),
                recv => coll::allgatherv(site, send, recv),
            },
            Self::Alltoall { send, recv } => match (send, recv) {
                (None, Blocks::Even(recv)) => coll::alltoall(site, None, recv),
                (Some(Blocks::Even(send)), Blocks::Even(recv)) => coll::alltoall(site, Some(send), recv),
                (send, recv) => coll::alltoallv(site, send, recv),
            },
            Self::NeighborAllgather { around, send, recv } => {
                coll::neighbor_allgather(site, &around, send, recv)
            }
            Self::NeighborAlltoall { around, send, recv } => {
                coll::neighbor_alltoall(site, &around, send, recv)
            }
            Self::Reduction { of, send, recv, op } => match of {
                Reduction::Rooted(role) => coll::reduce(site, send, recv, &op, role.root),
                Reduction::All => coll::allreduce(site, send, recv, &op),
                Reduction::Scan => coll::scan(site, send, recv, &op),
                Reduction::Exscan => coll::exscan(site, send, recv, &op),
                Reduction::ScatterBlock => coll::reduce_scatter_block(site, send, recv, &op),
                Reduction::Scatter(counts) => coll::reduce_scatter(site, send, recv, &counts, &op),
            },
        }
    }

    /// Run it to its end.
    pub(crate) fn run(self, cx: &Cx, comm: &CommRef) -> Result<()> {
        if self.at_once(cx, comm)? {
            return Ok(());
        }
        cx.world()
            .run_collective(comm, self.plan(&cx.world().site(comm))?)
    }

    /// Do it in a better way than by a schedule, where there is one: whether it is done.
    fn at_once(&self, cx: &Cx, comm: &CommRef) -> Result<bool> {
        let world = cx.world();
        match self {
            Self::Barrier => world.quick_barrier(comm),
            Self::Bcast { role, buffer } => world.quick_bcast(comm, buffer, role.argument),
            Self::Reduction {
                of: Reduction::All,
                send,
                recv,
                op,
            } => world.quick_allreduce(comm, send.as_ref(), recv, op),
            _ => Ok(false),
        }
    }

    /// Start it: its request.
    pub(crate) fn start(self, cx: &Cx, comm: &CommRef) -> Result<usize> {
        let plan = self.plan(&cx.world().site(comm))?;
        cx.world().start_collective(comm, plan)
    }

    /// Make a persistent one of it: its request.
    pub(crate) fn persistent(self, cx: &'static Cx, comm: &CommRef) -> Result<usize> {
        let on = Rc::clone(comm);
        let plan = move || self.clone().plan(&cx.world().site(&on));
        // What is wrong is said now, not at the first start.
        plan()?;
        cx.world().persistent_collective(comm, Box::new(plan))
    }
}
