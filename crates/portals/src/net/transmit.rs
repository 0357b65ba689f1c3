//! The sending half: transmit pendings, what is kept about each target, numbering, and sending again (go-back-n).
//!
//! A message takes a pending, which holds its header packet ready to travel, and joins the tail of its channel to the
//! target. Packets are numbered when they first go. An acknowledgement names the packet wanted next, and so frees everything
//! before it. When the receiver refuses a packet, says that one is missing, or says nothing for long, the channel goes back to that
//! packet and sends from there again.
//!
//! Cost class: fast path ([`Transmit::send`] of a short body, [`Transmit::acked`]); else queued path.

use super::desk::{Desk, Offer};
use super::receive::Receive;
use super::table::{NONE, Table};
use super::wire::{self, FIRST, HAS_ACK, Kind, Malformed, WANTS_ACK, Word, Writer};
use super::{Channel, Departure, Figures, NetTunables, NoPending, Outcome, moves};
use crate::memory::Segments;
use farpost_fabric::{
    Access, Counter, Fabric, LocalMemory, PACKET_BYTES, Peer, Permission, Port, Priority, SegmentId, TrySend,
};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The staging memory of a process.
pub const STAGING: SegmentId = SegmentId(0x7b00_0000);
/// Times that the period before sending again doubles.
const DOUBLINGS: u8 = 6;
/// Progress calls after the first refusal before a channel tries again, and times that this doubles.
const PAUSE: u64 = 4;
const PAUSES: u8 = 10;

/// How a body travels.
#[derive(Clone, Debug)]
enum How {
    Inline,
    /// In this slot of the staging memory.
    Staged(u16),
    /// The receiver fetches it; withdrawn with this key where that is needed. With a line of the desk, both sides copy.
    Pull {
        key: Option<u64>,
        desk: Option<u16>,
    },
    Stream,
}

/// A message being sent.
pub struct Pending {
    /// The next of its channel.
    next: u16,
    /// Packets, header packet included.
    packets: u32,
    kind: Kind,
    header_len: u8,
    packet_len: u8,
    how: How,
    token: u64,
    length: usize,
    body: Segments,
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
    /// Packets of the head that are acknowledged.
    head_done: u32,
    /// The oldest packet that is not acknowledged.
    base: u16,
    /// One more than the newest that has gone.
    sent: u16,
    cursor: Cursor,
}

