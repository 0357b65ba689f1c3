//! Receiving: what arrives meets a posted receive or is held.
//!
//! Requirements of MPI-5.0 sections 3.2.4, 3.4, 3.5.

use super::context::{Held, Unexpected};
use super::envelope::Envelope;
use super::request::{Operation, Status};
use super::{Carrier, Engine, wire};
use crate::buffer::RecvBuf;
use crate::{Error, Rank};
use farpost_fabric::{Cost, Fabric, Peer};

/// Check types and sizes of a message against its receive. The bytes to deliver, and the error if any.
pub(crate) fn fit(buf: &RecvBuf, class: u8, total: u64) -> (u64, Option<Error>) {
    let mine = buf.sig();
    if class != 0 && mine != 0 && class != mine && total > 0 {
        let error = error!(
            ERR_TYPE: "datatype: the message was sent as {}, the receive says {}",
            crate::datatype::class_name(class), buf.datatype().describe()
        );
        return (0, Some(error));
    }
    let capacity = buf.bytes();
    if total > capacity {
        let error = error!(
            ERR_TRUNCATE: "count={}: the message has {total} bytes, the buffer holds {capacity}", buf.count()
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

impl<F: Fabric, C: Carrier<F>> Engine<F, C> {
    /// The context of an envelope, if the envelope can be right.
    #[inline(always)]
    pub(crate) fn admit(&mut self, peer: Peer, envelope: &Envelope) -> Option<usize> {
        let context = self.context(envelope.context);
        let source = envelope.source;
        let right = match &self.contexts[context].members {
            Some(members) => members.pid(source as Rank) == Some(peer.0),
            None => source < self.fabric.size(),
        };
        if !right {
            self.fail_sender(peer, "the sender's rank", u64::from(source));
            return None;
        }
        Some(context)
    }

    /// The oldest posted receive that takes a message with this envelope.
    #[inline(always)]
    pub(crate) fn match_posted(&mut self, context: usize, envelope: &Envelope) -> Option<usize> {
        let queues = &mut self.contexts[context].queues;
        queues.search_posted(envelope.source, envelope.tag, |n| {
            self.fabric.charge(Cost::Match(n))
        })
    }

    /// Deliver or hold a message whose bytes are at hand.
    #[inline(always)]
    pub(crate) fn arrive(
        &mut self,
        peer: Peer,
        context: usize,
        envelope: Envelope,
        data: &[u8],
        sync: Option<u64>,
    ) {
        match self.match_posted(context, &envelope) {
            Some(handle) => {
                self.deliver_bytes(handle, &envelope, data);
                if let Some(request) = sync {
                    self.answer_done(peer, request);
                }
            }
            None => {
                self.fabric.charge(Cost::Copy(data.len()));
                self.hold(peer, context, envelope, Held::Data(data.into()), sync);
            }
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
    pub(crate) fn deliver_bytes(&mut self, handle: usize, envelope: &Envelope, data: &[u8]) {
        // The usual case in one go. The operation stays in the complete request: nothing looks at it there.
        if let Some(request) = self.requests.get_mut(handle)
            && let Operation::Recv(recv) = &request.operation
            && !request.detached
            && data.len() as u64 <= recv.buf.bytes()
            && (envelope.class == recv.buf.sig() || envelope.class == 0)
        {
            recv.buf.unpack_on(&*self.fabric, 0, data);
            request.status.source = envelope.source as Rank;
            request.status.tag = envelope.tag;
            request.status.bytes = data.len() as u64;
            request.complete = true;
            return;
        }
        let Some(recv) = self.requests.recv(handle) else {
            return;
        };
        let (bytes, error) = fit(&recv.buf, envelope.class, data.len() as u64);
        recv.buf.unpack_on(&*self.fabric, 0, &data[..bytes as usize]);
        self.finish_recv(handle, envelope, bytes, error);
    }

    /// Tell the sender of a synchronous message of its match, wherever it is.
    pub(crate) fn release_sender(&mut self, peer: Peer, request: u64) {
        if peer == self.me {
            self.complete(request as usize, |_| {});
        } else if !self.lost.contains_key(&peer.0) {
            self.answer_done(peer, request);
        }
    }

    /// Tell the sender of a synchronous or long message that it is over.
    pub(crate) fn answer_done(&mut self, peer: Peer, request: u64) {
        let mut line = [0; 8];
        line[0] = u64::from(wire::KIND_DONE) << 32;
        line[3] = request;
        C::answer(self, peer, line);
    }
}
