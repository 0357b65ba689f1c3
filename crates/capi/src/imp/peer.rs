//! Large blocking reductions without messages: ranks of one host show each other where their vectors are, and
//! each reduces its part of all vectors by reading them, piece by piece, and writes the piece of the result to
//! everybody while it is in the cache.

use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Predefined;
use farpost_mpi::world::board::WORDS;
use farpost_mpi::{Error, ErrorClass, Result};

use super::blocks::in_place;
use super::forms::{Ptr, PtrMut};
use crate::cx::{CommRef, Cx, OpRef};

/// The part of `count` elements that `rank` of `ranks` reduces: first element and number, in multiples of
/// `grain` but for the last.
fn part(count: usize, ranks: usize, rank: usize, grain: usize) -> (usize, usize) {
    let each = count.div_ceil(ranks).next_multiple_of(grain);
    let first = (each * rank).min(count);
    (first, each.min(count - first))
}

/// True: done. Whether it is tried depends only on the communicator and the bytes, which are the same at all
/// ranks; whether it is done, on what all ranks show.
///
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
    let world = cx.world();
    let bytes = (count as u64).saturating_mul(datatype.size());
    if bytes < world.tuning.allreduce_peer_min || comm.is_inter() || in_place(recvbuf) {
        return Ok(false);
    }
    op.valid_for(datatype)?;
    let able = datatype.is_contiguous()
        && datatype.true_lb() == 0
        && datatype.basic().is_some()
        && op
            .as_predefined()
            .is_some_and(|op| !matches!(op, Predefined::Replace | Predefined::NoOp))
        && op.is_commutative()
        && world.reads_all(comm);
    let from = if in_place(sendbuf) {
        recvbuf.cast_const()
    } else {
        sendbuf
    };
    let ranks = comm.size() as usize;
    let mut mine = [0; WORDS];
    mine[..3].copy_from_slice(&[u64::from(able), from.addr() as u64, recvbuf.addr() as u64]);
    let mut shown = Vec::with_capacity(ranks);
    let mut all_able = true;
    let done = world.show_all(comm, &mine, 3, |_, words| {
        all_able &= words[0] != 0;
        shown.push((words[1], words[2]));
        Ok(())
    })?;
    if !done || !all_able {
        return Ok(false);
    }
    let size = datatype.size() as usize;
    let me = comm.rank as usize;
    let grain = (64 / size.min(64)).max(1);
    let result = recvbuf.cast::<u8>();
    let own = from.cast::<u8>();
    let chunk = (world.tuning.allreduce_peer_chunk as usize / size).max(1);
    // The first error is told at the end, when nobody reads from us or writes to us any more.
    let mut outcome = Ok(());
    let mut room = vec![0u128; (chunk * size).div_ceil(16)];
    // SAFETY: `room` has at least that many bytes and lives on; it is reached through this slice only.
    let piece = unsafe { core::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<u8>(), chunk * size) };
    let (first, len) = part(count as usize, ranks, me, grain);
    let mut at = first;
    while at < first + len && outcome.is_ok() {
        let n = chunk.min(first + len - at);
        let to = result.wrapping_add(at * size);
        let mut fresh = core::ptr::eq(own, result);
        for (rank, (address, _)) in shown.iter().enumerate() {
            if rank == me {
                continue;
            }
            let piece = &mut piece[..n * size];
            let address = address + (at * size) as u64;
            outcome = outcome.and_then(|()| world.read_rank(comm, rank as i32, address, piece));
            // SAFETY: `to` has `n` elements of the result, which is ours; the piece is another memory.
            outcome = outcome.and_then(|()| unsafe {
                if fresh {
                    op.apply(piece.as_ptr(), to, n as u64, datatype)
                } else {
                    let own = own.wrapping_add(at * size);
                    op.combine(own, piece.as_ptr(), to, n as u64, datatype)
                        .map(|_| ())
                }
            });
            fresh = true;
        }
        // SAFETY: this part of the result is complete, and written by nobody else.
        let reduced = unsafe { core::slice::from_raw_parts(to.cast_const(), n * size) };
        for (rank, (_, address)) in shown.iter().enumerate() {
            if rank != me {
                let address = address + (at * size) as u64;
                outcome = outcome.and_then(|()| world.write_rank(comm, rank as i32, address, reduced));
            }
        }
        at += n;
    }
    // Nobody leaves before all have written, and everybody hears of a failure anywhere.
    let mut end = [0; WORDS];
    end[0] = u64::from(outcome.is_err());
    let mut failed = None;
    world.show_all(comm, &end, 1, |rank, words| {
        if words[0] != 0 && rank != me {
            failed = Some(rank);
        }
        Ok(())
    })?;
    outcome?;
    match failed {
        None => {
            world.written_by_peers(recvbuf.addr(), count as usize * size);
            Ok(true)
        }
        Some(rank) => {
            let text = format!("rank {rank} could not read or write the memory of the others");
            Err(Error::new(ErrorClass::ERR_OTHER, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_cover_everything_once() {
        for count in [1, 7, 64, 1000, 131_072] {
            for ranks in 1..9 {
                for grain in [1, 8, 64] {
                    let mut next = 0;
                    for rank in 0..ranks {
                        let (first, len) = part(count, ranks, rank, grain);
                        assert!(len == 0 || first == next);
                        next += len;
                    }
                    assert_eq!(next, count);
                }
            }
        }
    }
}
