//! `MPI_Allgather` and `MPI_Allgatherv` (MPI-5.0 section 6.7).

use super::mem::{Block, Blocks};
use super::plan::{Builder, Flow, Lane, Plan, Step};
use super::{Site, Tuning};
use crate::Result;

/// Build `MPI_Allgather` of `send` (`None`: `MPI_IN_PLACE`) to block i of everybody's `recv` (one rank's
/// block).
///
/// # Errors
/// `MPI_ERR_BUFFER`: in place on an intercommunicator.
pub fn allgather(site: &Site<'_>, send: Option<Block>, recv: Block) -> Result<Plan> {
    allgatherv(site, send, Blocks::Even(recv))
}

/// Build `MPI_Allgatherv`: as [`allgather`], every rank's block with its own place and size.
///
/// # Errors
/// As [`allgather`].
pub fn allgatherv(site: &Site<'_>, send: Option<Block>, recv: Blocks) -> Result<Plan> {
    site.check_in_place(&send)?;
    let mut b = site.builder();
    let ranks = if site.inter() { site.remote_size } else { site.size };
    site.check_blocks("the receive buffer", &recv, ranks)?;
    if let Some(send) = send.as_ref().filter(|_| site.inter()) {
        // Everybody's block to everybody of the other group.
        let mut flows = Exchange::new(site.tuning);
        flows.across(&mut b, ranks, |_| send.clone(), &recv);
        return Ok(b.finish());
    }
    intra(&mut b, site.tuning, send.as_ref(), &recv);
    Ok(b.finish())
}

/// Messages under way in both directions, a bounded number of each.
pub(super) struct Exchange {
    sends: Flow,
    recvs: Flow,
}

impl Exchange {
    pub(super) fn new(tuning: &Tuning) -> Self {
        Self {
            sends: Flow::new(tuning.window as usize),
            recvs: Flow::new(tuning.window as usize),
        }
    }

    /// No bound: for neighbours, whose graph could otherwise make ranks wait in a circle.
    pub(super) fn everything() -> Self {
        Self {
            sends: Flow::new(usize::MAX),
            recvs: Flow::new(usize::MAX),
        }
    }

    pub(super) fn send(&mut self, b: &mut Builder, lane: Lane, buf: &Block, to: usize) {
        let step = b.send_on(lane, buf, to, &self.sends.next());
        self.sends.push(step);
    }

    pub(super) fn recv(&mut self, b: &mut Builder, lane: Lane, buf: &Block, from: usize) {
        let step = b.recv_on(lane, buf, from, &self.recvs.next());
        self.recvs.push(step);
    }
}

impl Exchange {
    /// A message to and from each of the `ranks` of the remote group.
    pub(super) fn across(
        &mut self,
        b: &mut Builder,
        ranks: usize,
        send: impl Fn(usize) -> Block,
        recv: &Blocks,
    ) {
        // As if the ranks of both groups were in circles of the larger group's size: then the k-th message I
        // send is the k-th one its receiver waits for, and the bounds on both sides fit.
        let (me, around) = (b.rank, ranks.max(b.size));
        for k in 0..around {
            let from = (me + k) % around;
            if from < ranks {
                self.recv(b, Lane::Remote, &recv.get(from), from);
            }
            let to = (me + around - k) % around;
            if to < ranks {
                self.send(b, Lane::Remote, &send(to), to);
            }
        }
    }
}

/// Allgather within the group, the algorithm chosen by the size of the result, which all know.
fn intra(b: &mut Builder, tuning: &Tuning, send: Option<&Block>, recv: &Blocks) {
    let p = b.size;
    let total: u64 = (0..p).map(|i| recv.get(i).bytes()).sum();
    let algorithm = match tuning.allgather {
        0 if p > 2 && total <= tuning.allgather_bruck_max => 1,
        0 if p <= tuning.direct_ranks_max as usize => 3,
        0 => 2,
        forced => forced,
    };
    if let Some(send) = send.filter(|_| p == 1 || algorithm != 1) {
        b.copy(send, &recv.get(b.rank), &[]);
    }
    let mine = send.cloned().unwrap_or_else(|| recv.get(b.rank));
    match algorithm {
        _ if p == 1 => {}
        1 => bruck(b, &mine, send.is_none(), recv),
        2 => ring(b, &mine, recv),
        _ => direct(b, tuning, &mine, recv),
    }
}

/// Every rank sends its block to every other: each byte is copied once, nobody waits for a third rank.
fn direct(b: &mut Builder, tuning: &Tuning, mine: &Block, recv: &Blocks) {
    let (me, p) = (b.rank, b.size);
    let mut flows = Exchange::new(tuning);
    for k in 1..p {
        flows.recv(b, Lane::Local, &recv.get((me + k) % p), (me + k) % p);
        flows.send(b, Lane::Local, mine, (me + p - k) % p);
    }
}

/// Blocks go around a ring.
fn ring(b: &mut Builder, mine: &Block, recv: &Blocks) {
    let (me, p) = (b.rank, b.size);
    let (left, right) = ((me + p - 1) % p, (me + 1) % p);
    let mut have = Step::NONE;
    let (mut sent, mut received) = (Step::NONE, Step::NONE);
    for k in 0..p - 1 {
        let out = if k == 0 {
            mine.clone()
        } else {
            recv.get((me + p - k) % p)
        };
        sent = b.send(&out, right, &[have.done(), sent.issued()]);
        received = b.recv(&recv.get((me + p - k - 1) % p), left, &[received.issued()]);
        have = received;
    }
}

/// Bruck: in step k everyone has the blocks of 2^k ranks from its own on, and gets as many again. Collected
/// packed, beginning with my own block.
fn bruck(b: &mut Builder, mine: &Block, in_place: bool, recv: &Blocks) {
    let (me, p) = (b.rank, b.size);
    // Where the block of rank me+i begins in my collection, and likewise in that of any other rank.
    let sizes: Vec<u64> = (0..p).map(|i| recv.get(i).bytes()).collect();
    let span = |from: usize, n: usize| -> u64 { (0..n).map(|i| sizes[(from + i) % p]).sum() };
    let packed = b.temp_bytes(span(me, p));
    b.copy_range(mine, 0, &packed, 0, sizes[me], &[]);
    b.round();
    let mut have = 1;
    while have < p {
        let n = have.min(p - have);
        let to = (me + p - have) % p;
        let from = (me + have) % p;
        let got = packed.part(span(me, have), span(from, n));
        b.recv(&got, from, &[]);
        b.send(&packed.part(0, span(me, n)), to, &[]);
        b.round();
        have += n;
    }
    let mut at = 0;
    for i in 0..p {
        let rank = (me + i) % p;
        if i > 0 || !in_place {
            b.copy_range(&packed, at, &recv.get(rank), 0, sizes[rank], &[]);
        }
        at += sizes[rank];
    }
}
