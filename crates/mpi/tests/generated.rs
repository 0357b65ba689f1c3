//! Random legal programs (`crates/generate`), over worlds in one thread: on shared memory and on the fabric without mapping, by every
//! device, with areas, pools and limits as small as they may be.
//!
//! Seeds are new with each commit: `TREE` (`scripts/tree.sh` prints it) gives the first one, `FARPOST_TEST_SEEDS` how many for each
//! kind of job. `FARPOST_TEST_SEED=N` runs that one alone. What fails is made short and printed.

mod generated {
    pub mod calls;
    pub mod memory;
    pub mod messages;
    pub mod play;
}

use farpost_channel::ChannelTunables;
use farpost_fabric::Fabric;
use farpost_fabric::inproc::{Config, Network};
use farpost_generate::{Limits, Plan, c, generate};
use farpost_mpi::carrier::{Device, DeviceConfig, DeviceTunables};
use farpost_mpi::engine::EngineTunables;
use farpost_mpi::world::{World, WorldConfig};
use farpost_shm::ShmTunables;
use farpost_shm::conformance::shm_ends;
use generated::play;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What is drawn for a job beside its program.
struct Draw {
    rng: fastrand::Rng,
    config: WorldConfig,
    device: DeviceTunables,
    network: Config,
    shm: ShmTunables,
}

fn one_of<T: Clone>(rng: &mut fastrand::Rng, list: &[T]) -> T {
    list[rng.usize(0..list.len())].clone()
}

fn draw(seed: u64) -> Draw {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let r = &mut rng;
    let mut config = WorldConfig::default();
    if r.bool() {
        config.rsm = ChannelTunables {
            slots: one_of(r, &[16, 32, 128]),
            block: one_of(r, &[1024, 4096, 8192]),
            blocks: one_of(r, &[8, 16, 128]),
        };
    }
    if r.bool() {
        let eager = one_of(r, &[0, 40, 264, 8192, 32 << 10, 1 << 20]);
        config.engine = EngineTunables {
            eager_max: eager,
            eager_far: eager,
            unexpected_bytes: one_of(r, &[4096, 50_000, 1 << 20]),
            chunk_min: 4096,
            chunk_max: one_of(r, &[4096, 100_000]),
            both_copy: r.u64(0..2),
            ..EngineTunables::default()
        };
    }
    if r.bool() {
        let tuning = &mut config.tuning;
        (tuning.bcast, tuning.allreduce, tuning.reduce) = (r.u64(0..4), r.u64(0..5), r.u64(0..3));
        (tuning.gather, tuning.scatter, tuning.allgather) = (r.u64(0..3), r.u64(0..3), r.u64(0..4));
        (tuning.alltoall, tuning.scan, tuning.window) = (r.u64(0..3), r.u64(0..3), one_of(r, &[1, 2, 32]));
    }
    // Not of `rng`, whose further numbers say in which turns things happen.
    let l = &mut fastrand::Rng::with_seed(seed ^ 0xdefe);
    let device = DeviceTunables {
        jam_local: 0,
        portals_unexpected: one_of(l, &[64 << 10, 8 << 20]),
        portals_exposed: one_of(l, &[0, 1, 3, 32 << 10]),
        portals_posted: one_of(l, &[0, 1, 2, 5, 16 << 10]),
        portals_fetches: one_of(l, &[1, 2, 4 << 10]),
        ..DeviceTunables::default()
    };
    let network = Config {
        queue_packets: one_of(r, &[1, 2, 8]),
        longest_delay: one_of(r, &[1, 12, 60]),
        largest_piece: one_of(r, &[500, 2000, 100_000]),
        bulk: r.bool(),
        ..Config::default()
    };
    let shm = ShmTunables {
        cma: r.u64(0..2),
        ..ShmTunables::default()
    };
    Draw {
        rng,
        config,
        device,
        network,
        shm,
    }
}

fn limits(ranks: usize) -> Limits {
    Limits {
        message: 150_000,
        bytes: 1 << 20,
        events: 40 / ranks as u32 + 6,
        ..Limits::of(ranks)
    }
}

/// A kind of job.
#[derive(Clone, Copy, Debug)]
enum On {
    Shm,
    InProc,
    ShmBy(Device),
    InProcBy(Device),
}

