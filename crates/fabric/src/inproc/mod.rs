//! A fabric inside one thread, without mapping, for tests of everything that is generic over fabrics.
//!
//! All endpoints share one [`Network`]. Nothing arrives by itself: puts, packets, interrupts and bulk
//! transfers are on their way until the network takes [steps](Network::step), and a seed decides how long
//! each takes and what overtakes what. The same seed, configuration and calls replay the same run exactly.
//!
//! | What | How it is made difficult |
//! |---|---|
//! | put | cut into pieces of any size, which arrive in any order |
//! | word, line | arrive whole, but overtake other puts, also older ones to the same address |
//! | fence | pumps until the puts of that import have arrived, in an order of the seed; reports what failed |
//! | get | reads word by word while other things arrive; may overtake puts that no fence completed |
//! | packet | in order per pair, priority and fixed route, otherwise in any; receivers' queues are short |
//! | interrupt | late, yet never before what its sender put to the same peer earlier |
//! | bulk | the copy happens at an arbitrary time between submission and completion |
//!
//! There are two ways to have many processes in the one thread: a test calls those of each in an order of its own ([`Network::new`]), or
//! they are [coroutines](run()) whose pauses let others run.
//!
//! Time is virtual, and one for all endpoints (coroutines have each their own): a step is a microsecond, pauses and [sleeps](crate::Interrupt::sleep) let it pass,
//! and what is [charged](crate::Time::charge) is added by [`Config::costs`], as polls and stores of packets and puts are. Who sleeps while nothing is on its way wakes at its
//! deadline. The host's clock is never read. Faults are injected by [`Config::put_error_every`] and
//! [`Network::kill`].
//!
//! Cost class: none; this is for tests.

mod bulk;
mod endpoint;
mod memory;
#[allow(unsafe_code)]
mod ranks;
mod record;
mod state;

pub use crate::segment::Segment;
pub use endpoint::InProc;
pub use memory::Imported;
pub use ranks::run;
pub use record::Arrival;

use crate::{Cost, Moment, Peer, SegmentId};
use state::NetworkState;
use std::cell::RefCell;
use std::rc::Rc;

/// What a network is like. The defaults lose nothing.
#[derive(Clone, Debug)]
pub struct Config {
    /// Packets that a process's queue of one port and priority holds, on their way included. At least 1.
    pub queue_packets: usize,
    /// One packet in so many is refused as *full* although there is room. 0: none.
    pub full_every: u32,
    /// Longest delay of anything, in steps.
    pub longest_delay: u64,
    /// Largest piece of a put that arrives at once, in bytes. At least 1.
    pub largest_piece: usize,
    /// One put in so many is lost in part; the next fence of its import says so. 0: none.
    pub put_error_every: u32,
    /// Rails between any two hosts. Each process is a host of its own.
    pub rails: u32,
    /// Cores of each host.
    pub cores: u32,
    /// Whether bulk transfers work.
    pub bulk: bool,
    /// What work costs.
    pub costs: Costs,
}

/// What work costs on the simulated host, for [`Cost`].
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// To copy a byte, picoseconds.
    pub byte: u64,
    /// A poll, nanoseconds.
    pub poll: u64,
    /// To store a word to the adapter, nanoseconds.
    pub store: u64,
    /// To look at an entry of a list, nanoseconds.
    pub entry: u64,
    /// A call of the system, nanoseconds.
    pub trap: u64,
    /// What a layer's code does once for an operation, nanoseconds.
    pub work: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            byte: 100,
            poll: 20,
            store: 10,
            entry: 5,
            trap: 500,
            work: 0,
        }
    }
}

impl Costs {
    /// Nanoseconds that `cost` takes.
    pub fn of(&self, cost: Cost) -> u64 {
        match cost {
            Cost::Copy(bytes) => self.byte * bytes as u64 / 1_000,
            // Tests that count copies do not mean it.
            Cost::Reduce(_) => 0,
            Cost::Poll => self.poll,
            Cost::Store(words) => self.store * words as u64,
            Cost::Match(entries) => self.entry * entries as u64,
            Cost::Trap => self.trap,
            Cost::Work(_) => self.work,
        }
    }
}

