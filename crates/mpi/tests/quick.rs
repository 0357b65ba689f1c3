//! Collectives without a plan, drawn from seeds: on the lines of a board, of a board of each host, and in each other's
//! memory.
//!
//! Requirements of MPI-5.0 sections 6.4, 6.9.1, 6.9.6.

mod common;
#[path = "common/hosts.rs"]
mod hosts;

use farpost_fabric::Fabric;
use farpost_mpi::buffer::RecvBuf;
use farpost_mpi::coll::Block;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::world::board::BYTES;
use farpost_mpi::world::by_host::FAR_BYTES;
use farpost_mpi::world::{World, WorldConfig};
use std::rc::Rc;

const INT64: usize = 0x258;
const SUM: usize = 0x21;
/// Least bytes of a vector that ranks reduce in each other's memory.
const LARGE: usize = 4096;

/// Elements of two words, `stride` words apart.
#[derive(Clone)]
struct Pairs {
    stride: usize,
    data: Vec<i64>,
}

impl Pairs {
    /// What `rank` has in a round.
    fn of(seed: u64, rank: usize, count: usize, stride: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ (rank as u64 + 1) << 32);
        let data = (0..count * stride).map(|_| rng.i64(..)).collect();
        Self { stride, data }
    }

    fn block(&mut self) -> Block {
        let pair = Datatype::contiguous(2, &Datatype::predefined(INT64).unwrap()).unwrap();
        let ty = Datatype::resized(&pair, 0, self.stride as i64 * 8).unwrap();
        let count = (self.data.len() / self.stride) as u64;
        // SAFETY: the data lives until the collective has ended, and is not used meanwhile.
        unsafe { RecvBuf::new(self.data.as_mut_ptr().cast(), count, ty) }.into()
    }

    /// The words of the elements, without those between.
    fn pairs(&self) -> Vec<[i64; 2]> {
        self.data
            .chunks(self.stride)
            .map(|pair| [pair[0], pair[1]])
            .collect()
    }
}

/// `x -> a x + b` after another such function: associative, and it does not commute.
fn compose(low: [i64; 2], high: [i64; 2]) -> [i64; 2] {
    let b = low[1].wrapping_mul(high[0]).wrapping_add(high[1]);
    [low[0].wrapping_mul(high[0]), b]
}

fn composition() -> Op {
    let function = |low: *const u8, high: *mut u8, count: u64, ty: &Datatype| {
        // MPI-5.0 section 6.9.5: the function gets elements as the datatype lays them out; a compiler may take them to
        // be aligned as any type is.
        assert_eq!((low.addr() % 16, high.addr() % 16), (0, 0));
        for i in 0..count as usize {
            let at = i * ty.extent() as usize;
            // SAFETY: `count` elements are there, by the contract of a user's function.
            unsafe {
                let low = low.wrapping_add(at).cast::<[i64; 2]>().read();
                let high = high.wrapping_add(at).cast::<[i64; 2]>();
                high.write(compose(low, high.read()));
            }
        }
    };
    Op::user(Rc::new(function), false)
}

