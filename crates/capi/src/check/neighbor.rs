//! Neighbourhood collectives of a checked program.

use farpost_mpi::coll::{Block, Blocks, Neighbors};
use farpost_mpi::datatype::Signature;

use super::coll::{Described, area, areas, signature, signatures};
use super::ledger::Flow;

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
