//! Receiving: a request for a message that has come or will.
//!
//! Requirements of MPI-5.0 sections 3.2.4, 3.4, 3.5.

use crate::buffer::{RecvBuf, RecvRun};
use crate::carrier::postbox::Short;
use crate::carrier::{Chosen, Engine};
use crate::engine::Carrier;
use crate::engine::carrier::Direct;
use crate::engine::request::{Operation, Request};
use crate::{Rank, Result};
use farpost_fabric::{Fabric, Peer};

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

    /// Start a receive into one run of bytes from `peer` (`None`: from anybody). `None`: take the long way.
    #[inline(always)]
    pub fn irecv_run<'a>(
        &mut self,
        context: usize,
        context_id: u64,
        peer: Option<Peer>,
        room: impl FnOnce() -> RecvRun<'a>,
        source: Rank,
        tag: i32,
    ) -> Option<usize> {
        let queues = &self.contexts[context].queues;
        if !self.by_postbox_all || queues.has_unexpected() {
            return self.irecv(context, room().keep(), source, tag).ok();
        }
        if !queues.has_posted()
            && let Some(peer) = peer
            && self.post.is_there(peer)
        {
            return self.irecv_arrived(context, context_id, (peer, source), room(), tag);
        }
        let (handle, place) = self.requests.claim().ok()?;
        if let Some(request) = place
            && let Some(old) = request.renew_recv(context, source, tag)
        {
            room().replace(old);
        } else {
            make(place, room(), context, source, tag);
        }
        self.contexts[context].queues.post(source, tag, handle);
        Some(handle)
    }

    /// As [`irecv_run`](Self::irecv_run) when a message is there that nobody else waits for.
    #[inline(never)]
    fn irecv_arrived(
        &mut self,
        context: usize,
        context_id: u64,
        (peer, source): (Peer, Rank),
        mut room: RecvRun<'_>,
        tag: i32,
    ) -> Option<usize> {
        let class = room.sig();
        let wanted = Direct {
            context,
            context_id,
            peer,
            source,
            tag,
            class,
        };
        let Short::Got { source, tag, len } = self.receive_short(&wanted, room.bytes_mut()) else {
            return None;
        };
        let (handle, place) = self.requests.claim().ok()?;
        // Nothing looks at the operation of a complete request: what was there may stay.
        if !matches!(
            place,
            Some(Request {
                operation: Operation::Recv(_),
                ..
            })
        ) {
            make(place, room, context, source, tag);
        }
        let request = place.as_mut()?;
        request.complete = true;
        request.detached = false;
        request.status.clear();
        request.status.set(source, tag, len as u64);
        Some(handle)
    }
}

/// Where nothing was that could be made new.
#[cold]
fn make(place: &mut Option<Request>, room: RecvRun<'_>, context: usize, source: Rank, tag: i32) {
    *place = Some(Request::recv(room.keep(), context, source, tag));
}
