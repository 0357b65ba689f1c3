//! The buffers of collectives: checked where they are significant, and described as blocks.
//!
//! Requirements of MPI-5.0 section 6.1.

use core::ffi::{c_int, c_void};

use farpost_mpi::coll::{Block, Blocks, Root};
use farpost_mpi::{ErrorClass, Result, fail};

use crate::abi;
use crate::args::{self, Array, Counts};
use crate::cx::{CommRef, Cx, TypeRef};

/// Who does what in a rooted collective, seen from this process.
#[derive(Clone, Copy)]
pub(crate) struct Role {
    /// As the program gives it.
    pub(crate) argument: c_int,
    pub(crate) root: Root,
    /// The root's side is significant here.
    pub(crate) at_root: bool,
    /// The other side is.
    pub(crate) other: bool,
}

pub(crate) fn role(comm: &CommRef, argument: c_int) -> Result<Role> {
    let root = Root::from_abi(argument)?;
    let (at_root, other) = match root {
        Root::Rank(rank) => (!comm.is_inter() && rank == comm.rank as usize, true),
        Root::Me => (true, false),
        Root::Idle => (false, false),
    };
    Ok(Role {
        argument,
        root,
        at_root,
        other,
    })
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

/// MPI_IN_PLACE where the standard does not have it.
pub(crate) fn not_in_place(buffer: &str, address: *const c_void) -> Result<()> {
    if !in_place(address) {
        return Ok(());
    }
    fail!(ERR_BUFFER: "{buffer}=MPI_IN_PLACE: not allowed here")
}

/// One side of a collective as the program gives it: the forms that the standard has.
pub(crate) trait Side: Copy {
    /// Where it begins; may be MPI_IN_PLACE.
    fn address(&self) -> *const c_void;

    /// The side where it is not significant.
    fn nothing(&self) -> Blocks {
        Blocks::Each(Vec::new())
    }

    /// Its blocks, one for each of `ranks`. `side`: "send" or "recv".
    ///
    /// # Errors
    /// `MPI_ERR_COUNT`, `MPI_ERR_TYPE`, `MPI_ERR_BUFFER`, and `MPI_ERR_ARG` for missing arrays.
    ///
    /// # Safety
    /// As [`Block::new`], for every block.
    unsafe fn blocks(self, cx: &Cx, side: &'static str, ranks: usize) -> Result<Blocks>;
}

/// The plain form, of one block, or of such blocks in a row: address, count, datatype.
#[derive(Clone, Copy)]
pub(crate) struct One(pub(crate) *const c_void, pub(crate) i64, pub(crate) usize);

impl One {
    /// The one block, or the first.
    ///
    /// # Errors
    /// As [`Side::blocks`].
    ///
    /// # Safety
    /// As [`Block::new`].
    pub(crate) unsafe fn block(self, cx: &Cx, side: &'static str) -> Result<Block> {
        let (address, count) = (self.address(), self.1);
        let [buffer, counted, typed] = names(side);
        args::non_negative(counted, count, ErrorClass::ERR_COUNT)?;
        let datatype = cx.committed(typed, self.2)?;
        not_in_place(buffer, address)?;
        args::buffer(buffer, address, count, &datatype)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { whole(address, count, datatype) })
    }
}

impl Side for One {
    fn address(&self) -> *const c_void {
        self.0
    }

    fn nothing(&self) -> Blocks {
        Blocks::Even(Block::none())
    }

    unsafe fn blocks(self, cx: &Cx, side: &'static str, _: usize) -> Result<Blocks> {
        // SAFETY: the caller's promise.
        unsafe { self.block(cx, side) }.map(Blocks::Even)
    }
}

/// The v form: blocks of one datatype, displacements in its extent.
#[derive(Clone, Copy)]
pub(crate) struct Each<'a>(
    pub(crate) *const c_void,
    pub(crate) Counts<'a>,
    pub(crate) Counts<'a>,
    pub(crate) usize,
);

impl Side for Each<'_> {
    fn address(&self) -> *const c_void {
        self.0
    }

    unsafe fn blocks(self, cx: &Cx, side: &'static str, ranks: usize) -> Result<Blocks> {
        let Self(address, counts, displs, datatype) = self;
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
}

/// The w form: blocks with a datatype each, displacements in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Typed<'a, D>(
    pub(crate) *const c_void,
    pub(crate) Counts<'a>,
    pub(crate) D,
    pub(crate) Array<'a, usize>,
);

/// Displacements in bytes: `int` or wide, or always wide.
pub(crate) trait Displacements: Copy {
    fn of(self, ranks: usize) -> Result<Vec<i64>>;
}

impl Displacements for Counts<'_> {
    fn of(self, ranks: usize) -> Result<Vec<i64>> {
        self.get(ranks)
    }
}

impl Displacements for Array<'_, i64> {
    fn of(self, ranks: usize) -> Result<Vec<i64>> {
        self.get(ranks).map(<[i64]>::to_vec)
    }
}

impl<D: Displacements> Side for Typed<'_, D> {
    fn address(&self) -> *const c_void {
        self.0
    }

    unsafe fn blocks(self, cx: &Cx, side: &'static str, ranks: usize) -> Result<Blocks> {
        let Self(address, counts, displs, datatypes) = self;
        let [buffer, _, typed] = names(side);
        let (displs, counts) = (displs.of(ranks)?, counts.counts(ranks)?);
        not_in_place(buffer, address)?;
        let blocks = counts
            .iter()
            .zip(displs)
            .zip(datatypes.get(ranks)?)
            .map(|((count, displ), handle)| {
                let datatype = cx.committed(typed, *handle)?;
                args::buffer(
                    buffer,
                    address.wrapping_byte_offset(displ as isize),
                    *count,
                    &datatype,
                )?;
                // SAFETY: the caller's promise.
                Ok(unsafe { whole(address, *count, datatype) }.moved(displ))
            });
        Ok(Blocks::Each(blocks.collect::<Result<_>>()?))
    }
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
