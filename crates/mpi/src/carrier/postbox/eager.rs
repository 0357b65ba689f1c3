//! Sending: at once where the message is short and there is room, else queued, else by rendezvous.
//!
//! Requirements of MPI-5.0 section 3.2.2.

use crate::Result;
use crate::carrier::Engine;
use crate::engine::envelope::{Envelope, FLAG_SYNC};
use crate::engine::request::{Mode, Operation, Payload, Send, SendState};
use crate::engine::wire::{self, FIRST_BYTES, FIRST_WORD, MORE_BYTES};
use crate::long::Departure;
use farpost_fabric::{Fabric, Line, Peer};

/// Bytes of a synchronous message that fit beside its request in one postbox.
const SYNC_BYTES: usize = FIRST_BYTES - 8;

/// The longest message sent in postboxes alone. Up to [`wire::MAX_RUN`] of them may be one, but the lines of a postbox are
/// looked at one by one; from here on writing them to a block and reading that is quicker.
pub(crate) const RUN_MAX: usize = FIRST_BYTES + 4 * MORE_BYTES;

/// Piece in which a message goes through blocks (a block that is no multiple of it is one piece), and the most
/// pieces of one message.
const PIECE: usize = 8192;
const PIECES_MAX: usize = 64;

/// Bytes of a piece where blocks have `block` bytes.
fn piece_bytes(block: usize) -> usize {
    if block.is_multiple_of(PIECE) { PIECE } else { block }
}

/// Bytes of the longest message whose pieces surely find room in a queue of `slots` postboxes, of which half
/// may be waiting for an ack.
pub(crate) fn bytes_in_pieces(block: usize, slots: u32) -> u64 {
    (slots as u64 / 2).min(PIECES_MAX as u64) * piece_bytes(block) as u64
}

/// What became of an attempt to post a whole message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Eager {
    Posted,
    /// It takes room that the receiver makes when it takes what is under way to it; or, where it holds back, another way.
    Wait,
    /// It takes blocks that others have, who may take nothing for as long as they like.
    NoBlock,
}

impl Eager {
    fn of(posted: bool) -> Self {
        if posted { Eager::Posted } else { Eager::Wait }
    }
}

/// Where the bytes of a message come from.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// One run of memory.
    Run(&'a [u8]),
    Payload(&'a Payload),
}

impl Source<'_> {
    fn bytes(&self) -> u64 {
        match self {
            Source::Run(data) => data.len() as u64,
            Source::Payload(payload) => payload.bytes(),
        }
    }
}

impl<F: Fabric> Engine<F> {
    /// Send a message of so many bytes, which are one [word](wire::word), with these words of its envelope, if its lane is open. False:
    /// take the long way.
    #[inline(always)]
    pub(crate) fn post_word(&mut self, peer: Peer, envelope: [u64; 2], word: u64, bytes: usize) -> bool {
        let Some(lane) = self.post.lane(peer) else {
            return false;
        };
        let first = u64::from(wire::short_of(bytes)) << 32;
        let line = [first, envelope[0], envelope[1], word, 0, 0, 0, 0];
        lane.post(line, FIRST_WORD + 1, bytes as u64);
        true
    }

