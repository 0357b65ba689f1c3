//! Datatypes: constructors, size and extent, contents (MPI-5.0 sections 5.1).

use core::ffi::{CStr, c_int};

use farpost_mpi::datatype::{Datatype, match_size};
use farpost_mpi::{Error, ErrorClass, Result};

use crate::abi;
use crate::args::{Counts, InOut, Out, OutArray, OutCount, OutCounts, OutString};
use crate::cx::{Cx, TypeRef};

/// Gives a constructor's result to the program.
fn made(cx: &Cx, datatype: Datatype, large: bool, newtype: Out<usize>) -> Result<()> {
    let datatype = if large {
        datatype.via_large_count()
    } else {
        datatype
    };
    newtype.set(cx.objects.types.borrow_mut().insert(datatype)?);
    Ok(())
}

pub(crate) fn mpi_type_contiguous(
    cx: &Cx,
    large: bool,
    count: i64,
    oldtype: &TypeRef,
    newtype: Out<usize>,
) -> Result<()> {
    made(cx, Datatype::contiguous(count, oldtype)?, large, newtype)
}

pub(crate) fn mpi_type_vector(
    cx: &Cx,
    large: bool,
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: &TypeRef,
    newtype: Out<usize>,
) -> Result<()> {
    made(
        cx,
        Datatype::vector(count, blocklength, stride, oldtype)?,
        large,
        newtype,
    )
}

pub(crate) fn mpi_type_create_hvector(
    cx: &Cx,
    large: bool,
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: &TypeRef,
    newtype: Out<usize>,
) -> Result<()> {
    made(
        cx,
        Datatype::hvector(count, blocklength, stride, oldtype)?,
        large,
        newtype,
    )
}

pub(crate) fn mpi_type_indexed(
    cx: &Cx,
    large: bool,
    count: i64,
    blocklengths: Counts<'_>,
    displacements: Counts<'_>,
    oldtype: &TypeRef,
    newtype: Out<usize>,
) -> Result<()> {
    let (blocks, disps) = (
        blocklengths.get(count as usize)?,
        displacements.get(count as usize)?,
    );
    made(cx, Datatype::indexed(&blocks, &disps, oldtype)?, large, newtype)
}

pub(crate) fn mpi_type_create_hindexed(
    cx: &Cx,
    large: bool,
    count: i64,
    blocklengths: Counts<'_>,
    displacements: &[i64],
    oldtype: &TypeRef,
    newtype: Out<usize>,
) -> Result<()> {
    let blocks = blocklengths.get(count as usize)?;
    made(
        cx,
        Datatype::hindexed(&blocks, displacements, oldtype)?,
        large,
        newtype,
    )
}

pub(crate) fn mpi_type_create_indexed_block(
    cx: &Cx,
    large: bool,
    count: i64,
    blocklength: i64,
    displacements: Counts<'_>,
    oldtype: &TypeRef,
    newtype: Out<usize>,
) -> Result<()> {
    let disps = displacements.get(count as usize)?;
    made(
        cx,
        Datatype::indexed_block(blocklength, &disps, oldtype)?,
        large,
        newtype,
    )
}

pub(crate) fn mpi_type_create_hindexed_block(
    cx: &Cx,
    large: bool,
    _count: i64,
    blocklength: i64,
    displacements: &[i64],
    oldtype: &TypeRef,
    newtype: Out<usize>,
) -> Result<()> {
    made(
        cx,
        Datatype::hindexed_block(blocklength, displacements, oldtype)?,
        large,
        newtype,
    )
}

