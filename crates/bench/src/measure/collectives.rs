//! Collectives: the time of one call, averaged over back-to-back calls, of the slowest rank, and the bandwidth as the Sun Fire Link
//! paper has it for its figure 7 and Table 2: the throughput seen by the root, or by any one process where there is none.
//!
//! | Operation | Bytes that are divided by the time |
//! |---|---|
//! | gather(v), scatter(v), allgather(v), alltoall(v) | (P - 1) blocks: what the root, or each process, gets from the others or gives them |
//! | bcast, reduce, allreduce, scan | the vector |
//! | reduce_scatter | the vector, which is P blocks |
//! | barrier | none |
//!
//! Reductions add doubles.

use super::{Plan, Point, fill, trials, verify};
use crate::abi::{BenchError, Mpi, Parts, Result};
use std::cell::RefCell;
use strum::VariantArray;

/// A collective operation that can be measured, in the order in which they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray, strum::IntoStaticStr, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Op {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Scan,
    ReduceScatter,
    ReduceScatterBlock,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
}

impl Op {
    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The operation called `name`.
    pub fn parse(name: &str) -> Result<Op> {
        name.parse().map_err(|_| {
            let known: Vec<_> = Op::VARIANTS.iter().map(|op| op.name()).collect();
            usage!("operation \"{name}\": allowed are {}", known.join(", "))
        })
    }

    /// Whether it adds doubles, so that sizes are rounded up to whole ones.
    fn adds(self) -> bool {
        matches!(self, Op::Reduce | Op::Allreduce | Op::Scan) || self.scatters_sums()
    }

    fn scatters_sums(self) -> bool {
        matches!(self, Op::ReduceScatter | Op::ReduceScatterBlock)
    }

    /// Bytes that one process sees moved by a call with blocks, or a vector, of `bytes` among `ranks`: what bandwidths are of.
    pub fn moved(self, bytes: usize, ranks: usize) -> usize {
        match self {
            Op::Barrier => 0,
            Op::Bcast | Op::Reduce | Op::Allreduce | Op::Scan => bytes,
            Op::ReduceScatter | Op::ReduceScatterBlock => bytes * ranks,
            _ => bytes * (ranks - 1),
        }
    }

    /// The one without counts, which has the same result.
    fn plain(self) -> Op {
        match self {
            Op::Gatherv => Op::Gather,
            Op::Scatterv => Op::Scatter,
            Op::Allgatherv => Op::Allgather,
            Op::Alltoallv => Op::Alltoall,
            Op::ReduceScatterBlock => Op::ReduceScatter,
            other => other,
        }
    }
}

/// What one operation works on: one block and `ranks` blocks, as bytes and as doubles.
struct Buffers {
    one: Vec<u8>,
    all: Vec<u8>,
    all_out: Vec<u8>,
    input: Vec<f64>,
    output: Vec<f64>,
    parts: Parts,
}

impl Buffers {
    /// Memory for `op` with blocks of `bytes`, filled with what this rank contributes.
    fn new(mpi: &Mpi, op: Op, bytes: usize) -> Self {
        let (ranks, rank) = (mpi.size(), mpi.rank());
        let blocks = |wanted: bool| vec![0u8; if wanted { bytes * ranks } else { 0 }];
        let mut b = Self {
            one: vec![0; if op.adds() { 0 } else { bytes }],
            all: blocks(matches!(
                op.plain(),
                Op::Gather | Op::Scatter | Op::Allgather | Op::Alltoall
            )),
            all_out: blocks(op.plain() == Op::Alltoall),
            input: Vec::new(),
            output: Vec::new(),
            parts: Parts::new(ranks, if op.adds() { bytes / 8 } else { bytes }),
        };
        if op.adds() {
            let n = bytes / 8;
            let total = if op.scatters_sums() { n * ranks } else { n };
            b.input = (0..total).map(|i| ((rank + 1) * weight(i)) as f64).collect();
            b.output = vec![0.0; n];
        }
        match op.plain() {
            Op::Bcast if rank == 0 => fill(&mut b.one, 0),
            Op::Gather | Op::Allgather => fill(&mut b.one, rank),
            Op::Scatter if rank == 0 => b
                .all
                .chunks_exact_mut(bytes.max(1))
                .enumerate()
                .for_each(|(i, c)| fill(c, i)),
            Op::Alltoall => {
                let blocks = b.all_out.chunks_exact_mut(bytes.max(1));
                blocks.enumerate().for_each(|(to, c)| fill(c, rank * ranks + to));
            }
            _ => {}
        }
        b
    }

    /// Clear what the operation writes on this rank.
    fn reset(&mut self, mpi: &Mpi, op: Op) {
        self.output.fill(0.0);
        match op.plain() {
            Op::Bcast if mpi.rank() != 0 => self.one.fill(0),
            Op::Scatter => self.one.fill(0),
            Op::Gather | Op::Allgather | Op::Alltoall => self.all.fill(0),
            _ => {}
        }
    }

