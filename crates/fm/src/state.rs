//! The host's side of the protocol: the four queues, the window, what is owed, and the sorting of what arrives. Knows
//! nothing of handlers.
//!
//! Cost class: fast path, but for returned frames, full queues and lost peers.

use crate::host_receive_queue::{self, HostReceiveQueue};
use crate::owed_acks::OwedAcks;
use crate::reject_queue::RejectQueue;
use crate::send_queue::{self, SendQueue};
use crate::window::Window;
use crate::wire::{Acks, END, Frame, FrameKind, Header, Malformed, OLDEST, WANTS_ACK};
use crate::{FmTunables, receive_queue};
use farpost_fabric::{
    Cost, Counter, Fabric, Fault, Interrupt, PacketQueue, Peer, PeerMap, Port, Priority, TrySend,
};

/// Creditors of acknowledgements at once, and senders whose order is remembered.
const PEERS_MAX: u32 = 64;
/// Peers remembered as lost.
pub(crate) const LOST_MAX: usize = 64;
/// Faults kept until somebody asks.
pub(crate) const FAULTS_MAX: usize = 64;
/// Packets of control taken in at once, and frames sent again.
const CONTROL_AT_ONCE: u32 = 64;
const AGAIN_AT_ONCE: u32 = 4;

/// What has happened at a node, counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FmCounters {
    /// Frames sent, those sent again not included.
    pub sent: u64,
    /// Frames accepted.
    pub accepted: u64,
    /// Frames that this node had no room for and returned.
    pub rejected: u64,
    /// Frames of this node that came back.
    pub returned: u64,
    /// Frames sent again.
    pub again: u64,
    /// Acknowledgements that travelled with another frame.
    pub piggybacked: u64,
    /// Packets with nothing but acknowledgements.
    pub explicit: u64,
    /// Values refused.
    pub faults: u64,
}

/// A message of several pieces that is arriving.
pub struct IncomingMessage {
    pub peer: u32,
    /// Its last piece has been accepted, or will never come.
    pub ended: bool,
    /// What handles it.
    pub stage: MessageStage,
    /// Bytes that have been handled, and announced.
    pub handled: usize,
    pub announced: usize,
}

/// How far the handling of an incoming message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageStage {
    /// No handler has seen it.
    Fresh,
    /// The handler on that stack waits for more.
    Waits(usize),
    /// Nobody wants the rest.
    Discarded,
}

/// What became of a look at the receive queue.
pub enum PollOutcome {
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

/// See the [module](self).
pub struct FmState {
    /// The fabric's queues that this node uses.
    pub port: Port,
    /// Nothing that goes to one node may hold up what goes to others: nobody gets more than a share of the slots, and what
    /// the network does not take stays with the caller. So where the caller carries what others wait for.
    pub shares: bool,
    send: SendQueue,
    send_host: send_queue::HostSide,
    send_lanai: send_queue::LanaiSide,
    receive: HostReceiveQueue,
    receive_lanai: host_receive_queue::LanaiSide,
    receive_host: host_receive_queue::HostSide,
    pub(crate) reject: RejectQueue,
    pub window: Window,
    pub(crate) owed: OwedAcks,
    /// Per sender, the number of the piece that comes next. May forget: pieces then come back until one says that it is
    /// the oldest.
    order: PeerMap<u16>,
    pub incoming: Vec<IncomingMessage>,
    max_incoming: usize,
    /// A frame taken from the receive queue that could be neither accepted nor returned yet. None is taken after it.
    pub(crate) in_hand: Option<(Frame, Header)>,
    turn: u32,
    /// Acknowledgements owed to one sender that are sent by themselves.
    ack_after: u32,
    /// Somebody runs out of slots.
    urgent: bool,
    pub(crate) lost: Vec<u32>,
    pub(crate) faults: Vec<Fault>,
    pub faults_lost: u64,
    pub figures: FmCounters,
}

impl FmState {
    pub fn new(tunables: &FmTunables, port: Port) -> Self {
        let slots = tunables.slots as u32;
        // The counters start where they soon wrap, so that wrapping is what always happens.
        let (send, send_host, send_lanai) = SendQueue::new(slots, u32::MAX - slots);
        let (receive, receive_lanai, receive_host) =
            HostReceiveQueue::new(tunables.receive as u32, u32::MAX - slots);
        Self {
            port,
            shares: false,
            send,
            send_host,
            send_lanai,
            receive,
            receive_lanai,
            receive_host,
            reject: RejectQueue::new(slots),
            window: Window::new(slots),
            owed: OwedAcks::new(PEERS_MAX),
            order: PeerMap::new(PEERS_MAX as usize),
            incoming: Vec::with_capacity(tunables.streams as usize),
            max_incoming: tunables.streams as usize,
            in_hand: None,
            turn: 0,
            ack_after: (slots / 4).max(1),
            urgent: false,
            lost: Vec::with_capacity(LOST_MAX),
            faults: Vec::with_capacity(FAULTS_MAX),
            faults_lost: 0,
            figures: FmCounters::default(),
        }
    }