    /// Send a message of at most [`RUN_MAX`] bytes to a peer that is open. False: take the long way.
    #[inline(always)]
    pub(crate) fn post_short(&mut self, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool {
        if data.len() <= FIRST_BYTES {
            if self.post.eager_room(peer) == 0 {
                return false;
            }
            let mut line = envelope.line(wire::KIND_SHORT, 1, data.len());
            wire::fill_first(&mut line, data);
            let words = FIRST_WORD + data.len().div_ceil(8);
            self.post.post_words(peer, &mut line, words, data.len() as u64);
            return true;
        }
        self.try_run(peer, envelope, data)
    }

    fn try_run(&mut self, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool {
        self.run_of::<{ wire::MAX_RUN }>(peer, envelope, data)
    }

    /// Post a message in at most `N` postboxes. False: there is no room for them now.
    #[inline(always)]
    fn run_of<const N: usize>(&mut self, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool {
        let count = 1 + (data.len() - FIRST_BYTES).div_ceil(MORE_BYTES);
        if (self.post.eager_room(peer) as usize) < count {
            self.post.grow_for(peer, count);
            return false;
        }
        let mut lines = [[0; 8]; N];
        lines[0] = envelope.line(wire::KIND_RUN, count, data.len());
        wire::fill_first(&mut lines[0], &data[..FIRST_BYTES]);
        for (line, part) in lines[1..].iter_mut().zip(data[FIRST_BYTES..].chunks(MORE_BYTES)) {
            line[0] = u64::from(wire::KIND_MORE) << 32;
            wire::fill_more(line, part);
        }
        self.post.post_run(peer, &lines[..count], data.len() as u64);
        true
    }

    /// Whether a message of so many bytes, which is longer than [`RUN_MAX`], goes in postboxes alone as well.
    #[inline]
    fn is_long_run(&self, peer: Peer, bytes: usize) -> bool {
        // A queue that is too short for it would never have the room.
        let fits = 2 * wire::LONGEST_RUN as u32 <= self.post.slots();
        bytes as u64 <= self.tunables.run_far && fits && !self.fabric.maps(peer)
    }

    /// Post a message that [is a long run](Self::is_long_run).
    #[inline(never)]
    fn try_long_run(&mut self, peer: Peer, envelope: &Envelope, from: Source<'_>) -> bool {
        let mut packed = [0; wire::LONGEST_RUN_BYTES];
        let data = match from {
            Source::Run(data) => data,
            Source::Payload(payload) => match payload.contiguous() {
                Some(data) => data,
                None => {
                    let bytes = payload.bytes() as usize;
                    payload.pack_on(&*self.fabric, 0, &mut packed[..bytes]);
                    &packed[..bytes]
                }
            },
        };
        self.run_of::<{ wire::LONGEST_RUN }>(peer, envelope, data)
    }

    /// Start a send. `None`: it is complete.
    pub(super) fn isend_by_postbox(
        &mut self,
        peer: Peer,
        envelope: Envelope,
        payload: Payload,
        mode: Mode,
    ) -> Result<Option<usize>> {
        if peer == self.me {
            return self.send_to_self(envelope, payload, mode);
        }
        if mode == Mode::Standard
            && self.post.is_open(peer)
            && self.departure(peer, payload.bytes()) != Departure::ZeroCopy
            && self.post_eager(peer, &envelope, &payload, 0) == Eager::Posted
        {
            return Ok(None);
        }
        self.check_way(peer, self.post.is_dead(peer))?;
        let handle = self.enqueue(Send::new(peer, envelope, payload, mode))?;
        self.push_sends(peer);
        self.retire_if_empty(peer);
        Ok(Some(handle))
    }

    /// Post a whole message if it is short enough and there is room; `request` is told of the match if it
    /// is synchronous.
    fn post_eager(&mut self, peer: Peer, envelope: &Envelope, payload: &Payload, request: u64) -> Eager {
        let total = payload.bytes() as usize;
        let sync = envelope.flags & FLAG_SYNC != 0;
        let inline = if sync { SYNC_BYTES } else { RUN_MAX };
        if total <= inline {
            let mut packed = [0; RUN_MAX];
            let data = match payload.contiguous() {
                Some(data) => data,
                None => {
                    let n = payload.pack_on(&*self.fabric, 0, &mut packed[..total]);
                    debug_assert_eq!(n, total);
                    &packed[..total]
                }
            };
            if total > FIRST_BYTES {
                return Eager::of(self.try_run(peer, envelope, data));
            }
            // What its sender waits for takes no more memory at the receiver than its sender has for it.
            let room = if sync {
                self.post.room(peer)
            } else {
                self.post.eager_room(peer)
            };
            if room == 0 {
                return Eager::Wait;
            }
            let mut line = envelope.line(wire::KIND_SHORT, 1, total);
            wire::fill_first(&mut line, data);
            if sync {
                line[7] = request;
            }
            self.post.post(peer, &line, total as u64);
            return Eager::Posted;
        }
        if !sync && self.is_long_run(peer, total) {
            return Eager::of(self.try_long_run(peer, envelope, Source::Payload(payload)));
        }
        if total as u64 > self.eager_max(peer) {
            return Eager::Wait;
        }
        self.post_blocks(peer, envelope, Source::Payload(payload), request)
    }

    /// Send a message that is one run of memory at once, without a request. False: take the long way.
    #[inline]
    pub(super) fn post_at_once(&mut self, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool {
        if !self.post.is_open(peer) {
            return false;
        }
        if data.len() <= RUN_MAX {
            return self.post_short(peer, envelope, data);
        }
        if self.is_long_run(peer, data.len()) {
            return self.try_long_run(peer, envelope, Source::Run(data));
        }
        self.departure(peer, data.len() as u64) == Departure::Whole
            && self.post_blocks(peer, envelope, Source::Run(data), 0) == Eager::Posted
    }

    /// Post a message through blocks, all or nothing.
    fn post_blocks(&mut self, peer: Peer, envelope: &Envelope, from: Source<'_>, request: u64) -> Eager {
        let total = from.bytes() as usize;
        let block_bytes = self.post.block_bytes();
        // The receiver empties one piece while the next is being filled.
        let piece = piece_bytes(block_bytes);
        let (count, pieces) = (total.div_ceil(block_bytes), total.div_ceil(piece));
        if pieces > PIECES_MAX {
            return Eager::Wait;
        }
        if (self.post.eager_room(peer) as usize) < pieces {
            self.post.grow_for(peer, pieces);
            return Eager::Wait;
        }
        let mut blocks = [0; PIECES_MAX];
        for taken in 0..count {
            match self
                .post
                .take_block_for(peer, (total - taken * block_bytes).min(block_bytes))
            {
                Some(block) => blocks[taken] = block,
                None => {
                    for block in &blocks[..taken] {
                        self.post.return_block(peer, *block);
                    }
                    return if self.post.has_blocks(peer) {
                        Eager::Wait
                    } else {
                        Eager::NoBlock
                    };
                }
            }
        }
        let mut at = 0;
        for index in 0..pieces {
            let (block, offset) = (blocks[at / block_bytes], at % block_bytes);
            let len = piece.min(total - at);
            match from {
                Source::Run(data) => self.post.write_block(peer, block, offset, &data[at..at + len]),
                Source::Payload(payload) => self.fill_block(peer, block, offset, payload, at as u64, len),
            }
            let mut line = if index == 0 {
                let mut line = envelope.line(wire::KIND_BLOCK, pieces, 0);
                line[3] = total as u64;
                line[5] = request;
                line
            } else {
                let mut line = [0; 8];
                line[0] = u64::from(wire::KIND_PIECE) << 32;
                line
            };
            line[4] = wire::piece(block, len);
            line[6] = offset as u64;
            at += len;
            let last = at == total || at.is_multiple_of(block_bytes);
            self.post
                .post_block(peer, &line, last.then_some(block), len as u64);
        }
        self.post.prepare_blocks(peer, total);
        Eager::Posted
    }

    /// Post queued messages to `peer`, in order, while there is room.
    pub(crate) fn push_sends(&mut self, peer: Peer) -> bool {
        let mut moved = false;
        while let Some(&handle) = self.outgoing[peer.index()].sends.front() {
            // The request is taken out for the moment, so that the engine can be used with it.
            let Some(request) = self.requests.get_mut(handle) else {
                self.outgoing[peer.index()].sends.pop_front();
                continue;
            };
            let Operation::Send(mut send) = std::mem::replace(&mut request.operation, Operation::Idle) else {
                self.outgoing[peer.index()].sends.pop_front();
                continue;
            };
            let sync = send.envelope.flags & FLAG_SYNC != 0;
            let total = send.payload.bytes();
            let behind_line = !sync
                && self.departure(peer, total) == Departure::ZeroCopy
                && self.post_zcopy(peer, &mut send, handle);
            let posted = behind_line || self.post_whole_or_offer(peer, &mut send, handle);
            if !posted {
                let request = self.requests.get_mut(handle).expect("still there");
                request.operation = Operation::Send(send);
                break;
            }
            moved = true;
            self.outgoing[peer.index()].sends.pop_front();
            if send.state == SendState::Queued {
                self.complete(handle, |_| {});
                continue;
            }
            self.promised += usize::from(send.is_promise());
            let request = self.requests.get_mut(handle).expect("still there");
            request.operation = Operation::Send(send);
        }
        moved
    }

    /// Post the next message in order: whole, or an offer of it. What is posted whole and not waited for stays as it was.
    /// False: there is no room.
    fn post_whole_or_offer(&mut self, peer: Peer, send: &mut Send, handle: usize) -> bool {
        let total = send.payload.bytes();
        let tiny = total <= SYNC_BYTES as u64;
        if !tiny && total > self.eager_max(peer) {
            return self.post_offer(peer, send, handle);
        }
        // Of what the receiver holds back it gets the header only, and that belongs to a send that is not over: so its
        // memory for headers is bounded by that of its senders. What is as short as a header goes along.
        let held_back = self.post.eager_room(peer) == 0 && self.post.is_held_back(peer);
        if held_back && !tiny {
            send.for_space = true;
            return self.post_offer(peer, send, handle);
        }
        let mut envelope = send.envelope;
        if held_back {
            envelope.flags |= FLAG_SYNC;
        }
        match self.post_eager(peer, &envelope, &send.payload, handle as u64) {
            Eager::Posted => {
                if envelope.flags & FLAG_SYNC != 0 {
                    send.for_space = held_back;
                    send.state = SendState::Matched;
                }
                true
            }
            Eager::Wait => false,
            Eager::NoBlock => {
                send.for_space = true;
                self.post_offer(peer, send, handle)
            }
        }
    }

    /// Post what waits for room at `peer`.
    pub(super) fn push_postboxes(&mut self, peer: Peer) -> bool {
        let mut moved = false;
        while let Some(line) = self.outgoing[peer.index()].control.front() {
            if self.post.room(peer) == 0 {
                break;
            }
            self.post.post(peer, line, 0);
            self.outgoing[peer.index()].control.pop_front();
            moved = true;
        }
        if self.outgoing[peer.index()].control.is_empty() {
            moved |= self.push_sends(peer);
            moved |= self.push_streams(peer);
        }
        moved
    }

    /// Post an answer, now or as soon as there is room.
    pub(super) fn post_answer(&mut self, peer: Peer, line: Line) {
        if self.outgoing[peer.index()].control.is_empty() && self.post.room(peer) > 0 {
            self.post.post(peer, &line, 0);
            return;
        }
        self.engage(peer);
        self.outgoing[peer.index()].control.push_back(line);
    }

    /// The receiver says that a send of ours is over.
    pub(crate) fn on_done(&mut self, peer: Peer, line: &Line) -> bool {
        let handle = line[3] as usize;
        match self.requests.send(handle) {
            Some(send)
                if send.peer == peer
                    && !matches!(send.state, SendState::Queued | SendState::ZeroCopy { .. }) =>
            {
                let state = send.state;
                self.end_offer(state);
                self.offered.retain(|h| *h != handle);
                self.complete(handle, |_| {});
                true
            }
            _ => {
                self.fail_sender(peer, "the request of a send", line[3]);
                false
            }
        }
    }
}
