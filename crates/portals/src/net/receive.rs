//! The receiving half: receive pendings, what is kept about each source, acceptance in order, and acknowledgements.
//!
//! A packet is accepted when it is the one wanted next. A header packet takes a pending; without one, it is refused, and
//! its sender comes back to it. A packet is acknowledged when it is done with: a body that still has to be fetched from the
//! sender's memory holds back the acknowledgement of its header packet, so that the acknowledgement also says that the
//! memory is free. Acknowledgements travel with other packets, or several in a packet of their own.
//!
//! A source is given up for another one only after its sender has agreed that nothing is outstanding
//! ([`Op::Detach`]): so what was accepted is known to be, and nothing is accepted twice.
//!
//! Cost class: fast path ([`Receive::accept`] of what is wanted next, [`Receive::acknowledgement`]); else queued path.

use super::desk::{self, DESK, Line as DeskLine};
use super::table::{NONE, Table};
use super::transmit::{STAGING, stream_bytes};
use super::wire::{
    self, ACK_OTHER, CHECKED, FIRST, HAS_ACK, Kind, Malformed, Op, Place, WANTS_ACK, Word, Writer,
};
use super::{Figures, NetTunables, Outcome, Placement, RxId, moves};
use crate::memory::Segments;
use farpost_fabric::{
    Completion, Direction, Fabric, FabricError, Fault, LINE_BYTES, PACKET_BYTES, Peer, Permission, Port,
    Priority, Remote, Ticket, TrySend,
};
use std::collections::VecDeque;

/// Progress calls after which a source that never came back may be given up.
const SILENT: u64 = 1000;
/// Times that a body whose check is wrong is fetched again.
const AGAIN: u8 = 3;

/// Where a body is, or comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// In the pending: it came with its header.
    Inline,
    Staged {
        offset: u32,
    },
    Pull {
        position: u64,
        key: u64,
    },
    Stream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Free,
    /// The host decides.
    Later,
    Placed,
    /// The sender has ended while the host decides.
    Orphan,
}

/// A message being received.
pub struct Pending {
    generation: u16,
    stage: Stage,
    from: From,
    origin: u16,
    lane: u8,
    /// The number of the header packet.
    seq: u16,
    /// The next unfinished one of its lane.
    next: u16,
    inline_len: u8,
    failed: bool,
    tries: u8,
    length: u64,
    token: Option<u64>,
    keep: u64,
    done: u64,
    check: Option<u32>,
    /// Bytes of a part, where both sides copy.
    part: Option<u64>,
    ticket: Option<(Ticket, u64)>,
    into: Segments,
    inline: [u8; PACKET_BYTES],
}

impl Pending {
    /// Whether its header packet is not acknowledged before it is finished.
    fn holds_back(&self) -> bool {
        matches!(self.from, From::Staged { .. } | From::Pull { .. })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waits for the first packet with the new tag.
    Syncing,
    Open,
    /// Nothing is accepted any more; waits until the sender has forgotten the tag.
    Closing,
}

#[derive(Clone, Copy)]
struct Lane {
    /// Whether the packet wanted next is accepted when it comes.
    open: bool,
    /// Whether `wanted` means something.
    known: bool,
    wanted: u16,
    /// Packets accepted that the sender has not been told of.
    owed: u16,
    /// To be told to the sender.
    refusal: Option<Op>,
    /// The sender has been told that it has to go back.
    told: bool,
    /// Unfinished messages, oldest first.
    head: u16,
    tail: u16,
    /// The message whose packets come.
    streaming: u16,
    /// The message whose body is being fetched: one at a time.
    mover: u16,
}

impl Lane {
    const NEW: Lane = Lane {
        open: false,
        known: false,
        wanted: 0,
        owed: 0,
        refusal: None,
        told: false,
        head: NONE,
        tail: NONE,
        streaming: NONE,
        mover: NONE,
    };
}

/// What is kept about a process that sends to us.
pub struct Origin<F: Fabric> {
    peer: Peer,
    tag: u16,
    before: u16,
    before_wanted: [u16; 2],
    before_known: u8,
    not: u8,
    state: State,
    /// Something was accepted under this tag.
    served: bool,
    checked: bool,
    /// In the list of those that something has to be told.
    listed: bool,
    /// `Sync` or `Detach` has to be told.
    tell: bool,
    since: u64,
    staging: Option<F::Import>,
    desk: Option<F::Import>,
    lanes: [Lane; 2],
}

impl<F: Fabric> Origin<F> {
    fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.head == NONE)
    }

    /// Which lanes' numbers mean something.
    fn known(&self) -> u16 {
        u16::from(self.lanes[0].known) | u16::from(self.lanes[1].known) << 1
    }

    /// What [`Op::Sync`] says.
    fn sync(&self) -> u64 {
        wire::numbers(self.before, self.before_wanted, self.not | self.before_known << 4)
    }
}