pub(crate) fn mpi_type_create_struct(
    cx: &Cx,
    large: bool,
    count: i64,
    blocklengths: Counts<'_>,
    displacements: &[i64],
    handles: &[usize],
    newtype: Out<usize>,
) -> Result<()> {
    let blocks = blocklengths.get(count as usize)?;
    let types = handles
        .iter()
        .map(|h| cx.datatype("array_of_types", *h))
        .collect::<Result<Vec<_>>>()?;
    made(
        cx,
        Datatype::structure(&blocks, displacements, &types)?,
        large,
        newtype,
    )
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) fn mpi_type_create_subarray(
    cx: &Cx,
    large: bool,
    ndims: c_int,
    sizes: Counts<'_>,
    subsizes: Counts<'_>,
    starts: Counts<'_>,
    order: c_int,
    oldtype: &TypeRef,
    newtype: Out<usize>,
) -> Result<()> {
    let n = ndims as usize;
    let (sizes, subsizes, starts) = (sizes.get(n)?, subsizes.get(n)?, starts.get(n)?);
    made(
        cx,
        Datatype::subarray(&sizes, &subsizes, &starts, order, oldtype)?,
        large,
        newtype,
    )
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) fn mpi_type_create_darray(
    cx: &Cx,
    large: bool,
    size: c_int,
    rank: c_int,
    ndims: c_int,
    gsizes: Counts<'_>,
    distribs: &[c_int],
    dargs: &[c_int],
    psizes: &[c_int],
    order: c_int,
    oldtype: &TypeRef,
    newtype: Out<usize>,
) -> Result<()> {
    let gsizes = gsizes.get(ndims as usize)?;
    let datatype = Datatype::darray(size, rank, &gsizes, distribs, dargs, psizes, order, oldtype)?;
    made(cx, datatype, large, newtype)
}

pub(crate) fn mpi_type_create_resized(
    cx: &Cx,
    large: bool,
    oldtype: &TypeRef,
    lb: i64,
    extent: i64,
    newtype: Out<usize>,
) -> Result<()> {
    made(cx, Datatype::resized(oldtype, lb, extent)?, large, newtype)
}

pub(crate) fn mpi_type_create_f90_real(cx: &Cx, p: c_int, r: c_int, newtype: Out<usize>) -> Result<()> {
    newtype.set(cx.objects.types.borrow_mut().f90_real(p, r)?);
    Ok(())
}

pub(crate) fn mpi_type_create_f90_complex(cx: &Cx, p: c_int, r: c_int, newtype: Out<usize>) -> Result<()> {
    newtype.set(cx.objects.types.borrow_mut().f90_complex(p, r)?);
    Ok(())
}

pub(crate) fn mpi_type_create_f90_integer(cx: &Cx, r: c_int, newtype: Out<usize>) -> Result<()> {
    newtype.set(cx.objects.types.borrow_mut().f90_integer(r)?);
    Ok(())
}

pub(crate) fn mpi_type_match_size(_: &Cx, typeclass: c_int, size: c_int, datatype: Out<usize>) -> Result<()> {
    datatype.set(match_size(typeclass, size)?.abi());
    Ok(())
}

pub(crate) fn mpi_type_get_value_index(
    cx: &Cx,
    value_type: &TypeRef,
    index_type: &TypeRef,
    pair_type: Out<usize>,
) -> Result<()> {
    let pair = cx
        .objects
        .types
        .borrow_mut()
        .value_index(value_type.handle(), index_type.handle())?;
    pair_type.set(pair.unwrap_or(abi::MPI_DATATYPE_NULL));
    Ok(())
}

pub(crate) fn mpi_type_commit(cx: &Cx, datatype: InOut<usize>) -> Result<()> {
    cx.datatype("datatype", datatype.get())?.commit();
    Ok(())
}

pub(crate) fn mpi_type_size(_: &Cx, datatype: &TypeRef, size: OutCount) -> Result<()> {
    size.set_or_undefined(i64::try_from(datatype.size()).unwrap_or(i64::MAX));
    Ok(())
}

pub(crate) fn mpi_type_size_x(_: &Cx, datatype: &TypeRef, size: Out<i64>) -> Result<()> {
    size.set(i64::try_from(datatype.size()).unwrap_or(abi::MPI_UNDEFINED.into()));
    Ok(())
}

pub(crate) fn mpi_type_get_extent(_: &Cx, datatype: &TypeRef, lb: Out<i64>, extent: Out<i64>) -> Result<()> {
    lb.set(datatype.lb());
    extent.set(datatype.extent());
    Ok(())
}

