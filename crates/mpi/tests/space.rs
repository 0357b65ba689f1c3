//! Memory for what nobody has asked for yet is bounded, and the bound stops nobody: whatever lies unreceived, what is asked for
//! is found, and whatever one receiver leaves, others get theirs. Pools, queues and limits are as small as they may be; worlds
//! are stepped in one thread in turns that a seed chooses.

use farpost_channel::ChannelTunables;
use farpost_fabric::Fabric;
use farpost_fabric::inproc::{Config, Network};
use farpost_fm::FmTunables;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig, DeviceTunables};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::engine::EngineTunables;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_shm::ShmTunables;
use farpost_shm::conformance::shm_ends;

/// Turns after which what has not happened never will.
const TURNS: usize = 400_000;

/// The smallest areas.
const SMALL: ChannelTunables = ChannelTunables {
    slots: 16,
    block: 1024,
    blocks: 8,
};

/// What a sender can have posted that its receiver has not heard of: a queue, and all blocks, with what is kept about them.
const IN_FLIGHT: u64 = SMALL.blocks * SMALL.block + SMALL.slots * 400;

struct Job<F: Fabric> {
    worlds: Vec<World<F>>,
    step: Box<dyn Fn()>,
    rng: fastrand::Rng,
    bound: u64,
}

/// What carries the messages.
#[derive(Clone, Copy, Debug)]
enum Route {
    /// Shared memory, with copies between memories or without.
    Memory { cma: u64 },
    /// No memory is mapped; transfers between memories, or none.
    Messages { bulk: bool },
    /// A device on shared memory.
    By(Device),
}

const ROUTES: [Route; 7] = [
    Route::Memory { cma: 1 },
    Route::Memory { cma: 0 },
    Route::Messages { bulk: true },
    Route::Messages { bulk: false },
    Route::By(Device::Fm),
    Route::By(Device::Jam),
    Route::By(Device::Portals),
];

/// What is done with a job of worlds on whatever fabric.
trait Script {
    fn run<F: Fabric>(&self, job: Job<F>);
}

fn on(route: Route, size: u32, seed: u64, bound: u64, script: &impl Script) {
    let config = WorldConfig {
        rsm: SMALL.clone(),
        engine: EngineTunables {
            unexpected_bytes: bound,
            ..EngineTunables::default()
        },
        ..WorldConfig::default()
    };
    println!("{route:?}, {size} ranks, seed {seed}, bound {bound}");
    let rng = fastrand::Rng::with_seed(seed);
    match route {
        Route::Memory { cma } => {
            let tunables = ShmTunables {
                cma,
                ..ShmTunables::default()
            };
            let ends = shm_ends(size, &tunables);
            script.run(Job {
                worlds: ends
                    .into_iter()
                    .map(|end| World::new(end, config.clone()))
                    .collect(),
                step: Box::new(|| ()),
                rng,
                bound,
            });
        }
        Route::Messages { bulk } => {
            let network = Config {
                bulk,
                largest_piece: 2000,
                ..Config::default()
            };
            let ends = Network::new(size, seed, network);
            let network = ends[0].network().clone();
            script.run(Job {
                worlds: ends
                    .into_iter()
                    .map(|end| World::new(end, config.clone()))
                    .collect(),
                step: Box::new(move || _ = network.step()),
                rng,
                bound,
            });
        }
        Route::By(device) => {
            let device = DeviceConfig {
                device,
                fm: FmTunables {
                    slots: 4,
                    ..FmTunables::default()
                },
                tunables: DeviceTunables {
                    jam_local: 0,
                    portals_unexpected: bound.max(64 << 10),
                    portals_exposed: seed % 3,
                    portals_posted: seed / 3 % 3,
                    portals_fetches: 1,
                    ..DeviceTunables::default()
                },
                ..DeviceConfig::default()
            };
            let config = WorldConfig { device, ..config };
            let world = |end| World::new(end, config.clone());
            let ends = shm_ends(size, &ShmTunables::default());
            script.run(Job {
                worlds: ends.into_iter().map(world).collect(),
                step: Box::new(|| ()),
                rng,
                bound,
            });
        }
    }
}

