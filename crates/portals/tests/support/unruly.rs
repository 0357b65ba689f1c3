//! A fabric around a fabric that loses, repeats, holds back and damages packets, and damages what is fetched, from a seed.

use farpost_fabric::clock::Clock;
use farpost_fabric::*;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// What happens to packets: one in so many, 0 none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chances {
    pub lost: u32,
    pub repeated: u32,
    pub held_back: u32,
    pub damaged: u32,
    /// Polls, in which one of the packets sent so far, however long ago, comes again.
    pub late: u32,
    /// Transfers, not packets, and exactly each so-many-th: a byte of what came is another one.
    pub fetched_wrong: u32,
    /// Not a chance: packets that there is room for between two calls of progress, whoever they are for; 0: any number.
    pub at_a_time: u32,
}

/// Packets of a process that come again long after.
const MOST_LATE: u32 = 500;

struct Held {
    /// Polls until it comes.
    polls: u32,
    to: Peer,
    port: Port,
    priority: Priority,
    bytes: Vec<u8>,
}

pub struct Unruly<F> {
    pub inner: Rc<F>,
    chances: Chances,
    rng: RefCell<fastrand::Rng>,
    held: RefCell<VecDeque<Held>>,
    /// Some of what was sent.
    sent: RefCell<Vec<Held>>,
    /// Packets that came again long after.
    lately: Cell<u32>,
    /// Packets sent since the last call of progress.
    lately_sent: Cell<u32>,
    /// What is being fetched, by ticket.
    fetching: RefCell<Vec<(Ticket, Piece)>>,
    fetched: Cell<u64>,
    /// Transfers damaged.
    pub wrong: Cell<u64>,
}

impl<F: Fabric> Unruly<F> {
    pub fn new(inner: Rc<F>, seed: u64, chances: Chances) -> Self {
        let seed = seed * 1000 + u64::from(inner.me().0);
        Self {
            inner,
            chances,
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
            held: RefCell::default(),
            sent: RefCell::default(),
            lately: Cell::new(0),
            lately_sent: Cell::new(0),
            fetching: RefCell::default(),
            fetched: Cell::new(0),
            wrong: Cell::new(0),
        }
    }

    /// Bytes have come to this memory.
    fn spoil(&self, memory: Piece) {
        if memory.len == 0 || self.chances.fetched_wrong == 0 {
            return;
        }
        self.fetched.set(self.fetched.get() + 1);
        if self
            .fetched
            .get()
            .is_multiple_of(u64::from(self.chances.fetched_wrong))
        {
            self.wrong.set(self.wrong.get() + 1);
            let at = memory.address + self.rng.borrow_mut().usize(0..memory.len);
            // SAFETY: memory that whoever asked for the transfer lends to it until it hears that it has ended.
            unsafe { *std::ptr::with_exposed_provenance_mut::<u8>(at) ^= 4 };
        }
    }

    fn one_in(&self, chances: u32) -> bool {
        chances > 0 && self.rng.borrow_mut().u32(0..chances) == 0
    }

    /// Keep a packet, to come again.
    fn remember(&self, (to, port, priority): (Peer, Port, Priority), bytes: &[u8]) {
        const MOST: usize = 300;
        if self.chances.late == 0 {
            return;
        }
        let mut sent = self.sent.borrow_mut();
        if sent.len() == MOST {
            let at = self.rng.borrow_mut().usize(..MOST);
            sent.swap_remove(at);
        }
        sent.push(Held {
            polls: 0,
            to,
            port,
            priority,
            bytes: bytes.to_vec(),
        });
    }

    fn release(&self) {
        if self.lately.get() < MOST_LATE
            && self.one_in(self.chances.late)
            && let Some(packet) = self.rng.borrow_mut().choice(&*self.sent.borrow())
        {
            self.lately.set(self.lately.get() + 1);
            let (port, priority) = (packet.port, packet.priority);
            let _ = self.inner.try_send(packet.to, port, priority, &packet.bytes);
        }
        let mut held = self.held.borrow_mut();
        for packet in held.iter_mut() {
            packet.polls = packet.polls.saturating_sub(1);
        }
        held.retain(|packet| {
            packet.polls > 0
                || self
                    .inner
                    .try_send(packet.to, packet.port, packet.priority, &packet.bytes)
                    == TrySend::Full
        });
    }
}

