//! Graphs every process knows in full (MPI-5.0 section 8.5.3).

use super::rank_error;
use crate::{Rank, Result};

/// A graph as `MPI_Graph_create` takes it: node `i` has the edges `index[i - 1]..index[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    index: Box<[i32]>,
    edges: Box<[Rank]>,
}

impl Graph {
    /// The number of edges that `index` announces, for whoever must know how long `edges` is.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: the numbers of `index` are negative or decrease.
    pub fn edge_count(index: &[i32]) -> Result<usize> {
        let mut before = 0;
        for (at, end) in index.iter().enumerate() {
            if *end < before {
                return fail!(
                    ERR_ARG: "index[{at}]={end}: must be at least {before}, the edges counted before it"
                );
            }
            before = *end;
        }
        Ok(before as usize)
    }

    /// A graph of `index.len()` nodes in a communicator of `nprocs` processes; those left over are not in
    /// it. Loops, repeated edges and one-way edges are allowed.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: more nodes than processes, a bad index, an edge to a node that is not there.
    pub fn new(nprocs: u32, index: &[i32], edges: &[Rank]) -> Result<Self> {
        let nodes = index.len();
        if nodes as u64 > u64::from(nprocs) {
            return fail!(ERR_ARG: "nnodes={nodes}: comm_old has only {nprocs} processes");
        }
        let count = Self::edge_count(index)?;
        let Some(edges) = edges.get(..count) else {
            return fail!(ERR_ARG: "edges: index announces {count} edges and {} are there", edges.len());
        };
        for (at, node) in edges.iter().enumerate() {
            if !usize::try_from(*node).is_ok_and(|node| node < nodes) {
                return fail!(ERR_ARG: "edges[{at}]={node}: the graph has nodes 0 to {}", nodes as i64 - 1);
            }
        }
        Ok(Self {
            index: index.into(),
            edges: edges.into(),
        })
    }

    /// Number of nodes, which is the number of processes in the graph.
    pub fn nnodes(&self) -> usize {
        self.index.len()
    }

    /// Number of edges.
    pub fn nedges(&self) -> usize {
        self.edges.len()
    }

    /// As given to `MPI_Graph_create`.
    pub fn index(&self) -> &[i32] {
        &self.index
    }

    /// As given to `MPI_Graph_create`.
    pub fn edges(&self) -> &[Rank] {
        &self.edges
    }

    /// `MPI_Graph_map` without reordering: the rank itself when it is in the graph, else `None`
    /// (`MPI_UNDEFINED`).
    pub fn map(&self, rank: Rank) -> Option<Rank> {
        usize::try_from(rank)
            .is_ok_and(|r| r < self.nnodes())
            .then_some(rank)
    }

    /// `MPI_Graph_neighbors`: in the order of `edges`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`: `rank` is not in the graph.
    pub fn neighbors(&self, rank: Rank) -> Result<&[Rank]> {
        if self.map(rank).is_none() {
            return Err(rank_error("rank", rank, self.nnodes()));
        }
        let node = rank as usize;
        let from = if node == 0 { 0 } else { self.index[node - 1] };
        Ok(&self.edges[from as usize..self.index[node] as usize])
    }
}