/// What becomes of a packet.
pub enum Accepted {
    /// A header packet, with its pending and the place of its source.
    Header(u16, u16),
    /// The next part of a body, of that pending.
    Data(u16),
    /// Nothing.
    No,
}

/// The receiving half of a process.
pub struct Receive<F: Fabric> {
    pendings: Box<[Pending]>,
    free: Vec<u16>,
    origins: Table<Origin<F>>,
    /// Sources that something is owed to.
    owing: Vec<u16>,
    /// Somebody waits for what is owed.
    pub urgent: bool,
    ack_after: u16,
    /// Placed, to be fetched.
    fetching: Vec<u16>,
    chunk: u64,
    shared: u64,
    next_tag: u16,
    /// Messages that are in place.
    pub finished: VecDeque<(u64, Outcome)>,
}

impl<F: Fabric> Receive<F> {
    pub fn new(fabric: &F, config: &NetTunables) -> Self {
        let pending = |_| Pending {
            generation: 0,
            stage: Stage::Free,
            from: From::Inline,
            origin: NONE,
            lane: 0,
            seq: 0,
            next: NONE,
            inline_len: 0,
            failed: false,
            tries: 0,
            length: 0,
            token: None,
            keep: 0,
            done: 0,
            check: None,
            part: None,
            ticket: None,
            into: Segments::default(),
            inline: [0; PACKET_BYTES],
        };
        let count = config.rx_pendings as usize;
        let sources = config.sources as usize;
        Self {
            pendings: (0..count).map(pending).collect(),
            free: (0..count as u16).rev().collect(),
            origins: Table::new(sources),
            owing: Vec::with_capacity(sources),
            urgent: false,
            ack_after: (config.window / 4).max(1) as u16,
            fetching: Vec::with_capacity(count),
            chunk: config.chunk,
            shared: config.shared,
            next_tag: fabric.me().0 as u16 | 1,
            finished: VecDeque::with_capacity(2 * count),
        }
    }

    /// Bytes of a source, and of a pending.
    pub fn sizes() -> (usize, usize) {
        (Table::<Origin<F>>::entry_bytes(), size_of::<Pending>())
    }

    fn new_tag(&mut self) -> u16 {
        self.next_tag = self.next_tag.wrapping_add(1).max(1);
        self.next_tag
    }

    // Acknowledging.

    /// The packet that may be named as wanted next: nothing before it needs the sender any more.
    #[inline(always)]
    fn point(pendings: &[Pending], lane: &Lane) -> u16 {
        let mut at = lane.head;
        while at != NONE {
            let pending = &pendings[usize::from(at)];
            if pending.holds_back() {
                return pending.seq;
            }
            at = pending.next;
        }
        lane.wanted
    }

    /// What to acknowledge by the way in a packet of channel `index` to `peer`: flags and number.
    #[inline(always)]
    pub fn acknowledgement(&mut self, peer: Peer, index: usize) -> (u8, u16) {
        let Some(at) = self.origins.find(peer) else {
            return (0, 0);
        };
        let lanes = &mut self.origins.at(at).lanes;
        let other = lanes[1 - index].owed > 0 && lanes[index].owed == 0 || !lanes[index].open;
        let (flags, index) = if other {
            (HAS_ACK | ACK_OTHER, 1 - index)
        } else {
            (HAS_ACK, index)
        };
        let lane = &mut lanes[index];
        if !lane.open {
            return (0, 0);
        }
        lane.owed = 0;
        (flags, Self::point(&self.pendings, lane))
    }

    /// That packet did not go.
    #[cold]
    pub fn untold(&mut self, peer: Peer, index: usize, flags: u8) {
        if let Some(at) = self.origins.find(peer) {
            let index = if flags & ACK_OTHER != 0 { 1 - index } else { index };
            self.owe(at, index);
        }
    }

    #[inline(always)]
    fn owe(&mut self, at: u16, index: usize) {
        let origin = self.origins.at(at);
        let lane = &mut origin.lanes[index];
        lane.owed = lane.owed.saturating_add(1);
        self.urgent |= lane.owed >= self.ack_after;
        if !origin.listed {
            origin.listed = true;
            self.owing.push(at);
        }
    }

