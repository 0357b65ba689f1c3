//! Groups (MPI-5.0 section 7.3).

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::group::Group;
use farpost_mpi::session::need_same;

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

/// The session of what is made of two groups. The empty group is of any.
fn session_of(one: &Group, other: &Group) -> Result<usize> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => Ok(other.session()),
        (_, true) => Ok(one.session()),
        _ => need_same(["group1", "group2"], [one.session(), other.session()]).map(|()| one.session()),
    }
}

pub(crate) fn mpi_group_union(cx: &Cx, a: arg::GroupUnion) -> Result<usize> {
    let session = session_of(a.group1, a.group2)?;
    cx.objects.new_group(a.group1.union(a.group2).of_session(session))
}

pub(crate) fn mpi_group_intersection(cx: &Cx, a: arg::GroupIntersection) -> Result<usize> {
    let session = session_of(a.group1, a.group2)?;
    cx.objects
        .new_group(a.group1.intersection(a.group2).of_session(session))
}

pub(crate) fn mpi_group_difference(cx: &Cx, a: arg::GroupDifference) -> Result<usize> {
    let session = session_of(a.group1, a.group2)?;
    cx.objects
        .new_group(a.group1.difference(a.group2).of_session(session))
}

pub(crate) fn mpi_group_incl(cx: &Cx, a: arg::GroupIncl) -> Result<usize> {
    let session = a.group.session();
    cx.objects.new_group(a.group.incl(a.ranks)?.of_session(session))
}

pub(crate) fn mpi_group_excl(cx: &Cx, a: arg::GroupExcl) -> Result<usize> {
    let session = a.group.session();
    cx.objects.new_group(a.group.excl(a.ranks)?.of_session(session))
}

pub(crate) fn mpi_group_range_incl(cx: &Cx, a: arg::GroupRangeIncl) -> Result<usize> {
    let session = a.group.session();
    cx.objects
        .new_group(a.group.range_incl(a.ranges)?.of_session(session))
}

pub(crate) fn mpi_group_range_excl(cx: &Cx, a: arg::GroupRangeExcl) -> Result<usize> {
    let session = a.group.session();
    cx.objects
        .new_group(a.group.range_excl(a.ranges)?.of_session(session))
}

pub(crate) fn mpi_group_free(cx: &Cx, a: arg::GroupFree) -> Result<()> {
    cx.objects.free_group(a.group)
}
