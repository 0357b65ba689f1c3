//! Each pair of processes on the best way it has: the memory of their host, or a network.
//!
//! Processes keep the job's numbers everywhere; the shared region of a host has room for all of them and only those
//! of the host use it. Protocol code asks [`RemoteMemory::maps`] which kind a peer is.
//!
//! Cost class: *fast path* for peers of this host, a branch more than on `shm` alone. Polling a network costs a system
//! call, so while only peers of this host have anything to say it is polled now and then ([`Pace`]).

#![cfg(not(loom))]

mod either;
mod pace;
mod tally;

pub use either::Either;

use delegate::delegate;
use farpost_fabric::clock::Clock;
use farpost_fabric::wait::Host;
use farpost_fabric::{
    Access, ArmedWait, BulkTransfer, Carried, Completion, Cost, Counter, Counters, Descriptor, Direction,
    Distance, End, ErrorStatus, Fabric, FabricError, Fault, Interrupt, PacketQueue, Peer, Permission, Piece,
    Port, Priority, Register, RemoteMemory, Result, Route, SegmentId, Ticket, Time, Topology, TrySend, Wake,
    ZeroCopy,
};
use farpost_mapped::Mapping;
use farpost_net::NetFabric;
use farpost_shm::{Shm, ShmBell};
use pace::Pace;
use std::rc::Rc;
use std::time::Duration;

/// A host that nobody is on.
const NOWHERE: u32 = u32::MAX;

/// One host's memory, and a network where there are other hosts.
pub struct Routed<N> {
    near: Shm,
    far: Option<N>,
    host_of: Rc<[u32]>,
    me: Peer,
    my_host: u32,
    /// Processes of the program.
    size: u32,
    pace: Pace,
    tally: tally::Tally,
    /// The network is simulated: work costs time there that is charged.
    charges: bool,
}

impl<N: NetFabric> Routed<N> {
    /// `near` for the processes of `host_of` that share this process's host, `far` for the others.
    ///
    /// # Panics
    /// When a process is on another host and there is no network.
    pub fn new(near: Shm, far: Option<N>, host_of: Rc<[u32]>) -> Self {
        let me = near.me();
        let my_host = host_of[me.index()];
        let alone = host_of.iter().all(|host| *host == my_host);
        assert!(
            far.is_some() || alone,
            "processes on several hosts and no network between them"
        );
        let neighbours = host_of.iter().filter(|host| **host == my_host).count() > 1;
        Self {
            charges: far.as_ref().is_some_and(|far| !far.has_lanes()),
            size: near.size(),
            near,
            far,
            host_of,
            me,
            my_host,
            pace: Pace::new(neighbours),
            tally: tally::Tally::default(),
        }
    }

    /// Every process is reached by the network, also those of this host: `host_of` says where they are for the program.
    ///
    /// # Panics
    /// When there is no network.
    #[must_use]
    pub fn by_network(mut self, host_of: Rc<[u32]>) -> Self {
        assert!(self.far.is_some(), "there is no network");
        (self.host_of, self.my_host) = (host_of, NOWHERE);
        self.pace = Pace::new(false);
        self
    }

    /// The network where it is the only way.
    #[inline]
    fn only(&self) -> Option<&N> {
        self.far.as_ref().filter(|_| self.my_host == NOWHERE)
    }

    /// With only the first `size` processes being of the program.
    ///
    /// # Panics
    /// When there are not so many.
    #[must_use]
    pub fn with_size(mut self, size: u32) -> Self {
        assert!(
            size <= self.near.size(),
            "more processes in the program than there are"
        );
        self.size = size;
        self
    }

    /// The network, where there is one.
    pub fn network(&self) -> Option<&N> {
        self.far.as_ref()
    }

