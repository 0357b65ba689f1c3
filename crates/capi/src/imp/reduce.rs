//! Reductions (MPI-5.0 sections 6.9 to 6.12).
//!
//! Requirements of MPI-5.0 section 6.9.7.

use core::ffi::c_int;

use farpost_mpi::coll::{self, Block};
use farpost_mpi::op::{self, Predefined};
use farpost_mpi::{Error, ErrorClass, Result};

use super::blocks::{in_place, role, whole};
use super::forms::{Maker, Ptr, PtrMut, maker, three_ways};
use crate::args::Counts;
use crate::cx::{CommRef, Cx, OpRef, TypeRef};

/// The vector to reduce; `None` is MPI_IN_PLACE.
///
/// # Safety
/// As [`Block::new`].
unsafe fn operand(address: Ptr, count: i64, datatype: &TypeRef) -> Option<Block> {
    // SAFETY: the caller's promise.
    (!in_place(address)).then(|| unsafe { whole(address, count, datatype.clone()) })
}

/// Whether `op` reduces elements of `datatype`. MPI_REPLACE and MPI_NO_OP are for one-sided communication.
pub(super) fn reducible(op: &OpRef, datatype: &TypeRef) -> Result<()> {
    if let Some(op @ (Predefined::Replace | Predefined::NoOp)) = op.as_predefined() {
        let message = format!("op={}: for MPI_Accumulate and its kin only", op.name());
        return Err(Error::new(ErrorClass::ERR_OP, message));
    }
    op.valid_for(datatype)
}

/// The two vectors must not be the same memory; that is what MPI_IN_PLACE is for.
#[inline]
fn apart(sendbuf: Ptr, recvbuf: PtrMut, count: i64, datatype: &TypeRef) -> Result<()> {
    let (send, recv) = (("sendbuf", sendbuf), ("recvbuf", recvbuf.cast_const()));
    crate::args::apart(send, recv, count, datatype, "; MPI_IN_PLACE is for that")
}

fn not_in_place(buffer: &str, address: Ptr) -> Result<()> {
    if in_place(address) {
        let message = format!("{buffer}=MPI_IN_PLACE: not allowed here");
        return Err(Error::new(ErrorClass::ERR_BUFFER, message));
    }
    Ok(())
}

/// The two vectors of a reduction whose outcome every rank gets.
///
/// # Safety
/// As [`Block::new`].
unsafe fn vectors(
    sendbuf: Ptr,
    recvbuf: PtrMut,
    count: i64,
    datatype: &TypeRef,
    op: &OpRef,
) -> Result<(Option<Block>, Block)> {
    reducible(op, datatype)?;
    not_in_place("recvbuf", recvbuf)?;
    apart(sendbuf, recvbuf, count, datatype)?;
    // SAFETY: the caller's promise.
    Ok(unsafe {
        (
            operand(sendbuf, count, datatype),
            whole(recvbuf, count, datatype.clone()),
        )
    })
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn reduce(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    count: i64,
    datatype: TypeRef,
    op: &OpRef,
    root: c_int,
) -> Result<Maker> {
    let role = role(comm, root)?;
    if role.at_root || role.other {
        reducible(op, &datatype)?;
    }
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            match () {
                () if role.at_root && !role.other => Some(Block::none()),
                () if role.other => {
                    if !in_place(sendbuf) {
                        crate::args::buffer("sendbuf", sendbuf, count, &datatype)?;
                    }
                    operand(sendbuf, count, &datatype)
                }
                () => Some(Block::none()),
            },
            if role.at_root {
                not_in_place("recvbuf", recvbuf)?;
                crate::args::buffer("recvbuf", recvbuf, count, &datatype)?;
                if role.other {
                    apart(sendbuf, recvbuf, count, &datatype)?;
                }
                whole(recvbuf, count, datatype)
            } else {
                Block::none()
            },
        )
    };
    let op = op.clone();
    maker!(cx, comm, |site| coll::reduce(
        site,
        send.clone(),
        recv.clone(),
        &op,
        role.root
    ))
}

three_ways!(mpi_reduce, mpi_ireduce, mpi_reduce_init, reduce(
    sendbuf: Ptr, recvbuf: PtrMut, count: i64, datatype: TypeRef, op: &OpRef, root: c_int));

unsafe fn allreduce(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    count: i64,
    datatype: TypeRef,
    op: &OpRef,
) -> Result<Maker> {
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe { vectors(sendbuf, recvbuf, count, &datatype, op) }?;
    let op = op.clone();
    maker!(cx, comm, |site| coll::allreduce(
        site,
        send.clone(),
        recv.clone(),
        &op
    ))
}

