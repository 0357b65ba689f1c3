//! Communicators with a topology (MPI-5.0 section 8.5). Ranks stay as they are (`reorder` is a permission).

use crate::comm::Comm;
use crate::group::Group;
use crate::topo::{Cart, DistGraph, EdgeList, Graph, Topology};
use crate::world::World;
use crate::{Error, Rank, Result};
use farpost_fabric::Fabric;
use std::rc::Rc;

impl<F: Fabric> World<F> {
    /// `MPI_Cart_create`. `None` is `MPI_COMM_NULL`: left over.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: an intercommunicator. Those of [`Cart::new`].
    pub fn cart_create(&self, comm: &Rc<Comm>, dims: &[i32], periods: &[bool]) -> Result<Option<Rc<Comm>>> {
        comm.need_intra("comm_old")?;
        let cart = Cart::new(comm.size(), dims, periods)?;
        let size = cart.size();
        self.first_ones(comm, size, Topology::Cart(cart))
    }

    /// `MPI_Graph_create`. `None` is `MPI_COMM_NULL`: left over.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: an intercommunicator. Those of [`Graph::new`].
    pub fn graph_create(&self, comm: &Rc<Comm>, index: &[i32], edges: &[Rank]) -> Result<Option<Rc<Comm>>> {
        comm.need_intra("comm_old")?;
        let graph = Graph::new(comm.size(), index, edges)?;
        let size = graph.nnodes() as u32;
        self.first_ones(comm, size, Topology::Graph(graph))
    }

    /// A communicator of the first `size` members.
    fn first_ones(&self, comm: &Rc<Comm>, size: u32, topology: Topology) -> Result<Option<Rc<Comm>>> {
        let pids: Vec<u32> = comm.local.iter().take(size as usize).collect();
        let new = self.comm_create(comm, &Group::from_pids(&pids))?;
        if let Some(new) = &new {
            new.topology.replace(Some(topology));
        }
        Ok(new)
    }

    /// `MPI_Cart_sub`.
    ///
    /// # Errors
    /// `MPI_ERR_TOPOLOGY`: no grid. Those of [`Cart::sub`].
    pub fn cart_sub(&self, comm: &Rc<Comm>, remain: &[bool]) -> Result<Rc<Comm>> {
        let sub = match &*comm.topology.borrow() {
            Some(topology) => topology.cart()?.sub(comm.rank, remain)?,
            None => return Err(no_topology()),
        };
        let new = self.comm_split(comm, sub.color, sub.rank)?;
        let new = new.ok_or_else(|| error!(ERR_INTERN: "a part of a grid has no members"))?;
        new.topology.replace(Some(Topology::Cart(sub.cart)));
        Ok(new)
    }

    /// `MPI_Dist_graph_create_adjacent` with what [`DistGraph::adjacent`] made of the arguments. An error of one
    /// rank's is an error at all.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: an intercommunicator. `MPI_ERR_ARG`: another rank's arguments are wrong.
    pub fn dist_graph_create_adjacent(&self, comm: &Rc<Comm>, graph: Result<DistGraph>) -> Result<Rc<Comm>> {
        comm.need_intra("comm_old")?;
        let mine = [i64::from(graph.is_err()), self.new_context() as i64];
        let all = self.gather_local(comm, &mine)?;
        let graph = graph?;
        if let Some(rank) = all.chunks_exact(2).position(|w| w[0] != 0) {
            return Err(others_fault(rank));
        }
        self.with_graph(comm, all[1], graph)
    }

    /// `MPI_Dist_graph_create` with what [`EdgeList::new`] made of the arguments. An error of one rank's is an
    /// error at all.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: an intercommunicator. `MPI_ERR_ARG`: another rank's arguments are wrong, or some gave weights
    /// and others MPI_UNWEIGHTED.
    pub fn dist_graph_create(&self, comm: &Rc<Comm>, edges: Result<EdgeList>) -> Result<Rc<Comm>> {
        const WORDS: usize = 4;
        comm.need_intra("comm_old")?;
        let (length, weighted) = edges
            .as_ref()
            .map_or((0, false), |edges| (edges.flat().len(), edges.is_weighted()));
        let mine = [
            i64::from(edges.is_err()),
            self.new_context() as i64,
            length as i64,
            i64::from(weighted),
        ];
        let all = self.gather_local(comm, &mine)?;
        let edges = edges?;
        let mut each = all.chunks_exact(WORDS);
        if let Some(rank) = each.clone().position(|w| w[0] != 0) {
            return Err(others_fault(rank));
        }
        // A rank without edges has no weights to give.
        let mut kinds = each.clone().filter(|w| w[2] > 0).map(|w| w[3] != 0);
        let is_weighted = kinds.next().unwrap_or(weighted);
        if kinds.any(|kind| kind != is_weighted) {
            return fail!(
                ERR_ARG: "weights: some ranks gave weights and others MPI_UNWEIGHTED; it must be the same at all"
            );
        }
        let unsaid = each.clone().all(|w| w[2] == 0) && each.any(|w| w[3] != 0);
        let lengths: Vec<i64> = all.chunks_exact(WORDS).map(|w| w[2]).collect();
        let flat: Vec<i64> = edges.flat().iter().map(|word| i64::from(*word)).collect();
        let flat = self.gather_uneven(comm, &flat, &lengths)?;
        let flat: Vec<i32> = flat.into_iter().map(|word| word as i32).collect();
        let graph = DistGraph::from_gathered(comm.rank, &flat, is_weighted || unsaid);
        self.with_graph(comm, all[1], graph)
    }

    fn with_graph(&self, comm: &Rc<Comm>, number: i64, graph: DistGraph) -> Result<Rc<Comm>> {
        let new = self.make(comm, number, comm.local.clone(), None)?;
        new.topology.replace(Some(Topology::DistGraph(graph)));
        Ok(new)
    }
}

fn others_fault(rank: usize) -> Error {
    error!(ERR_ARG: "the arguments of rank {rank} are wrong, so there is no graph")
}

fn no_topology() -> Error {
    error!(ERR_TOPOLOGY: "comm has no topology")
}
