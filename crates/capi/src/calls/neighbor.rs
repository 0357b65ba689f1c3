//! Neighborhood collectives (MPI-5.0 section 8.6).

use farpost_mpi::Result;
use farpost_mpi::coll::Neighbors;

use super::blocks::{Each, One, Side, Typed, apart};
use super::forms::{Collective, Ptr, PtrMut, three_ways};
use crate::args::{Array, Counts};
use crate::cx::{CommRef, Cx};

/// # Safety
/// As [`farpost_mpi::coll::Block::new`].
unsafe fn one_to_all(cx: &Cx, comm: &CommRef, send: One, recv: impl Side) -> Result<Collective> {
    let around = Neighbors::of(comm)?;
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
    let around = Neighbors::of(comm)?;
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

three_ways!(mpi_neighbor_allgather, mpi_ineighbor_allgather, mpi_neighbor_allgather_init, allgather(
sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize),
|cx, comm| {
    let (send, recv) = (One(sendbuf, sendcount, sendtype), One(recvbuf, recvcount, recvtype));
    // SAFETY: the caller's promise.
    first_apart(unsafe { one_to_all(cx, comm, send, recv) }?)
});

three_ways!(mpi_neighbor_allgatherv, mpi_ineighbor_allgatherv, mpi_neighbor_allgatherv_init, allgatherv(
sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
recvtype: usize),
|cx, comm| {
    let recv = Each(recvbuf, recvcounts, displs, recvtype);
    // SAFETY: the caller's promise.
    unsafe { one_to_all(cx, comm, One(sendbuf, sendcount, sendtype), recv) }
});

three_ways!(mpi_neighbor_alltoall, mpi_ineighbor_alltoall, mpi_neighbor_alltoall_init, alltoall(
sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize),
|cx, comm| {
    let (send, recv) = (One(sendbuf, sendcount, sendtype), One(recvbuf, recvcount, recvtype));
    // SAFETY: the caller's promise.
    unsafe { exchange(cx, comm, send, recv) }
});

three_ways!(mpi_neighbor_alltoallv, mpi_ineighbor_alltoallv, mpi_neighbor_alltoallv_init, alltoallv(
sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtype: usize, recvbuf: PtrMut,
recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtype: usize),
|cx, comm| {
    let send = Each(sendbuf, sendcounts, sdispls, sendtype);
    // SAFETY: the caller's promise.
    first_apart(unsafe { exchange(cx, comm, send, Each(recvbuf, recvcounts, rdispls, recvtype)) }?)
});

three_ways!(mpi_neighbor_alltoallw, mpi_ineighbor_alltoallw, mpi_neighbor_alltoallw_init, alltoallw(
sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Array<'_, i64>, sendtypes: Array<'_, usize>, recvbuf: PtrMut,
recvcounts: Counts<'_>, rdispls: Array<'_, i64>, recvtypes: Array<'_, usize>),
|cx, comm| {
    let send = Typed(sendbuf, sendcounts, sdispls, sendtypes);
    // SAFETY: the caller's promise.
    unsafe { exchange(cx, comm, send, Typed(recvbuf, recvcounts, rdispls, recvtypes)) }
});
