//! Worlds in one thread, stepped in turns that a seed chooses. On the fabric without mapping every byte goes
//! through put, get and fence, and the seed delays and reorders what is on its way: the protocols cannot lean
//! on shared memory there. Shared memory runs the same, with areas as small as they may be.
//!
//! Requirements of MPI-5.0 section 6.14.

use farpost_channel::ChannelTunables;
use farpost_fabric::Fabric;
use farpost_fabric::inproc::{Arrival, Config, InProc, Network};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig, DeviceTunables};
use farpost_mpi::coll;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_shm::conformance::shm_ends;
use farpost_shm::{Shm, ShmTunables};

const ANY_SOURCE: i32 = -1;

/// `MPI_BYTE`, `MPI_INT64_T` and `MPI_SUM`.
const BYTE: usize = 0x247;
const INT64: usize = 0x258;
const SUM: usize = 0x21;

/// A job of worlds, stepped in turns.
struct Job<F: Fabric> {
    worlds: Vec<World<F>>,
    /// Lets time pass.
    step: Box<dyn Fn()>,
    rng: fastrand::Rng,
}

fn config(rsm: &ChannelTunables) -> WorldConfig {
    WorldConfig {
        rsm: rsm.clone(),
        ..WorldConfig::default()
    }
}

fn without_mapping(size: u32, seed: u64, network: &Config, rsm: &ChannelTunables) -> Job<InProc> {
    let ends = Network::new(size, seed, network.clone());
    let network = ends[0].network().clone();
    let worlds = ends.into_iter().map(|end| World::new(end, config(rsm)));
    Job {
        worlds: worlds.collect(),
        step: Box::new(move || _ = network.step()),
        rng: fastrand::Rng::with_seed(seed),
    }
}

fn on_shared_memory(size: u32, seed: u64, cma: u64, rsm: &ChannelTunables) -> Job<Shm> {
    let tunables = ShmTunables {
        cma,
        ..ShmTunables::default()
    };
    let ends = shm_ends(size, &tunables);
    let worlds = ends.into_iter().map(|end| World::new(end, config(rsm)));
    Job {
        worlds: worlds.collect(),
        step: Box::new(|| ()),
        rng: fastrand::Rng::with_seed(seed),
    }
}

/// The same, with messages of a layer between all.
fn by_messages<F: Fabric + 'static>(
    ends: Vec<F>,
    device: Device,
    seed: u64,
    step: Box<dyn Fn()>,
    rsm: &ChannelTunables,
) -> Job<F> {
    let device = DeviceConfig {
        device,
        tunables: DeviceTunables {
            jam_local: 0,
            ..DeviceTunables::default()
        },
        ..DeviceConfig::default()
    };
    let config = WorldConfig {
        device,
        ..config(rsm)
    };
    let world = |end| World::new(end, config.clone());
    Job {
        worlds: ends.into_iter().map(world).collect(),
        step,
        rng: fastrand::Rng::with_seed(seed),
    }
}

fn by_messages_without_mapping(
    size: u32,
    seed: u64,
    network: &Config,
    device: Device,
    rsm: &ChannelTunables,
) -> Job<InProc> {
    let ends = Network::new(size, seed, network.clone());
    let network = ends[0].network().clone();
    by_messages(ends, device, seed, Box::new(move || _ = network.step()), rsm)
}

impl<F: Fabric> Job<F> {
    /// Until all `requests` (world and handle) are complete; then take their results.
    fn finish(&mut self, requests: Vec<(usize, usize)>) {
        let mut turns = 0;
        let open = |worlds: &[World<F>]| {
            let waiting = requests
                .iter()
                .filter(|(who, handle)| !worlds[*who].is_complete(*handle).unwrap());
            waiting.count()
        };
        while open(&self.worlds) > 0 {
            let who = self.rng.usize(0..self.worlds.len());
            self.worlds[who].progress();
            for _ in 0..self.rng.u32(0..4) {
                (self.step)();
            }
            turns += 1;
            assert!(
                turns < 2_000_000,
                "{} requests never complete",
                open(&self.worlds)
            );
        }
        for (who, handle) in requests {
            let (status, _) = self.worlds[who].finish(handle).unwrap();
            assert_eq!(status.error, None);
        }
        for world in &self.worlds {
            assert_eq!(world.take_faults(), Vec::<String>::new());
        }
    }
}

fn bytes_of(data: &[u8]) -> SendBuf {
    // SAFETY: the tests finish the operation before the data goes.
    unsafe {
        SendBuf::new(
            data.as_ptr(),
            data.len() as u64,
            Datatype::predefined(BYTE).unwrap(),
        )
    }
}

