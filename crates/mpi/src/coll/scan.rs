//! `MPI_Scan` and `MPI_Exscan` (MPI-5.0 section 6.11).
//!
//! Requirements of MPI-5.0 sections 6.11.1, 6.11.2.

use super::mem::Block;
use super::plan::{Builder, Flow, Plan, Step};
use super::{Site, Tuning, part_of};
use crate::Result;
use crate::op::Op;

/// Build `MPI_Scan`: rank r gets the reduction of the vectors `send` (`None`: `MPI_IN_PLACE`) of ranks 0 to r.
///
/// # Errors
/// `MPI_ERR_COMM`: on an intercommunicator.
pub fn scan(site: &Site<'_>, send: Option<Block>, recv: Block, op: &Op) -> Result<Plan> {
    let mut b = begin(site, op)?;
    let p = b.size;
    if by_chain(site.tuning, recv.bytes(), p) {
        chain(&mut b, site.tuning, send.as_ref(), &recv);
        return Ok(b.finish());
    }
    if let Some(send) = send {
        b.copy(&send, &recv, &[]);
        b.round();
    }
    let me = b.rank;
    doubling(&mut b, &recv, me, p, 0);
    Ok(b.finish())
}

/// Build `MPI_Exscan`: as [`scan`] of ranks 0 to r-1; `recv` of rank 0 is left alone.
///
/// # Errors
/// As [`scan`].
pub fn exscan(site: &Site<'_>, send: Option<Block>, recv: Block, op: &Op) -> Result<Plan> {
    let mut b = begin(site, op)?;
    let (me, p) = (b.rank, b.size);
    if by_chain(site.tuning, recv.bytes(), p) {
        exclusive_chain(&mut b, site.tuning, send.as_ref(), &recv);
        return Ok(b.finish());
    }
    // Everybody hands its vector one rank on; of those, ranks 1 and up make a scan.
    if me + 1 < p {
        let out = match send {
            Some(send) => send,
            None if me == 0 => recv.clone(),
            None => {
                let aside = b.temp(recv.count(), recv.datatype());
                b.copy(&recv, &aside, &[]);
                b.round();
                aside
            }
        };
        b.send(&out, me + 1, &[]);
    }
    if me > 0 {
        b.recv(&recv, me - 1, &[]);
        b.round();
        doubling(&mut b, &recv, me - 1, p - 1, 1);
    }
    Ok(b.finish())
}

fn begin(site: &Site<'_>, op: &Op) -> Result<Builder> {
    if site.inter() {
        return fail!(ERR_COMM: "comm: an intercommunicator has no scan; allowed are intracommunicators");
    }
    let mut b = site.builder();
    b.set_op(op);
    Ok(b)
}

fn by_chain(tuning: &Tuning, bytes: u64, ranks: usize) -> bool {
    match tuning.scan {
        0 => ranks > 2 && bytes > tuning.scan_doubling_max,
        forced => forced == 2,
    }
}

/// `acc` becomes the scan over `n` ranks, of which I am number `me` and number i is rank i + `base`. After step k it covers
/// the 2^(k+1) numbers up to mine.
fn doubling(b: &mut Builder, acc: &Block, me: usize, n: usize, base: usize) {
    let mut temp = None;
    let mut distance = 1;
    while distance < n {
        if me + distance < n {
            b.send(acc, base + me + distance, &[]);
        }
        let mut below = None;
        if me >= distance {
            let got = temp
                .get_or_insert_with(|| b.temp(acc.count(), acc.datatype()))
                .clone();
            b.recv(&got, base + me - distance, &[]);
            below = Some(got);
        }
        b.round();
        if let Some(got) = below {
            b.reduce(&got, acc, &[]);
            b.round();
        }
        distance *= 2;
    }
}

/// (first element, elements) of the pieces of a chain, the same at all ranks.
fn pieces(tuning: &Tuning, of: &Block) -> Vec<(u64, u64)> {
    let chunk = (tuning.link(of.bytes()) / of.datatype().size().max(1)).max(1);
    let n = of.count().div_ceil(chunk) as usize;
    (0..n).map(|i| part_of(of.count(), n, i)).collect()
}

/// Two temporaries of a piece, in turn, with the step after which each is free.
struct Turns([(Block, Step); 2], usize);

impl Turns {
    fn new(b: &mut Builder, like: &Block, pieces: &[(u64, u64)]) -> Self {
        let n = pieces.first().map_or(0, |p| p.1);
        Self([0, 1].map(|_| (b.temp(n, like.datatype()), Step::NONE)), 0)
    }

    fn take(&mut self, n: u64) -> (Block, Step) {
        self.1 += 1;
        let (block, free) = &self.0[self.1 % 2];
        (block.with_count(n), *free)
    }

    fn free_after(&mut self, step: Step) {
        self.0[self.1 % 2].1 = step;
    }
}

/// Piece by piece from rank to rank.
fn chain(b: &mut Builder, tuning: &Tuning, send: Option<&Block>, recv: &Block) {
    let (me, p) = (b.rank, b.size);
    let pieces = pieces(tuning, recv);
    let mut turns = (me > 0).then(|| Turns::new(b, recv, &pieces));
    let mut incoming = Flow::new(tuning.window as usize);
    let mut outgoing = Flow::new(tuning.window as usize);
    for &(first, n) in &pieces {
        let acc = recv.part(first, n);
        let mut have = Step::NONE;
        if let Some(send) = send {
            have = b.copy(&send.part(first, n), &acc, &[]);
        }
        if let Some(turns) = &mut turns {
            let (temp, free) = turns.take(n);
            let [room, order] = incoming.next();
            let got = b.recv(&temp, me - 1, &[free.done(), room, order]);
            incoming.push(got);
            have = b.reduce(&temp, &acc, &[got.done(), have.done()]);
            turns.free_after(have);
        }
        if me + 1 < p {
            let [room, order] = outgoing.next();
            let sent = b.send(&acc, me + 1, &[have.done(), room, order]);
            outgoing.push(sent);
        }
    }
}

/// Piece by piece: what comes from below is my result; with my own vector behind it, it goes on.
fn exclusive_chain(b: &mut Builder, tuning: &Tuning, send: Option<&Block>, recv: &Block) {
    let (me, p) = (b.rank, b.size);
    let pieces = pieces(tuning, recv);
    let passes_on = me + 1 < p;
    let mut turns = (me > 0 && passes_on).then(|| Turns::new(b, recv, &pieces));
    let mut incoming = Flow::new(tuning.window as usize);
    let mut outgoing = Flow::new(tuning.window as usize);
    for &(first, n) in &pieces {
        let mine = send.unwrap_or(recv).part(first, n);
        let result = recv.part(first, n);
        let [room, order] = outgoing.next();
        if me == 0 {
            if passes_on {
                let sent = b.send(&mine, 1, &[room, order]);
                outgoing.push(sent);
            }
            continue;
        }
        let [in_room, in_order] = incoming.next();
        let Some(turns) = &mut turns else {
            let got = b.recv(&result, me - 1, &[in_room, in_order]);
            incoming.push(got);
            continue;
        };
        let (temp, free) = turns.take(n);
        let saved = b.copy(&mine, &temp, &[free.done()]);
        let got = b.recv(&result, me - 1, &[saved.done(), in_room, in_order]);
        incoming.push(got);
        let summed = b.reduce(&result, &temp, &[got.done(), saved.done()]);
        let sent = b.send(&temp, me + 1, &[summed.done(), room, order]);
        turns.free_after(sent);
        outgoing.push(sent);
    }
}
