//! PIO mode (section 5.1): transmit and receive FIFOs of two priorities, and a status word that counts all four.
//!
//! Transmit queues hold [`TRANSMIT`] messages each, as the hardware's did. A message goes to the fabric at once where
//! the fabric accepts it and no other message waits; else it waits here, and every call sends what waits. Receive counts
//! stop at [`RECEIVE_COUNT`]: one status word is good for 40 sends and 32 receives, as in the paper.
//!
//! Messages for a receiver that has ended, or that the fabric has given up, are dropped: nothing waits for them.
//!
//! Cost class: fast path (a message that is sent at once); queued path (one that waits).

use crate::faults::Faults;
use crate::leftover::Leftover;
use crate::message::{self, Header, Message, Packet, Service};
use crate::{JamError, MAX_WORDS};
use farpost_fabric::{Cost, Fabric, FabricError, Fault, Peer, Port, Priority, Register, Route, TrySend};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Messages that a transmit queue holds.
pub const TRANSMIT: usize = 20;
/// Messages in a receive queue that the status word counts.
pub const RECEIVE_COUNT: u32 = 16;

/// The status word: what can be done without asking again. The counts are exact when taken; transmit counts only
/// grow until the next send, receive counts until the next receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    fn new(receive: [u32; 2], transmit: [u32; 2]) -> Self {
        Status(receive[0] | receive[1] << 8 | transmit[0] << 16 | transmit[1] << 24)
    }

    /// Messages waiting in a receive queue, counted up to [`RECEIVE_COUNT`].
    pub fn receive(self, priority: Priority) -> u32 {
        self.0 >> (8 * priority as u32) & 0xff
    }

    /// Messages that a transmit queue takes.
    pub fn transmit(self, priority: Priority) -> u32 {
        self.0 >> (16 + 8 * priority as u32) & 0xff
    }
}

/// One transmit queue.
struct Transmit {
    slots: Box<[Packet; TRANSMIT]>,
    first: usize,
    len: usize,
    /// Messages that need not be in order (the paper's random routing).
    random: usize,
}

impl Transmit {
    fn new() -> Self {
        Self {
            slots: Box::new([Packet::EMPTY; TRANSMIT]),
            first: 0,
            len: 0,
            random: 0,
        }
    }

    fn at(&self, index: usize) -> usize {
        let at = self.first + index;
        if at < TRANSMIT { at } else { at - TRANSMIT }
    }

    fn push(&mut self, packet: &Packet) -> bool {
        if self.len == TRANSMIT {
            return false;
        }
        let at = self.at(self.len);
        self.slots[at] = *packet;
        self.len += 1;
        self.random += usize::from(packet.route == Route::Random);
        true
    }

    fn pop(&mut self) {
        self.random -= usize::from(self.slots[self.first].route == Route::Random);
        self.first = self.at(1);
        self.len -= 1;
    }

    /// Take one out of the middle; the order of the others stays.
    fn remove(&mut self, index: usize) {
        self.random -= usize::from(self.slots[self.at(index)].route == Route::Random);
        for later in index..self.len - 1 {
            let (to, from) = (self.at(later), self.at(later + 1));
            self.slots[to] = self.slots[from];
        }
        self.len -= 1;
    }
}

/// The FIFOs of one process on one port of the fabric.
pub struct Pio<F: Fabric> {
    fabric: Rc<F>,
    me: Peer,
    size: u32,
    port: Port,
    /// Whether messages carry a check.
    checked: bool,
    /// Whether either queue below holds anything: one look on the fast path.
    waiting: Cell<bool>,
    queues: RefCell<[Transmit; 2]>,
    refused: Cell<u64>,
    faults: Rc<Faults<F>>,
    leftover: Rc<Leftover>,
    /// Times that a message found no room.
    held_up: Cell<u32>,
}

impl<F: Fabric> Pio<F> {
    /// The FIFOs on `port`: for layers that carry their own messages by PIO, on a port of their own. Such messages carry the check
    /// (a CRC of 16 bits) in jobs of several hosts: the paper's is about links, and within a host there are none.
    pub fn new(fabric: Rc<F>, port: Port) -> Self {
        farpost_fabric::fits::<F>();
        let faults = Faults::new(Rc::clone(&fabric));
        Self {
            checked: fabric.hosts() > 1,
            ..Self::telling((faults, Rc::default()), fabric, port)
        }
    }

