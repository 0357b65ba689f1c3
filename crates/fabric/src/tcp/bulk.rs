//! Transfers between user memories: what is exposed, what is asked for, what is on its way.
//!
//! The bytes go from the one memory to the socket and from the socket into the other.

use super::input::Place;
use super::output::Output;
use super::state::State;
use super::wire::{Head, Kind, Wanted};
use super::{Core, Tcp};
use crate::{BulkTransfer, Completion, Counter, Descriptor, Direction, FabricError, Fault, Peer, Ticket};
use std::collections::{HashMap, VecDeque};

/// Longest payload of a frame of bulk data: what is sent in between waits for one such frame at most.
pub const PIECE: usize = 256 << 10;

/// Flag of a piece that belongs to a transfer of its sender's; without, to one of its receiver's.
const OFFERED: u8 = 1;

/// Transfers of mine lend memory under this bit and their token.
const MINE: u64 = 1 << 63;

struct Exposed {
    peer: Peer,
    address: usize,
    len: usize,
    writable: bool,
}

/// Why a transfer of mine ended early.
#[derive(Clone, Copy)]
pub enum Failed {
    /// The peer refused; the position asked for.
    Refused(u64),
    /// The peer is gone.
    Gone(Peer),
}

enum Status {
    Pending,
    Done,
    Failed(Failed),
}

/// A transfer of mine.
struct Ours {
    peer: Peer,
    /// Where its bytes go. None: it is a put.
    to: Option<*mut u8>,
    len: usize,
    /// Bytes still to come.
    rest: usize,
    remote: u64,
    status: Status,
}

/// A put of a peer's into what I exposed.
struct Incoming {
    key: u64,
    offset: usize,
    len: usize,
    rest: usize,
    refused: bool,
}

/// A transfer to a peer that waits for its turn.
pub struct Outgoing {
    token: u64,
    flag: u8,
    at: *const u8,
    len: usize,
    sent: usize,
    owner: u64,
}

#[derive(Default)]
pub struct Transfers {
    /// A generation and what is exposed under it.
    exposed: Vec<(u32, Option<Exposed>)>,
    free: Vec<u32>,
    ours: HashMap<u64, Ours>,
    incoming: HashMap<(Peer, u64), Incoming>,
    next_token: u64,
}