impl<F: Fabric> Job<F> {
    /// Let `who` take turns until `done` of the job.
    fn until(&mut self, what: &str, who: &[usize], mut done: impl FnMut(&[World<F>]) -> bool) {
        for _ in 0..TURNS {
            if done(&self.worlds) {
                return;
            }
            let turn = who[self.rng.usize(0..who.len())];
            self.worlds[turn].progress();
            let senders = self.worlds.len() as u64;
            let kept = self.worlds[turn].kept_bytes();
            assert!(
                kept <= senders * (self.bound + IN_FLIGHT),
                "{what}: {kept} bytes are kept where {} are allowed",
                self.bound
            );
            for _ in 0..self.rng.u32(0..4) {
                (self.step)();
            }
        }
        panic!("{what}: never");
    }

    fn finish(&mut self, what: &str, who: &[usize], requests: &[(usize, usize)]) {
        self.until(what, who, |worlds| {
            requests
                .iter()
                .all(|(who, handle)| worlds[*who].is_complete(*handle).unwrap())
        });
        for (who, handle) in requests {
            let (status, _) = self.worlds[*who].finish(*handle).unwrap();
            assert_eq!(status.error, None, "{what}");
        }
    }

    fn send(&self, from: usize, to: usize, data: &[u8], tag: i32, mode: Mode) -> (usize, usize) {
        let world = &self.worlds[from];
        let comm = world.comm_world();
        let handle = world.isend(comm, &send_buf(data), to as i32, tag, mode).unwrap();
        (from, handle)
    }

    fn receive(&self, at: usize, from: i32, data: &mut [u8], tag: i32) -> (usize, usize) {
        let world = &self.worlds[at];
        let comm = world.comm_world();
        (at, world.irecv(comm, recv_buf(data), from, tag).unwrap())
    }

    fn no_faults(&self) {
        for world in &self.worlds {
            assert_eq!(world.take_faults(), Vec::<String>::new());
        }
    }
}

fn send_buf(data: &[u8]) -> SendBuf {
    // SAFETY: tests finish the operation before the data goes.
    unsafe { SendBuf::new(data.as_ptr(), data.len() as u64, Datatype::byte()) }
}

fn recv_buf(data: &mut [u8]) -> RecvBuf {
    // SAFETY: as above.
    unsafe { RecvBuf::new(data.as_mut_ptr(), data.len() as u64, Datatype::byte()) }
}

fn message(number: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at * 7 + number * 13 + (at >> 8)) as u8)
        .collect()
}

/// Sizes around what changes the protocol: one line, a run, a block, several, an offer.
const SIZES: [usize; 12] = [0, 1, 32, 33, 40, 41, 264, 265, 1024, 1025, 4096, 9000];

/// One sends many messages that nobody asks for, and then one that is probed for.
struct Behind {
    messages: usize,
    /// All of this size; else of all sizes.
    size: Option<usize>,
    probe: bool,
}

impl Script for Behind {
    fn run<F: Fabric>(&self, mut job: Job<F>) {
        let size_of = |number: usize| self.size.unwrap_or(SIZES[number % SIZES.len()]);
        let data: Vec<_> = (0..self.messages)
            .map(|number| message(number, size_of(number)))
            .collect();
        let last = message(1, 5);
        let mut sends: Vec<_> = data
            .iter()
            .map(|data| job.send(1, 0, data, 1, Mode::Standard))
            .collect();
        sends.push(job.send(1, 0, &last, 99, Mode::Standard));
        let mut found = vec![0; 5];
        if self.probe {
            job.until("a probe", &[0, 1], |worlds| {
                let comm = worlds[0].comm_world();
                let status = worlds[0].iprobe(comm, 1, 99).unwrap();
                status.is_some_and(|status| status.bytes == 5)
            });
        }
        let receive = job.receive(0, 1, &mut found, 99);
        job.finish("the message behind", &[0, 1], &[receive]);
        assert_eq!(found, last);
        let mut got: Vec<_> = data.iter().map(|data| vec![0xEE; data.len()]).collect();
        for got in &mut got {
            let receive = job.receive(0, -1, got, 1);
            sends.push(receive);
        }
        job.finish("the others", &[0, 1], &sends);
        assert!(got == data);
        assert_eq!(job.worlds[0].kept_bytes(), 0);
        job.no_faults();
    }
}