    #[cold]
    fn refuse(&mut self, at: u16, index: usize, op: Op) {
        let origin = self.origins.at(at);
        origin.lanes[index].refusal = Some(op);
        origin.lanes[index].told = true;
        self.tell(at);
    }

    fn tell(&mut self, at: u16) {
        self.urgent = true;
        let origin = self.origins.at(at);
        if !origin.listed {
            origin.listed = true;
            self.owing.push(at);
        }
    }

    /// Whether anything is owed to anybody.
    pub fn owes(&self) -> bool {
        !self.owing.is_empty()
    }

    /// Tell everybody what is owed to them, as far as there is room.
    pub fn flush(&mut self, fabric: &F, figures: &mut Figures) {
        self.urgent = false;
        let mut at = 0;
        while at < self.owing.len() {
            if self.tell_one(fabric, figures, self.owing[at]) {
                let done = self.owing.swap_remove(at);
                self.origins.at(done).listed = false;
            } else {
                self.urgent = true;
                at += 1;
            }
        }
    }

    fn tell_one(&mut self, fabric: &F, figures: &mut Figures, at: u16) -> bool {
        let origin = self.origins.at(at);
        let to = (origin.peer, origin.checked);
        if origin.tell {
            let argument = match origin.state {
                State::Syncing => Some((Op::Sync, origin.sync())),
                State::Closing => {
                    let wanted = origin.lanes.map(|lane| lane.wanted);
                    Some((Op::Detach, wire::numbers(origin.known(), wanted, 0)))
                }
                State::Open => None,
            };
            if let Some((op, argument)) = argument
                && !control(fabric, to, op, 0, (origin.tag, 0), &[argument])
            {
                return false;
            }
            origin.tell = false;
        }
        for index in 0..2 {
            let lane = &mut origin.lanes[index];
            if let Some(op) = lane.refusal {
                if lane.open && !control(fabric, to, op, index, (origin.tag, lane.wanted), &[]) {
                    return false;
                }
                figures.refusals += 1;
                lane.refusal = None;
            }
        }
        if origin.lanes.iter().all(|lane| lane.owed == 0) {
            return true;
        }
        let wanted = origin.lanes.map(|lane| Self::point(&self.pendings, &lane));
        let argument = wire::numbers(origin.known(), wanted, 0);
        if !control(fabric, to, Op::Ack, 0, (origin.tag, 0), &[argument]) {
            return false;
        }
        figures.acks += 1;
        for lane in &mut origin.lanes {
            lane.owed = 0;
        }
        true
    }

    // Accepting.

    /// A numbered packet. `checked` tells whether packets from a new source carry a check.
    #[inline(always)]
    pub fn accept(
        &mut self,
        fabric: &F,
        figures: &mut Figures,
        (from, index): (Peer, usize),
        word: &Word,
        (turn, checked): (u64, impl FnOnce(Peer) -> bool),
    ) -> Result<Accepted, Malformed> {
        let at = match self.origins.find(from) {
            Some(at) => at,
            None => match self.enter(fabric, from, checked(from), turn) {
                Some(at) => at,
                None => return Ok(Accepted::No),
            },
        };
        let origin = self.origins.at(at);
        let lane = &mut origin.lanes[index];
        let expected = origin.tag == word.tag && lane.open && lane.wanted == word.seq;
        if !expected && !self.odd(fabric, figures, (at, index), word, turn) {
            return Ok(Accepted::No);
        }
        let origin = self.origins.at(at);
        let lane = &mut origin.lanes[index];
        let streaming = lane.streaming;
        let accepted = if streaming == NONE && word.kind != Kind::Data {
            let Some(number) = self.free.pop() else {
                figures.exhausted += 1;
                self.refuse(at, index, Op::Busy);
                return Ok(Accepted::No);
            };
            Accepted::Header(number, at)
        } else {
            if streaming != NONE && self.pendings[usize::from(streaming)].stage == Stage::Later {
                self.refuse(at, index, Op::Busy);
                return Ok(Accepted::No);
            }
            Accepted::Data(streaming)
        };
        lane.wanted = word.seq.wrapping_add(1);
        lane.told = false;
        origin.served = true;
        self.urgent |= word.has(WANTS_ACK);
        if !matches!(word.kind, Kind::Staged | Kind::Pull) {
            self.owe(at, index);
        }
        match accepted {
            Accepted::Data(number) if word.kind != Kind::Data || number == NONE => {
                // What was begun never ends: its sender does not keep to the protocol.
                if number != NONE {
                    self.abandon(number);
                }
                Err(Malformed {
                    what: "the next part of a Portals message",
                    value: u64::from(word.kind as u8),
                })
            }
            accepted => Ok(accepted),
        }
    }