impl Lane {
    fn new(seq: u16) -> Self {
        Self {
            head: NONE,
            tail: NONE,
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
    /// A packet without a tag is out: one is enough to begin with.
    probing: bool,
    /// In the list of those that have something to send.
    active: bool,
    wait_until: u64,
    refusals: u8,
    timeouts: u8,
    stamp: Instant,
    stamp_base: [u16; 2],
    lanes: [Lane; 2],
}

impl<F: Fabric> Target<F> {
    fn is_idle(&self) -> bool {
        self.lanes.iter().all(|lane| lane.head == NONE)
    }

    fn unsent(&self) -> bool {
        self.lanes.iter().any(|lane| lane.cursor.pending != NONE)
    }
}

/// The sending half of a process.
pub struct Transmit<F: Fabric> {
    pendings: Box<[Pending]>,
    /// Of each channel: answers never wait for requests.
    free: [Vec<u16>; 2],
    scarce: usize,
    targets: Table<Target<F>>,
    active: Vec<u16>,
    staging: Option<F::Export>,
    /// Free slots, the one that was free longest first: its last reader is most likely done with its lines.
    slots: VecDeque<u16>,
    slot_bytes: usize,
    desk: Desk<F>,
    window: u16,
    resend: Duration,
    /// Where the numbers of the next new connection begin.
    fresh: u16,
    /// Messages whose memory may be used again.
    pub finished: VecDeque<(u64, Outcome)>,
}

impl<F: Fabric> Transmit<F> {
    pub fn new(fabric: &F, config: &NetTunables) -> Self {
        let each = config.tx_pendings as usize;
        let pending = |_| Pending {
            next: NONE,
            packets: 1,
            kind: Kind::Short,
            header_len: 0,
            packet_len: 0,
            how: How::Inline,
            token: 0,
            length: 0,
            body: Segments::default(),
            packet: [0; PACKET_BYTES],
        };
        let slot_bytes = config.staged as usize;
        let mapped = (0..fabric.size()).any(|peer| fabric.maps(Peer(peer)));
        let staging = (mapped && slot_bytes > 0)
            .then(|| {
                let bytes = slot_bytes * config.staging as usize;
                fabric
                    .export(STAGING, bytes, Access::Everyone(Permission::Read))
                    .ok()
            })
            .flatten();
        let slots = if staging.is_some() {
            config.staging as u16
        } else {
            0
        };
        Self {
            pendings: (0..2 * each).map(pending).collect(),
            free: [
                (0..each as u16).rev().collect(),
                (each as u16..2 * each as u16).rev().collect(),
            ],
            scarce: each / 4,
            targets: Table::new(config.sources as usize),
            active: Vec::with_capacity(config.sources as usize),
            staging,
            slots: (0..slots).collect(),
            slot_bytes,
            desk: Desk::new(fabric, mapped, config),
            window: config.window as u16,
            resend: Duration::from_millis(config.resend),
            fresh: fabric.me().0 as u16 ^ 0x5a00,
            finished: VecDeque::with_capacity(4 * each),
        }
    }

    /// Bytes of a target, and of a pending.
    pub fn sizes() -> (usize, usize) {
        (Table::<Target<F>>::entry_bytes(), size_of::<Pending>())
    }

    /// Pendings that a channel has left.
    pub fn available(&self, channel: Channel) -> usize {
        self.free[channel as usize].len()
    }

    #[cold]
    fn enter(&mut self, fabric: &F, checked: bool, peer: Peer) -> Option<u16> {
        self.fresh = self.fresh.wrapping_add(4096);
        let target = Target {
            peer,
            bell: fabric.bell(peer),
            tag: 0,
            last: 0,
            not: if fabric.maps(peer) { 0 } else { wire::NO_STAGING },
            checked,
            dead: fabric.has_ended(peer),
            probing: false,
            active: false,
            wait_until: 0,
            refusals: 0,
            timeouts: 0,
            stamp: Instant::now(),
            stamp_base: [self.fresh; 2],
            lanes: [Lane::new(self.fresh), Lane::new(self.fresh)],
        };
        if self.targets.is_full() {
            let idle = self.targets.candidate(|target| target.is_idle())?;
            self.active.retain(|at| *at != idle);
            self.targets.remove(idle);
        }
        self.targets.insert(peer, target)
    }

    /// Take a pending and send. `checked` tells whether packets to a new peer carry a check.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "one call, taken apart nowhere")]
    pub fn send(
        &mut self,
        fabric: &F,
        rx: &mut Receive<F>,
        figures: &mut Figures,
        (to, channel): (Peer, Channel),
        header: &[u8],
        body: &Segments,
        token: u64,
        checked: impl FnOnce(Peer) -> bool,
    ) -> Result<Departure, NoPending> {
        let index = channel as usize;
        if self.free[index].is_empty() {
            return Err(NoPending);
        }
        let at = match self.targets.find(to) {
            Some(at) => at,
            None => self.enter(fabric, checked(to), to).ok_or(NoPending)?,
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
        let length = body.len();
        pending.token = token;
        pending.length = length;
        pending.header_len = header.len() as u8;
        pending.packets = 1;
        pending.next = NONE;
        let departure = if length <= PACKET_BYTES - writer.len() {
            moves::load_all(body, writer.room(length));
            pending.packet_len = writer.len() as u8;
            pending.kind = Kind::Short;
            pending.how = How::Inline;
            Departure::Gone
        } else {
            self.long(fabric, at, number, body)
        };
        figures.sent += 1;
        figures.sent_bytes += length as u64;
        let lane = &mut self.targets.at(at).lanes[index];
        if lane.tail == NONE {
            lane.head = number;
        } else {
            self.pendings[usize::from(lane.tail)].next = number;
        }
        lane.tail = number;
        let alone = lane.cursor.pending == NONE;
        if alone {
            lane.cursor.pending = number;
            lane.cursor.packet = 0;
        }
        let target = self.targets.at(at);
        if alone && target.wait_until == 0 {
            self.go(fabric, rx, figures, at, index);
        }
        self.note_unsent(at);
        if self.pendings[usize::from(number)].kind == Kind::Staged {
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
        if target.unsent() && !target.active {
            target.active = true;
            self.active.push(at);
        }
    }

    /// The way of a body that does not fit into the header packet.
    #[inline(never)]
    fn long(&mut self, fabric: &F, at: u16, number: u16, body: &Segments) -> Departure {
        let target = self.targets.at(at);
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
        if length <= self.slot_bytes
            && not & wire::NO_STAGING == 0
            && let Some(memory) = &self.staging
            && let Some(slot) = self.slots.pop_front()
        {
            let offset = usize::from(slot) * self.slot_bytes;
            moves::stage(memory, offset, body);
            put(&(length as u32).to_le_bytes());
            put(&(offset as u32).to_le_bytes());
            check(&mut put);
            (pending.kind, pending.how) = (Kind::Staged, How::Staged(slot));
            pending.packet_len = len as u8;
            return Departure::Gone;
        }
        pending.body = body.clone();
        if not & wire::NO_PULL == 0
            && let Some(one) = body.as_one()
            && fabric.can_transfer(peer)
            && let Some((position, key)) = moves::expose(fabric, peer, one)
        {
            put(&(length as u64).to_le_bytes());
            put(&position.to_le_bytes());
            let (key, desk, told) = if fabric.maps(peer) {
                let desk = self.desk.take_line(length);
                (None, desk, desk.map_or(0, |line| u64::from(line) + 1))
            } else {
                (Some(key), None, key)
            };
            put(&told.to_le_bytes());
            check(&mut put);
            (pending.kind, pending.how) = (Kind::Pull, How::Pull { key, desk });
            pending.packet_len = len as u8;
            return Departure::Waits;
        }
        Self::as_stream(pending, start, length, checked);
        Departure::Waits
    }

    fn as_stream(pending: &mut Pending, start: usize, length: usize, checked: bool) {
        pending.packet[start..start + 8].copy_from_slice(&(length as u64).to_le_bytes());
        (pending.kind, pending.how) = (Kind::Stream, How::Stream);
        pending.packet_len = (start + 8) as u8;
        pending.packets = 1 + length.div_ceil(stream_bytes(checked)) as u32;
    }

    /// Send what a lane may send now.
    #[inline(always)]
    fn go(&mut self, fabric: &F, rx: &mut Receive<F>, figures: &mut Figures, at: u16, index: usize) -> bool {
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
                fabric.try_send(target.peer, Port::Portals, PRIORITY[index], bytes)
            } else {
                (word.kind, word.second) = (Kind::Data, 0);
                let mut buffer = [0; PACKET_BYTES];
                let part = stream_bytes(target.checked);
                let from = (packet as usize - 1) * part;
                let len = part.min(message.length - from);
                let mut writer = Writer::new(&mut buffer, target.checked);
                match (&message.how, &self.staging) {
                    (How::Staged(slot), Some(memory)) => {
                        memory.read(usize::from(*slot) * self.slot_bytes + from, writer.room(len));
                    }
                    _ => moves::load(&message.body, from, writer.room(len)),
                }
                let len = writer.len();
                let bytes = &mut buffer[..len];
                bytes[..wire::WORD].copy_from_slice(&word.bits().to_le_bytes());
                if target.checked {
                    wire::set_check(bytes);
                }
                fabric.try_send(target.peer, Port::Portals, PRIORITY[index], bytes)
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
    pub fn pump(&mut self, fabric: &F, rx: &mut Receive<F>, figures: &mut Figures, turn: u64) -> bool {
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
                moved |= self.go(fabric, rx, figures, place, index);
            }
            let target = self.targets.at(place);
            let blocked = |lane: &Lane| lane.cursor.seq.wrapping_sub(lane.base) >= self.window;
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

    /// A peer wants packet `wanted` next: everything before it is done with.
    #[inline(always)]
    pub fn acked(&mut self, fabric: &F, from: Peer, index: usize, wanted: u16) -> Result<(), Malformed> {
        let Some(at) = self.targets.find(from) else {
            return Ok(());
        };
        let target = self.targets.at(at);
        let lane = &mut target.lanes[index];
        let mut count = wanted.wrapping_sub(lane.base);
        if count == 0 {
            return Ok(());
        }
        if count > lane.outstanding() {
            // An old one that was held up is no fault.
            return if count > 0x7fff {
                Ok(())
            } else {
                Err(Malformed {
                    what: "the number of a packet that was sent",
                    value: u64::from(wanted),
                })
            };
        }
        lane.base = wanted;
        while count > 0 {
            let number = lane.head;
            let pending = &mut self.pendings[usize::from(number)];
            let left = pending.packets - lane.head_done;
            if u32::from(count) < left {
                lane.head_done += u32::from(count);
                break;
            }
            count -= left as u16;
            lane.head_done = 0;
            lane.head = pending.next;
            if !matches!(pending.how, How::Inline) {
                let outcome = Outcome::Done;
                release(
                    fabric,
                    pending,
                    (&mut self.slots, &mut self.desk),
                    &mut self.finished,
                    outcome,
                );
            }
            self.free[index].push(number);
        }
        if lane.head == NONE {
            lane.tail = NONE;
        }
        if lane.cursor.seq.wrapping_sub(wanted) > 0x7fff {
            lane.cursor = Cursor {
                seq: wanted,
                pending: lane.head,
                packet: lane.head_done,
            };
        }
        target.refusals = 0;
        target.timeouts = 0;
        if lane.cursor.pending != NONE {
            self.note_unsent(at);
        }
        Ok(())
    }

    /// As [`acked`](Self::acked), of the channels in the mask `known`.
    pub fn acked_both(
        &mut self,
        fabric: &F,
        from: Peer,
        known: u16,
        wanted: [u16; 2],
    ) -> Result<(), Malformed> {
        for (index, wanted) in wanted.into_iter().enumerate() {
            if known & 1 << index != 0 {
                self.acked(fabric, from, index, wanted)?;
            }
        }
        Ok(())
    }

    /// Go back to packet `seq`, which is outstanding.
    fn go_back(&mut self, at: u16, index: usize, seq: u16) {
        let lane = &mut self.targets.at(at).lanes[index];
        let mut skip = u32::from(seq.wrapping_sub(lane.base));
        let (mut pending, mut packet) = (lane.head, lane.head_done);
        while skip > 0 {
            let message = &self.pendings[usize::from(pending)];
            let left = message.packets - packet;
            if skip < left {
                packet += skip;
                break;
            }
            skip -= left;
            (pending, packet) = (message.next, 0);
        }
        lane.cursor = Cursor { seq, pending, packet };
        self.note_unsent(at);
    }

    /// The receiver refuses packet `seq`: send again from it on, with `busy` after a pause.
    pub fn refused(&mut self, from: Peer, index: usize, word: &Word, (busy, turn): (bool, u64)) {
        let Some(at) = self.targets.find(from) else {
            return;
        };
        let target = self.targets.at(at);
        if word.tag == 0 {
            // The receiver knows nothing of us: what was acknowledged stays so.
            if target.tag != 0 {
                return;
            }
            target.probing = false;
            for index in 0..2 {
                let base = self.targets.at(at).lanes[index].base;
                self.go_back(at, index, base);
            }
        } else {
            let lane = &target.lanes[index];
            if target.tag != word.tag || word.seq.wrapping_sub(lane.base) > lane.outstanding() {
                return;
            }
            self.go_back(at, index, word.seq);
        }
        let target = self.targets.at(at);
        if busy {
            target.wait_until = turn + (PAUSE << target.refusals.min(PAUSES));
            target.refusals = target.refusals.saturating_add(1);
        }
    }

    /// The receiver has a new tag for us.
    pub fn synchronised(
        &mut self,
        fabric: &F,
        from: Peer,
        word: &Word,
        argument: u64,
    ) -> Result<(), Malformed> {
        let Some(at) = self.targets.find(from) else {
            return Ok(());
        };
        let (before, wanted, about) = wire::numbers_of(argument);
        let (not, known) = (about & 3, u16::from(about >> 4));
        if word.tag == 0 {
            return Err(Malformed {
                what: "the tag of a Portals connection",
                value: 0,
            });
        }
        let target = self.targets.at(at);
        if target.tag == word.tag || target.last != 0 && word.tag.wrapping_sub(target.last) > 0x7fff {
            return Ok(());
        }
        if target.last != 0 && target.last == before {
            self.acked_both(fabric, from, known, wanted)?;
        }
        let target = self.targets.at(at);
        (target.tag, target.last) = (word.tag, word.tag);
        target.probing = false;
        target.timeouts = 0;
        target.wait_until = 0;
        let news = not & !target.not;
        target.not |= not;
        for index in 0..2 {
            if news != 0 {
                self.change_ways(fabric, at, index);
            }
            let base = self.targets.at(at).lanes[index].base;
            self.go_back(at, index, base);
        }
        Ok(())
    }

    /// Messages that wait in ways that do not work go as streams. Nothing of the lane has been accepted, and the tag is
    /// new: numbers may change.
    #[cold]
    fn change_ways(&mut self, fabric: &F, at: u16, index: usize) {
        let target = self.targets.at(at);
        let (not, checked) = (target.not, target.checked);
        let mut number = target.lanes[index].head;
        while number != NONE {
            let pending = &mut self.pendings[usize::from(number)];
            number = pending.next;
            let start = wire::WORD + if checked { wire::CHECK } else { 0 } + usize::from(pending.header_len);
            match pending.how {
                How::Pull { key, .. } if not & wire::NO_PULL != 0 => {
                    if let Some(key) = key {
                        fabric.withdraw(key);
                    }
                    Self::as_stream(pending, start, pending.length, checked);
                }
                // The bytes stay where they are until they have gone.
                How::Staged(slot) if not & wire::NO_STAGING != 0 => {
                    Self::as_stream(pending, start, pending.length, checked);
                    pending.how = How::Staged(slot);
                }
                _ => {}
            }
        }
        let lane = &mut self.targets.at(at).lanes[index];
        lane.sent = lane.base;
    }

    /// The receiver wants to forget us. So do we; a tag that is not ours (any more) is never used again.
    pub fn detached(&mut self, fabric: &F, from: Peer, word: &Word, argument: u64) -> Result<(), Malformed> {
        let Some(at) = self.targets.find(from) else {
            return Ok(());
        };
        if self.targets.at(at).tag != word.tag {
            return Ok(());
        }
        let (known, wanted, _) = wire::numbers_of(argument);
        self.acked_both(fabric, from, known, wanted)?;
        let target = self.targets.at(at);
        target.tag = 0;
        target.probing = false;
        for index in 0..2 {
            let base = self.targets.at(at).lanes[index].base;
            self.go_back(at, index, base);
        }
        Ok(())
    }

    /// Time has passed: send again what nobody has said anything about, and end what was for those who have ended.
    pub fn tend(&mut self, fabric: &F, figures: &mut Figures, now: Instant, ask: bool) {
        for at in 0..self.targets.len() {
            let resend = self.resend;
            let Some(target) = self.targets.get(at) else {
                continue;
            };
            if target.is_idle() || target.dead {
                continue;
            }
            if ask && fabric.has_ended(target.peer) {
                self.end_target(fabric, at);
                continue;
            }
            let bases = [target.lanes[0].base, target.lanes[1].base];
            if bases != target.stamp_base {
                (target.stamp_base, target.stamp) = (bases, now);
                target.timeouts = 0;
                continue;
            }
            let waiting = target.probing || target.lanes.iter().any(|lane| lane.outstanding() > 0);
            if !waiting {
                target.stamp = now;
                continue;
            }
            if now.duration_since(target.stamp) < resend * (1 << target.timeouts.min(DOUBLINGS)) {
                continue;
            }
            target.stamp = now;
            target.timeouts = target.timeouts.saturating_add(1);
            target.probing = false;
            figures.timeouts += 1;
            if target.timeouts.is_multiple_of(4) {
                // Perhaps the receiver knows us under another tag.
                target.tag = 0;
            }
            for index in 0..2 {
                let base = self.targets.at(at).lanes[index].base;
                self.go_back(at, index, base);
            }
        }
    }

    /// Whether anything is under way.
    pub fn is_idle(&mut self) -> bool {
        (0..self.targets.len()).all(|at| self.targets.get(at).is_none_or(|target| target.is_idle()))
    }

    #[cold]
    fn end_target(&mut self, fabric: &F, at: u16) {
        let target = self.targets.at(at);
        target.dead = true;
        for (index, lane) in target.lanes.iter_mut().enumerate() {
            let mut number = lane.head;
            while number != NONE {
                let pending = &mut self.pendings[usize::from(number)];
                let next = pending.next;
                let memory = (&mut self.slots, &mut self.desk);
                release(fabric, pending, memory, &mut self.finished, Outcome::PeerEnded);
                self.free[index].push(number);
                number = next;
            }
            *lane = Lane::new(lane.sent);
        }
    }

    /// The receiver lets us copy parts of a body that it fetches: so many bytes, in parts of so many, to this address.
    pub fn granted(
        &mut self,
        from: Peer,
        index: usize,
        word: &Word,
        grant: [u64; 3],
    ) -> Result<(), Malformed> {
        let Some(at) = self.targets.find(from) else {
            return Ok(());
        };
        let target = self.targets.at(at);
        let lane = &target.lanes[index];
        let mut skip = u32::from(word.seq.wrapping_sub(lane.base));
        if target.tag != word.tag || skip >= u32::from(lane.outstanding()) || lane.head_done > 0 {
            return Ok(());
        }
        let mut number = lane.head;
        while skip > 0 {
            let pending = &self.pendings[usize::from(number)];
            let Some(left) = skip.checked_sub(pending.packets) else {
                return Ok(());
            };
            (skip, number) = (left, pending.next);
        }
        let pending = &self.pendings[usize::from(number)];
        let How::Pull { desk: Some(line), .. } = pending.how else {
            return Ok(());
        };
        let [bytes, chunk, address] = grant;
        if bytes > pending.length as u64 || chunk < 4096 {
            return Err(Malformed {
                what: "the parts of a Portals body that both sides copy",
                value: bytes,
            });
        }
        let body = pending.body.as_one().unwrap_or_default();
        self.desk.open(Offer {
            peer: from,
            line,
            body: body.address,
            bytes,
            chunk,
            address,
        });
        Ok(())
    }

    /// Whether there are bodies of ours of which we may copy parts.
    #[inline(always)]
    pub fn has_offers(&self) -> bool {
        self.desk.is_open()
    }

    /// Copy parts of them.
    pub fn serve_offers(&mut self, fabric: &F) -> bool {
        self.desk.serve(fabric)
    }
}

/// A pending's message is over.
#[inline(never)]
fn release<F: Fabric>(
    fabric: &F,
    pending: &mut Pending,
    (slots, desk): (&mut VecDeque<u16>, &mut Desk<F>),
    finished: &mut VecDeque<(u64, Outcome)>,
    outcome: Outcome,
) {
    pending.body = Segments::default();
    match std::mem::replace(&mut pending.how, How::Inline) {
        How::Inline => {}
        How::Staged(slot) => slots.push_back(slot),
        How::Pull { key, desk: line } => {
            if let Some(line) = line {
                desk.give_line(line);
            }
            if let Some(key) = key {
                fabric.withdraw(key);
            }
            finished.push_back((pending.token, outcome));
        }
        How::Stream => finished.push_back((pending.token, outcome)),
    }
}

/// Bytes of a body in a packet of its own.
pub fn stream_bytes(checked: bool) -> usize {
    PACKET_BYTES - wire::WORD - if checked { wire::CHECK } else { 0 }
}

/// The priority of a channel's packets.
pub const PRIORITY: [Priority; 2] = Priority::ALL;