    // Sending.

    /// Send a frame, some words and after them bytes: reserve a slot, and put it into the network or, if that is full, into the send queue. False: no slot
    /// is free; or, where nodes [have shares](Self::shares), not now.
    #[inline(always)]
    pub fn offer<F: Fabric>(
        &mut self,
        fabric: &F,
        peer: u32,
        header: &mut Header,
        (lead, payload): (&[u64], &[u8]),
    ) -> bool {
        if header.kind == FrameKind::Piece && self.reject.holds_pieces(peer) {
            return false;
        }
        if self.shares && self.window.has_share(peer, fabric.size()) {
            return false;
        }
        let Some(seq) = self.window.reserve(peer, header.kind) else {
            fabric.count(Peer(peer), Counter::Stalls, 1);
            return false;
        };
        header.seq = seq;
        let mut frame = Frame::empty();
        frame.set(peer, header, lead, payload);
        fabric.charge(Cost::Copy(usize::from(header.len)));
        if !(self.send.all_sent(&self.send_host) && self.transmit(fabric, &mut frame, header)) {
            // In the queue it would hold up what goes to others.
            if self.shares {
                self.window.unreserve(peer, header.kind);
                return false;
            }
            fabric.charge(Cost::Copy(frame.packet().len()));
            let put = self.send.put(&mut self.send_host, &frame);
            debug_assert!(put, "the send queue has room for all slots");
        }
        self.figures.sent += 1;
        true
    }

    /// Into the network, with what is owed. False: it is full.
    #[inline(always)]
    fn transmit<F: Fabric>(&mut self, fabric: &F, frame: &mut Frame, header: &mut Header) -> bool {
        let peer = frame.peer;
        let Some(oldest) = self.window.is_oldest(peer, header) else {
            // The peer was lost meanwhile.
            return true;
        };
        header.flags &= !(OLDEST | WANTS_ACK);
        if oldest {
            header.flags |= OLDEST;
        }
        if self.window.is_scarce() {
            header.flags |= WANTS_ACK;
        }
        header.acks = self.owed.to(peer);
        frame.set_header(header);
        match fabric.try_send(Peer(peer), self.port, Priority::Low, frame.packet()) {
            TrySend::Full => return false,
            TrySend::Sent => {}
        }
        fabric.wake(Peer(peer));
        self.window.left(peer, header.kind);
        self.figures.piggybacked += u64::from(header.acks.total());
        self.owed.told(peer, header.acks);
        true
    }

