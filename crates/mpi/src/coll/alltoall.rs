//! `MPI_Alltoall`, `MPI_Alltoallv` and `MPI_Alltoallw` (MPI-5.0 section 6.8).

use super::allgather::Exchange;
use super::mem::{Block, Blocks};
use super::plan::{Builder, Lane, Plan, Step};
use super::{Site, Tuning};
use crate::Result;

/// Build `MPI_Alltoall`: block i of `send` (`None`: `MPI_IN_PLACE`) goes to rank i, block i of `recv` comes
/// from rank i. Both arguments are one rank's block.
///
/// # Errors
/// `MPI_ERR_BUFFER`: in place on an intercommunicator.
pub fn alltoall(site: &Site<'_>, send: Option<Block>, recv: Block) -> Result<Plan> {
    let bytes = recv.bytes();
    let tuning = site.tuning;
    let bruck = match tuning.alltoall {
        0 => site.size >= tuning.alltoall_bruck_ranks as usize && bytes <= tuning.alltoall_bruck_max,
        forced => forced == 1,
    };
    if bruck && !site.inter() {
        let mut b = site.builder();
        let send = send.unwrap_or_else(|| recv.clone());
        indexed(&mut b, &send, &recv);
        return Ok(b.finish());
    }
    alltoallv(site, send.map(Blocks::Even), Blocks::Even(recv))
}

/// Build `MPI_Alltoallv` or `MPI_Alltoallw`: every block with its own place, size and datatype.
///
/// # Errors
/// As [`alltoall`].
pub fn alltoallv(site: &Site<'_>, send: Option<Blocks>, recv: Blocks) -> Result<Plan> {
    site.check_in_place(&send)?;
    let mut b = site.builder();
    let ranks = if site.inter() { site.remote_size } else { site.size };
    site.check_blocks("the receive buffer", &recv, ranks)?;
    let Some(send) = send else {
        in_place(&mut b, site.tuning, &recv);
        return Ok(b.finish());
    };
    site.check_blocks("the send buffer", &send, ranks)?;
    if site.inter() {
        Exchange::new(site.tuning).across(&mut b, ranks, |to| send.get(to), &recv);
    } else {
        pairwise(&mut b, site.tuning, &send, &recv);
    }
    Ok(b.finish())
}

/// With the rank k away in step k, a bounded number of steps under way.
fn pairwise(b: &mut Builder, tuning: &Tuning, send: &Blocks, recv: &Blocks) {
    let (me, p) = (b.rank, b.size);
    let mut flows = Exchange::new(tuning);
    for k in 1..p {
        let (from, to) = ((me + k) % p, (me + p - k) % p);
        flows.recv(b, Lane::Local, &recv.get(from), from);
        flows.send(b, Lane::Local, &send.get(to), to);
    }
    b.copy(&send.get(me), &recv.get(me), &[]);
}

/// In place: blocks of two ranks change places, one pair at a time, through a temporary.
fn in_place(b: &mut Builder, tuning: &Tuning, recv: &Blocks) {
    let (me, p) = (b.rank, b.size);
    let largest = (0..p).filter(|&i| i != me).map(|i| recv.get(i).bytes()).max();
    let largest = largest.unwrap_or(0);
    let ways = tuning.window.clamp(1, 2) as usize;
    let mut temps: Vec<(Block, Step)> = (0..ways.min(p.saturating_sub(1)))
        .map(|_| (b.temp_bytes(largest), Step::NONE))
        .collect();
    // In step k the partners' ranks add up to k: both meet in the same step.
    let mut turn = 0;
    for k in 0..p {
        let peer = (k + p - me) % p;
        let block = recv.get(peer);
        if peer == me || block.bytes() == 0 {
            continue;
        }
        let n = temps.len();
        let (temp, free) = &mut temps[turn % n];
        turn += 1;
        let out = temp.with_count(block.bytes());
        let saved = b.copy_range(&block, 0, &out, 0, block.bytes(), &[free.done()]);
        b.recv(&block, peer, &[saved.done()]);
        *free = b.send(&out, peer, &[saved.done()]);
    }
}

/// Bruck: the block for the rank i away travels 2^k ranks on in step k when bit k of i is set. Few large
/// messages instead of many small ones.
fn indexed(b: &mut Builder, send: &Block, recv: &Block) {
    let (me, p) = (b.rank, b.size);
    let bytes = recv.bytes();
    if bytes == 0 {
        return;
    }
    // Block i of `moving` is on its way to the rank i further on.
    let moving = b.temp_bytes(bytes * p as u64);
    let slots = |of: &Block, i: usize, n: usize| of.part(i as u64 * bytes, n as u64 * bytes);
    b.copy(&send.nths(me, p - me), &slots(&moving, 0, p - me), &[]);
    b.copy(&send.nths(0, me), &slots(&moving, p - me, me), &[]);
    b.round();
    let most = p.div_ceil(2) as u64 * bytes;
    let (out, inn) = (b.temp_bytes(most), b.temp_bytes(most));
    let mut distance = 1;
    while distance < p {
        // (first, number) of the blocks that go in this step: runs of `distance`, the last one may be shorter.
        let runs: Vec<(usize, usize)> = (distance..p)
            .step_by(2 * distance)
            .map(|i| (i, distance.min(p - i)))
            .collect();
        let mut n = 0;
        for &(i, len) in &runs {
            b.copy(&slots(&moving, i, len), &slots(&out, n, len), &[]);
            n += len;
        }
        b.round();
        b.recv(&slots(&inn, 0, n), (me + p - distance) % p, &[]);
        b.send(&slots(&out, 0, n), (me + distance) % p, &[]);
        b.round();
        n = 0;
        for &(i, len) in &runs {
            b.copy(&slots(&inn, n, len), &slots(&moving, i, len), &[]);
            n += len;
        }
        b.round();
        distance *= 2;
    }
    // Block i has come i ranks: from the rank i before me.
    for i in 0..p {
        b.copy(&slots(&moving, i, 1), &recv.nth((me + p - i) % p), &[]);
    }
}
