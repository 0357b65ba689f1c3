//! One of two networks, chosen when the process starts.

use farpost_fabric::clock::Clock;
use farpost_fabric::{
    Access, BulkTransfer, Completion, Counter, Counters, Descriptor, Distance, ErrorStatus, Fabric,
    FabricError, Fault, Interrupt, Line, PacketQueue, Peer, Permission, Port, Priority, Remote, RemoteMemory,
    SegmentId, Tails, Ticket, Time, Topology, TrySend, Wake,
};
use farpost_mapped::Mapping;
use farpost_net::NetFabric;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

/// One network or the other; also their imports and bells.
#[derive(Clone)]
pub enum Either<A, B> {
    /// The first kind.
    One(A),
    /// The second kind.
    Other(B),
}

/// The same call on whichever it is.
macro_rules! either {
    ($which:expr, $it:ident => $call:expr) => {
        match $which {
            Either::One($it) => $call,
            Either::Other($it) => $call,
        }
    };
}

impl<A: Remote, B: Remote> Remote for Either<A, B> {
    fn len(&self) -> usize {
        either!(self, it => it.len())
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<(), FabricError> {
        either!(self, it => it.put(offset, from))
    }

    fn put_word(&self, offset: usize, value: u64) -> Result<(), FabricError> {
        either!(self, it => it.put_word(offset, value))
    }

    fn put_line(&self, offset: usize, line: &Line) -> Result<(), FabricError> {
        either!(self, it => it.put_line(offset, line))
    }

    fn put_line_ahead(&self, offset: usize, line: &Line) -> Result<(), FabricError> {
        either!(self, it => it.put_line_ahead(offset, line))
    }

    fn put_lines(&self, offset: usize, from: &[u8]) -> Result<(), FabricError> {
        either!(self, it => it.put_lines(offset, from))
    }

    fn put_elements(&self, offset: usize, from: &[u8], size: usize) -> Result<(), FabricError> {
        either!(self, it => it.put_elements(offset, from, size))
    }

    fn get_elements(&self, offset: usize, to: &mut [u8], size: usize) -> Result<(), FabricError> {
        either!(self, it => it.get_elements(offset, to, size))
    }

    fn get(&self, offset: usize, to: &mut [u8]) -> Result<(), FabricError> {
        either!(self, it => it.get(offset, to))
    }

    fn fence(&self) -> Result<(), FabricError> {
        either!(self, it => it.fence())
    }

    fn order(&self) -> Result<(), FabricError> {
        either!(self, it => it.order())
    }
}

impl<A: NetFabric, B: NetFabric> RemoteMemory for Either<A, B> {
    const MAPPED: bool = false;
    type Export = Mapping;
    type Import = Either<A::Import, B::Import>;

    fn export_with(
        &self,
        id: SegmentId,
        len: usize,
        access: Access,
        begin: impl FnOnce(&Mapping),
    ) -> Result<Mapping, FabricError> {
        either!(self, it => it.export_with(id, len, access, begin))
    }

    fn unpublish(&self, id: SegmentId) -> Result<(), FabricError> {
        either!(self, it => it.unpublish(id))
    }

    fn allocate(&self, len: usize) -> Result<Mapping, FabricError> {
        either!(self, it => it.allocate(len))
    }

    fn publish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<(), FabricError> {
        either!(self, it => it.publish(id, memory, access))
    }

    fn republish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<(), FabricError> {
        either!(self, it => it.republish(id, memory, access))
    }

    unsafe fn overlay(&self, memory: &Mapping, address: usize) -> Result<(), FabricError> {
        // SAFETY: the caller's promise is the same.
        either!(self, it => unsafe { it.overlay(memory, address) })
    }

    unsafe fn uncover(&self, memory: &Mapping) -> Result<(), FabricError> {
        // SAFETY: the caller's promise is the same.
        either!(self, it => unsafe { it.uncover(memory) })
    }

    fn import(
        &self,
        peer: Peer,
        id: SegmentId,
        len: usize,
        permission: Permission,
    ) -> Result<Self::Import, FabricError> {
        match self {
            Either::One(it) => it.import(peer, id, len, permission).map(Either::One),
            Either::Other(it) => it.import(peer, id, len, permission).map(Either::Other),
        }
    }

    fn mapped(_import: &Self::Import) -> Option<&Mapping> {
        None
    }
}

impl<A: NetFabric, B: NetFabric> NetFabric for Either<A, B> {
    fn strangers_turned_away(&self) -> u64 {
        either!(self, it => it.strangers_turned_away())
    }
}

impl<A: NetFabric, B: NetFabric> PacketQueue for Either<A, B> {
    const ORDERED: bool = A::ORDERED && B::ORDERED;

    fn try_send(&self, peer: Peer, port: Port, priority: Priority, payload: &[u8]) -> TrySend {
        either!(self, it => it.try_send(peer, port, priority, payload))
    }

    fn poll_priority(&self, port: Port, priority: Priority, take: impl FnMut(Peer, &[u8])) -> bool {
        either!(self, it => it.poll_priority(port, priority, take))
    }

    fn packets_waiting(&self, port: Port, priority: Priority, limit: u32) -> u32 {
        either!(self, it => it.packets_waiting(port, priority, limit))
    }
}

impl<A: NetFabric, B: NetFabric> BulkTransfer for Either<A, B> {
    fn can_transfer(&self, peer: Peer) -> bool {
        either!(self, it => it.can_transfer(peer))
    }

