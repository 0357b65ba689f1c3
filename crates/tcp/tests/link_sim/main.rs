//! Two links over simulated rails that have latency and bandwidth, cut writes short, break, fall silent and return.
//! Everything follows from a seed; a seed that fails is printed, and FARPOST_SIM_SEED=<seed> runs it alone.
//! FARPOST_SIM_SEEDS=<count> runs more or fewer of them.

mod node;
mod wire;

use farpost_tcp::link::{LinkConfig, LinkTunables, RailState};
use fastrand::Rng;
use node::Node;
use wire::{MS, Rail, US};

const BOUND: u64 = 1000 * MS;

/// What happens to a rail.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Nothing passes, and nobody is told: in both directions, or from one end only.
    Silent([bool; 2]),
    /// All under way is lost and both ends are told; connecting fails for the duration.
    Cut,
    /// As a cut, but this end is told nothing.
    HalfCut(usize),
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    at: u64,
    rail: usize,
    until: u64,
    fault: Fault,
}

struct World {
    now: u64,
    rails: Vec<Rail>,
    nodes: [Node; 2],
    /// Not begun, in the order of time; then those under way.
    planned: Vec<Planned>,
    under_way: Vec<Planned>,
}

fn config(rails: usize, reports: bool) -> LinkConfig {
    LinkConfig {
        rails,
        connect: 30_000 * MS,
        reports,
        tunables: LinkTunables::default(),
        spare: Default::default(),
    }
}

impl World {
    fn new(seed: u64, rails: Vec<Rail>, reports: bool, memory: (usize, usize, usize)) -> Self {
        let count = rails.len();
        Self {
            now: 0,
            nodes: [0, 1].map(|end| Node::new(end, config(count, reports), seed, memory)),
            rails,
            planned: Vec::new(),
            under_way: Vec::new(),
        }
    }

    fn awake(&self, end: usize) -> bool {
        self.nodes[end].asleep_until <= self.now
    }

    fn begin(&mut self, p: Planned) {
        let rail = &mut self.rails[p.rail];
        match p.fault {
            Fault::Silent(ends) => rail.silent = ends,
            Fault::Cut | Fault::HalfCut(_) => {
                rail.cut = true;
                rail.dialled = None;
                for end in 0..2 {
                    if !matches!(p.fault, Fault::HalfCut(e) if e == end) {
                        rail.close(end);
                        self.nodes[end].down(p.rail, self.now);
                    }
                }
            }
        }
        self.under_way.push(p);
    }

    /// One moment: what arrives, what both ends do about it. Then on to the next moment, `limit` at the latest.
    fn step(&mut self, limit: u64) {
        let now = self.now;
        while self.planned.first().is_some_and(|p| p.at <= now) {
            let p = self.planned.remove(0);
            self.begin(p);
        }
        let rails = &mut self.rails;
        self.under_way.retain(|p| {
            if p.until <= now {
                rails[p.rail].heal(now);
            }
            p.until > now
        });
        for number in 0..self.rails.len() {
            let both_awake = self.awake(0) && self.awake(1);
            let rail = &mut self.rails[number];
            rail.carry(now);
            if rail.broken && rail.passes() {
                // What the one that still has a socket sends is answered by a reset.
                for end in 0..2 {
                    if std::mem::take(&mut rail.connected[end]) {
                        self.nodes[end].down(number, now);
                    }
                }
            }
            if rail.dialled.is_some_and(|at| at <= now) {
                if !rail.passes() {
                    rail.dialled = None;
                } else if both_awake {
                    rail.connect();
                    for node in &mut self.nodes {
                        node.up(number, now);
                    }
                } else {
                    // The host answers, the process does not.
                    rail.dialled = Some(now + 10 * MS);
                    for node in self.nodes.iter_mut().filter(|n| n.asleep_until <= now) {
                        node.link.on_rail_alive(number, now);
                    }
                }
            }
        }
        for end in 0..2 {
            if self.awake(end) {
                self.nodes[end].drive(&mut self.rails, now);
            }
        }
        let mut next = limit;
        for rail in &self.rails {
            next = next
                .min(rail.next_arrival())
                .min(rail.dialled.unwrap_or(u64::MAX));
        }
        for p in &self.under_way {
            next = next.min(p.until);
        }
        if let Some(p) = self.planned.first() {
            next = next.min(p.at);
        }
        for node in &self.nodes {
            let wakes = if node.asleep_until > now {
                node.asleep_until
            } else {
                node.link.next_deadline()
            };
            if node.lost.is_none() {
                next = next.min(wakes);
            }
        }
        self.now = next.max(now + 1);
    }

