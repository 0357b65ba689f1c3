//! The receiving half: receive pendings, what is kept about each source, acceptance in order, and acknowledgements.
//!
//! A header packet takes a pending; without one, it is refused, and its sender comes back to it ([go-back-n](super::go_back_n)). A packet is acknowledged
//! when it is done with: a body that still has to be fetched from the sender's memory holds back the acknowledgement of its header packet, so that
//! the acknowledgement also says that the memory is free. Acknowledgements travel with other packets, or several in a packet of their own.
//!
//! | File | What |
//! |---|---|
//! | `origin`, `sources` | what is kept about a process that sends to us; which have a place |
//! | `acknowledge` | what is owed to them |
//! | `pendings`, `deposit` | messages that are being received, up to the place that the upper layer chose |
//! | `fetch` | bodies that are fetched from their senders' memory |
//! | `by_lines` | from those whose memory we map |
//!
//! Cost class: fast path ([`Receive::accept`] of what is wanted next, acknowledgements by the way); else queued path.

mod acknowledge;
mod by_lines;
mod deposit;
mod fetch;
mod origin;
mod pendings;
mod sources;

use super::control::control;
use super::figures::Figures;
use super::go_back_n::{ReceiveConnection, Unexpected};
use super::lines;
use super::moves;
use super::rendezvous_slots::{self, SLOTS_SEGMENT};
use super::table::{NONE, PeerTable};
use super::tunables::NetTunables;
use super::upper::{Outcome, Placement, RxId};
use super::wire::{self, ACK_OTHER, HAS_ACK, Op, PacketKind, Place, STAGING, WANTS_ACK, Word, stream_bytes};
use crate::malformed::{Malformed, fail};
use crate::memory::{Segment, Segments, user};
use crate::owner::Owner;
use by_lines::FromLines;
use farpost_fabric::{
    Completion, Cost, Direction, Fabric, FabricError, Fault, LINE_BYTES, Peer, Permission, Piece, Remote,
    Ticket,
};
use origin::{Lane, Origin, ReceivePath};
use pendings::{ReceivePending, SCRATCH, Scratch, Stage};
use std::collections::VecDeque;
use std::time::Duration;

/// Times that a body whose check is wrong is fetched again.
const AGAIN: u8 = 3;
/// Time in which it turns out that the peer of a transfer that broke off has ended.
const BROKEN: Duration = Duration::from_secs(10);
/// Bytes of a staged body that are called for before the upper layer has said where they go.
const SOON: u64 = 2048;
/// How many bodies have scratch memory at once.
const SCRATCHES: usize = 4;

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
        let count = config.rx_pendings as usize;
        let sources = config.sources as usize;
        Self {
            owner,
            pendings: (0..count).map(|_| ReceivePending::new(fabric.me())).collect(),
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
        let mut expected = false;
        if let ReceivePath::Packets(connection) = &mut origin.path {
            expected = connection.expects(index, word);
            if expected
                && word.kind == PacketKind::Short
                && lane.streaming == NONE
                && let Some(&number) = self.free.last()
            {
                // The same as below, of what comes most often.
                connection.accept(index, word);
                self.urgent |= word.has(WANTS_ACK);
                self.owe(at, index);
                return Ok(Accepted::Header(number, at));
            }
        }
        if !expected && !self.unexpected(fabric, figures, (at, index), word, turn) {
            return Ok(Accepted::No);
        }
        let origin = self.origins.at(at);
        let streaming = origin.lanes[index].streaming;
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
        if let ReceivePath::Packets(connection) = &mut origin.path {
            connection.accept(index, word);
        }
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
                fail!("the next part of a Portals message", word.kind as u8)
            }
            accepted => Ok(accepted),
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
                        return fail!("the place of a staged Portals body", offset);
                    }
                    None => wire::NO_STAGING,
                }
            }
        };
        if let ReceivePath::Lines(_) = origin.path {
            // It has been told.
            return fail!("the way of a Portals body", not);
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
        if let ReceivePath::Packets(connection) = &mut self.origins.at(at).path {
            connection.window(index).take_back();
        }
    }

    /// Whether nothing is being received and nothing is owed.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.pendings.len() && self.owing.is_empty()
    }
}