    unsafe fn expose(
        &self,
        peer: Peer,
        address: usize,
        len: usize,
        writable: bool,
    ) -> Result<u64, FabricError> {
        // SAFETY: the caller's promise is the same.
        either!(self, it => unsafe { it.expose(peer, address, len, writable) })
    }

    fn exposed_base(&self, peer: Peer, address: usize) -> u64 {
        either!(self, it => it.exposed_base(peer, address))
    }

    fn withdraw(&self, key: u64) {
        either!(self, it => it.withdraw(key));
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion, FabricError> {
        // SAFETY: the caller's promise is the same.
        either!(self, it => unsafe { it.submit(descriptor) })
    }

    fn poll_transfer(&self, ticket: Ticket) -> Result<bool, FabricError> {
        either!(self, it => it.poll_transfer(ticket))
    }

    fn cancel_transfer(&self, ticket: Ticket) {
        either!(self, it => it.cancel_transfer(ticket));
    }
}

impl<A: NetFabric, B: NetFabric> Tails for Either<A, B> {
    fn tail_room(&self, peer: Peer) -> usize {
        either!(self, it => it.tail_room(peer))
    }

    unsafe fn send_tail(&self, peer: Peer, address: usize, len: usize) -> Result<u32, FabricError> {
        // SAFETY: the caller's promise is the same.
        either!(self, it => unsafe { it.send_tail(peer, address, len) })
    }

    fn tail_sent(&self, peer: Peer, number: u32) -> Result<bool, FabricError> {
        either!(self, it => it.tail_sent(peer, number))
    }

    fn release_tail(&self, peer: Peer, number: u32) {
        either!(self, it => it.release_tail(peer, number));
    }

    unsafe fn land_tail(
        &self,
        peer: Peer,
        number: u32,
        address: usize,
        len: usize,
    ) -> Result<(), FabricError> {
        // SAFETY: the caller's promise is the same.
        either!(self, it => unsafe { it.land_tail(peer, number, address, len) })
    }

    fn tail_landed(&self, peer: Peer, number: u32) -> Result<bool, FabricError> {
        either!(self, it => it.tail_landed(peer, number))
    }

    fn take_tail(
        &self,
        peer: Peer,
        number: u32,
        len: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, FabricError> {
        either!(self, it => it.take_tail(peer, number, len, take))
    }

    fn drop_tail(&self, peer: Peer, number: u32, len: usize) {
        either!(self, it => it.drop_tail(peer, number, len));
    }
}

impl<A: NetFabric, B: NetFabric> Time for Either<A, B> {
    #[inline]
    fn clock(&self) -> &Rc<Clock> {
        either!(self, it => it.clock())
    }
}

impl<A: NetFabric, B: NetFabric> Interrupt for Either<A, B> {
    type Bell = Either<A::Bell, B::Bell>;

    fn bell(&self, peer: Peer) -> Self::Bell {
        match self {
            Either::One(it) => Either::One(it.bell(peer)),
            Either::Other(it) => Either::Other(it.bell(peer)),
        }
    }

    fn wake_by(&self, bell: &Self::Bell) {
        match (self, bell) {
            (Either::One(it), Either::One(bell)) => it.wake_by(bell),
            (Either::Other(it), Either::Other(bell)) => it.wake_by(bell),
            _ => {}
        }
    }

    fn wake(&self, peer: Peer) {
        either!(self, it => it.wake(peer));
    }

    fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake {
        either!(self, it => it.sleep(timeout, ready))
    }

    fn descriptor(&self) -> Option<RawFd> {
        either!(self, it => it.descriptor())
    }

    fn arm(&self) -> bool {
        either!(self, it => it.arm())
    }
}

impl<A: NetFabric, B: NetFabric> ErrorStatus for Either<A, B> {
    fn record_fault(&self, fault: Fault) {
        either!(self, it => it.record_fault(fault));
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        either!(self, it => it.take_faults())
    }

    fn is_gone(&self, peer: Peer) -> bool {
        either!(self, it => it.is_gone(peer))
    }

    fn faulted(&self) -> bool {
        either!(self, it => it.faulted())
    }
}

impl<A: NetFabric, B: NetFabric> Counters for Either<A, B> {
    fn count(&self, peer: Peer, counter: Counter, amount: u64) {
        either!(self, it => it.count(peer, counter, amount));
    }

    fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        either!(self, it => it.counter(of, peer, counter))
    }
}

impl<A: NetFabric, B: NetFabric> Topology for Either<A, B> {
    fn hosts(&self) -> u32 {
        either!(self, it => it.hosts())
    }

    fn host_of(&self, peer: Peer) -> u32 {
        either!(self, it => it.host_of(peer))
    }

    fn distance(&self, peer: Peer) -> Distance {
        either!(self, it => it.distance(peer))
    }

    fn rails(&self, peer: Peer) -> u32 {
        either!(self, it => it.rails(peer))
    }

    fn rail_works(&self, peer: Peer, rail: u32) -> bool {
        either!(self, it => it.rail_works(peer, rail))
    }

    fn cores_and_processes(&self) -> (u32, u32) {
        either!(self, it => it.cores_and_processes())
    }
}

impl<A: NetFabric, B: NetFabric> Fabric for Either<A, B> {
    fn me(&self) -> Peer {
        either!(self, it => it.me())
    }

    fn size(&self) -> u32 {
        either!(self, it => it.size())
    }

    fn name(&self) -> &'static str {
        either!(self, it => it.name())
    }

    fn progress(&self) -> bool {
        either!(self, it => it.progress())
    }

    fn close(&self, patience: Duration) {
        either!(self, it => it.close(patience));
    }
}
