//! Neighborhood collectives (MPI-5.0 section 8.6).

use farpost_mpi::coll::{self, Blocks, Neighbors};
use farpost_mpi::topo::Topology;
use farpost_mpi::{Error, ErrorClass, Result};

use super::blocks::{apart, block, each, each_w};
use super::forms::{Maker, Ptr, PtrMut, maker, three_ways};
use crate::args::{Array, Counts};
use crate::cx::{CommRef, Cx};

fn neighbors(comm: &CommRef) -> Result<Neighbors> {
    let topology = comm.topology.borrow();
    let Some(topology) = &*topology else {
        return Err(Error::new(
            ErrorClass::ERR_TOPOLOGY,
            "comm has no topology, so no neighbours",
        ));
    };
    let around = topology.neighbors(comm.rank)?;
    Ok(match topology {
        Topology::Cart(_) => Neighbors::cartesian(&around.sources),
        _ => Neighbors::graph(&around.sources, &around.destinations),
    })
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn allgather(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
) -> Result<Maker> {
    let around = neighbors(comm)?;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            block(cx, "send", sendbuf, sendcount, sendtype)?,
            block(cx, "recv", recvbuf, recvcount, recvtype)?,
        )
    };
    if around.indegree() > 0 && around.outdegree() > 0 {
        apart(&send, &recv)?;
    }
    maker!(cx, comm, |site| coll::neighbor_allgather(
        site,
        &around,
        send.clone(),
        Blocks::Even(recv.clone())
    ))
}

three_ways!(mpi_neighbor_allgather, mpi_ineighbor_allgather, mpi_neighbor_allgather_init, allgather(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn allgatherv(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    displs: Counts<'_>,
    recvtype: usize,
) -> Result<Maker> {
    let around = neighbors(comm)?;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            block(cx, "send", sendbuf, sendcount, sendtype)?,
            each(
                cx,
                "recv",
                recvbuf,
                recvcounts,
                displs,
                recvtype,
                around.indegree(),
            )?,
        )
    };
    maker!(cx, comm, |site| coll::neighbor_allgather(
        site,
        &around,
        send.clone(),
        recv.clone()
    ))
}

three_ways!(mpi_neighbor_allgatherv, mpi_ineighbor_allgatherv, mpi_neighbor_allgatherv_init, allgatherv(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
    recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoall(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
) -> Result<Maker> {
    let around = neighbors(comm)?;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            block(cx, "send", sendbuf, sendcount, sendtype)?,
            block(cx, "recv", recvbuf, recvcount, recvtype)?,
        )
    };
    maker!(cx, comm, |site| {
        coll::neighbor_alltoall(
            site,
            &around,
            Blocks::Even(send.clone()),
            Blocks::Even(recv.clone()),
        )
    })
}

three_ways!(mpi_neighbor_alltoall, mpi_ineighbor_alltoall, mpi_neighbor_alltoall_init, alltoall(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoallv(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcounts: Counts<'_>,
    sdispls: Counts<'_>,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    rdispls: Counts<'_>,
    recvtype: usize,
) -> Result<Maker> {
    let around = neighbors(comm)?;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            each(
                cx,
                "send",
                sendbuf,
                sendcounts,
                sdispls,
                sendtype,
                around.outdegree(),
            )?,
            each(
                cx,
                "recv",
                recvbuf,
                recvcounts,
                rdispls,
                recvtype,
                around.indegree(),
            )?,
        )
    };
    if around.indegree() > 0 && around.outdegree() > 0 {
        apart(&send.get(0), &recv.get(0))?;
    }
    maker!(cx, comm, |site| coll::neighbor_alltoall(
        site,
        &around,
        send.clone(),
        recv.clone()
    ))
}

three_ways!(mpi_neighbor_alltoallv, mpi_ineighbor_alltoallv, mpi_neighbor_alltoallv_init, alltoallv(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtype: usize, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoallw(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcounts: Counts<'_>,
    sdispls: Array<'_, i64>,
    sendtypes: Array<'_, usize>,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    rdispls: Array<'_, i64>,
    recvtypes: Array<'_, usize>,
) -> Result<Maker> {
    let around = neighbors(comm)?;
    let (to, from) = (around.outdegree(), around.indegree());
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            each_w(cx, "send", sendbuf, sendcounts, sdispls.get(to)?, sendtypes, to)?,
            each_w(
                cx,
                "recv",
                recvbuf,
                recvcounts,
                rdispls.get(from)?,
                recvtypes,
                from,
            )?,
        )
    };
    maker!(cx, comm, |site| coll::neighbor_alltoall(
        site,
        &around,
        send.clone(),
        recv.clone()
    ))
}

three_ways!(mpi_neighbor_alltoallw, mpi_ineighbor_alltoallw, mpi_neighbor_alltoallw_init, alltoallw(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Array<'_, i64>, sendtypes: Array<'_, usize>, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Array<'_, i64>, recvtypes: Array<'_, usize>));
