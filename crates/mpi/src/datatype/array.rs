//! Subarrays and distributed arrays (MPI-5.0 sections 5.1.3 and 5.1.4).

use super::Datatype;
use super::construct::count_arg;
use super::envelope::{Combiner, Envelope};
use super::shape::Shape;
use crate::errors::Result;

/// `MPI_ORDER_C`: the last dimension varies fastest.
pub const ORDER_C: i32 = 0xc;
/// `MPI_ORDER_FORTRAN`: the first dimension varies fastest.
pub const ORDER_FORTRAN: i32 = 0xf;
/// `MPI_DISTRIBUTE_NONE`.
pub const DISTRIBUTE_NONE: i32 = 16;
/// `MPI_DISTRIBUTE_BLOCK`.
pub const DISTRIBUTE_BLOCK: i32 = 17;
/// `MPI_DISTRIBUTE_CYCLIC`.
pub const DISTRIBUTE_CYCLIC: i32 = 18;
/// `MPI_DISTRIBUTE_DFLT_DARG`.
pub const DISTRIBUTE_DFLT_DARG: i32 = 19;

/// Dimensions from the fastest to the slowest.
fn fastest_first(order: i32, ndims: usize) -> Result<Vec<usize>> {
    match order {
        ORDER_C => Ok((0..ndims).rev().collect()),
        ORDER_FORTRAN => Ok((0..ndims).collect()),
        _ => fail!(ERR_ARG: "order={order}: allowed are MPI_ORDER_C and MPI_ORDER_FORTRAN"),
    }
}

fn product(what: &str, left: i64, right: i64) -> Result<i64> {
    match left.checked_mul(right) {
        Some(product) => Ok(product),
        None => fail!(ERR_VALUE_TOO_LARGE: "the {what} of the whole array does not fit 64 bits"),
    }
}

/// A typemap without an envelope of its own, part of a larger one.
fn internal(shape: Shape) -> Result<Datatype> {
    Datatype::build(
        shape,
        None,
        Envelope::plain(Combiner::STRUCT, vec![], vec![], vec![]),
    )
}

impl Datatype {
    /// `MPI_Type_create_subarray`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a bad order, size, subsize or start; as all constructors otherwise.
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: i32,
        old: &Datatype,
    ) -> Result<Datatype> {
        let ndims = sizes.len();
        if ndims == 0 || subsizes.len() != ndims || starts.len() != ndims {
            return fail!(ERR_ARG: "ndims={ndims}: at least one dimension is needed, and a size, subsize and start for each");
        }
        let dims = fastest_first(order, ndims)?;
        for dim in 0..ndims {
            let (size, sub, start) = (sizes[dim], subsizes[dim], starts[dim]);
            if size < 1 {
                return fail!(ERR_ARG: "array_of_sizes[{dim}]={size}: a size is at least 1");
            }
            if sub < 1 || sub > size {
                return fail!(ERR_ARG: "array_of_subsizes[{dim}]={sub}: allowed are 1 to {size}");
            }
            if start < 0 || start > size - sub {
                return fail!(ERR_ARG: "array_of_starts[{dim}]={start}: allowed are 0 to {}",
                    size - sub);
            }
        }
        let (mut part, mut stride, mut disp) = (old.clone(), old.extent(), 0i64);
        for dim in dims {
            part = internal(Shape::Repeat {
                count: subsizes[dim] as u64,
                block: 1,
                stride,
                child: part,
            })?;
            // Below the product of sizes, which is checked next.
            disp = disp.wrapping_add(stride.wrapping_mul(starts[dim]));
            stride = product("extent", stride, sizes[dim])?;
        }
        let mut integers = vec![ndims as i64];
        for list in [sizes, subsizes, starts] {
            integers.extend_from_slice(list);
        }
        integers.push(order as i64);
        let envelope = Envelope::plain(Combiner::SUBARRAY, integers, vec![], vec![old.clone()]);
        let placed = internal(Shape::Blocks {
            block: 1,
            disps: [disp].into(),
            child: part,
        })?;
        Self::build(Shape::Same(placed), Some((0, stride)), envelope)
    }

    /// `MPI_Type_create_darray`: the part of process `rank` of `size` in an array distributed over a grid of
    /// processes in row-major order.
    ///
    /// # Errors
    /// As [`Datatype::subarray`].
    #[allow(clippy::too_many_arguments)] // The standard's own list.
    pub fn darray(
        size: i32,
        rank: i32,
        gsizes: &[i64],
        distribs: &[i32],
        dargs: &[i32],
        psizes: &[i32],
        order: i32,
        old: &Datatype,
    ) -> Result<Datatype> {
        let ndims = gsizes.len();
        if ndims == 0 || [distribs.len(), dargs.len(), psizes.len()] != [ndims; 3] {
            return fail!(ERR_ARG: "ndims={ndims}: at least one dimension is needed, and every array must have an entry for each");
        }
        let dims = fastest_first(order, ndims)?;
        if size < 1 {
            return fail!(ERR_ARG: "size={size}: at least one process is needed");
        }
        if rank < 0 || rank >= size {
            return fail!(ERR_ARG: "rank={rank}: allowed are 0 to {}", size - 1);
        }
        let mut processes = 1i64;
        for (dim, psize) in psizes.iter().enumerate() {
            if *psize < 1 {
                return fail!(ERR_ARG: "array_of_psizes[{dim}]={psize}: at least 1 process is needed");
            }
            processes = processes.saturating_mul(*psize as i64);
        }
        if processes != size as i64 {
            return fail!(ERR_ARG: "array_of_psizes: their product is {processes}, but size={size}");
        }
        let mut coords = vec![0i64; ndims];
        let mut left = rank;
        for dim in (0..ndims).rev() {
            coords[dim] = (left % psizes[dim]) as i64;
            left /= psizes[dim];
        }
        let (mut part, mut stride) = (old.clone(), old.extent());
        for dim in dims {
            let gsize = gsizes[dim];
            let block = block_size(dim, gsize, distribs[dim], dargs[dim], psizes[dim])?;
            let whole = product("extent", stride, gsize)?;
            part = dimension(gsize, block, psizes[dim] as i64, coords[dim], stride, part)?;
            stride = whole;
        }
        let mut integers = vec![size as i64, rank as i64, ndims as i64];
        integers.extend_from_slice(gsizes);
        for list in [distribs, dargs, psizes] {
            integers.extend(list.iter().map(|value| *value as i64));
        }
        integers.push(order as i64);
        let envelope = Envelope::plain(Combiner::DARRAY, integers, vec![], vec![old.clone()]);
        Self::build(Shape::Same(part), Some((0, stride)), envelope)
    }
}