/// What cannot be right, and its value.
type Bad = (&'static str, u64);

impl Transfers {
    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// A get into `to`, which stays valid until the transfer is over.
    pub fn begin_get(&mut self, peer: Peer, to: *mut u8, len: usize) -> u64 {
        self.begin(peer, Some(to), len, 0)
    }

    fn begin(&mut self, peer: Peer, to: Option<*mut u8>, len: usize, remote: u64) -> u64 {
        let token = self.token();
        let status = Status::Pending;
        let ours = Ours {
            peer,
            to,
            len,
            rest: len,
            remote,
            status,
        };
        self.ours.insert(token, ours);
        token
    }

    /// Whether a transfer of mine is over; then it is forgotten.
    pub fn poll(&mut self, token: u64) -> Result<bool, Failed> {
        match self.ours.get(&token).map(|ours| &ours.status) {
            Some(Status::Pending) => Ok(false),
            Some(Status::Done) | None => {
                self.ours.remove(&token);
                Ok(true)
            }
            Some(Status::Failed(why)) => {
                let why = *why;
                self.ours.remove(&token);
                Err(why)
            }
        }
    }

    /// What key `key` lets `peer` use.
    fn exposed(&self, peer: Peer, key: u64, offset: u64, len: usize, write: bool) -> Option<usize> {
        let (generation, exposed) = self.exposed.get((key & 0xffff_ffff) as usize)?;
        let exposed = exposed.as_ref().filter(|_| u64::from(*generation) == key >> 32)?;
        let offset = usize::try_from(offset).ok()?;
        let fits = offset <= exposed.len && len <= exposed.len - offset;
        (exposed.peer == peer && fits && (exposed.writable || !write)).then(|| exposed.address + offset)
    }

    /// The next piece of what waits goes to the output.
    pub fn next_piece(&self, waiting: &mut VecDeque<Outgoing>, out: &mut Output) {
        let Some(first) = waiting.front_mut() else { return };
        let len = (first.len - first.sent).min(PIECE);
        let head = Head::new(Kind::Piece, first.token, first.sent as u64)
            .with(len)
            .flagged(first.flag);
        // SAFETY: the memory was exposed, or is that of a transfer of ours, and is not taken back before
        // `Output::forget` of this owner.
        unsafe { out.lend(head, first.at.wrapping_add(first.sent), first.owner) };
        first.sent += len;
        if first.sent == first.len {
            waiting.pop_front();
        }
    }

    /// Where a piece goes.
    pub fn place(&mut self, peer: Peer, head: &Head) -> Result<Place, u64> {
        let len = head.len as usize;
        let (token, at) = (head.id, head.at);
        if head.flag == OFFERED {
            let incoming = self.incoming.get_mut(&(peer, token)).ok_or(token)?;
            let fits = usize::try_from(at).is_ok_and(|at| at <= incoming.len && len <= incoming.len - at);
            if !fits || len > incoming.rest {
                return Err(at);
            }
            let (key, offset, refused) = (incoming.key, incoming.offset as u64 + at, incoming.refused);
            let place = self.exposed(peer, key, offset, len, true).filter(|_| !refused);
            return Ok(match place {
                Some(address) => Place::Lent(std::ptr::with_exposed_provenance_mut(address)),
                None => {
                    if let Some(incoming) = self.incoming.get_mut(&(peer, token)) {
                        incoming.refused = true;
                    }
                    Place::Nowhere
                }
            });
        }
        match self.ours.get(&token) {
            Some(ours) if ours.peer == peer => {
                let to = ours.to.ok_or(token)?;
                match usize::try_from(at) {
                    Ok(at) if at <= ours.len && len <= ours.len - at && len <= ours.rest => {
                        Ok(Place::Lent(to.wrapping_add(at)))
                    }
                    _ => Err(at),
                }
            }
            // Given up.
            None if token <= self.next_token => Ok(Place::Nowhere),
            _ => Err(token),
        }
    }

    /// A piece is here. What to answer.
    pub fn arrived(&mut self, peer: Peer, flag: u8, token: u64, len: usize) -> Option<Head> {
        if flag == OFFERED {
            let incoming = self.incoming.get_mut(&(peer, token))?;
            incoming.rest -= len;
            if incoming.rest > 0 {
                return None;
            }
            let kind = if incoming.refused {
                Kind::Refused
            } else {
                Kind::Done
            };
            self.incoming.remove(&(peer, token));
            return Some(Head::new(kind, token, 0));
        }
        if let Some(ours) = self.ours.get_mut(&token).filter(|ours| ours.peer == peer) {
            ours.rest -= len;
            if ours.rest == 0 {
                ours.status = Status::Done;
            }
        }
        None
    }

    /// The peer says that a transfer of mine is over.
    pub fn ended(&mut self, peer: Peer, token: u64, done: bool) -> Result<(), Bad> {
        match self.ours.get_mut(&token) {
            Some(ours) if ours.peer == peer && (!done || ours.to.is_none()) => {
                ours.status = if done {
                    Status::Done
                } else {
                    Status::Failed(Failed::Refused(ours.remote))
                };
                Ok(())
            }
            None if token <= self.next_token => Ok(()),
            _ => Err(("a transfer of mine", token)),
        }
    }

    /// Nothing more comes from `peer` or goes to it.
    pub fn peer_gone(&mut self, peer: Peer) {
        for ours in self.ours.values_mut().filter(|ours| ours.peer == peer) {
            if matches!(ours.status, Status::Pending) {
                ours.status = Status::Failed(Failed::Gone(peer));
            }
        }
        self.incoming.retain(|(of, _), _| *of != peer);
    }
}

impl State {
    /// Why `peer` cannot be reached.
    pub fn gone(&mut self, peer: Peer) -> FabricError {
        let why = || "the connection ended".into();
        self.other(peer)
            .err()
            .unwrap_or_else(|| FabricError::PeerDead { peer, why: why() })
    }

    /// A peer wants to get from, or put to, what I exposed.
    pub fn bulk_request(&mut self, peer: Peer, head: &Head, wanted: Wanted) {
        let write = head.kind == Kind::BulkPut;
        let len = usize::try_from(wanted.len).unwrap_or(usize::MAX);
        let address = self.transfers.exposed(peer, head.id, head.at, len, write);
        if write {
            let incoming = Incoming {
                key: head.id,
                offset: usize::try_from(head.at).unwrap_or(usize::MAX),
                len,
                rest: len,
                refused: address.is_none(),
            };
            self.transfers.incoming.insert((peer, wanted.token), incoming);
        }
        let Some(address) = address else {
            let (what, value) = ("a key and a range that it may use", head.id);
            let error = FabricError::Corrupt { peer, what, value };
            self.record_fault(Fault { peer, error });
            if !write {
                self.say(peer, Head::new(Kind::Refused, wanted.token, 0), &[]);
            }
            return;
        };
        if !write {
            let outgoing = Outgoing {
                token: wanted.token,
                flag: 0,
                at: std::ptr::with_exposed_provenance(address),
                len,
                sent: 0,
                owner: head.id,
            };
            self.send_out(peer, outgoing);
        }
    }

    fn send_out(&mut self, peer: Peer, outgoing: Outgoing) {
        self.count(peer, Counter::BulkBytes, outgoing.len as u64);
        if let Ok(other) = self.other(peer) {
            other.bulk.push_back(outgoing);
            self.list(peer);
        }
    }

    /// No memory of `owner` is read or written any more; what of it was promised to peers is refused.
    fn take_back(&mut self, peer: Peer, owner: u64) {
        let mut refused = Vec::new();
        if let Some(other) = &mut self.others[peer.index()] {
            other.out.forget(owner);
            other.bulk.retain(|outgoing| {
                if outgoing.owner == owner && outgoing.flag != OFFERED {
                    refused.push(outgoing.token);
                }
                outgoing.owner != owner
            });
        }
        for token in refused {
            self.say(peer, Head::new(Kind::Refused, token, 0), &[]);
        }
    }
}

impl Core {
    fn give_up(&self, token: u64) {
        let mut state = self.state.borrow_mut();
        let Some(ours) = state.transfers.ours.remove(&token) else {
            return;
        };
        state.silence(ours.peer, |flag, of| flag != OFFERED && of == token);
        if ours.to.is_none() {
            state.take_back(ours.peer, MINE | token);
        }
    }
}

impl BulkTransfer for Tcp {
    fn can_transfer(&self, peer: Peer) -> bool {
        let state = self.core.state.borrow();
        peer.0 < state.size && peer != state.me
    }

    unsafe fn expose(
        &self,
        peer: Peer,
        address: usize,
        len: usize,
        writable: bool,
    ) -> Result<u64, FabricError> {
        let state = &mut *self.core.state.borrow_mut();
        state.check_peer(peer)?;
        let transfers = &mut state.transfers;
        let exposed = Exposed {
            peer,
            address,
            len,
            writable,
        };
        let index = transfers.free.pop().unwrap_or_else(|| {
            transfers.exposed.push((0, None));
            transfers.exposed.len() as u32 - 1
        });
        let slot = &mut transfers.exposed[index as usize];
        // Keys of this index come again after 2^31 exposures only; the top bit is `MINE`'s.
        slot.0 = (slot.0 + 1) & 0x7fff_ffff;
        slot.1 = Some(exposed);
        Ok(u64::from(slot.0) << 32 | u64::from(index))
    }

    fn exposed_base(&self, _peer: Peer, _address: usize) -> u64 {
        0
    }

    fn withdraw(&self, key: u64) {
        let state = &mut *self.core.state.borrow_mut();
        let index = (key & 0xffff_ffff) as usize;
        let Some(slot) = state.transfers.exposed.get_mut(index) else {
            return;
        };
        if u64::from(slot.0) != key >> 32 {
            return;
        }
        let Some(exposed) = slot.1.take() else { return };
        state.transfers.free.push(index as u32);
        if exposed.writable {
            let tokens: Vec<u64> = state
                .transfers
                .incoming
                .iter()
                .filter(|((peer, _), incoming)| *peer == exposed.peer && incoming.key == key)
                .map(|((_, token), _)| *token)
                .collect();
            state.silence(exposed.peer, |flag, token| {
                flag == OFFERED && tokens.contains(&token)
            });
        }
        state.take_back(exposed.peer, key);
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion, FabricError> {
        let d = descriptor;
        let state = &mut *self.core.state.borrow_mut();
        state.check_peer(d.peer)?;
        if d.peer == state.me {
            return Err(FabricError::Unsupported {
                peer: d.peer,
                what: "a bulk transfer",
                why: "it is this process itself".into(),
            });
        }
        state.other(d.peer)?;
        if d.len == 0 {
            return Ok(Completion::Done);
        }
        let local: *mut u8 = std::ptr::with_exposed_provenance_mut(d.local);
        let (to, kind) = match d.direction {
            Direction::Get => (Some(local), Kind::BulkGet),
            Direction::Put => (None, Kind::BulkPut),
        };
        let token = state.transfers.begin(d.peer, to, d.len, d.remote as u64);
        let wanted = Wanted {
            token,
            len: d.len as u64,
        };
        let head = Head::new(kind, d.key, d.remote as u64).with(Wanted::BYTES);
        state.say(d.peer, head, &wanted.encode());
        if d.direction == Direction::Put {
            let outgoing = Outgoing {
                token,
                flag: OFFERED,
                at: local,
                len: d.len,
                sent: 0,
                owner: MINE | token,
            };
            state.send_out(d.peer, outgoing);
        } else {
            state.count(d.peer, Counter::BulkBytes, d.len as u64);
        }
        state.flush();
        Ok(Completion::Pending(Ticket(token)))
    }

    fn poll_transfer(&self, ticket: Ticket) -> Result<bool, FabricError> {
        let state = &mut *self.core.state.borrow_mut();
        let ours = state
            .transfers
            .ours
            .get(&ticket.0)
            .map(|ours| (ours.peer, ours.to.is_none()));
        let Some((peer, put)) = ours else { return Ok(true) };
        let mut result = state.transfers.poll(ticket.0);
        if matches!(result, Ok(false)) {
            state.turn(0);
            result = state.transfers.poll(ticket.0);
        }
        if put && !matches!(result, Ok(false)) {
            state.take_back(peer, MINE | ticket.0);
        }
        result.map_err(|failed| match failed {
            Failed::Refused(value) => FabricError::Corrupt {
                peer,
                what: "a buffer's key and range",
                value,
            },
            Failed::Gone(peer) => state.gone(peer),
        })
    }

    fn cancel_transfer(&self, ticket: Ticket) {
        self.core.give_up(ticket.0);
    }
}
