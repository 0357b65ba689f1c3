//! Reductions of a checked program.

use core::ffi::c_int;

use farpost_mpi::Result;
#[allow(unused_imports)] // For the documentation.
use farpost_mpi::coll::Block;

use super::coll::{Described, area, checked_ways};
use super::ledger::{Flow, op_number};
use crate::args::Counts;
use crate::cx::{CommRef, Cx, OpRef, TypeRef};
use crate::imp::blocks::{in_place, role, whole};
use crate::imp::forms::{Ptr, PtrMut};

/// A reduction of `count` elements, of which this member keeps `kept` (`None`: it keeps nothing).
///
/// # Safety
/// As [`Block::new`].
unsafe fn reduction(
    sendbuf: Ptr,
    recvbuf: PtrMut,
    count: i64,
    kept: Option<i64>,
    datatype: TypeRef,
    op: &OpRef,
) -> Described {
    let mut described = Described::default();
    described.said.op = Some(op_number(op));
    described.said.uniform = Some(datatype.signature().repeated(count as u64));
    if !in_place(sendbuf) {
        // SAFETY: the caller's promise.
        let send = unsafe { whole(sendbuf, count, datatype.clone()) };
        described.areas.push(area(&send, false));
    }
    if let Some(kept) = kept {
        let kept = if in_place(sendbuf) { count } else { kept };
        // SAFETY: the caller's promise.
        let recv = unsafe { whole(recvbuf, kept, datatype) };
        described.areas.push(area(&recv, true));
    }
    described
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn reduce(
    _: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    count: i64,
    datatype: TypeRef,
    op: &OpRef,
    root: c_int,
) -> Result<Described> {
    let role = role(comm, root)?;
    let kept = role.at_root.then_some(count);
    // SAFETY: the caller's promise.
    let mut described = unsafe { reduction(sendbuf, recvbuf, count, kept, datatype, op) };
    if !role.other {
        // The root of an intercommunicator sends nothing, and its neighbours say nothing.
        described.areas.retain(|area| area.write);
        if !role.at_root {
            described = Described::default();
        }
    }
    described.said.root = Some(root);
    Ok(described)
}

checked_ways!(mpi_reduce, mpi_ireduce, mpi_reduce_init, reduce, reduce(
    sendbuf: Ptr, recvbuf: PtrMut, count: i64, datatype: TypeRef, op: &OpRef, root: c_int));

unsafe fn allreduce(
    _: &Cx,
    _: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    count: i64,
    datatype: TypeRef,
    op: &OpRef,
) -> Result<Described> {
    // SAFETY: the caller's promise.
    Ok(unsafe { reduction(sendbuf, recvbuf, count, Some(count), datatype, op) })
}

checked_ways!(mpi_allreduce, mpi_iallreduce, mpi_allreduce_init, reduce, allreduce(
    sendbuf: Ptr, recvbuf: PtrMut, count: i64, datatype: TypeRef, op: &OpRef));
checked_ways!(mpi_scan, mpi_iscan, mpi_scan_init, reduce, allreduce(
    sendbuf: Ptr, recvbuf: PtrMut, count: i64, datatype: TypeRef, op: &OpRef));

/// Rank 0 receives nothing.
unsafe fn exscan(
    _: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    count: i64,
    datatype: TypeRef,
    op: &OpRef,
) -> Result<Described> {
    let kept = (comm.rank > 0).then_some(count);
    // SAFETY: the caller's promise.
    Ok(unsafe { reduction(sendbuf, recvbuf, count, kept, datatype, op) })
}

checked_ways!(mpi_exscan, mpi_iexscan, mpi_exscan_init, reduce, exscan(
    sendbuf: Ptr, recvbuf: PtrMut, count: i64, datatype: TypeRef, op: &OpRef));

unsafe fn reduce_scatter_block(
    _: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    recvcount: i64,
    datatype: TypeRef,
    op: &OpRef,
) -> Result<Described> {
    let total = recvcount.saturating_mul(i64::from(comm.size()));
    // SAFETY: the caller's promise.
    let mut described = unsafe { reduction(sendbuf, recvbuf, total, Some(recvcount), datatype, op) };
    // Groups of different sizes bring blocks of different sizes.
    described.said.by_side = true;
    Ok(described)
}

checked_ways!(mpi_reduce_scatter_block, mpi_ireduce_scatter_block, mpi_reduce_scatter_block_init, reduce,
    reduce_scatter_block(sendbuf: Ptr, recvbuf: PtrMut, recvcount: i64, datatype: TypeRef, op: &OpRef));

unsafe fn reduce_scatter(
    _: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    datatype: TypeRef,
    op: &OpRef,
) -> Result<Described> {
    let counts = recvcounts.counts(comm.size() as usize)?;
    let total = counts.iter().fold(0i64, |sum, count| sum.saturating_add(*count));
    let kept = counts.get(comm.rank as usize).copied();
    let one = datatype.signature();
    // SAFETY: the caller's promise.
    let mut described = unsafe { reduction(sendbuf, recvbuf, total, kept, datatype, op) };
    described.said.by_side = true;
    if !comm.is_inter() {
        // What each means a rank to keep is what that rank means to keep.
        described.said.sends = Flow::Each(counts.iter().map(|count| one.repeated(*count as u64)).collect());
        described.said.recvs = kept.map_or(Flow::Nothing, |kept| Flow::Same(one.repeated(kept as u64)));
    }
    Ok(described)
}

checked_ways!(mpi_reduce_scatter, mpi_ireduce_scatter, mpi_reduce_scatter_init, reduce, reduce_scatter(
    sendbuf: Ptr, recvbuf: PtrMut, recvcounts: Counts<'_>, datatype: TypeRef, op: &OpRef));
