//! Collective communication (MPI-5.0 chapter 6, section 8.6): the arguments of each operation are checked once, whether it runs blocking,
//! nonblocking or persistent, plain, with counts (v) or with datatypes (w) of each rank.

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::coll::Block;

use super::arg;
use super::blocks::{One, Side, apart, apart_from_row, in_place, role, whole};
use super::forms::Collective;
use crate::cx::{CommRef, Cx};

pub(crate) fn mpi_barrier(_: &Cx, _: arg::Barrier) -> Result<Collective> {
    Ok(Collective::Barrier)
}

pub(crate) unsafe fn mpi_bcast(_: &Cx, a: arg::Bcast) -> Result<Collective> {
    let role = role(a.comm, a.root)?;
    // SAFETY: the caller's promise.
    let buffer = unsafe { whole(a.buffer, a.count, a.datatype) };
    Ok(Collective::Bcast { role, buffer })
}

/// A rooted collective that collects (`gather`) or spreads: the one block of each rank, and the root's row of all.
///
/// # Safety
/// As [`Block::new`].
unsafe fn rooted(
    cx: &Cx,
    comm: &CommRef,
    root: c_int,
    gather: bool,
    single: One,
    row: impl Side,
) -> Result<Collective> {
    let role = role(comm, root)?;
    let [one, all] = if gather {
        ["send", "recv"]
    } else {
        ["recv", "send"]
    };
    let row = || match role.at_root {
        // SAFETY: the caller's promise.
        true => unsafe { row.blocks(cx, all, comm.peers() as usize) },
        false => Ok(row.nothing()),
    };
    let early = if gather { None } else { Some(row()?) };
    let single = match () {
        () if role.at_root && in_place(single.0) => None,
        // SAFETY: the caller's promise.
        () if role.other => Some(unsafe { single.block(cx, one) }?),
        () => Some(Block::none()),
    };
    let row = early.map_or_else(row, Ok)?;
    if let (true, Some(mine)) = (role.at_root, &single) {
        apart_from_row(comm, mine, &row)?;
    }
    Ok(if gather {
        Collective::Gather { role, single, row }
    } else {
        Collective::Scatter { role, single, row }
    })
}

/// A collective in which all get one block of each.
///
/// # Safety
/// As [`Block::new`].
unsafe fn one_to_all(cx: &Cx, comm: &CommRef, send: One, recv: impl Side) -> Result<Collective> {
    // SAFETY: the caller's promise.
    let send = (!in_place(send.0)).then(|| unsafe { send.block(cx, "send") });
    let send = send.transpose()?;
    // SAFETY: the caller's promise.
    let recv = unsafe { recv.blocks(cx, "recv", comm.peers() as usize) }?;
    if let Some(mine) = &send {
        apart_from_row(comm, mine, &recv)?;
    }
    Ok(Collective::Allgather { send, recv })
}

/// A collective in which all get another block of each.
///
/// # Safety
/// As [`Block::new`].
unsafe fn exchange<S: Side>(cx: &Cx, comm: &CommRef, send: S, recv: S) -> Result<Collective> {
    let ranks = comm.peers() as usize;
    // SAFETY: the caller's promise.
    let send = (!in_place(send.address())).then(|| unsafe { send.blocks(cx, "send", ranks) });
    let send = send.transpose()?;
    // SAFETY: the caller's promise.
    let recv = unsafe { recv.blocks(cx, "recv", ranks) }?;
    if let Some(send) = &send {
        apart_from_row(comm, &send.get(0), &recv)?;
    }
    Ok(Collective::Alltoall { send, recv })
}

/// A collective in which all neighbours get one block of each. `look`: at whether the first blocks are the same memory.
///
/// # Safety
/// As [`Block::new`].
unsafe fn all_neighbors(
    cx: &Cx,
    comm: &CommRef,
    send: One,
    recv: impl Side,
    look: bool,
) -> Result<Collective> {
    let around = comm.neighbors()?;
    let (from, to) = (around.indegree(), around.outdegree());
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe { (send.block(cx, "send")?, recv.blocks(cx, "recv", from)?) };
    if look && from > 0 && to > 0 {
        apart(&send, &recv.get(0))?;
    }
    Ok(Collective::NeighborAllgather { around, send, recv })
}

/// As [`all_neighbors`], another block of each.
///
/// # Safety
/// As [`Block::new`].
unsafe fn each_neighbor<S: Side>(
    cx: &Cx,
    comm: &CommRef,
    send: S,
    recv: S,
    look: bool,
) -> Result<Collective> {
    let around = comm.neighbors()?;
    let (from, to) = (around.indegree(), around.outdegree());
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe { (send.blocks(cx, "send", to)?, recv.blocks(cx, "recv", from)?) };
    if look && from > 0 && to > 0 {
        apart(&send.get(0), &recv.get(0))?;
    }
    Ok(Collective::NeighborAlltoall { around, send, recv })
}

/// Bodies of one expression.
macro_rules! collectives {
    ($($name:ident: $Args:ident, |$cx:pat_param, $a:ident| $made:expr;)*) => {$(
        pub(crate) unsafe fn $name($cx: &Cx, $a: arg::$Args) -> Result<Collective> {
            // SAFETY: by the contract of the C function.
            unsafe { $made }
        }
    )*};
}

pub(super) use collectives;

collectives! {
    mpi_gather: Gather, |cx, a| rooted(cx, a.comm, a.root, true, a.send, a.recv);
    mpi_gatherv: Gatherv, |cx, a| rooted(cx, a.comm, a.root, true, a.send, a.recv);
    mpi_scatter: Scatter, |cx, a| rooted(cx, a.comm, a.root, false, a.recv, a.send);
    mpi_scatterv: Scatterv, |cx, a| rooted(cx, a.comm, a.root, false, a.recv, a.send);
    mpi_allgather: Allgather, |cx, a| one_to_all(cx, a.comm, a.send, a.recv);
    mpi_allgatherv: Allgatherv, |cx, a| one_to_all(cx, a.comm, a.send, a.recv);
    mpi_alltoall: Alltoall, |cx, a| exchange(cx, a.comm, a.send, a.recv);
    mpi_alltoallv: Alltoallv, |cx, a| exchange(cx, a.comm, a.send, a.recv);
    mpi_alltoallw: Alltoallw, |cx, a| exchange(cx, a.comm, a.send, a.recv);
    mpi_neighbor_allgather: NeighborAllgather, |cx, a| all_neighbors(cx, a.comm, a.send, a.recv, true);
    mpi_neighbor_allgatherv: NeighborAllgatherv, |cx, a| all_neighbors(cx, a.comm, a.send, a.recv, false);
    mpi_neighbor_alltoall: NeighborAlltoall, |cx, a| each_neighbor(cx, a.comm, a.send, a.recv, false);
    mpi_neighbor_alltoallv: NeighborAlltoallv, |cx, a| each_neighbor(cx, a.comm, a.send, a.recv, true);
    mpi_neighbor_alltoallw: NeighborAlltoallw, |cx, a| each_neighbor(cx, a.comm, a.send, a.recv, false);
}
