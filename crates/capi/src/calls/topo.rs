//! What a topology says of itself (MPI-5.0 chapter 8).
//!
//! Requirements of MPI-5.0 section 8.5.5.

use core::ffi::c_int;
use std::cell::Ref;

use farpost_mpi::topo::{self, Cart, DistGraph, Graph, Topology};
use farpost_mpi::{Error, ErrorClass, Result};

use crate::abi;
use crate::args::{Array, Out, OutArray};
use crate::cx::{CommRef, Cx};

/// The topology of `comm`, narrowed to one kind.
fn topology<'a, T>(comm: &'a CommRef, narrow: impl FnOnce(&Topology) -> Result<&T>) -> Result<Ref<'a, T>> {
    let all = comm.topology.borrow();
    let mut error = None;
    let narrowed = Ref::filter_map(all, |all| match all {
        Some(all) => narrow(all).map_err(|e| error = Some(e)).ok(),
        None => None,
    });
    narrowed
        .map_err(|_| error.unwrap_or_else(|| Error::new(ErrorClass::ERR_TOPOLOGY, "comm has no topology")))
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
    Err(Error::new(
        ErrorClass::ERR_ARG,
        format!("{name}={max}: there are {needed} to store"),
    ))
}

fn bools(values: &[c_int]) -> Vec<bool> {
    values.iter().map(|v| *v != 0).collect()
}

pub(crate) fn mpi_topo_test(_: &Cx, comm: &CommRef, status: Out<c_int>) -> Result<()> {
    status.set(
        comm.topology
            .borrow()
            .as_ref()
            .map_or(abi::MPI_UNDEFINED, Topology::status),
    );
    Ok(())
}

pub(crate) fn mpi_dims_create(_: &Cx, nnodes: c_int, _ndims: c_int, dims: &mut [c_int]) -> Result<()> {
    topo::dims_create(nnodes, dims)
}

pub(crate) fn mpi_cartdim_get(_: &Cx, comm: &CommRef, ndims: Out<c_int>) -> Result<()> {
    ndims.set(cart(comm)?.ndims() as c_int);
    Ok(())
}

pub(crate) fn mpi_cart_get(
    _: &Cx,
    comm: &CommRef,
    maxdims: c_int,
    dims: OutArray<c_int>,
    periods: OutArray<c_int>,
    coords: OutArray<c_int>,
) -> Result<()> {
    let cart = cart(comm)?;
    room("maxdims", maxdims, cart.ndims())?;
    let wraps: Vec<c_int> = cart.periods().iter().map(|p| c_int::from(*p)).collect();
    dims.fill(cart.dims())?;
    periods.fill(&wraps)?;
    coords.fill(&cart.coords(comm.rank)?)
}

pub(crate) fn mpi_cart_rank(
    _: &Cx,
    comm: &CommRef,
    coords: Array<'_, c_int>,
    rank: Out<c_int>,
) -> Result<()> {
    let cart = cart(comm)?;
    rank.set(cart.rank(coords.get(cart.ndims())?)?);
    Ok(())
}

pub(crate) fn mpi_cart_coords(
    _: &Cx,
    comm: &CommRef,
    rank: c_int,
    maxdims: c_int,
    coords: OutArray<c_int>,
) -> Result<()> {
    let cart = cart(comm)?;
    room("maxdims", maxdims, cart.ndims())?;
    coords.fill(&cart.coords(rank)?)
}

pub(crate) fn mpi_cart_shift(
    _: &Cx,
    comm: &CommRef,
    direction: c_int,
    disp: c_int,
    rank_source: Out<c_int>,
    rank_dest: Out<c_int>,
) -> Result<()> {
    let (source, dest) = cart(comm)?.shift(comm.rank, direction, disp)?;
    rank_source.set(source);
    rank_dest.set(dest);
    Ok(())
}

pub(crate) fn mpi_cart_map(
    _: &Cx,
    comm: &CommRef,
    _ndims: c_int,
    dims: &[c_int],
    periods: &[c_int],
    newrank: Out<c_int>,
) -> Result<()> {
    let grid = Cart::new(comm.size(), dims, &bools(periods))?;
    newrank.set(grid.map(comm.rank).unwrap_or(abi::MPI_UNDEFINED));
    Ok(())
}

pub(crate) fn mpi_graphdims_get(
    _: &Cx,
    comm: &CommRef,
    nnodes: Out<c_int>,
    nedges: Out<c_int>,
) -> Result<()> {
    let graph = graph(comm)?;
    nnodes.set(graph.nnodes() as c_int);
    nedges.set(graph.nedges() as c_int);
    Ok(())
}

pub(crate) fn mpi_graph_get(
    _: &Cx,
    comm: &CommRef,
    maxindex: c_int,
    maxedges: c_int,
    index: OutArray<c_int>,
    edges: OutArray<c_int>,
) -> Result<()> {
    let graph = graph(comm)?;
    first(index, graph.index(), maxindex)?;
    first(edges, graph.edges(), maxedges)
}

pub(crate) fn mpi_graph_neighbors_count(
    _: &Cx,
    comm: &CommRef,
    rank: c_int,
    nneighbors: Out<c_int>,
) -> Result<()> {
    nneighbors.set(graph(comm)?.neighbors(rank)?.len() as c_int);
    Ok(())
}

pub(crate) fn mpi_graph_neighbors(
    _: &Cx,
    comm: &CommRef,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: OutArray<c_int>,
) -> Result<()> {
    let graph = graph(comm)?;
    first(neighbors, graph.neighbors(rank)?, maxneighbors)
}

pub(crate) fn mpi_graph_map(
    _: &Cx,
    comm: &CommRef,
    _nnodes: c_int,
    index: &[c_int],
    edges: Array<'_, c_int>,
    newrank: Out<c_int>,
) -> Result<()> {
    let edges = edges.get(Graph::edge_count(index)?)?;
    let graph = Graph::new(comm.size(), index, edges)?;
    newrank.set(graph.map(comm.rank).unwrap_or(abi::MPI_UNDEFINED));
    Ok(())
}

pub(crate) fn mpi_dist_graph_neighbors_count(
    _: &Cx,
    comm: &CommRef,
    indegree: Out<c_int>,
    outdegree: Out<c_int>,
    weighted: Out<c_int>,
) -> Result<()> {
    let graph = dist_graph(comm)?;
    indegree.set(graph.sources().len() as c_int);
    outdegree.set(graph.destinations().len() as c_int);
    weighted.set(c_int::from(graph.is_weighted()));
    Ok(())
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

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_dist_graph_neighbors(
    _: &Cx,
    comm: &CommRef,
    maxindegree: c_int,
    sources: OutArray<c_int>,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: OutArray<c_int>,
    destweights: *mut c_int,
) -> Result<()> {
    let graph = dist_graph(comm)?;
    first(sources, graph.sources(), maxindegree)?;
    first(destinations, graph.destinations(), maxoutdegree)?;
    // SAFETY: by the contract of the C function.
    unsafe {
        weights(
            "sourceweights",
            sourceweights,
            graph.source_weights(),
            maxindegree,
        )?;
        weights("destweights", destweights, graph.dest_weights(), maxoutdegree)
    }
}