three_ways!(mpi_allreduce, mpi_iallreduce, mpi_allreduce_init, allreduce(
sendbuf: Ptr, recvbuf: PtrMut, count: i64, datatype: TypeRef, op: &OpRef),
|cx, comm| {
    // SAFETY: the buffers are there for the call.
    let (send, recv) = unsafe { vectors(sendbuf, recvbuf, count, &datatype, op) }?;
    cx.world().quick_allreduce(comm, send.as_ref(), &recv, op)?
});

unsafe fn scan(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    count: i64,
    datatype: TypeRef,
    op: &OpRef,
) -> Result<Maker> {
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe { vectors(sendbuf, recvbuf, count, &datatype, op) }?;
    let op = op.clone();
    maker!(cx, comm, |site| coll::scan(site, send.clone(), recv.clone(), &op))
}

three_ways!(mpi_scan, mpi_iscan, mpi_scan_init, scan(
    sendbuf: Ptr, recvbuf: PtrMut, count: i64, datatype: TypeRef, op: &OpRef));

unsafe fn exscan(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    count: i64,
    datatype: TypeRef,
    op: &OpRef,
) -> Result<Maker> {
    reducible(op, &datatype)?;
    not_in_place("recvbuf", recvbuf)?;
    // Nothing is received by the first rank.
    if comm.rank > 0 {
        apart(sendbuf, recvbuf, count, &datatype)?;
    }
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            operand(sendbuf, count, &datatype),
            whole(recvbuf, count, datatype),
        )
    };
    let op = op.clone();
    maker!(cx, comm, |site| coll::exscan(
        site,
        send.clone(),
        recv.clone(),
        &op
    ))
}

three_ways!(mpi_exscan, mpi_iexscan, mpi_exscan_init, exscan(
    sendbuf: Ptr, recvbuf: PtrMut, count: i64, datatype: TypeRef, op: &OpRef));

unsafe fn reduce_scatter_block(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    recvcount: i64,
    datatype: TypeRef,
    op: &OpRef,
) -> Result<Maker> {
    reducible(op, &datatype)?;
    not_in_place("recvbuf", recvbuf)?;
    apart(sendbuf, recvbuf, recvcount, &datatype)?;
    let total = recvcount.saturating_mul(i64::from(comm.size()));
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe {
        (
            operand(sendbuf, total, &datatype),
            whole(recvbuf, recvcount, datatype),
        )
    };
    let op = op.clone();
    maker!(cx, comm, |site| coll::reduce_scatter_block(
        site,
        send.clone(),
        recv.clone(),
        &op
    ))
}

three_ways!(mpi_reduce_scatter_block, mpi_ireduce_scatter_block, mpi_reduce_scatter_block_init, reduce_scatter_block(
    sendbuf: Ptr, recvbuf: PtrMut, recvcount: i64, datatype: TypeRef, op: &OpRef));

unsafe fn reduce_scatter(
    cx: &'static Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    recvcounts: Counts<'_>,
    datatype: TypeRef,
    op: &OpRef,
) -> Result<Maker> {
    reducible(op, &datatype)?;
    not_in_place("recvbuf", recvbuf)?;
    let counts = recvcounts.counts(comm.size() as usize)?;
    let total = counts.iter().fold(0i64, |sum, c| sum.saturating_add(*c));
    let mine = counts[comm.rank as usize];
    apart(sendbuf, recvbuf, mine, &datatype)?;
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe { (operand(sendbuf, total, &datatype), whole(recvbuf, mine, datatype)) };
    let (op, counts): (_, Vec<u64>) = (op.clone(), counts.iter().map(|c| *c as u64).collect());
    maker!(cx, comm, |site| coll::reduce_scatter(
        site,
        send.clone(),
        recv.clone(),
        &counts,
        &op
    ))
}

three_ways!(mpi_reduce_scatter, mpi_ireduce_scatter, mpi_reduce_scatter_init, reduce_scatter(
    sendbuf: Ptr, recvbuf: PtrMut, recvcounts: Counts<'_>, datatype: TypeRef, op: &OpRef));

pub(crate) unsafe fn mpi_reduce_local(
    _: &Cx,
    inbuf: Ptr,
    inoutbuf: PtrMut,
    count: i64,
    datatype: TypeRef,
    op: &OpRef,
) -> Result<()> {
    reducible(op, &datatype)?;
    not_in_place("inbuf", inbuf)?;
    not_in_place("inoutbuf", inoutbuf)?;
    let (read, written) = (("inbuf", inbuf), ("inoutbuf", inoutbuf.cast_const()));
    crate::args::apart(read, written, count, &datatype, "")?;
    // SAFETY: both buffers hold `count` elements, by the contract of the C function.
    unsafe { op::reduce_into(op, inbuf.cast(), inoutbuf.cast(), count as u64, &datatype) }
}
