//! The host's side of the protocol: the four queues, the window, what is owed, and sending; what arrives is sorted in [`crate::sorting`]. Knows
//! nothing of handlers.
//!
//! Cost class: fast path, but for returned frames, full queues and lost peers.

use crate::config::{Buffers, FmConfig, Interpret};
use crate::host_receive_queue::{self, HostReceiveQueue};
use crate::overdue::OverdueFrames;
use crate::owed_acks::OwedAcks;
use crate::receive_queue;
use crate::reject_queue::RejectQueue;
use crate::send_queue::{self, SendQueue};
use crate::window::Window;
use crate::wire::{Acks, Frame, FrameKind, Header, OLDEST, WANTS_ACK};
use farpost_fabric::{
    Cost, Counter, Fabric, Fault, Interrupt, PacketQueue, Peer, PeerMap, Port, Priority, TrySend,
};

/// Creditors of acknowledgements at once, and senders whose order is remembered.
const PEERS_MAX: u32 = 64;
/// Peers remembered as lost.
pub(crate) const LOST_MAX: usize = 64;
/// Faults kept until somebody asks.
pub(crate) const FAULTS_MAX: usize = 64;
/// Frames that may be kept for each place of the host receive queue.
const KEPT_FOR_EACH: usize = 64;
/// Packets of control taken in at once, and frames sent again.
pub(crate) const CONTROL_AT_ONCE: u32 = 64;
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

/// See the [module](self).
pub struct FmState<const WORDS: usize> {
    /// The fabric's queues that this node uses.
    pub port: Port,
    /// Nothing that goes to one node may hold up what goes to others: nobody gets more than a share of the slots, and what
    /// the network does not take stays with the caller. So where the caller carries what others wait for.
    pub shares: bool,
    /// What is sent goes another way than most: a node that shares, or has other [features](crate::config).
    otherwise: bool,
    pub(crate) buffers: Buffers,
    pub(crate) flow_control: bool,
    pub(crate) interpret: Interpret,
    send: SendQueue,
    send_host: send_queue::HostSide,
    send_lanai: send_queue::LanaiSide,
    pub(crate) receive: HostReceiveQueue,
    pub(crate) receive_lanai: host_receive_queue::LanaiSide,
    pub(crate) receive_host: host_receive_queue::HostSide,
    pub(crate) reject: RejectQueue<WORDS>,
    pub(crate) kept: OverdueFrames<WORDS>,
    pub window: Window,
    pub(crate) owed: OwedAcks,
    /// Per sender, the number of the piece that comes next. May forget: pieces then come back until one says that it is
    /// the oldest.
    pub(crate) order: PeerMap<u16>,
    pub incoming: Vec<IncomingMessage>,
    pub(crate) max_incoming: usize,
    /// A frame taken from the receive queue that could be neither accepted nor returned yet. None is taken after it.
    pub(crate) in_hand: Option<(Frame<WORDS>, Header)>,
    pub(crate) turn: u32,
    /// Acknowledgements owed to one sender that are sent by themselves.
    pub(crate) ack_after: u32,
    /// Somebody runs out of slots.
    pub(crate) urgent: bool,
    pub(crate) lost: Vec<u32>,
    pub(crate) faults: Vec<Fault>,
    pub faults_lost: u64,
    pub figures: FmCounters,
}

