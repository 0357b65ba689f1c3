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

mod acknowledge;
mod by_lines;
mod deposit;
mod fetch;

pub use acknowledge::control;

use super::lines;
use super::rendezvous_slots::{self, SLOTS_SEGMENT};
use super::table::{NONE, PeerTable};
use super::transmit::{STAGING, stream_bytes};
use super::wire::{
    self, ACK_OTHER, CHECKED, FIRST, HAS_ACK, Malformed, Op, PacketKind, Place, WANTS_ACK, Word, Writer,
};
use super::{Figures, NetTunables, Outcome, Owner, Placement, RxId, moves};
use crate::memory::{Segment, Segments};
use farpost_fabric::{
    Completion, Direction, Fabric, FabricError, Fault, LINE_BYTES, Moment, PACKET_BYTES, Peer, Permission,
    Piece, Port, Priority, Remote, Ticket, TrySend,
};
use std::collections::VecDeque;
use std::time::Duration;

/// Number of an [`Op::Detached`] by which a sender says that it has no use for the tag that it was told of, and knows what was
/// accepted before.
pub const UNUSED: u16 = 1;
/// Progress calls after which a source that never came back may be given up.
const SILENT: u64 = 1000;
/// Times that a body whose check is wrong is fetched again.
const AGAIN: u8 = 3;
/// Time in which it turns out that the peer of a transfer that broke off has ended.
const BROKEN: Duration = Duration::from_secs(10);
/// Bytes of a staged body that are called for before the upper layer has said where they go.
const SOON: u64 = 2048;
/// Memory for bytes that nobody keeps, of bodies whose check is about them too: bytes, and how many bodies have some at once.
const SCRATCH: usize = 16 << 10;
const SCRATCHES: usize = 4;

type Scratch = Box<[u8; SCRATCH]>;

