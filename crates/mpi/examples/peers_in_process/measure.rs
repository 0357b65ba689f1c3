//! The measurement: messages from all to all between coroutines over the in-process fabric, and a rest.

use farpost_fabric::inproc::{self, Config, InProc};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, Interrupt, Time};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::coll;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The system's allocator, which counts the bytes in use.
pub struct CountingAllocator;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it is, which keeps what is promised; the counter has no part in it.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the allocator's contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// What is exchanged.
#[derive(Clone)]
pub struct Exchange {
    pub ranks: u32,
    /// Messages of 8 bytes and of 1 KiB to each peer.
    pub rounds: u32,
    /// Those of 64 KiB.
    pub long_rounds: u32,
    pub seed: u64,
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            ranks: 256,
            rounds: 10,
            long_rounds: 1,
            seed: 1,
        }
    }
}

/// Memory of a rank after a step, in bytes beyond what there was before any peer was met: the mean of all.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub name: &'static str,
    pub bytes: f64,
    /// Of those, the ones in areas.
    pub areas: f64,
}

const LONG: usize = 64 << 10;

fn byte() -> Datatype {
    Datatype::predefined(0x247).expect("MPI_BYTE")
}

/// One rank: what it sends, and where it receives.
struct Party {
    world: World<InProc>,
    out: Vec<u8>,
    to: Vec<u8>,
}

impl Party {
    /// `rounds` messages of `len` bytes to each of the others, in pairs.
    fn talk(&mut self, len: usize, rounds: u32) {
        let (me, size) = (self.world.pid(), self.world.size());
        let comm = self.world.comm_world();
        for round in 0..rounds {
            for distance in 1..size {
                let (next, before) = ((me + distance) % size, (me + size - distance) % size);
                self.out[..8].copy_from_slice(&(u64::from(me) << 32 | u64::from(round)).to_le_bytes());
                // SAFETY: both buffers stay until the two messages are over, below.
                let (send, receive) = unsafe {
                    (
                        SendBuf::new(self.out.as_ptr(), len as u64, byte()),
                        RecvBuf::new(self.to.as_mut_ptr(), len as u64, byte()),
                    )
                };
                let receiving = self.world.irecv(comm, receive, before as i32, 1).expect("posted");
                self.world
                    .send(comm, &send, next as i32, 1, Mode::Standard)
                    .expect("sent");
                self.world.wait(receiving).expect("received");
                let expected = u64::from(before) << 32 | u64::from(round);
                assert_eq!(self.to[..8], expected.to_le_bytes(), "rank {me}, from {before}");
            }
        }
        self.barrier();
    }

    fn barrier(&self) {
        let comm = self.world.comm_world();
        let plan = coll::barrier(&self.world.site(comm)).expect("a barrier");
        self.world.run_collective(comm, plan).expect("a barrier");
    }

    /// So long calls now and then.
    fn rest(&self, time: Duration) {
        let (fabric, comm) = (self.world.fabric(), self.world.comm_world());
        let end = fabric.now() + time;
        while fabric.now() < end {
            fabric.sleep(Duration::from_millis(50), &mut || false);
            for _ in 0..16 {
                let found = self.world.iprobe(comm, 0, 2).expect("asked");
                assert!(found.is_none());
            }
        }
    }
}

fn in_use() -> f64 {
    IN_USE.load(Ordering::Relaxed) as f64
}

/// Measure, with [`CountingAllocator`] as the program's.
///
/// # Panics
/// When a message is not what was sent, or the allocator is another.
pub fn measure(exchange: Exchange) -> Vec<Step> {
    let config = Config {
        full_every: 0,
        longest_delay: 2,
        largest_piece: LONG,
        queue_packets: 64,
        ..Config::default()
    };
    let (ranks, seed) = (exchange.ranks, exchange.seed);
    let network = config;
    // Who waits sleeps at once: polls of all ranks in turn are most of the run otherwise.
    let config = WorldConfig {
        wait: WaitTunables {
            spin_us: 0,
            yields: 0,
        },
        ..WorldConfig::default()
    };
    // With room for all, so that they are no part of what they measure.
    let steps = Rc::new(RefCell::new(Vec::with_capacity(8)));
    let before = Rc::new(RefCell::new(0.0));
    let ready = Rc::new(RefCell::new(0));
    let found = Rc::clone(&steps);
    inproc::run(ranks, seed, network, move |end| {
        let (me, network) = (end.me().0, end.network().clone());
        let mut party = Party {
            world: World::new(end, config.clone()),
            out: vec![2; LONG],
            to: vec![1; LONG],
        };
        // The last to come here has not met anybody either.
        *ready.borrow_mut() += 1;
        if *ready.borrow() == ranks {
            assert!(in_use() > 0.0, "bytes in use are counted");
            *before.borrow_mut() = in_use();
        }
        let step = |name| {
            if me == 0 {
                let areas = network.memory() as f64;
                let bytes = in_use() - *before.borrow();
                let of_a_rank = |all: f64| all / f64::from(ranks);
                found.borrow_mut().push(Step {
                    name,
                    bytes: of_a_rank(bytes),
                    areas: of_a_rank(areas),
                });
            }
        };
        while *ready.borrow() < ranks {
            party
                .world
                .fabric()
                .sleep(Duration::from_millis(1), &mut || false);
        }
        party.talk(8, 1);
        step("met");
        party.talk(8, exchange.rounds);
        step("8");
        party.talk(1024, exchange.rounds);
        step("1024");
        party.talk(LONG, exchange.long_rounds);
        step("65536");
        party.rest(Duration::from_millis(1500));
        step("rest");
        party.barrier();
        party.talk(1024, exchange.rounds);
        step("again");
        party.world.quiesce().expect("all is over");
        party.barrier();
        party.world.drain_to_peers(|_| false).expect("all is taken");
        assert_eq!(party.world.take_faults(), Vec::<String>::new());
    });
    steps.take()
}
