//! Collectives over the engine and shared memory: every algorithm, messages short enough for one line and
//! long enough for the rendezvous.
//!
//! Requirements of MPI-5.0 section 6.12.

mod common;

use common::{ShmWorld, run};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::coll::{self, Block, Blocks, Plan, Root, Site, Tuning};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::world::WorldConfig;

const COUNTS: [usize; 4] = [0, 1, 700, 60_000];

fn word() -> Datatype {
    Datatype::predefined(0x258).unwrap()
}

fn input(data: &[i64]) -> Block {
    // SAFETY: tests wait for the collective before the data goes.
    unsafe { SendBuf::new(data.as_ptr().cast(), data.len() as u64, word()) }.into()
}

fn output(data: &mut [i64]) -> Block {
    // SAFETY: as above.
    unsafe { RecvBuf::new(data.as_mut_ptr().cast(), data.len() as u64, word()) }.into()
}

fn value(rank: usize, i: usize) -> i64 {
    (rank * 1_000_003 + i * 7 + (i >> 9)) as i64
}

fn data_of(rank: usize, n: usize) -> Vec<i64> {
    (0..n).map(|i| value(rank, i)).collect()
}

fn sum(ranks: usize, i: usize) -> i64 {
    (0..ranks).map(|r| value(r, i)).sum()
}

/// A communicator's ranks, and a way to run collectives on it.
struct Rank<'a> {
    world: &'a ShmWorld,
    me: usize,
    p: usize,
}

impl Rank<'_> {
    fn site(&self) -> Site<'_> {
        self.world.site(self.world.comm_world())
    }

    fn go(&self, plan: farpost_mpi::Result<Plan>) {
        self.world
            .run_collective(self.world.comm_world(), plan.unwrap())
            .unwrap();
    }
}