    /// A packet that is not the one wanted next. True: it is after all.
    #[cold]
    #[inline(never)]
    fn odd(
        &mut self,
        fabric: &F,
        figures: &mut Figures,
        (at, index): (u16, usize),
        word: &Word,
        turn: u64,
    ) -> bool {
        let origin = self.origins.at(at);
        let lane = &mut origin.lanes[index];
        if origin.state == State::Closing {
            origin.tell = true;
            self.tell(at);
            return false;
        }
        if origin.tag != word.tag {
            if origin.state == State::Syncing {
                origin.tell = true;
                self.tell(at);
            } else if word.tag != 0 {
                figures.stale += 1;
            } else if lane.open && lane.wanted.wrapping_sub(word.seq) < 4096 || !origin.is_empty() {
                // It is known to us, but does not know that (any more).
                let argument = origin.sync();
                control(
                    fabric,
                    (origin.peer, origin.checked),
                    Op::Sync,
                    0,
                    (origin.tag, 0),
                    &[argument],
                );
            } else {
                self.resync(at, 0, turn);
            }
            return false;
        }
        if !lane.open {
            if !word.has(FIRST) {
                return false;
            }
            (lane.open, lane.known) = (true, true);
            lane.wanted = word.seq;
            origin.state = State::Open;
            origin.tell = false;
            return true;
        }
        if word.seq.wrapping_sub(lane.wanted) > 0x7fff {
            figures.duplicates += 1;
            self.owe(at, index);
            self.urgent = true;
        } else if !lane.told {
            figures.gaps += 1;
            self.refuse(at, index, Op::Gap);
        }
        false
    }

    /// A new tag. All that was accepted is acknowledged with it.
    #[cold]
    pub fn resync(&mut self, at: u16, not: u8, turn: u64) {
        let tag = self.new_tag();
        let origin = self.origins.at(at);
        origin.before = origin.tag;
        origin.before_wanted = origin.lanes.map(|lane| lane.wanted);
        origin.before_known = origin.known() as u8;
        origin.tag = tag;
        origin.not |= not;
        origin.state = State::Syncing;
        origin.served = false;
        origin.since = turn;
        origin.tell = true;
        origin.lanes = [Lane::NEW; 2];
        self.tell(at);
    }

    /// A place for a new source. None: the sender is told to try again, and perhaps another one is given up.
    #[cold]
    fn enter(&mut self, fabric: &F, peer: Peer, checked: bool, turn: u64) -> Option<u16> {
        if self.origins.is_full() {
            let silent = |origin: &mut Origin<F>| {
                origin.state == State::Syncing
                    && origin.before == 0
                    && !origin.served
                    && turn.wrapping_sub(origin.since) > SILENT
            };
            if let Some(at) = self.origins.candidate(silent) {
                self.forget(at);
            } else {
                let closing = |origin: &mut Origin<F>| origin.state == State::Closing;
                if self.origins.candidate(closing).is_none() {
                    let idle = |origin: &mut Origin<F>| {
                        origin.state == State::Open && origin.served && origin.is_empty()
                    };
                    if let Some(at) = self.origins.candidate(idle) {
                        let origin = self.origins.at(at);
                        origin.state = State::Closing;
                        origin.tell = true;
                        for lane in &mut origin.lanes {
                            (lane.owed, lane.refusal) = (0, None);
                            lane.open = false;
                        }
                        self.tell(at);
                    }
                }
                control(fabric, (peer, checked), Op::Busy, 0, (0, 0), &[]);
                return None;
            }
        }
        let tag = self.new_tag();
        let origin = Origin {
            peer,
            tag,
            before: 0,
            before_wanted: [0; 2],
            before_known: 0,
            not: 0,
            state: State::Syncing,
            served: false,
            checked,
            listed: false,
            tell: true,
            since: turn,
            staging: None,
            desk: None,
            lanes: [Lane::NEW; 2],
        };
        let at = self.origins.insert(peer, origin)?;
        self.tell(at);
        Some(at)
    }

    fn forget(&mut self, at: u16) {
        self.owing.retain(|owing| *owing != at);
        self.origins.remove(at);
    }

    /// The sender has forgotten a tag.
    pub fn detached(&mut self, from: Peer, word: &Word) {
        if let Some(at) = self.origins.find(from) {
            let origin = self.origins.at(at);
            if origin.state == State::Closing && origin.tag == word.tag {
                self.forget(at);
            }
        }
    }

