//! Receiving: what arrives meets a posted receive or is held.
//!
//! Requirements of MPI-5.0 sections 3.2.4, 3.4, 3.5.

use crate::buffer::RecvBuf;
use crate::device::wire::{self, Envelope, FIRST_BYTES, FLAG_SYNC, MORE_BYTES};
use crate::engine::Engine;
use crate::engine::context::{Held, Unexpected};
use crate::engine::request::{Operation, Request, Status};
use crate::{Error, ErrorClass, Rank, Result};
use farpost_fabric::{Fabric, Line, Peer};

/// Check types and sizes of a message against its receive. The bytes to deliver, and the error if any.
pub(crate) fn fit(buf: &RecvBuf, class: u8, total: u64) -> (u64, Option<Error>) {
    let mine = buf.sig();
    if class != 0 && mine != 0 && class != mine && total > 0 {
        let error = Error::new(
            ErrorClass::ERR_TYPE,
            format!(
                "datatype: the message was sent as {}, the receive says {}",
                crate::datatype::class_name(class),
                buf.datatype().describe()
            ),
        );
        return (0, Some(error));
    }
    let capacity = buf.bytes();
    if total > capacity {
        let error = Error::new(
            ErrorClass::ERR_TRUNCATE,
            format!(
                "count={}: the message has {total} bytes, the buffer holds {capacity}",
                buf.count()
            ),
        );
        return (capacity, Some(error));
    }
    (total, None)
}

/// Note in a receive's status which message it takes; the bytes to deliver.
pub(crate) fn note_match(status: &mut Status, buf: &RecvBuf, envelope: &Envelope, total: u64) -> u64 {
    let (wanted, error) = fit(buf, envelope.class, total);
    status.source = envelope.source as Rank;
    status.tag = envelope.tag;
    status.bytes = wanted;
    status.error = error.map(Box::new);
    wanted
}

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

impl<F: Fabric> Engine<F> {
    /// Look whether the next message of `peer` is a short one that a receive with these arguments takes and
    /// nothing else can, and if so copy it into `to`. The fast path of receives.
    #[inline(always)]
    pub fn receive_short(
        &mut self,
        context: usize,
        context_id: u64,
        peer: Peer,
        tag: i32,
        class: u8,
        to: &mut [u8],
    ) -> Short {
        if self.portals.is_some() || !self.contexts[context].queues.quiet() {
            return Short::Other;
        }
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
                if !(2..=wire::MAX_RUN).contains(&count)
                    || len > to.len()
                    || len.saturating_sub(FIRST_BYTES).div_ceil(MORE_BYTES) != count - 1
                {
                    return Short::Other;
                }
                self.post.prefetch(peer, 1..count as u32);
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

    /// Start a receive.
    pub fn irecv(&mut self, context: usize, buf: RecvBuf, source: Rank, tag: i32) -> Result<usize> {
        if self.portals.is_some() {
            return self.irecv_by_portals(context, buf, source, tag);
        }
        let (handle, place) = self.requests.claim()?;
        match place
            .as_mut()
            .and_then(|old| old.renew_recv(context, source, tag))
        {
            Some(old) => *old = buf,
            None => *place = Some(Request::recv(buf, context, source, tag)),
        }
        if let Some(message) = self.contexts[context].queues.take_unexpected(source, tag) {
            self.deliver_held(handle, message);
        } else {
            self.contexts[context].queues.post(source, tag, handle);
            if !self.lost.is_empty() {
                self.refuse_lost(handle, context, source);
            }
        }
        Ok(handle)
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
            wire::KIND_TAIL => self.on_tail(peer, &line),
            wire::KIND_RTS => self.on_rts(peer, &line),
            wire::KIND_CTS => self.on_cts(peer, &line),
            wire::KIND_DATA => self.on_data(peer, &line),
            wire::KIND_DONE => {
                self.post.consume(peer, 1, 0);
                self.on_done(peer, &line)
            }
            wire::KIND_CANCEL => {
                self.post.consume(peer, 1, 0);
                self.on_cancel(peer, &line);
                true
            }
            wire::KIND_CANCELLED => {
                self.post.consume(peer, 1, 0);
                self.on_cancelled(peer, &line)
            }
            kind => {
                self.condemn(peer, "the kind of a postbox", u64::from(kind));
                false
            }
        }
    }

