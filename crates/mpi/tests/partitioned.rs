//! Partitioned messages between worlds that are stepped in one thread in turns that a seed chooses, over every carrier, with pools and
//! queues as small as they may be: random numbers of partitions at both ends, types, orders of becoming ready, rounds, several
//! with one tag at once, and ordinary messages with the same tag beside them.
//!
//! Requirements of MPI-5.0 sections 4.2.1, 4.2.2, 4.2.3.
#![allow(clippy::single_range_in_vec_init, reason = "a list of one run of partitions")]

#[path = "common/hosts.rs"]
mod hosts;

use farpost_channel::ChannelTunables;
use farpost_fabric::Fabric;
use farpost_fabric::inproc::{Config, Network};
use farpost_mpi::ErrorClass;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig, DeviceTunables};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_shm::ShmTunables;
use farpost_shm::conformance::shm_ends;

/// Turns after which what has not happened never will.
const TURNS: usize = 400_000;

const SMALL: ChannelTunables = ChannelTunables {
    slots: 16,
    block: 1024,
    blocks: 8,
};

/// What carries the messages.
#[derive(Clone, Copy, Debug)]
enum Route {
    Memory { cma: u64 },
    Messages { bulk: bool },
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

struct Job<F: Fabric> {
    worlds: Vec<World<F>>,
    step: Box<dyn Fn()>,
    rng: fastrand::Rng,
}

/// What is done with a job of worlds on whatever fabric.
trait Script {
    fn run<F: Fabric>(&self, job: Job<F>);
}

fn on(route: Route, size: u32, seed: u64, script: &impl Script) {
    println!("{route:?}, {size} ranks, seed {seed}");
    let config = WorldConfig {
        rsm: SMALL.clone(),
        ..WorldConfig::default()
    };
    let rng = fastrand::Rng::with_seed(seed);
    let shared = |config: WorldConfig, cma| {
        let tunables = ShmTunables {
            cma,
            ..ShmTunables::default()
        };
        let world = |end| World::new(end, config.clone());
        shm_ends(size, &tunables).into_iter().map(world).collect()
    };
    match route {
        Route::Memory { cma } => script.run(Job {
            worlds: shared(config, cma),
            step: Box::new(|| ()),
            rng,
        }),
        Route::Messages { bulk } => {
            let network = Config {
                bulk,
                largest_piece: 2000,
                ..Config::default()
            };
            let ends = Network::new(size, seed, network);
            let network = ends[0].network().clone();
            let world = |end| World::new(end, config.clone());
            script.run(Job {
                worlds: ends.into_iter().map(world).collect(),
                step: Box::new(move || _ = network.step()),
                rng,
            });
        }
        Route::By(device) => {
            let tunables = DeviceTunables {
                jam_local: 0,
                ..DeviceTunables::default()
            };
            let device = DeviceConfig {
                device,
                tunables,
                ..DeviceConfig::default()
            };
            script.run(Job {
                worlds: shared(WorldConfig { device, ..config }, 1),
                step: Box::new(|| ()),
                rng,
            });
        }
    }
}

fn byte() -> Datatype {
    Datatype::predefined(0x247).unwrap()
}

/// Memory of one end: data without gaps at the sender; at the receiver every element is followed by a gap, or not.
struct End {
    memory: Vec<u8>,
    partitions: u32,
    /// Bytes of an element, and how far one is from the next.
    element: usize,
    extent: usize,
    elements: usize,
}

impl End {
    fn new(rng: &mut fastrand::Rng, total: usize) -> Self {
        // Any number of partitions, elements and bytes of one that make the total.
        let divisor = |rng: &mut fastrand::Rng, of: usize| {
            let all: Vec<usize> = (1..=of.min(60)).filter(|d| of.is_multiple_of(*d)).collect();
            all[rng.usize(0..all.len())]
        };
        let partitions = if total == 0 {
            rng.usize(0..4)
        } else {
            divisor(rng, total)
        };
        let (element, elements) = match total {
            0 => (1, 0),
            _ => {
                let element = divisor(rng, total / partitions);
                (element, total / element)
            }
        };
        let extent = element + if rng.bool() { 0 } else { rng.usize(1..8) };
        Self {
            memory: vec![0xEE; elements * extent + 1],
            partitions: partitions as u32,
            element,
            extent,
            elements,
        }
    }

    fn datatype(&self) -> Datatype {
        let element = Datatype::contiguous(self.element as i64, &byte()).unwrap();
        Datatype::resized(&element, 0, self.extent as i64).unwrap()
    }

