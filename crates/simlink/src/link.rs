//! What a process asks of the machine that it is simulated on.

use crate::time::Ps;
use farpost_fabric::{
    Access, Cost, Counter, Descriptor, Fault, Grant, LocalMemory, Peer, Permission, Result, Route, SegmentId,
    TrySend,
};
use std::ops::Range;

/// A packet in the memory of its receiver.
#[derive(Debug)]
pub struct Arrived {
    pub from: Peer,
    pub bytes: Vec<u8>,
}

/// Names an operation that its process waits for or asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpId(pub usize);

/// The way of one process to the machine.
///
/// What a process does takes time on its clock, which this keeps. Every method from [`sync`](Self::sync) on acts on the machine as it is at that time: all
/// that comes before happens first, and other processes run meanwhile.
pub trait Link: 'static {
    /// Payload of a packet at most.
    const PACKET_BYTES: usize;
    /// Memory that peers may reach.
    type Memory: LocalMemory + Clone;
    /// A segment of a peer's.
    type Reached: Clone;

    /// Who this process is.
    fn me(&self) -> Peer;
    /// Processes of the machine.
    fn size(&self) -> u32;
    /// Hosts that have processes.
    fn hosts(&self) -> u32;
    /// The host of a process.
    fn host_of(&self, peer: Peer) -> u32;
    /// Ways from each host to another.
    fn rails(&self) -> u32;
    /// Processes of this process's host.
    fn neighbours(&self) -> u32;

    /// The time of this process.
    fn now(&self) -> Ps;
    /// It does what takes so long.
    fn spend(&self, time: Ps);
    /// The program itself does what takes so long.
    fn compute(&self, time: Ps) {
        self.spend(time);
    }
    /// What `cost` takes here.
    fn cost(&self, cost: Cost) -> Ps;
    /// Whether something has happened to it since this was last asked.
    fn take_touched(&self) -> bool;

    /// All that comes before the time of this process happens.
    fn sync(&self);
    /// Sleep until something happens to it, as seen by polls of this period, or until the deadline.
    fn sleep(&self, period: Ps, deadline: Ps);
    /// A random number of the machine's seed.
    fn random(&self) -> u64;

    /// Offer a packet for a [queue](farpost_fabric::lane) of `peer`.
    fn try_send(&self, peer: Peer, lane: usize, route: Route, bytes: &[u8]) -> TrySend;
    /// Take the next packet of a queue.
    fn poll(&self, lane: usize) -> Option<Arrived>;
    /// Packets that polls would find, counted up to `limit`.
    fn waiting(&self, lane: usize, limit: u32) -> u32;

    /// Memory that can be published, zeroes.
    fn allocate(&self, len: usize) -> Result<Self::Memory>;
    /// See [`RemoteMemory::detach`](farpost_fabric::RemoteMemory::detach).
    fn detach(&self, memory: &Self::Memory) -> Result<()>;
    /// Make a range zeroes that need no memory.
    fn clear(&self, memory: &Self::Memory, range: Range<usize>);
    /// See [`RemoteMemory::publish`](farpost_fabric::RemoteMemory::publish).
    fn publish(&self, id: SegmentId, memory: &Self::Memory, access: Access) -> Result<()>;
    /// See [`RemoteMemory::republish`](farpost_fabric::RemoteMemory::republish).
    fn republish(&self, id: SegmentId, access: Access) -> Result<()>;
    /// See [`RemoteMemory::unpublish`](farpost_fabric::RemoteMemory::unpublish).
    fn unpublish(&self, id: SegmentId) -> Result<()>;
    /// See [`RemoteMemory::import`](farpost_fabric::RemoteMemory::import).
    fn import(
        &self,
        peer: Peer,
        id: SegmentId,
        wanted: (Permission, usize),
    ) -> Result<(Self::Reached, Grant)>;
    /// Write to a peer's segment. `whole`: all of it arrives at once.
    fn put(&self, to: &Self::Reached, offset: usize, bytes: &[u8], whole: bool) -> Result<()>;
    /// Begin to read from one; [`ended`](Self::ended) gives the bytes.
    fn get(&self, from: &Self::Reached, offset: usize, len: usize) -> Result<OpId>;
    /// Whether puts to it arrive in the order in which they are made, without a fence: all, or those to the same `line`.
    fn keeps_order(&self, _to: &Self::Reached, _line: bool) -> bool {
        false
    }
    /// Begin to wait for all puts to it.
    fn fence(&self, of: &Self::Reached) -> Result<OpId>;
    /// What the puts before a fence that has ended met with.
    fn fenced(&self, of: &Self::Reached) -> Result<()>;

    /// Whether bytes are moved between memories of this process and of `peer`.
    fn transfers(&self, peer: Peer) -> bool;
    /// See [`BulkTransfer::expose`](farpost_fabric::BulkTransfer::expose).
    fn expose(&self, peer: Peer, address: usize, len: usize) -> Result<u64>;
    /// The end of what [`expose`](Self::expose) began.
    fn withdraw(&self, key: u64);
    /// Begin to move bytes.
    fn transfer(&self, descriptor: &Descriptor) -> Result<OpId>;
    /// Whether an operation has ended; then it is forgotten. Bytes that it gave go to `into`, which has as many.
    fn ended(&self, op: OpId, into: &mut [u8]) -> Option<Result<()>>;

    /// See [`ErrorStatus`](farpost_fabric::ErrorStatus).
    fn record_fault(&self, fault: Fault);
    /// Those recorded, and how many more there were.
    fn take_faults(&self) -> (Vec<Fault>, u64);
    /// Whether faults may be there.
    fn faulted(&self) -> bool;
    /// Whether `peer` has ended before its time.
    fn is_dead(&self, peer: Peer) -> bool;
    /// See [`Counters`](farpost_fabric::Counters).
    fn count(&self, about: Peer, counter: Counter, amount: u64);
    /// See [`Counters`](farpost_fabric::Counters).
    fn counter(&self, of: Peer, about: Peer, counter: Counter) -> u64;

    /// This process leaves the machine in good order.
    fn leave(&self) {}
}

/// A link to a machine in this process.
pub trait Below: Link {
    /// The machine.
    type Core;
    /// Look at it, at this process's time.
    fn with_core<T>(&self, look: impl FnOnce(&mut Self::Core) -> T) -> T;
}