impl<F: Fabric> PacketQueue for Unruly<F> {
    const ORDERED: bool = false;
    const PACKET_BYTES: usize = F::PACKET_BYTES;

    fn try_send(&self, peer: Peer, port: Port, priority: Priority, payload: &[u8]) -> TrySend {
        if self.chances.at_a_time > 0 {
            if self.lately_sent.get() >= self.chances.at_a_time {
                return TrySend::Full;
            }
            self.lately_sent.set(self.lately_sent.get() + 1);
        }
        if self.one_in(self.chances.lost) {
            return TrySend::Sent;
        }
        self.remember((peer, port, priority), payload);
        let mut bytes = payload.to_vec();
        if self.one_in(self.chances.damaged) {
            let mut rng = self.rng.borrow_mut();
            let at = rng.usize(0..bytes.len());
            bytes[at] ^= 1 << rng.u32(0..8);
            if rng.u32(0..4) == 0 {
                let len = rng.usize(0..bytes.len());
                bytes.truncate(len);
            }
        }
        let mut copies = 1 + u32::from(self.one_in(self.chances.repeated));
        if !self.one_in(self.chances.held_back) {
            if self.inner.try_send(peer, port, priority, &bytes) == TrySend::Full {
                return TrySend::Full;
            }
            copies -= 1;
        }
        for _ in 0..copies {
            self.held.borrow_mut().push_back(Held {
                polls: self.rng.borrow_mut().u32(1..200),
                to: peer,
                port,
                priority,
                bytes: bytes.clone(),
            });
        }
        TrySend::Sent
    }

    fn poll_priority(&self, port: Port, priority: Priority, take: impl FnMut(Peer, &[u8])) -> bool {
        self.release();
        self.inner.poll_priority(port, priority, take)
    }

    fn packets_waiting(&self, port: Port, priority: Priority, limit: u32) -> u32 {
        self.inner.packets_waiting(port, priority, limit)
    }
}

impl<F: Fabric> RemoteMemory for Unruly<F> {
    const MAPPED: bool = F::MAPPED;
    type Export = F::Export;
    type Import = F::Import;

    fn maps(&self, peer: Peer) -> bool {
        self.inner.maps(peer)
    }
    fn export_with(
        &self,
        id: SegmentId,
        len: usize,
        access: Access,
        begin: impl FnOnce(&F::Export),
    ) -> Result<F::Export, FabricError> {
        self.inner.export_with(id, len, access, begin)
    }
    fn unpublish(&self, id: SegmentId) -> Result<(), FabricError> {
        self.inner.unpublish(id)
    }
    fn allocate(&self, len: usize) -> Result<F::Export, FabricError> {
        self.inner.allocate(len)
    }
    fn publish(&self, id: SegmentId, memory: &F::Export, access: Access) -> Result<(), FabricError> {
        self.inner.publish(id, memory, access)
    }
    fn republish(&self, id: SegmentId, memory: &F::Export, access: Access) -> Result<(), FabricError> {
        self.inner.republish(id, memory, access)
    }
    fn import(
        &self,
        peer: Peer,
        id: SegmentId,
        len: usize,
        permission: Permission,
    ) -> Result<F::Import, FabricError> {
        self.inner.import(peer, id, len, permission)
    }
    fn mapped(import: &F::Import) -> Option<&F::Export> {
        F::mapped(import)
    }
}