    fn put(&mut self, data: &[u8]) {
        for (at, bytes) in data.chunks_exact(self.element).enumerate() {
            self.memory[at * self.extent..][..self.element].copy_from_slice(bytes);
        }
    }

    fn get(&self) -> Vec<u8> {
        (0..self.elements)
            .flat_map(|at| self.memory[at * self.extent..][..self.element].iter().copied())
            .collect()
    }

    /// Bytes of a partition, in the data.
    fn place(&self, partition: u32) -> std::ops::Range<usize> {
        let each = self.elements / self.partitions as usize * self.element;
        partition as usize * each..(partition as usize + 1) * each
    }

    fn send_buf(&self) -> SendBuf {
        // SAFETY: the memory stays until the operations are over.
        unsafe { SendBuf::new(self.memory.as_ptr(), self.elements as u64, self.datatype()) }
    }

    fn recv_buf(&mut self) -> RecvBuf {
        // SAFETY: as above.
        unsafe { RecvBuf::new(self.memory.as_mut_ptr(), self.elements as u64, self.datatype()) }
    }
}

/// One message of several rounds.
struct Pair {
    from: usize,
    to: usize,
    tag: i32,
    send: End,
    recv: End,
    handles: [usize; 2],
    /// Rounds that have begun, at each end.
    rounds: [usize; 2],
    active: [bool; 2],
    /// Partitions that are not yet ready, in the order in which they will be.
    left: Vec<u32>,
    seed: u64,
    total: usize,
}

const ROUNDS: usize = 3;

fn data_of(seed: u64, round: usize, total: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed * 64 + round as u64);
    let mut data = vec![0; total];
    rng.fill(&mut data);
    data
}

impl Pair {
    /// Do something at the sending side, if there is anything to do.
    fn send_side<F: Fabric>(&mut self, job: &mut Job<F>) {
        let world = &job.worlds[self.from];
        let handle = self.handles[0];
        if !self.active[0] {
            if self.rounds[0] == ROUNDS {
                return;
            }
            self.send.put(&data_of(self.seed, self.rounds[0], self.total));
            world.start(handle).unwrap();
            self.active[0] = true;
            self.rounds[0] += 1;
            self.left = (0..self.send.partitions).collect();
            if job.rng.bool() {
                job.rng.shuffle(&mut self.left);
            }
            return;
        }
        if !self.left.is_empty() {
            let some = job.rng.usize(1..=self.left.len());
            let runs: Vec<_> = self.left.drain(..some).map(|p| p..p + 1).collect();
            world.pready(handle, &runs).unwrap();
            return;
        }
        if world.is_complete(handle).unwrap() {
            let (status, gone) = world.finish(handle).unwrap();
            assert_eq!((status.error, gone), (None, false));
            self.active[0] = false;
        }
    }

    fn recv_side<F: Fabric>(&mut self, job: &mut Job<F>) {
        let world = &job.worlds[self.to];
        let handle = self.handles[1];
        if !self.active[1] {
            for partition in 0..self.recv.partitions {
                assert!(world.parrived(handle, partition).unwrap(), "inactive");
            }
            if self.rounds[1] == ROUNDS {
                return;
            }
            // What the sender is ahead with may not be here before this.
            if self.rounds[1] > 0 {
                assert!(self.recv.get() == data_of(self.seed, self.rounds[1] - 1, self.total));
            }
            self.recv.memory.fill(0xEE);
            world.start(handle).unwrap();
            self.active[1] = true;
            self.rounds[1] += 1;
            return;
        }
        let wanted = data_of(self.seed, self.rounds[1] - 1, self.total);
        if self.recv.partitions > 0 && job.rng.bool() {
            let partition = job.rng.u32(0..self.recv.partitions);
            if world.parrived(handle, partition).unwrap() {
                let place = self.recv.place(partition);
                assert!(
                    self.recv.get()[place.clone()] == wanted[place],
                    "partition {partition}"
                );
            }
        }
        if world.is_complete(handle).unwrap() {
            let (status, _) = world.finish(handle).unwrap();
            assert_eq!(status.error, None);
            assert_eq!(
                (status.source, status.tag, status.bytes),
                (self.from as i32, self.tag, self.total as u64)
            );
            assert!(self.recv.get() == wanted, "round {}", self.rounds[1]);
            self.active[1] = false;
        }
    }

    fn is_over(&self) -> bool {
        self.rounds == [ROUNDS; 2] && self.active == [false; 2]
    }
}

struct Random;

