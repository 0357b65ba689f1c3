//! The sending half: transmit pendings, what is kept about each target, numbering, and sending again (go-back-n) where packets may be refused.
//!
//! A message takes a pending, which holds its header packet ready to travel, and joins the tail of its channel to the
//! target. Packets are numbered when they first go. An acknowledgement names the packet wanted next, and so frees everything
//! before it. When the receiver refuses a packet, says that one is missing, or says nothing for long, the channel goes back to that
//! packet and sends from there again.
//!
//! Cost class: fast path ([`Transmit::send`] of a short body, [`Transmit::acked`]); else queued path.

mod by_lines;
mod fast_path;
mod retransmit;

use super::lines::{self, Lines};
use super::receive::Receive;
use super::rendezvous_slots::{Offer, RendezvousSlots};
use super::table::{NONE, PeerTable};
use super::wire::{self, FIRST, HAS_ACK, Malformed, PacketKind, WANTS_ACK, Word, Writer};
use super::{Channel, Departure, Figures, NetTunables, NoPending, Outcome, Owner, moves};
use crate::memory::Segments;
use farpost_fabric::{
    Access, Counter, Fabric, LocalMemory, Moment, PACKET_BYTES, Peer, Permission, Port, Priority, TrySend,
};
use std::collections::VecDeque;
use std::time::Duration;

/// The staging memory of a process.
pub const STAGING: u32 = 0x7b00_0000;
/// Times that the period before sending again doubles.
const DOUBLINGS: u8 = 6;
/// Progress calls after the first refusal before a channel tries again, and times that this doubles.
const PAUSE: u64 = 4;
const PAUSES: u8 = 10;

/// Longest answer that is copied before its check is made, and how many are at a time.
const COPY: usize = 64 << 10;
const COPIES: usize = 4;
/// What they take, bytes.
pub const COPIED: usize = COPIES * COPY;

/// How a body travels.
#[derive(Clone, Debug)]
enum BodyRoute {
    Inline,
    /// In this slot of the staging memory.
    Staged(u16),
    /// The receiver fetches it; withdrawn with this key where that is needed. With a rendezvous slot, both sides copy.
    Pull {
        key: Option<u64>,
        rendezvous_slots: Option<u16>,
    },
    /// The receiver fetches its pieces, of which there is a list in this slot.
    Gather(u16),
    Stream,
}

/// A message being sent.
pub struct TransmitPending {
    /// The next of its channel.
    next: u16,
    /// Packets, header packet included.
    packets: u32,
    kind: PacketKind,
    header_len: u8,
    packet_len: u8,
    how: BodyRoute,
    token: u64,
    length: usize,
    body: Segments,
    /// The place of the copy that `body` is.
    copy: Option<u16>,
    packet: [u8; PACKET_BYTES],
}

/// Which packet goes next.
#[derive(Clone, Copy)]
struct Cursor {
    seq: u16,
    /// `NONE`: everything has gone.
    pending: u16,
    packet: u32,
}

struct Lane {
    head: u16,
    tail: u16,
    /// Pendings of it.
    lent: u16,
    /// By lines: the newest pending that has gone, and is kept until the receiver is done with it.
    gone: u16,
    /// Packets of the head that are acknowledged.
    head_done: u32,
    /// The oldest packet that is not acknowledged.
    base: u16,
    /// One more than the newest that has gone.
    sent: u16,
    cursor: Cursor,
}

/// Whether a target has as many pendings as it may: it leaves `reserve`, and has at most three times what it leaves free.
#[inline(always)]
fn has_share(lane: &Lane, free: usize, reserve: usize) -> bool {
    lane.lent > 0 && (free <= reserve || usize::from(lane.lent) >= 3 * free)
}

impl Lane {
    fn new(seq: u16) -> Self {
        Self {
            head: NONE,
            tail: NONE,
            lent: 0,
            gone: NONE,
            head_done: 0,
            base: seq,
            sent: seq,
            cursor: Cursor {
                seq,
                pending: NONE,
                packet: 0,
            },
        }
    }

    fn outstanding(&self) -> u16 {
        self.sent.wrapping_sub(self.base)
    }
}