    /// One call.
    #[inline]
    fn call(&mut self, mpi: &Mpi, op: Op) -> Result<()> {
        match op {
            Op::Barrier => mpi.barrier(),
            Op::Bcast => mpi.bcast(&mut self.one, 0),
            Op::Reduce => mpi.reduce(&self.input, &mut self.output),
            Op::Allreduce => mpi.allreduce(&self.input, &mut self.output),
            Op::Scan => mpi.scan(&self.input, &mut self.output),
            Op::ReduceScatter => mpi.reduce_scatter(&self.input, &mut self.output, &self.parts),
            Op::ReduceScatterBlock => mpi.reduce_scatter_block(&self.input, &mut self.output),
            Op::Gatherv => mpi.gatherv(&self.one, &mut self.all, &self.parts),
            Op::Scatterv => mpi.scatterv(&self.all, &mut self.one, &self.parts),
            Op::Allgatherv => mpi.allgatherv(&self.one, &mut self.all, &self.parts),
            Op::Alltoallv => mpi.alltoallv(&self.all_out, &mut self.all, &self.parts),
            Op::Gather => mpi.gather(&self.one, &mut self.all),
            Op::Scatter => mpi.scatter(&self.all, &mut self.one),
            Op::Allgather => mpi.allgather(&self.one, &mut self.all),
            Op::Alltoall => mpi.alltoall(&self.all_out, &mut self.all),
        }
    }

    /// Check what the last call left on this rank.
    fn check(&self, mpi: &Mpi, op: Op, bytes: usize) -> Result<()> {
        let (ranks, rank) = (mpi.size(), mpi.rank());
        let what = format!("{} of {bytes} bytes on rank {rank}", op.name());
        let all = || self.all.chunks_exact(bytes.max(1)).enumerate();
        let sum = ranks * (ranks + 1) / 2;
        match op.plain() {
            Op::Barrier => Ok(()),
            Op::Bcast => verify(&self.one, 0, &what),
            Op::Gather if rank != 0 => Ok(()),
            Op::Gather | Op::Allgather => all().try_for_each(|(from, c)| verify(c, from, &what)),
            Op::Scatter => verify(&self.one, rank, &what),
            Op::Alltoall => all().try_for_each(|(from, c)| verify(c, from * ranks + rank, &what)),
            Op::Reduce if rank != 0 => Ok(()),
            Op::Reduce | Op::Allreduce => self.sums(&what, 0, sum),
            Op::Scan => self.sums(&what, 0, (rank + 1) * (rank + 2) / 2),
            Op::ReduceScatter => self.sums(&what, rank * self.output.len(), sum),
            _ => unreachable!("a plain operation"),
        }
    }

    /// Small integers add exactly, whatever the order.
    fn sums(&self, what: &str, first: usize, factor: usize) -> Result<()> {
        for (i, got) in self.output.iter().enumerate() {
            let sent = (factor * weight(first + i)) as f64;
            if *got != sent {
                let byte = got
                    .to_ne_bytes()
                    .iter()
                    .zip(sent.to_ne_bytes())
                    .position(|(a, b)| *a != b)
                    .unwrap_or(0);
                return Err(BenchError::Corrupt {
                    what: format!("{what}, element {i} is {got} and must be {sent}"),
                    at: 8 * i + byte,
                    len: 8 * self.output.len(),
                    got: got.to_ne_bytes()[byte],
                    sent: sent.to_ne_bytes()[byte],
                });
            }
        }
        Ok(())
    }
}

fn weight(i: usize) -> usize {
    i % 7 + 1
}

/// Measure every operation of `ops` at every size of the plan (a barrier has none).
pub fn run(mpi: &Mpi, plan: &Plan, ops: &[Op], mut done: impl FnMut(&Point)) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for &op in ops {
        let mut sizes = if op == Op::Barrier {
            vec![0]
        } else {
            plan.sizes.clone()
        };
        if op.adds() {
            sizes.iter_mut().for_each(|s| *s = s.next_multiple_of(8));
            sizes.dedup();
        }
        for bytes in sizes {
            let buffers = RefCell::new(Buffers::new(mpi, op, bytes));
            let reset = || {
                buffers.borrow_mut().reset(mpi, op);
                Ok(())
            };
            let measured = trials(mpi, plan, true, reset, |n| {
                let mut buffers = buffers.borrow_mut();
                (0..n).try_for_each(|_| buffers.call(mpi, op))
            })?;
            buffers.borrow().check(mpi, op, bytes)?;
            let point = plan.point(op.name(), bytes, measured, op.moved(bytes, mpi.size()));
            done(&point);
            points.push(point);
        }
    }
    Ok(points)
}

/// How many points [`run`] will make, for a progress bar.
pub fn points(plan: &Plan, ops: &[Op]) -> usize {
    ops.iter()
        .map(|op| if *op == Op::Barrier { 1 } else { plan.sizes.len() })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_of_what_one_process_sees() {
        let moved = |op: Op| op.moved(1000, 16);
        for op in [
            Op::Gather,
            Op::Gatherv,
            Op::Scatter,
            Op::Scatterv,
            Op::Allgather,
            Op::Allgatherv,
            Op::Alltoall,
            Op::Alltoallv,
        ] {
            assert_eq!(moved(op), 15_000, "{op:?}");
        }
        for op in [Op::Bcast, Op::Reduce, Op::Allreduce, Op::Scan] {
            assert_eq!(moved(op), 1000, "{op:?}");
        }
        assert_eq!((moved(Op::ReduceScatter), moved(Op::Barrier)), (16_000, 0));
    }

    #[test]
    fn the_thirteen_of_the_paper_are_there() {
        let table = "gather gatherv scatter scatterv bcast allgather allgatherv alltoall alltoallv reduce reduce_scatter allreduce scan";
        assert!(table.split(' ').all(|name| Op::parse(name).is_ok()));
    }

    #[test]
    fn names_parse_back_and_unknown_ones_list_the_known() {
        for &op in Op::VARIANTS {
            assert_eq!(Op::parse(op.name()).unwrap(), op);
        }
        let err = Op::parse("allsum").unwrap_err().to_string();
        assert!(err.contains("\"allsum\"") && err.contains("allreduce"), "{err}");
    }
}