    /// Before a thread waits beside the others of this process, without being in any call: what it has to wait for, so that
    /// it learns of what comes by the network and, if `near`, of being rung by processes of this host. `ready` is asked
    /// once more after everybody can see that. None: there is something now. To be ended by [`disarm_wait`](Self::disarm_wait).
    pub fn arm_wait(
        &self,
        near: bool,
        longest: Duration,
        ready: &mut dyn FnMut() -> bool,
    ) -> Option<ArmedWait> {
        let mut longest = longest;
        let mut network = -1;
        if let Some(far) = &self.far {
            self.pace.hurry();
            self.tell_counters(false);
            match far.descriptor() {
                Some(descriptor) => network = descriptor,
                None => longest = longest.min(UNRUNG_SLEEP),
            }
        }
        let mut ready = || ready() || (self.far.as_ref()).is_some_and(|far| far.progress() || !far.arm());
        let mut pipe = -1;
        if near {
            (pipe, longest) = self.near.arm_wait(longest, &mut ready)?;
        } else if ready() {
            return None;
        }
        Some(ArmedWait {
            descriptors: [pipe, network],
            longest,
        })
    }

    /// The thread that waited is awake, and in a call.
    pub fn disarm_wait(&self, near: bool) {
        self.pace.hurry();
        if near {
            self.near.disarm_wait();
        }
    }

    #[cold]
    #[inline(never)]
    fn charge_far(&self, cost: Cost) {
        if let Some(far) = &self.far {
            far.charge(cost);
        }
    }

    /// The network to `peer`; none for a peer of this host.
    #[inline(always)]
    fn way(&self, peer: Peer) -> Option<&N> {
        let far = self.far.as_ref()?;
        (self.host_of.get(peer.index()).copied() != Some(self.my_host)).then_some(far)
    }
}

/// Whether a list admits no process.
fn nobody(access: &Access) -> bool {
    matches!(access, Access::Only(list) if list.is_empty())
}

impl<N: NetFabric> Routed<N> {
    /// The processes that an access list admits: those of this host, and the others.
    fn split(&self, access: Access) -> (Access, Access) {
        match &access {
            Access::Everyone(_) => (access.clone(), access),
            Access::Only(list) => {
                let of = |near: bool| {
                    let those = list.iter().filter(|(peer, _)| self.maps(*peer) == near);
                    Access::Only(those.copied().collect())
                };
                (of(true), of(false))
            }
        }
    }
}

impl<N: NetFabric> RemoteMemory for Routed<N> {
    const MAPPED: bool = false;
    type Export = Mapping;
    type Import = Either<Mapping, N::Import>;

    #[inline(always)]
    fn maps(&self, peer: Peer) -> bool {
        self.way(peer).is_none()
    }

    /// A segment that nobody on another host may import stays out of the network, and one that nobody here may
    /// import out of the host's table.
    fn export_with(
        &self,
        id: SegmentId,
        len: usize,
        access: Access,
        begin: impl FnOnce(&Mapping),
    ) -> Result<Mapping> {
        if let Some(far) = self.only() {
            return far.export_with(id, len, access, begin);
        }
        let Some(far) = &self.far else {
            return self.near.export_with(id, len, access, begin);
        };
        let (near_list, far_list) = self.split(access);
        if nobody(&far_list) {
            return self.near.export_with(id, len, near_list, begin);
        }
        if nobody(&near_list) {
            return far.export_with(id, len, far_list, begin);
        }
        let memory = self.near.export_with(id, len, near_list, begin)?;
        match far.publish(id, &memory, far_list) {
            Ok(()) => Ok(memory),
            Err(error) => {
                self.near.unpublish(id)?;
                Err(error)
            }
        }
    }

    delegate! {
        to match self.only() { None => self.near, Some(far) => far } {
            fn allocate(&self, len: usize) -> Result<Mapping>;
            fn detach(&self, memory: &Mapping) -> Result<()>;
        }
        to match self.way(peer) { None => self.near, Some(far) => far } {
            fn common(&self, peer: Peer) -> Option<Mapping>;
            fn gives_back(&self, peer: Peer) -> bool;
            fn give_back(&self, peer: Peer, memory: &Mapping, range: std::ops::Range<usize>);
        }
    }

