//! Groups (MPI-5.0 section 7.3).

use core::ffi::c_int;

use farpost_mpi::Result;

use super::arg;
use crate::abi;
use crate::cx::Cx;

pub(crate) fn mpi_group_compare(_: &Cx, a: arg::GroupCompare) -> Result<c_int> {
    Ok(a.group1.compare(a.group2) as c_int)
}

pub(crate) fn mpi_group_size(_: &Cx, a: arg::GroupSize) -> Result<c_int> {
    Ok(a.group.size() as c_int)
}

pub(crate) fn mpi_group_rank(cx: &Cx, a: arg::GroupRank) -> Result<c_int> {
    Ok(a.group.rank_or_undefined(cx.pid()?))
}

pub(crate) fn mpi_group_translate_ranks(_: &Cx, a: arg::GroupTranslateRanks) -> Result<()> {
    let mut out = vec![abi::MPI_UNDEFINED; a.ranks1.len()];
    a.group1.translate_ranks(a.ranks1, a.group2, &mut out)?;
    a.ranks2.fill(&out)
}

pub(crate) fn mpi_group_union(cx: &Cx, a: arg::GroupUnion) -> Result<usize> {
    cx.objects.new_group(a.group1.union(a.group2))
}

pub(crate) fn mpi_group_intersection(cx: &Cx, a: arg::GroupIntersection) -> Result<usize> {
    cx.objects.new_group(a.group1.intersection(a.group2))
}

pub(crate) fn mpi_group_difference(cx: &Cx, a: arg::GroupDifference) -> Result<usize> {
    cx.objects.new_group(a.group1.difference(a.group2))
}

pub(crate) fn mpi_group_incl(cx: &Cx, a: arg::GroupIncl) -> Result<usize> {
    cx.objects.new_group(a.group.incl(a.ranks)?)
}

pub(crate) fn mpi_group_excl(cx: &Cx, a: arg::GroupExcl) -> Result<usize> {
    cx.objects.new_group(a.group.excl(a.ranks)?)
}

pub(crate) fn mpi_group_range_incl(cx: &Cx, a: arg::GroupRangeIncl) -> Result<usize> {
    cx.objects.new_group(a.group.range_incl(a.ranges)?)
}

pub(crate) fn mpi_group_range_excl(cx: &Cx, a: arg::GroupRangeExcl) -> Result<usize> {
    cx.objects.new_group(a.group.range_excl(a.ranges)?)
}

pub(crate) fn mpi_group_free(cx: &Cx, a: arg::GroupFree) -> Result<()> {
    cx.objects.free_group(a.group)
}
