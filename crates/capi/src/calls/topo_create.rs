//! Making communicators with topologies (MPI-5.0 section 8.5).

use core::ffi::c_int;

use farpost_mpi::comm::SHARED_MEMORY;
use farpost_mpi::info::Info;
use farpost_mpi::topo::{DistGraph, EdgeList, Graph};
use farpost_mpi::{ErrorClass, Result};

use super::comm::put;
use crate::abi;
use crate::args::{self, Array, Out};
use crate::cx::{CommRef, Cx, InfoRef};

fn bools(values: &[c_int]) -> Vec<bool> {
    values.iter().map(|v| *v != 0).collect()
}

pub(crate) fn mpi_cart_create(
    cx: &Cx,
    comm: &CommRef,
    _ndims: c_int,
    dims: &[c_int],
    periods: &[c_int],
    _reorder: bool,
    comm_cart: Out<usize>,
) -> Result<()> {
    put(comm_cart, cx.world().cart_create(comm, dims, &bools(periods))?);
    Ok(())
}

pub(crate) fn mpi_cart_sub(
    cx: &Cx,
    comm: &CommRef,
    remain_dims: Array<'_, c_int>,
    newcomm: Out<usize>,
) -> Result<()> {
    let dims = match &*comm.topology.borrow() {
        Some(topology) => topology.cart()?.ndims(),
        // What is wrong is said below.
        None => 0,
    };
    let remain = bools(remain_dims.get(dims)?);
    put(newcomm, Some(cx.world().cart_sub(comm, &remain)?));
    Ok(())
}

pub(crate) fn mpi_graph_create(
    cx: &Cx,
    comm: &CommRef,
    _nnodes: c_int,
    index: &[c_int],
    edges: Array<'_, c_int>,
    _reorder: bool,
    comm_graph: Out<usize>,
) -> Result<()> {
    let edges = edges.get(Graph::edge_count(index)?)?;
    put(comm_graph, cx.world().graph_create(comm, index, edges)?);
    Ok(())
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

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_dist_graph_create(
    cx: &Cx,
    comm: &CommRef,
    _n: c_int,
    sources: &[c_int],
    degrees: &[c_int],
    destinations: Array<'_, c_int>,
    weights_of: *const c_int,
    _info: Option<InfoRef>,
    _reorder: bool,
    comm_dist_graph: Out<usize>,
) -> Result<()> {
    let edges = EdgeList::edge_count(degrees).and_then(|count| {
        // SAFETY: by the contract of the C function.
        let weights = unsafe { weights("weights", weights_of, count) }?;
        EdgeList::new(comm.size(), sources, degrees, destinations.get(count)?, weights)
    });
    put(comm_dist_graph, Some(cx.world().dist_graph_create(comm, edges)?));
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_dist_graph_create_adjacent(
    cx: &Cx,
    comm: &CommRef,
    indegree: c_int,
    sources: &[c_int],
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: &[c_int],
    destweights: *const c_int,
    _info: Option<InfoRef>,
    _reorder: bool,
    comm_dist_graph: Out<usize>,
) -> Result<()> {
    // Whatever is wrong here has to be known to the others too.
    let graph = (|| {
        args::non_negative("indegree", i64::from(indegree), ErrorClass::ERR_ARG)?;
        args::non_negative("outdegree", i64::from(outdegree), ErrorClass::ERR_ARG)?;
        // SAFETY: by the contract of the C function.
        let from = unsafe { weights("sourceweights", sourceweights, sources.len()) }?;
        // SAFETY: by the contract of the C function.
        let to = unsafe { weights("destweights", destweights, destinations.len()) }?;
        DistGraph::adjacent(comm.size(), sources, from, destinations, to)
    })();
    put(
        comm_dist_graph,
        Some(cx.world().dist_graph_create_adjacent(comm, graph)?),
    );
    Ok(())
}

/// All processes of this host share its memory; nothing else is told apart.
pub(crate) fn mpi_get_hw_resource_info(cx: &Cx, hw_info: Out<usize>) -> Result<()> {
    let mut info = Info::new();
    info.set(SHARED_MEMORY.as_bytes(), b"true")?;
    hw_info.set(cx.objects.new_info(info)?);
    Ok(())
}
