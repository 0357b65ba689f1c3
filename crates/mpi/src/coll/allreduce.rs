//! `MPI_Allreduce` (MPI-5.0 section 6.9.6).
//!
//! Requirements of MPI-5.0 section 6.9.5.

use super::direct::{Parts, Results, reduce_parts};
use super::mem::Block;
use super::plan::{Builder, Lane, Plan, Step};
use super::{Site, Tuning, bcast, part_of, reduce};
use crate::Result;
use crate::op::Op;

/// Build `MPI_Allreduce` of `send` (`None`: `MPI_IN_PLACE`) into `recv`. Both have the same count and datatype.
///
/// # Errors
/// `MPI_ERR_BUFFER`: in place on an intercommunicator.
pub fn allreduce(site: &Site<'_>, send: Option<Block>, recv: Block, op: &Op) -> Result<Plan> {
    site.check_in_place(&send)?;
    let mut b = site.builder();
    b.set_op(op);
    let send = send.unwrap_or_else(|| recv.clone());
    if site.inter() {
        // Each group reduces to its rank 0, these two exchange the results, each group spreads what came.
        let mine = if b.rank == 0 && b.size > 1 {
            b.temp(send.count(), send.datatype())
        } else {
            send.clone()
        };
        reduce::intra(&mut b, site.tuning, &send, &mine, 0);
        b.round();
        if b.rank == 0 {
            b.recv_on(Lane::Remote, &recv, 0, &[]);
            b.send_on(Lane::Remote, &mine, 0, &[]);
            b.round();
        }
        bcast::intra(&mut b, site.tuning, &recv, 0);
    } else {
        intra(&mut b, site.tuning, &send, &recv);
    }
    Ok(b.finish())
}

/// Allreduce within the group, the algorithm chosen by size. `send` may be `recv`.
pub(super) fn intra(b: &mut Builder, tuning: &Tuning, send: &Block, recv: &Block) {
    let (bytes, p) = (send.bytes(), b.size);
    if p == 1 {
        if !send.same_place(recv) {
            b.copy(send, recv, &[]);
        }
        return;
    }
    if tuning.allreduce == 0
        && let Some(hosts) = super::hosts::reduces(b, tuning, bytes)
    {
        return super::hosts::allreduce_by_host(b, &hosts, tuning, send, recv);
    }
    let algorithm = match tuning.allreduce {
        0 if p == 2 && bytes <= tuning.pair_whole_max => 1,
        0 if bytes <= tuning.allreduce_doubling_max || send.count() < p as u64 => 1,
        0 if !b.commutes() || p <= tuning.direct_ranks_max as usize => 2,
        0 if p.is_power_of_two() => 3,
        0 => 4,
        3 | 4 if !b.commutes() => 2,
        forced => forced,
    };
    match algorithm {
        1 => doubling(b, send, recv),
        2 => {
            let parts: Vec<_> = (0..p).map(|i| part_of(send.count(), p, i)).collect();
            let (first, count) = parts[b.rank];
            let args = Parts {
                mine: send,
                parts: &parts,
                out: &recv.part(first, count),
                all: recv,
                results: Results::Everywhere,
            };
            reduce_parts(b, tuning, &args);
        }
        3 => halving(b, send, recv),
        _ => ring(b, send, recv),
    }
}

/// Ranks folded onto a power of two: of the first pairs, the odd rank works for both.
struct Fold {
    /// The power of two.
    ranks: usize,
    /// Pairs folded.
    pairs: usize,
    /// My number among the working ranks; none when my neighbour works for me.
    me: Option<usize>,
}

impl Fold {
    fn of(b: &Builder) -> Self {
        let ranks = 1 << b.size.ilog2();
        let pairs = b.size - ranks;
        let me = match b.rank {
            r if r >= 2 * pairs => Some(r - pairs),
            r if r % 2 == 1 => Some(r / 2),
            _ => None,
        };
        Self { ranks, pairs, me }
    }

    /// The rank of working rank `i`.
    fn rank(&self, i: usize) -> usize {
        if i < self.pairs { 2 * i + 1 } else { i + self.pairs }
    }

    fn works_for_two(&self) -> bool {
        self.me.is_some_and(|me| me < self.pairs)
    }
}

/// The partial result while it moves between buffers.
struct Partial {
    now: Block,
    recv: Block,
    temp: Option<Block>,
}

impl Partial {
    /// A buffer that does not hold the partial result.
    fn other(&mut self, b: &mut Builder) -> Block {
        if !self.now.same_place(&self.recv) {
            return self.recv.clone();
        }
        self.temp
            .get_or_insert_with(|| b.temp(self.recv.count(), self.recv.datatype()))
            .clone()
    }

    /// Exchange with `peer` (or only receive from it) and combine.
    fn combine(&mut self, b: &mut Builder, peer: usize, exchange: bool) {
        let from_below = peer < b.rank;
        // A partial result from below goes in front of mine, which must then be writable.
        let ordered = !b.commutes();
        let mine_is_ours = self.now.same_place(&self.recv) || self.is_temp();
        if ordered && from_below && !mine_is_ours {
            let copy = self.recv.clone();
            b.copy(&self.now, &copy, &[]);
            self.now = copy;
            b.round();
        }
        let got = self.other(b);
        b.recv(&got, peer, &[]);
        if exchange {
            b.send(&self.now, peer, &[]);
        }
        b.round();
        let stays = if ordered { from_below } else { mine_is_ours };
        if stays {
            b.reduce(&got, &self.now, &[]);
        } else {
            b.reduce(&self.now, &got, &[]);
            self.now = got;
        }
        b.round();
    }

