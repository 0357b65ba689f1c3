//! Reductions (MPI-5.0 sections 6.9 to 6.12).
//!
//! Requirements of MPI-5.0 section 6.9.7.

use farpost_mpi::coll::Block;
use farpost_mpi::op::{self, Predefined};
use farpost_mpi::{Result, fail};

use super::arg;
use super::blocks::{in_place, not_in_place, role, whole};
use super::coll::collectives;
use super::forms::{Collective, Ptr, PtrMut, Reduction};
use crate::cx::{Cx, OpRef, TypeRef};

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
        return fail!(ERR_OP: "op={}: for MPI_Accumulate and its kin only", op.name());
    }
    op.valid_for(datatype)
}

/// The two vectors must not be the same memory; that is what MPI_IN_PLACE is for.
#[inline]
fn apart(sendbuf: Ptr, recvbuf: PtrMut, count: i64, datatype: &TypeRef) -> Result<()> {
    let (send, recv) = (("sendbuf", sendbuf), ("recvbuf", recvbuf.cast_const()));
    crate::args::apart(send, recv, count, datatype, "; MPI_IN_PLACE is for that")
}

/// A reduction of `total` elements, `kept` of which come to this rank. `look`: at whether both vectors are the same memory.
///
/// # Safety
/// As [`Block::new`].
unsafe fn reduction(
    of: Reduction,
    (sendbuf, recvbuf): (Ptr, PtrMut),
    (total, kept): (i64, i64),
    datatype: TypeRef,
    op: &OpRef,
    look: bool,
) -> Result<Collective> {
    reducible(op, &datatype)?;
    not_in_place("recvbuf", recvbuf)?;
    if look {
        apart(sendbuf, recvbuf, kept, &datatype)?;
    }
    // SAFETY: the caller's promise.
    let (send, recv) = unsafe { (operand(sendbuf, total, &datatype), whole(recvbuf, kept, datatype)) };
    let op = op.clone();
    Ok(Collective::Reduction { of, send, recv, op })
}

pub(crate) unsafe fn mpi_reduce(_: &Cx, a: arg::Reduce) -> Result<Collective> {
    let (sendbuf, recvbuf, count, datatype, op) = (a.sendbuf, a.recvbuf, a.count, a.datatype, a.op);
    let role = role(a.comm, a.root)?;
    let mut send = Some(Block::none());
    let mut recv = Block::none();
    if role.at_root || role.other {
        reducible(op, &datatype)?;
    }
    if role.other {
        if !in_place(sendbuf) {
            crate::args::buffer("sendbuf", sendbuf, count, &datatype)?;
        }
        // SAFETY: the caller's promise.
        send = unsafe { operand(sendbuf, count, &datatype) };
    }
    if role.at_root {
        not_in_place("recvbuf", recvbuf)?;
        crate::args::buffer("recvbuf", recvbuf, count, &datatype)?;
        if role.other {
            apart(sendbuf, recvbuf, count, &datatype)?;
        }
        // SAFETY: the caller's promise.
        recv = unsafe { whole(recvbuf, count, datatype) };
    }
    let (of, op) = (Reduction::Rooted(role), op.clone());
    Ok(Collective::Reduction { of, send, recv, op })
}

collectives! {
    mpi_allreduce: Allreduce, |_, a| reduction(Reduction::All, (a.sendbuf, a.recvbuf), (a.count, a.count), a.datatype, a.op, true);
    mpi_scan: Scan, |_, a| reduction(Reduction::Scan, (a.sendbuf, a.recvbuf), (a.count, a.count), a.datatype, a.op, true);
    mpi_exscan: Exscan, |_, a| {
        // Nothing is received by the first rank.
        let look = a.comm.rank > 0;
        reduction(Reduction::Exscan, (a.sendbuf, a.recvbuf), (a.count, a.count), a.datatype, a.op, look)
    };
    mpi_reduce_scatter_block: ReduceScatterBlock, |_, a| {
        let counts = (a.recvcount.saturating_mul(i64::from(a.comm.size())), a.recvcount);
        reduction(Reduction::ScatterBlock, (a.sendbuf, a.recvbuf), counts, a.datatype, a.op, true)
    };
    mpi_reduce_scatter: ReduceScatter, |_, a| {
        let counts = a.recvcounts.counts(a.comm.size() as usize)?;
        let total = counts.iter().fold(0i64, |sum, count| sum.saturating_add(*count));
        let mine = counts[a.comm.rank as usize];
        let of = Reduction::Scatter(counts.into_iter().map(|count| count as u64).collect());
        reduction(of, (a.sendbuf, a.recvbuf), (total, mine), a.datatype, a.op, true)
    };
}

pub(crate) unsafe fn mpi_reduce_local(_: &Cx, a: arg::ReduceLocal) -> Result<()> {
    reducible(a.op, &a.datatype)?;
    not_in_place("inbuf", a.inbuf)?;
    not_in_place("inoutbuf", a.inoutbuf)?;
    let (read, written) = (("inbuf", a.inbuf), ("inoutbuf", a.inoutbuf.cast_const()));
    crate::args::apart(read, written, a.count, &a.datatype, "")?;
    let (from, to) = (a.inbuf.cast(), a.inoutbuf.cast());
    // SAFETY: both buffers hold `count` elements, by the contract of the C function.
    unsafe { op::reduce_into(a.op, from, to, a.count as u64, &a.datatype) }
}
