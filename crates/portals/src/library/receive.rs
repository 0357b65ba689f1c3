//! What arrives (section 4.2), and what has been moved. Fast path, but for what is dropped.

use super::drops::DropReason;
use super::list::Place;
use super::operation::{Answer, Facts, GET, Operation, PUT, Role};
use super::table::{Key, Named};
use super::whole::LastRequest;
use super::wire::{Header, MessageKind, NO_ANSWER};
use super::{Library, NO_TOKEN, Outgoing};
use crate::memory::Segments;
use crate::types::{ANY, EventKind, Handle, Identity, Limits, NiFail, option};

/// What is to become of a message.
#[derive(Debug)]
pub enum Verdict {
    /// Its body is not wanted. It counts as dropped.
    Drop {
        /// Why.
        reason: DropReason,
        /// To be sent: the initiator keeps something until it hears of it.
        answer: Option<Outgoing>,
    },
    /// It has no body, and all is done.
    Done,
    /// A put or a reply: its first `keep` bytes go to `into`, the rest nowhere. Then [`Library::finished`].
    Store {
        /// For [`Library::finished`].
        token: u64,
        /// Bytes.
        keep: u64,
        /// As many bytes.
        into: Segments,
    },
    /// A get: this is to be sent, and is told to [`Library::finished`] by its own token.
    Reply(Outgoing),
    /// A get-put: its first `keep` bytes are exchanged with those of `with`, not interrupted by another get-put. Then
    /// [`Library::swapped`].
    Swap {
        /// For [`Library::swapped`].
        token: u64,
        /// Bytes, at most what [`Limits::LIBRARY`](crate::Limits::LIBRARY) allows a get-put.
        keep: u64,
        /// As many bytes.
        with: Segments,
    },
}

impl Library {
    /// What is to become of the message with this header and a body of `length` bytes, from the fabric's process `from`.
    /// Everything in the header is checked. START is logged here, so that messages of one process have to be given in
    /// the order in which they were sent (section 5).
    #[inline]
    pub fn incoming(&mut self, from: u32, header: &[u8], length: u64) -> Verdict {
        self.incoming_searched(from, header, length, |_| {})
    }

    /// As [`incoming`](Self::incoming); `searched` is told how many entries of a match list were looked at.
    #[inline]
    pub fn incoming_searched(
        &mut self,
        from: u32,
        header: &[u8],
        length: u64,
        searched: impl FnOnce(usize),
    ) -> Verdict {
        let header = match Header::decode(header, length) {
            Ok(header) => header,
            Err(reason) => return self.refuse(reason, from, None),
        };
        let Some(who) = self.processes.identity(from).copied() else {
            return self.refuse(DropReason::UnknownProcess, from, None);
        };
        match header.kind {
            MessageKind::Put => self.request(from, &who, &header, length, PUT, searched),
            MessageKind::Get => self.request(from, &who, &header, header.data, GET, searched),
            MessageKind::GetPut => self.request(from, &who, &header, length, PUT | GET, searched),
            MessageKind::Reply => self.reply(from, &who, &header, length),
            MessageKind::Ack => self.acknowledged(from, &header),
            MessageKind::Nothing => self.unanswered(from, &header),
            MessageKind::PutHeader | MessageKind::LostPut => {
                self.put_without_body(from, &who, &header, searched)
            }
            MessageKind::LostReply => self.reply_without_body(from, &who, &header),
        }
    }

    /// What is to become of a message while the interface is not open (section 4.2, rule 1).
    pub fn incoming_while_closed(&mut self, from: u32, header: &[u8], length: u64) -> Verdict {
        self.turn_away(DropReason::UnknownProcess, (from, header, length))
    }

    /// What is to become of a message for which nothing can be kept.
    pub fn incoming_without_room(&mut self, from: u32, header: &[u8], length: u64) -> Verdict {
        self.turn_away(DropReason::NoRoom, (from, header, length))
    }

    fn turn_away(&mut self, reason: DropReason, (from, header, length): (u32, &[u8], u64)) -> Verdict {
        let header = Header::decode(header, length).ok();
        if header.is_some_and(|header| header.kind == MessageKind::Nothing) {
            // The library's own word, and not a message that a program sent.
            return Verdict::Done;
        }
        let request =
            header.filter(|h| matches!(h.kind, MessageKind::Put | MessageKind::Get | MessageKind::GetPut));
        self.refuse(reason, from, request.as_ref())
    }

