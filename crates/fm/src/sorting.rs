//! Sorting what arrives (paper, section 4.4): control, frames that are accepted, frames that go back.
//!
//! Cost class: fast path, but for frames that are returned, refused or moved to the host receive queue.

use crate::config::{Buffers, Interpret};
use crate::receive_queue;
use crate::state::{CONTROL_AT_ONCE, FmCounters, FmState, IncomingMessage, MessageStage, acknowledge};
use crate::wire::{Acks, BEGIN, END, Frame, FrameKind, Header, Malformed, OLDEST, WANTS_ACK};
use farpost_fabric::{Cost, Fabric, Peer, Priority, Register, TrySend};

/// What became of a look at the receive queue.
enum PollOutcome {
    /// It is empty, or what it holds cannot be taken now.
    Nothing,
    /// The frame has been accepted.
    Accepted(Header),
    /// Something was taken that is none of the host's business: returned, or refused.
    Sorted,
}

enum FrameDecision {
    Accept,
    Return,
    Refuse,
}

/// What happens to a frame that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// It goes back to its sender.
    Returned,
    /// It stays where it is: the program is to decide when it calls. So nobody sends it again and again while the program computes.
    Left,
}

impl<const WORDS: usize> FmState<WORDS> {
    pub(crate) fn sort_control<F: Fabric>(&mut self, fabric: &F, from: Peer, packet: &[u8]) {
        let peer = from.0;
        if self.is_lost(peer) {
            return;
        }
        let mut header = match Header::read(packet) {
            Ok(header) if header.returned || header.kind == FrameKind::Ack => header,
            Ok(_) => {
                let (what, value) = ("control in the queue for it", u64::from(packet[0]));
                return self.refuse(fabric, peer, Malformed { what, value });
            }
            Err(bad) => return self.refuse(fabric, peer, bad),
        };
        self.acknowledged(fabric, peer, header.acks);
        if header.returned {
            header.returned = false;
            if packet.len() > Frame::<WORDS>::BYTES {
                let (what, value) = ("the length of a returned FM frame", packet.len() as u64);
                return self.refuse(fabric, peer, Malformed { what, value });
            }
            if let Err(bad) = self.window.returned(peer, &header) {
                return self.refuse(fabric, peer, bad);
            }
            header.acks = Acks::default();
            let mut frame = Frame::default();
            frame.fill(peer, packet);
            frame.set_header(&header);
            fabric.charge(Cost::Copy(packet.len()));
            self.reject.put(&frame, &header, self.turn);
            self.figures.returned += 1;
            fabric.add_register(fabric.me(), Register::FmReturned, 1);
        }
    }

    /// Take a frame of data from the network and accept it if there is `room`.
    #[inline(always)]
    fn poll<F: Fabric>(
        &mut self,
        fabric: &F,
        (room, overflow): (bool, Overflow),
        frame: &mut Frame<WORDS>,
    ) -> PollOutcome {
        let header = if self.in_hand.is_some() {
            let (held, header) = self.in_hand.take().expect("just looked");
            *frame = held;
            header
        } else {
            if !receive_queue::data(fabric, self.port, frame) {
                return PollOutcome::Nothing;
            }
            match self.read(fabric, frame) {
                Some(header) => header,
                None => return PollOutcome::Sorted,
            }
        };
        self.decide(fabric, (room, overflow), frame, header)
    }

    /// The header of a frame of data, with what it acknowledges taken in. None: nobody wants the frame.
    #[inline(always)]
    fn read<F: Fabric>(&mut self, fabric: &F, frame: &Frame<WORDS>) -> Option<Header> {
        if !self.lost.is_empty() && self.is_lost(frame.peer) {
            return None;
        }
        match frame.header() {
            Ok(mut header) if !header.returned && header.kind != FrameKind::Ack => {
                self.acknowledged(fabric, frame.peer, header.acks);
                header.acks = Acks::default();
                Some(header)
            }
            Ok(_) => {
                let (what, value) = ("data in the queue for it", u64::from(frame.packet()[0]));
                self.refuse(fabric, frame.peer, Malformed { what, value });
                None
            }
            Err(bad) => {
                self.refuse(fabric, frame.peer, bad);
                None
            }
        }
    }

