//! Neighborhood collectives (MPI-5.0 section 8.6).

use farpost_mpi::Result;

use super::arg;
use super::blocks::{Each, One, Side, Typed, apart};
use super::forms::Collective;
use crate::cx::{CommRef, Cx};

/// # Safety
/// As [`farpost_mpi::coll::Block::new`].
unsafe fn one_to_all(cx: &Cx, comm: &CommRef, send: One, recv: impl Side) -> Result<Collective> {
    let around = comm.neighbors()?;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            send.block(cx, "send")?,
            recv.blocks(cx, "recv", around.indegree())?,
        )
    };
    Ok(Collective::NeighborAllgather { around, send, recv })
}

/// # Safety
/// As [`farpost_mpi::coll::Block::new`].
unsafe fn exchange<S: Side>(cx: &Cx, comm: &CommRef, send: S, recv: S) -> Result<Collective> {
    let around = comm.neighbors()?;
    // SAFETY: the caller's promise.
    let send = unsafe { send.blocks(cx, "send", around.outdegree()) }?;
    // SAFETY: the caller's promise.
    let recv = unsafe { recv.blocks(cx, "recv", around.indegree()) }?;
    Ok(Collective::NeighborAlltoall { around, send, recv })
}

/// The first blocks must not be the same memory, where there are any.
fn first_apart(collective: Collective) -> Result<Collective> {
    let (around, send, recv) = match &collective {
        Collective::NeighborAllgather { around, send, recv } => (around, Some(send.clone()), recv),
        Collective::NeighborAlltoall { around, send, recv } => {
            (around, (around.outdegree() > 0).then(|| send.get(0)), recv)
        }
        _ => return Ok(collective),
    };
    if let (Some(send), true, true) = (send, around.indegree() > 0, around.outdegree() > 0) {
        apart(&send, &recv.get(0))?;
    }
    Ok(collective)
}

pub(crate) unsafe fn mpi_neighbor_allgather(cx: &Cx, a: arg::NeighborAllgather) -> Result<Collective> {
    let send = One(a.sendbuf, a.sendcount, a.sendtype);
    let recv = One(a.recvbuf, a.recvcount, a.recvtype);
    // SAFETY: the caller's promise.
    first_apart(unsafe { one_to_all(cx, a.comm, send, recv) }?)
}

pub(crate) unsafe fn mpi_neighbor_allgatherv(cx: &Cx, a: arg::NeighborAllgatherv) -> Result<Collective> {
    let recv = Each(a.recvbuf, a.recvcounts, a.displs, a.recvtype);
    // SAFETY: the caller's promise.
    unsafe { one_to_all(cx, a.comm, One(a.sendbuf, a.sendcount, a.sendtype), recv) }
}

pub(crate) unsafe fn mpi_neighbor_alltoall(cx: &Cx, a: arg::NeighborAlltoall) -> Result<Collective> {
    let send = One(a.sendbuf, a.sendcount, a.sendtype);
    let recv = One(a.recvbuf, a.recvcount, a.recvtype);
    // SAFETY: the caller's promise.
    unsafe { exchange(cx, a.comm, send, recv) }
}

pub(crate) unsafe fn mpi_neighbor_alltoallv(cx: &Cx, a: arg::NeighborAlltoallv) -> Result<Collective> {
    let send = Each(a.sendbuf, a.sendcounts, a.sdispls, a.sendtype);
    let recv = Each(a.recvbuf, a.recvcounts, a.rdispls, a.recvtype);
    // SAFETY: the caller's promise.
    first_apart(unsafe { exchange(cx, a.comm, send, recv) }?)
}

pub(crate) unsafe fn mpi_neighbor_alltoallw(cx: &Cx, a: arg::NeighborAlltoallw) -> Result<Collective> {
    let send = Typed(a.sendbuf, a.sendcounts, a.sdispls, a.sendtypes);
    let recv = Typed(a.recvbuf, a.recvcounts, a.rdispls, a.recvtypes);
    // SAFETY: the caller's promise.
    unsafe { exchange(cx, a.comm, send, recv) }
}