    /// The context of an envelope, if the envelope can be right.
    #[inline(always)]
    pub(super) fn admit(&mut self, peer: Peer, envelope: &Envelope) -> Option<usize> {
        let context = self.context(envelope.context);
        let source = envelope.source;
        let right = match &self.contexts[context].members {
            Some(members) => members.pid(source as Rank) == Some(peer.0),
            None => source < self.fabric.size(),
        };
        if !right {
            self.condemn(peer, "the sender's rank", u64::from(source));
            return None;
        }
        Some(context)
    }

    /// Deliver or hold a message whose bytes are at hand.
    #[inline(always)]
    fn arrive(&mut self, peer: Peer, context: usize, envelope: Envelope, data: &[u8], sync: Option<u64>) {
        match self.contexts[context]
            .queues
            .take_posted(envelope.source, envelope.tag)
        {
            Some(handle) => {
                self.deliver_bytes(handle, &envelope, data);
                if let Some(request) = sync {
                    self.answer_done(peer, request);
                }
            }
            None => self.hold(peer, context, envelope, Held::Data(data.into()), sync),
        }
    }

    pub(crate) fn hold(
        &mut self,
        peer: Peer,
        context: usize,
        envelope: Envelope,
        held: Held,
        sync: Option<u64>,
    ) {
        let message = Unexpected::new(peer, envelope, held, sync);
        self.charge(peer, message.cost());
        self.contexts[context].queues.hold(message);
    }

