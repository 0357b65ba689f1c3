//! Every collective, every algorithm, over a network in one thread: messages are delayed and reordered by a
//! seed, and results compared with what a serial program computes.
#![allow(unsafe_code)]
// Ranks are numbers here, and memory is looked up by them.
#![allow(clippy::needless_range_loop)]

mod data;
mod errors;
mod inter;
mod movement;
mod neighbors;
mod net;
mod reductions;

use super::{Plan, Pool, Schedule, Site, Tuning};
use data::Mem;
use net::{Net, Port, Rng};

/// Numbers of ranks tried.
const SIZES: [usize; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17];

/// Small pieces and windows, so that few bytes take every path of a pipelined algorithm.
fn tight(seed: u64) -> Tuning {
    let mut rng = Rng::new(seed);
    Tuning {
        chunk: [16, 40, 64, 1 << 20][rng.below(4)],
        pipeline: [16, 40, 64, 1 << 20][rng.below(4)],
        window: [1, 2, 5, 32][rng.below(4)],
        ..Tuning::default()
    }
}

/// A communicator: ranks of the first group, and of the second one if it is an intercommunicator.
#[derive(Clone, Copy, Debug)]
struct Comm {
    sizes: [usize; 2],
    seed: u64,
}

impl Comm {
    fn intra(size: usize, seed: u64) -> Self {
        Self {
            sizes: [size, 0],
            seed,
        }
    }

    /// All (group, rank).
    fn ports(self) -> impl Iterator<Item = (usize, usize)> {
        (0..2).flat_map(move |g| (0..self.sizes[g]).map(move |r| (g, r)))
    }

    fn site<'a>(self, group: usize, rank: usize, tuning: &'a Tuning, pool: &'a Pool) -> Site<'a> {
        Site {
            rank,
            size: self.sizes[group],
            remote_size: self.sizes[1 - group],
            tuning,
            pool,
        }
    }

    /// Run the plan of every rank, twice as a persistent collective is; `fill` sets the buffers before each
    /// run, `check` looks at them after it.
    fn run(
        self,
        plans: Vec<Plan>,
        mems: &mut [Vec<Mem>],
        fill: impl Fn(&mut [Vec<Mem>]),
        check: impl Fn(&[Vec<Mem>]),
    ) {
        let mut schedules: Vec<_> = plans.into_iter().map(|plan| Schedule::new(plan, 7)).collect();
        for round in 0..2 {
            fill(mems);
            if round > 0 {
                schedules.iter_mut().for_each(Schedule::reset);
            }
            let net = Net::new(self.sizes, self.seed + round);
            net.run(
                &mut schedules,
                self.ports().map(|(g, r)| Port::new(&net, g, r)).collect(),
            );
            check(mems);
            for mem in mems.iter().flatten() {
                mem.check_gaps();
            }
        }
    }
}