    fn run_until(&mut self, time: u64) {
        while self.now < time {
            self.step(time);
        }
    }
}

/// Run `test` with many seeds, or with the one that the environment names.
fn seeds(count: u64, test: impl Fn(u64) + std::panic::RefUnwindSafe) {
    if let Ok(seed) = std::env::var("FARPOST_SIM_SEED") {
        return test(seed.parse().expect("FARPOST_SIM_SEED is a number"));
    }
    let count = match std::env::var("FARPOST_SIM_SEEDS") {
        Ok(more) => more.parse().expect("FARPOST_SIM_SEEDS is a number"),
        Err(_) => count,
    };
    for seed in 0..count {
        if let Err(panic) = std::panic::catch_unwind(|| test(seed)) {
            eprintln!("failed with FARPOST_SIM_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn random_rail(rng: &mut Rng) -> Rail {
    Rail::new(
        rng.u64(5 * US..2 * MS),
        rng.u64(10 << 20..2 << 30),
        rng.u64(4096..2 << 20),
    )
}

/// Faults such that one rail always works, or, with a single one, none lasts long.
fn plan(rng: &mut Rng, rails: usize, end: u64) -> Vec<Planned> {
    let mut planned = Vec::new();
    let mut at = rng.u64(0..200 * MS);
    while at < end {
        let fault = match rng.u32(0..6) {
            0 | 1 => Fault::Silent([true; 2]),
            2 => Fault::Silent([true, false]),
            3 => Fault::Silent([false, true]),
            4 => Fault::Cut,
            _ => Fault::HalfCut(rng.usize(0..2)),
        };
        let most = match fault {
            _ if rails > 1 => 2500 * MS,
            Fault::Silent(_) => 400 * MS,
            // Silence counts from the last answer, which is up to one ping interval old, and a connection is
            // tried every eighth of the bound.
            _ => 600 * MS,
        };
        let until = at + rng.u64(MS..most);
        planned.push(Planned {
            at,
            rail: rng.usize(0..rails),
            until,
            fault,
        });
        // Time to come back before the next one breaks.
        at = until + rng.u64(400 * MS..1200 * MS);
    }
    planned
}

fn random_traffic(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let count = rng.usize(1..4);
    let rails = (0..count).map(|_| random_rail(&mut rng)).collect();
    let naps = rng.bool();
    // Without reports a peer must answer by itself, and may not sleep.
    let reports = naps || rng.bool();
    let mut world = World::new(seed, rails, reports, (256 << 10, 4, 200 << 10));
    let ends = 4000 * MS;
    world.planned = plan(&mut rng, count, ends);
    let frames = 3000;
    let mut stop = None;
    loop {
        let now = world.now;
        for end in 0..2 {
            if !world.awake(end) {
                continue;
            }
            let node = &mut world.nodes[end];
            node.push(rng.u64(0..12).min(frames - node.pushed));
            if rng.u32(0..8) == 0 && now < ends {
                let len = if rng.bool() {
                    rng.usize(1..1000)
                } else {
                    rng.usize(1..200 << 10)
                };
                node.get(len);
            }
            if rng.u32(0..6) == 0 && now < ends {
                node.zcopy();
            }
            if naps && rng.u32(0..400) == 0 && now < ends {
                node.asleep_until = now + rng.u64(10 * MS..3000 * MS);
            }
        }
        world.run_until(now + rng.u64(100 * US..20 * MS));
        let done = (0..2).all(|end| {
            let node = &world.nodes[end];
            assert_eq!(node.lost, None, "end {end} gave up although a rail worked");
            let other = &world.nodes[1 - end];
            node.pushed == frames
                && other.delivered == frames
                && node.transfers.is_empty()
                && other.zcopy_done == node.zcopy_sent
        });
        if done && now > ends && world.planned.is_empty() && world.under_way.is_empty() {
            let stop = *stop.get_or_insert(now + 1500 * MS);
            if now > stop {
                break;
            }
        }
        assert!(
            now < 60_000 * MS,
            "no progress: {:?}",
            world
                .nodes
                .each_ref()
                .map(|n| (n.pushed, n.delivered, n.transfers.len()))
        );
    }
    for node in &world.nodes {
        assert!(node.link.drained(), "everything was acknowledged in the end");
        assert!(node.most_memory <= 2 * (16 << 20) + (1 << 20));
        assert!(node.gets_done > 0 && node.zcopy_done > 0);
        for rail in 0..count {
            assert_eq!(
                node.link.rail_state(rail),
                RailState::Up,
                "a rail that works again is used again"
            );
        }
    }
}

#[test]
fn random_traffic_survives_rails_that_break() {
    seeds(100, random_traffic);
}

/// All rails go for good: both ends say so, neither too early nor too late.
fn all_rails_go(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let count = rng.usize(1..4);
    let rails = (0..count).map(|_| random_rail(&mut rng)).collect();
    let reports = rng.bool();
    let mut world = World::new(seed, rails, reports, (64 << 10, 4, 60 << 10));
    let traffic = rng.bool();
    let first = rng.u64(100 * MS..1000 * MS);
    let mut last = 0;
    for rail in 0..count {
        let at = first + rng.u64(0..300 * MS);
        last = last.max(at);
        let fault = if rng.bool() {
            Fault::Silent([true; 2])
        } else {
            Fault::Cut
        };
        world.planned.push(Planned {
            at,
            rail,
            until: u64::MAX,
            fault,
        });
    }
    world.planned.sort_by_key(|p| p.at);
    while world.nodes.iter().any(|n| n.lost.is_none()) {
        if traffic || world.now < 50 * MS {
            for node in &mut world.nodes {
                node.push(rng.u64(0..4));
                node.get(rng.usize(1..60_000));
            }
        }
        let to = world.now + rng.u64(100 * US..20 * MS);
        world.run_until(to);
        assert!(world.now < last + 3 * BOUND, "nobody noticed");
    }
    for node in &world.nodes {
        let lost = node.lost.unwrap();
        assert!(
            lost > last + BOUND / 2,
            "given up {} ms after the last rail went",
            (lost - last) / MS
        );
        assert!(
            lost <= last + BOUND + 50 * MS,
            "given up {} ms after the last rail went",
            (lost - last) / MS
        );
    }
}

#[test]
fn a_peer_out_of_reach_is_given_up_within_the_bound() {
    seeds(150, all_rails_go);
}

/// Simulated seconds for `bytes` in transfers of `size`, `depth` at a time.
fn stream(rails: &[(u64, u64)], size: usize, depth: usize, bytes: u64) -> f64 {
    let rails = rails
        .iter()
        .map(|&(latency, bandwidth)| Rail::new(latency, bandwidth, 4 << 20))
        .collect();
    let mut world = World::new(7, rails, true, (size, depth, size));
    world.run_until(50 * MS);
    // The first transfers find out how fast the rails are.
    for _ in 0..2 * depth {
        world.nodes[0].get(size);
        world.run_until(world.now + 10 * MS);
    }
    while !world.nodes[0].transfers.is_empty() {
        world.step(u64::MAX);
    }
    let bytes = world.nodes[0].bulk_bytes + bytes;
    let start = world.now;
    while world.nodes[0].bulk_bytes < bytes {
        while world.nodes[0].get(size) {}
        world.step(u64::MAX);
        assert!(world.now < start + 600_000 * MS);
    }
    (world.now - start) as f64 / 1e9
}

const GIGABIT: u64 = 125_000_000;

#[test]
fn two_rails_of_equal_speed_carry_twice_as_much() {
    for (size, depth) in [(4 << 20, 1), (4 << 20, 2), (1 << 20, 4)] {
        let one = stream(&[(50 * US, GIGABIT)], size, depth, 32 << 20);
        let two = stream(&[(50 * US, GIGABIT), (50 * US, GIGABIT)], size, depth, 32 << 20);
        println!(
            "{depth} transfers of {size} bytes: {:.3} times one rail",
            one / two
        );
        assert!(one / two >= 1.9, "{depth} of {size}: {:.3}", one / two);
    }
}

#[test]
fn rails_of_different_speed_carry_nearly_the_sum() {
    for (size, depth) in [(4 << 20, 1), (4 << 20, 2), (1 << 20, 4)] {
        let fast = stream(&[(50 * US, 3 * GIGABIT)], size, depth, 32 << 20);
        let both = stream(
            &[(50 * US, 3 * GIGABIT), (70 * US, GIGABIT)],
            size,
            depth,
            32 << 20,
        );
        println!(
            "{depth} transfers of {size} bytes: {:.3} times the fast rail alone",
            fast / both
        );
        assert!(
            fast / both >= 4.0 / 3.0 * 0.93,
            "{depth} of {size}: {:.3}",
            fast / both
        );
    }
}

/// One of two rails falls silent, without any error, while both are busy.
#[test]
fn a_black_hole_costs_a_short_pause() {
    for ends in [[true, true], [true, false], [false, true]] {
        for rail in 0..2 {
            let rails = vec![
                Rail::new(50 * US, GIGABIT, 1 << 20),
                Rail::new(60 * US, GIGABIT, 1 << 20),
            ];
            let mut world = World::new(3, rails, true, (1 << 20, 2, 1 << 20));
            world.planned = vec![Planned {
                at: 500 * MS,
                rail,
                until: 3000 * MS,
                fault: Fault::Silent(ends),
            }];
            let mut last = (0, 0);
            let mut longest = 0;
            while world.now < 5000 * MS {
                for node in &mut world.nodes {
                    node.push(2);
                }
                world.nodes[0].get(1 << 20);
                let to = world.now + MS;
                world.run_until(to);
                let node = &world.nodes[0];
                if node.gets_done > last.0 {
                    longest = longest.max(world.now - last.1);
                    last = (node.gets_done, world.now);
                }
            }
            for node in &world.nodes {
                println!(
                    "rail {rail} silent {ends:?}: longest pause {} us, bulk {} us, {:?}",
                    node.longest_gap / US,
                    longest / US,
                    node.link.counters()
                );
                assert!(node.longest_gap <= 200 * MS);
                assert!(longest <= 200 * MS);
                assert_eq!(node.lost, None);
                assert_eq!(node.link.rail_state(rail), RailState::Up);
            }
        }
    }
}

/// A process that computes and does not look for long: nobody gives anybody up.
#[test]
fn a_process_that_does_not_look_is_not_given_up() {
    for count in 1..3 {
        let rails = (0..count)
            .map(|_| Rail::new(50 * US, GIGABIT, 64 << 10))
            .collect();
        let mut world = World::new(5, rails, true, (1 << 20, 2, 1 << 20));
        world.run_until(100 * MS);
        for node in &mut world.nodes {
            node.push(100);
            node.get(1 << 20);
        }
        world.run_until(101 * MS);
        world.nodes[1].asleep_until = world.now + 20 * BOUND;
        world.run_until(25 * BOUND);
        for node in &world.nodes {
            assert_eq!((node.lost, node.delivered, node.gets_done), (None, 100, 1));
            assert_eq!(node.link.counters().downs, 0);
        }
    }
}
