//! Datatypes: constructors, size and extent, contents (MPI-5.0 sections 5.1).

use farpost_mpi::datatype::{Datatype, match_size};
use farpost_mpi::{Result, fail};

use super::arg;
use crate::abi;
use crate::cx::Cx;

/// The handle of a constructor's result.
fn made(cx: &Cx, large: bool, new: Result<Datatype>) -> Result<usize> {
    let new = if large { new?.via_large_count() } else { new? };
    cx.objects.types.borrow_mut().insert(new)
}

pub(crate) fn mpi_type_contiguous(cx: &Cx, a: arg::TypeContiguous) -> Result<usize> {
    let new = Datatype::contiguous(a.count, a.oldtype);
    made(cx, a.large, new)
}

pub(crate) fn mpi_type_vector(cx: &Cx, a: arg::TypeVector) -> Result<usize> {
    let new = Datatype::vector(a.count, a.blocklength, a.stride, a.oldtype);
    made(cx, a.large, new)
}

pub(crate) fn mpi_type_create_hvector(cx: &Cx, a: arg::TypeCreateHvector) -> Result<usize> {
    let new = Datatype::hvector(a.count, a.blocklength, a.stride, a.oldtype);
    made(cx, a.large, new)
}

pub(crate) fn mpi_type_indexed(cx: &Cx, a: arg::TypeIndexed) -> Result<usize> {
    let (blocks, disps) = (
        a.array_of_blocklengths.get(a.count as usize)?,
        a.array_of_displacements.get(a.count as usize)?,
    );
    let new = Datatype::indexed(&blocks, &disps, a.oldtype);
    made(cx, a.large, new)
}

pub(crate) fn mpi_type_create_hindexed(cx: &Cx, a: arg::TypeCreateHindexed) -> Result<usize> {
    let blocks = a.array_of_blocklengths.get(a.count as usize)?;
    let new = Datatype::hindexed(&blocks, a.array_of_displacements, a.oldtype);
    made(cx, a.large, new)
}

pub(crate) fn mpi_type_create_indexed_block(cx: &Cx, a: arg::TypeCreateIndexedBlock) -> Result<usize> {
    let disps = a.array_of_displacements.get(a.count as usize)?;
    let new = Datatype::indexed_block(a.blocklength, &disps, a.oldtype);
    made(cx, a.large, new)
}

pub(crate) fn mpi_type_create_hindexed_block(cx: &Cx, a: arg::TypeCreateHindexedBlock) -> Result<usize> {
    let new = Datatype::hindexed_block(a.blocklength, a.array_of_displacements, a.oldtype);
    made(cx, a.large, new)
}

pub(crate) fn mpi_type_create_struct(cx: &Cx, a: arg::TypeCreateStruct) -> Result<usize> {
    let blocks = a.array_of_blocklengths.get(a.count as usize)?;
    let types = a
        .array_of_types
        .iter()
        .map(|h| cx.datatype("array_of_types", *h))
        .collect::<Result<Vec<_>>>()?;
    let new = Datatype::structure(&blocks, a.array_of_displacements, &types);
    made(cx, a.large, new)
}

pub(crate) fn mpi_type_create_subarray(cx: &Cx, a: arg::TypeCreateSubarray) -> Result<usize> {
    let (sizes, subsizes, starts) = (a.array_of_sizes, a.array_of_subsizes, a.array_of_starts);
    let n = a.ndims as usize;
    let (sizes, subsizes, starts) = (sizes.get(n)?, subsizes.get(n)?, starts.get(n)?);
    let new = Datatype::subarray(&sizes, &subsizes, &starts, a.order, a.oldtype);
    made(cx, a.large, new)
}

pub(crate) fn mpi_type_create_darray(cx: &Cx, a: arg::TypeCreateDarray) -> Result<usize> {
    let gsizes = a.array_of_gsizes;
    let gsizes = gsizes.get(a.ndims as usize)?;
    let new = Datatype::darray(
        a.size,
        a.rank,
        &gsizes,
        a.array_of_distribs,
        a.array_of_dargs,
        a.array_of_psizes,
        a.order,
        a.oldtype,
    );
    made(cx, a.large, new)
}

pub(crate) fn mpi_type_create_resized(cx: &Cx, a: arg::TypeCreateResized) -> Result<usize> {
    let new = Datatype::resized(a.oldtype, a.lb, a.extent);
    made(cx, a.large, new)
}

pub(crate) fn mpi_type_create_f90_real(cx: &Cx, a: arg::TypeCreateF90Real) -> Result<usize> {
    cx.objects.types.borrow_mut().f90_real(a.p, a.r)
}

