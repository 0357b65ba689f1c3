//! Adapters: what carries out the fabric's operations, each as in its paper, a file each.
//!
//! An operation is called at the time of the rank that makes it, which is the time of the whole machine then. It answers what it costs the rank's processor; the rest goes
//! on by events. An adapter serves all processes of one host.

mod kernel;
pub mod lanai;
mod local;
mod rdma;
mod rsm;
mod seastar;
mod startx;

pub use kernel::{Kernel, Load, Message, What};
pub use lanai::Lanai;
pub use local::{Local, LocalParams};
pub use rdma::{Rdma, RdmaParams};
pub use rsm::{Cesr, Rsm, RsmParams};
pub use seastar::{SeaStar, SeaStarParams};
pub use startx::{DmaParams, RECEIVE_COUNT, StarTx, StarTxParams};

use crate::memory::Memory;
use crate::net::{Fate, NetEvent, Packet};
use crate::process::{Arrived, ImportId, OpId};
use crate::time::Ps;
use farpost_fabric::ability::Ability;
use farpost_fabric::{Descriptor, FabricError, Peer, Result, Route, TrySend};

/// What happens inside adapters, by kind.
#[derive(Debug)]
pub enum AdapterEvent {
    Local(local::Event),
    Lanai(lanai::Event),
    Rdma(rdma::Event),
    SeaStar(seastar::Event),
    StarTx(startx::Event),
    Rsm(rsm::Event),
}

impl AdapterEvent {
    /// Its kind, in words with `_` between them.
    pub fn what(&self) -> &'static str {
        match self {
            Self::Local(event) => event.into(),
            Self::Lanai(event) => event.into(),
            Self::Rdma(event) => event.into(),
            Self::SeaStar(event) => event.into(),
            Self::StarTx(event) => event.into(),
            Self::Rsm(event) => event.into(),
        }
    }

    /// Of a block in several packets: whether more of them follow.
    fn block_goes_on(&self) -> Option<bool> {
        match self {
            Self::StarTx(startx::Event::Block { last, .. }) => Some(last.is_none()),
            _ => None,
        }
    }
}

/// What happens on the machine.
#[derive(Debug)]
pub enum Event {
    Net(NetEvent),
    /// On the adapter of this process's host, or between its processes.
    Adapter(crate::net::HostId, AdapterEvent),
    /// A fault of this number begins or ends.
    Fault(usize),
    /// A put through this import was lost some time ago; perhaps nobody has asked.
    Unasked(ImportId),
}

impl From<NetEvent> for Event {
    fn from(event: NetEvent) -> Self {
        Event::Net(event)
    }
}

/// Between whom an operation is: who makes it, and the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub from: Peer,
    pub to: Peer,
}

/// Bytes for another process's segment.
pub struct Put<'a> {
    pub pair: Pair,
    pub import: ImportId,
    pub segment: &'a Memory,
    pub offset: usize,
    pub bytes: &'a [u8],
    /// All of it arrives at once: a word, a line.
    pub whole: bool,
}

/// A part of another process's segment.
pub struct Get<'a> {
    pub pair: Pair,
    pub segment: &'a Memory,
    pub offset: usize,
    pub len: usize,
}

/// A packet for another process's queue.
pub struct Outgoing<'a> {
    pub pair: Pair,
    /// [Port and priority](farpost_fabric::lane).
    pub lane: usize,
    pub route: Route,
    pub bytes: &'a [u8],
}

/// What a fabric is made of. What an adapter lacks it refuses with a sentence.
///
/// All times answered are the processor's of the rank that calls, from the kernel's `now` on.
pub trait Adapter {
    /// Its name for people.
    fn name(&self) -> &'static str;

    /// What fabrics have and it has not: it refuses that, or nobody who needs it can be sure of it.
    fn lacks(&self) -> &'static [Ability] {
        &[]
    }

    /// As what it is, for experiments that look below the fabric.
    fn as_any(&mut self) -> &mut dyn std::any::Any;

    /// # Errors
    /// The adapter writes no memory of other hosts.
    fn put(&mut self, _kernel: &mut Kernel, put: Put<'_>) -> Result<Ps> {
        Err(self.without(put.pair.to, "remote memory"))
    }

    /// Whether a process's puts to another one arrive in the order in which they are made: all, or those to the same `line`.
    fn keeps_order(&self, _kernel: &Kernel, _line: bool) -> bool {
        false
    }

    /// Begin to wait for all puts of an import.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    fn fence(&mut self, _kernel: &mut Kernel, pair: Pair, _import: ImportId) -> Result<(Ps, OpId)> {
        Err(self.without(pair.to, "remote memory"))
    }

    /// Begin to read; the operation gives the bytes.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    fn get(&mut self, _kernel: &mut Kernel, get: Get<'_>) -> Result<(Ps, OpId)> {
        Err(self.without(get.pair.to, "remote memory"))
    }

    /// Offer a packet.
    fn try_send(&mut self, kernel: &mut Kernel, packet: Outgoing<'_>) -> (Ps, TrySend);

    /// Look for a packet, and take it.
    fn poll(&mut self, kernel: &mut Kernel, me: Peer, lane: usize) -> (Ps, Option<Arrived>);

    /// How many packets polls would find, counted up to `limit`.
    fn waiting(&self, kernel: &Kernel, me: Peer, lane: usize, limit: usize) -> usize {
        kernel.procs.of(me).arrived[lane].len().min(limit)
    }

    /// Ring a process.
    fn ring(&mut self, kernel: &mut Kernel, pair: Pair) -> Ps;

    /// Whether it moves bytes between memories by itself.
    fn transfers(&self) -> bool {
        false
    }

    /// Begin to move bytes; the memory stays as it is until the operation has ended.
    ///
    /// # Errors
    /// The adapter does not do that.
    fn transfer(&mut self, _kernel: &mut Kernel, _me: Peer, descriptor: &Descriptor) -> Result<(Ps, OpId)> {
        Err(self.without(descriptor.peer, "bulk transfers"))
    }

    /// The first of `pair` lets the other have `len` bytes at `address` until they are [withdrawn](Self::withdraw): their key, 0 where none is needed.
    fn expose(&mut self, _kernel: &mut Kernel, _pair: Pair, _address: usize, _len: usize) -> u64 {
        0
    }

    /// The end of what [`expose`](Self::expose) began.
    fn withdraw(&mut self, _kernel: &mut Kernel, _key: u64) {}

    /// A packet from the network has arrived whole.
    fn arrived(&mut self, kernel: &mut Kernel, packet: Packet<Load>);

    /// Whether the sender's adapter hears of a packet that arrives damaged, as of one that is lost; else the receiver's looks itself.
    fn answers_damage(&self) -> bool {
        false
    }

    /// A packet that this adapter sent was lost on its way.
    fn lost(&mut self, kernel: &mut Kernel, packet: Packet<Load>, fate: Fate);

    /// Something of its own happens.
    fn happen(&mut self, kernel: &mut Kernel, event: AdapterEvent);

    /// A counter or register and its value, for people.
    fn registers(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// That the adapter lacks something.
    fn without(&self, peer: Peer, what: &'static str) -> FabricError {
        FabricError::unsupported(
            peer,
            what,
            format!("the simulated adapter ({}) has none", self.name()),
        )
    }
}
