//! Receiving: what arrives meets a posted receive or is held.
//!
//! Requirements of MPI-5.0 sections 3.2.4, 3.4, 3.5.

use crate::buffer::RecvBuf;
use crate::carrier::{Carrier, Chosen};
use crate::engine::Engine;
use crate::engine::context::{Held, Unexpected};
use crate::engine::envelope::Envelope;
use crate::engine::request::{Operation, Request, Status};
use crate::{Error, Rank, Result};
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

impl<F: Fabric> Engine<F> {
    /// Start a receive.
    pub fn irecv(&mut self, context: usize, buf: RecvBuf, source: Rank, tag: i32) -> Result<usize> {
        let (handle, place) = self.requests.claim()?;
        match place
            .as_mut()
            .and_then(|old| old.renew_recv(context, source, tag))
        {
            Some(old) => *old = buf,
            None => *place = Some(Request::recv(buf, context, source, tag)),
        }
        if let Err(error) = Chosen::receive(self, handle) {
            self.requests.discard(handle);
            return Err(error);
        }
        Ok(handle)
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
        match self.contexts[context]
            .queues
            .search_posted(envelope.source, envelope.tag, |n| {
                self.fabric.charge(Cost::Match(n))
            }) {
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
    fn deliver_bytes(&mut self, handle: usize, envelope: &Envelope, data: &[u8]) {
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
        let Some(Request {
            operation: Operation::Recv(recv),
            ..
        }) = self.requests.get(handle)
        else {
            return;
        };
        let (bytes, error) = fit(&recv.buf, envelope.class, data.len() as u64);
        recv.buf.unpack_on(&*self.fabric, 0, &data[..bytes as usize]);
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
            Held::Offered(offer) => {
                if !self.lost.is_empty()
                    && let Some(error) = self.lost_error(peer)
                {
                    // Who offered it is gone, and the bytes with it.
                    return self.complete(handle, |status| status.error = Some(Box::new(error)));
                }
                self.fetch(handle, peer, &envelope, &offer);
            }
            Held::ZeroCopy { total, number } => self.land(handle, peer, &envelope, total, number),
            Held::Carried { number, .. } => Chosen::take_held(self, peer, &envelope, number, Some(handle)),
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
