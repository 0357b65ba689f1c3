//! Making communicators with topologies (MPI-5.0 section 8.5).

use core::ffi::c_int;

use farpost_mpi::comm::SHARED_MEMORY;
use farpost_mpi::info::Info;
use farpost_mpi::topo::{DistGraph, EdgeList, Graph};
use farpost_mpi::{ErrorClass, Result};

use super::arg;
use super::comm::put;
use super::topo::bools;
use crate::abi;
use crate::args::{self, Array};
use crate::cx::Cx;

pub(crate) fn mpi_cart_create(cx: &Cx, a: arg::CartCreate) -> Result<usize> {
    Ok(put(cx.world().cart_create(
        a.comm_old,
        a.dims,
        &bools(a.periods),
    )?))
}

pub(crate) fn mpi_cart_sub(cx: &Cx, a: arg::CartSub) -> Result<usize> {
    let dims = match &*a.comm.topology.borrow() {
        Some(topology) => topology.cart()?.ndims(),
        // What is wrong is said below.
        None => 0,
    };
    let remain = bools(a.remain_dims.get(dims)?);
    Ok(put(Some(cx.world().cart_sub(a.comm, &remain)?)))
}

pub(crate) fn mpi_graph_create(cx: &Cx, a: arg::GraphCreate) -> Result<usize> {
    let edges = a.edges;
    let edges = edges.get(Graph::edge_count(a.indx)?)?;
    Ok(put(cx.world().graph_create(a.comm_old, a.indx, edges)?))
}

/// The weights at `address`, of which there are `count`; `None` for `MPI_UNWEIGHTED`.
///
/// # Safety
/// One of the constants, or an array of `count`.
unsafe fn weights<'a>(
    name: &'static str,
    address: *const c_int,
    count: usize,
) -> Result<Option<&'a [c_int]>> {
    match address as usize {
        abi::MPI_UNWEIGHTED => Ok(None),
        abi::MPI_WEIGHTS_EMPTY => Ok(Some(&[])),
        // SAFETY: the caller's promise.
        _ => unsafe { Array::new(name, address) }.get(count).map(Some),
    }
}

pub(crate) unsafe fn mpi_dist_graph_create(cx: &Cx, a: arg::DistGraphCreate) -> Result<usize> {
    let edges = EdgeList::edge_count(a.degrees).and_then(|count| {
        // SAFETY: by the contract of the C function.
        let weights = unsafe { weights("weights", a.weights, count) }?;
        EdgeList::new(
            a.comm_old.size(),
            a.sources,
            a.degrees,
            a.destinations.get(count)?,
            weights,
        )
    });
    Ok(put(Some(cx.world().dist_graph_create(a.comm_old, edges)?)))
}

pub(crate) unsafe fn mpi_dist_graph_create_adjacent(
    cx: &Cx,
    a: arg::DistGraphCreateAdjacent,
) -> Result<usize> {
    // Whatever is wrong here has to be known to the others too.
    let graph = (|| {
        args::non_negative("indegree", i64::from(a.indegree), ErrorClass::ERR_ARG)?;
        args::non_negative("outdegree", i64::from(a.outdegree), ErrorClass::ERR_ARG)?;
        // SAFETY: by the contract of the C function.
        let from = unsafe { weights("sourceweights", a.sourceweights, a.sources.len()) }?;
        // SAFETY: by the contract of the C function.
        let to = unsafe { weights("destweights", a.destweights, a.destinations.len()) }?;
        DistGraph::adjacent(a.comm_old.size(), a.sources, from, a.destinations, to)
    })();
    Ok(put(Some(
        cx.world().dist_graph_create_adjacent(a.comm_old, graph)?,
    )))
}

/// All processes of this host share its memory; nothing else is told apart.
pub(crate) fn mpi_get_hw_resource_info(cx: &Cx) -> Result<usize> {
    let mut info = Info::new();
    info.set(SHARED_MEMORY.as_bytes(), b"true")?;
    cx.objects.new_info(info)
}
