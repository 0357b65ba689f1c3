//! `MPI_Gather`, `MPI_Gatherv`, `MPI_Scatter` and `MPI_Scatterv` (MPI-5.0 sections 6.5 and 6.6): the root has a row of blocks, one for
//! each rank, and the two directions differ in who sends.

use super::mem::{Block, Blocks};
use super::plan::{Builder, Flow, Lane, Plan, Step};
use super::{Root, Site, Tuning, bcast};
use crate::Result;

/// Build `MPI_Gather` of `send` (`None`: `MPI_IN_PLACE`, at the root) to block i of `recv` at `root`. `recv`
/// (one rank's block) is used at the root only.
///
/// # Errors
/// `MPI_ERR_ROOT`: no such rank. `MPI_ERR_BUFFER`: in place elsewhere than at the root of an
/// intracommunicator.
pub fn gather(site: &Site<'_>, send: Option<Block>, recv: Block, root: Root) -> Result<Plan> {
    build(site, Direction::Gather, send, Blocks::Even(recv), root, true)
}

/// Build `MPI_Gatherv`: as [`gather`], every rank's block with its own place and size.
///
/// # Errors
/// As [`gather`].
pub fn gatherv(site: &Site<'_>, send: Option<Block>, recv: Blocks, root: Root) -> Result<Plan> {
    build(site, Direction::Gather, send, recv, root, false)
}

/// Build `MPI_Scatter` of block i of `send` at `root` to rank i's `recv` (`None`: `MPI_IN_PLACE`, at the
/// root). `send` (one rank's block) is used at the root only.
///
/// # Errors
/// As [`gather`].
pub fn scatter(site: &Site<'_>, send: Block, recv: Option<Block>, root: Root) -> Result<Plan> {
    build(site, Direction::Scatter, recv, Blocks::Even(send), root, true)
}

/// Build `MPI_Scatterv`: as [`scatter`], every rank's block with its own place and size.
///
/// # Errors
/// As [`gather`].
pub fn scatterv(site: &Site<'_>, send: Blocks, recv: Option<Block>, root: Root) -> Result<Plan> {
    build(site, Direction::Scatter, recv, send, root, false)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// To the root.
    Gather,
    /// From it.
    Scatter,
}

impl Direction {
    /// Exchange `buf` with `rank`, which is nearer to the root, or with one that is `farther` away.
    fn exchange(
        self,
        b: &mut Builder,
        lane: Lane,
        buf: &Block,
        rank: usize,
        farther: bool,
        flow: &Flow,
    ) -> Step {
        if (self == Self::Gather) == farther {
            b.recv_on(lane, buf, rank, &flow.next())
        } else {
            b.send_on(lane, buf, rank, &flow.next())
        }
    }

    /// Exchange `buf` with a `rank` nearer to the root.
    fn up(self, b: &mut Builder, lane: Lane, buf: &Block, rank: usize) {
        self.exchange(b, lane, buf, rank, false, &Flow::new(1));
    }

    /// Exchange `buf` with a `rank` farther from the root.
    fn down(self, b: &mut Builder, buf: &Block, rank: usize) {
        self.exchange(b, Lane::Local, buf, rank, true, &Flow::new(1));
    }

    /// Exchange the blocks of a row with the others in turn.
    fn row(
        self,
        b: &mut Builder,
        lane: Lane,
        row: &Blocks,
        ranks: impl Iterator<Item = usize>,
        window: usize,
    ) {
        let mut flow = Flow::new(window);
        for rank in ranks {
            let step = self.exchange(b, lane, &row.get(rank), rank, true, &flow);
            flow.push(step);
        }
    }

    /// Copy between a rank's own block and where that is in a row or a packed part of it.
    fn copy(self, b: &mut Builder, single: &Block, in_row: &Block, bytes: u64) {
        match self {
            Self::Gather => b.copy_range(single, 0, in_row, 0, bytes, &[]),
            Self::Scatter => b.copy_range(in_row, 0, single, 0, bytes, &[]),
        };
    }
}

