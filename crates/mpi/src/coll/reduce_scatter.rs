//! `MPI_Reduce_scatter_block` and `MPI_Reduce_scatter` (MPI-5.0 section 6.10).
//!
//! Requirements of MPI-5.0 sections 6.10.1, 6.10.2.

use super::direct::{Parts, Results, reduce_parts};
use super::mem::{Block, Blocks};
use super::plan::{Builder, Lane, Plan};
use super::{Site, Tuning, allreduce, reduce, rooted};
use crate::Result;
use crate::op::Op;

/// Build `MPI_Reduce_scatter_block`. `send` (`None`: `MPI_IN_PLACE`) is the whole vector, `recv` the block of this rank; in place
/// `recv` has the count of one block and is the address of the whole vector.
///
/// # Errors
/// `MPI_ERR_BUFFER`: in place on an intercommunicator.
pub fn reduce_scatter_block(site: &Site<'_>, send: Option<Block>, recv: Block, op: &Op) -> Result<Plan> {
    let counts = vec![recv.count(); site.size];
    reduce_scatter(site, send, recv, &counts, op)
}

/// Build `MPI_Reduce_scatter`: rank i gets `counts[i]` elements. In place the whole vector starts at the
/// address of `recv`.
///
/// # Errors
/// `MPI_ERR_BUFFER`: in place on an intercommunicator.
pub fn reduce_scatter(
    site: &Site<'_>,
    send: Option<Block>,
    recv: Block,
    counts: &[u64],
    op: &Op,
) -> Result<Plan> {
    site.check_in_place(&send)?;
    if counts.len() != site.size {
        return fail!(ERR_INTERN: "{} counts for {} ranks", counts.len(), site.size);
    }
    let total: u64 = counts.iter().sum();
    let mut b = site.builder();
    b.set_op(op);
    let recv = recv.with_count(counts[b.rank]);
    if site.inter() {
        let send = send.unwrap_or_else(Block::none);
        inter(&mut b, site.tuning, &send.with_count(total), &recv, counts);
        return Ok(b.finish());
    }
    let in_place = send.is_none();
    let mine = send.unwrap_or_else(|| recv.clone()).with_count(total);
    intra(&mut b, site.tuning, &mine, &recv, in_place, counts);
    Ok(b.finish())
}

/// (first element, elements) of each part.
fn parts_of(counts: &[u64]) -> Vec<(u64, u64)> {
    let mut first = 0;
    counts
        .iter()
        .map(|&count| {
            let part = (first, count);
            first += count;
            part
        })
        .collect()
}

fn intra(b: &mut Builder, tuning: &Tuning, mine: &Block, recv: &Block, in_place: bool, counts: &[u64]) {
    let p = b.size;
    let parts = parts_of(counts);
    let (first, count) = parts[b.rank];
    if p == 1 {
        if !in_place {
            b.copy(mine, recv, &[]);
        }
        return;
    }
    let algorithm = match tuning.reduce_scatter {
        0 if mine.bytes() <= tuning.reduce_scatter_doubling_max => 1,
        0 => 2,
        forced => forced,
    };
    if algorithm == 1 {
        let whole = b.temp(mine.count(), mine.datatype());
        allreduce::doubling(b, mine, &whole);
        b.round();
        b.copy(&whole.part(first, count), recv, &[]);
        return;
    }
    // In place nothing but the first block of the vector changes: programs look.
    let out = if in_place {
        b.temp(count, mine.datatype())
    } else {
        recv.clone()
    };
    let args = Parts {
        mine,
        parts: &parts,
        out: &out,
        all: mine,
        results: Results::Stay,
    };
    reduce_parts(b, tuning, &args);
    if in_place {
        b.round();
        b.copy(&out, recv, &[]);
    }
}

/// Each group reduces its vector to its rank 0, these two exchange the results, and scatter what came.
fn inter(b: &mut Builder, tuning: &Tuning, send: &Block, recv: &Block, counts: &[u64]) {
    let (mine, theirs) = if b.rank == 0 {
        let mine = if b.size > 1 {
            b.temp(send.count(), send.datatype())
        } else {
            send.clone()
        };
        (mine, b.temp(send.count(), send.datatype()))
    } else {
        (send.clone(), Block::none())
    };
    reduce::intra(b, tuning, send, &mine, 0);
    b.round();
    if b.rank == 0 {
        b.recv_on(Lane::Remote, &theirs, 0, &[]);
        b.send_on(Lane::Remote, &mine, 0, &[]);
        b.round();
    }
    let blocks = parts_of(counts)
        .into_iter()
        .map(|(first, count)| theirs.part(first, count))
        .collect();
    rooted::scatter_linear(b, tuning.window as usize, &Blocks::Each(blocks), recv, 0);
}
