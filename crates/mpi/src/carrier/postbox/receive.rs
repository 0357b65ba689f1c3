//! Receiving from postboxes: what arrives meets a posted receive or is held.
//!
//! Requirements of MPI-5.0 sections 3.2.4, 3.4, 3.5.

use crate::carrier::Engine;
use crate::engine::carrier::Direct;
use crate::engine::context::Held;
use crate::engine::deliver::fit;
use crate::engine::envelope::{Envelope, FLAG_SYNC};
use crate::engine::wire::{self, FIRST_BYTES, FIRST_WORD, MORE_BYTES};
use crate::{Error, ErrorClass, Rank};
use farpost_channel::Next;
use farpost_fabric::{Cost, Fabric, Line, Peer};

/// What the fast path of a receive found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// The message; it is in the buffer.
    Got { source: Rank, tag: i32, len: usize },
    /// Nothing has come.
    Nothing,
    /// Something that has to be looked at more closely.
    Other,
}

/// Take a message that is one word of so many bytes, if it has these words of an envelope.
#[inline(always)]
fn take<F: Fabric>(next: Next<'_, F>, envelope: [u64; 2], bytes: usize) -> Option<u64> {
    if next.word(1) != envelope[0] || next.word(2) != envelope[1] {
        return None;
    }
    let word = next.word(FIRST_WORD);
    next.consume(bytes as u64);
    Some(word)
}

impl<F: Fabric> Engine<F> {
    /// Look whether the next message of `peer` is a short one that a receive with these arguments takes and
    /// nothing else can, and if so copy it into `to`. The fast path of receives.
    #[inline(always)]
    pub(crate) fn receive_short(&mut self, wanted: &Direct, to: &mut [u8]) -> Short {
        if !self.contexts[wanted.context].queues.quiet() {
            return Short::Other;
        }
        let Some(next) = self.post.next(wanted.peer) else {
            return Short::Nothing;
        };
        // The usual one: a word, just as wanted.
        let len = to.len();
        if wire::is_word(len)
            && (next.first() >> 32) as u32 == wire::short_of(len)
            && let Some(word) = take(next, wanted.words(), len)
        {
            wire::put_word(word, to);
            let (source, tag) = (wanted.source, wanted.tag);
            return Short::Got { source, tag, len };
        }
        self.receive_other(wanted, to)
    }

    /// The next message of `peer`, if it has so many bytes, which [are a word](wire::is_word), and these words of an envelope, and no
    /// other receive can take it. `None`: take the long way.
    #[inline(always)]
    pub(crate) fn take_word(
        &mut self,
        context: usize,
        peer: Peer,
        envelope: [u64; 2],
        bytes: usize,
    ) -> Option<u64> {
        if !self.contexts.get(context)?.queues.quiet() {
            return None;
        }
        take(self.post.next_with(peer, wire::short_of(bytes))?, envelope, bytes)
    }

    /// As [`take_word`](Self::take_word), of any peer on any fabric.
    pub(crate) fn take_word_of_any(
        &mut self,
        context: usize,
        peer: Peer,
        envelope: [u64; 2],
        bytes: usize,
    ) -> Option<u64> {
        if !self.contexts.get(context)?.queues.quiet() {
            return None;
        }
        take(
            self.post.next_of_any(peer, wire::short_of(bytes))?,
            envelope,
            bytes,
        )
    }

    /// As [`receive_short`](Self::receive_short) of a message that is there, of any other length or for a receive that takes others
    /// as well.
    #[inline(always)]
    fn receive_other(&mut self, wanted: &Direct, to: &mut [u8]) -> Short {
        let Direct {
            context_id,
            peer,
            tag,
            class,
            ..
        } = *wanted;
        let Some(line) = self.post.peek(peer) else {
            return Short::Nothing;
        };
        let envelope = Envelope::of(&line);
        if envelope.context != context_id
            || (envelope.tag != tag && tag != crate::engine::context::ANY_TAG)
            || envelope.flags != 0
            || (envelope.class != class && envelope.class != 0 && class != 0)
        {
            return Short::Other;
        }
        let len = wire::inline_bytes(&line);
        if wire::kind(&line) != wire::KIND_SHORT {
            return self.receive_whole(peer, &line, &envelope, to);
        }
        if len > FIRST_BYTES || len > to.len() {
            return Short::Other;
        }
        self.fabric.charge(Cost::Copy(len));
        wire::copy_first(&line, &mut to[..len]);
        self.post.consume(peer, 1, len as u64);
        Short::Got {
            source: envelope.source as Rank,
            tag: envelope.tag,
            len,
        }
    }