fn build(
    site: &Site<'_>,
    direction: Direction,
    single: Option<Block>,
    row: Blocks,
    root: Root,
    even: bool,
) -> Result<Plan> {
    site.check_root(root)?;
    let mut b = site.builder();
    let window = site.tuning.window as usize;
    let row_name = match direction {
        Direction::Gather => "the receive buffer",
        Direction::Scatter => "the send buffer",
    };
    match root {
        Root::Idle => {}
        Root::Me => {
            site.check_blocks(row_name, &row, site.remote_size)?;
            direction.row(&mut b, Lane::Remote, &row, 0..site.remote_size, window);
        }
        Root::Rank(root) if site.inter() => {
            site.check_in_place(&single)?;
            let single = single.unwrap_or_else(Block::none);
            direction.up(&mut b, Lane::Remote, &single, root);
        }
        Root::Rank(root) => {
            if b.rank == root {
                site.check_blocks(row_name, &row, site.size)?;
            } else if single.is_none() {
                return fail!(ERR_BUFFER: "MPI_IN_PLACE at rank {}: allowed at the root, rank {root}", b.rank);
            }
            let bytes = single
                .as_ref()
                .map_or_else(|| row.get(root).bytes(), Block::bytes);
            match &row {
                Blocks::Even(first) if even && by_tree(site.tuning, direction, bytes, b.size) => {
                    binomial(&mut b, direction, single.as_ref(), first, bytes, root);
                }
                _ => linear(&mut b, direction, window, single.as_ref(), &row, root),
            }
        }
    }
    Ok(b.finish())
}

fn by_tree(tuning: &Tuning, direction: Direction, bytes: u64, ranks: usize) -> bool {
    let forced = match direction {
        Direction::Gather => tuning.gather,
        Direction::Scatter => tuning.scatter,
    };
    match forced {
        0 => ranks > 3 && bytes <= tuning.gather_tree_max,
        forced => forced == 1,
    }
}

/// The root straight to every rank: part of `MPI_Reduce_scatter`.
pub(super) fn scatter_linear(b: &mut Builder, window: usize, send: &Blocks, recv: &Block, root: usize) {
    linear(b, Direction::Scatter, window, Some(recv), send, root);
}

/// Between the root and every rank directly.
fn linear(
    b: &mut Builder,
    direction: Direction,
    window: usize,
    single: Option<&Block>,
    row: &Blocks,
    root: usize,
) {
    if b.rank != root {
        if let Some(single) = single {
            direction.up(b, Lane::Local, single, root);
        }
        return;
    }
    let others = (0..b.size).filter(|&rank| rank != root);
    direction.row(b, Lane::Local, row, others, window);
    if let Some(single) = single {
        direction.copy(b, single, &row.get(root), single.bytes());
    }
}

/// Along a binomial tree over ranks relative to the root; the blocks of a subtree go at once.
fn binomial(
    b: &mut Builder,
    direction: Direction,
    single: Option<&Block>,
    row: &Block,
    bytes: u64,
    root: usize,
) {
    let p = b.size;
    let me = (b.rank + p - root) % p;
    let at = |v: usize| (v + root) % p;
    let (parent, children) = bcast::tree(me, p);
    let width = |v: usize| (v & v.wrapping_neg()).min(p - v);
    let Some(parent) = parent else {
        for child in children {
            let (rank, n) = (at(child), width(child));
            if rank + n <= p {
                direction.down(b, &row.nths(rank, n), rank);
                continue;
            }
            // The subtree goes past the last rank and on at rank 0.
            let packed = b.temp_bytes(bytes * n as u64);
            let head = (p - rank) as u64 * bytes;
            let rest = bytes * n as u64 - head;
            let (first, second) = (row.nths(rank, p - rank), row.nths(0, rank + n - p));
            match direction {
                Direction::Gather => {
                    let got = b.recv(&packed, rank, &[]);
                    b.copy_range(&packed, 0, &first, 0, head, &[got.done()]);
                    b.copy_range(&packed, head, &second, 0, rest, &[got.done()]);
                }
                Direction::Scatter => {
                    let one = b.copy_range(&first, 0, &packed, 0, head, &[]);
                    let two = b.copy_range(&second, 0, &packed, head, rest, &[]);
                    b.send(&packed, rank, &[one.done(), two.done()]);
                }
            }
        }
        if let Some(single) = single {
            direction.copy(b, single, &row.nth(root), bytes);
        }
        return;
    };
    let Some(single) = single else { return };
    if children.is_empty() {
        direction.up(b, Lane::Local, single, at(parent));
        return;
    }
    let packed = b.temp_bytes(bytes * width(me) as u64);
    if direction == Direction::Scatter {
        direction.up(b, Lane::Local, &packed, at(parent));
        b.round();
    }
    for child in children {
        let first = (child - me) as u64 * bytes;
        let part = packed.part(first, width(child) as u64 * bytes);
        direction.down(b, &part, at(child));
    }
    direction.copy(b, single, &packed, bytes);
    if direction == Direction::Gather {
        b.round();
        direction.up(b, Lane::Local, &packed, at(parent));
    }
}