fn each(sizes: &[u32], tuning: Tuning, body: impl Fn(&Rank<'_>, usize) + Sync) {
    for &size in sizes {
        let config = WorldConfig {
            tuning: tuning.clone(),
            ..Default::default()
        };
        run(size, config, |world| {
            let rank = Rank {
                world,
                me: world.pid() as usize,
                p: size as usize,
            };
            for n in COUNTS {
                body(&rank, n);
            }
        });
    }
}

#[test]
fn data_moves_by_every_algorithm() {
    for algorithm in 0..=3 {
        let tuning = Tuning {
            bcast: algorithm,
            allgather: algorithm,
            alltoall: algorithm.min(2),
            gather: algorithm.min(2),
            scatter: algorithm.min(2),
            ..Tuning::default()
        };
        each(&[1, 2, 3, 5], tuning, |rank, n| {
            let (me, p) = (rank.me, rank.p);
            let root = p - 1;
            let mut buf = if me == root { data_of(me, n) } else { vec![-1; n] };
            rank.go(coll::bcast(&rank.site(), output(&mut buf), Root::Rank(root)));
            assert!(buf == data_of(root, n), "bcast of {n}");

            rank.go(coll::barrier(&rank.site()));

            let mine = data_of(me, n);
            let mut all = vec![-1; n * p];
            let expected: Vec<i64> = (0..p).flat_map(|r| data_of(r, n)).collect();
            let first = output(&mut all).with_count(n as u64);
            rank.go(coll::allgather(&rank.site(), Some(input(&mine)), first.clone()));
            assert!(all == expected, "allgather of {n}");
            all.fill(-1);
            let at_root = if me == root { first.clone() } else { Block::none() };
            rank.go(coll::gather(
                &rank.site(),
                Some(input(&mine)),
                at_root.clone(),
                Root::Rank(root),
            ));
            assert!(me != root || all == expected, "gather of {n}");
            let mut part = vec![-1; n];
            rank.go(coll::scatter(
                &rank.site(),
                at_root,
                Some(output(&mut part)),
                Root::Rank(root),
            ));
            assert!(part == data_of(me, n), "scatter of {n}");

            let out: Vec<i64> = (0..p * n).map(|i| value(me, i)).collect();
            rank.go(coll::alltoall(
                &rank.site(),
                Some(input(&out).with_count(n as u64)),
                first,
            ));
            for (i, got) in all.iter().enumerate() {
                assert_eq!(*got, value(i / n, me * n + i % n), "alltoall of {n}");
            }
        });
    }
}

#[test]
fn reductions_by_every_algorithm() {
    for algorithm in 0..=4 {
        let tuning = Tuning {
            allreduce: algorithm,
            reduce: algorithm.min(2),
            reduce_scatter: algorithm.min(2),
            scan: algorithm.min(2),
            ..Tuning::default()
        };
        each(&[1, 2, 3, 5], tuning, |rank, n| {
            let (me, p) = (rank.me, rank.p);
            let mine = data_of(me, n);
            let expected: Vec<i64> = (0..n).map(|i| sum(p, i)).collect();
            let mut got = vec![-1; n];
            rank.go(coll::allreduce(
                &rank.site(),
                Some(input(&mine)),
                output(&mut got),
                &Op::SUM,
            ));
            assert!(got == expected, "allreduce of {n}");
            got = mine.clone();
            rank.go(coll::allreduce(&rank.site(), None, output(&mut got), &Op::SUM));
            assert!(got == expected, "allreduce of {n} in place");

            got.fill(-1);
            rank.go(coll::reduce(
                &rank.site(),
                Some(input(&mine)),
                output(&mut got),
                &Op::SUM,
                Root::Rank(0),
            ));
            assert!(me != 0 || got == expected, "reduce of {n}");

            rank.go(coll::scan(
                &rank.site(),
                Some(input(&mine)),
                output(&mut got),
                &Op::SUM,
            ));
            assert!((0..n).all(|i| got[i] == sum(me + 1, i)), "scan of {n}");
            rank.go(coll::exscan(
                &rank.site(),
                Some(input(&mine)),
                output(&mut got),
                &Op::SUM,
            ));
            assert!(me == 0 || (0..n).all(|i| got[i] == sum(me, i)), "exscan of {n}");

            let counts: Vec<u64> = (0..p).map(|r| ((n * (r + 1)) / p - (n * r) / p) as u64).collect();
            let first = counts[..me].iter().sum::<u64>() as usize;
            let mut part = vec![-1; counts[me] as usize];
            rank.go(coll::reduce_scatter(
                &rank.site(),
                Some(input(&mine)),
                output(&mut part),
                &counts,
                &Op::SUM,
            ));
            assert!(
                part == expected[first..first + part.len()],
                "reduce_scatter of {n}"
            );
        });
    }
}

#[test]
fn nonblocking_collectives_overlap_and_finish_in_any_order() {
    each(&[2, 4], Tuning::default(), |rank, n| {
        let (me, p, world) = (rank.me, rank.p, rank.world);
        let comm = world.comm_world();
        let mine: Vec<Vec<i64>> = (0..6).map(|k| data_of(me + k, n)).collect();
        let mut sums = vec![vec![-1; n]; 6];
        let mut all = vec![-1; n * p];
        let mut requests: Vec<usize> = Vec::new();
        for (mine, sum) in mine.iter().zip(&mut sums) {
            let plan = coll::allreduce(&rank.site(), Some(input(mine)), output(sum), &Op::SUM).unwrap();
            requests.push(world.start_collective(comm, plan).unwrap());
        }
        let blocks = Blocks::Even(output(&mut all).with_count(n as u64));
        let plan = coll::allgatherv(&rank.site(), Some(input(&mine[0])), blocks).unwrap();
        requests.push(world.start_collective(comm, plan).unwrap());
        // Every rank waits in another order.
        requests.rotate_left(me % 7);
        for request in requests.into_iter().rev() {
            assert_eq!(world.wait(request).unwrap().error, None);
        }
        for (k, got) in sums.iter().enumerate() {
            let expected = |i| (0..p).map(|r| value(r + k, i)).sum::<i64>();
            assert!((0..n).all(|i| got[i] == expected(i)), "allreduce {k} of {n}");
        }
        assert!(all == (0..p).flat_map(|r| data_of(r, n)).collect::<Vec<_>>());
    });
}
