//! What a topology says of itself (MPI-5.0 chapter 8).
//!
//! Requirements of MPI-5.0 section 8.5.5.

use core::ffi::c_int;
use std::cell::Ref;

use farpost_mpi::topo::{self, Cart, DistGraph, Graph, Topology};
use farpost_mpi::{Result, error, fail};

use super::arg;
use crate::abi;
use crate::args::OutArray;
use crate::cx::{CommRef, Cx};

/// The topology of `comm`, narrowed to one kind.
fn topology<'a, T>(comm: &'a CommRef, narrow: impl FnOnce(&Topology) -> Result<&T>) -> Result<Ref<'a, T>> {
    let all = comm.topology.borrow();
    let mut error = None;
    let narrowed = Ref::filter_map(all, |all| match all {
        Some(all) => narrow(all).map_err(|e| error = Some(e)).ok(),
        None => None,
    });
    narrowed.map_err(|_| error.unwrap_or_else(|| error!(ERR_TOPOLOGY: "comm has no topology")))
}

fn cart(comm: &CommRef) -> Result<Ref<'_, Cart>> {
    topology(comm, Topology::cart)
}

fn graph(comm: &CommRef) -> Result<Ref<'_, Graph>> {
    topology(comm, Topology::graph)
}

fn dist_graph(comm: &CommRef) -> Result<Ref<'_, DistGraph>> {
    topology(comm, Topology::dist_graph)
}

/// As many of `values` as the program has room for, at least all that there are of a grid's dimensions.
fn first<T: Copy>(out: OutArray<T>, values: &[T], max: c_int) -> Result<()> {
    out.fill(&values[..values.len().min(max.max(0) as usize)])
}

fn room(name: &str, max: c_int, needed: usize) -> Result<()> {
    if max >= 0 && max as usize >= needed {
        return Ok(());
    }
    fail!(ERR_ARG: "{name}={max}: there are {needed} to store")
}

pub(super) fn bools(values: &[c_int]) -> Vec<bool> {
    values.iter().map(|v| *v != 0).collect()
}

pub(crate) fn mpi_topo_test(_: &Cx, a: arg::TopoTest) -> Result<c_int> {
    let topology = a.comm.topology.borrow();
    Ok(topology.as_ref().map_or(abi::MPI_UNDEFINED, Topology::status))
}

pub(crate) fn mpi_dims_create(_: &Cx, a: arg::DimsCreate) -> Result<()> {
    topo::dims_create(a.nnodes, a.dims)
}

pub(crate) fn mpi_cartdim_get(_: &Cx, a: arg::CartdimGet) -> Result<c_int> {
    Ok(cart(a.comm)?.ndims() as c_int)
}

pub(crate) fn mpi_cart_get(_: &Cx, a: arg::CartGet) -> Result<()> {
    let cart = cart(a.comm)?;
    room("maxdims", a.maxdims, cart.ndims())?;
    let wraps: Vec<c_int> = cart.periods().iter().map(|p| c_int::from(*p)).collect();
    a.dims.fill(cart.dims())?;
    a.periods.fill(&wraps)?;
    a.coords.fill(&cart.coords(a.comm.rank)?)
}

pub(crate) fn mpi_cart_rank(_: &Cx, a: arg::CartRank) -> Result<c_int> {
    let cart = cart(a.comm)?;
    cart.rank(a.coords.get(cart.ndims())?)
}

pub(crate) fn mpi_cart_coords(_: &Cx, a: arg::CartCoords) -> Result<()> {
    let cart = cart(a.comm)?;
    room("maxdims", a.maxdims, cart.ndims())?;
    a.coords.fill(&cart.coords(a.rank)?)
}

pub(crate) fn mpi_cart_shift(_: &Cx, a: arg::CartShift) -> Result<(c_int, c_int)> {
    cart(a.comm)?.shift(a.comm.rank, a.direction, a.disp)
}

pub(crate) fn mpi_cart_map(_: &Cx, a: arg::CartMap) -> Result<c_int> {
    let grid = Cart::new(a.comm.size(), a.dims, &bools(a.periods))?;
    Ok(grid.map(a.comm.rank).unwrap_or(abi::MPI_UNDEFINED))
}

pub(crate) fn mpi_graphdims_get(_: &Cx, a: arg::GraphdimsGet) -> Result<(c_int, c_int)> {
    let graph = graph(a.comm)?;
    Ok((graph.nnodes() as c_int, graph.nedges() as c_int))
}

pub(crate) fn mpi_graph_get(_: &Cx, a: arg::GraphGet) -> Result<()> {
    let graph = graph(a.comm)?;
    first(a.indx, graph.index(), a.maxindex)?;
    first(a.edges, graph.edges(), a.maxedges)
}

pub(crate) fn mpi_graph_neighbors_count(_: &Cx, a: arg::GraphNeighborsCount) -> Result<c_int> {
    Ok(graph(a.comm)?.neighbors(a.rank)?.len() as c_int)
}

pub(crate) fn mpi_graph_neighbors(_: &Cx, a: arg::GraphNeighbors) -> Result<()> {
    let graph = graph(a.comm)?;
    first(a.neighbors, graph.neighbors(a.rank)?, a.maxneighbors)
}

pub(crate) fn mpi_graph_map(_: &Cx, a: arg::GraphMap) -> Result<c_int> {
    let edges = a.edges;
    let edges = edges.get(Graph::edge_count(a.indx)?)?;
    let graph = Graph::new(a.comm.size(), a.indx, edges)?;
    Ok(graph.map(a.comm.rank).unwrap_or(abi::MPI_UNDEFINED))
}

pub(crate) fn mpi_dist_graph_neighbors_count(
    _: &Cx,
    a: arg::DistGraphNeighborsCount,
) -> Result<(c_int, c_int, bool)> {
    let graph = dist_graph(a.comm)?;
    let (sources, destinations) = (graph.sources().len(), graph.destinations().len());
    Ok((sources as c_int, destinations as c_int, graph.is_weighted()))
}

/// Where weights go: an array, or one of the constants that stand for none.
///
/// # Safety
/// An array has room for `values`.
unsafe fn weights(
    name: &'static str,
    address: *mut c_int,
    values: Option<&[c_int]>,
    max: c_int,
) -> Result<()> {
    let Some(values) = values else { return Ok(()) };
    if [abi::MPI_UNWEIGHTED, abi::MPI_WEIGHTS_EMPTY].contains(&(address as usize)) {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    first(unsafe { OutArray::new(name, address) }, values, max)
}

pub(crate) unsafe fn mpi_dist_graph_neighbors(_: &Cx, a: arg::DistGraphNeighbors) -> Result<()> {
    let graph = dist_graph(a.comm)?;
    first(a.sources, graph.sources(), a.maxindegree)?;
    first(a.destinations, graph.destinations(), a.maxoutdegree)?;
    // SAFETY: by the contract of the C function.
    unsafe {
        weights(
            "sourceweights",
            a.sourceweights,
            graph.source_weights(),
            a.maxindegree,
        )?;
        weights("destweights", a.destweights, graph.dest_weights(), a.maxoutdegree)
    }
}
