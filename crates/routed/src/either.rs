//! One of two: networks, chosen when the process starts; and what belongs to one of two fabrics, imports and bells.

use ambassador::Delegate;
use delegate::delegate;
use farpost_fabric::clock::Clock;
use farpost_fabric::forward::*;
use farpost_fabric::wait::Host;
use farpost_fabric::{
    Access, BulkTransfer, Carried, Completion, Cost, Counter, Counters, Descriptor, Direction, Distance, End,
    ErrorStatus, Fabric, Fault, Interrupt, Line, Moment, PacketQueue, Peer, Permission, Piece, Port,
    Priority, RailFigures, Register, Remote, RemoteMemory, Result, Route, SegmentId, Ticket, Time, Topology,
    TransferMemory, TrySend, Wake, ZeroCopy,
};
use farpost_mapped::Mapping;
use farpost_net::{NetFabric, ambassador_impl_NetFabric};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

/// One or the other.
#[derive(Clone, Delegate)]
#[delegate(Remote)]
#[delegate(PacketQueue)]
#[delegate(BulkTransfer)]
#[delegate(ZeroCopy)]
#[delegate(Time)]
#[delegate(ErrorStatus)]
#[delegate(Counters)]
#[delegate(Topology)]
#[delegate(Fabric, where = "A: NetFabric, B: NetFabric")]
#[delegate(NetFabric)]
pub enum Either<A, B> {
    /// The first kind.
    One(A),
    /// The second kind.
    Other(B),
}

impl<A: NetFabric, B: NetFabric> RemoteMemory for Either<A, B> {
    const MAPPED: bool = false;
    type Export = Mapping;
    type Import = Either<A::Import, B::Import>;

    delegate! {
        to match self { Either::One(it) => it, Either::Other(it) => it } {
            fn maps(&self, peer: Peer) -> bool;
            fn export_with(&self, id: SegmentId, len: usize, access: Access, begin: impl FnOnce(&Mapping)) -> Result<Mapping>;
            fn unpublish(&self, id: SegmentId) -> Result<()>;
            fn allocate(&self, len: usize) -> Result<Mapping>;
            fn publish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<()>;
            fn republish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<()>;
            fn detach(&self, memory: &Mapping) -> Result<()>;
            fn gives_back(&self, peer: Peer) -> bool;
            fn give_back(&self, peer: Peer, memory: &Mapping, range: std::ops::Range<usize>);
            fn common(&self, peer: Peer) -> Option<Mapping>;
        }
    }

    fn import(&self, peer: Peer, id: SegmentId, len: usize, permission: Permission) -> Result<Self::Import> {
        match self {
            Either::One(it) => it.import(peer, id, len, permission).map(Either::One),
            Either::Other(it) => it.import(peer, id, len, permission).map(Either::Other),
        }
    }
}

impl<A: NetFabric, B: NetFabric> Interrupt for Either<A, B> {
    type Bell = Either<A::Bell, B::Bell>;

    delegate! {
        to match self { Either::One(it) => it, Either::Other(it) => it } {
            fn wake(&self, peer: Peer);
            fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake;
            fn rings(&self) -> u64;
            fn host(&self) -> Option<Rc<dyn Host>>;
            fn descriptor(&self) -> Option<RawFd>;
            fn arm(&self) -> bool;
        }
    }

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
}
