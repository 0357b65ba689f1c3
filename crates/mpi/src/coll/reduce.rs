//! `MPI_Reduce` (MPI-5.0 section 6.9.1).

use super::direct::{Parts, Results, reduce_parts};
use super::mem::Block;
use super::plan::{Builder, Lane, Plan, Step};
use super::{Root, Site, Tuning, part_of};
use crate::Result;
use crate::op::Op;

/// Build `MPI_Reduce` of `send` (`None`: `MPI_IN_PLACE`, at the root) to `recv` at `root`. `recv` is used at the
/// root only.
///
/// # Errors
/// `MPI_ERR_ROOT`: no such rank. `MPI_ERR_BUFFER`: in place elsewhere than at the root of an
/// intracommunicator.
pub fn reduce(site: &Site<'_>, send: Option<Block>, recv: Block, op: &Op, root: Root) -> Result<Plan> {
    site.check_root(root)?;
    let mut b = site.builder();
    b.set_op(op);
    if !site.inter() {
        let Root::Rank(root) = root else {
            return Ok(b.finish());
        };
        let send = match send {
            Some(send) => send,
            None if b.rank == root => recv.clone(),
            None => {
                return fail!(ERR_BUFFER: "MPI_IN_PLACE at rank {}: allowed at the root, rank {root}", b.rank);
            }
        };
        intra(&mut b, site.tuning, &send, &recv, root);
        return Ok(b.finish());
    }
    match root {
        Root::Idle => {}
        Root::Me => {
            b.recv_on(Lane::Remote, &recv, 0, &[]);
        }
        Root::Rank(root) => {
            site.check_in_place(&send)?;
            let send = send.unwrap_or_else(Block::none);
            let result = if b.rank == 0 && b.size > 1 {
                b.temp(send.count(), send.datatype())
            } else {
                send.clone()
            };
            intra(&mut b, site.tuning, &send, &result, 0);
            b.round();
            if b.rank == 0 {
                b.send_on(Lane::Remote, &result, root, &[]);
            }
        }
    }
    Ok(b.finish())
}

/// Reduce within the group, the algorithm chosen by size. At the root `send` may be `recv`; elsewhere `recv` is
/// not used.
pub(super) fn intra(b: &mut Builder, tuning: &Tuning, send: &Block, recv: &Block, root: usize) {
    let (bytes, p) = (send.bytes(), b.size);
    if p == 1 {
        if !send.same_place(recv) {
            b.copy(send, recv, &[]);
        }
        return;
    }
    if tuning.reduce == 0
        && let Some(hosts) = super::hosts::reduces(b, tuning, bytes)
    {
        return super::hosts::reduce_by_host(b, &hosts, tuning, send, recv, root);
    }
    let algorithm = match tuning.reduce {
        0 if p == 2 && bytes <= tuning.pair_whole_max => 1,
        0 if bytes <= tuning.reduce_tree_max || send.count() < p as u64 => 1,
        0 if p <= tuning.direct_ranks_max as usize => 2,
        0 => 1,
        forced => forced,
    };
    if algorithm == 1 {
        binomial(b, send, recv, root);
        return;
    }
    let parts: Vec<_> = (0..p).map(|i| part_of(send.count(), p, i)).collect();
    let (first, count) = parts[b.rank];
    let out = if b.rank == root {
        recv.part(first, count)
    } else {
        b.temp(count, send.datatype())
    };
    let args = Parts {
        mine: send,
        parts: &parts,
        out: &out,
        all: recv,
        results: Results::At(root),
    };
    reduce_parts(b, tuning, &args);
}

/// Up a binomial tree. Operands stay in rank order when the operation needs it: then the tree is that of
/// rank 0, which passes the result on to the root.
fn binomial(b: &mut Builder, send: &Block, recv: &Block, root: usize) {
    let p = b.size;
    let top = if b.commutes() { root } else { 0 };
    let me = (b.rank + p - top) % p;
    let at = |v: usize| (v + top) % p;
    // Children hold ranks me+1.., me+2.., me+4..: combined in this order.
    let (parent, mut children) = super::bcast::tree(me, p);
    children.reverse();
    let n = send.count();
    let in_place = b.rank == root && send.same_place(recv);
    let mut result = send.clone();
    if !children.is_empty() {
        // What a child sends becomes the right operand and so the result: two buffers take turns, the last
        // result is in the first of them.
        let last = if b.rank == root {
            recv.clone()
        } else {
            b.temp(n, send.datatype())
        };
        let other = (children.len() > 1 || in_place).then(|| b.temp(n, send.datatype()));
        let pick = |i: usize| match &other {
            Some(other) if (children.len() - 1 - i) % 2 == 1 => other.clone(),
            _ => last.clone(),
        };
        let mut ready = Step::NONE;
        if let Some(aside) = other.as_ref().filter(|_| in_place && pick(0).same_place(recv)) {
            ready = b.copy(send, aside, &[]);
            result = aside.clone();
        }
        for (i, child) in children.iter().enumerate() {
            let got = pick(i);
            let free = if i == 1 && !in_place { Step::NONE } else { ready };
            let arrived = b.recv(&got, at(*child), &[free.done()]);
            ready = b.reduce(&result, &got, &[arrived.done(), ready.done()]);
            result = got;
        }
        b.round();
    }
    if let Some(parent) = parent {
        b.send(&result, at(parent), &[]);
    }
    if top != root {
        b.round();
        if b.rank == top {
            b.send(&result, root, &[]);
        } else if b.rank == root {
            b.recv(recv, top, &[]);
        }
    }
}