    fn is_temp(&self) -> bool {
        self.temp.as_ref().is_some_and(|t| t.same_place(&self.now))
    }
}

/// Recursive doubling: in step k everyone exchanges all it has with the rank 2^k away.
pub(super) fn doubling(b: &mut Builder, send: &Block, recv: &Block) {
    let fold = Fold::of(b);
    let mut partial = Partial {
        now: send.clone(),
        recv: recv.clone(),
        temp: None,
    };
    let Some(me) = fold.me else {
        b.send(send, b.rank + 1, &[]);
        b.round();
        b.recv(recv, b.rank + 1, &[]);
        return;
    };
    if fold.works_for_two() {
        let below = b.rank - 1;
        partial.combine(b, below, false);
    }
    let mut mask = 1;
    while mask < fold.ranks {
        partial.combine(b, fold.rank(me ^ mask), true);
        mask <<= 1;
    }
    if fold.works_for_two() {
        b.send(&partial.now, b.rank - 1, &[]);
    }
    if !partial.now.same_place(recv) {
        b.copy(&partial.now, recv, &[]);
    }
}

/// Rabenseifner: reduce-scatter by recursive halving, then allgather by recursive doubling. For operations
/// that commute.
fn halving(b: &mut Builder, send: &Block, recv: &Block) {
    let fold = Fold::of(b);
    let Some(me) = fold.me else {
        b.send(send, b.rank + 1, &[]);
        b.round();
        b.recv(recv, b.rank + 1, &[]);
        return;
    };
    let n = send.count();
    let in_place = send.same_place(recv);
    // What arrives lands in `recv` as long as my operand is still in `send`, then in a temporary.
    let room = if in_place && fold.works_for_two() {
        n
    } else {
        n.div_ceil(2)
    };
    let mut temp = None;
    let mut now = send.clone();
    let mut combine = |b: &mut Builder, peer: usize, keep: (u64, u64), give: (u64, u64)| {
        let mine = now.part(keep.0, keep.1);
        let fresh = !now.same_place(recv);
        let got = if fresh {
            recv.part(keep.0, keep.1)
        } else {
            temp.get_or_insert_with(|| b.temp(room, send.datatype()))
                .with_count(keep.1)
        };
        let arrived = b.recv(&got, peer, &[]);
        b.send(&now.part(give.0, give.1), peer, &[]);
        if fresh {
            b.reduce(&mine, &got, &[arrived.done()]);
            now = recv.clone();
        } else {
            b.reduce(&got, &mine, &[arrived.done()]);
        }
        b.round();
    };
    if fold.works_for_two() {
        combine(b, b.rank - 1, (0, n), (0, 0));
    }
    // Each halving, to be undone in reverse.
    let mut trail = Vec::new();
    let (mut first, mut count) = (0, n);
    let mut mask = 1;
    while mask < fold.ranks {
        let peer = fold.rank(me ^ mask);
        let low = count / 2;
        let (keep, give) = if me & mask == 0 {
            ((first, low), (first + low, count - low))
        } else {
            ((first + low, count - low), (first, low))
        };
        combine(b, peer, keep, give);
        trail.push((keep, give, peer));
        (first, count) = keep;
        mask <<= 1;
    }
    for &(keep, give, peer) in trail.iter().rev() {
        b.recv(&recv.part(give.0, give.1), peer, &[]);
        b.send(&recv.part(keep.0, keep.1), peer, &[]);
        b.round();
    }
    if fold.works_for_two() {
        b.send(recv, b.rank - 1, &[]);
    }
}

/// Reduce-scatter and allgather around a ring: each rank talks to its two neighbours only. For operations
/// that commute.
fn ring(b: &mut Builder, send: &Block, recv: &Block) {
    let (me, p) = (b.rank, b.size);
    let in_place = send.same_place(recv);
    let part = |of: &Block, i: usize| {
        let (first, count) = part_of(send.count(), p, i % p);
        of.part(first, count)
    };
    let (left, right) = ((me + p - 1) % p, (me + 1) % p);
    let temp = in_place.then(|| b.temp(send.count().div_ceil(p as u64), send.datatype()));
    for k in 0..p - 1 {
        // Part me-k goes on; part me-k-1 comes, with the operands of k+1 ranks in it.
        let (out, inn) = (me + p - k, me + p - k - 1);
        let from = if k == 0 { send } else { recv };
        b.send(&part(from, out), right, &[]);
        let mine = part(send, inn);
        match &temp {
            None => {
                let got = part(recv, inn);
                let step = b.recv(&got, left, &[]);
                b.reduce(&mine, &got, &[step.done()]);
            }
            Some(temp) => {
                let got = temp.with_count(mine.count());
                let step = b.recv(&got, left, &[]);
                b.reduce(&got, &mine, &[step.done()]);
            }
        }
        b.round();
    }
    // I hold part me+1. In place nothing of mine is waited for any more: all sends are over.
    let mut have = Step::NONE;
    let (mut sent, mut received) = (Step::NONE, Step::NONE);
    for k in 0..p - 1 {
        let (out, inn) = (me + 1 + p - k, me + p - k);
        sent = b.send(&part(recv, out), right, &[have.done(), sent.issued()]);
        received = b.recv(&part(recv, inn), left, &[received.issued()]);
        have = received;
    }
}
