//! Neighbourhood collectives of a checked program.

use farpost_mpi::coll::{Block, Blocks, Neighbors};
use farpost_mpi::datatype::Signature;

use super::coll::{Described, area, areas, checked_ways, signature, signatures};
use super::ledger::Flow;
use crate::args::{Array, Counts};
use crate::calls::forms::{Ptr, PtrMut};

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

pub(super) fn one_to_all(around: &Neighbors, send: &Block, recv: &Blocks) -> Described {
    let mut described = exchange(around, None, recv);
    let to = around.destinations();
    described.said.sends = edges(&to, vec![signature(send); to.len()]);
    if to.iter().any(|rank| *rank >= 0) {
        described.areas.push(area(send, false));
    }
    described
}

pub(super) fn exchange(around: &Neighbors, send: Option<&Blocks>, recv: &Blocks) -> Described {
    let (to, from) = (around.destinations(), around.sources());
    let mut described = Described::default();
    described.said.recvs = edges(from, signatures(recv, from.len()));
    described.areas.extend(areas(&used(from, recv), from.len(), true));
    if let Some(send) = send {
        described.said.sends = edges(&to, signatures(send, to.len()));
        described.areas.extend(areas(&used(&to, send), to.len(), false));
    }
    described
}

checked_ways!(mpi_neighbor_allgather, mpi_ineighbor_allgather, mpi_neighbor_allgather_init, neighbor, allgather(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));
checked_ways!(mpi_neighbor_allgatherv, mpi_ineighbor_allgatherv, mpi_neighbor_allgatherv_init, neighbor, allgatherv(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcounts: Counts<'_>, displs: Counts<'_>,
    recvtype: usize));
checked_ways!(mpi_neighbor_alltoall, mpi_ineighbor_alltoall, mpi_neighbor_alltoall_init, neighbor, alltoall(
    sendbuf: Ptr, sendcount: i64, sendtype: usize, recvbuf: PtrMut, recvcount: i64, recvtype: usize));
checked_ways!(mpi_neighbor_alltoallv, mpi_ineighbor_alltoallv, mpi_neighbor_alltoallv_init, neighbor, alltoallv(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Counts<'_>, sendtype: usize, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Counts<'_>, recvtype: usize));
checked_ways!(mpi_neighbor_alltoallw, mpi_ineighbor_alltoallw, mpi_neighbor_alltoallw_init, neighbor, alltoallw(
    sendbuf: Ptr, sendcounts: Counts<'_>, sdispls: Array<'_, i64>, sendtypes: Array<'_, usize>, recvbuf: PtrMut,
    recvcounts: Counts<'_>, rdispls: Array<'_, i64>, recvtypes: Array<'_, usize>));