#[test]
fn what_lies_behind_others_is_found() {
    for route in ROUTES {
        for seed in 0..6 {
            for bound in [1, 4096, 1 << 20] {
                for probe in [true, false] {
                    let script = Behind {
                        messages: 150,
                        size: None,
                        probe,
                    };
                    on(route, 2, seed, bound, &script);
                }
            }
        }
    }
}

#[test]
fn a_flood_of_tiny_messages_is_held_back_and_looked_behind() {
    for route in ROUTES {
        let script = Behind {
            messages: 3000,
            size: Some(8),
            probe: false,
        };
        on(route, 2, 7, 4096, &script);
    }
}

/// Ranks between the first and the last take nothing and compute, but have spoken with rank 0; rank 0 has much for them, and
/// something for the last, who receives.
struct Starved {
    /// What they do not take is all of this size; else of all sizes.
    size: Option<usize>,
}

impl Script for Starved {
    fn run<F: Fabric>(&self, mut job: Job<F>) {
        let all: Vec<usize> = (0..job.worlds.len()).collect();
        let last = job.worlds.len() - 1;
        let mut nothing = vec![[0; 1]; last];
        let mut meet = Vec::new();
        for (other, nothing) in nothing.iter_mut().enumerate() {
            meet.push(job.send(0, other + 1, &[7], 0, Mode::Standard));
            meet.push(job.receive(other + 1, 0, nothing, 0));
        }
        job.finish("to meet", &all, &meet);
        let many: Vec<_> = (0..60)
            .map(|number| message(number, self.size.unwrap_or(SIZES[number % SIZES.len()])))
            .collect();
        let mut left = Vec::new();
        for data in &many {
            left.extend((1..last).map(|to| job.send(0, to, data, 1, Mode::Standard)));
        }
        for _ in 0..100 {
            job.worlds[0].progress();
            (job.step)();
        }
        for (number, len) in SIZES.into_iter().chain([60_000]).enumerate() {
            let data = message(number, len);
            for mode in [Mode::Standard, Mode::Synchronous] {
                let mut got = vec![0xEE; len];
                let pair = [
                    job.send(0, last, &data, 2, mode),
                    job.receive(last, 0, &mut got, 2),
                ];
                job.finish("a message to who receives", &[0, last], &pair);
                assert!(got == data, "{len} bytes");
            }
        }
        let all_of = || many.iter().map(|data| vec![0xEE; data.len()]).collect::<Vec<_>>();
        let mut got = vec![all_of(); last - 1];
        for (index, got) in got.iter_mut().enumerate() {
            left.extend(got.iter_mut().map(|got| job.receive(index + 1, 0, got, 1)));
        }
        job.finish("what was left", &all, &left);
        assert!(got.iter().all(|got| *got == many));
        job.no_faults();
    }
}

#[test]
fn receivers_that_compute_starve_nobody() {
    for route in ROUTES {
        for seed in 0..6 {
            for size in [3, 4, 6] {
                for each in [None, Some(8), Some(1024)] {
                    on(route, size, seed, 4096, &Starved { size: each });
                }
            }
        }
    }
}

/// Everybody sends to everybody and itself, in all modes; each message is asked for by its own tag, in an order that has nothing
/// to do with that of sending, and some not before most others are over.
struct Shuffled;