    /// Drop a message and count it (section 4.2). Its initiator, if it waits, is released.
    #[cold]
    pub(super) fn refuse(&mut self, reason: DropReason, from: u32, header: Option<&Header>) -> Verdict {
        self.drops.add(reason);
        let answer = header
            .filter(|h| h.operation != NO_ANSWER)
            .map(|h| self.nothing(from, h.operation));
        Verdict::Drop { reason, answer }
    }

    pub(super) fn nothing(&self, to: u32, operation: u64) -> Outgoing {
        let none = (Segments::default(), NO_TOKEN);
        self.answer(to, (MessageKind::Nothing, operation), (0, 0), none)
    }

    #[inline]
    pub(super) fn answer(
        &self,
        to: u32,
        (kind, operation): (MessageKind, u64),
        (offset, data): (u64, u64),
        (body, token): (Segments, u64),
    ) -> Outgoing {
        let header = Header {
            kind,
            pt_index: 0,
            ac_index: 0,
            interface: self.network,
            operation,
            match_bits: 0,
            offset,
            data,
        };
        Outgoing {
            to,
            header: header.encode(),
            body,
            token,
        }
    }

    /// Rules 1 and 4 to 7 of section 4.2.
    #[inline]
    fn request(
        &mut self,
        from: u32,
        who: &Identity,
        header: &Header,
        length: u64,
        operations: u8,
        searched: impl FnOnce(usize),
    ) -> Verdict {
        match self.find((from, who), (header, length), operations, false, searched) {
            Ok(found) => self.accept(from, who, header, length, operations, found),
            Err(reason) => self.refuse(reason, from, Some(header)),
        }
    }

    /// The descriptor that a request is for, where in it and how many bytes. What is not over at once needs a place among
    /// the operations.
    #[inline(never)]
    pub(super) fn find(
        &mut self,
        (from, who): (u32, &Identity),
        (header, length): (&Header, u64),
        operations: u8,
        at_once: bool,
        searched: impl FnOnce(usize),
    ) -> Result<(u32, u64, u64), DropReason> {
        let pt_index = u32::from(header.pt_index);
        self.again = LastRequest::NONE;
        if header.interface != self.network {
            return Err(DropReason::UnknownProcess);
        }
        let list = self
            .portals
            .get_mut(pt_index as usize)
            .ok_or(DropReason::PtIndex)?;
        let entry = self.access.get(header.ac_index as usize);
        entry.ok_or(DropReason::AcIndex)?.check(who, pt_index)?;
        if operations == PUT | GET && length > self.limits.max_getput_md as u64 {
            // No library sends more than its limit; the initiator's may be higher than ours.
            let possible = length <= Limits::LIBRARY.max_getput_md as u64;
            return Err(if possible {
                DropReason::NoMatch
            } else {
                DropReason::Malformed
            });
        }
        if !at_once && !self.operations.has_room() {
            return Err(DropReason::NoRoom);
        }
        let mds = &self.mds;
        let accept = |place: Place| {
            let (offset, accepted) = mds.get(u32::from(place.md))?.room(header.offset, length)?;
            Some((u32::from(place.md), offset, accepted))
        };
        let found = list.walk(who.id, header.match_bits, operations, accept, searched);
        if found.is_some() {
            self.again = LastRequest::new(from, header);
        }
        found.ok_or(DropReason::NoMatch)
    }