fn bytes_into(data: &mut [u8]) -> RecvBuf {
    // SAFETY: as above.
    unsafe {
        RecvBuf::new(
            data.as_mut_ptr(),
            data.len() as u64,
            Datatype::predefined(BYTE).unwrap(),
        )
    }
}

fn message(from: usize, to: usize, number: usize) -> Vec<u8> {
    let seed = (number * 64 + from * 8 + to) as u64;
    let mut rng = fastrand::Rng::with_seed(seed);
    let len = match rng.u32(0..8) {
        0 => 0,
        1..4 => rng.usize(1..100),
        4..7 => rng.usize(100..10_000),
        _ => rng.usize(10_000..60_000),
    };
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

/// Everyone sends everyone (also itself) messages of all lengths and modes; receives name their source or
/// take anybody's.
fn messages<F: Fabric>(mut job: Job<F>, each: usize, seed: u64) {
    let size = job.worlds.len();
    let pairs = || (0..size).flat_map(move |from| (0..size).map(move |to| (from, to)));
    let data: Vec<_> = pairs()
        .flat_map(|(from, to)| (0..each).map(move |number| (from, to, number)))
        .map(|(from, to, number)| (from, to, number, message(from, to, number)))
        .collect();
    let mut got: Vec<_> = data.iter().map(|(.., bytes)| vec![0xEE; bytes.len()]).collect();
    // Neighbouring messages change places; of those between the same two with the same tag, none does.
    let mut requests = Vec::new();
    let modes = [Mode::Standard, Mode::Synchronous];
    let receive = |job: &Job<F>, at: usize, got: &mut Vec<Vec<u8>>| {
        let (from, to, number, _) = &data[at];
        let comm = job.worlds[*to].comm_world();
        // With a tag of its own, anybody's message is this one.
        let (source, tag) = if number % 3 == 0 {
            (ANY_SOURCE, (1000 + number * size + from) as i32)
        } else {
            (*from as i32, 5)
        };
        let handle = job.worlds[*to]
            .irecv(comm, bytes_into(&mut got[at]), source, tag)
            .unwrap();
        (*to, handle)
    };
    let late: Vec<bool> = pairs().map(|_| job.rng.bool()).collect();
    for at in 0..data.len() {
        if !late[at / each] {
            requests.push(receive(&job, at, &mut got));
        }
    }
    for (at, (from, to, number, bytes)) in data.iter().enumerate() {
        let comm = job.worlds[*from].comm_world();
        let tag = if number % 3 == 0 {
            (1000 + number * size + from) as i32
        } else {
            5
        };
        let mode = modes[usize::from(number % 4 == 0)];
        let handle = job.worlds[*from]
            .isend(comm, &bytes_of(bytes), *to as i32, tag, mode)
            .unwrap();
        requests.push((*from, handle));
        if at % 5 == 0 {
            job.worlds[at % size].progress();
            (job.step)();
        }
    }
    for at in 0..data.len() {
        if late[at / each] {
            requests.push(receive(&job, at, &mut got));
        }
    }
    job.finish(requests);
    for ((from, to, number, sent), got) in data.iter().zip(&got) {
        assert!(sent == got, "message {number} of {from} to {to}, seed {seed}");
    }
}

fn networks() -> [Config; 3] {
    let slow = Config {
        queue_packets: 1,
        longest_delay: 100,
        largest_piece: 500,
        bulk: false,
        ..Config::default()
    };
    let no_bulk = Config {
        bulk: false,
        largest_piece: 2000,
        ..Config::default()
    };
    let quick = Config {
        largest_piece: 2000,
        ..Config::default()
    };
    [quick, no_bulk, slow]
}

fn small() -> ChannelTunables {
    ChannelTunables {
        slots: 16,
        block: 1024,
        blocks: 8,
    }
}

#[test]
fn messages_without_mapping() {
    for seed in 0..25 {
        for network in networks() {
            for rsm in [small(), ChannelTunables::default()] {
                messages(without_mapping(2, seed, &network, &rsm), 12, seed);
            }
            messages(without_mapping(3, seed, &network, &small()), 8, seed);
        }
    }
}

#[test]
fn messages_on_shared_memory() {
    for seed in 0..25 {
        for cma in [0, 1] {
            for size in 1..=4 {
                messages(on_shared_memory(size, seed, cma, &small()), 8, seed);
            }
            messages(
                on_shared_memory(2, seed, cma, &ChannelTunables::default()),
                12,
                seed,
            );
        }
    }
}

/// What arrives while the worlds of `job` exchange messages and meet in collectives, and when.
fn arrivals<F: Fabric>(
    job: impl Fn() -> Job<F>,
    network: impl Fn(&F) -> &Network,
    seed: u64,
) -> Vec<Arrival> {
    let record = |run: fn(Job<F>, u64)| {
        let job = job();
        let network = network(job.worlds[0].fabric()).clone();
        network.record();
        run(job, seed);
        network.arrivals()
    };
    let mut all = record(|job, seed| messages(job, 6, seed));
    all.extend(record(collectives));
    assert!(all.len() > 100, "{} arrivals", all.len());
    all
}

/// Two runs of a seed are the same, to the byte and to the nanosecond; runs of different seeds differ.
#[test]
fn a_seed_replays_exactly() {
    let [_, network, _] = networks();
    let plain = |seed| {
        let job = || without_mapping(3, seed, &network, &small());
        arrivals(job, InProc::network, seed)
    };
    let by = |device, seed| {
        let job = || by_messages_without_mapping(3, seed, &network, device, &small());
        arrivals(job, InProc::network, seed)
    };
    for seed in 0..3 {
        assert!(plain(seed) == plain(seed), "seed {seed}");
        assert!(plain(seed) != plain(seed + 1), "seed {seed}");
        for device in [Device::Fm, Device::Jam, Device::Portals] {
            assert!(by(device, seed) == by(device, seed), "seed {seed}, {device:?}");
            assert!(
                by(device, seed) != by(device, seed + 1),
                "seed {seed}, {device:?}"
            );
        }
    }
}

#[test]
fn collectives_without_mapping() {
    for seed in 0..25 {
        for (network, size) in networks().into_iter().zip([3, 2, 4]) {
            collectives(without_mapping(size, seed, &network, &small()), seed);
        }
    }
}

#[test]
fn collectives_on_shared_memory() {
    for seed in 0..25 {
        for size in 1..=5 {
            collectives(on_shared_memory(size, seed, 1, &small()), seed);
        }
    }
}

#[test]
fn messages_by_each_device() {
    for device in [Device::Fm, Device::Jam, Device::Portals] {
        for seed in 0..8 {
            for network in networks() {
                for (size, rsm) in [(2, ChannelTunables::default()), (3, small())] {
                    let job = by_messages_without_mapping(size, seed, &network, device, &rsm);
                    messages(job, 8, seed);
                }
            }
            for size in 1..=4 {
                let ends = shm_ends(size, &ShmTunables::default());
                messages(
                    by_messages(ends, device, seed, Box::new(|| ()), &small()),
                    8,
                    seed,
                );
            }
        }
    }
}

#[test]
fn collectives_by_each_device() {
    for device in [Device::Fm, Device::Jam, Device::Portals] {
        for seed in 0..8 {
            for (network, size) in networks().into_iter().zip([3, 2, 4]) {
                collectives(
                    by_messages_without_mapping(size, seed, &network, device, &small()),
                    seed,
                );
            }
            let ends = shm_ends(5, &ShmTunables::default());
            collectives(by_messages(ends, device, seed, Box::new(|| ()), &small()), seed);
        }
    }
}

/// Sums and barriers, all under way at once.
fn collectives<F: Fabric>(mut job: Job<F>, seed: u64) {
    let size = job.worlds.len();
    for len in [0usize, 1, 1000] {
        let values = |who: usize| -> Vec<i64> { (0..len).map(|i| (who * 1000 + i) as i64).collect() };
        let ours: Vec<_> = (0..size).map(values).collect();
        let mut sums = vec![vec![0i64; len]; size];
        let mut requests = Vec::new();
        for (who, (ours, sum)) in ours.iter().zip(&mut sums).enumerate() {
            let world = &job.worlds[who];
            let word = || Datatype::predefined(INT64).unwrap();
            // SAFETY: finished before the data goes.
            let (from, to) = unsafe {
                (
                    SendBuf::new(ours.as_ptr().cast(), len as u64, word()),
                    RecvBuf::new(sum.as_mut_ptr().cast(), len as u64, word()),
                )
            };
            let comm = world.comm_world();
            let op = Op::predefined(SUM).unwrap();
            let plan = coll::allreduce(&world.site(comm), Some(from.into()), to.into(), &op).unwrap();
            requests.push((who, world.start_collective(comm, plan).unwrap()));
            let barrier = coll::barrier(&world.site(comm)).unwrap();
            requests.push((who, world.start_collective(comm, barrier).unwrap()));
        }
        job.finish(requests);
        let expected: Vec<i64> = (0..len).map(|i| ours.iter().map(|o| o[i]).sum()).collect();
        assert!(
            sums.iter().all(|sum| *sum == expected),
            "seed {seed}, {len} words"
        );
    }
}