    /// As [`receive_short`](Self::receive_short), for a message of several postboxes or in blocks, all of which
    /// are there. Whatever is unusual about it is left to the long way.
    fn receive_whole(&mut self, peer: Peer, line: &Line, envelope: &Envelope, to: &mut [u8]) -> Short {
        let count = wire::count(line);
        let len = match wire::kind(line) {
            wire::KIND_RUN => {
                let len = wire::inline_bytes(line);
                if !(2..=wire::LONGEST_RUN).contains(&count)
                    || len > to.len()
                    || len.saturating_sub(FIRST_BYTES).div_ceil(MORE_BYTES) != count - 1
                {
                    return Short::Other;
                }
                self.post.prefetch(peer, 1..count as u32);
                self.fabric.charge(Cost::Copy(len));
                to[..FIRST_BYTES].copy_from_slice(&wire::first_payload(line));
                for (index, part) in to[FIRST_BYTES..len].chunks_mut(MORE_BYTES).enumerate() {
                    match self.post.peek_ahead(peer, index as u32 + 1) {
                        Some(more) if wire::kind(&more) == wire::KIND_MORE => {
                            part.copy_from_slice(&wire::more_payload(&more)[..part.len()]);
                        }
                        _ => return Short::Other,
                    }
                }
                len
            }
            wire::KIND_BLOCK => {
                let total = line[3] as usize;
                if count == 0 || total > to.len() {
                    return Short::Other;
                }
                let mut at = 0;
                for index in 0..count {
                    let Some((word, offset)) = self.piece_soon(peer, line, index) else {
                        return Short::Other;
                    };
                    let bytes = (word >> 32) as usize;
                    if bytes > total - at
                        || self
                            .post
                            .read_block(peer, word as u32, offset as usize, &mut to[at..at + bytes])
                            .is_err()
                    {
                        return Short::Other;
                    }
                    at += bytes;
                }
                if at != total {
                    return Short::Other;
                }
                total
            }
            _ => return Short::Other,
        };
        self.post.consume_burst(peer, count as u32, len as u64);
        Short::Got {
            source: envelope.source as Rank,
            tag: envelope.tag,
            len,
        }
    }

    /// Words 4 and 6 of piece `index` of the message that begins with `line`. The sender is writing it, so it is
    /// waited for, but not for long.
    #[inline]
    fn piece_soon(&self, peer: Peer, line: &Line, index: usize) -> Option<(u64, u64)> {
        if index == 0 {
            return Some((line[4], line[6]));
        }
        for _ in 0..self.patience {
            if let Some(more) = self.post.peek_ahead(peer, index as u32) {
                return (wire::kind(&more) == wire::KIND_PIECE).then_some((more[4], more[6]));
            }
        }
        None
    }

    /// Take in the next message from `peer`. False: none is there, or not all of it.
    pub(crate) fn take_one(&mut self, peer: Peer) -> bool {
        let Some(line) = self.post.peek(peer) else {
            return false;
        };
        match wire::kind(&line) {
            wire::KIND_SHORT => self.on_short(peer, &line),
            wire::KIND_RUN => self.on_run(peer, &line),
            wire::KIND_BLOCK => self.on_blocks(peer, &line),
            wire::KIND_ZCOPY => self.on_zcopy(peer, &line),
            wire::KIND_DATA => self.on_data(peer, &line),
            _ => {
                self.post.consume(peer, 1, 0);
                self.on_line(peer, &line)
            }
        }
    }

    /// A line that is all of what it is about: an offer or an answer. False: it cannot be right.
    pub(crate) fn on_line(&mut self, peer: Peer, line: &Line) -> bool {
        match wire::kind(line) {
            wire::KIND_RTS => self.on_rts(peer, line),
            wire::KIND_CTS => self.on_cts(peer, line),
            wire::KIND_DONE => self.on_done(peer, line),
            wire::KIND_CANCEL => {
                self.on_cancel(peer, line);
                true
            }
            wire::KIND_CANCELLED => self.on_cancelled(peer, line),
            kind => {
                self.fail_sender(peer, "the kind of a postbox", u64::from(kind));
                false
            }
        }
    }

    #[inline(always)]
    fn on_short(&mut self, peer: Peer, line: &Line) -> bool {
        let len = wire::inline_bytes(line);
        if len > FIRST_BYTES {
            self.fail_sender(peer, "the length of a short message", len as u64);
            return false;
        }
        let envelope = Envelope::of(line);
        let Some(context) = self.admit(peer, &envelope) else {
            return false;
        };
        let sync = (envelope.flags & FLAG_SYNC != 0).then_some(line[7]);
        self.post.consume(peer, 1, len as u64);
        self.arrive(peer, context, envelope, &wire::first_payload(line)[..len], sync);
        true
    }

    #[inline(never)]
    fn on_run(&mut self, peer: Peer, line: &Line) -> bool {
        let (count, len) = (wire::count(line), wire::inline_bytes(line));
        if !(2..=wire::LONGEST_RUN).contains(&count)
            || len <= FIRST_BYTES
            || len > FIRST_BYTES + (count - 1) * MORE_BYTES
        {
            self.fail_sender(peer, "the length of a run", len as u64);
            return false;
        }
        self.post.prefetch(peer, 1..count as u32);
        match count > wire::MAX_RUN {
            true => self.take_run::<{ wire::LONGEST_RUN_BYTES }>(peer, line),
            false => self.take_run::<{ FIRST_BYTES + (wire::MAX_RUN - 1) * MORE_BYTES }>(peer, line),
        }
    }