impl<F: Fabric> BulkTransfer for Unruly<F> {
    fn can_transfer(&self, peer: Peer) -> bool {
        self.inner.can_transfer(peer)
    }
    unsafe fn expose(
        &self,
        peer: Peer,
        address: usize,
        len: usize,
        writable: bool,
    ) -> Result<u64, FabricError> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.expose(peer, address, len, writable) }
    }
    fn exposed_base(&self, peer: Peer, address: usize) -> u64 {
        self.inner.exposed_base(peer, address)
    }
    fn withdraw(&self, key: u64) {
        self.inner.withdraw(key);
    }
    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion, FabricError> {
        // SAFETY: the caller's promise, passed on.
        let submitted = unsafe { self.inner.submit(descriptor) };
        let memory = Piece {
            address: descriptor.local,
            len: descriptor.len,
        };
        match submitted {
            Ok(Completion::Done) if descriptor.direction == Direction::Get => self.spoil(memory),
            Ok(Completion::Pending(ticket)) if descriptor.direction == Direction::Get => {
                self.fetching.borrow_mut().push((ticket, memory));
            }
            _ => {}
        }
        submitted
    }
    fn can_transfer_pieces(&self, peer: Peer) -> bool {
        self.inner.can_transfer_pieces(peer)
    }
    unsafe fn transfer_pieces(
        &self,
        peer: Peer,
        direction: Direction,
        local: &[Piece],
        remote: &[Piece],
    ) -> Result<(), FabricError> {
        // SAFETY: the caller's promise, passed on.
        let moved = unsafe { self.inner.transfer_pieces(peer, direction, local, remote) };
        if moved.is_ok() && direction == Direction::Get {
            local.iter().for_each(|piece| self.spoil(*piece));
        }
        moved
    }
    fn poll_transfer(&self, ticket: Ticket) -> Result<bool, FabricError> {
        let ended = self.inner.poll_transfer(ticket);
        if !matches!(ended, Ok(false)) {
            let mut fetching = self.fetching.borrow_mut();
            if let Some(at) = fetching.iter().position(|(of, _)| *of == ticket) {
                let (_, memory) = fetching.swap_remove(at);
                if ended.is_ok() {
                    self.spoil(memory);
                }
            }
        }
        ended
    }
    fn cancel_transfer(&self, ticket: Ticket) {
        self.fetching.borrow_mut().retain(|(of, _)| *of != ticket);
        self.inner.cancel_transfer(ticket);
    }
}

impl<F: Fabric> ZeroCopy for Unruly<F> {}

impl<F: Fabric> Time for Unruly<F> {
    #[inline]
    fn clock(&self) -> &Rc<Clock> {
        self.inner.clock()
    }
    fn random(&self) -> u64 {
        self.inner.random()
    }
    #[inline(always)]
    fn charge(&self, cost: Cost) {
        self.inner.charge(cost);
    }
}

impl<F: Fabric> Interrupt for Unruly<F> {
    type Bell = F::Bell;
    fn bell(&self, peer: Peer) -> F::Bell {
        self.inner.bell(peer)
    }
    fn wake_by(&self, bell: &F::Bell) {
        self.inner.wake_by(bell);
    }
    fn wake(&self, peer: Peer) {
        self.inner.wake(peer);
    }
    fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake {
        self.inner.sleep(timeout, ready)
    }
}

impl<F: Fabric> ErrorStatus for Unruly<F> {
    fn record_fault(&self, fault: Fault) {
        self.inner.record_fault(fault);
    }
    fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.inner.take_faults()
    }
    fn has_ended(&self, peer: Peer) -> bool {
        self.inner.has_ended(peer)
    }
}

impl<F: Fabric> Counters for Unruly<F> {
    fn count(&self, peer: Peer, counter: Counter, amount: u64) {
        self.inner.count(peer, counter, amount);
    }
    fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        self.inner.counter(of, peer, counter)
    }
}

impl<F: Fabric> Topology for Unruly<F> {
    fn hosts(&self) -> u32 {
        self.inner.hosts()
    }
    fn host_of(&self, peer: Peer) -> u32 {
        self.inner.host_of(peer)
    }
    fn distance(&self, peer: Peer) -> Distance {
        self.inner.distance(peer)
    }
    fn rails(&self, peer: Peer) -> u32 {
        self.inner.rails(peer)
    }
    fn cores_and_processes(&self) -> (u32, u32) {
        self.inner.cores_and_processes()
    }
}

impl<F: Fabric> Fabric for Unruly<F> {
    fn me(&self) -> Peer {
        self.inner.me()
    }
    fn size(&self) -> u32 {
        self.inner.size()
    }
    fn name(&self) -> &'static str {
        "unruly"
    }
    fn progress(&self) -> bool {
        self.lately_sent.set(0);
        self.inner.progress()
    }
}