    #[inline]
    pub(super) fn accept(
        &mut self,
        from: u32,
        who: &Identity,
        header: &Header,
        length: u64,
        operations: u8,
        (md, offset, accepted): (u32, u64, u64),
    ) -> Verdict {
        let (role, start) = match operations {
            PUT => (Role::Incoming, EventKind::PutStart),
            GET => (Role::Answering, EventKind::GetStart),
            _ => (Role::Swapping, EventKind::GetPutStart),
        };
        let Some(descriptor) = self.mds.get_mut(md) else {
            return Verdict::Done;
        };
        descriptor.accept(accepted);
        let memory = descriptor.part(offset, accepted);
        let (active, me) = (descriptor.active, descriptor.me);
        let acknowledges = role == Role::Incoming && !descriptor.has(option::ACK_DISABLE);
        if let (false, Some(me)) = (active, me) {
            self.show(me);
        }
        let mut facts = Facts {
            pt_index: u32::from(header.pt_index),
            match_bits: header.match_bits,
            rlength: length,
            mlength: accepted,
            offset,
            hdr_data: if role == Role::Answering { 0 } else { header.data },
            link: self.link(),
            start: 0,
        };
        facts.start = self.log(md, start, who, &facts, NiFail::OK).unwrap_or(0);
        let key = self.mds.key(md);
        let Some(token) = self
            .operations
            .insert(|_| Operation {
                role,
                peer: from,
                sending: true,
                answer: if acknowledges {
                    Answer::Awaited
                } else {
                    Answer::None
                },
                md: key,
                get_md: key,
                reply: facts,
                facts,
                initiator: header.operation,
            })
            .map(Key::number)
        else {
            return Verdict::Done;
        };
        match role {
            Role::Incoming => Verdict::Store {
                token,
                keep: accepted,
                into: memory,
            },
            Role::Answering => {
                let reply = (MessageKind::Reply, header.operation);
                Verdict::Reply(self.answer(from, reply, (offset, 0), (memory, token)))
            }
            _ => Verdict::Swap {
                token,
                keep: accepted,
                with: memory,
            },
        }
    }

    /// The operation of ours that an answer is for, if `from` was asked and has not answered.
    #[inline]
    fn asked(&mut self, from: u32, header: &Header) -> Option<Key> {
        let key = Key::of(header.operation);
        let operation = self.operations.exact(key)?;
        let ours = matches!(operation.role, Role::Put | Role::Get | Role::GetPut);
        (ours && operation.peer == from && operation.answer == Answer::Awaited).then_some(key)
    }

    /// Rule 2 of section 4.2. An acknowledgement that has nowhere to go is counted as dropped, as 3.2 says.
    fn acknowledged(&mut self, from: u32, header: &Header) -> Verdict {
        let asked = self.asked(from, header);
        let Some(operation) = asked
            .and_then(|key| self.operations.exact(key))
            .filter(|operation| operation.role == Role::Put && header.data <= operation.facts.rlength)
        else {
            return self.refuse(DropReason::Answer, from, None);
        };
        if operation.sending {
            // SEND_END comes first (section 5), and the network layer may still read the memory.
            operation.answer = Answer::Held(header.data, header.offset);
            return Verdict::Done;
        }
        match self.log_ack(Key::of(header.operation), header.data, header.offset, NiFail::OK) {
            true => Verdict::Done,
            false => self.refuse(DropReason::Answer, from, None),
        }
    }

    /// Log an ACK and forget the operation. False: its descriptor is gone or inactive, or has no queue (any more).
    fn log_ack(&mut self, key: Key, stored: u64, offset: u64, fail: NiFail) -> bool {
        let Some(operation) = self.operations.remove(key.slot()) else {
            return false;
        };
        let Some(who) = self.processes.identity(operation.peer).copied() else {
            return false;
        };
        let md = operation.md;
        let eq = self.mds.exact(md).filter(|d| d.active).map(|d| d.md.eq_handle);
        if eq.is_none_or(|eq| self.eqs.find(eq).is_none()) {
            return false;
        }
        self.consume(md.slot());
        // Section 5: 3.2 echoes match bits, requested length and offset, the reference only the bits.
        let facts = Facts {
            pt_index: ANY,
            mlength: stored,
            offset,
            hdr_data: 0,
            ..operation.facts
        };
        let sequence = self.log(md.slot(), EventKind::Ack, &who, &facts, fail);
        self.retire(
            md.slot(),
            &who,
            &facts,
            sequence.unwrap_or(operation.facts.start),
            fail,
        );
        true
    }

    /// There will be no answer: whoever was asked dropped the request or does not acknowledge.
    fn unanswered(&mut self, from: u32, header: &Header) -> Verdict {
        if let Some(key) = self.asked(from, header) {
            self.give_up_answer(key);
        }
        Verdict::Done
    }

