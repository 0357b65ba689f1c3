//! Large blocking reductions without messages: ranks of one host show each other where their vectors are, and
//! each reduces its part of all vectors by reading them, piece by piece, and writes the piece of the result to
//! everybody while it is in the cache.

use super::board::WORDS;
use crate::coll::mem::{Block, Temp, combine, reduce};
use crate::comm::Comm;
use crate::op::Op;
use crate::world::World;
use crate::{Rank, Result};
use farpost_fabric::Fabric;

/// Bytes of a cache line, which two ranks do not both write.
const LINE: usize = 64;

/// The part of `count` elements that `rank` of `ranks` reduces: first element and number, in multiples of
/// `grain` but for the last.
fn part(count: u64, ranks: usize, rank: usize, grain: u64) -> (u64, u64) {
    let each = count.div_ceil(ranks as u64).next_multiple_of(grain);
    let first = (each * rank as u64).min(count);
    (first, each.min(count - first))
}

/// Addresses of a rank's vectors.
struct Shown {
    from: u64,
    to: u64,
}

impl<F: Fabric> World<F> {
    /// True: done. Whether it is tried depends only on the communicator and the bytes, which are the same at all
    /// ranks; whether it is done, on what all ranks show.
    ///
    /// # Errors
    /// A rank has ended, its memory is damaged, or cannot be read or written.
    pub(crate) fn allreduce_by_peers(
        &self,
        comm: &Comm,
        send: Option<&Block>,
        recv: &Block,
        op: &Op,
    ) -> Result<bool> {
        let datatype = recv.datatype();
        if recv.count().saturating_mul(datatype.size()) < self.tuning.allreduce_peer_min {
            return Ok(false);
        }
        let able = recv.is_plain()
            && datatype.basic().is_some()
            && op.is_predefined()
            && op.is_commutative()
            && self.reads_all(comm);
        let from = send.unwrap_or(recv);
        let mut mine = [0; WORDS];
        mine[..3].copy_from_slice(&[u64::from(able), from.address() as u64, recv.address() as u64]);
        let mut shown = Vec::with_capacity(comm.size() as usize);
        let mut all_able = true;
        let done = self.show_all(comm, &mine, 3, |_, words| {
            all_able &= words[0] != 0;
            shown.push(Shown {
                from: words[1],
                to: words[2],
            });
            Ok(())
        })?;
        if !done || !all_able {
            return Ok(false);
        }
        // An error is told at the end, when nobody reads from us or writes to us any more.
        let outcome = self.reduce_part(comm, from, recv, op, &shown);
        // Nobody leaves before all have written, and everybody hears of a failure anywhere.
        let mut end = [0; WORDS];
        end[0] = u64::from(outcome.is_err());
        let mut failed = None;
        self.show_all(comm, &end, 1, |rank, words| {
            if words[0] != 0 && rank != comm.rank as usize {
                failed = Some(rank);
            }
            Ok(())
        })?;
        outcome?;
        if let Some(rank) = failed {
            return fail!(ERR_OTHER: "rank {rank} could not read or write the memory of the others");
        }
        self.written_by_peers(recv.address(), recv.bytes() as usize);
        Ok(true)
    }

    /// Reduce my part, and write it to everybody.
    fn reduce_part(&self, comm: &Comm, from: &Block, recv: &Block, op: &Op, shown: &[Shown]) -> Result<()> {
        let size = recv.datatype().size();
        let others = |shown| {
            let all = (0..).zip(shown);
            all.filter(|(rank, _): &(Rank, &Shown)| *rank != comm.rank)
        };
        let chunk = (self.tuning.allreduce_peer_chunk / size).max(1);
        let (_room, room) = Temp::new(&self.pool, chunk, recv.datatype());
        let grain = (LINE as u64 / size).max(1);
        let (mut at, left) = part(recv.count(), shown.len(), comm.rank as usize, grain);
        let end = at + left;
        while at < end {
            let n = chunk.min(end - at);
            let (mine, to, piece) = (from.part(at, n), recv.part(at, n), room.with_count(n));
            let mut fresh = from.same_place(recv);
            for (rank, shown) in others(shown) {
                let mut buf = piece.to_recv();
                let bytes = buf.contiguous_mut().expect("only vectors without gaps come here");
                self.read_rank(comm, rank, shown.from + at * size, bytes)?;
                if fresh {
                    reduce(op, &piece, &to)?;
                } else {
                    combine(op, &mine, &piece, &to)?;
                }
                fresh = true;
            }
            // This part of the result is complete, and written by nobody else.
            let reduced = to.to_send();
            let reduced = reduced.contiguous().expect("only vectors without gaps come here");
            for (rank, shown) in others(shown) {
                self.write_rank(comm, rank, shown.to + at * size, reduced)?;
            }
            at += n;
        }
        Ok(())
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
