//! `MPI_Bcast` (MPI-5.0 section 6.4).

use super::mem::Block;
use super::plan::{Builder, Flow, Lane, Plan, Step};
use super::{Root, Site, Tuning, part_of};
use crate::Result;

/// Build `MPI_Bcast` of `buf` from `root`.
///
/// # Errors
/// `MPI_ERR_ROOT`: no such rank.
pub fn bcast(site: &Site<'_>, buf: Block, root: Root) -> Result<Plan> {
    site.check_root(root)?;
    let mut b = site.builder();
    if !site.inter() {
        if let Root::Rank(root) = root {
            intra(&mut b, site.tuning, &buf, root);
        }
        return Ok(b.finish());
    }
    match root {
        Root::Idle => {}
        Root::Me => {
            b.send_on(Lane::Remote, &buf, 0, &[]);
        }
        Root::Rank(root) => {
            if b.rank == 0 {
                b.recv_on(Lane::Remote, &buf, root, &[]);
                b.round();
            }
            intra(&mut b, site.tuning, &buf, 0);
        }
    }
    Ok(b.finish())
}

/// Broadcast within the group, the algorithm chosen by size.
pub(super) fn intra(b: &mut Builder, tuning: &Tuning, buf: &Block, root: usize) {
    let (bytes, p) = (buf.bytes(), b.size);
    if p < 2 || bytes == 0 {
        return;
    }
    if tuning.bcast == 0
        && let Some(hosts) = b.hosts.clone()
    {
        return super::hosts::bcast_by_host(b, &hosts, tuning, buf, root);
    }
    let algorithm = match tuning.bcast {
        0 if bytes <= tuning.bcast_tree_max || p == 2 => 1,
        0 if bytes < tuning.bcast_chain_min && p > 3 => 2,
        0 => 3,
        forced => forced,
    };
    match algorithm {
        1 => binomial(b, tuning, buf, root),
        2 => scatter_allgather(b, buf, root),
        _ => chain(b, tuning, buf, root),
    }
}

/// Parent and children of a rank (relative to the root) in the binomial tree over `size` ranks, children
/// with the largest subtrees first.
pub(super) fn tree(rank: usize, size: usize) -> (Option<usize>, Vec<usize>) {
    let mut mask = 1;
    while mask < size && rank & mask == 0 {
        mask <<= 1;
    }
    let parent = (rank > 0).then_some(rank & !mask);
    let mut children = Vec::new();
    mask >>= 1;
    while mask > 0 {
        if rank + mask < size {
            children.push(rank + mask);
        }
        mask >>= 1;
    }
    (parent, children)
}

fn binomial(b: &mut Builder, tuning: &Tuning, buf: &Block, root: usize) {
    let (parent, children) = relatives(b.rank, root, b.size, false);
    flow(b, tuning, buf, 1, parent, &children);
}

/// The data as one run of bytes: in place when it is one, else a temporary (packed here at the root).
fn packed(b: &mut Builder, buf: &Block, root: usize) -> Block {
    buf.as_bytes().unwrap_or_else(|| {
        let run = b.temp_bytes(buf.bytes());
        if b.rank == root {
            b.copy(buf, &run, &[]);
            b.round();
        }
        run
    })
}

