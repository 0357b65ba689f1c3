//! Groups (MPI-5.0 section 7.3).

use core::ffi::c_int;

use farpost_mpi::Result;

use crate::abi;
use crate::args::{InOut, Out, OutArray};
use crate::cx::{Cx, GroupRef};

pub(crate) fn mpi_group_compare(
    _: &Cx,
    group1: &GroupRef,
    group2: &GroupRef,
    result: Out<c_int>,
) -> Result<()> {
    result.set(group1.compare(group2) as c_int);
    Ok(())
}

pub(crate) fn mpi_group_size(_: &Cx, group: &GroupRef, size: Out<c_int>) -> Result<()> {
    size.set(group.size() as c_int);
    Ok(())
}

pub(crate) fn mpi_group_rank(cx: &Cx, group: &GroupRef, rank: Out<c_int>) -> Result<()> {
    rank.set(group.rank_or_undefined(cx.pid()?));
    Ok(())
}

pub(crate) fn mpi_group_translate_ranks(
    _: &Cx,
    group1: &GroupRef,
    _n: c_int,
    ranks1: &[c_int],
    group2: &GroupRef,
    ranks2: OutArray<c_int>,
) -> Result<()> {
    let mut out = vec![abi::MPI_UNDEFINED; ranks1.len()];
    group1.translate_ranks(ranks1, group2, &mut out)?;
    ranks2.fill(&out)
}

pub(crate) fn mpi_group_union(
    cx: &Cx,
    group1: &GroupRef,
    group2: &GroupRef,
    newgroup: Out<usize>,
) -> Result<()> {
    newgroup.set(cx.objects.new_group(group1.union(group2))?);
    Ok(())
}

pub(crate) fn mpi_group_intersection(
    cx: &Cx,
    group1: &GroupRef,
    group2: &GroupRef,
    newgroup: Out<usize>,
) -> Result<()> {
    newgroup.set(cx.objects.new_group(group1.intersection(group2))?);
    Ok(())
}

pub(crate) fn mpi_group_difference(
    cx: &Cx,
    group1: &GroupRef,
    group2: &GroupRef,
    newgroup: Out<usize>,
) -> Result<()> {
    newgroup.set(cx.objects.new_group(group1.difference(group2))?);
    Ok(())
}

pub(crate) fn mpi_group_incl(
    cx: &Cx,
    group: &GroupRef,
    _n: c_int,
    ranks: &[c_int],
    newgroup: Out<usize>,
) -> Result<()> {
    newgroup.set(cx.objects.new_group(group.incl(ranks)?)?);
    Ok(())
}

pub(crate) fn mpi_group_excl(
    cx: &Cx,
    group: &GroupRef,
    _n: c_int,
    ranks: &[c_int],
    newgroup: Out<usize>,
) -> Result<()> {
    newgroup.set(cx.objects.new_group(group.excl(ranks)?)?);
    Ok(())
}

pub(crate) fn mpi_group_range_incl(
    cx: &Cx,
    group: &GroupRef,
    _n: c_int,
    ranges: &[[c_int; 3]],
    newgroup: Out<usize>,
) -> Result<()> {
    newgroup.set(cx.objects.new_group(group.range_incl(ranges)?)?);
    Ok(())
}

pub(crate) fn mpi_group_range_excl(
    cx: &Cx,
    group: &GroupRef,
    _n: c_int,
    ranges: &[[c_int; 3]],
    newgroup: Out<usize>,
) -> Result<()> {
    newgroup.set(cx.objects.new_group(group.range_excl(ranges)?)?);
    Ok(())
}

pub(crate) fn mpi_group_free(cx: &Cx, group: InOut<usize>) -> Result<()> {
    cx.objects.free_group(group.get())?;
    group.set(abi::MPI_GROUP_NULL);
    Ok(())
}