    /// A packet came damaged: what it was is not known.
    #[cold]
    pub fn damaged(&mut self, from: Peer, index: usize) {
        if let Some(at) = self.origins.find(from) {
            let lane = &self.origins.at(at).lanes[index];
            if lane.open && !lane.told {
                self.refuse(at, index, Op::Gap);
            }
        }
    }

    /// Whether a body can be had that way; else the sender is told to take another one, and the packet is refused.
    #[cold]
    pub fn can_have(
        &mut self,
        fabric: &F,
        (at, index): (u16, usize),
        place: Place,
        length: u64,
        turn: u64,
    ) -> Result<bool, Malformed> {
        let origin = self.origins.at(at);
        let not = match place {
            Place::Stream => return Ok(true),
            Place::Pull { .. } if fabric.can_transfer(origin.peer) => return Ok(true),
            Place::Pull { .. } => wire::NO_PULL,
            Place::Staged { offset } => {
                if origin.staging.is_none() {
                    let import = fabric.import(origin.peer, STAGING, 1, Permission::Read);
                    origin.staging = import.ok();
                }
                match &origin.staging {
                    Some(memory) if u64::from(offset) + length <= memory.len() as u64 => return Ok(true),
                    Some(_) => {
                        return Err(Malformed {
                            what: "the place of a staged Portals body",
                            value: u64::from(offset),
                        });
                    }
                    None => wire::NO_STAGING,
                }
            }
        };
        // Numbers change with the way, so nothing accepted may be open.
        self.take_back(at, index);
        if self.origins.at(at).is_empty() {
            self.resync(at, not, turn);
        } else {
            self.refuse(at, index, Op::Busy);
        }
        Ok(false)
    }

    /// The packet just accepted is refused after all.
    fn take_back(&mut self, at: u16, index: usize) {
        let lane = &mut self.origins.at(at).lanes[index];
        lane.wanted = lane.wanted.wrapping_sub(1);
    }

    // Pendings.

    /// The name of a pending that was taken.
    #[inline(always)]
    pub fn id(&self, number: u16) -> RxId {
        let generation = self.pendings[usize::from(number)].generation;
        RxId::new(number, generation)
    }

    /// A pending that nobody has heard of goes back.
    #[inline(always)]
    pub fn give_back(&mut self, number: u16) {
        self.free.push(number);
    }

    fn release(&mut self, number: u16) {
        let pending = &mut self.pendings[usize::from(number)];
        pending.generation = pending.generation.wrapping_add(1);
        pending.stage = Stage::Free;
        pending.into = Segments::default();
        self.free.push(number);
    }

    /// A message that came whole goes where the upper layer said. False: not now.
    #[cold]
    pub fn settle_short(
        &mut self,
        (number, at, index): (u16, u16, usize),
        body: &[u8],
        placement: Placement,
    ) {
        let pending = &mut self.pendings[usize::from(number)];
        match placement {
            Placement::Done | Placement::Discard => self.free.push(number),
            Placement::Keep { token, bytes, into } => {
                let kept = (bytes as usize).min(body.len()).min(into.len());
                moves::store(&into, 0, &body[..kept]);
                self.finished.push_back((token, Outcome::Done));
                self.release(number);
            }
            Placement::Later => {
                pending.stage = Stage::Later;
                pending.from = From::Inline;
                pending.inline_len = body.len() as u8;
                pending.length = body.len() as u64;
                pending.inline[..body.len()].copy_from_slice(body);
            }
            Placement::Refuse => {
                self.free.push(number);
                self.take_back(at, index);
                self.refuse(at, index, Op::Busy);
            }
        }
    }

    /// The header packet of a long message: note it before the upper layer is asked.
    pub fn begin(
        &mut self,
        (number, at, index): (u16, u16, usize),
        seq: u16,
        length: u64,
        place: Place,
        check: Option<u32>,
    ) {
        let lane = &mut self.origins.at(at).lanes[index];
        let pending = &mut self.pendings[usize::from(number)];
        pending.stage = Stage::Later;
        pending.from = match place {
            Place::Staged { offset } => From::Staged { offset },
            Place::Pull { position, key } => From::Pull { position, key },
            Place::Stream => From::Stream,
        };
        pending.origin = at;
        pending.lane = index as u8;
        pending.seq = seq;
        pending.next = NONE;
        pending.failed = false;
        pending.tries = 0;
        pending.length = length;
        pending.token = None;
        pending.keep = 0;
        pending.done = 0;
        pending.check = check;
        pending.part = None;
        pending.ticket = None;
        if place == Place::Stream {
            lane.streaming = number;
        }
        if lane.tail == NONE {
            lane.head = number;
        } else {
            self.pendings[usize::from(lane.tail)].next = number;
        }
        lane.tail = number;
    }

