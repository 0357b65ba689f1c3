//! Neighbourhood collectives of a checked program.

use farpost_mpi::coll::{Block, Blocks};
use farpost_mpi::datatype::Signature;
use farpost_mpi::{Error, ErrorClass, Result};

use super::coll::{Described, area, areas, checked_ways, signature, signatures};
use super::ledger::Flow;
use crate::args::{Array, Counts};
use crate::cx::{CommRef, Cx};
use crate::imp::blocks::{block, each, each_w};
use crate::imp::forms::{Ptr, PtrMut};

/// Who is around: sources and destinations, in the order of the buffers; negative where nobody is.
struct Around {
    sources: Vec<i32>,
    destinations: Vec<i32>,
}

fn around(comm: &CommRef) -> Result<Around> {
    let topology = comm.topology.borrow();
    let Some(topology) = &*topology else {
        return Err(Error::new(ErrorClass::ERR_TOPOLOGY, "no topology"));
    };
    let around = topology.neighbors(comm.rank)?;
    Ok(Around {
        sources: around.sources,
        destinations: around.destinations,
    })
}

/// Edges to those who are there.
fn edges(ranks: &[i32], signatures: Vec<Signature>) -> Flow {
    let edges = ranks.iter().zip(signatures);
    Flow::Edges(
        edges
            .filter_map(|(rank, signature)| Some((u32::try_from(*rank).ok()?, signature)))
            .collect(),
    )
}

/// Blocks from, or for, those who are there.
fn used(ranks: &[i32], blocks: &Blocks) -> Blocks {
    let there = ranks.iter().enumerate().filter(|(_, rank)| **rank >= 0);
    Blocks::Each(there.map(|(at, _)| blocks.get(at)).collect())
}

fn one_to_all(around: &Around, send: &Block, recv: &Blocks) -> Described {
    let mut described = exchange(around, None, recv);
    described.said.sends = edges(
        &around.destinations,
        vec![signature(send); around.destinations.len()],
    );
    if around.destinations.iter().any(|rank| *rank >= 0) {
        described.areas.push(area(send, false));
    }
    described
}

fn exchange(around: &Around, send: Option<&Blocks>, recv: &Blocks) -> Described {
    let (to, from) = (&around.destinations, &around.sources);
    let mut described = Described::default();
    described.said.recvs = edges(from, signatures(recv, from.len()));
    described.areas.extend(areas(&used(from, recv), from.len(), true));
    if let Some(send) = send {
        described.said.sends = edges(to, signatures(send, to.len()));
        described.areas.extend(areas(&used(to, send), to.len(), false));
    }
    described
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn allgather(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
) -> Result<Described> {
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            block(cx, "send", sendbuf, sendcount, sendtype)?,
            block(cx, "recv", recvbuf, recvcount, recvtype)?,
        )
    };
    Ok(one_to_all(&around(comm)?, &send, &Blocks::Even(recv)))
}

checked_ways!(mpi_neighbor_allgather, mpi_ineighbor_allgather, mpi_neighbor_allgather_init, neighbor, allgather(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn allgatherv(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    displs: Counts<'_>,
    recvtype: usize,
) -> Result<Described> {
    let around = around(comm)?;
    let from = around.sources.len();
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            block(cx, "send", sendbuf, sendcount, sendtype)?,
            each(cx, "recv", recvbuf, recvcounts, displs, recvtype, from)?,
        )
    };
    Ok(one_to_all(&around, &send, &recv))
}

checked_ways!(mpi_neighbor_allgatherv, mpi_ineighbor_allgatherv, mpi_neighbor_allgatherv_init, neighbor, allgatherv(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
    recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoall(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: usize,
) -> Result<Described> {
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            Blocks::Even(block(cx, "send", sendbuf, sendcount, sendtype)?),
            Blocks::Even(block(cx, "recv", recvbuf, recvcount, recvtype)?),
        )
    };
    Ok(exchange(&around(comm)?, Some(&send), &recv))
}

checked_ways!(mpi_neighbor_alltoall, mpi_ineighbor_alltoall, mpi_neighbor_alltoall_init, neighbor, alltoall(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoallv(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcounts: Counts<'_>,
    sdispls: Counts<'_>,
    sendtype: usize,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    rdispls: Counts<'_>,
    recvtype: usize,
) -> Result<Described> {
    let around = around(comm)?;
    let (to, from) = (around.destinations.len(), around.sources.len());
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            each(cx, "send", sendbuf, sendcounts, sdispls, sendtype, to)?,
            each(cx, "recv", recvbuf, recvcounts, rdispls, recvtype, from)?,
        )
    };
    Ok(exchange(&around, Some(&send), &recv))
}

checked_ways!(mpi_neighbor_alltoallv, mpi_ineighbor_alltoallv, mpi_neighbor_alltoallv_init, neighbor, alltoallv(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtype: usize, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtype: usize));

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn alltoallw(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    sendcounts: Counts<'_>,
    sdispls: Array<'_, i64>,
    sendtypes: Array<'_, usize>,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    rdispls: Array<'_, i64>,
    recvtypes: Array<'_, usize>,
) -> Result<Described> {
    let around = around(comm)?;
    let (to, from) = (around.destinations.len(), around.sources.len());
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
    Ok(exchange(&around, Some(&send), &recv))
}

checked_ways!(mpi_neighbor_alltoallw, mpi_ineighbor_alltoallw, mpi_neighbor_alltoallw_init, neighbor, alltoallw(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Array<'_, i64>, sendtypes: Array<'_, usize>, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Array<'_, i64>, recvtypes: Array<'_, usize>));