pub(crate) fn mpi_type_get_extent_x(
    _: &Cx,
    datatype: &TypeRef,
    lb: Out<i64>,
    extent: Out<i64>,
) -> Result<()> {
    lb.set(datatype.lb());
    extent.set(datatype.extent());
    Ok(())
}

pub(crate) fn mpi_type_get_true_extent(
    _: &Cx,
    datatype: &TypeRef,
    lb: Out<i64>,
    extent: Out<i64>,
) -> Result<()> {
    lb.set(datatype.true_lb());
    extent.set(datatype.true_extent());
    Ok(())
}

pub(crate) fn mpi_type_get_true_extent_x(
    _: &Cx,
    datatype: &TypeRef,
    lb: Out<i64>,
    extent: Out<i64>,
) -> Result<()> {
    lb.set(datatype.true_lb());
    extent.set(datatype.true_extent());
    Ok(())
}

pub(crate) fn mpi_type_get_envelope(
    _: &Cx,
    datatype: &TypeRef,
    num_integers: OutCount,
    num_addresses: OutCount,
    num_large_counts: Option<OutCount>,
    num_datatypes: OutCount,
    combiner: Out<c_int>,
) -> Result<()> {
    let parts = datatype.envelope(getter(num_large_counts.is_some()))?;
    num_integers.set(parts.integers as i64)?;
    num_addresses.set(parts.addresses as i64)?;
    if let Some(out) = num_large_counts {
        out.set(parts.large_counts as i64)?;
    }
    num_datatypes.set(parts.datatypes as i64)?;
    combiner.set(parts.combiner.0);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) fn mpi_type_get_contents(
    cx: &Cx,
    datatype: &TypeRef,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: Option<i64>,
    max_datatypes: i64,
    integers: OutArray<c_int>,
    addresses: OutArray<i64>,
    large_counts: Option<OutCounts>,
    datatypes: OutArray<usize>,
) -> Result<()> {
    let contents = datatype.contents(getter(max_large_counts.is_some()))?;
    fits("max_integers", max_integers, contents.integers.len())?;
    fits("max_addresses", max_addresses, contents.addresses.len())?;
    fits(
        "max_large_counts",
        max_large_counts.unwrap_or(0),
        contents.large_counts.len(),
    )?;
    fits("max_datatypes", max_datatypes, contents.datatypes.len())?;
    integers.fill(&contents.integers)?;
    addresses.fill(&contents.addresses)?;
    if let Some(out) = large_counts {
        out.fill(&contents.large_counts)?;
    }
    let mut types = cx.objects.types.borrow_mut();
    let handles = contents
        .datatypes
        .iter()
        .map(|t| types.reopen(t))
        .collect::<Result<Vec<_>>>()?;
    datatypes.fill(&handles)
}

fn getter(large: bool) -> farpost_mpi::datatype::Getter {
    use farpost_mpi::datatype::Getter;
    if large { Getter::Large } else { Getter::Int }
}

fn fits(name: &str, max: i64, needed: usize) -> Result<()> {
    if max >= needed as i64 {
        return Ok(());
    }
    let message = format!("{name}={max}: the datatype has {needed} of them (MPI_Type_get_envelope tells)");
    Err(Error::new(ErrorClass::ERR_ARG, message))
}

pub(crate) fn mpi_type_set_name(_: &Cx, datatype: &TypeRef, name: &CStr) -> Result<()> {
    datatype.set_name(&super::object_name("type_name", name)?);
    Ok(())
}

pub(crate) fn mpi_type_get_name(
    _: &Cx,
    datatype: Option<TypeRef>,
    name: OutString,
    resultlen: Out<c_int>,
) -> Result<()> {
    let text = datatype.map_or_else(|| "MPI_DATATYPE_NULL".to_owned(), |t| t.name());
    resultlen.set(name.set(&text, abi::MPI_MAX_OBJECT_NAME as usize));
    Ok(())
}