impl Script for Random {
    fn run<F: Fabric>(&self, mut job: Job<F>) {
        let size = job.worlds.len();
        let count = job.rng.usize(1..6);
        let mut pairs: Vec<Pair> = (0..count)
            .map(|seed| {
                let (from, to) = (job.rng.usize(0..size), job.rng.usize(0..size));
                let total = match job.rng.u32(0..6) {
                    0 => 0,
                    1 => job.rng.usize(1..100),
                    2 | 3 => job.rng.usize(1..200) * 48,
                    _ => job.rng.usize(1..50) * 5040,
                };
                Pair {
                    from,
                    to,
                    tag: job.rng.i32(0..2),
                    send: End::new(&mut job.rng, total),
                    recv: End::new(&mut job.rng, total),
                    handles: [0; 2],
                    rounds: [0; 2],
                    active: [false; 2],
                    left: Vec::new(),
                    seed: seed as u64,
                    total,
                }
            })
            .collect();
        // Made in the same order at both ends, whichever end is first.
        for side in if job.rng.bool() { [0, 1] } else { [1, 0] } {
            for pair in &mut pairs {
                let world = &job.worlds[if side == 0 { pair.from } else { pair.to }];
                let (comm, tag) = (world.comm_world(), pair.tag);
                pair.handles[side] = match side {
                    0 => world.psend_init(
                        comm,
                        pair.send.send_buf(),
                        pair.send.partitions,
                        pair.to as i32,
                        tag,
                    ),
                    _ => {
                        let partitions = pair.recv.partitions;
                        world.precv_init(comm, pair.recv.recv_buf(), partitions, pair.from as i32, tag)
                    }
                }
                .unwrap();
            }
        }
        // An ordinary message with the same tag is none of theirs.
        let (word, mut got) = ([7u8; 8], [0u8; 8]);
        let (first, last) = (&job.worlds[0], &job.worlds[size - 1]);
        // SAFETY: the memory stays until the messages are over.
        let (send, recv) = unsafe {
            (
                SendBuf::new(word.as_ptr(), 8, byte()),
                RecvBuf::new(got.as_mut_ptr(), 8, byte()),
            )
        };
        let sent = first
            .isend(
                first.comm_world(),
                &send,
                size as i32 - 1,
                pairs[0].tag,
                Mode::Standard,
            )
            .unwrap();
        let received = last.irecv(last.comm_world(), recv, 0, pairs[0].tag).unwrap();
        for turn in 0.. {
            assert!(turn < TURNS, "never");
            if pairs.iter().all(Pair::is_over)
                && job.worlds[0].is_complete(sent).unwrap()
                && job.worlds[size - 1].is_complete(received).unwrap()
            {
                break;
            }
            let who = job.rng.usize(0..size);
            job.worlds[who].progress();
            let at = job.rng.usize(0..pairs.len());
            match job.rng.u32(0..3) {
                0 => pairs[at].send_side(&mut job),
                1 => pairs[at].recv_side(&mut job),
                _ => {}
            }
            for _ in 0..job.rng.u32(0..4) {
                (job.step)();
            }
        }
        job.worlds[0].finish(sent).unwrap();
        assert_eq!(job.worlds[size - 1].finish(received).unwrap().0.error, None);
        assert_eq!(got, word);
        for pair in &pairs {
            job.worlds[pair.from].free_request(pair.handles[0]).unwrap();
            job.worlds[pair.to].free_request(pair.handles[1]).unwrap();
            assert!(job.worlds[pair.to].parrived(pair.handles[1], 0).is_err());
        }
        for world in &job.worlds {
            assert_eq!(world.take_faults(), Vec::<String>::new());
        }
    }
}

#[test]
fn partitions_arrive_whatever_their_numbers_types_and_order() {
    for seed in 0..12 {
        for route in ROUTES {
            on(route, 1 + (seed % 3) as u32, seed, &Random);
        }
    }
}

/// Twenty bytes in four partitions, from rank 0 to itself or to rank 1.
struct Wrong;

