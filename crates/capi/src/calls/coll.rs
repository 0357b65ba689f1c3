//! Collective communication (MPI-5.0 chapter 6): the arguments of each operation are checked once, whether it runs blocking,
//! nonblocking or persistent, plain, with counts (v) or with datatypes (w) of each rank.

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::coll::Block;

use super::arg;
use super::blocks::{Each, One, Side, Typed, apart_from_row, in_place, role, whole};
use super::forms::Collective;
use crate::cx::{CommRef, Cx};

pub(crate) unsafe fn mpi_barrier(_: &Cx, _: arg::Barrier) -> Result<Collective> {
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

pub(crate) unsafe fn mpi_gather(cx: &Cx, a: arg::Gather) -> Result<Collective> {
    let send = One(a.sendbuf, a.sendcount, a.sendtype);
    let recv = One(a.recvbuf, a.recvcount, a.recvtype);
    // SAFETY: the caller's promise.
    unsafe { rooted(cx, a.comm, a.root, true, send, recv) }
}

pub(crate) unsafe fn mpi_gatherv(cx: &Cx, a: arg::Gatherv) -> Result<Collective> {
    let recv = Each(a.recvbuf, a.recvcounts, a.displs, a.recvtype);
    let send = One(a.sendbuf, a.sendcount, a.sendtype);
    // SAFETY: the caller's promise.
    unsafe { rooted(cx, a.comm, a.root, true, send, recv) }
}

pub(crate) unsafe fn mpi_scatter(cx: &Cx, a: arg::Scatter) -> Result<Collective> {
    let send = One(a.sendbuf, a.sendcount, a.sendtype);
    let recv = One(a.recvbuf, a.recvcount, a.recvtype);
    // SAFETY: the caller's promise.
    unsafe { rooted(cx, a.comm, a.root, false, recv, send) }
}

pub(crate) unsafe fn mpi_scatterv(cx: &Cx, a: arg::Scatterv) -> Result<Collective> {
    let send = Each(a.sendbuf, a.sendcounts, a.displs, a.sendtype);
    let recv = One(a.recvbuf, a.recvcount, a.recvtype);
    // SAFETY: the caller's promise.
    unsafe { rooted(cx, a.comm, a.root, false, recv, send) }
}

pub(crate) unsafe fn mpi_allgather(cx: &Cx, a: arg::Allgather) -> Result<Collective> {
    let send = One(a.sendbuf, a.sendcount, a.sendtype);
    let recv = One(a.recvbuf, a.recvcount, a.recvtype);
    // SAFETY: the caller's promise.
    unsafe { one_to_all(cx, a.comm, send, recv) }
}

pub(crate) unsafe fn mpi_allgatherv(cx: &Cx, a: arg::Allgatherv) -> Result<Collective> {
    let recv = Each(a.recvbuf, a.recvcounts, a.displs, a.recvtype);
    // SAFETY: the caller's promise.
    unsafe { one_to_all(cx, a.comm, One(a.sendbuf, a.sendcount, a.sendtype), recv) }
}

pub(crate) unsafe fn mpi_alltoall(cx: &Cx, a: arg::Alltoall) -> Result<Collective> {
    let send = One(a.sendbuf, a.sendcount, a.sendtype);
    let recv = One(a.recvbuf, a.recvcount, a.recvtype);
    // SAFETY: the caller's promise.
    unsafe { exchange(cx, a.comm, send, recv) }
}

pub(crate) unsafe fn mpi_alltoallv(cx: &Cx, a: arg::Alltoallv) -> Result<Collective> {
    let send = Each(a.sendbuf, a.sendcounts, a.sdispls, a.sendtype);
    let recv = Each(a.recvbuf, a.recvcounts, a.rdispls, a.recvtype);
    // SAFETY: the caller's promise.
    unsafe { exchange(cx, a.comm, send, recv) }
}

pub(crate) unsafe fn mpi_alltoallw(cx: &Cx, a: arg::Alltoallw) -> Result<Collective> {
    let send = Typed(a.sendbuf, a.sendcounts, a.sdispls, a.sendtypes);
    let recv = Typed(a.recvbuf, a.recvcounts, a.rdispls, a.recvtypes);
    // SAFETY: the caller's promise.
    unsafe { exchange(cx, a.comm, send, recv) }
}