    /// A run whose lengths are right, of at most `N` bytes in whole postboxes.
    #[inline(always)]
    fn take_run<const N: usize>(&mut self, peer: Peer, line: &Line) -> bool {
        let (count, len) = (wire::count(line), wire::inline_bytes(line));
        let mut data = [0; N];
        self.fabric.charge(Cost::Copy(len));
        data[..FIRST_BYTES].copy_from_slice(&wire::first_payload(line));
        for index in 1..count {
            let Some(more) = self.post.peek_ahead(peer, index as u32) else {
                return false;
            };
            if wire::kind(&more) != wire::KIND_MORE {
                self.fail_sender(
                    peer,
                    "the kind of a postbox in a run",
                    u64::from(wire::kind(&more)),
                );
                return false;
            }
            let at = FIRST_BYTES + (index - 1) * MORE_BYTES;
            data[at..at + MORE_BYTES].copy_from_slice(&wire::more_payload(&more));
        }
        let envelope = Envelope::of(line);
        let Some(context) = self.admit(peer, &envelope) else {
            return false;
        };
        // Where more receives wait, more messages are on their way.
        if self.contexts[context].queues.posted() > 1 {
            self.post.consume(peer, count as u32, len as u64);
        } else {
            self.post.consume_burst(peer, count as u32, len as u64);
        }
        self.arrive(peer, context, envelope, &data[..len], None);
        true
    }

    #[inline(never)]
    fn on_blocks(&mut self, peer: Peer, line: &Line) -> bool {
        let (pieces, total) = (wire::count(line), line[3]);
        if pieces == 0 || pieces as u32 > self.post.slots() || total > 1 << 30 {
            self.fail_sender(peer, "the number of pieces", pieces as u64);
            return false;
        }
        // All pieces must be there; nothing is taken before.
        let mut list = [(0u32, 0usize, 0usize); 255];
        let mut sum = 0;
        for (index, entry) in list[..pieces].iter_mut().enumerate() {
            let (word, offset) = if index == 0 {
                (line[4], line[6])
            } else {
                let Some(more) = self.post.peek_ahead(peer, index as u32) else {
                    return false;
                };
                if wire::kind(&more) != wire::KIND_PIECE {
                    self.fail_sender(peer, "the kind of a piece", u64::from(wire::kind(&more)));
                    return false;
                }
                (more[4], more[6])
            };
            *entry = (word as u32, offset as usize, (word >> 32) as usize);
            sum += word >> 32;
        }
        if sum != total {
            self.fail_sender(peer, "the length of a message in blocks", total);
            return false;
        }
        let envelope = Envelope::of(line);
        let Some(context) = self.admit(peer, &envelope) else {
            return false;
        };
        let sync = (envelope.flags & FLAG_SYNC != 0).then_some(line[5]);
        let list = &list[..pieces];
        match self.match_posted(context, &envelope) {
            Some(handle) => {
                if !self.deliver_pieces(peer, handle, &envelope, total, list) {
                    return false;
                }
                self.post.consume(peer, pieces as u32, total);
                if let Some(request) = sync {
                    self.answer_done(peer, request);
                }
            }
            None => {
                let mut data = vec![0; total as usize].into_boxed_slice();
                let mut at = 0;
                for (block, offset, len) in list {
                    let to = &mut data[at..at + len];
                    if let Err(error) = self.post.read_block(peer, *block, *offset, to) {
                        self.post.fail_sender(peer, error);
                        self.fail_peer(peer);
                        return false;
                    }
                    at += len;
                }
                self.post.consume(peer, pieces as u32, total);
                self.hold(peer, context, envelope, Held::Data(data), sync);
            }
        }
        true
    }

    /// Copy the pieces of a message into the buffer of the receive `handle` and complete it.
    fn deliver_pieces(
        &mut self,
        peer: Peer,
        handle: usize,
        envelope: &Envelope,
        total: u64,
        list: &[(u32, usize, usize)],
    ) -> bool {
        let Some(recv) = self.requests.recv(handle) else {
            return true;
        };
        let mut buf = recv.buf.clone();
        let (mut wanted, error) = fit(&buf, envelope.class, total);
        let bytes = wanted;
        let mut at = 0;
        for (block, offset, len) in list {
            let n = (*len as u64).min(wanted) as usize;
            if let Err(error) = self.read_piece(peer, (*block, *offset, n), &mut buf, at) {
                self.post.fail_sender(peer, error.clone());
                let error = Error::new(ErrorClass::ERR_INTERN, error.to_string());
                self.fail(handle, error);
                self.fail_peer(peer);
                return false;
            }
            at += n as u64;
            wanted -= n as u64;
        }
        self.finish_recv(handle, envelope, bytes, error);
        true
    }
}