/// What is kept about a process that is sent to.
pub struct Target<F: Fabric> {
    peer: Peer,
    bell: F::Bell,
    tag: u16,
    /// The latest tag that was not 0.
    last: u16,
    /// Ways of sending that do not work with this peer.
    not: u8,
    checked: bool,
    dead: bool,
    /// Lines can go there, and do.
    near: bool,
    by_lines: bool,
    /// A packet without a tag is out: one is enough to begin with.
    probing: bool,
    /// In the list of those that have something to send.
    active: bool,
    wait_until: u64,
    refusals: u8,
    timeouts: u8,
    stamp: Moment,
    stamp_base: [u16; 2],
    lanes: [Lane; 2],
}

impl<F: Fabric> Target<F> {
    fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.head == NONE)
    }

    /// What a lane of it that begins or ends to have messages adds to those that share structures.
    #[inline(always)]
    fn counts(&self, index: usize) -> usize {
        if self.near { 0 } else { index }
    }

    fn unsent(&self) -> bool {
        self.lanes.iter().any(|lane| lane.cursor.pending != NONE)
    }
}

impl TransmitPending {
    /// Write packet `packet` of a body that goes in packets: the bytes of it.
    fn part(
        &self,
        (staging, slot_bytes): (Option<&impl LocalMemory>, usize),
        packet: u32,
        buffer: &mut [u8; PACKET_BYTES],
        checked: bool,
    ) -> usize {
        let part = stream_bytes(checked);
        let from = (packet as usize - 1) * part;
        let len = part.min(self.length - from);
        let mut writer = Writer::new(buffer, checked);
        match (&self.how, staging) {
            (BodyRoute::Staged(slot), Some(memory)) => {
                memory.read(usize::from(*slot) * slot_bytes + from, writer.room(len));
            }
            _ => moves::load(&self.body, from, writer.room(len)),
        }
        writer.len()
    }
}

/// The sending half of a process.
pub struct Transmit<F: Fabric> {
    port: Port,
    pendings: Box<[TransmitPending]>,
    /// Of each channel: answers never wait for requests.
    free: [Vec<u16>; 2],
    scarce: usize,
    /// One more than may have requests under way, so that there is always one which only waits for answers to be taken: who
    /// gets none may take no more requests, and two would wait for each other.
    targets: PeerTable<Target<F>>,
    /// Targets with requests under way, of those that share structures.
    asked: usize,
    /// By peer, a bit for each channel: nothing waits to go there, and what fits goes by lines.
    open: Box<[u8]>,
    active: Vec<u16>,
    staging: Option<F::Export>,
    /// Free slots, the one that was free longest first: its last reader is most likely done with its lines.
    slots: VecDeque<u16>,
    slot_bytes: usize,
    rendezvous_slots: RendezvousSlots<F>,
    copies: Copies,
    window: u16,
    resend: Duration,
    /// By peer: where the numbers of its channels go on when it is given a structure. Acknowledgements by the way name no
    /// connection, and one that was on its way when the structure was given up must not mean a packet of the next one.
    numbers: Box<[[u16; 2]]>,
    /// Messages whose memory may be used again.
    pub finished: VecDeque<(u64, Outcome)>,
}

impl<F: Fabric> Transmit<F> {
    pub fn new(fabric: &F, owner: Owner, config: &NetTunables) -> Self {
        let each = config.tx_pendings as usize;
        let pending = |_| TransmitPending {
            next: NONE,
            packets: 1,
            kind: PacketKind::Short,
            header_len: 0,
            packet_len: 0,
            how: BodyRoute::Inline,
            token: 0,
            length: 0,
            body: Segments::default(),
            copy: None,
            packet: [0; PACKET_BYTES],
        };
        let slot_bytes = config.staged as usize;
        let mapped = (0..fabric.processes()).any(|peer| fabric.maps(Peer(peer)));
        let staging = (mapped && slot_bytes > 0)
            .then(|| {
                let bytes = slot_bytes * config.staging as usize;
                fabric
                    .export(owner.segment(STAGING), bytes, Access::Everyone(Permission::Read))
                    .ok()
            })
            .flatten();
        let slots = if staging.is_some() {
            config.staging as u16
        } else {
            0
        };
        let near = lines::reached(fabric);
        Self {
            pendings: (0..2 * each).map(pending).collect(),
            free: [
                (0..each as u16).rev().collect(),
                (each as u16..2 * each as u16).rev().collect(),
            ],
            port: owner.port(),
            scarce: each / 4,
            targets: PeerTable::new(config.sources as usize + 1, near),
            asked: 0,
            open: vec![0; fabric.processes() as usize].into(),
            active: Vec::with_capacity(config.sources as usize + 1 + near),
            staging,
            slots: (0..slots).collect(),
            slot_bytes,
            rendezvous_slots: RendezvousSlots::new(fabric, owner, mapped, config),
            copies: Copies::new(),
            window: config.window as u16,
            resend: Duration::from_millis(config.resend),
            numbers: vec![[fabric.me().0 as u16 ^ 0x5a00; 2]; fabric.processes() as usize].into(),
            finished: VecDeque::with_capacity(4 * each),
        }
    }