    /// Accept a frame if there is `room`.
    #[inline(always)]
    fn decide<F: Fabric>(
        &mut self,
        fabric: &F,
        (room, overflow): (bool, Overflow),
        frame: &mut Frame<WORDS>,
        header: Header,
    ) -> PollOutcome {
        let peer = frame.peer;
        let verdict = if header.kind == FrameKind::Message {
            if room {
                FrameDecision::Accept
            } else {
                FrameDecision::Return
            }
        } else {
            self.judge_piece(fabric, peer, &header, room)
        };
        if let FrameDecision::Return = verdict {
            if overflow == Overflow::Left || !self.give_back(fabric, frame, &header) {
                self.in_hand = Some((*frame, header));
                return PollOutcome::Nothing;
            }
            return PollOutcome::Sorted;
        }
        // What is refused is acknowledged too: its sender's slot is free, and other messages go on.
        if self.flow_control {
            self.owe(fabric, peer, &header);
        }
        match verdict {
            FrameDecision::Refuse => PollOutcome::Sorted,
            _ => {
                self.figures.accepted += 1;
                PollOutcome::Accepted(header)
            }
        }
    }

    #[inline(always)]
    fn owe<F: Fabric>(&mut self, fabric: &F, peer: u32, header: &Header) {
        let owed = self.owed.add(peer, header.kind);
        self.urgent |= header.has(WANTS_ACK);
        if owed.is_some_and(|owed| owed >= self.ack_after) {
            self.acknowledge_peer(fabric, peer);
        }
    }

    #[cold]
    fn acknowledge_peer<F: Fabric>(&mut self, fabric: &F, peer: u32) {
        let (acks, port) = (self.owed.to(peer), self.port);
        if acknowledge(fabric, port, peer, acks) {
            self.owed.told(peer, acks);
            self.figures.explicit += 1;
        }
    }

    /// Whether there is room for one more creditor, made if need be.
    #[inline(always)]
    fn can_owe<F: Fabric>(&mut self, fabric: &F) -> bool {
        if self.owed.has_room() {
            return true;
        }
        self.acknowledge_all(fabric);
        self.owed.has_room()
    }

    /// Pieces are accepted in order, and the first of a message only when there is a place for the message.
    fn judge_piece<F: Fabric>(
        &mut self,
        fabric: &F,
        peer: u32,
        header: &Header,
        room: bool,
    ) -> FrameDecision {
        let places = self.incoming.len() < self.max_incoming;
        let (begins, ends) = (header.has(BEGIN), header.has(END));
        // Without flow control nothing goes back, so what arrives is in order.
        if self.flow_control {
            let next = if header.has(OLDEST) {
                // All entries may go: forgetting costs a return.
                if self.order.is_full() && self.order.get(peer).is_none() {
                    self.order.sweep(|_| true);
                }
                self.order.enter(peer, |_| true)
            } else {
                self.order.get(peer).filter(|next| **next == header.seq)
            };
            let Some(next) = next else {
                return FrameDecision::Return;
            };
            *next = header.seq;
            if !room || begins && !ends && !places {
                return FrameDecision::Return;
            }
            *next = header.seq.wrapping_add(1);
        }
        let open = self
            .incoming
            .iter_mut()
            .find(|one| one.peer == peer && !one.ended);
        match (open, begins) {
            (Some(open), false) => open.ended = ends,
            (None, false) => {
                let what = "a piece of a message that was begun";
                let value = u64::from(header.handler);
                self.refuse(fabric, peer, Malformed { what, value });
                return FrameDecision::Refuse;
            }
            (broken, true) => {
                if let Some(broken) = broken {
                    broken.ended = true;
                }
                if !ends {
                    self.incoming.push(IncomingMessage {
                        peer,
                        ended: false,
                        stage: MessageStage::Fresh,
                        handled: 0,
                        announced: header.announced as usize,
                    });
                }
            }
        }
        FrameDecision::Accept
    }

    /// Send a frame back to its sender. False: not now.
    fn give_back<F: Fabric>(&mut self, fabric: &F, frame: &mut Frame<WORDS>, header: &Header) -> bool {
        let peer = frame.peer;
        let mut back = *header;
        back.returned = true;
        back.tries = header.tries.saturating_add(1);
        back.acks = self.owed.to(peer);
        frame.set_header(&back);
        match fabric.try_send(Peer(peer), self.port, Priority::High, frame.packet()) {
            TrySend::Full => {
                frame.set_header(header);
                return false;
            }
            TrySend::Sent => {}
        }
        fabric.wake(Peer(peer));
        self.owed.told(peer, back.acks);
        self.figures.rejected += 1;
        fabric.add_register(fabric.me(), Register::FmRejected, 1);
        true
    }

