//! Small blocking collectives on the board (`farpost_mpi::world::board`), where the communicator has one, or on a board
//! of each host and by messages between them (`farpost_mpi::world::by_host`).
//!
//! Whether a collective goes this way depends only on what is the same at all ranks: the communicator and the
//! bytes per rank.

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::world::board::{BYTES, WORDS};
use farpost_mpi::world::by_host::{Among, FAR_BYTES, FAR_WORDS};

use super::blocks::in_place;
use super::forms::{Ptr, PtrMut};
use crate::cx::{CommRef, Cx, OpRef};

/// A whole number of words. Bytes beyond `bytes` are zero, words beyond `words` are dropped.
fn words_of<const N: usize>(bytes: &[u8; BYTES]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    }
    words
}

fn bytes_of(words: &[u64]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Bytes per rank, if they fit on a line.
fn fitting(count: i64, datatype: &Datatype) -> Option<usize> {
    let bytes = (count as u64).saturating_mul(datatype.size());
    (1..=BYTES as u64).contains(&bytes).then_some(bytes as usize)
}

pub(super) fn barrier(cx: &Cx, comm: &CommRef) -> Result<bool> {
    if cx.world().show_all(comm, &[0; WORDS], 0, |_, _| Ok(()))? {
        return Ok(true);
    }
    let met = cx
        .world()
        .by_host(comm, &[0; FAR_WORDS], 0, Among::Barrier, |_, _| Ok(()))?;
    Ok(met.is_some())
}

/// # Safety
/// As for MPI_Bcast.
pub(super) unsafe fn bcast(
    cx: &Cx,
    comm: &CommRef,
    buffer: PtrMut,
    count: i64,
    datatype: &Datatype,
    root: c_int,
) -> Result<bool> {
    let Some(bytes) = fitting(count, datatype) else {
        return Ok(false);
    };
    if comm.is_inter() {
        return Ok(false);
    }
    let at_root = comm.rank == root;
    let mut packed = [0; BYTES];
    let mut words = 0;
    if at_root {
        // SAFETY: the caller's promise.
        unsafe { SendBuf::new(buffer.cast_const().cast(), count as u64, datatype.clone()) }
            .pack(0, &mut packed[..bytes]);
        words = bytes.div_ceil(8);
    }
    let heard = |shown: &[u64]| {
        // SAFETY: the caller's promise.
        unsafe { RecvBuf::new(buffer.cast(), count as u64, datatype.clone()) }
            .unpack(0, &bytes_of(shown)[..bytes]);
    };
    let done = cx
        .world()
        .show_all(comm, &words_of(&packed), words, |rank, shown| {
            if rank as c_int == root && !at_root {
                heard(shown);
            }
            Ok(())
        })?;
    if done || bytes > FAR_BYTES {
        return Ok(done);
    }
    let among = Among::Tell { rank: root as usize };
    let words = bytes.div_ceil(8);
    let told = cx
        .world()
        .by_host(comm, &words_of(&packed), words, among, |_, _| Ok(()))?;
    if let Some(told) = &told
        && !at_root
    {
        heard(told);
    }
    Ok(told.is_some())
}

/// Room for elements of any layout, aligned for any type.
struct Laid {
    _room: Vec<u128>,
    base: *mut u8,
}

impl Laid {
    fn new(count: i64, datatype: &Datatype) -> Self {
        let ends = [0, (count - 1) * datatype.extent()].map(|at| at + datatype.true_lb());
        let low = ends[0].min(ends[1]).div_euclid(16) * 16;
        let high = ends[0].max(ends[1]) + datatype.true_extent();
        let mut room = vec![0u128; (high - low).max(1) as usize / 16 + 1];
        let base = room.as_mut_ptr().cast::<u8>().wrapping_offset(-low as isize);
        Self { _room: room, base }
    }
}

/// # Safety
/// As for MPI_Allreduce.
pub(super) unsafe fn allreduce(
    cx: &Cx,
    comm: &CommRef,
    sendbuf: Ptr,
    recvbuf: PtrMut,
    count: i64,
    datatype: &Datatype,
    op: &OpRef,
) -> Result<bool> {
    let Some(bytes) = fitting(count, datatype) else {
        return Ok(false);
    };
    if comm.is_inter() || in_place(recvbuf) {
        return Ok(false);
    }
    super::reduce::reducible(op, datatype)?;
    let from = if in_place(sendbuf) {
        recvbuf.cast_const()
    } else {
        sendbuf
    };
    let mut packed = [0; BYTES];
    // SAFETY: the caller's promise.
    unsafe { SendBuf::new(from.cast(), count as u64, datatype.clone()) }.pack(0, &mut packed[..bytes]);
    let mine = words_of(&packed);
    let words = bytes.div_ceil(8);
    // SAFETY: the caller's promise.
    let result = unsafe { RecvBuf::new(recvbuf.cast(), count as u64, datatype.clone()) };
    if datatype.is_contiguous() && datatype.true_lb() == 0 {
        let mut sum = [0; WORDS];
        let done = cx.world().show_all(comm, &mine, words, |rank, shown| {
            let mut next = *shown;
            if rank > 0 {
                // SAFETY: both hold `count` elements, `bytes` in one run; they are different variables.
                unsafe {
                    op.apply(
                        sum.as_ptr().cast(),
                        next.as_mut_ptr().cast(),
                        count as u64,
                        datatype,
                    )
                }?;
            }
            sum = next;
            Ok(())
        })?;
        if done {
            result.unpack(0, &bytes_of(&sum)[..bytes]);
        }
        if done || bytes > FAR_BYTES {
            return Ok(done);
        }
        let all = cx
            .world()
            .by_host(comm, &words_of(&packed), words, in_order(op), |sum, next| {
                let mut both = *next;
                // SAFETY: as above.
                unsafe {
                    op.apply(
                        sum.as_ptr().cast(),
                        both.as_mut_ptr().cast(),
                        count as u64,
                        datatype,
                    )
                }?;
                *sum = both;
                Ok(())
            })?;
        if let Some(all) = &all {
            result.unpack(0, &bytes_of(all)[..bytes]);
        }
        return Ok(all.is_some());
    }
    // Elements with gaps, or reduced by the program's function, which expects them laid out.
    let (mut sum, mut next) = (Laid::new(count, datatype), Laid::new(count, datatype));
    let done = cx.world().show_all(comm, &mine, words, |rank, shown| {
        // SAFETY: `Laid` has room for `count` elements.
        unsafe { RecvBuf::new(next.base, count as u64, datatype.clone()) }
            .unpack(0, &bytes_of(shown)[..bytes]);
        if rank > 0 {
            // SAFETY: as above; they are different rooms.
            unsafe { op.apply(sum.base.cast_const(), next.base, count as u64, datatype) }?;
        }
        core::mem::swap(&mut sum, &mut next);
        Ok(())
    })?;
    if done {
        let mut packed = [0; BYTES];
        // SAFETY: as above.
        unsafe { SendBuf::new(sum.base, count as u64, datatype.clone()) }.pack(0, &mut packed[..bytes]);
        result.unpack(0, &packed[..bytes]);
    }
    if done || bytes > FAR_BYTES {
        return Ok(done);
    }
    let all = cx
        .world()
        .by_host(comm, &words_of(&packed), words, in_order(op), |low, high| {
            for (room, words) in [(&sum, &*low), (&next, high)] {
                // SAFETY: `Laid` has room for `count` elements.
                unsafe { RecvBuf::new(room.base, count as u64, datatype.clone()) }
                    .unpack(0, &bytes_of(words)[..bytes]);
            }
            // SAFETY: as above; they are different rooms.
            unsafe { op.apply(sum.base.cast_const(), next.base, count as u64, datatype) }?;
            let mut both = [0; BYTES];
            // SAFETY: as above.
            unsafe { SendBuf::new(next.base, count as u64, datatype.clone()) }.pack(0, &mut both[..bytes]);
            *low = words_of(&both);
            Ok(())
        })?;
    if let Some(all) = &all {
        result.unpack(0, &bytes_of(all)[..bytes]);
    }
    Ok(all.is_some())
}

/// What the hosts' leaders do for `op`.
fn in_order(op: &OpRef) -> Among {
    Among::Reduce {
        ordered: !op.is_commutative(),
    }
}