    fn publish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<()> {
        if let Some(far) = self.only() {
            return far.publish(id, memory, access);
        }
        let Some(far) = &self.far else {
            return self.near.publish(id, memory, access);
        };
        let (near_list, far_list) = self.split(access);
        if nobody(&far_list) {
            return self.near.publish(id, memory, near_list);
        }
        if nobody(&near_list) {
            return far.publish(id, memory, far_list);
        }
        self.near.publish(id, memory, near_list)?;
        far.publish(id, memory, far_list)
            .inspect_err(|_| drop(self.near.unpublish(id)))
    }

    fn republish(&self, id: SegmentId, memory: &Mapping, access: Access) -> Result<()> {
        if let Some(far) = self.only() {
            return far.republish(id, memory, access);
        }
        let Some(far) = &self.far else {
            return self.near.republish(id, memory, access);
        };
        // A new list may name processes of a kind that the old one did not.
        let (near_list, far_list) = self.split(access);
        let mut published = false;
        let absent = FabricError::not_published(self.me, id);
        for near in [true, false] {
            let list = if near { &near_list } else { &far_list };
            let again = if near {
                self.near.republish(id, memory, list.clone())
            } else {
                far.republish(id, memory, list.clone())
            };
            match again {
                Ok(()) => published = true,
                Err(error) if error == absent && nobody(list) => {}
                Err(error) if error == absent && near => self.near.publish(id, memory, list.clone())?,
                Err(error) if error == absent => far.publish(id, memory, list.clone())?,
                Err(error) => return Err(error),
            }
        }
        if published {
            Ok(())
        } else {
            self.unpublish(id).and(Err(absent))
        }
    }

    fn unpublish(&self, id: SegmentId) -> Result<()> {
        let near = self.near.unpublish(id);
        match &self.far {
            None => near,
            Some(far) => far.unpublish(id).or(near),
        }
    }

    fn import(&self, peer: Peer, id: SegmentId, len: usize, permission: Permission) -> Result<Self::Import> {
        match self.way(peer) {
            None => self.near.import(peer, id, len, permission).map(Either::One),
            Some(far) => far.import(peer, id, len, permission).map(Either::Other),
        }
    }

    #[inline]
    fn mapped(import: &Self::Import) -> Option<&Mapping> {
        match import {
            Either::One(memory) => Some(memory),
            Either::Other(_) => None,
        }
    }
}

impl<N: NetFabric> PacketQueue for Routed<N> {
    const ORDERED: bool = N::ORDERED;
    const PACKET_BYTES: usize = {
        let (near, far) = (<Shm as PacketQueue>::PACKET_BYTES, N::PACKET_BYTES);
        if near < far { near } else { far }
    };

    delegate! {
        to match self.way(peer) { None => self.near, Some(far) => far } {
            #[inline]
            fn try_send(&self, peer: Peer, port: Port, priority: Priority, payload: &[u8]) -> TrySend;
            #[inline]
            fn try_send_by(&self, route: Route, peer: Peer, port: Port, priority: Priority, payload: &[u8]) -> TrySend;
        }
    }

    #[inline]
    fn poll_priority(&self, port: Port, priority: Priority, mut take: impl FnMut(Peer, &[u8])) -> bool {
        self.near.poll_priority(port, priority, &mut take)
            || (self.far.as_ref()).is_some_and(|far| far.poll_priority(port, priority, take))
    }

    fn packets_waiting(&self, port: Port, priority: Priority, limit: u32) -> u32 {
        let near = self.near.packets_waiting(port, priority, limit);
        let far = |far: &N| far.packets_waiting(port, priority, limit - near);
        near + self.far.as_ref().map_or(0, far)
    }
}

impl<N: NetFabric> BulkTransfer for Routed<N> {
    delegate! {
        to match self.way(peer) { None => self.near, Some(far) => far } {
            #[inline]
            fn can_transfer(&self, peer: Peer) -> bool;
            // SAFETY: the caller's promise is the same.
            #[expr(unsafe { $ })]
            unsafe fn expose(&self, peer: Peer, address: usize, len: usize, writable: bool) -> Result<u64>;
            fn exposed_base(&self, peer: Peer, address: usize) -> u64;
            #[inline]
            fn can_transfer_pieces(&self, peer: Peer) -> bool;
            // SAFETY: the caller's promise is the same.
            #[expr(unsafe { $ })]
            unsafe fn transfer_pieces(&self, peer: Peer, direction: Direction, local: &[Piece], remote: &[Piece]) -> Result<()>;
        }
    }