/// Elements of one block of a dimension.
fn block_size(dim: usize, gsize: i64, distrib: i32, darg: i32, psize: i32) -> Result<i64> {
    if gsize < 1 {
        return fail!(ERR_ARG: "array_of_gsizes[{dim}]={gsize}: a size is at least 1");
    }
    let default = darg == DISTRIBUTE_DFLT_DARG;
    if !default && darg < 1 && distrib != DISTRIBUTE_NONE {
        return fail!(ERR_ARG: "array_of_dargs[{dim}]={darg}: allowed are MPI_DISTRIBUTE_DFLT_DARG and 1 or more");
    }
    let psize = psize as i64;
    match distrib {
        DISTRIBUTE_NONE if psize == 1 => Ok(gsize),
        DISTRIBUTE_NONE => {
            fail!(ERR_ARG: "array_of_psizes[{dim}]={psize}: a dimension that is not distributed has 1 process")
        }
        DISTRIBUTE_BLOCK if default => Ok(gsize.div_euclid(psize) + (gsize % psize != 0) as i64),
        DISTRIBUTE_BLOCK if (darg as i64).saturating_mul(psize) < gsize => {
            fail!(ERR_ARG: "array_of_dargs[{dim}]={darg}: {psize} blocks of {darg} do not cover {gsize} elements")
        }
        DISTRIBUTE_CYCLIC if default => Ok(1),
        DISTRIBUTE_BLOCK | DISTRIBUTE_CYCLIC => Ok(darg as i64),
        _ => {
            fail!(ERR_ARG: "array_of_distribs[{dim}]={distrib}: allowed are MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC and \
             MPI_DISTRIBUTE_NONE")
        }
    }
}

/// One dimension: blocks of `block` children dealt to `psize` processes in turn; those of `coord`.
fn dimension(
    gsize: i64,
    block: i64,
    psize: i64,
    coord: i64,
    stride: i64,
    child: Datatype,
) -> Result<Datatype> {
    let round = block.saturating_mul(psize);
    let first = block.saturating_mul(coord);
    // Whole blocks, then possibly a shorter one.
    let after_first = gsize - first;
    let (full, rest) = if after_first <= 0 {
        (0, 0)
    } else {
        let full = (after_first / round) + ((after_first % round >= block) as i64);
        let rest = after_first - full.saturating_mul(round);
        (full, rest.clamp(0, block))
    };
    let run = |count: i64, child: Datatype| {
        internal(Shape::Repeat {
            count: count_arg("count", count)? as u64,
            block: 1,
            stride,
            child,
        })
    };
    let blocks = internal(Shape::Repeat {
        count: full as u64,
        block: 1,
        stride: stride.saturating_mul(round),
        child: run(block.min(gsize), child.clone())?,
    })?;
    let tail = run(rest, child)?;
    let at = |element: i64| stride.saturating_mul(element.min(gsize));
    internal(Shape::Struct {
        blocks: [(full > 0) as u64, (rest > 0) as u64].into(),
        disps: [at(first), at(first.saturating_add(full.saturating_mul(round)))].into(),
        children: vec![blocks, tail],
    })
}