    #[inline(always)]
    fn on_short(&mut self, peer: Peer, line: &Line) -> bool {
        let len = wire::inline_bytes(line);
        if len > FIRST_BYTES {
            self.condemn(peer, "the length of a short message", len as u64);
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
        if !(2..=wire::MAX_RUN).contains(&count)
            || len <= FIRST_BYTES
            || len > FIRST_BYTES + (count - 1) * MORE_BYTES
        {
            self.condemn(peer, "the length of a run", len as u64);
            return false;
        }
        self.post.prefetch(peer, 1..count as u32);
        let mut data = [0; FIRST_BYTES + (wire::MAX_RUN - 1) * MORE_BYTES];
        data[..FIRST_BYTES].copy_from_slice(&wire::first_payload(line));
        for index in 1..count {
            let Some(more) = self.post.peek_ahead(peer, index as u32) else {
                return false;
            };
            if wire::kind(&more) != wire::KIND_MORE {
                self.condemn(
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
            self.condemn(peer, "the number of pieces", pieces as u64);
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
                    self.condemn(peer, "the kind of a piece", u64::from(wire::kind(&more)));
                    return false;
                }
                (more[4], more[6])
            };
            *entry = (word as u32, offset as usize, (word >> 32) as usize);
            sum += word >> 32;
        }
        if sum != total {
            self.condemn(peer, "the length of a message in blocks", total);
            return false;
        }
        let envelope = Envelope::of(line);
        let Some(context) = self.admit(peer, &envelope) else {
            return false;
        };
        let sync = (envelope.flags & FLAG_SYNC != 0).then_some(line[5]);
        let list = &list[..pieces];
        match self.contexts[context]
            .queues
            .take_posted(envelope.source, envelope.tag)
        {
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
                        self.post.condemn(peer, error);
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
        let Some(Request {
            operation: Operation::Recv(recv),
            ..
        }) = self.requests.get(handle)
        else {
            return true;
        };
        let mut buf = recv.buf.clone();
        let (mut wanted, error) = fit(&buf, envelope.class, total);
        let bytes = wanted;
        let mut at = 0;
        for (block, offset, len) in list {
            let n = (*len as u64).min(wanted) as usize;
            if let Err(error) = self.read_piece(peer, (*block, *offset, n), &mut buf, at) {
                self.post.condemn(peer, error.clone());
                let error = Error::new(ErrorClass::ERR_INTERN, error.to_string());
                self.complete(handle, |status| status.error = Some(Box::new(error)));
                self.fail_peer(peer);
                return false;
            }
            at += n as u64;
            wanted -= n as u64;
        }
        self.finish_recv(handle, envelope, bytes, error);
        true
    }

    /// Copy a piece (block, offset in it, bytes) to position `at` of a receive buffer.
    pub(crate) fn read_piece(
        &self,
        peer: Peer,
        (block, offset, len): (u32, usize, usize),
        buf: &mut RecvBuf,
        at: u64,
    ) -> std::result::Result<(), farpost_fabric::FabricError> {
        if let Some(whole) = buf.contiguous_mut() {
            return self
                .post
                .read_block(peer, block, offset, &mut whole[at as usize..at as usize + len]);
        }
        let mut packed = [0; 4096];
        let mut done = 0;
        while done < len {
            let n = packed.len().min(len - done);
            self.post
                .read_block(peer, block, offset + done, &mut packed[..n])?;
            buf.unpack(at + done as u64, &packed[..n]);
            done += n;
        }
        Ok(())
    }

    /// Complete a receive.
    pub(crate) fn finish_recv(
        &mut self,
        handle: usize,
        envelope: &Envelope,
        bytes: u64,
        error: Option<Error>,
    ) {
        let (source, tag) = (envelope.source as Rank, envelope.tag);
        self.complete(handle, |status| {
            *status = Status {
                source,
                tag,
                bytes,
                cancelled: false,
                error: error.map(Box::new),
            };
        });
    }

    /// Copy a message at hand into the buffer of the receive `handle`, and complete it.
    #[inline(always)]
    fn deliver_bytes(&mut self, handle: usize, envelope: &Envelope, data: &[u8]) {
        // The usual case in one go. The operation stays in the complete request: nothing looks at it there.
        if let Some(request) = self.requests.get_mut(handle)
            && let Operation::Recv(recv) = &request.operation
            && !request.detached
            && data.len() as u64 <= recv.buf.bytes()
            && (envelope.class == recv.buf.sig() || envelope.class == 0)
        {
            recv.buf.unpack(0, data);
            request.status.source = envelope.source as Rank;
            request.status.tag = envelope.tag;
            request.status.bytes = data.len() as u64;
            request.complete = true;
            return;
        }
        let Some(Request {
            operation: Operation::Recv(recv),
            ..
        }) = self.requests.get(handle)
        else {
            return;
        };
        let (bytes, error) = fit(&recv.buf, envelope.class, data.len() as u64);
        recv.buf.unpack(0, &data[..bytes as usize]);
        self.finish_recv(handle, envelope, bytes, error);
    }

    /// Give a held message to the receive `handle`.
    pub(crate) fn deliver_held(&mut self, handle: usize, message: Unexpected) {
        self.discharge(message.peer, message.cost());
        let Unexpected {
            peer,
            envelope,
            held,
            sync,
            ..
        } = message;
        match held {
            Held::Data(data) => {
                self.deliver_bytes(handle, &envelope, &data);
                if let Some(request) = sync {
                    self.release_sender(peer, request);
                }
            }
            Held::Rts {
                total,
                exposed,
                request,
                desk,
            } => {
                if !self.lost.is_empty()
                    && let Some(error) = self.lost_error(peer)
                {
                    // Who offered it is gone, and the bytes with it.
                    return self.complete(handle, |status| status.error = Some(Box::new(error)));
                }
                self.fetch(handle, peer, &envelope, total, exposed, request, desk);
            }
            Held::Tail { total, number } => self.land(handle, peer, &envelope, total, number),
            Held::ByPortals { message, .. } => self.deliver_by_portals(handle, peer, &envelope, message),
            Held::Own { request, .. } => self.deliver_own(handle, request, &envelope),
        }
    }

    /// Tell the sender of a synchronous message of its match, wherever it is.
    fn release_sender(&mut self, peer: Peer, request: u64) {
        if peer == self.me {
            self.complete(request as usize, |_| {});
        } else if !self.lost.contains_key(&peer.0) {
            self.answer_done(peer, request);
        }
    }
}