/// For tests that count what is charged: by a unit so large that nothing else adds up to one.
impl Costs {
    /// Nanoseconds of what is counted.
    pub const UNIT: u64 = 1_000_000_000;
    /// Nothing costs anything.
    pub const NOTHING: Self = Self {
        byte: 0,
        poll: 0,
        store: 0,
        entry: 0,
        trap: 0,
        work: 0,
    };
    /// A unit for each byte copied.
    pub const COPIES: Self = Self {
        byte: 1000 * Self::UNIT,
        ..Self::NOTHING
    };
}

impl Config {
    /// For those tests: what is sent has room at once, and work costs what is counted.
    pub fn counting(costs: Costs) -> Self {
        Self {
            full_every: 0,
            queue_packets: 64,
            costs,
            ..Self::default()
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            queue_packets: 8,
            full_every: 16,
            longest_delay: 12,
            largest_piece: 48,
            put_error_every: 0,
            rails: 1,
            cores: 1,
            bulk: true,
            costs: Costs::default(),
        }
    }
}

/// The network between the endpoints of one test. Clones are the same network.
#[derive(Clone)]
pub struct Network(Rc<RefCell<NetworkState>>);

impl Network {
    /// A network and its `size` endpoints, in order.
    ///
    /// # Panics
    /// When `size` is 0 or the configuration asks for an empty queue or pieces of no bytes.
    #[expect(clippy::new_ret_no_self, reason = "each endpoint holds the network")]
    pub fn new(size: u32, seed: u64, config: Config) -> Vec<InProc> {
        assert!(size > 0, "a network has at least one endpoint");
        assert!(
            config.queue_packets > 0 && config.largest_piece > 0,
            "queue_packets and largest_piece start at 1"
        );
        let network = Network(Rc::new(RefCell::new(NetworkState::new(size, seed, config))));
        (0..size)
            .map(|index| InProc::new(network.clone(), Peer(index), size))
            .collect()
    }

    /// Let one step of time pass: something may arrive. Whether anything is still on its way.
    pub fn step(&self) -> bool {
        self.0.borrow_mut().step()
    }

    /// Let everything arrive.
    pub fn settle(&self) {
        while self.step() {}
    }

    /// The time.
    pub fn now(&self) -> Moment {
        Moment::from_nanos(self.0.borrow().now)
    }

    /// How many [units](Costs::UNIT) pass while `work` is done, and what it gives.
    pub fn charged<T>(&self, work: impl FnOnce() -> T) -> (u64, T) {
        let start = self.now();
        let done = work();
        ((self.now() - start).as_nanos() as u64 / Costs::UNIT, done)
    }

    /// From now on, write down what arrives.
    pub fn record(&self) {
        self.0.borrow_mut().arrivals.get_or_insert_default();
    }

    /// What has arrived since [`record`](Self::record) or the last call.
    pub fn arrivals(&self) -> Vec<Arrival> {
        let mut state = self.0.borrow_mut();
        state.arrivals.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// `peer` dies: what is on its way from and to it is lost, and every operation towards it fails with
    /// [`PeerDead`](crate::FabricError::PeerDead). Its memory stays where others look at it.
    pub fn kill(&self, peer: Peer) {
        self.0.borrow_mut().kill(peer);
    }

    /// Any segment, to look at and to corrupt from outside.
    pub fn segment(&self, peer: Peer, id: SegmentId) -> Option<Segment> {
        let state = self.0.borrow();
        let found = state.published.get(&(peer, id))?;
        Some(found.segment.clone())
    }

    /// Bytes of the segments of all endpoints that have memory. Segments have it where something was written, in small pieces.
    pub fn memory(&self) -> usize {
        let state = self.0.borrow();
        state
            .published
            .values()
            .map(|published| published.segment.memory())
            .sum()
    }

    /// Segments that `peer` has published.
    pub fn published(&self, peer: Peer) -> Vec<SegmentId> {
        let state = self.0.borrow();
        state
            .published
            .keys()
            .filter(|(owner, _)| *owner == peer)
            .map(|(_, id)| *id)
            .collect()
    }
}
