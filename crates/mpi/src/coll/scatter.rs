//! `MPI_Scatter` and `MPI_Scatterv` (MPI-5.0 section 6.6).

use super::mem::{Block, Blocks};
use super::plan::{Builder, Flow, Lane, Plan};
use super::{Root, Site, Tuning, bcast};
use crate::{Error, ErrorClass, Result};

/// Build `MPI_Scatter` of block i of `send` at `root` to rank i's `recv` (`None`: `MPI_IN_PLACE`, at the
/// root). `send` (one rank's block) is used at the root only.
///
/// # Errors
/// `MPI_ERR_ROOT`: no such rank. `MPI_ERR_BUFFER`: in place elsewhere than at the root of an
/// intracommunicator.
pub fn scatter(site: &Site<'_>, send: Block, recv: Option<Block>, root: Root) -> Result<Plan> {
    build(site, Blocks::Even(send), recv, root, true)
}

/// Build `MPI_Scatterv`: as [`scatter`], every rank's block with its own place and size.
///
/// # Errors
/// As [`scatter`].
pub fn scatterv(site: &Site<'_>, send: Blocks, recv: Option<Block>, root: Root) -> Result<Plan> {
    build(site, send, recv, root, false)
}

fn build(site: &Site<'_>, send: Blocks, recv: Option<Block>, root: Root, even: bool) -> Result<Plan> {
    site.check_root(root)?;
    let mut b = site.builder();
    let window = site.tuning.window as usize;
    match root {
        Root::Idle => {}
        Root::Me => {
            site.check_blocks("the send buffer", &send, site.remote_size)?;
            let mut flow = Flow::new(window);
            for to in 0..site.remote_size {
                let step = b.send_on(Lane::Remote, &send.get(to), to, &flow.next());
                flow.push(step);
            }
        }
        Root::Rank(root) if site.inter() => {
            site.check_in_place(&recv)?;
            let recv = recv.unwrap_or_else(Block::none);
            b.recv_on(Lane::Remote, &recv, root, &[]);
        }
        Root::Rank(root) => {
            if b.rank == root {
                site.check_blocks("the send buffer", &send, site.size)?;
            } else if recv.is_none() {
                return Err(Error::new(
                    ErrorClass::ERR_BUFFER,
                    format!(
                        "MPI_IN_PLACE at rank {}: allowed at the root, rank {root}",
                        b.rank
                    ),
                ));
            }
            let bytes = match &recv {
                Some(recv) => recv.bytes(),
                None => send.get(root).bytes(),
            };
            match &send {
                Blocks::Even(first) if even && by_tree(site.tuning, bytes, b.size) => {
                    binomial(&mut b, first, recv.as_ref(), bytes, root);
                }
                _ => linear(&mut b, window, &send, recv.as_ref(), root),
            }
        }
    }
    Ok(b.finish())
}

fn by_tree(tuning: &Tuning, bytes: u64, ranks: usize) -> bool {
    match tuning.scatter {
        0 => ranks > 3 && bytes <= tuning.gather_tree_max,
        forced => forced == 1,
    }
}

/// The root straight to every rank.
pub(super) fn linear(b: &mut Builder, window: usize, send: &Blocks, recv: Option<&Block>, root: usize) {
    if b.rank != root {
        if let Some(recv) = recv {
            b.recv(recv, root, &[]);
        }
        return;
    }
    let mut flow = Flow::new(window);
    for to in (0..b.size).filter(|&r| r != root) {
        let step = b.send(&send.get(to), to, &flow.next());
        flow.push(step);
    }
    if let Some(recv) = recv {
        b.copy(&send.get(root), recv, &[]);
    }
}

/// Down a binomial tree over ranks relative to the root; a rank gets the blocks of its subtree at once.
fn binomial(b: &mut Builder, send: &Block, recv: Option<&Block>, bytes: u64, root: usize) {
    let p = b.size;
    let me = (b.rank + p - root) % p;
    let at = |v: usize| (v + root) % p;
    let (parent, children) = bcast::tree(me, p);
    let width = |v: usize| (v & v.wrapping_neg()).min(p - v);
    let Some(parent) = parent else {
        for child in children {
            let (rank, n) = (at(child), width(child));
            if rank + n <= p {
                b.send(&send.nths(rank, n), rank, &[]);
                continue;
            }
            // The subtree goes past the last rank and on at rank 0.
            let packed = b.temp_bytes(bytes * n as u64);
            let head = (p - rank) as u64 * bytes;
            let rest = bytes * n as u64 - head;
            let one = b.copy_range(&send.nths(rank, p - rank), 0, &packed, 0, head, &[]);
            let two = b.copy_range(&send.nths(0, rank + n - p), 0, &packed, head, rest, &[]);
            b.send(&packed, rank, &[one.done(), two.done()]);
        }
        if let Some(recv) = recv {
            b.copy(&send.nth(root), recv, &[]);
        }
        return;
    };
    let Some(recv) = recv else { return };
    if children.is_empty() {
        b.recv(recv, at(parent), &[]);
        return;
    }
    let packed = b.temp_bytes(bytes * width(me) as u64);
    b.recv(&packed, at(parent), &[]);
    b.round();
    for child in children {
        let first = (child - me) as u64 * bytes;
        b.send(&packed.part(first, width(child) as u64 * bytes), at(child), &[]);
    }
    b.copy_range(&packed, 0, recv, 0, bytes, &[]);
}