    /// As [`new`](Self::new); what is refused is told to `faults`, and what waits to `leftover`.
    pub(crate) fn telling(
        (faults, leftover): (Rc<Faults<F>>, Rc<Leftover>),
        fabric: Rc<F>,
        port: Port,
    ) -> Self {
        Self {
            me: fabric.me(),
            size: fabric.size(),
            fabric,
            faults,
            leftover,
            port,
            checked: true,
            waiting: Cell::new(false),
            queues: RefCell::new([Transmit::new(), Transmit::new()]),
            refused: Cell::new(0),
            held_up: Cell::new(0),
        }
    }

    /// Launch a message of the user's.
    ///
    /// # Errors
    /// The receiver does not exist, the payload has no legal length, or the transmit queue is full.
    #[inline]
    pub fn send(&self, header: &Header, payload: &[u32]) -> Result<(), JamError> {
        self.send_as(header, Service::User, payload)
    }

    /// As [`send`](Self::send), gathered from words of eight bytes and bytes: together at most 4 * ([`MAX_WORDS`] - 1) bytes, which are
    /// filled up with zeros to whole words, at least one, and the word `last`. For a caller who keeps what does not go at once: nothing waits in the transmit
    /// queue, where it would hold up messages to others. `Ok(false)`: not now.
    ///
    /// # Errors
    /// The receiver does not exist.
    ///
    /// # Panics
    /// With more bytes.
    #[inline(always)]
    pub fn try_bytes(&self, header: &Header, bytes: (&[u64], &[u8]), last: u32) -> Result<bool, JamError> {
        let mut packet = Packet::EMPTY;
        packet.set_bytes(header, Service::User, bytes, last, self.checked);
        self.fabric.charge(Cost::Copy(8 * bytes.0.len() + bytes.1.len()));
        self.check(packet.to)?;
        Ok(self.offer(&packet, header.priority))
    }

    /// What it is on.
    pub(crate) fn fabric(&self) -> &F {
        &self.fabric
    }

    #[inline(always)]
    fn check(&self, peer: Peer) -> Result<(), JamError> {
        let size = self.size;
        if peer.0 < size {
            Ok(())
        } else {
            Err(JamError::NoSuchPeer { peer, size })
        }
    }

    #[inline(always)]
    pub(crate) fn send_as(&self, header: &Header, service: Service, payload: &[u32]) -> Result<(), JamError> {
        let mut packet = Packet::EMPTY;
        packet.set(header, service, payload)?;
        self.fabric.charge(Cost::Copy(size_of_val(payload)));
        self.launch_packet(&packet, header.priority)
    }

    #[inline(always)]
    pub(crate) fn launch_packet(&self, packet: &Packet, priority: Priority) -> Result<(), JamError> {
        self.check(packet.to)?;
        if !self.waiting.get() && self.offer(packet, priority) {
            return Ok(());
        }
        self.enqueue(packet, priority)
    }

    #[inline(always)]
    fn offer(&self, packet: &Packet, priority: Priority) -> bool {
        if self
            .fabric
            .try_send_by(packet.route, packet.to, self.port, priority, packet.bytes())
            == TrySend::Full
        {
            return false;
        }
        self.fabric.wake(packet.to);
        true
    }

    #[cold]
    #[inline(never)]
    fn enqueue(&self, packet: &Packet, priority: Priority) -> Result<(), JamError> {
        self.launch();
        let queues = &mut *self.queues.borrow_mut();
        // Nothing of this priority waits any more, nor anything above it.
        let free = queues[priority as usize].len == 0 && queues[Priority::High as usize].len == 0;
        if free && self.offer(packet, priority) {
            return Ok(());
        }
        if !queues[priority as usize].push(packet) {
            return Err(JamError::TransmitFull(TRANSMIT));
        }
        self.fabric.charge(Cost::Copy(packet.bytes().len()));
        self.waiting.set(true);
        self.leftover.tell();
        Ok(())
    }

    /// Move what waits in the transmit queues. True: something moved.
    #[inline]
    pub fn launch(&self) -> bool {
        self.waiting.get() && self.launch_waiting()
    }

    #[inline(never)]
    fn launch_waiting(&self) -> bool {
        let queues = &mut *self.queues.borrow_mut();
        let mut moved = false;
        for priority in Priority::ALL {
            let queue = &mut queues[priority as usize];
            // In order: the first that finds no room holds up those behind it, but for those that may go any way.
            while queue.len > 0 && self.gone(&queue.slots[queue.first], priority) {
                queue.pop();
                moved = true;
            }
            let mut index = 1;
            while queue.random > 0 && index < queue.len {
                let packet = &queue.slots[queue.at(index)];
                if packet.route == Route::Random && self.gone(packet, priority) {
                    queue.remove(index);
                    moved = true;
                } else {
                    index += 1;
                }
            }
            // High holds up low, never the reverse.
            if queue.len > 0 {
                return moved;
            }
        }
        self.waiting.set(false);
        moved
    }

