//! The buffers of collectives: checked where they are significant, and described as blocks.
//!
//! Requirements of MPI-5.0 section 6.1.

use core::ffi::{c_int, c_void};

use farpost_mpi::coll::{Block, Blocks, Root};
use farpost_mpi::{ErrorClass, Result};

use crate::abi;
use crate::args::{self, Array, Counts};
use crate::cx::{CommRef, Cx, TypeRef};

/// Who does what in a rooted collective, seen from this process.
pub(crate) struct Role {
    pub(crate) root: Root,
    /// The root's side is significant here.
    pub(crate) at_root: bool,
    /// The other side is.
    pub(crate) other: bool,
}

pub(crate) fn role(comm: &CommRef, root: c_int) -> Result<Role> {
    let root = Root::from_abi(root)?;
    let (at_root, other) = match root {
        Root::Rank(rank) => (!comm.is_inter() && rank == comm.rank as usize, true),
        Root::Me => (true, false),
        Root::Idle => (false, false),
    };
    Ok(Role { root, at_root, other })
}

/// Names of a side's arguments: buffer, count, datatype.
fn names(side: &'static str) -> [&'static str; 3] {
    if side == "send" {
        ["sendbuf", "sendcount", "sendtype"]
    } else {
        ["recvbuf", "recvcount", "recvtype"]
    }
}

/// Is it MPI_IN_PLACE?
pub(crate) fn in_place(address: *const c_void) -> bool {
    address as usize == abi::MPI_IN_PLACE
}

/// Arguments that are checked already, as a block.
///
/// # Safety
/// As [`Block::new`].
pub(crate) unsafe fn whole(address: *const c_void, count: i64, datatype: TypeRef) -> Block {
    // SAFETY: the caller's promise.
    unsafe { Block::new(address.cast_mut().cast(), count as u64, datatype) }
}

/// One side of a collective.
///
/// # Errors
/// `MPI_ERR_COUNT`, `MPI_ERR_TYPE`, `MPI_ERR_BUFFER`.
///
/// # Safety
/// As [`Block::new`].
pub(crate) unsafe fn block(
    cx: &Cx,
    side: &'static str,
    address: *const c_void,
    count: i64,
    datatype: usize,
) -> Result<Block> {
    let [buffer, counted, typed] = names(side);
    args::non_negative(counted, count, ErrorClass::ERR_COUNT)?;
    let datatype = cx.committed(typed, datatype)?;
    not_in_place(buffer, address)?;
    args::buffer(buffer, address, count, &datatype)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { whole(address, count, datatype) })
}

/// MPI_IN_PLACE where the standard does not have it.
fn not_in_place(buffer: &str, address: *const c_void) -> Result<()> {
    if !in_place(address) {
        return Ok(());
    }
    let message = format!("{buffer}=MPI_IN_PLACE: not allowed here");
    Err(farpost_mpi::Error::new(ErrorClass::ERR_BUFFER, message))
}

/// One side of a v collective: `ranks` blocks of one datatype, displacements in its extent.
///
/// # Errors
/// As [`block`], and `MPI_ERR_ARG` for missing arrays.
///
/// # Safety
/// As [`Block::new`], for every block.
pub(crate) unsafe fn each(
    cx: &Cx,
    side: &'static str,
    address: *const c_void,
    counts: Counts<'_>,
    displs: Counts<'_>,
    datatype: usize,
    ranks: usize,
) -> Result<Blocks> {
    let [buffer, _, typed] = names(side);
    let (counts, displs) = (counts.counts(ranks)?, displs.get(ranks)?);
    let datatype = cx.committed(typed, datatype)?;
    not_in_place(buffer, address)?;
    args::buffer(
        buffer,
        address,
        counts.iter().copied().max().unwrap_or(0),
        &datatype,
    )?;
    // SAFETY: the caller's promise.
    let base = unsafe { whole(address, 0, datatype) };
    Ok(Blocks::v(&base, counts.into_iter().map(|c| c as u64), displs))
}

/// One side of a w collective: `ranks` blocks, each its own datatype, displacements in bytes.
///
/// # Errors
/// As [`each`].
///
/// # Safety
/// As [`each`].
pub(crate) unsafe fn each_w(
    cx: &Cx,
    side: &'static str,
    address: *const c_void,
    counts: Counts<'_>,
    displs: &[i64],
    datatypes: Array<'_, usize>,
    ranks: usize,
) -> Result<Blocks> {
    let [buffer, _, typed] = names(side);
    let counts = counts.counts(ranks)?;
    not_in_place(buffer, address)?;
    let blocks = counts
        .iter()
        .zip(displs)
        .zip(datatypes.get(ranks)?)
        .map(|((count, displ), handle)| {
            let datatype = cx.committed(typed, *handle)?;
            args::buffer(
                buffer,
                address.wrapping_byte_offset(*displ as isize),
                *count,
                &datatype,
            )?;
            // SAFETY: the caller's promise.
            Ok(unsafe { whole(address, *count, datatype) }.moved(*displ))
        });
    Ok(Blocks::Each(blocks.collect::<Result<_>>()?))
}

/// Refuses what begins at the same byte as something else that the collective reads or writes: the two overlap, which is
/// what MPI_IN_PLACE is for. This costs a comparison; buffers that overlap in another way are not seen here.
///
/// # Errors
/// `MPI_ERR_BUFFER`.
#[inline]
pub(crate) fn apart(send: &Block, recv: &Block) -> Result<()> {
    if send.begins_like(recv) {
        Err(args::overlap("sendbuf", "recvbuf", "; MPI_IN_PLACE is for that"))
    } else {
        Ok(())
    }
}

/// As [`apart`] for a block of mine and the row of `ranks` that I am in: against the first and against my own.
///
/// # Errors
/// `MPI_ERR_BUFFER`.
pub(crate) fn apart_from_row(comm: &CommRef, mine: &Block, row: &Blocks) -> Result<()> {
    let ranks = comm.peers() as usize;
    for rank in [0, comm.rank as usize].into_iter().filter(|rank| *rank < ranks) {
        apart(mine, &row.get(rank))?;
    }
    Ok(())
}