    /// The interface's turn: what waits in the send queue, then some of what came back and is due.
    fn pump<F: Fabric>(&mut self, fabric: &F) {
        let mut frame = Frame::empty();
        while self.send.front(&self.send_lanai, &mut frame) {
            fabric.charge(Cost::Copy(frame.packet().len()));
            let mut header = frame.header().expect("written by this process");
            if !self.transmit(fabric, &mut frame, &mut header) {
                return;
            }
            self.send.sent(&mut self.send_lanai);
        }
        for _ in 0..AGAIN_AT_ONCE {
            let Some(at) = self.reject.due(self.turn) else {
                return;
            };
            let (mut frame, mut header) = self.reject.at(at);
            fabric.charge(Cost::Copy(frame.packet().len()));
            if !self.transmit(fabric, &mut frame, &mut header) {
                // Those to others need not wait for that.
                self.reject.delay(frame.peer, self.turn);
                continue;
            }
            self.reject.taken(at);
            self.figures.again += 1;
            fabric.count(Peer(frame.peer), Counter::Retries, 1);
        }
    }

    /// Acknowledge everything that is owed, as far as there is room.
    pub fn acknowledge_all<F: Fabric>(&mut self, fabric: &F) {
        if self.owed.is_empty() {
            return;
        }
        let (explicit, port) = (&mut self.figures.explicit, self.port);
        self.owed.tell_all(|peer, acks| {
            let told = acknowledge(fabric, port, peer, acks);
            *explicit += u64::from(told);
            told
        });
        self.urgent = !self.owed.is_empty();
    }

    /// At the end of a round of handlers: acknowledge if somebody runs out of slots.
    #[inline(always)]
    pub fn acknowledge_if_urgent<F: Fabric>(&mut self, fabric: &F) {
        if self.urgent {
            self.acknowledge_all(fabric);
        }
    }

    // Moving.

    /// Take in control, and send what can be sent. Never runs a handler.
    #[inline(always)]
    pub fn serve<F: Fabric>(&mut self, fabric: &F) {
        fabric.progress();
        let port = self.port;
        let mut taken = 0;
        while taken < CONTROL_AT_ONCE
            && receive_queue::control(fabric, port, |frame| self.sort_control(fabric, frame))
        {
            taken += 1;
        }
        if !(self.send.all_sent(&self.send_host) && self.reject.is_empty()) {
            self.turn = self.turn.wrapping_add(1);
            self.pump(fabric);
        }
    }

    /// Time has passed that calls do not show: what came back may go again.
    pub fn time_passed(&mut self) {
        self.reject.hurry_all(self.turn);
    }

    #[inline(always)]
    fn acknowledged<F: Fabric>(&mut self, fabric: &F, peer: u32, acks: Acks) {
        if acks.is_zero() {
            return;
        }
        if let Err(bad) = self.window.acknowledged(peer, acks) {
            self.refuse(fabric, peer, bad);
        } else if !self.reject.is_empty() {
            self.reject.hurry(peer, self.turn);
        }
    }

    fn sort_control<F: Fabric>(&mut self, fabric: &F, frame: &mut Frame) {
        let peer = frame.peer;
        if self.is_lost(peer) {
            return;
        }
        let mut header = match frame.header() {
            Ok(header) if header.returned || header.kind == FrameKind::Ack => header,
            Ok(_) => {
                let what = "control in the queue for it";
                return self.refuse(
                    fabric,
                    peer,
                    Malformed {
                        what,
                        value: u64::from(frame.packet()[0]),
                    },
                );
            }
            Err(bad) => return self.refuse(fabric, peer, bad),
        };
        self.acknowledged(fabric, peer, header.acks);
        if header.returned {
            header.returned = false;
            if let Err(bad) = self.window.returned(peer, &header) {
                return self.refuse(fabric, peer, bad);
            }
            header.acks = Acks::default();
            frame.set_header(&header);
            fabric.charge(Cost::Copy(frame.packet().len()));
            self.reject.put(frame, &header, self.turn);
            self.figures.returned += 1;
        }
    }

    // Receiving.

