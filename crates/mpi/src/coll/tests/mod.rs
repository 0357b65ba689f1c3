//! Every collective, every algorithm, over a network in one thread: messages are delayed and reordered by a
//! seed, and results compared with what a serial program computes.
#![allow(unsafe_code)]
// Ranks are numbers here, and memory is looked up by them.
#![allow(clippy::needless_range_loop)]

mod data;
mod errors;
mod hosts;
mod inter;
mod movement;
mod neighbors;
mod net;
mod reductions;

use super::{Hosts, Plan, Pool, Schedule, Site, Tuning};
use data::Mem;
use net::{Net, Port, Rng};
use std::rc::Rc;

/// Numbers of ranks tried.
const SIZES: [usize; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17];

/// Small pieces and windows, so that few bytes take every path of a pipelined algorithm.
fn tight(seed: u64) -> Tuning {
    let mut rng = Rng::new(seed);
    Tuning {
        chunk: [16, 40, 64, 1 << 20][rng.below(4)],
        pipeline: [16, 40, 64, 1 << 20][rng.below(4)],
        window: [1, 2, 5, 32][rng.below(4)],
        reduce_hosts_min: [0, 100, 1 << 20][rng.below(3)],
        ..Tuning::default()
    }
}

/// A communicator: ranks of the first group, and of the second one if it is an intercommunicator.
#[derive(Clone, Copy, Debug)]
struct Comm {
    sizes: [usize; 2],
    seed: u64,
    placing: Placing,
}

/// Where ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placing {
    /// On one host.
    Together,
    /// So many in a row on each host, the last host with what is left.
    Rows(usize),
    /// Dealt to so many hosts.
    Dealt(usize),
    /// On so many hosts by chance.
    Chance(usize),
}

impl Placing {
    /// One of all kinds.
    fn pick(rng: &mut Rng) -> Self {
        let n = 1 + rng.below(4);
        [Self::Together, Self::Rows(n), Self::Dealt(n), Self::Chance(n)][rng.below(4)]
    }

    fn of(self, size: usize, seed: u64) -> Vec<u32> {
        let mut rng = Rng::new(seed);
        let host = |rank| match self {
            Self::Together => 0,
            Self::Rows(n) => rank / n,
            Self::Dealt(n) => rank % n,
            Self::Chance(n) => rng.below(n),
        };
        (0..size).map(host).map(|host| host as u32).collect()
    }
}

impl Comm {
    fn intra(size: usize, seed: u64) -> Self {
        Self {
            sizes: [size, 0],
            seed,
            placing: Placing::pick(&mut Rng::new(seed ^ 0x9105)),
        }
    }

    fn on(self, placing: Placing) -> Self {
        Self { placing, ..self }
    }

    fn hosts(self, group: usize) -> Option<Rc<Hosts>> {
        Hosts::of(self.placing.of(self.sizes[group], self.seed)).map(Rc::new)
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
            hosts: self.hosts(group),
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