impl Script for Wrong {
    fn run<F: Fabric>(&self, job: Job<F>) {
        let world = &job.worlds[0];
        let comm = world.comm_world();
        let class = |result: farpost_mpi::Result<()>| result.unwrap_err().class;
        let (data, mut room) = ([5u8; 20], [0u8; 12]);
        // SAFETY: the memory stays until the messages are over.
        let (send, recv) = unsafe {
            (
                SendBuf::new(data.as_ptr(), 20, byte()),
                RecvBuf::new(room.as_mut_ptr(), 12, byte()),
            )
        };
        let sending = world.psend_init(comm, send, 4, 0, 3).unwrap();
        let receiving = world.precv_init(comm, recv, 3, 0, 3).unwrap();
        assert_eq!(class(world.pready(sending, &[0..1])), ErrorClass::ERR_REQUEST);
        world.start(sending).unwrap();
        world.start(receiving).unwrap();
        assert_eq!(class(world.start(sending)), ErrorClass::ERR_REQUEST);
        assert_eq!(class(world.pready(sending, &[3..5])), ErrorClass::ERR_ARG);
        assert_eq!(class(world.pready(receiving, &[0..1])), ErrorClass::ERR_REQUEST);
        world.pready(sending, &[1..2]).unwrap();
        // Neither of the two is ready by a call that names one twice.
        assert_eq!(class(world.pready(sending, &[0..1, 1..2])), ErrorClass::ERR_ARG);
        assert_eq!(
            class(world.parrived(sending, 0).map(drop)),
            ErrorClass::ERR_REQUEST
        );
        assert_eq!(class(world.parrived(receiving, 3).map(drop)), ErrorClass::ERR_ARG);
        assert_eq!(class(world.cancel(sending)), ErrorClass::ERR_REQUEST);
        world.pready(sending, &[0..1, 2..4]).unwrap();
        assert_eq!(world.wait(sending).unwrap().error, None);
        // More came than there is room for: what fits is there.
        let status = world.wait(receiving).unwrap();
        assert_eq!(status.error.unwrap().class, ErrorClass::ERR_TRUNCATE);
        assert_eq!((room, status.bytes), ([5; 12], 12));
        // To nobody and from nobody everything is over at once.
        // SAFETY: as above.
        let (send, recv) = unsafe {
            (
                SendBuf::new(data.as_ptr(), 20, byte()),
                RecvBuf::new(room.as_mut_ptr(), 12, byte()),
            )
        };
        let sending = world.psend_init(comm, send, 4, -3, 3).unwrap();
        let receiving = world.precv_init(comm, recv, 3, -3, 3).unwrap();
        world.start(sending).unwrap();
        world.start(receiving).unwrap();
        assert!(world.parrived(receiving, 2).unwrap());
        world.pready(sending, &[0..4]).unwrap();
        assert_eq!(class(world.pready(sending, &[2..3])), ErrorClass::ERR_ARG);
        assert_eq!(world.wait(sending).unwrap().error, None);
        assert_eq!(world.wait(receiving).unwrap().source, -3);
    }
}

#[test]
fn what_is_wrong_with_a_call_is_said_and_the_message_goes_on() {
    for route in ROUTES {
        on(route, 1, 1, &Wrong);
    }
}

/// In a ring over two hosts, over TCP between them: short partitions, and such as go from memory to memory.
#[test]
fn partitions_go_from_host_to_host() {
    hosts::run(&[0, 1, 0], |world| {
        let (me, size) = (world.pid() as i32, world.size() as i32);
        let (next, prev) = ((me + 1) % size, (me + size - 1) % size);
        let comm = world.comm_world();
        for (number, each) in [10, 3000, 6000, 300_000].into_iter().enumerate() {
            let mut out = vec![0u8; 6 * each];
            let mut got = vec![0u8; 6 * each];
            let tag = number as i32;
            // SAFETY: the memory stays until the messages are over.
            let (send, recv) = unsafe {
                (
                    SendBuf::new(out.as_ptr(), out.len() as u64, byte()),
                    RecvBuf::new(got.as_mut_ptr(), got.len() as u64, byte()),
                )
            };
            let sending = world.psend_init(comm, send, 6, next, tag).unwrap();
            let receiving = world.precv_init(comm, recv, 4, prev, tag).unwrap();
            for round in 0..3 {
                out.copy_from_slice(&data_of(me as u64, round, 6 * each));
                world.start(receiving).unwrap();
                world.start(sending).unwrap();
                for partition in [4, 1, 0, 5, 2, 3] {
                    world.pready(sending, &[partition..partition + 1]).unwrap();
                }
                while !world.parrived(receiving, 2).unwrap() {}
                let wanted = data_of(prev as u64, round, 6 * each);
                let place = 3 * each..each * 9 / 2;
                assert!(got[place.clone()] == wanted[place], "{each} bytes, round {round}");
                let status = world.wait(receiving).unwrap();
                assert_eq!((status.error, status.bytes), (None, 6 * each as u64));
                assert!(got == wanted, "{each} bytes, round {round}");
                assert_eq!(world.wait(sending).unwrap().error, None);
            }
            world.free_request(sending).unwrap();
            world.free_request(receiving).unwrap();
        }
    });
}