    /// Take a frame of data from the network and accept it if there is `room`; else return it.
    #[inline(always)]
    fn poll<F: Fabric>(&mut self, fabric: &F, room: bool, frame: &mut Frame) -> PollOutcome {
        let header = if self.in_hand.is_some() {
            let (held, header) = self.in_hand.take().expect("just looked");
            *frame = held;
            header
        } else {
            if !receive_queue::data(fabric, self.port, frame) {
                return PollOutcome::Nothing;
            }
            if !self.lost.is_empty() && self.is_lost(frame.peer) {
                return PollOutcome::Sorted;
            }
            match frame.header() {
                Ok(mut header) if !header.returned && header.kind != FrameKind::Ack => {
                    self.acknowledged(fabric, frame.peer, header.acks);
                    header.acks = Acks::default();
                    header
                }
                Ok(_) => {
                    let (what, value) = ("data in the queue for it", u64::from(frame.packet()[0]));
                    self.refuse(fabric, frame.peer, Malformed { what, value });
                    return PollOutcome::Sorted;
                }
                Err(bad) => {
                    self.refuse(fabric, frame.peer, bad);
                    return PollOutcome::Sorted;
                }
            }
        };
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
            if !self.give_back(fabric, frame, &header) {
                self.in_hand = Some((*frame, header));
                return PollOutcome::Nothing;
            }
            return PollOutcome::Sorted;
        }
        // What is refused is acknowledged too: its sender's slot is free, and other messages go on.
        self.owe(fabric, peer, &header);
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
        let (begins, ends) = (header.has(crate::wire::BEGIN), header.has(END));
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
    fn give_back<F: Fabric>(&mut self, fabric: &F, frame: &mut Frame, header: &Header) -> bool {
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
        true
    }

    /// The next accepted frame: from the host receive queue, or straight from the network.
    #[inline(always)]
    pub fn next<F: Fabric>(&mut self, fabric: &F, straight: bool, frame: &mut Frame) -> Option<Header> {
        if !straight {
            fabric.charge(Cost::Poll);
        }
        if self.receive.waiting(&self.receive_host) > 0 {
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
            match self.poll(fabric, true, frame) {
                PollOutcome::Accepted(header) => return Some(header),
                PollOutcome::Nothing => return None,
                PollOutcome::Sorted => {}
            }
        }
        None
    }

    /// Move what the network has brought to the host receive queue; what finds no room goes back to its sender.
    pub fn drain<F: Fabric>(&mut self, fabric: &F) {
        let mut frame = Frame::empty();
        // As much as may wait in a network of that size, and no more: senders must not keep this call going.
        for _ in 0..self.window.slots().saturating_mul(2) {
            if !self.can_owe(fabric) {
                return;
            }
            let room = self.receive.has_room(&self.receive_lanai);
            match self.poll(fabric, room, &mut frame) {
                PollOutcome::Accepted(_) => {
                    fabric.charge(Cost::Copy(frame.packet().len()));
                    let delivered = self.receive.deliver(&mut self.receive_lanai, &frame);
                    debug_assert!(delivered);
                }
                PollOutcome::Nothing => return,
                PollOutcome::Sorted => {}
            }
        }
    }

    /// Whether something of this node's has not left it yet, or is back.
    #[inline(always)]
    pub fn has_unsent(&self) -> bool {
        !(self.send.all_sent(&self.send_host) && self.reject.is_empty() && self.in_hand.is_none())
    }

    /// Whether nothing of this node's is outstanding or owed.
    pub fn is_settled(&self) -> bool {
        self.window.is_idle() && self.owed.is_empty() && self.in_hand.is_none()
    }
}

/// A packet with nothing but acknowledgements. False: no room.
fn acknowledge<F: PacketQueue + Interrupt>(fabric: &F, port: Port, peer: u32, acks: Acks) -> bool {
    let mut header = Header::new(FrameKind::Ack, 0, 0, 0);
    header.acks = acks;
    let frame = Frame::new(peer, &header, &[]);
    let sent = fabric.try_send(Peer(peer), port, Priority::High, frame.packet()) == TrySend::Sent;
    if sent {
        fabric.wake(Peer(peer));
    }
    sent
}