    fn give_up_answer(&mut self, key: Key) {
        let Some(operation) = self.operations.exact(key) else {
            return;
        };
        operation.answer = Answer::None;
        if operation.is_over() || operation.role == Role::Get {
            self.operations.discard(key.slot());
        }
    }

    /// Rule 3 of section 4.2: a reply that does not fit is shortened, as 3.2 says; the reference drops it unless the
    /// descriptor truncates.
    #[inline]
    pub(super) fn reply(&mut self, from: u32, who: &Identity, header: &Header, length: u64) -> Verdict {
        let Some(key) = self.asked(from, header) else {
            return self.refuse(DropReason::Answer, from, None);
        };
        let (get_md, mut facts) = match self.operations.exact(key) {
            Some(operation) if operation.role != Role::Put => (operation.get_md, operation.reply),
            _ => return self.refuse(DropReason::Answer, from, None),
        };
        let Some(descriptor) = self.mds.exact(get_md).filter(|d| d.active) else {
            self.give_up_answer(key);
            return self.refuse(DropReason::Answer, from, None);
        };
        // The descriptor may have been updated since the request was sent.
        let offset = facts.offset.min(descriptor.region.length);
        let keep = length.min(facts.rlength).min(descriptor.region.length - offset);
        let into = descriptor.part(offset, keep);
        (facts.rlength, facts.mlength, facts.offset) = (length, keep, offset);
        self.start_reply(key, who, facts);
        Verdict::Store {
            token: reply_token(key),
            keep,
            into,
        }
    }

    /// Count a reply and log its START.
    fn start_reply(&mut self, key: Key, who: &Identity, mut facts: Facts) {
        let Some(get_md) = self.operations.exact(key).map(|operation| operation.get_md) else {
            return;
        };
        facts.link = self.link();
        self.consume(get_md.slot());
        if let Some(descriptor) = self.mds.get_mut(get_md.slot()) {
            descriptor.pending += 1;
        }
        facts.start = self
            .log(get_md.slot(), EventKind::ReplyStart, who, &facts, NiFail::OK)
            .unwrap_or(0);
        if let Some(operation) = self.operations.exact(key) {
            operation.answer = Answer::Arriving;
            operation.reply = facts;
        }
    }

    fn end_reply(&mut self, key: Key, outcome: NiFail) {
        let Some(operation) = self
            .operations
            .exact(key)
            .filter(|o| o.answer == Answer::Arriving)
        else {
            return;
        };
        let (peer, md, facts) = (operation.peer, operation.get_md, operation.reply);
        operation.answer = Answer::None;
        // The request of a get has no body: whether the network layer has let it go does not matter any more.
        if operation.is_over() || operation.role == Role::Get {
            self.operations.discard(key.slot());
        }
        if let Some(who) = self.processes.identity(peer).copied() {
            self.end(md.slot(), EventKind::ReplyEnd, &who, &facts, outcome);
        }
    }

    /// The descriptor whose memory the bytes of `token` lie in or go to, while its operation is in progress.
    pub fn descriptor_of(&mut self, token: u64) -> Option<Handle> {
        let operation = self.operations.exact(Key::of(token & !REPLY))?;
        let reply = token & REPLY != 0;
        let md = if reply { operation.get_md } else { operation.md };
        Some(self.mds.exact(md)?.handle())
    }