pub(crate) fn mpi_type_create_f90_complex(cx: &Cx, a: arg::TypeCreateF90Complex) -> Result<usize> {
    cx.objects.types.borrow_mut().f90_complex(a.p, a.r)
}

pub(crate) fn mpi_type_create_f90_integer(cx: &Cx, a: arg::TypeCreateF90Integer) -> Result<usize> {
    cx.objects.types.borrow_mut().f90_integer(a.r)
}

pub(crate) fn mpi_type_match_size(_: &Cx, a: arg::TypeMatchSize) -> Result<usize> {
    Ok(match_size(a.typeclass, a.size)?.abi())
}

pub(crate) fn mpi_type_get_value_index(cx: &Cx, a: arg::TypeGetValueIndex) -> Result<usize> {
    let pair = cx
        .objects
        .types
        .borrow_mut()
        .value_index(a.value_type.handle(), a.index_type.handle())?;
    Ok(pair.unwrap_or(abi::MPI_DATATYPE_NULL))
}

pub(crate) fn mpi_type_commit(cx: &Cx, a: arg::TypeCommit) -> Result<()> {
    cx.datatype("datatype", a.datatype.get())?.commit();
    Ok(())
}

pub(crate) fn mpi_type_size(_: &Cx, a: arg::TypeSize) -> Result<()> {
    a.size
        .set_or_undefined(i64::try_from(a.datatype.size()).unwrap_or(i64::MAX));
    Ok(())
}

pub(crate) fn mpi_type_size_x(_: &Cx, a: arg::TypeSizeX) -> Result<i64> {
    Ok(i64::try_from(a.datatype.size()).unwrap_or(abi::MPI_UNDEFINED.into()))
}

pub(crate) fn mpi_type_get_extent(_: &Cx, a: arg::TypeGetExtent) -> Result<(i64, i64)> {
    Ok((a.datatype.lb(), a.datatype.extent()))
}

pub(crate) fn mpi_type_get_true_extent(_: &Cx, a: arg::TypeGetTrueExtent) -> Result<(i64, i64)> {
    Ok((a.datatype.true_lb(), a.datatype.true_extent()))
}

pub(crate) fn mpi_type_get_envelope(_: &Cx, a: arg::TypeGetEnvelope) -> Result<()> {
    let parts = a.datatype.envelope(getter(a.num_large_counts.is_some()))?;
    a.num_integers.set(parts.integers as i64)?;
    a.num_addresses.set(parts.addresses as i64)?;
    if let Some(out) = a.num_large_counts {
        out.set(parts.large_counts as i64)?;
    }
    a.num_datatypes.set(parts.datatypes as i64)?;
    a.combiner.set(parts.combiner.0);
    Ok(())
}

pub(crate) fn mpi_type_get_contents(cx: &Cx, a: arg::TypeGetContents) -> Result<()> {
    let contents = a.datatype.contents(getter(a.max_large_counts.is_some()))?;
    fits("max_integers", a.max_integers, contents.integers.len())?;
    fits("max_addresses", a.max_addresses, contents.addresses.len())?;
    fits(
        "max_large_counts",
        a.max_large_counts.unwrap_or(0),
        contents.large_counts.len(),
    )?;
    fits("max_datatypes", a.max_datatypes, contents.datatypes.len())?;
    a.array_of_integers.fill(&contents.integers)?;
    a.array_of_addresses.fill(&contents.addresses)?;
    if let Some(out) = a.array_of_large_counts {
        out.fill(&contents.large_counts)?;
    }
    let mut types = cx.objects.types.borrow_mut();
    let handles = contents
        .datatypes
        .iter()
        .map(|t| types.reopen(t))
        .collect::<Result<Vec<_>>>()?;
    a.array_of_datatypes.fill(&handles)
}

fn getter(large: bool) -> farpost_mpi::datatype::Getter {
    use farpost_mpi::datatype::Getter;
    if large { Getter::Large } else { Getter::Int }
}

fn fits(name: &str, max: i64, needed: usize) -> Result<()> {
    if max >= needed as i64 {
        return Ok(());
    }
    fail!(ERR_ARG: "{name}={max}: the datatype has {needed} of them (MPI_Type_get_envelope tells)")
}

pub(crate) fn mpi_type_set_name(_: &Cx, a: arg::TypeSetName) -> Result<()> {
    a.datatype
        .set_name(&super::object_name("type_name", a.type_name)?);
    Ok(())
}

pub(crate) fn mpi_type_get_name(_: &Cx, a: arg::TypeGetName) -> Result<()> {
    let text = a
        .datatype
        .map_or_else(|| "MPI_DATATYPE_NULL".to_owned(), |t| t.name());
    a.resultlen
        .set(a.type_name.set(&text, abi::MPI_MAX_OBJECT_NAME as usize));
    Ok(())
}