    fn withdraw(&self, key: u64) {
        if let Some(far) = &self.far {
            far.withdraw(key);
        }
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion> {
        // SAFETY: the caller's promise is the same for both.
        unsafe {
            match self.way(descriptor.peer) {
                None => self.near.submit(descriptor),
                Some(far) => far.submit(descriptor),
            }
        }
    }

    fn poll_transfer(&self, ticket: Ticket) -> Result<bool> {
        // Only the network's transfers take time.
        match &self.far {
            Some(far) => far.poll_transfer(ticket),
            None => self.near.poll_transfer(ticket),
        }
    }

    fn cancel_transfer(&self, ticket: Ticket) {
        if let Some(far) = &self.far {
            far.cancel_transfer(ticket);
        }
    }
}

impl<N: NetFabric> ZeroCopy for Routed<N> {
    delegate! {
        to match self.way(peer) { None => self.near, Some(far) => far } {
            #[inline]
            fn zcopy_room(&self, peer: Peer) -> usize;
            // SAFETY: the caller's promise is the same.
            #[expr(unsafe { $ })]
            unsafe fn send_zcopy(&self, peer: Peer, address: usize, len: usize) -> Result<u32>;
            fn zcopy_sent(&self, peer: Peer, number: u32) -> Result<bool>;
            fn release_zcopy(&self, peer: Peer, number: u32);
            // SAFETY: the caller's promise is the same.
            #[expr(unsafe { $ })]
            unsafe fn land_zcopy(&self, peer: Peer, number: u32, address: usize, len: usize) -> Result<()>;
            fn zcopy_landed(&self, peer: Peer, number: u32) -> Result<bool>;
            fn take_zcopy(&self, peer: Peer, number: u32, len: usize, take: &mut dyn FnMut(&[u8])) -> Result<bool>;
            fn drop_zcopy(&self, peer: Peer, number: u32, len: usize);
        }
    }
}

impl<N: NetFabric> Time for Routed<N> {
    #[inline]
    fn clock(&self) -> &Rc<Clock> {
        match &self.far {
            Some(far) if self.my_host == NOWHERE => far.clock(),
            _ => self.near.clock(),
        }
    }

    fn random(&self) -> u64 {
        match self.only() {
            Some(far) => far.random(),
            None => self.near.random(),
        }
    }

    /// Only a simulated network is no part of what work costs anyway.
    #[inline(always)]
    fn charge(&self, cost: Cost) {
        if self.charges {
            self.charge_far(cost);
        }
    }

    fn has_lanes(&self) -> bool {
        !self.charges
    }

    #[inline(always)]
    fn charge_in_lane(&self, _cost: Cost) {}
}

impl<N: NetFabric> Interrupt for Routed<N> {
    type Bell = Either<ShmBell, N::Bell>;

    fn bell(&self, peer: Peer) -> Self::Bell {
        match self.way(peer) {
            None => Either::One(self.near.bell(peer)),
            Some(far) => Either::Other(far.bell(peer)),
        }
    }

    #[inline(always)]
    fn wake_by(&self, bell: &Self::Bell) {
        match bell {
            Either::One(bell) => self.near.wake_by(bell),
            Either::Other(bell) => {
                if let Some(far) = &self.far {
                    far.wake_by(bell);
                }
            }
        }
    }

    delegate! {
        to match self.way(peer) { None => self.near, Some(far) => far } {
            #[inline]
            fn wake(&self, peer: Peer);
        }
        to self.near {
            fn rings(&self) -> u64;
        }
    }

    fn host(&self) -> Option<Rc<dyn Host>> {
        match self.only() {
            Some(far) => far.host(),
            None => self.near.host(),
        }
    }

    fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake {
        if let Some(far) = self.only() {
            return far.sleep(timeout, ready);
        }
        let Some(far) = &self.far else {
            return self.near.sleep(timeout, ready);
        };
        let Some(descriptor) = far.descriptor() else {
            // A network that cannot wake us is looked after often.
            return self.near.sleep(timeout.min(UNRUNG_SLEEP), ready);
        };
        self.pace.hurry();
        self.tell_counters(false);
        let mut ready = || ready() || far.progress() || !far.arm();
        self.near.sleep_with(descriptor, timeout, &mut ready)
    }
}

/// Longest sleep beside a network that has nothing to be woken by.
const UNRUNG_SLEEP: Duration = Duration::from_micros(200);

impl<N: NetFabric> ErrorStatus for Routed<N> {
    delegate! {
        to self.near {
            fn record_fault(&self, fault: Fault);
            /// Of processes of this host; of others the far fabric tells by itself.
            fn has_ended(&self, peer: Peer) -> bool;
            fn end_of(&self, peer: Peer) -> Option<End>;
        }
        to match self.way(peer) { None => self.near, Some(far) => far } {
            fn is_gone(&self, peer: Peer) -> bool;
        }
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        let (mut faults, mut more) = self.near.take_faults();
        if let Some(far) = &self.far {
            let (far_faults, far_more) = far.take_faults();
            for fault in &far_faults {
                self.near.count(fault.peer, Counter::Faults, 1);
            }
            faults.extend(far_faults);
            more += far_more;
        }
        (faults, more)
    }

    #[inline(always)]
    fn faulted(&self) -> bool {
        match &self.far {
            None => false,
            Some(far) => far.faulted(),
        }
    }
}

/// All counters are in the host's region, where others may watch them; those of other hosts' processes are not.
impl<N: NetFabric> Counters for Routed<N> {
    delegate! {
        to self.near {
            #[inline]
            fn count(&self, peer: Peer, counter: Counter, amount: u64);
            fn set_register(&self, of: Peer, register: Register, value: u64);
            fn register(&self, of: Peer, register: Register) -> u64;
        }
    }

    fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        let own = self.near.counter(of, peer, counter);
        match &self.far {
            Some(far) if of == self.me && tally::COPIED.contains(&counter) => {
                let far = far.counter(of, peer, counter);
                own + far.wrapping_sub(self.tally.told(peer, counter))
            }
            _ => own,
        }
    }
}

impl<N: NetFabric> Topology for Routed<N> {
    fn hosts(&self) -> u32 {
        self.host_of.iter().max().map_or(1, |most| most + 1)
    }

    fn host_of(&self, peer: Peer) -> u32 {
        self.host_of.get(peer.index()).copied().unwrap_or(0)
    }

    fn distance(&self, peer: Peer) -> Distance {
        match self.way(peer) {
            None => self.near.distance(peer),
            Some(far) => far.distance(peer),
        }
    }

    delegate! {
        to match self.way(peer) { None => self.near, Some(far) => far } {
            fn rails(&self, peer: Peer) -> u32;
            fn rail_works(&self, peer: Peer, rail: u32) -> bool;
            fn reroutes(&self, peer: Peer) -> u64;
            fn carried(&self, peer: Peer, rail: u32) -> Carried;
        }
    }

    fn cores_and_processes(&self) -> (u32, u32) {
        match self.only() {
            Some(far) => far.cores_and_processes(),
            None => self.near.cores_and_processes(),
        }
    }
}

impl<N: NetFabric> Fabric for Routed<N> {
    #[inline]
    fn me(&self) -> Peer {
        self.me
    }

    #[inline]
    fn size(&self) -> u32 {
        self.size
    }

    #[inline]
    fn processes(&self) -> u32 {
        self.near.size()
    }

    fn name(&self) -> &'static str {
        match &self.far {
            None => self.near.name(),
            Some(far) => far.name(),
        }
    }

    #[inline(always)]
    fn progress(&self) -> bool {
        match &self.far {
            None => false,
            Some(far) => self.pace.poll(|| {
                if self.tally.is_due() {
                    self.tell_counters(true);
                }
                far.progress()
            }),
        }
    }

    fn close(&self, patience: Duration) {
        if let Some(far) = &self.far {
            self.tell_counters(true);
            far.close(patience);
        }
        self.near.leave();
    }
}