    /// Whether it went, or has nobody to go to any more. The second may take a system call: asked now and then.
    fn gone(&self, packet: &Packet, priority: Priority) -> bool {
        if self.offer(packet, priority) {
            return true;
        }
        self.held_up.set(self.held_up.get().wrapping_add(1));
        self.held_up.get().is_multiple_of(256) && self.fabric.is_gone(packet.to)
    }

    /// Show `take` the next message of one priority where it lies, whoever's it is: sender, service, second header word, and the
    /// payload as it travels, words of four bytes, the lowest first. What cannot be a message is refused. False: none waited.
    #[inline(always)]
    pub(crate) fn take_in_place(
        &self,
        priority: Priority,
        mut take: impl FnMut(Peer, u8, u32, &[u8]),
    ) -> bool {
        self.fabric.poll_priority(
            self.port,
            priority,
            #[inline(always)]
            |from, bytes| match message::look(bytes, priority, self.me, self.checked) {
                Ok((service, tag, payload)) => take(from, service, tag, payload),
                Err(bad) => self.refuse(from, bad.what, bad.value),
            },
        )
    }

    /// Count and report what a peer sent and should not have.
    #[cold]
    pub fn refuse(&self, peer: Peer, what: &'static str, value: u64) {
        self.refused.set(self.refused.get() + 1);
        self.fabric.add_register(self.me, Register::JamRefused, 1);
        let error = FabricError::corrupt(peer, what, value);
        self.faults.record(Fault { peer, error });
    }

    /// Messages refused so far: a wrong check, a header that cannot be.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// The next message of the user's of one priority.
    #[inline]
    pub fn receive(&self, priority: Priority) -> Option<Message> {
        let mut taken = None;
        while taken.is_none()
            && self.receive_in_place(priority, |from, tag, payload| {
                self.fabric.charge(Cost::Copy(payload.len()));
                taken = Some(Message::of(from, priority, tag, payload));
            })
        {}
        taken
    }

    /// Show `take` the next message of the user's of one priority where it lies: sender, second header word, and the payload
    /// as it travels, words of four bytes, the lowest first. False: none waited. True without a call of `take`: what was there
    /// was refused.
    #[inline(always)]
    pub fn receive_in_place(&self, priority: Priority, mut take: impl FnMut(Peer, u32, &[u8])) -> bool {
        self.take_in_place(
            priority,
            #[inline(always)]
            |from, service, tag, payload| {
                if service == Service::User as u8 {
                    take(from, tag, payload);
                } else {
                    self.refuse(from, "the service of a message", u64::from(service));
                }
            },
        )
    }

    /// All four counts in one word; without those of high priority that have come if they are `excluded`.
    pub(crate) fn status(&self, excluded: bool) -> Status {
        self.launch();
        self.fabric.charge(Cost::Poll);
        let count = |priority| match (excluded, priority) {
            (true, Priority::High) => 0,
            _ => self.fabric.packets_waiting(self.port, priority, RECEIVE_COUNT),
        };
        let queues = self.queues.borrow();
        let room = |priority: Priority| (TRANSMIT - queues[priority as usize].len) as u32;
        Status::new(Priority::ALL.map(count), Priority::ALL.map(room))
    }

    /// Whether something waits to be launched.
    pub fn has_waiting(&self) -> bool {
        self.waiting.get()
    }
}

/// Words of a byte string, the last one filled up with zeros, at least two.
pub(crate) fn words_of(bytes: &[u8], to: &mut [u32; MAX_WORDS]) -> usize {
    for (word, part) in to.iter_mut().zip(bytes.chunks(4)) {
        let mut whole = [0; 4];
        whole[..part.len()].copy_from_slice(part);
        *word = u32::from_le_bytes(whole);
    }
    bytes.len().div_ceil(4)
}

/// The reverse: words as bytes.
pub(crate) fn bytes_of(words: &[u32], to: &mut [u8; 4 * MAX_WORDS]) -> usize {
    for (part, word) in to.chunks_exact_mut(4).zip(words) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    4 * words.len()
}
