//! Small blocking collectives without a plan: what fits on a line is shown on the communicator's board
//! ([`super::board`]), or on a board of each host and by messages between them ([`super::by_host`]).
//!
//! Whether a collective goes this way depends only on what is the same at all ranks: the communicator and the
//! bytes per rank.
//!
//! Cost class: fast path.

use super::board::{BYTES, WORDS};
use super::by_host::{Among, FAR_BYTES, FAR_WORDS};
use crate::coll::mem::{Block, Line, Pool, Temp, reduce};
use crate::comm::Comm;
use crate::op::Op;
use crate::world::World;
use crate::{Rank, Result};
use farpost_fabric::Fabric;

/// Bytes of `block`, if there are some and they fit on a line.
fn fitting(block: &Block) -> Option<usize> {
    let bytes = block.count().saturating_mul(block.datatype().size());
    (1..=BYTES as u64).contains(&bytes).then_some(bytes as usize)
}

/// How elements on lines are reduced.
struct Fold<'a> {
    op: &'a Op,
    /// Their number and type.
    like: &'a Block,
    /// Where elements with gaps are laid out: so the operation expects them.
    laid: Option<[(Temp, Block); 2]>,
}

impl<'a> Fold<'a> {
    fn new(pool: &Pool, op: &'a Op, like: &'a Block) -> Self {
        let room = || Temp::new(pool, like.count(), like.datatype());
        let laid = (!like.is_plain()).then(|| [room(), room()]);
        Self { op, like, laid }
    }

    /// `high = low op high`.
    fn fold(&self, low: &Line, high: &mut Line) -> Result<()> {
        let Some([(_, left), (_, right)]) = &self.laid else {
            return low.reduce_into(high, self.op, self.like);
        };
        low.unpack(left);
        high.unpack(right);
        reduce(self.op, left, right)?;
        high.pack(right);
        Ok(())
    }
}

impl<F: Fabric> World<F> {
    /// Run `MPI_Barrier` at once. `Ok(false)` here and below: this way is not one for the communicator or the arguments
    /// (nowhere), and nothing was done; a plan is needed.
    ///
    /// # Errors
    /// A rank has ended, or its memory is damaged.
    pub fn quick_barrier(&self, comm: &Comm) -> Result<bool> {
        if self.show_all(comm, &[0; WORDS], 0, |_, _| Ok(()))? {
            return Ok(true);
        }
        let met = self.by_host(comm, &[0; FAR_WORDS], 0, Among::Barrier, |_, _| Ok(()))?;
        Ok(met.is_some())
    }

    /// Run `MPI_Bcast` of `buffer` from `root`, a rank of an intracommunicator, at once.
    ///
    /// # Errors
    /// As [`quick_barrier`](Self::quick_barrier).
    pub fn quick_bcast(&self, comm: &Comm, buffer: &Block, root: Rank) -> Result<bool> {
        let Some(bytes) = fitting(buffer) else {
            return Ok(false);
        };
        if comm.is_inter() {
            return Ok(false);
        }
        let at_root = comm.rank == root;
        let words = bytes.div_ceil(8);
        let mut mine = Line::default();
        if at_root {
            mine.pack(buffer);
        }
        let mine_words = if at_root { words } else { 0 };
        let done = self.show_all(comm, &mine.words, mine_words, |rank, shown| {
            if rank as Rank == root && !at_root {
                Line::from(*shown).unpack(buffer);
            }
            Ok(())
        })?;
        if done || bytes > FAR_BYTES {
            return Ok(done);
        }
        let among = Among::Tell { rank: root as usize };
        let told = self.by_host(comm, &mine.first(), words, among, |_, _| Ok(()))?;
        if let (Some(told), false) = (told, at_root) {
            Line::from(told).unpack(buffer);
        }
        Ok(told.is_some())
    }

    /// Run `MPI_Allreduce` of `send` (`None`: `MPI_IN_PLACE`) to `recv` at once: a short one by lines, a long one by reading
    /// and writing the others' vectors ([`super::peers`]). `op` reduces elements of that type.
    ///
    /// # Errors
    /// As [`quick_barrier`](Self::quick_barrier).
    pub fn quick_allreduce(&self, comm: &Comm, send: Option<&Block>, recv: &Block, op: &Op) -> Result<bool> {
        if comm.is_inter() {
            return Ok(false);
        }
        let Some(bytes) = fitting(recv) else {
            return self.allreduce_by_peers(comm, send, recv, op);
        };
        let words = bytes.div_ceil(8);
        let mut mine = Line::default();
        mine.pack(send.unwrap_or(recv));
        let fold = Fold::new(&self.pool, op, recv);
        let mut sum = Line::default();
        let done = self.show_all(comm, &mine.words, words, |rank, shown| {
            let mut next = Line::from(*shown);
            if rank > 0 {
                fold.fold(&sum, &mut next)?;
            }
            sum = next;
            Ok(())
        })?;
        if done {
            sum.unpack(recv);
        }
        if done || bytes > FAR_BYTES {
            return Ok(done);
        }
        let among = Among::Reduce {
            ordered: !op.is_commutative(),
        };
        let all = self.by_host(comm, &mine.first(), words, among, |low, high| {
            let mut both = Line::from(*high);
            fold.fold(&Line::from(*low), &mut both)?;
            *low = both.first();
            Ok(())
        })?;
        if let Some(all) = all {
            Line::from(all).unpack(recv);
        }
        Ok(all.is_some())
    }
}
