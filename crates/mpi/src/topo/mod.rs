//! Process topologies (MPI-5.0 chapter 8): the arithmetic, without any communication.
//!
//! Everything here is set-up path but for `Cart::shift` and `Cart::rank`, which take a few multiplications and
//! no memory.

mod cart;
mod dims;
mod dist_graph;
mod graph;
#[cfg(test)]
mod tests;

pub use cart::{Cart, SubGrid};
pub use dims::dims_create;
pub use dist_graph::{DistGraph, EdgeList};
pub use graph::Graph;

use crate::group::PROC_NULL;
use crate::{Error, Rank, Result};

/// The topology attached to a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Created by `MPI_Cart_create` or `MPI_Cart_sub`.
    Cart(Cart),
    /// Created by `MPI_Graph_create`.
    Graph(Graph),
    /// Created by `MPI_Dist_graph_create` or `MPI_Dist_graph_create_adjacent`.
    DistGraph(DistGraph),
}

impl Topology {
    /// What `MPI_Topo_test` returns: `MPI_CART`, `MPI_GRAPH` or `MPI_DIST_GRAPH`.
    pub fn status(&self) -> i32 {
        match self {
            Self::Cart(_) => 211,
            Self::Graph(_) => 212,
            Self::DistGraph(_) => 213,
        }
    }

    /// The grid.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`: a graph.
    pub fn cart(&self) -> Result<&Cart> {
        match self {
            Self::Cart(cart) => Ok(cart),
            _ => Err(self.mismatch("Cartesian")),
        }
    }

    /// The graph.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`: a grid or a distributed graph.
    pub fn graph(&self) -> Result<&Graph> {
        match self {
            Self::Graph(graph) => Ok(graph),
            _ => Err(self.mismatch("graph")),
        }
    }

    /// The distributed graph.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`: a grid or a graph.
    pub fn dist_graph(&self) -> Result<&DistGraph> {
        match self {
            Self::DistGraph(graph) => Ok(graph),
            _ => Err(self.mismatch("distributed graph")),
        }
    }

    fn mismatch(&self, wanted: &str) -> Error {
        let has = match self {
            Self::Cart(_) => "Cartesian",
            Self::Graph(_) => "graph",
            Self::DistGraph(_) => "distributed graph",
        };
        error!(ERR_TOPOLOGY: "comm has a {has} topology; this call needs a {wanted} topology")
    }

    /// Whom `rank` exchanges with in a neighborhood collective (MPI-5.0 section 8.6).
    ///
    /// # Errors
    /// `MPI_ERR_RANK`: not a rank of the topology (for a distributed graph `rank` must be the own one and is
    /// not looked at).
    pub fn neighbors(&self, rank: Rank) -> Result<Neighbors> {
        match self {
            Self::Cart(cart) => cart.neighbors(rank),
            Self::Graph(graph) => graph.neighbors(rank).map(|list| Neighbors::unlaned(list, list)),
            Self::DistGraph(graph) => Ok(Neighbors::unlaned(graph.sources(), graph.destinations())),
        }
    }
}

/// The neighbours of one process, in the order of the buffers of a neighborhood collective.
///
/// A process may be a neighbour more than once. Messages between the same two processes then pair by lane
/// (block `j` sent on lane `send_lanes[j]` belongs to the block with the same lane in `recv_lanes` of the
/// receiver), and within a lane in order. Lanes matter in a periodic dimension of one or two processes, where
/// what is sent in the negative direction must arrive as coming from the positive one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbors {
    /// Whom to receive from; `MPI_PROC_NULL` keeps its block and moves nothing.
    pub sources: Vec<Rank>,
    /// Whom to send to; `MPI_PROC_NULL` keeps its block and moves nothing.
    pub destinations: Vec<Rank>,
    /// One per source.
    pub recv_lanes: Vec<u32>,
    /// One per destination.
    pub send_lanes: Vec<u32>,
}

impl Neighbors {
    fn unlaned(sources: &[Rank], destinations: &[Rank]) -> Self {
        Self {
            sources: sources.to_vec(),
            destinations: destinations.to_vec(),
            recv_lanes: vec![0; sources.len()],
            send_lanes: vec![0; destinations.len()],
        }
    }
}

fn rank_error(name: &str, rank: Rank, size: usize) -> Error {
    let has = match size {
        0 => "the topology has no processes".to_string(),
        n => format!("the topology has ranks 0 to {}", n - 1),
    };
    error!(ERR_RANK: "{name}={rank}: {has}")
}