    /// Bytes of a target, and of a pending.
    pub fn sizes() -> (usize, usize) {
        (
            PeerTable::<Target<F>>::entry_bytes(),
            size_of::<TransmitPending>(),
        )
    }

    /// Pendings that one who has some leaves: one for each process that has no request under way to it, if there are enough.
    #[inline(always)]
    fn reserve(&self, index: usize) -> usize {
        let idle = self.numbers.len().saturating_sub(self.asked);
        idle.min(self.scarce) * index
    }

    /// Pendings that a channel has left.
    pub fn available(&self, channel: Channel) -> usize {
        self.free[channel as usize].len()
    }

    #[cold]
    fn enter(&mut self, fabric: &F, checked: bool, peer: Peer) -> Option<u16> {
        let numbers = self.numbers[peer.index()];
        let near = !checked && lines::can_have(fabric, peer);
        let target = Target {
            peer,
            bell: fabric.bell(peer),
            tag: 0,
            last: 0,
            not: if fabric.maps(peer) { 0 } else { wire::NO_STAGING },
            checked,
            dead: fabric.is_gone(peer),
            near,
            by_lines: false,
            probing: false,
            active: false,
            wait_until: 0,
            refusals: 0,
            timeouts: 0,
            stamp: fabric.now(),
            stamp_base: numbers,
            lanes: numbers.map(Lane::new),
        };
        if near {
            return self.targets.insert_other(peer, target);
        }
        if self.targets.is_full() {
            let idle = self
                .targets
                .candidate(|target| !target.near && target.is_idle())?;
            self.active.retain(|at| *at != idle);
            if let Some(target) = self.targets.remove(idle) {
                self.numbers[target.peer.index()] = target.lanes.map(|lane| lane.sent);
            }
        }
        self.targets.insert(peer, target)
    }

    /// Take a pending and send. `checked` tells whether packets to a new peer carry a check.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "one call, taken apart nowhere")]
    pub fn send(
        &mut self,
        fabric: &F,
        (rx, lines): (&mut Receive<F>, &mut Lines<F>),
        figures: &mut Figures,
        (to, channel): (Peer, Channel),
        header: &[u8],
        body: &Segments,
        token: u64,
        checked: impl Fn(Peer) -> bool,
    ) -> Result<Departure, NoPending> {
        let index = channel as usize;
        let length = body.len();
        if self.put_by_lines(lines, figures, (to, index), header, body) {
            return Ok(Departure::Gone);
        }
        if self.free[index].is_empty() {
            return Err(NoPending);
        }
        let found = self.targets.find(to);
        if channel == Channel::Request
            && self.asked + 1 >= usize::from(self.targets.limit())
            && found.is_none_or(|at| self.targets.at(at).lanes[index].head == NONE)
            && (checked(to) || !lines::can_have(fabric, to))
        {
            return Err(NoPending);
        }
        // Who takes nothing leaves pendings to others.
        let reserve = self.reserve(index);
        if found
            .is_some_and(|at| has_share(&self.targets.at(at).lanes[index], self.free[index].len(), reserve))
        {
            return Err(NoPending);
        }
        let at = match found {
            Some(at) => at,
            None => {
                let at = self.enter(fabric, checked(to), to).ok_or(NoPending)?;
                self.note_unsent(at);
                // The receiver need not say anything before the first short message, and this process may compute for long.
                if self.put_by_lines(lines, figures, (to, index), header, body) {
                    return Ok(Departure::Gone);
                }
                at
            }
        };
        let number = self.free[index].pop().expect("looked before");
        let target = self.targets.at(at);
        if target.dead {
            self.free[index].push(number);
            self.finished.push_back((token, Outcome::PeerEnded));
            return Ok(Departure::Waits);
        }
        let pending = &mut self.pendings[usize::from(number)];
        let checked = target.checked;
        let mut writer = Writer::new(&mut pending.packet, checked);
        writer.put(header);
        pending.token = token;
        pending.length = length;
        pending.header_len = header.len() as u8;
        pending.packets = 1;
        pending.next = NONE;
        let departure = if length <= PACKET_BYTES - writer.len() {
            moves::load_all(body, writer.room(length));
            pending.packet_len = writer.len() as u8;
            pending.kind = PacketKind::Short;
            pending.how = BodyRoute::Inline;
            Departure::Gone
        } else {
            self.long(fabric, (at, index), number, body)
        };
        figures.sent += 1;
        figures.sent_bytes += length as u64;
        let target = self.targets.at(at);
        let counts = target.counts(index);
        let lane = &mut target.lanes[index];
        if lane.tail == NONE {
            lane.head = number;
            self.asked += counts;
        } else {
            self.pendings[usize::from(lane.tail)].next = number;
        }
        lane.tail = number;
        lane.lent += 1;
        let alone = lane.cursor.pending == NONE;
        if alone {
            lane.cursor.pending = number;
            lane.cursor.packet = 0;
        }
        let target = self.targets.at(at);
        if alone && target.wait_until == 0 {
            self.go(fabric, (rx, lines), figures, at, index);
        }
        self.note_unsent(at);
        if self.pendings[usize::from(number)].kind == PacketKind::Staged {
            self.call_back(length);
        }
        Ok(departure)
    }

