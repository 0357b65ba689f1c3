//! `MPI_Gather` and `MPI_Gatherv` (MPI-5.0 section 6.5).

use super::mem::{Block, Blocks};
use super::plan::{Builder, Flow, Lane, Plan};
use super::{Root, Site, Tuning, bcast};
use crate::{Error, ErrorClass, Result};

/// Build `MPI_Gather` of `send` (`None`: `MPI_IN_PLACE`, at the root) to block i of `recv` at `root`. `recv`
/// (one rank's block) is used at the root only.
///
/// # Errors
/// `MPI_ERR_ROOT`: no such rank. `MPI_ERR_BUFFER`: in place elsewhere than at the root of an
/// intracommunicator.
pub fn gather(site: &Site<'_>, send: Option<Block>, recv: Block, root: Root) -> Result<Plan> {
    build(site, send, Blocks::Even(recv), root, true)
}

/// Build `MPI_Gatherv`: as [`gather`], every rank's block with its own place and size.
///
/// # Errors
/// As [`gather`].
pub fn gatherv(site: &Site<'_>, send: Option<Block>, recv: Blocks, root: Root) -> Result<Plan> {
    build(site, send, recv, root, false)
}

fn build(site: &Site<'_>, send: Option<Block>, recv: Blocks, root: Root, even: bool) -> Result<Plan> {
    site.check_root(root)?;
    let mut b = site.builder();
    let window = site.tuning.window as usize;
    match root {
        Root::Idle => {}
        Root::Me => {
            site.check_blocks("the receive buffer", &recv, site.remote_size)?;
            let mut flow = Flow::new(window);
            for from in 0..site.remote_size {
                let step = b.recv_on(Lane::Remote, &recv.get(from), from, &flow.next());
                flow.push(step);
            }
        }
        Root::Rank(root) if site.inter() => {
            site.check_in_place(&send)?;
            let send = send.unwrap_or_else(Block::none);
            b.send_on(Lane::Remote, &send, root, &[]);
        }
        Root::Rank(root) => {
            if b.rank == root {
                site.check_blocks("the receive buffer", &recv, site.size)?;
            } else if send.is_none() {
                return Err(Error::new(
                    ErrorClass::ERR_BUFFER,
                    format!(
                        "MPI_IN_PLACE at rank {}: allowed at the root, rank {root}",
                        b.rank
                    ),
                ));
            }
            let bytes = match &send {
                Some(send) => send.bytes(),
                None => recv.get(root).bytes(),
            };
            match &recv {
                Blocks::Even(first) if even && by_tree(site.tuning, bytes, b.size) => {
                    binomial(&mut b, send.as_ref(), first, bytes, root);
                }
                _ => linear(&mut b, window, send.as_ref(), &recv, root),
            }
        }
    }
    Ok(b.finish())
}

fn by_tree(tuning: &Tuning, bytes: u64, ranks: usize) -> bool {
    match tuning.gather {
        0 => ranks > 3 && bytes <= tuning.gather_tree_max,
        forced => forced == 1,
    }
}

/// Every rank straight to the root.
pub(super) fn linear(b: &mut Builder, window: usize, send: Option<&Block>, recv: &Blocks, root: usize) {
    if b.rank != root {
        if let Some(send) = send {
            b.send(send, root, &[]);
        }
        return;
    }
    let mut flow = Flow::new(window);
    for from in (0..b.size).filter(|&r| r != root) {
        let step = b.recv(&recv.get(from), from, &flow.next());
        flow.push(step);
    }
    if let Some(send) = send {
        b.copy(send, &recv.get(root), &[]);
    }
}

/// Up a binomial tree over ranks relative to the root; a rank sends the blocks of its subtree at once.
fn binomial(b: &mut Builder, send: Option<&Block>, recv: &Block, bytes: u64, root: usize) {
    let p = b.size;
    let me = (b.rank + p - root) % p;
    let at = |v: usize| (v + root) % p;
    let (parent, children) = bcast::tree(me, p);
    let width = |v: usize| (v & v.wrapping_neg()).min(p - v);
    let Some(parent) = parent else {
        for child in children {
            let (rank, n) = (at(child), width(child));
            if rank + n <= p {
                b.recv(&recv.nths(rank, n), rank, &[]);
                continue;
            }
            // The subtree goes past the last rank and on at rank 0.
            let packed = b.temp_bytes(bytes * n as u64);
            let got = b.recv(&packed, rank, &[]);
            let head = (p - rank) as u64 * bytes;
            let rest = bytes * n as u64 - head;
            b.copy_range(&packed, 0, &recv.nths(rank, p - rank), 0, head, &[got.done()]);
            b.copy_range(&packed, head, &recv.nths(0, rank + n - p), 0, rest, &[got.done()]);
        }
        if let Some(send) = send {
            b.copy(send, &recv.nth(root), &[]);
        }
        return;
    };
    let Some(send) = send else { return };
    if children.is_empty() {
        b.send(send, at(parent), &[]);
        return;
    }
    let packed = b.temp_bytes(bytes * width(me) as u64);
    b.copy_range(send, 0, &packed, 0, bytes, &[]);
    for child in children {
        let first = (child - me) as u64 * bytes;
        b.recv(&packed.part(first, width(child) as u64 * bytes), at(child), &[]);
    }
    b.round();
    b.send(&packed, at(parent), &[]);
}