    /// The upper layer has decided about a long message.
    pub fn settle(&mut self, fabric: &F, figures: &mut Figures, number: u16, placement: Placement) {
        let pending = &mut self.pendings[usize::from(number)];
        match placement {
            Placement::Later => {}
            Placement::Refuse => {
                let (at, index) = (pending.origin, usize::from(pending.lane));
                let lane = &mut self.origins.at(at).lanes[index];
                if lane.wanted == pending.seq.wrapping_add(1) {
                    if lane.streaming == number {
                        lane.streaming = NONE;
                    }
                    self.take_back(at, index);
                    self.unlink(number);
                    self.release(number);
                    self.refuse(at, index, Op::Busy);
                } else {
                    // Others have come behind it: too late.
                    self.settle(fabric, figures, number, Placement::Discard);
                }
            }
            Placement::Done | Placement::Discard => {
                pending.stage = Stage::Placed;
                pending.keep = 0;
                if pending.from != From::Stream {
                    self.end(number, Outcome::Done);
                }
            }
            Placement::Keep { token, bytes, into } => {
                pending.stage = Stage::Placed;
                pending.token = Some(token);
                pending.keep = bytes.min(pending.length).min(into.len() as u64);
                pending.into = into;
                if pending.from == From::Stream {
                    return;
                }
                if pending.keep == 0 {
                    return self.end(number, Outcome::Done);
                }
                self.fetching.push(number);
                self.share(fabric, number);
                self.fetch(fabric, figures, number);
            }
        }
    }

    /// What the upper layer decides after [`Placement::Later`]. False: there is no such pending any more.
    pub fn place(&mut self, fabric: &F, figures: &mut Figures, id: RxId, placement: Placement) -> bool {
        let (number, generation) = id.parts();
        let Some(pending) = self.pendings.get_mut(usize::from(number)) else {
            return false;
        };
        if pending.generation != generation {
            return false;
        }
        match (pending.stage, placement) {
            (Stage::Free | Stage::Placed, _) => return false,
            (_, Placement::Later) => {}
            (Stage::Orphan, placement) => {
                if let Placement::Keep { token, .. } = placement {
                    self.finished.push_back((token, Outcome::PeerEnded));
                }
                self.release(number);
            }
            (Stage::Later, placement) if pending.from == From::Inline => {
                if let Placement::Keep { token, bytes, into } = placement {
                    let len = usize::from(pending.inline_len);
                    let kept = (bytes as usize).min(len).min(into.len());
                    moves::store(&into, 0, &pending.inline[..kept]);
                    self.finished.push_back((token, Outcome::Done));
                }
                self.release(number);
            }
            (Stage::Later, placement) => {
                self.settle(fabric, figures, number, placement);
                self.urgent = true;
            }
        }
        true
    }

    /// The next part of a body that comes in packets.
    pub fn data(&mut self, (number, checked): (u16, bool), bytes: &[u8]) -> Result<(), Malformed> {
        let pending = &mut self.pendings[usize::from(number)];
        let left = pending.length - pending.done;
        if bytes.len() as u64 != left.min(stream_bytes(checked) as u64) {
            pending.failed = true;
            self.abandon(number);
            return Err(Malformed {
                what: "the length of a part of a Portals body",
                value: bytes.len() as u64,
            });
        }
        let room = pending.keep.saturating_sub(pending.done).min(bytes.len() as u64) as usize;
        if room > 0 {
            moves::store(&pending.into, pending.done as usize, &bytes[..room]);
        }
        pending.done += bytes.len() as u64;
        if pending.done == pending.length {
            self.end(number, Outcome::Done);
        }
        Ok(())
    }

    /// A message whose sender does not keep to the protocol.
    #[cold]
    fn abandon(&mut self, number: u16) {
        let pending = &mut self.pendings[usize::from(number)];
        if pending.stage == Stage::Later {
            // The host may still name it.
            self.unlink(number);
            self.pendings[usize::from(number)].stage = Stage::Orphan;
        } else {
            self.end(number, Outcome::Failed);
        }
    }

    /// A message leaves its lane.
    fn unlink(&mut self, number: u16) {
        let pending = &self.pendings[usize::from(number)];
        let (next, lane) = (pending.next, usize::from(pending.lane));
        let lane = &mut self.origins.at(pending.origin).lanes[lane];
        if lane.streaming == number {
            lane.streaming = NONE;
        }
        if lane.mover == number {
            lane.mover = NONE;
        }
        let mut before = NONE;
        let mut at = lane.head;
        while at != number {
            before = at;
            at = self.pendings[usize::from(at)].next;
        }
        if before == NONE {
            lane.head = next;
        } else {
            self.pendings[usize::from(before)].next = next;
        }
        if lane.tail == number {
            lane.tail = before;
        }
    }