fn try_once(plan: &Plan, on: On) -> Result<(), String> {
    let Draw {
        mut rng,
        config,
        device: tunables,
        network,
        shm,
    } = draw(plan.seed);
    let size = plan.ranks as u32;
    let ends = || shm_ends(size, &shm);
    let by = |device| DeviceConfig {
        device,
        tunables: tunables.clone(),
        ..DeviceConfig::default()
    };
    match on {
        On::Shm => {
            let worlds = ends()
                .into_iter()
                .map(|end| World::new(end, config.clone()))
                .collect();
            played(worlds, plan, &|| (), &mut rng)
        }
        On::ShmBy(device) => carried(ends(), by(device), config, plan, &|| (), &mut rng),
        On::InProc | On::InProcBy(_) => {
            let ends = Network::new(size, plan.seed, network);
            let net = ends[0].network().clone();
            let step = move || _ = net.step();
            match on {
                On::InProcBy(device) => carried(ends, by(device), config, plan, &step, &mut rng),
                _ => {
                    let worlds = ends
                        .into_iter()
                        .map(|end| World::new(end, config.clone()))
                        .collect();
                    played(worlds, plan, &step, &mut rng)
                }
            }
        }
    }
}

fn carried<F: Fabric + 'static>(
    ends: Vec<F>,
    device: DeviceConfig,
    config: WorldConfig,
    plan: &Plan,
    step: &dyn Fn(),
    rng: &mut fastrand::Rng,
) -> Result<(), String> {
    let config = WorldConfig { device, ..config };
    let world = |end| World::new(end, config.clone());
    played(ends.into_iter().map(world).collect(), plan, step, rng)
}

fn played<F: Fabric + 'static>(
    worlds: Vec<World<F>>,
    plan: &Plan,
    step: &dyn Fn(),
    rng: &mut fastrand::Rng,
) -> Result<(), String> {
    play::run(worlds, plan.lower(), step, rng)
}

fn failure(plan: &Plan, on: On) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| try_once(plan, on))) {
        Ok(Ok(())) => None,
        Ok(Err(text)) => Some(text),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Some(
                text.or_else(|| panic.downcast_ref::<&str>().map(|t| t.to_string()))
                    .unwrap_or_default(),
            )
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn all(on: On, each: u64) {
    let tree = std::env::var("TREE").unwrap_or_default();
    let digits = tree.get(..8).unwrap_or("5fbe1e3c");
    let first = u64::from_str_radix(digits, 16).unwrap_or(1) << 16;
    let seeds = match number("FARPOST_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + number("FARPOST_TEST_SEEDS").unwrap_or(each),
    };
    println!("{on:?}: seeds {seeds:?}");
    // Failures are told in the end, once.
    std::panic::set_hook(Box::new(|_| ()));
    for seed in seeds {
        let ranks = 2 + (seed % 4) as usize;
        let plan = generate(seed, limits(ranks));
        if let Some(text) = failure(&plan, on) {
            let mut said = text;
            let short = plan.shrink(150, |plan| match failure(plan, on) {
                Some(text) => {
                    said = text;
                    true
                }
                None => false,
            });
            let name = std::env::temp_dir().join(format!("generated-{seed}.c"));
            let about = format!("Seed {seed} with {ranks} ranks on {on:?}\n{said}");
            let kept = std::fs::write(&name, c::write_file(&[short.lower()], &about));
            let events: Vec<&str> = short.events.iter().map(|e| e.name.as_str()).collect();
            _ = std::panic::take_hook();
            panic!(
                "seed {seed}, {ranks} ranks, {on:?}: {said}\nmade short ({kept:?}, {}): {events:#?}",
                name.display()
            );
        }
    }
}

#[test]
fn programs_on_shared_memory() {
    all(On::Shm, 60);
}

#[test]
fn programs_without_mapping() {
    all(On::InProc, 60);
}

#[test]
fn programs_by_fast_messages() {
    all(On::ShmBy(Device::Fm), 20);
    all(On::InProcBy(Device::Fm), 20);
}

#[test]
fn programs_by_jam() {
    all(On::ShmBy(Device::Jam), 20);
    all(On::InProcBy(Device::Jam), 20);
}

#[test]
fn programs_by_portals() {
    all(On::ShmBy(Device::Portals), 20);
    all(On::InProcBy(Device::Portals), 20);
}