/// Van de Geijn: scatter pieces along a binomial tree, then pass them around a ring.
fn scatter_allgather(b: &mut Builder, buf: &Block, root: usize) {
    let p = b.size;
    let me = (b.rank + p - root) % p;
    let at = |v: usize| (v + root) % p;
    let run = packed(b, buf, root);
    // Pieces `from..to`, relative to the root; multiples of a cache line, the last ones may be empty.
    let piece = run.bytes().div_ceil(p as u64).next_multiple_of(64);
    let pieces = |from: usize, to: usize| {
        let start = (from as u64 * piece).min(run.bytes());
        let end = (to as u64 * piece).min(run.bytes());
        run.part(start, end - start)
    };
    // What the scatter leaves with a rank: its own piece and those of its subtree.
    let held = |v: usize| {
        let subtree = if v == 0 { p } else { v & v.wrapping_neg() };
        v..(v + subtree).min(p)
    };
    let (parent, children) = tree(me, p);
    if let Some(parent) = parent {
        b.recv(&pieces(me, held(me).end), at(parent), &[]);
        b.round();
    }
    for child in children {
        b.send(&pieces(child, held(child).end), at(child), &[]);
    }
    // The ring: in step k I pass on the piece that came in step k-1, unless the scatter left it there already.
    let next = (me + 1) % p;
    let (left, right) = (at((me + p - 1) % p), at(next));
    let mut have = Step::NONE;
    let (mut sent, mut received) = (Step::NONE, Step::NONE);
    for k in 0..p - 1 {
        let out = (me + p - k) % p;
        let inn = (me + p - k - 1) % p;
        if !held(next).contains(&out) {
            sent = b.send(&pieces(out, out + 1), right, &[have.done(), sent.issued()]);
        }
        have = Step::NONE;
        if !held(me).contains(&inn) {
            received = b.recv(&pieces(inn, inn + 1), left, &[received.issued()]);
            have = received;
        }
    }
    unpack(b, &run, buf, root);
}

fn unpack(b: &mut Builder, run: &Block, buf: &Block, root: usize) {
    if buf.as_bytes().is_none() && b.rank != root {
        b.round();
        b.copy(run, buf, &[]);
    }
}

/// Parent and children of `rank` among `size` ranks when `root` has the data: along a chain, where every rank passes on each
/// byte once, when there is much of it, else down a binomial tree, which has the fewest steps.
pub(super) fn relatives(rank: usize, root: usize, size: usize, chain: bool) -> (Option<usize>, Vec<usize>) {
    let me = (rank + size - root) % size;
    let at = |v: usize| (v + root) % size;
    let (parent, children) = if chain {
        let next = (me + 1 < size).then_some(me + 1);
        (me.checked_sub(1), next.into_iter().collect())
    } else {
        tree(me, size)
    };
    (parent.map(at), children.into_iter().map(at).collect())
}

/// Piece by piece from rank to rank: all ranks copy at the same time, each byte once per rank.
fn chain(b: &mut Builder, tuning: &Tuning, buf: &Block, root: usize) {
    let pieces = buf.bytes().div_ceil(tuning.link(buf.bytes())) as usize;
    let (parent, children) = relatives(b.rank, root, b.size, true);
    flow(b, tuning, buf, pieces, parent, &children);
}

/// Receive from `parent` (at the root: have) and pass on to each of `children`, in `pieces`.
pub(super) fn flow(
    b: &mut Builder,
    tuning: &Tuning,
    buf: &Block,
    pieces: usize,
    parent: Option<usize>,
    children: &[usize],
) {
    let mut incoming = Flow::new(tuning.window as usize);
    let mut outgoing: Vec<_> = children
        .iter()
        .map(|_| Flow::new(tuning.window as usize))
        .collect();
    // Pieces are cut from a run of bytes; what travels whole needs none.
    let whole = pieces < 2;
    let (run, packed) = match buf.as_bytes() {
        _ if whole => (buf.clone(), false),
        Some(run) => (run, false),
        None => (b.temp_bytes(buf.bytes()), true),
    };
    for i in 0..pieces {
        let (first, len) = part_of(run.bytes(), pieces, i);
        let piece = if whole { run.clone() } else { run.part(first, len) };
        let mut here = Step::NONE;
        if let Some(parent) = parent {
            here = b.recv(&piece, parent, &incoming.next());
            incoming.push(here);
            if packed {
                b.copy_range(&run, first, buf, first, len, &[here.done()]);
            }
        } else if packed {
            here = b.copy_range(buf, first, &run, first, len, &[]);
        }
        for (child, flow) in children.iter().zip(&mut outgoing) {
            let [room, order] = flow.next();
            let sent = b.send(&piece, *child, &[here.done(), room, order]);
            flow.push(sent);
        }
    }
}