/// Rounds on MPI_COMM_WORLD. `in_order`: ranks of a host follow each other. `most`: bytes that fit.
fn rounds<F: Fabric>(world: &World<F>, seed: u64, in_order: bool, most: usize) {
    let comm = world.comm_world();
    let (me, size) = (comm.rank as usize, comm.size() as usize);
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..60 {
        let seed = rng.u64(..);
        let (count, stride) = (rng.usize(1..6), rng.usize(2..5));
        let mut mine = Pairs::of(seed, me, count, stride);
        let before = mine.clone();
        let fits = count * 16 <= most;
        let case = format!("seed {seed}, round {round}: {count} elements, {stride} words apart");
        match rng.usize(0..3) {
            0 => assert!(world.quick_barrier(comm).unwrap(), "{case}"),
            1 => {
                let root = rng.usize(0..size);
                let done = world.quick_bcast(comm, &mine.block(), root as i32).unwrap();
                assert_eq!(done, fits, "{case}");
                let from = if done { root } else { me };
                let wanted = Pairs::of(seed, from, count, stride).pairs();
                assert_eq!(mine.pairs(), wanted, "{case}, from {root}");
            }
            _ => {
                // Each rank for itself: in place or not.
                let in_place = fastrand::Rng::with_seed(seed + me as u64).bool();
                let mut result = if in_place {
                    mine.clone()
                } else {
                    Pairs::of(!seed, me, count, stride)
                };
                let untouched = result.clone();
                let send = (!in_place).then(|| mine.block());
                let recv = result.block();
                let done = world
                    .quick_allreduce(comm, send.as_ref(), &recv, &composition())
                    .unwrap();
                assert_eq!(done, fits && in_order, "{case}");
                assert_eq!(mine.data, before.data, "{case}");
                if !done {
                    assert_eq!(result.data, untouched.data, "{case}");
                    continue;
                }
                let of = |rank| Pairs::of(seed, rank, count, stride).pairs();
                let wanted = (1..size).fold(of(0), |low, rank| {
                    low.into_iter()
                        .zip(of(rank))
                        .map(|(low, high)| compose(low, high))
                        .collect()
                });
                assert_eq!(result.pairs(), wanted, "{case}");
                for (is, was) in result.data.chunks(stride).zip(untouched.data.chunks(stride)) {
                    assert_eq!(is[2..], was[2..], "{case}: what lies between elements");
                }
            }
        }
    }
}

#[test]
fn ranks_of_one_host() {
    for (seed, size) in (0..8).zip((2..6).cycle()) {
        common::run(size, WorldConfig::default(), |world| {
            rounds(world, seed, true, BYTES)
        });
    }
}

#[test]
fn ranks_of_several_hosts() {
    for (seed, (in_order, host_of)) in (0..8).zip(
        [
            (true, &[0, 0, 1][..]),
            (false, &[0, 1, 0, 2, 1]),
            (true, &[0, 1, 1, 1, 2]),
        ]
        .into_iter()
        .cycle(),
    ) {
        hosts::run(host_of, |world| rounds(world, seed, in_order, FAR_BYTES));
    }
}

#[test]
fn large_vectors_are_reduced_where_they_are() {
    let sum = || Op::predefined(SUM).unwrap();
    for (seed, size) in (0..8).zip((2..6).cycle()) {
        let mut config = WorldConfig::default();
        config.tuning.allreduce_peer_min = LARGE as u64;
        config.tuning.allreduce_peer_chunk = LARGE as u64;
        common::run(size, config, |world| {
            let comm = world.comm_world();
            // Memory of a process that has yet to begin cannot be read.
            assert!(world.quick_barrier(comm).unwrap());
            let mut rng = fastrand::Rng::with_seed(seed);
            for round in 0..12 {
                let words = rng.usize(LARGE / 8 - 2..LARGE);
                let value = |rank: usize, i: usize| (rank as i64 + 2) * (i as i64 + round);
                let me = comm.rank as usize;
                let mut data: Vec<i64> = (0..words).map(|i| value(me, i)).collect();
                let mut result = vec![-1; words];
                let block = |data: &mut Vec<i64>| {
                    let ty = Datatype::predefined(INT64).unwrap();
                    // SAFETY: the data lives until the collective has ended, and is not used meanwhile.
                    Block::from(unsafe { RecvBuf::new(data.as_mut_ptr().cast(), words as u64, ty) })
                };
                let in_place = fastrand::Rng::with_seed(seed + round as u64 * 9 + me as u64).bool();
                let done = if in_place {
                    result.clone_from(&data);
                    world.quick_allreduce(comm, None, &block(&mut result), &sum())
                } else {
                    world.quick_allreduce(comm, Some(&block(&mut data)), &block(&mut result), &sum())
                };
                let large = words * 8 >= LARGE;
                assert_eq!(done.unwrap(), large && world.reads_all(comm));
                if large && world.reads_all(comm) {
                    let all = |i| (0..size as usize).map(|rank| value(rank, i)).sum::<i64>();
                    let wrong = (0..words).find(|&i| result[i] != all(i));
                    assert_eq!(wrong, None, "seed {seed}, round {round}: {words} words");
                }
                // Operations that do not commute are not for this way, and all ranks say so.
                if large {
                    let done = world.quick_allreduce(comm, None, &block(&mut result), &composition());
                    assert!(!done.unwrap());
                }
            }
        });
    }
}