    /// A message is complete, or never will be.
    fn end(&mut self, number: u16, outcome: Outcome) {
        let pending = &self.pendings[usize::from(number)];
        let (at, index) = (pending.origin, usize::from(pending.lane));
        // The sender waits to use its memory again.
        let waits = matches!(pending.from, From::Pull { .. });
        if let Some(token) = pending.token {
            self.finished.push_back((token, outcome));
        }
        self.unlink(number);
        self.release(number);
        self.owe(at, index);
        self.urgent |= waits;
    }

    // Fetching.

    /// Whether bodies are to be fetched.
    #[inline(always)]
    pub fn has_fetching(&self) -> bool {
        !self.fetching.is_empty()
    }

    /// Fetch on, a part of each. True: something moved.
    pub fn fetch_all(&mut self, fabric: &F, figures: &mut Figures) -> bool {
        let mut moved = false;
        let mut at = 0;
        while at < self.fetching.len() {
            let number = self.fetching[at];
            moved |= self.fetch(fabric, figures, number);
            if self.fetching.get(at) == Some(&number) {
                at += 1;
            }
        }
        moved
    }

    /// Let the sender copy parts of a long body too, where it has a desk for it.
    fn share(&mut self, fabric: &F, number: u16) {
        let pending = &mut self.pendings[usize::from(number)];
        let origin = self.origins.at(pending.origin);
        let From::Pull { key, .. } = pending.from else {
            return;
        };
        if key == 0 || pending.keep < self.shared || !fabric.maps(origin.peer) {
            return;
        }
        if origin.desk.is_none() {
            let import = fabric.import(origin.peer, DESK, LINE_BYTES, Permission::ReadWrite);
            origin.desk = import.ok();
        }
        if origin
            .desk
            .as_ref()
            .and_then(|desk| line_of::<F>(desk, key))
            .is_none()
        {
            return;
        }
        if let Some(one) = pending.into.region(0, pending.keep as usize).as_one() {
            let part = desk::part(pending.keep, self.chunk);
            let to = (origin.peer, origin.checked);
            let arguments = [pending.keep, part, one.address as u64];
            let about = (origin.tag, pending.seq);
            if control(
                fabric,
                to,
                Op::Grant,
                usize::from(pending.lane),
                about,
                &arguments,
            ) {
                pending.part = Some(part);
            }
        }
    }

    /// Fetch a part of one body, if it is the turn of its lane.
    fn fetch(&mut self, fabric: &F, figures: &mut Figures, number: u16) -> bool {
        let pending = &mut self.pendings[usize::from(number)];
        let origin = self.origins.at(pending.origin);
        let peer = origin.peer;
        let lane = &mut origin.lanes[usize::from(pending.lane)];
        if lane.mover == NONE {
            lane.mover = number;
        }
        if lane.mover != number {
            return false;
        }
        let outcome = match pending.from {
            From::Staged { offset } => {
                let memory = origin.staging.as_ref().expect("imported before");
                let into = pending.into.region(0, pending.keep as usize);
                pending.done = pending.keep;
                moves::fetch_staged(memory, offset as usize, &into)
            }
            From::Pull { position, key } if let Some(part) = pending.part => {
                let line = origin.desk.as_ref().and_then(|desk| line_of::<F>(desk, key));
                let line = line.expect("looked at before");
                match line.claim(pending.keep, part) {
                    Some((at, len)) => {
                        let one = pending.into.region(at as usize, len as usize);
                        let one = one.as_one().expect("one run of memory");
                        let from = (position.wrapping_add(at), 0);
                        let moved = moves::transfer(fabric, (peer, Direction::Get), one, from);
                        if moved.is_err() {
                            // Once more and alone, when nobody writes here any more.
                            line.fail();
                        }
                        line.copied();
                        Ok(())
                    }
                    None if !line.complete(pending.keep, part) => return false,
                    None => {
                        if line.failed() {
                            pending.part = None;
                        } else {
                            pending.done = pending.keep;
                        }
                        Ok(())
                    }
                }
            }
            From::Pull { position, key } => match pending.ticket {
                Some((ticket, bytes)) => match fabric.poll_transfer(ticket) {
                    Ok(false) => return false,
                    other => {
                        pending.ticket = None;
                        pending.done += bytes;
                        other.map(|_| ())
                    }
                },
                None => {
                    let rest = (pending.keep - pending.done) as usize;
                    let rest = pending.into.region(pending.done as usize, rest);
                    let mut piece = rest.pieces().next().unwrap_or_default();
                    if fabric.maps(peer) {
                        piece.len = piece.len.min(self.chunk as usize);
                    }
                    let from = (position.wrapping_add(pending.done), key);
                    match moves::transfer(fabric, (peer, Direction::Get), piece, from) {
                        Ok(Completion::Done) => {
                            pending.done += piece.len as u64;
                            Ok(())
                        }
                        Ok(Completion::Pending(ticket)) => {
                            pending.ticket = Some((ticket, piece.len as u64));
                            Ok(())
                        }
                        Err(error) => Err(error),
                    }
                }
            },
            From::Inline | From::Stream => Ok(()),
        };
        if let Err(error) = outcome {
            let outcome = match error {
                FabricError::PeerDead { .. } => Outcome::PeerEnded,
                _ => Outcome::Failed,
            };
            figures.failed += 1;
            fabric.record_fault(Fault { peer, error });
            self.leave_fetching(number);
            self.end(number, outcome);
            return true;
        }
        if pending.ticket.is_some() || pending.done < pending.keep {
            return true;
        }
        if let Some(check) = pending.check
            && pending.keep == pending.length
            && moves::check_of(&pending.into.region(0, pending.keep as usize)) != check
        {
            figures.mismatches += 1;
            pending.tries += 1;
            pending.done = 0;
            if pending.tries <= AGAIN {
                return true;
            }
            self.leave_fetching(number);
            self.end(number, Outcome::Failed);
            return true;
        }
        self.leave_fetching(number);
        self.end(number, Outcome::Done);
        true
    }