    /// Whether an extraction of so many bytes takes frames straight from the network.
    #[inline(always)]
    pub fn goes_straight(&self, max_bytes: usize) -> bool {
        match self.buffers {
            Buffers::AsNeeded => max_bytes == usize::MAX,
            Buffers::None => true,
            Buffers::Always => false,
        }
    }

    /// The next accepted frame: from the host receive queue, or straight from the network.
    #[inline(always)]
    pub fn next<F: Fabric>(
        &mut self,
        fabric: &F,
        straight: bool,
        frame: &mut Frame<WORDS>,
    ) -> Option<Header> {
        if !straight {
            fabric.charge(Cost::Poll);
        }
        if self.receive.waiting(&self.receive_host) > 0 {
            if self.interpret == Interpret::Host {
                return self.next_unsorted(fabric, frame);
            }
            self.receive.extract(&mut self.receive_host, frame);
            fabric.charge(Cost::Copy(frame.packet().len()));
            return Some(frame.header().expect("checked when it was accepted"));
        }
        if !straight {
            return None;
        }
        // Few are returned or refused in a row where there is room.
        for _ in 0..CONTROL_AT_ONCE {
            if !self.can_owe(fabric) {
                return None;
            }
            match self.poll(fabric, (true, Overflow::Returned), frame) {
                PollOutcome::Accepted(header) => return Some(header),
                PollOutcome::Nothing => return None,
                PollOutcome::Sorted => {}
            }
        }
        None
    }

    /// The next frame of the host receive queue that is accepted, where frames come there unseen.
    fn next_unsorted<F: Fabric>(&mut self, fabric: &F, frame: &mut Frame<WORDS>) -> Option<Header> {
        for _ in 0..CONTROL_AT_ONCE {
            if !self.can_owe(fabric) {
                return None;
            }
            let header = match self.in_hand.take() {
                Some((held, header)) => {
                    *frame = held;
                    header
                }
                None => {
                    if !self.receive.extract(&mut self.receive_host, frame) {
                        return None;
                    }
                    fabric.charge(Cost::Copy(frame.packet().len()));
                    match self.read(fabric, frame) {
                        Some(header) => header,
                        None => continue,
                    }
                }
            };
            match self.decide(fabric, (true, Overflow::Returned), frame, header) {
                PollOutcome::Accepted(header) => return Some(header),
                PollOutcome::Nothing => return None,
                PollOutcome::Sorted => {}
            }
        }
        None
    }

    /// Move what the network has brought to the host receive queue, as far as there is room there.
    pub fn drain<F: Fabric>(&mut self, fabric: &F, overflow: Overflow) {
        if self.buffers == Buffers::None {
            return;
        }
        let mut frame = Frame::default();
        let returns = overflow == Overflow::Returned && self.flow_control;
        // As much as may wait in a network of that size, and no more: senders must not keep this call going.
        for _ in 0..self.window.slots().saturating_mul(2) {
            if !self.can_owe(fabric) {
                return;
            }
            let mut room = self.receive.has_room(&self.receive_lanai);
            if self.interpret == Interpret::Host {
                if room && self.in_hand.is_none() {
                    if !receive_queue::data(fabric, self.port, &mut frame) {
                        return;
                    }
                    self.deliver(fabric, &frame);
                    continue;
                }
                // What has been looked at is not put among what has not.
                room = false;
            }
            if !room && !returns {
                return;
            }
            match self.poll(fabric, (room, overflow), &mut frame) {
                PollOutcome::Accepted(_) => self.deliver(fabric, &frame),
                PollOutcome::Nothing => return,
                PollOutcome::Sorted => {}
            }
        }
    }

    fn deliver<F: Fabric>(&mut self, fabric: &F, frame: &Frame<WORDS>) {
        fabric.charge(Cost::Copy(frame.packet().len()));
        let delivered = self.receive.deliver(&mut self.receive_lanai, frame);
        debug_assert!(delivered, "there was room");
    }

    /// What an interface with a processor of its own does while the host computes: take in control, send what waits, move frames to the host receive
    /// queue as far as there is room, acknowledge what was accepted. Whether anything moved.
    pub fn tend<F: Fabric>(&mut self, fabric: &F) -> bool {
        let before = self.standing();
        self.serve(fabric);
        self.drain(fabric, Overflow::Left);
        self.acknowledge_all(fabric);
        self.standing() != before
    }

    /// What changes when something moves.
    fn standing(&self) -> (FmCounters, u32, u32, bool) {
        let (free, waiting) = (self.window.free(), self.receive.waiting(&self.receive_host));
        (self.figures, free, waiting, self.has_unsent())
    }
}