    /// What `token` stands for has ended: the bytes of a [`Verdict::Store`] are in place, or the memory of an
    /// [`Outgoing`]'s body is free again. END and perhaps UNLINK are logged; an answer may be to send. Tokens of what
    /// is over already are ignored.
    #[inline]
    pub fn finished(&mut self, token: u64, outcome: NiFail) -> Option<Outgoing> {
        if token == NO_TOKEN {
            return None;
        }
        if token & REPLY != 0 {
            self.end_reply(Key::of(token & !REPLY), outcome);
            return None;
        }
        let key = Key::of(token);
        let operation = self.operations.exact(key)?;
        match operation.role {
            Role::Put | Role::Get | Role::GetPut => {
                self.sent(key, outcome);
                None
            }
            Role::Incoming => {
                let (md, peer, initiator, facts) = (
                    operation.md.slot(),
                    operation.peer,
                    operation.initiator,
                    operation.facts,
                );
                let acknowledges = operation.answer == Answer::Awaited && outcome == NiFail::OK;
                self.operations.discard(key.slot());
                if let Some(who) = self.processes.identity(peer).copied() {
                    self.end(md, EventKind::PutEnd, &who, &facts, outcome);
                }
                if initiator == NO_ANSWER {
                    None
                } else if acknowledges {
                    let (offset, stored) = (facts.offset, facts.mlength);
                    let none = (Segments::default(), NO_TOKEN);
                    Some(self.answer(peer, (MessageKind::Ack, initiator), (offset, stored), none))
                } else {
                    Some(self.nothing(peer, initiator))
                }
            }
            Role::Answering | Role::Swapped => {
                let kind = if operation.role == Role::Answering {
                    EventKind::GetEnd
                } else {
                    EventKind::GetPutEnd
                };
                let operation = self.operations.remove(key.slot())?;
                self.end_at_target(&operation, kind, outcome);
                None
            }
            // The bytes of a get-put did not come.
            Role::Swapping => {
                let operation = self.operations.remove(key.slot())?;
                self.end_at_target(&operation, EventKind::GetPutEnd, outcome);
                Some(self.nothing(operation.peer, operation.initiator))
            }
        }
    }

    fn end_at_target(&mut self, operation: &Operation, kind: EventKind, outcome: NiFail) {
        if let Some(who) = self.processes.identity(operation.peer).copied() {
            self.end(operation.md.slot(), kind, &who, &operation.facts, outcome);
        }
    }

    /// The bytes of a get-put have been exchanged: `old` holds those that were here, and stays as it is until
    /// [`finished`](Library::finished) is told of the reply's token, which is the same one.
    pub fn swapped(&mut self, token: u64, old: Segments) -> Option<Outgoing> {
        let operation = self
            .operations
            .exact(Key::of(token))
            .filter(|o| o.role == Role::Swapping)?;
        operation.role = Role::Swapped;
        let (peer, initiator, offset) = (operation.peer, operation.initiator, operation.facts.offset);
        Some(self.answer(peer, (MessageKind::Reply, initiator), (offset, 0), (old, token)))
    }

    /// A message of ours has left, or could not.
    #[inline]
    fn sent(&mut self, key: Key, outcome: NiFail) {
        let Some(operation) = self.operations.exact(key).filter(|operation| operation.sending) else {
            return;
        };
        operation.sending = false;
        let (role, md, facts, answer) = (operation.role, operation.md, operation.facts, operation.answer);
        if operation.is_over() {
            self.operations.discard(key.slot());
        }
        if role != Role::Get {
            let me = self.me;
            self.end(md.slot(), EventKind::SendEnd, &me, &facts, outcome);
        }
        match answer {
            Answer::Held(stored, offset) if !self.log_ack(key, stored, offset, NiFail::OK) => {
                self.drops.add(DropReason::Answer);
            }
            // A put that did not leave has told so in its SEND_END; who waits for a reply is told here.
            Answer::Awaited if outcome != NiFail::OK && role == Role::Put => self.give_up_answer(key),
            Answer::Awaited if outcome != NiFail::OK => self.fail_answer(key, outcome),
            _ => {}
        }
    }

    /// An answer will not come, since its sender cannot send it any more: events tell so.
    pub(super) fn fail_answer(&mut self, key: Key, why: NiFail) {
        let Some(operation) = self.operations.exact(key) else {
            return;
        };
        let (role, get_md) = (operation.role, operation.get_md);
        if role == Role::Put {
            let _ = self.log_ack(key, 0, 0, why);
            return;
        }
        let (peer, facts) = (operation.peer, operation.reply);
        let alive = self.mds.exact(get_md).is_some_and(|d| d.active);
        match self.processes.identity(peer).copied() {
            Some(who) if alive => {
                self.start_reply(key, &who, Facts { mlength: 0, ..facts });
                self.end_reply(key, why);
            }
            _ => self.give_up_answer(key),
        }
    }
}

/// Marks, in a token, the storing of a reply apart from the sending of its request: a bit that no key has.
const REPLY: u64 = 1 << 63;

fn reply_token(key: Key) -> u64 {
    key.number() | REPLY
}
