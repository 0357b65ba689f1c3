//! Neighbourhood collectives (MPI-5.0 section 8.7): `MPI_Neighbor_allgather(v)` and
//! `MPI_Neighbor_alltoall(v,w)`.
//!
//! Requirements of MPI-5.0 section 8.6.

use super::Site;
use super::allgather::Exchange;
use super::mem::{Block, Blocks};
use super::plan::{Lane, Plan};
use crate::topo::Topology;
use crate::{Rank, Result};

/// Who my neighbours are. Negative ranks (`MPI_PROC_NULL`) stand for a missing neighbour: its block is
/// neither sent nor touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbors {
    sources: Vec<Rank>,
    /// (block, rank), in the order in which messages start: two edges between the same ranks are told apart
    /// by it.
    destinations: Vec<(usize, Rank)>,
}

impl Neighbors {
    /// The neighbours of the process `rank` in a topology.
    ///
    /// # Errors
    /// As [`Topology::neighbors`].
    pub fn of(topology: &Topology, rank: Rank) -> Result<Self> {
        let around = topology.neighbors(rank)?;
        Ok(match topology {
            Topology::Cart(_) => Self::cartesian(&around.sources),
            _ => Self::graph(&around.sources, &around.destinations),
        })
    }

    /// Neighbours of a (distributed) graph topology, in the order of the topology.
    pub fn graph(sources: &[Rank], destinations: &[Rank]) -> Self {
        Self {
            sources: sources.to_vec(),
            destinations: destinations.iter().copied().enumerate().collect(),
        }
    }

    /// Neighbours of a Cartesian topology: for each dimension the one below and the one above. What goes
    /// down in a dimension arrives as coming from above, also when both are the same rank.
    pub fn cartesian(neighbors: &[Rank]) -> Self {
        Self {
            sources: neighbors.to_vec(),
            // A receiver takes first what comes from below, so that is sent first: upwards, odd blocks.
            destinations: (0..neighbors.len())
                .map(|i| i ^ 1)
                .filter_map(|i| neighbors.get(i).map(|&rank| (i, rank)))
                .collect(),
        }
    }

    /// The ranks that blocks come from, in the order of the blocks.
    pub fn sources(&self) -> &[Rank] {
        &self.sources
    }

    /// The ranks that blocks go to, in the order of the blocks.
    pub fn destinations(&self) -> Vec<Rank> {
        let mut blocks = self.destinations.clone();
        blocks.sort_unstable();
        blocks.into_iter().map(|(_, rank)| rank).collect()
    }

    /// Number of blocks received.
    pub fn indegree(&self) -> usize {
        self.sources.len()
    }

    /// Number of blocks sent.
    pub fn outdegree(&self) -> usize {
        self.destinations.len()
    }
}

/// Build `MPI_Neighbor_allgather` (with [`Blocks::Even`]) or `MPI_Neighbor_allgatherv`: `send` goes to all destinations, block i of `recv` comes
/// from source i.
///
/// # Errors
/// `MPI_ERR_INTERN`: fewer blocks than neighbours.
pub fn neighbor_allgather(site: &Site<'_>, neighbors: &Neighbors, send: Block, recv: Blocks) -> Result<Plan> {
    exchange(site, neighbors, |_| send.clone(), &recv)
}

/// Build `MPI_Neighbor_alltoall` (with [`Blocks::Even`]), `MPI_Neighbor_alltoallv` or `MPI_Neighbor_alltoallw`: block i of `send` goes to
/// destination i, block i of `recv` comes from source i.
///
/// # Errors
/// `MPI_ERR_INTERN`: fewer blocks than neighbours.
pub fn neighbor_alltoall(site: &Site<'_>, neighbors: &Neighbors, send: Blocks, recv: Blocks) -> Result<Plan> {
    site.check_blocks("the send buffer", &send, neighbors.outdegree())?;
    exchange(site, neighbors, |i| send.get(i), &recv)
}

fn exchange(
    site: &Site<'_>,
    neighbors: &Neighbors,
    send: impl Fn(usize) -> Block,
    recv: &Blocks,
) -> Result<Plan> {
    site.check_blocks("the receive buffer", recv, neighbors.indegree())?;
    let mut b = site.builder();
    let me = site.rank as Rank;
    let mut flows = Exchange::everything();
    let mut from_me = Vec::new();
    for (i, &from) in neighbors.sources.iter().enumerate() {
        match from {
            _ if from == me => from_me.push(recv.get(i)),
            0.. => flows.recv(&mut b, Lane::Local, &recv.get(i), from as usize),
            _ => {}
        }
    }
    let mut from_me = from_me.into_iter();
    for &(i, to) in &neighbors.destinations {
        match to {
            _ if to == me => {
                if let Some(recv) = from_me.next() {
                    b.copy(&send(i), &recv, &[]);
                }
            }
            0.. => flows.send(&mut b, Lane::Local, &send(i), to as usize),
            _ => {}
        }
    }
    Ok(b.finish())
}
