//! Beginning operations: put, get, get-put (section 3.13). Fast path.

use super::descriptor::Descriptor;
use super::operation::{Answer, Facts, Operation, Role};
use super::table::Key;
use super::wire::{Header, MessageKind, NO_ANSWER, index_byte};
use super::{Library, Outgoing};
use crate::error::Error;
use crate::memory::Segment;
use crate::types::{ANY, AckReq, EventKind, Handle, NiFail, ProcessId, THRESHOLD_INFINITE};

/// What an operation addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The process.
    pub id: ProcessId,
    /// Index into its portal table.
    pub pt_index: u32,
    /// Which of its access entries is to admit us.
    pub ac_index: u32,
    /// What its match entries look at.
    pub match_bits: u64,
    /// Where in its descriptor, if that manages offsets remotely.
    pub offset: u64,
}

impl Target {
    /// The header of a request for it.
    #[inline(always)]
    pub(super) fn header(&self, kind: MessageKind, interface: u8, operation: u64, data: u64) -> Header {
        Header {
            kind,
            pt_index: index_byte(self.pt_index),
            ac_index: index_byte(self.ac_index),
            interface,
            operation,
            match_bits: self.match_bits,
            offset: self.offset,
            data,
        }
    }

    /// What events tell of `length` bytes that go there.
    #[inline(always)]
    fn facts(&self, length: u64, hdr_data: u64, link: u32) -> Facts {
        Facts {
            pt_index: self.pt_index,
            match_bits: self.match_bits,
            rlength: length,
            mlength: length,
            offset: self.offset,
            hdr_data,
            link,
            start: 0,
        }
    }
}

const NO_FACTS: Facts = Facts {
    pt_index: ANY,
    match_bits: 0,
    rlength: 0,
    mlength: 0,
    offset: 0,
    hdr_data: 0,
    link: 0,
    start: 0,
};

impl Library {
    /// As [`prepare_put`](Self::prepare_put), for a put that leaves at once or not at all: `send` is given the process that it is for, the header
    /// and the body, and says whether its memory is free again. Then all events of it are logged, and it is over; nothing is kept
    /// of it. False: nothing has happened, and it has to be begun in the ordinary way. Fast path.
    ///
    /// # Errors
    /// As [`prepare_put`](Self::prepare_put), but for [`Error::NoSpace`].
    #[inline(always)]
    pub fn put_at_once(
        &mut self,
        md: Handle,
        region: Option<(u64, u64)>,
        ack: AckReq,
        target: &Target,
        hdr_data: u64,
        send: impl FnOnce(u32, &Header, Segment) -> bool,
    ) -> Result<bool, Error> {
        let index = u32::from(md.index());
        let descriptor = self.mds.get(index).filter(|d| d.handle == md && d.active);
        let descriptor = descriptor.ok_or(Error::MdInvalid)?;
        let whole = descriptor.region.length;
        let (offset, length) = region.unwrap_or((0, whole));
        if offset > whole || length > whole - offset {
            return Err(Error::MdIllegal);
        }
        let (eq, threshold) = (descriptor.md.eq_handle, descriptor.md.threshold);
        let Some(memory) = descriptor.region.memory.single() else {
            return Ok(false);
        };
        let body = Segment {
            address: memory.address.wrapping_add(offset as usize),
            len: length as usize,
        };
        let to = self.processes.number(target.id).ok_or(Error::ProcessInvalid)?;
        if ack == AckReq::Ack && self.eqs.find(eq).is_some() {
            // What is to be acknowledged is kept until then.
            return Ok(false);
        }
        let header = target.header(MessageKind::Put, self.network, NO_ANSWER, hdr_data);
        if !send(to, &header, body) {
            return Ok(false);
        }
        let link = self.link();
        if eq != Handle::EQ_NONE || threshold != THRESHOLD_INFINITE {
            self.left(index, target, (length, hdr_data, link));
        }
        Ok(true)
    }

    /// Count a put that has left, and log all events of it.
    #[inline]
    fn left(&mut self, md: u32, target: &Target, (length, hdr_data, link): (u64, u64, u32)) {
        let facts = target.facts(length, hdr_data, link);
        let me = self.me;
        let kinds = [EventKind::SendStart, EventKind::SendEnd];
        let over = |library: &mut Self| library.show_spent(md);
        self.log_whole(md, kinds, &me, &facts, Descriptor::consume, over);
    }

    /// `PtlPut`, or `PtlPutRegion` with a `region` (offset, length) of the descriptor. Nothing is counted or logged
    /// before [`started`](Self::started), which has to follow: a message can be on its way earlier. That logs SEND_START; SEND_END follows
    /// when [`finished`](Library::finished) is told of the message's token.
    ///
    /// An acknowledgement is asked for only if the descriptor has a queue to log it in (section 5), and is one more
    /// operation of the threshold (section 12, 1).
    ///
    /// # Errors
    /// [`Error::MdInvalid`]: no descriptor, or an inactive one. The document lets an operation on an inactive descriptor
    /// do nothing and succeed, the reference refuses it; so do we, since silence hides mistakes (section 7).
    /// [`Error::MdIllegal`]: the region leaves it. [`Error::ProcessInvalid`]. [`Error::NoSpace`]: 2^20 operations are in
    /// progress.
    #[inline]
    pub fn prepare_put(
        &mut self,
        md: Handle,
        region: Option<(u64, u64)>,
        ack: AckReq,
        target: &Target,
        hdr_data: u64,
    ) -> Result<Outgoing, Error> {
        let (key, local) = self.initiator(md, region)?;
        let peer = self.processes.number(target.id).ok_or(Error::ProcessInvalid)?;
        let link = self.link();
        let has_queue = self
            .mds
            .get(key.slot())
            .is_some_and(|d| self.eqs.find(d.md.eq_handle).is_some());
        let answer = if ack == AckReq::Ack && has_queue {
            Answer::Awaited
        } else {
            Answer::None
        };
        let facts = target.facts(local.1, hdr_data, link);
        let what = (Role::Put, MessageKind::Put, answer);
        self.begin(
            what,
            (peer, target),
            (key, local, facts),
            (key, NO_FACTS),
            hdr_data,
        )
    }