    fn leave_fetching(&mut self, number: u16) {
        if let Some(at) = self.fetching.iter().position(|n| *n == number) {
            self.fetching.remove(at);
        }
    }

    // Time.

    /// Time has passed: say again what may be lost, and end what came from those who have ended.
    pub fn tend(&mut self, fabric: &F) {
        for at in 0..self.origins.len() {
            let Some(origin) = self.origins.get(at) else {
                continue;
            };
            if origin.state == State::Open && origin.is_empty() {
                continue;
            }
            if fabric.has_ended(origin.peer) {
                self.end_origin(fabric, at);
            } else if origin.state != State::Open {
                origin.tell = true;
                self.tell(at);
            }
        }
    }

    #[cold]
    fn end_origin(&mut self, fabric: &F, at: u16) {
        for index in 0..2 {
            while self.origins.at(at).lanes[index].head != NONE {
                let number = self.origins.at(at).lanes[index].head;
                let pending = &mut self.pendings[usize::from(number)];
                if let Some((ticket, _)) = pending.ticket.take() {
                    fabric.cancel_transfer(ticket);
                }
                if pending.stage == Stage::Later {
                    self.unlink(number);
                    self.pendings[usize::from(number)].stage = Stage::Orphan;
                } else {
                    self.leave_fetching(number);
                    self.end(number, Outcome::PeerEnded);
                }
            }
        }
        self.forget(at);
    }

    /// Whether nothing is being received and nothing is owed.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.pendings.len() && self.owing.is_empty()
    }
}

/// The line of a peer's desk that a header packet names.
fn line_of<F: Fabric>(desk: &F::Import, key: u64) -> Option<DeskLine<'_, F::Export>> {
    DeskLine::of(F::mapped(desk)?, key.checked_sub(1)?)
}

/// Send a control packet. False: no room.
pub fn control<F: Fabric>(
    fabric: &F,
    (to, checked): (Peer, bool),
    op: Op,
    index: usize,
    (tag, seq): (u16, u16),
    arguments: &[u64],
) -> bool {
    let mut packet = [0; PACKET_BYTES];
    let mut writer = Writer::new(&mut packet, checked);
    for argument in arguments {
        writer.put(&argument.to_le_bytes());
    }
    let len = writer.len();
    let word = Word {
        kind: Kind::Control,
        flags: if checked { CHECKED } else { 0 },
        second: op as u8 | (index as u8) << 7,
        seq,
        tag,
        ack: 0,
    };
    packet[..wire::WORD].copy_from_slice(&word.bits().to_le_bytes());
    let bytes = &mut packet[..len];
    if checked {
        wire::set_check(bytes);
    }
    let sent = fabric.try_send(to, Port::Portals, Priority::High, bytes) == TrySend::Sent;
    if sent {
        fabric.wake(to);
    }
    sent
}