impl<const WORDS: usize> FmState<WORDS> {
    pub fn new(config: &FmConfig, port: Port) -> Self {
        let lengths = &config.lengths;
        let slots = lengths.slots as u32;
        // Without buffers there are none.
        let (sending, receiving) = match config.buffers {
            Buffers::None => (1, 1),
            _ => (slots, lengths.receive as u32),
        };
        let flow_control = config.flow_control;
        // The counters start where they soon wrap, so that wrapping is what always happens.
        let (send, send_host, send_lanai) = SendQueue::new(sending, WORDS, u32::MAX - slots);
        let (receive, receive_lanai, receive_host) =
            HostReceiveQueue::new(receiving, WORDS, u32::MAX - slots);
        Self {
            port,
            shares: false,
            otherwise: !flow_control || config.buffers == Buffers::Always,
            buffers: config.buffers,
            flow_control,
            interpret: config.interpret,
            send,
            send_host,
            send_lanai,
            receive,
            receive_lanai,
            receive_host,
            reject: RejectQueue::new(slots),
            kept: OverdueFrames::new(if flow_control {
                KEPT_FOR_EACH * lengths.receive as usize
            } else {
                0
            }),
            window: Window::new(slots),
            owed: OwedAcks::new(PEERS_MAX),
            order: PeerMap::new(PEERS_MAX as usize),
            incoming: Vec::with_capacity(lengths.streams as usize),
            // What cannot be returned has to be taken.
            max_incoming: if flow_control {
                lengths.streams as usize
            } else {
                usize::MAX
            },
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
        if self.otherwise
            && let Some(sent) = self.offer_otherwise(fabric, peer, header, (lead, payload))
        {
            return sent;
        }
        if header.kind == FrameKind::Piece && self.reject.holds_pieces(peer) {
            return false;
        }
        let Some(seq) = self.window.reserve(peer, header.kind) else {
            fabric.count(Peer(peer), Counter::Stalls, 1);
            return false;
        };
        header.seq = seq;
        let mut frame = Frame::default();
        frame.set(peer, header, lead, payload);
        fabric.charge(Cost::Copy(usize::from(header.len)));
        if !(self.send.all_sent(&self.send_host) && self.transmit(fabric, &mut frame, header)) {
            // In the queue it would hold up what goes to others.
            if self.shares || self.buffers == Buffers::None {
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

    /// As [`offer`](Self::offer), of a node that does not send like most. None: this frame goes as theirs.
    #[inline(never)]
    fn offer_otherwise<F: Fabric>(
        &mut self,
        fabric: &F,
        peer: u32,
        header: &mut Header,
        (lead, payload): (&[u64], &[u8]),
    ) -> Option<bool> {
        if self.kept.is_concerned() {
            if let Some(frame) = self.kept.room() {
                frame.set(peer, header, lead, payload);
                fabric.charge(Cost::Copy(usize::from(header.len)));
                self.figures.sent += 1;
                return Some(true);
            }
            // Nothing overtakes what is kept.
            self.send_kept(fabric);
            if !self.kept.is_empty() {
                return Some(false);
            }
        }
        if header.kind == FrameKind::Piece && self.reject.holds_pieces(peer) {
            return Some(false);
        }
        if self.shares && self.window.has_share(peer, fabric.size()) {
            return Some(false);
        }
        let queued = self.buffers == Buffers::Always;
        if self.flow_control {
            if !queued {
                return None;
            }
            let Some(seq) = self.window.reserve(peer, header.kind) else {
                fabric.count(Peer(peer), Counter::Stalls, 1);
                return Some(false);
            };
            header.seq = seq;
        }
        let mut frame = Frame::default();
        frame.set(peer, header, lead, payload);
        fabric.charge(Cost::Copy(usize::from(header.len)));
        let direct = !queued && self.send.all_sent(&self.send_host);
        let mut sent = direct && self.launch(fabric, &frame);
        if !sent && self.buffers != Buffers::None {
            fabric.charge(Cost::Copy(frame.packet().len()));
            sent = self.send.put(&mut self.send_host, &frame);
            self.pump(fabric);
        }
        if sent {
            self.figures.sent += 1;
        } else {
            fabric.count(Peer(peer), Counter::Stalls, 1);
        }
        Some(sent)
    }

    /// The next frame that is offered may be kept, if its sender has waited `long` or others are kept already. False: it may not, or there is no room for one.
    #[cold]
    pub fn may_keep(&mut self, long: bool) -> bool {
        let may = (long || !self.kept.is_empty()) && self.kept.allow();
        self.set_otherwise();
        may
    }

    /// It may not, if it was not.
    pub fn may_not_keep(&mut self) {
        self.kept.forbid();
        self.set_otherwise();
    }

    fn set_otherwise(&mut self) {
        let features = !self.flow_control || self.buffers == Buffers::Always;
        self.otherwise = features || self.shares || self.kept.is_concerned();
    }

    /// What is kept goes as slots are free for it, in its order.
    #[cold]
    fn send_kept<F: Fabric>(&mut self, fabric: &F) {
        while let Some(mut frame) = self.kept.front() {
            let mut header = frame.header().expect("written by this process");
            let peer = frame.peer;
            if !self.is_lost(peer) {
                if header.kind == FrameKind::Piece && self.reject.holds_pieces(peer) {
                    break;
                }
                let Some(seq) = self.window.reserve(peer, header.kind) else {
                    break;
                };
                header.seq = seq;
                frame.set_header(&header);
                if !(self.send.all_sent(&self.send_host) && self.transmit(fabric, &mut frame, &mut header)) {
                    if self.buffers == Buffers::None {
                        self.window.unreserve(peer, header.kind);
                        break;
                    }
                    let put = self.send.put(&mut self.send_host, &frame);
                    debug_assert!(put, "the send queue has room for all slots");
                }
            }
            self.kept.taken();
        }
        self.set_otherwise();
    }

    /// Into the network as it is, without flow control. False: it is full.
    fn launch<F: Fabric>(&self, fabric: &F, frame: &Frame<WORDS>) -> bool {
        let peer = Peer(frame.peer);
        // To a peer that was lost meanwhile: gone.
        let gone = self.is_lost(frame.peer)
            || fabric.try_send(peer, self.port, Priority::Low, frame.packet()) == TrySend::Sent;
        if gone {
            fabric.wake(peer);
        }
        gone
    }

    /// Nothing that goes to one node may hold up what goes to others, from now on.
    pub fn share(&mut self) {
        self.shares = true;
        self.set_otherwise();
    }

    /// Into the network, with what is owed. False: it is full.
    #[inline(always)]
    fn transmit<F: Fabric>(&mut self, fabric: &F, frame: &mut Frame<WORDS>, header: &mut Header) -> bool {
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
        let mut frame = Frame::default();
        while self.send.front(&self.send_lanai, &mut frame) {
            fabric.charge(Cost::Copy(frame.packet().len()));
            let mut header = frame.header().expect("written by this process");
            let gone = if self.flow_control {
                self.transmit(fabric, &mut frame, &mut header)
            } else {
                self.launch(fabric, &frame)
            };
            if !gone {
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
        let mut taken = if self.flow_control { 0 } else { CONTROL_AT_ONCE };
        while taken < CONTROL_AT_ONCE
            && receive_queue::control(fabric, port, |from, packet| {
                self.sort_control(fabric, from, packet)
            })
        {
            taken += 1;
        }
        if !(self.send.all_sent(&self.send_host) && self.reject.is_empty()) {
            self.turn = self.turn.wrapping_add(1);
            self.pump(fabric);
        }
        if self.otherwise && !self.kept.is_empty() {
            self.send_kept(fabric);
        }
    }

    /// Time has passed that calls do not show: what came back may go again.
    pub fn time_passed(&mut self) {
        self.reject.hurry_all(self.turn);
    }

    #[inline(always)]
    pub(crate) fn acknowledged<F: Fabric>(&mut self, fabric: &F, peer: u32, acks: Acks) {
        if acks.is_zero() {
            return;
        }
        if let Err(bad) = self.window.acknowledged(peer, acks) {
            self.refuse(fabric, peer, bad);
        } else if !self.reject.is_empty() {
            self.reject.hurry(peer, self.turn);
        }
    }

    /// Whether something of this node's has not left it yet, or is back.
    #[inline(always)]
    pub fn has_unsent(&self) -> bool {
        let sent = self.send.all_sent(&self.send_host) && self.reject.is_empty() && self.kept.is_empty();
        !(sent && self.in_hand.is_none())
    }

    /// Whether nothing of this node's is outstanding or owed.
    pub fn is_settled(&self) -> bool {
        let sent = self.window.is_idle() && self.send.all_sent(&self.send_host);
        sent && self.kept.is_empty() && self.owed.is_empty() && self.in_hand.is_none()
    }
}

/// A packet with nothing but acknowledgements. False: no room.
pub(crate) fn acknowledge<F: PacketQueue + Interrupt>(fabric: &F, port: Port, peer: u32, acks: Acks) -> bool {
    let mut header = Header::new(FrameKind::Ack, 0, 0, 0);
    header.acks = acks;
    let words = header.words();
    let sent = fabric.try_send(Peer(peer), port, Priority::High, words.as_flattened()) == TrySend::Sent;
    if sent {
        fabric.wake(Peer(peer));
    }
    sent
}
