//! The end of a process that is a coroutine of this one: its link to the machine.

use crate::adapter::Pair;
use crate::calls::Reached;
use crate::core::Core;
use crate::memory::Memory;
use crate::running::Running;
use crate::time::Ps;
use farpost_fabric::segment::Segment;
use farpost_fabric::{
    Access, Cost, Counter, Descriptor, Fault, Grant, Peer, Permission, Result, Route, SegmentId, TrySend,
};
use farpost_simlink::link::Below;
use farpost_simlink::{Arrived, Link, OpId};
use std::cell::RefMut;
use std::rc::Rc;

/// One process's end of a simulated machine.
pub type SimFabric = farpost_simlink::SimFabric<Within>;

/// The link of a process that is a part of this one.
pub struct Within {
    running: Rc<Running>,
    me: Peer,
    size: u32,
}

impl Within {
    pub(crate) fn new(running: Rc<Running>, me: Peer) -> Self {
        let size = running.core.borrow().kernel.procs.size();
        Self { running, me, size }
    }

    fn core(&self) -> RefMut<'_, Core> {
        self.running.core.borrow_mut()
    }

    /// The machine at this process's time.
    fn synced(&self) -> RefMut<'_, Core> {
        self.running.sync(self.me);
        self.core()
    }

    fn pair(&self, peer: Peer) -> Pair {
        Pair {
            from: self.me,
            to: peer,
        }
    }
}

impl Below for Within {
    type Core = Core;

    fn with_core<T>(&self, look: impl FnOnce(&mut Core) -> T) -> T {
        look(&mut self.synced())
    }
}

impl Link for Within {
    /// Frames of Fast Messages of up to 600 bytes, with their headers.
    const PACKET_BYTES: usize = 664;
    type Memory = Segment;
    type Reached = ReachedWithin;

    fn me(&self) -> Peer {
        self.me
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn hosts(&self) -> u32 {
        self.core().kernel.procs.hosts()
    }

    fn host_of(&self, peer: Peer) -> u32 {
        self.core().kernel.procs.host_of(peer).0
    }

    fn rails(&self) -> u32 {
        self.core().kernel.rails()
    }

    fn neighbours(&self) -> u32 {
        let core = self.core();
        core.kernel.procs.on_host(core.kernel.procs.host_of(self.me))
    }

    fn now(&self) -> Ps {
        self.core().kernel.procs.schedule.clock(self.me.0)
    }

    fn spend(&self, time: Ps) {
        self.core().spend(self.me, time);
    }

    fn compute(&self, time: Ps) {
        let mut core = self.core();
        let time = core.kernel.procs.schedule.slowed(self.me.0, time);
        core.compute(self.me, time);
    }

    fn cost(&self, cost: Cost) -> Ps {
        let shared = match cost {
            Cost::Copy(bytes) if self.core().copies_share(bytes) => Some(self.synced().copy(self.me, bytes)),
            _ => None,
        };
        let core = self.core();
        let time = shared.unwrap_or_else(|| core.costs.of(cost));
        core.kernel.procs.schedule.slowed(self.me.0, time)
    }

    fn take_touched(&self) -> bool {
        self.core().kernel.procs.schedule.take_touched(self.me.0)
    }

    fn sync(&self) {
        self.running.sync(self.me);
    }

    fn sleep(&self, period: Ps, deadline: Ps) {
        self.running.sleep(self.me, period, deadline);
    }

    fn random(&self) -> u64 {
        self.core().kernel.chance.u64(..)
    }

    fn try_send(&self, peer: Peer, lane: usize, route: Route, bytes: &[u8]) -> TrySend {
        self.synced().try_send(self.pair(peer), lane, route, bytes)
    }

    fn poll(&self, lane: usize) -> Option<Arrived> {
        self.synced().poll(self.me, lane)
    }

    fn waiting(&self, lane: usize, limit: u32) -> u32 {
        self.synced().waiting(self.me, lane, limit)
    }

    fn allocate(&self, len: usize) -> Result<Segment> {
        Ok(Segment::new(len))
    }

    fn detach(&self, memory: &Segment) -> Result<()> {
        memory.detach();
        Ok(())
    }

    fn clear(&self, memory: &Segment, range: std::ops::Range<usize>) {
        memory.clear(range);
    }

    fn publish(&self, id: SegmentId, memory: &Segment, access: Access) -> Result<()> {
        let memory = Memory::from(memory);
        self.synced().kernel.procs.publish(self.me, id, &memory, access)
    }

    fn republish(&self, id: SegmentId, access: Access) -> Result<()> {
        self.synced().kernel.procs.republish(self.me, id, access)
    }

    fn unpublish(&self, id: SegmentId) -> Result<()> {
        self.synced().kernel.procs.unpublish(self.me, id)
    }

    fn import(
        &self,
        peer: Peer,
        id: SegmentId,
        wanted: (Permission, usize),
    ) -> Result<(ReachedWithin, Grant)> {
        let (reached, grant) = self.synced().import(self.pair(peer), id, wanted)?;
        Ok((ReachedWithin(reached), grant))
    }

    fn put(&self, to: &ReachedWithin, offset: usize, bytes: &[u8], whole: bool) -> Result<()> {
        self.synced().put(&to.0, offset, bytes, whole)
    }

    fn get(&self, from: &ReachedWithin, offset: usize, len: usize) -> Result<OpId> {
        self.synced().get(&from.0, offset, len)
    }

    fn keeps_order(&self, to: &ReachedWithin, line: bool) -> bool {
        self.core().keeps_order(&to.0, line)
    }

    fn fence(&self, of: &ReachedWithin) -> Result<OpId> {
        self.synced().fence(&of.0)
    }

    fn fenced(&self, of: &ReachedWithin) -> Result<()> {
        self.core().fenced(&of.0)
    }

    fn transfers(&self, peer: Peer) -> bool {
        self.core().transfers(self.pair(peer))
    }

    fn expose(&self, peer: Peer, address: usize, len: usize) -> Result<u64> {
        Ok(self.synced().expose(self.pair(peer), address, len))
    }

    fn withdraw(&self, key: u64) {
        self.synced().withdraw(self.me, key);
    }

    fn transfer(&self, descriptor: &Descriptor) -> Result<OpId> {
        self.synced().transfer(self.me, descriptor)
    }

    fn ended(&self, op: OpId, into: &mut [u8]) -> Option<Result<()>> {
        let result = self.synced().kernel.procs.ended(op)?;
        Some(result.map(|bytes| into.copy_from_slice(&bytes)))
    }

    fn record_fault(&self, fault: Fault) {
        self.core().kernel.procs.record_fault(self.me, fault);
    }

    fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.core().kernel.procs.take_faults(self.me)
    }

    fn faulted(&self) -> bool {
        self.core().kernel.procs.has_faults(self.me)
    }

    fn is_dead(&self, peer: Peer) -> bool {
        self.core().kernel.procs.of(peer).dead.is_some()
    }

    fn count(&self, about: Peer, counter: Counter, amount: u64) {
        self.core().kernel.procs.count(self.me, about, counter, amount);
    }

    fn counter(&self, of: Peer, about: Peer, counter: Counter) -> u64 {
        self.core().kernel.procs.counter(of, about, counter)
    }
}

/// A segment of a peer's.
#[derive(Clone)]
pub struct ReachedWithin(Reached);