/// Where a body is, or comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodySource {
    /// In the pending: it came with its header.
    Inline,
    Staged {
        offset: u32,
    },
    Pull {
        position: u64,
        key: u64,
    },
    /// In pieces, of which there is a list in the sender's staging memory.
    Gather {
        offset: u32,
        pieces: u32,
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
pub struct ReceivePending {
    generation: u16,
    stage: Stage,
    from: BodySource,
    peer: Peer,
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
    ticket: Option<fetch::UnderWay>,
    /// A transfer of it broke off then, and nobody has asked since whether the peer has ended.
    broken: Option<(Moment, FabricError)>,
    pauses: bool,
    /// Where the list of its pieces goes on: which, and bytes of it.
    cursor: (u32, u64),
    /// Bytes that came by way of the layer's own memory, and the check so far.
    aside: u64,
    sum: u32,
    scratch: Option<Scratch>,
    into: Segments,
    inline: [u8; PACKET_BYTES],
}

impl ReceivePending {
    /// Whether its header packet is not acknowledged before it is finished.
    fn holds_back(&self) -> bool {
        !matches!(self.from, BodySource::Inline | BodySource::Stream)
    }

    /// Bytes that go straight to their place: all that are kept, but none of a body that is fetched again.
    fn direct(&self) -> u64 {
        if self.tries == 0 { self.keep } else { 0 }
    }

    /// Whether there are bytes left that come by way of the layer's own memory.
    fn has_aside(&self) -> bool {
        self.check.is_some() && self.keep > 0 && self.direct() + self.aside < self.length
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LaneState {
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
    state: LaneState,
    /// It sends by lines: nothing is refused, and nothing comes in numbered packets.
    by_lines: bool,
    /// It has ended.
    ended: bool,
    /// Something was accepted under this tag.
    served: bool,
    checked: bool,
    /// In the list of those that something has to be told.
    listed: bool,
    /// `Sync` or `Detach` has to be told.
    tell: bool,
    since: u64,
    staging: Option<F::Import>,
    /// Where its latest staged body lies.
    staged: u32,
    rendezvous_slots: Option<F::Import>,
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
        let lines = if self.by_lines { wire::BY_LINES } else { 0 };
        wire::numbers(
            self.before,
            self.before_wanted,
            self.not | lines | self.before_known << 4,
        )
    }
}

/// What becomes of a packet.
pub enum Accepted {
    /// A header packet, with a pending that is free and the place of its source.
    Header(u16, u16),
    /// The next part of a body, of that pending.
    Data(u16),
    /// Nothing.
    No,
}

/// The receiving half of a process.
pub struct Receive<F: Fabric> {
    owner: Owner,
    pendings: Box<[ReceivePending]>,
    free: Vec<u16>,
    origins: PeerTable<Origin<F>>,
    /// Sources that something is owed to.
    owing: Vec<u16>,
    /// Somebody waits for what is owed.
    pub urgent: bool,
    /// A source has been told that there is no place for it, lately.
    pub starved: bool,
    ack_after: u16,
    /// Placed, to be fetched.
    fetching: Vec<u16>,
    batch: fetch::Batch,
    scratch: Vec<Scratch>,
    chunk: u64,
    shared: u64,
    next_tag: u16,
    /// Who has the next place that becomes free, if there is somebody, and whether packets from it carry a check. Whoever came first
    /// has it: those who come back most often would have it again and again otherwise.
    next_admitted: Option<(Peer, bool)>,
    /// Messages that are in place.
    pub finished: VecDeque<(u64, Outcome)>,
}

impl<F: Fabric> Receive<F> {
    pub fn new(fabric: &F, owner: Owner, config: &NetTunables) -> Self {
        let pending = |_| ReceivePending {
            generation: 0,
            stage: Stage::Free,
            from: BodySource::Inline,
            peer: fabric.me(),
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
            broken: None,
            pauses: false,
            cursor: (0, 0),
            aside: 0,
            sum: 0,
            scratch: None,
            into: Segments::default(),
            inline: [0; PACKET_BYTES],
        };
        let count = config.rx_pendings as usize;
        let sources = config.sources as usize;
        Self {
            owner,
            pendings: (0..count).map(pending).collect(),
            free: (0..count as u16).rev().collect(),
            origins: PeerTable::new(sources, lines::reached(fabric)),
            owing: Vec::with_capacity(sources + lines::reached(fabric)),
            urgent: false,
            starved: false,
            ack_after: (config.window / 4).max(1) as u16,
            fetching: Vec::with_capacity(count),
            batch: fetch::Batch::default(),
            scratch: (0..SCRATCHES).map(|_| Box::new([0; SCRATCH])).collect(),
            chunk: config.chunk,
            shared: config.shared,
            next_tag: fabric.me().0 as u16 | 1,
            next_admitted: None,
            finished: VecDeque::with_capacity(2 * count),
        }
    }

    /// Bytes of a source, and of a pending.
    pub fn sizes() -> (usize, usize) {
        (PeerTable::<Origin<F>>::entry_bytes(), size_of::<ReceivePending>())
    }

    fn new_tag(&mut self) -> u16 {
        self.next_tag = self.next_tag.wrapping_add(1).max(1);
        self.next_tag
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
            None => match self.enter(fabric, from, word.tag, checked(from), turn) {
                Some(at) => at,
                None => return Ok(Accepted::No),
            },
        };
        let origin = self.origins.at(at);
        let lane = &mut origin.lanes[index];
        let expected = origin.tag == word.tag && lane.open && lane.wanted == word.seq && !origin.by_lines;
        if expected
            && word.kind == PacketKind::Short
            && lane.streaming == NONE
            && let Some(&number) = self.free.last()
        {
            // The same as below, of what comes most often.
            lane.wanted = word.seq.wrapping_add(1);
            lane.told = false;
            lane.owed = lane.owed.saturating_add(1);
            self.urgent |= word.has(WANTS_ACK) || lane.owed >= self.ack_after;
            origin.served = true;
            if !origin.listed {
                origin.listed = true;
                self.owing.push(at);
            }
            return Ok(Accepted::Header(number, at));
        }
        if !expected && !self.odd(fabric, figures, (at, index), word, turn) {
            return Ok(Accepted::No);
        }
        let origin = self.origins.at(at);
        let lane = &mut origin.lanes[index];
        let streaming = lane.streaming;
        let accepted = if streaming == NONE && word.kind != PacketKind::Data {
            let Some(&number) = self.free.last() else {
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
        if !matches!(
            word.kind,
            PacketKind::Staged | PacketKind::Pull | PacketKind::Gather
        ) {
            self.owe(at, index);
        }
        match accepted {
            Accepted::Data(number) if word.kind != PacketKind::Data || number == NONE => {
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
        if origin.by_lines {
            // Offered again before it had heard that it goes by lines.
            return false;
        }
        let lane = &mut origin.lanes[index];
        if origin.state == LaneState::Closing {
            origin.tell = true;
            self.tell(at);
            return false;
        }
        if origin.tag != word.tag {
            if origin.state == LaneState::Syncing {
                origin.tell = true;
                self.tell(at);
            } else if word.tag != 0 {
                figures.stale += 1;
            } else if lane.open && lane.wanted.wrapping_sub(word.seq) < 4096 || !origin.is_empty() {
                // It is known to us, but does not know that (any more).
                let argument = origin.sync();
                control(
                    (fabric, self.owner.port()),
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
            origin.state = LaneState::Open;
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
        origin.state = LaneState::Syncing;
        origin.served = false;
        origin.since = turn;
        origin.tell = true;
        origin.lanes = [Lane::NEW; 2];
        self.tell(at);
    }

    /// A place for a new source. None: the sender is told to try again, and perhaps another one is given up.
    #[cold]
    fn enter(&mut self, fabric: &F, peer: Peer, tag: u16, checked: bool, turn: u64) -> Option<u16> {
        if !checked && lines::can_have(fabric, peer) {
            self.enter_by_lines(fabric, peer, turn);
            return None;
        }
        if self.origins.is_full() {
            let silent = |origin: &mut Origin<F>| {
                origin.state == LaneState::Syncing
                    && origin.before == 0
                    && !origin.served
                    && turn.wrapping_sub(origin.since) > SILENT
            };
            if let Some(at) = self.origins.candidate(silent) {
                self.forget(at);
            }
        }
        self.admit_next(turn);
        if let Some(at) = self.origins.find(peer) {
            return Some(at);
        }
        if !self.origins.is_full() {
            return self.place_for(peer, checked, turn);
        }
        if tag != 0 {
            // It came too late for the place that it was given, or is a packet of long ago, for which nobody makes room. Nothing was
            // accepted under that tag, or it would have been kept until its sender had forgotten it; a sender with another tag by now
            // does not heed this.
            let nothing = wire::numbers(0, [0; 2], 0);
            control(
                (fabric, self.owner.port()),
                (peer, checked),
                Op::Detach,
                0,
                (tag, 0),
                &[nothing],
            );
            return None;
        }
        let closing = |origin: &mut Origin<F>| origin.state == LaneState::Closing;
        if self.origins.candidate(closing).is_none() {
            let idle = |origin: &mut Origin<F>| {
                origin.state == LaneState::Open && origin.served && origin.is_empty()
            };
            if let Some(at) = self.origins.candidate(idle) {
                let origin = self.origins.at(at);
                origin.state = LaneState::Closing;
                origin.tell = true;
                for lane in &mut origin.lanes {
                    (lane.owed, lane.refusal) = (0, None);
                    lane.open = false;
                }
                self.tell(at);
            }
        }
        self.next_admitted.get_or_insert((peer, checked));
        control(
            (fabric, self.owner.port()),
            (peer, checked),
            Op::Busy,
            0,
            (0, 0),
            &[],
        );
        self.starved = true;
        None
    }

    /// A free place goes to who waits for it, and [`Op::Sync`] tells, whatever pause the sender makes.
    fn admit_next(&mut self, turn: u64) {
        if !self.origins.is_full()
            && let Some((peer, checked)) = self.next_admitted.take()
            && self.origins.find(peer).is_none()
        {
            self.place_for(peer, checked, turn);
        }
    }

    fn place_for(&mut self, peer: Peer, checked: bool, turn: u64) -> Option<u16> {
        let origin = self.new_origin(peer, checked, turn);
        let at = self.origins.insert(peer, origin)?;
        self.tell(at);
        Some(at)
    }

    fn new_origin(&mut self, peer: Peer, checked: bool, turn: u64) -> Origin<F> {
        Origin {
            peer,
            tag: self.new_tag(),
            before: 0,
            before_wanted: [0; 2],
            before_known: 0,
            not: 0,
            state: LaneState::Syncing,
            by_lines: false,
            ended: false,
            served: false,
            checked,
            listed: false,
            tell: true,
            since: turn,
            staging: None,
            staged: 0,
            rendezvous_slots: None,
            lanes: [Lane::NEW; 2],
        }
    }

    fn forget(&mut self, at: u16) {
        self.owing.retain(|owing| *owing != at);
        self.origins.remove(at);
    }

    /// The sender has forgotten a tag, or has no use for one under which nothing has been accepted.
    pub fn detached(&mut self, from: Peer, word: &Word, turn: u64) {
        if let Some(at) = self.origins.find(from) {
            let origin = self.origins.at(at);
            let agreed = match origin.state {
                LaneState::Closing => word.seq != UNUSED,
                LaneState::Syncing => word.seq == UNUSED && !origin.served && origin.is_empty(),
                LaneState::Open => false,
            };
            if agreed && origin.tag == word.tag && !origin.by_lines {
                self.forget(at);
                self.admit_next(turn);
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
        (place, length): (Place, u64),
        more: impl FnOnce() -> bool,
        turn: u64,
    ) -> Result<bool, Malformed> {
        let origin = self.origins.at(at);
        let not = match place {
            Place::Stream => return Ok(true),
            Place::Pull { .. } if fabric.can_transfer(origin.peer) => return Ok(true),
            Place::Pull { .. } => wire::NO_PULL,
            Place::Gather { .. } if !fabric.can_transfer_pieces(origin.peer) => wire::NO_PULL,
            Place::Staged { offset } | Place::Gather { offset, .. } => {
                let bytes = match place {
                    Place::Gather { pieces, .. } => u64::from(pieces) * wire::PIECE as u64,
                    _ => length,
                };
                if origin.staging.is_none() {
                    let import = fabric.import(origin.peer, self.owner.segment(STAGING), 1, Permission::Read);
                    origin.staging = import.ok();
                }
                match &origin.staging {
                    Some(memory) if u64::from(offset) + bytes <= memory.len() as u64 => {
                        // Read as soon as the upper layer has said where to, more hints than this hold up what comes first; and
                        // when there is another packet, its body most likely lies where the next one in turn does.
                        let before = std::mem::replace(&mut origin.staged, offset);
                        if let Some(memory) = F::mapped(memory) {
                            let soon = bytes.min(SOON) as usize;
                            let next = u64::from(offset.wrapping_add(offset.wrapping_sub(before)));
                            if bytes <= SOON
                                && more()
                                && next + bytes <= farpost_fabric::LocalMemory::len(memory) as u64
                            {
                                farpost_fabric::LocalMemory::prefetch(memory, next as usize, bytes as usize);
                            } else {
                                farpost_fabric::LocalMemory::prefetch(memory, offset as usize, soon);
                            }
                        }
                        return Ok(true);
                    }
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
        if self.origins.at(at).by_lines {
            // It has been told.
            return Err(Malformed {
                what: "the way of a Portals body",
                value: u64::from(not),
            });
        }
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

    // Time.

    /// Time has passed: say again what may be lost, and end what came from those who have ended.
    pub fn tend(&mut self, fabric: &F) {
        self.starved = false;
        for at in 0..self.origins.len() {
            let Some(origin) = self.origins.get(at) else {
                continue;
            };
            if origin.state == LaneState::Open && origin.is_empty() {
                continue;
            }
            if fabric.is_gone(origin.peer) {
                self.end_origin(fabric, at);
            } else if origin.state != LaneState::Open {
                origin.tell = true;
                self.tell(at);
            }
        }
        for number in &self.fetching {
            self.pendings[usize::from(*number)].pauses = false;
        }
    }

    #[cold]
    fn end_origin(&mut self, fabric: &F, at: u16) {
        for index in 0..2 {
            while self.origins.at(at).lanes[index].head != NONE {
                let number = self.origins.at(at).lanes[index].head;
                let pending = &mut self.pendings[usize::from(number)];
                if let Some(under_way) = pending.ticket.take() {
                    fabric.cancel_transfer(under_way.ticket);
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
        let origin = self.origins.at(at);
        if origin.by_lines {
            // What it put to its lines before is still taken. It is told nothing more.
            origin.lanes.iter_mut().for_each(|lane| lane.owed = 0);
            (origin.listed, origin.tell, origin.ended) = (false, false, true);
            self.owing.retain(|owing| *owing != at);
        } else {
            self.forget(at);
        }
    }

    /// Whether nothing is being received and nothing is owed.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.pendings.len() && self.owing.is_empty()
    }
}