    /// `PtlGet`, or `PtlGetRegion` with a `region` (offset, length) of the descriptor, where the reply lands. Sending
    /// the request logs nothing and does not count in the threshold; the reply does both (sections 5 and 6).
    ///
    /// # Errors
    /// As [`prepare_put`](Self::prepare_put).
    #[inline]
    pub fn get(
        &mut self,
        md: Handle,
        region: Option<(u64, u64)>,
        target: &Target,
    ) -> Result<Outgoing, Error> {
        let (key, local) = self.initiator(md, region)?;
        let peer = self.processes.number(target.id).ok_or(Error::ProcessInvalid)?;
        let reply = Facts {
            rlength: local.1,
            mlength: local.1,
            offset: local.0,
            ..NO_FACTS
        };
        let what = (Role::Get, MessageKind::Get, Answer::Awaited);
        self.begin(
            what,
            (peer, target),
            (key, local, NO_FACTS),
            (key, reply),
            local.1,
        )
    }

    /// `PtlGetPut`: what `put_md` describes goes to the target, and what was there comes to `get_md`. [`started`](Self::started)
    /// has to follow.
    ///
    /// # Errors
    /// As [`prepare_put`](Self::prepare_put); [`Error::MdIllegal`] also if `put_md` is longer than the limit `max_getput_md`.
    pub fn prepare_get_put(
        &mut self,
        get_md: Handle,
        put_md: Handle,
        target: &Target,
        hdr_data: u64,
    ) -> Result<Outgoing, Error> {
        let (get_key, into) = self.initiator(get_md, None)?;
        let (key, local) = self.initiator(put_md, None)?;
        if local.1 > self.limits.max_getput_md as u64 {
            return Err(Error::MdIllegal);
        }
        let peer = self.processes.number(target.id).ok_or(Error::ProcessInvalid)?;
        let link = self.link();
        let facts = target.facts(local.1, hdr_data, link);
        let reply = Facts {
            rlength: into.1,
            mlength: into.1,
            ..NO_FACTS
        };
        let what = (Role::GetPut, MessageKind::GetPut, Answer::Awaited);
        self.begin(
            what,
            (peer, target),
            (key, local, facts),
            (get_key, reply),
            hdr_data,
        )
    }

    /// Keep an operation that begins, and make its message: a part (offset, length) of descriptor `md` goes to `target`.
    #[inline(always)]
    fn begin(
        &mut self,
        (role, kind, answer): (Role, MessageKind, Answer),
        (peer, target): (u32, &Target),
        (md, (offset, length), facts): (Key, (u64, u64), Facts),
        (get_md, reply): (Key, Facts),
        data: u64,
    ) -> Result<Outgoing, Error> {
        let kept = self.operations.insert(|_| Operation {
            role,
            peer,
            sending: true,
            answer,
            md,
            get_md,
            facts,
            reply,
            initiator: NO_ANSWER,
        });
        let token = kept.ok_or(Error::NoSpace)?.number();
        let body = match kind {
            MessageKind::Get => None,
            _ => self.mds.get(md.slot()).map(|d| d.part(offset, length)),
        };
        let asks = if answer == Answer::None { NO_ANSWER } else { token };
        Ok(Outgoing {
            to: peer,
            header: target.header(kind, self.network, asks, data).encode(),
            body: body.unwrap_or_default(),
            token,
        })
    }

    /// The active descriptor of a handle, and the region meant.
    #[inline]
    fn initiator(&self, md: Handle, region: Option<(u64, u64)>) -> Result<(Key, (u64, u64)), Error> {
        let index = self.mds.find(md).ok_or(Error::MdInvalid)?;
        let descriptor = self.mds.get(index).filter(|d| d.active).ok_or(Error::MdInvalid)?;
        let whole = descriptor.region.length;
        let (offset, length) = region.unwrap_or((0, whole));
        if offset > whole || length > whole - offset {
            return Err(Error::MdIllegal);
        }
        Ok((self.mds.key(index), (offset, length)))
    }

    /// What [`prepare_put`](Self::prepare_put) or [`prepare_get_put`](Self::prepare_get_put) prepared is under way: counts
    /// it and logs SEND_START. To be called before anything else is asked of the library.
    #[inline]
    pub fn started(&mut self, token: u64) {
        let key = Key::of(token);
        // The request of a get neither counts nor logs (sections 5 and 6).
        let Some((md, facts)) = self
            .operations
            .exact(key)
            .filter(|operation| operation.role != Role::Get)
            .map(|operation| (operation.md.slot(), operation.facts))
        else {
            return;
        };
        self.consume(md);
        if let Some(descriptor) = self.mds.get_mut(md) {
            descriptor.pending += 1;
        }
        let me = self.me;
        if let Some(start) = self.log(md, EventKind::SendStart, &me, &facts, NiFail::OK)
            && let Some(operation) = self.operations.exact(key)
        {
            operation.facts.start = start;
        }
    }
}