impl Script for Shuffled {
    fn run<F: Fabric>(&self, mut job: Job<F>) {
        let size = job.worlds.len();
        let all: Vec<usize> = (0..size).collect();
        let mut plan: Vec<(usize, usize, Vec<u8>)> = Vec::new();
        for number in 0..40 * size {
            let (from, to) = (job.rng.usize(0..size), job.rng.usize(0..size));
            let len = match job.rng.u32(0..10) {
                0 => job.rng.usize(0..60_000),
                _ => SIZES[job.rng.usize(0..SIZES.len())],
            };
            plan.push((from, to, message(number, len)));
        }
        let mut got: Vec<_> = plan.iter().map(|(.., data)| vec![0xEE; data.len()]).collect();
        let mut open = Vec::new();
        for (number, (from, to, data)) in plan.iter().enumerate() {
            let mode = match job.rng.u32(0..5) {
                0 => Mode::Synchronous,
                _ => Mode::Standard,
            };
            open.push(job.send(*from, *to, data, number as i32, mode));
            if job.rng.u32(0..6) == 0 {
                let turn = job.rng.usize(0..size);
                job.worlds[turn].progress();
                (job.step)();
            }
        }
        let mut order: Vec<usize> = (0..plan.len()).collect();
        job.rng.shuffle(&mut order);
        for (nth, part) in order.chunks(7).enumerate() {
            let mut receives = Vec::new();
            for number in part {
                let (from, to, _) = &plan[*number];
                let source = if job.rng.bool() { *from as i32 } else { -1 };
                receives.push(job.receive(*to, source, &mut got[*number], *number as i32));
            }
            // Some are waited for before anything else is asked for.
            if nth % 2 == 0 {
                job.finish("some of the messages", &all, &receives);
            } else {
                open.extend(receives);
            }
        }
        job.finish("all messages", &all, &open);
        for (number, ((.., sent), got)) in plan.iter().zip(&got).enumerate() {
            assert!(sent == got, "message {number}");
        }
        for world in &job.worlds {
            assert_eq!(world.kept_bytes(), 0);
        }
        job.no_faults();
    }
}

#[test]
fn messages_asked_for_in_any_order() {
    for route in ROUTES {
        for seed in 0..8 {
            for (size, bound) in [(1, 1), (2, 4096), (3, 1), (4, 2000)] {
                on(route, size, seed, bound, &Shuffled);
            }
        }
    }
}

/// A send that its receiver holds back says so, and others do not.
struct Told;

impl Script for Told {
    fn run<F: Fabric>(&self, mut job: Job<F>) {
        let data = vec![3; 1000];
        let mut sends: Vec<_> = (0..60)
            .map(|_| job.send(1, 0, &data, 1, Mode::Standard))
            .collect();
        for _ in 0..400 {
            job.worlds[0].progress();
            job.worlds[1].progress();
            (job.step)();
        }
        let open: Vec<usize> = sends
            .iter()
            .map(|(_, handle)| *handle)
            .filter(|handle| !job.worlds[1].is_complete(*handle).unwrap())
            .collect();
        assert!(open.len() > 20, "{} are held back", open.len());
        assert!(open.iter().all(|handle| job.worlds[1].waits_for_space(*handle)));
        let mut got = vec![vec![0; 1000]; 60];
        for got in &mut got {
            let (at, receive) = job.receive(0, 1, got, 1);
            assert!(!job.worlds[0].waits_for_space(receive));
            sends.push((at, receive));
        }
        job.finish("all", &[0, 1], &sends);
        assert!(got.iter().all(|got| *got == data));
        // One that nobody matches waits for its match and for nothing else.
        let send = job.send(1, 0, &data, 2, Mode::Synchronous);
        for _ in 0..400 {
            job.worlds[0].progress();
            job.worlds[1].progress();
            (job.step)();
        }
        assert!(!job.worlds[1].waits_for_space(send.1));
        let mut got = vec![0; 1000];
        let receive = job.receive(0, 1, &mut got, 2);
        job.finish("the last", &[0, 1], &[send, receive]);
    }
}

#[test]
fn who_waits_for_space_says_so() {
    for route in &ROUTES[..6] {
        on(*route, 2, 1, 4096, &Told);
    }
}