    /// The lines that the next staged body goes to are with their last reader: call them back while others would wait.
    #[inline(never)]
    fn call_back(&self, length: usize) {
        if let (Some(memory), Some(next)) = (&self.staging, self.slots.front()) {
            memory.prefetch_write(usize::from(*next) * self.slot_bytes, length);
        }
    }

    #[inline(always)]
    fn note_unsent(&mut self, at: u16) {
        let target = self.targets.at(at);
        if target.near {
            self.open[target.peer.index()] = target.open_lanes();
        }
        if target.unsent() && !target.active {
            target.active = true;
            self.active.push(at);
        }
    }

    /// The way of a body that does not fit into the header packet.
    #[inline(never)]
    fn long(&mut self, fabric: &F, (at, index): (u16, usize), number: u16, body: &Segments) -> Departure {
        let target = self.targets.at(at);
        // Of several bodies on their way one system call fetches as many as fit, and so shorter ones are worth it.
        let in_company = target.lanes[index].head != NONE && fabric.can_transfer_pieces(target.peer);
        let (peer, not, checked) = (target.peer, target.not, target.checked);
        let pending = &mut self.pendings[usize::from(number)];
        let length = body.len();
        let start = wire::WORD + if checked { wire::CHECK } else { 0 } + usize::from(pending.header_len);
        let mut len = start;
        let mut put = |bytes: &[u8]| {
            pending.packet[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        let check = |put: &mut dyn FnMut(&[u8])| {
            if checked {
                put(&moves::check_of(body).to_le_bytes());
            }
        };
        if length <= self.slot_bytes >> u32::from(in_company)
            && not & wire::NO_STAGING == 0
            && let Some(memory) = &self.staging
            && let Some(slot) = self.slots.pop_front()
        {
            let offset = usize::from(slot) * self.slot_bytes;
            moves::stage(memory, offset, body);
            put(&(length as u32).to_le_bytes());
            put(&(offset as u32).to_le_bytes());
            check(&mut put);
            (pending.kind, pending.how) = (PacketKind::Staged, BodyRoute::Staged(slot));
            pending.packet_len = len as u8;
            return Departure::Gone;
        }
        // Others may write what is asked for while it is on its way, and its check is about what it was.
        if checked
            && index == Channel::Answer as usize
            && not & wire::NO_PULL == 0
            && fabric.can_transfer(peer)
        {
            pending.copy = self.copies.take(body);
        }
        let copied = pending.copy.map(|copy| self.copies.at(copy, length));
        let body = copied.as_ref().unwrap_or(body);
        pending.body = body.clone();
        if not & wire::NO_PULL == 0
            && let Some(one) = body.as_one()
            && fabric.can_transfer(peer)
            && let Some((position, key)) = moves::expose(fabric, peer, one)
        {
            put(&(length as u64).to_le_bytes());
            put(&position.to_le_bytes());
            let (key, rendezvous_slots, told) = if fabric.maps(peer) {
                let rendezvous_slots = self.rendezvous_slots.take_line(length);
                (
                    None,
                    rendezvous_slots,
                    rendezvous_slots.map_or(0, |line| u64::from(line) + 1),
                )
            } else {
                (Some(key), None, key)
            };
            put(&told.to_le_bytes());
            check(&mut put);
            (pending.kind, pending.how) = (
                PacketKind::Pull,
                BodyRoute::Pull {
                    key,
                    rendezvous_slots,
                },
            );
            pending.packet_len = len as u8;
            return Departure::Waits;
        }
        if not & (wire::NO_PULL | wire::NO_STAGING) == 0
            && fabric.can_transfer_pieces(peer)
            && let Some(memory) = &self.staging
            && let count = body.pieces().count()
            && count * wire::PIECE <= self.slot_bytes
            && let Some(slot) = self.slots.pop_front()
        {
            let offset = usize::from(slot) * self.slot_bytes;
            for (i, piece) in body.pieces().enumerate() {
                let bytes = wire::piece_bytes(piece.address, piece.len);
                memory.write(offset + i * wire::PIECE, &bytes);
            }
            put(&(length as u64).to_le_bytes());
            put(&(offset as u32).to_le_bytes());
            put(&(count as u32).to_le_bytes());
            check(&mut put);
            (pending.kind, pending.how) = (PacketKind::Gather, BodyRoute::Gather(slot));
            pending.packet_len = len as u8;
            return Departure::Waits;
        }
        Self::as_stream(pending, start, length, checked);
        Departure::Waits
    }

    fn as_stream(pending: &mut TransmitPending, start: usize, length: usize, checked: bool) {
        pending.packet[start..start + 8].copy_from_slice(&(length as u64).to_le_bytes());
        (pending.kind, pending.how) = (PacketKind::Stream, BodyRoute::Stream);
        pending.packet_len = (start + 8) as u8;
        pending.packets = 1 + length.div_ceil(stream_bytes(checked)) as u32;
    }

    /// Send what a lane may send now.
    #[inline(always)]
    fn go(
        &mut self,
        fabric: &F,
        (rx, lines): (&mut Receive<F>, &mut Lines<F>),
        figures: &mut Figures,
        at: u16,
        index: usize,
    ) -> bool {
        if self.targets.at(at).by_lines {
            return self.go_by_lines((rx, lines), at, index);
        }
        let mut moved = false;
        loop {
            let target = self.targets.at(at);
            let lane = &mut target.lanes[index];
            let Cursor { seq, pending, packet } = lane.cursor;
            if pending == NONE || seq.wrapping_sub(lane.base) >= self.window {
                return moved;
            }
            if target.tag == 0 {
                if target.probing {
                    return moved;
                }
                target.probing = true;
            }
            let first = seq == lane.base;
            let message = &mut self.pendings[usize::from(pending)];
            let (mut flags, ack) = rx.acknowledgement(target.peer, index);
            if first {
                flags |= FIRST;
            }
            if target.checked {
                flags |= wire::CHECKED;
            }
            if self.free[index].len() <= self.scarce {
                flags |= WANTS_ACK;
            }
            let mut word = Word {
                kind: message.kind,
                flags,
                second: message.header_len,
                seq,
                tag: target.tag,
                ack,
            };
            let sent = if packet == 0 {
                let bytes = &mut message.packet[..usize::from(message.packet_len)];
                bytes[..wire::WORD].copy_from_slice(&word.bits().to_le_bytes());
                if target.checked {
                    wire::set_check(bytes);
                }
                fabric.try_send(target.peer, self.port, PRIORITY[index], bytes)
            } else {
                (word.kind, word.second) = (PacketKind::Data, 0);
                let mut buffer = [0; PACKET_BYTES];
                let staging = (self.staging.as_ref(), self.slot_bytes);
                let len = message.part(staging, packet, &mut buffer, target.checked);
                let bytes = &mut buffer[..len];
                bytes[..wire::WORD].copy_from_slice(&word.bits().to_le_bytes());
                if target.checked {
                    wire::set_check(bytes);
                }
                fabric.try_send(target.peer, self.port, PRIORITY[index], bytes)
            };
            if sent == TrySend::Full {
                if target.tag == 0 {
                    target.probing = false;
                }
                if flags & HAS_ACK != 0 {
                    rx.untold(target.peer, index, flags);
                }
                return moved;
            }
            fabric.wake_by(&target.bell);
            moved = true;
            lane.cursor = Cursor {
                seq: seq.wrapping_add(1),
                pending: if packet + 1 < message.packets {
                    pending
                } else {
                    message.next
                },
                packet: if packet + 1 < message.packets {
                    packet + 1
                } else {
                    0
                },
            };
            if seq == lane.sent {
                lane.sent = seq.wrapping_add(1);
            } else {
                figures.resent += 1;
                fabric.count(target.peer, Counter::Retries, 1);
            }
        }
    }

    /// Send what waits. True: something went.
    pub fn pump(
        &mut self,
        fabric: &F,
        (rx, lines): (&mut Receive<F>, &mut Lines<F>),
        figures: &mut Figures,
        turn: u64,
    ) -> bool {
        let mut moved = false;
        let mut at = 0;
        while at < self.active.len() {
            let place = self.active[at];
            let target = self.targets.at(place);
            if target.wait_until > turn {
                at += 1;
                continue;
            }
            target.wait_until = 0;
            for index in 0..2 {
                moved |= self.go(fabric, (rx, lines), figures, place, index);
            }
            let target = self.targets.at(place);
            if target.near {
                self.open[target.peer.index()] = target.open_lanes();
            }
            let by_lines = target.by_lines;
            let blocked = |lane: &Lane| !by_lines && lane.cursor.seq.wrapping_sub(lane.base) >= self.window;
            // What only waits for an acknowledgement comes back here with it.
            if !target.unsent()
                || target
                    .lanes
                    .iter()
                    .all(|lane| lane.cursor.pending == NONE || blocked(lane))
            {
                target.active = false;
                self.active.swap_remove(at);
            } else {
                at += 1;
            }
        }
        moved
    }

    /// Whether something waits to go.
    #[inline(always)]
    pub fn has_active(&self) -> bool {
        !self.active.is_empty()
    }
}

/// Memory for copies of answers, which stay as they are while they are fetched.
struct Copies {
    memory: Box<[u8]>,
    free: Vec<u16>,
}

impl Copies {
    fn new() -> Self {
        Self {
            memory: vec![0; COPIED].into(),
            free: (0..COPIES as u16).collect(),
        }
    }

    /// Copy a body, if it is short enough and there is room.
    fn take(&mut self, body: &Segments) -> Option<u16> {
        if body.len() > COPY {
            return None;
        }
        let place = self.free.pop()?;
        moves::load_all(body, &mut self.memory[usize::from(place) * COPY..][..body.len()]);
        Some(place)
    }

    fn at(&mut self, place: u16, len: usize) -> Segments {
        let memory = &mut self.memory[usize::from(place) * COPY..][..len];
        Segments::one(memory.as_mut_ptr().expose_provenance(), len)
    }
}

/// A pending's message is over.
#[inline(never)]
fn release<F: Fabric>(
    fabric: &F,
    pending: &mut TransmitPending,
    (slots, rendezvous_slots, copies): (&mut VecDeque<u16>, &mut RendezvousSlots<F>, &mut Copies),
    finished: &mut VecDeque<(u64, Outcome)>,
    outcome: Outcome,
) {
    pending.body = Segments::default();
    copies.free.extend(pending.copy.take());
    match std::mem::replace(&mut pending.how, BodyRoute::Inline) {
        BodyRoute::Inline => {}
        BodyRoute::Staged(slot) => slots.push_back(slot),
        BodyRoute::Pull {
            key,
            rendezvous_slots: line,
        } => {
            if let Some(line) = line {
                rendezvous_slots.give_line(line);
            }
            if let Some(key) = key {
                fabric.withdraw(key);
            }
            finished.push_back((pending.token, outcome));
        }
        BodyRoute::Gather(slot) => {
            slots.push_back(slot);
            finished.push_back((pending.token, outcome));
        }
        BodyRoute::Stream => finished.push_back((pending.token, outcome)),
    }
}

/// Bytes of a body in a packet of its own.
pub fn stream_bytes(checked: bool) -> usize {
    PACKET_BYTES - wire::WORD - if checked { wire::CHECK } else { 0 }
}

/// The priority of a channel's packets.
pub const PRIORITY: [Priority; 2] = Priority::ALL;
