//! Receiving: a look at what came before, else a match entry; and getting what its sender keeps.

use super::direct::DIRECT;
use super::exposed::{PIECES, pieces};
use super::managed::{Message, Place};
use super::posted::Wanted;
use super::questions::Want;
use super::send::failure;
use super::{Portals, Seen, bits, user};
use crate::Rank;
use crate::buffer::RecvBuf;
use crate::carrier::{Chosen, Engine};
use crate::engine::context::{ANY_SOURCE, ANY_TAG, Held};
use crate::engine::deliver::{fit, note_match};
use crate::engine::envelope::Envelope;
use crate::engine::request::{Operation, RecvState};
use farpost_fabric::{Fabric, Peer};
use farpost_portals::{Error as PortalsError, Iovec, NiFail, ProcessId};

/// Memory of a receive, as a descriptor has it.
pub(super) struct Room {
    pub start: usize,
    pub length: u64,
    pub iovec: Iovec,
    pub landing: Option<Box<[u8]>>,
}

/// `bytes` of room in a buffer: where it is, its pieces if they are few, else memory of our own.
pub(super) fn room(buf: &RecvBuf, bytes: u64) -> Room {
    if let Some(address) = buf.contiguous_address() {
        return Room {
            start: if bytes == 0 { 0 } else { address },
            length: bytes,
            iovec: None,
            landing: None,
        };
    }
    if bytes == buf.bytes()
        && let Some(pieces) = pieces(bytes, false, |list| buf.segments(0, PIECES, list))
    {
        return Room {
            start: 0,
            length: pieces.len() as u64,
            iovec: Some(pieces),
            landing: None,
        };
    }
    let mut landing = vec![0; bytes as usize].into_boxed_slice();
    Room {
        start: if bytes == 0 {
            0
        } else {
            landing.as_mut_ptr().expose_provenance()
        },
        length: bytes,
        iovec: None,
        landing: Some(landing),
    }
}

impl<F: Fabric> Portals<F> {
    /// Forget a message that came before its receive; its memory is the sender's to use again.
    pub(super) fn forget(&mut self, number: u32) {
        if let Some(message) = self.managed.forget(number)
            && message.owed
        {
            self.owe(message.peer, false, Some(message.total));
        }
    }

    /// Nobody will receive a message.
    pub(crate) fn drop_message(&mut self, number: u32) {
        match self.managed.get(number) {
            Some(message) if matches!(message.place, Place::Coming { .. }) => {
                (message.dropped, message.taker) = (true, None);
            }
            _ => self.forget(number),
        }
    }

    /// What a receive takes.
    #[inline]
    pub(super) fn wanted(&self, id: ProcessId, context: u64, source: Rank, tag: i32) -> Wanted {
        Wanted {
            id,
            bits: self.layout.of(&bits::Name {
                context,
                source: source.max(0) as u32,
                tag: if tag == ANY_TAG { 0 } else { tag },
            }),
            ignore: self.layout.ignore(source == ANY_SOURCE, tag == ANY_TAG),
        }
    }

    /// Take back the entry of a receive. False: it has taken a message.
    pub(super) fn disarm(&mut self, number: u32) -> bool {
        if !self.posted.disarm(&self.ni, number as usize) {
            return false;
        }
        if let Some(entry) = self.posted.get(number as usize) {
            (entry.request, entry.landing) = (None, None);
            let queue = entry.queue;
            self.release(queue, 1);
        }
        true
    }
}

impl<F: Fabric> Engine<F> {
    /// Give the receive `handle` a message that came before, a match entry, or a place behind those that have one.
    pub(super) fn post_by_portals(&mut self, handle: usize) -> std::result::Result<(), PortalsError> {
        let Some(recv) = self.requests.recv(handle) else {
            return Ok(());
        };
        let (context, source, tag) = (recv.context, recv.source, recv.tag);
        let begun = self
            .carrier
            .portals()
            .is_some_and(|portals| !portals.begun.is_empty());
        if begun
            && let Some(start) = recv.buf.contiguous_address()
            && self.goes_on(handle, start, recv.buf.bytes())
        {
            return Ok(());
        }
        let portals = portals!(self, Ok(()));
        if !portals.posted.has_behind() && !portals.posted.is_full() {
            return self.enter(handle, false);
        }
        let listed = portals.layout.listed(tag);
        match self.contexts[context].queues.take_unexpected(source, listed) {
            Some(message) => self.deliver_held(handle, message),
            None => {
                portals.posted.push_behind(handle);
                self.contexts[context].queues.post(source, listed, handle);
            }
        }
        Ok(())
    }

    /// Give receives without a match entry those that are free, oldest first.
    #[inline]
    pub(super) fn enter_behind(&mut self) {
        let mut before = None;
        while let Chosen::Portals(portals) = &self.carrier
            && let next @ Some(handle) = portals.posted.next_behind()
            && next != before
        {
            before = next;
            // One that finds no entry can be matched where it is.
            let _ = self.enter(handle, true);
        }
    }

    /// Give the receive `handle` a match entry, unless a message has come for it. `behind`: it is the oldest that is posted without
    /// one, and stays in its place, in the way of younger ones, until it has it.
    fn enter(&mut self, handle: usize, behind: bool) -> std::result::Result<(), PortalsError> {
        let Some(recv) = self.requests.recv(handle) else {
            return Ok(());
        };
        let (context, source, tag) = (recv.context, recv.source, recv.tag);
        let mut room = room(&recv.buf, recv.buf.bytes());
        let mut placed: Option<u32> = None;
        loop {
            let portals = portals!(self, Ok(()));
            let queues = &mut self.contexts[context].queues;
            if behind {
                if portals.posted.next_behind() != Some(handle) {
                    return Ok(());
                }
            } else if let Some(message) = queues.take_unexpected(source, portals.layout.listed(tag)) {
                self.deliver_held(handle, message);
                return Ok(());
            }
            let portals = portals!(self, Ok(()));
            let number = match placed {
                Some(number) => number,
                None => {
                    let entry = &self.contexts[context];
                    let id = match (source, &entry.members) {
                        (ANY_SOURCE, _) | (_, None) => ProcessId::ANY,
                        (source, Some(members)) => match members.pid(source) {
                            Some(pid) => portals.ids[pid as usize],
                            None => return Err(PortalsError::ProcessInvalid),
                        },
                    };
                    let wanted = portals.wanted(id, entry.id, source, tag);
                    let number = portals.posted.place(&portals.ni, wanted)?;
                    *placed.insert(number)
                }
            };
            let queue = portals.reserve(1)?;
            let eq = portals.queues[usize::from(queue)].eq;
            let memory = (room.start, room.length, room.iovec.clone());
            let name = user::of(user::POSTED, number as usize);
            let unexpected = portals.unexpected;
            let mut armed = portals
                .posted
                .arm(&portals.ni, number, memory, (name, eq, unexpected));
            // The update looked for more.
            portals.needs_progress |= armed == Ok(false);
            if armed == Ok(false) && !self.note_unexpected() {
                // Nothing has come but what is listed already and not whole yet: this receive takes none of it, and is not to wait for
                // its sender. An agent may have taken in more meanwhile, which is looked at first.
                let portals = portals!(self, Ok(()));
                let memory = (room.start, room.length, room.iovec.clone());
                let names = (name, eq, unexpected);
                armed = (portals.posted).arm_behind_listed(&portals.ni, number, memory, names);
            }
            let portals = portals!(self, Ok(()));
            match armed {
                Ok(true) => {
                    if let Some(entry) = portals.posted.get(number as usize) {
                        entry.request = Some(handle);
                        entry.queue = queue;
                        entry.landing = room.landing.take();
                    }
                    let queues = &mut self.contexts[context].queues;
                    if behind {
                        portals.posted.remove_behind(handle);
                        queues.cancel(source, handle);
                    }
                    queues.entered();
                    if let Some((recv, _)) = self.requests.recv_mut(handle) {
                        recv.state = RecvState::Entered { number };
                    }
                    return Ok(());
                }
                // A message has come: it is in the list now.
                Ok(false) => portals.release(queue, 1),
                Err(error) => {
                    portals.release(queue, 1);
                    return Err(error);
                }
            }
        }
    }

    /// A posted receive has taken a message.
    #[inline]
    pub(super) fn on_received(&mut self, seen: &Seen) {
        let portals = portals!(self);
        let number = seen.number();
        if !portals.posted.over(number) {
            return;
        }
        let Some(entry) = portals.posted.get(number) else {
            return;
        };
        let (request, landing, queue) = (entry.request.take(), entry.landing.take(), entry.queue);
        portals.release(queue, 1);
        let short = (seen.bits & bits::KEPT == 0).then_some(seen.rlength);
        portals.owe(seen.from, true, short);
        let Some(handle) = request else { return };
        if handle == DIRECT {
            match portals.begun.iter_mut().find(|begun| begun.is(number)) {
                Some(begun) => begun.came = Some(*seen),
                None => portals.direct = Some(*seen),
            }
            return;
        }
        self.on_taken(handle, landing, seen);
    }

    /// The receive `handle` has taken a message by its entry.
    #[inline]
    pub(super) fn on_taken(&mut self, handle: usize, landing: Option<Box<[u8]>>, seen: &Seen) {
        let portals = portals!(self);
        let name = portals.layout.name(seen.bits);
        let Some(recv) = self.requests.recv(handle) else {
            return;
        };
        let entry = &mut self.contexts[recv.context];
        entry.queues.left();
        let (class, id) = bits::of_header(seen.data);
        let (bytes, mut error) = fit(&recv.buf, class, seen.rlength);
        if let Some(landing) = landing {
            recv.buf
                .unpack_on(&*self.fabric, 0, &landing[..seen.mlength as usize]);
        }
        if seen.fail != NiFail::OK {
            error = failure(seen.from, seen.fail);
            if seen.fail == NiFail::FAIL && seen.mlength > 0 && seen.bits & bits::KEPT != 0 {
                // It could not be stored here, and nothing acknowledges it.
                portals.notice(seen.from, id, seen.fail);
            }
        } else if !came_from(entry.members.as_ref(), name.source, seen.from) {
            self.note_corrupt(seen.from, "the sender\'s rank", u64::from(name.source));
            error = failure(seen.from, NiFail::FAIL);
        } else if seen.bits & bits::KEPT != 0 && id & bits::IN_PARTS != 0 {
            return self.on_header(handle, seen.from, seen);
        }
        let envelope = Self::envelope(name.context, name.source, name.tag, class, 0);
        self.finish_recv(handle, &envelope, bytes, error);
    }

    /// Give the receive `handle` the message that came before it.
    pub(crate) fn deliver_by_portals(&mut self, handle: usize, peer: Peer, envelope: &Envelope, number: u32) {
        let portals = portals!(self);
        let Some((recv, status)) = self.requests.recv_mut(handle) else {
            return portals.drop_message(number);
        };
        let Some(message) = portals.managed.get(number) else {
            return;
        };
        let wanted = note_match(status, &recv.buf, envelope, message.total);
        match &message.place {
            Place::Coming { .. } => {
                message.taker = Some(handle);
                recv.state = RecvState::Coming { peer, number };
            }
            Place::Here { .. } | Place::Copied(_) => {
                if let Some(bytes) = portals.managed.bytes(number) {
                    // Of one that was cut before there are no more than were wanted then.
                    recv.buf
                        .unpack_on(&*self.fabric, 0, &bytes[..bytes.len().min(wanted as usize)]);
                }
                portals.forget(number);
                self.complete(handle, |_| {});
            }
            Place::Kept { id } => {
                let id = *id;
                portals.forget(number);
                self.take_kept(Want {
                    peer,
                    id,
                    bytes: wanted,
                    request: handle,
                });
            }
            Place::Failed(fail) => {
                let error = failure(peer, *fail);
                portals.forget(number);
                self.complete(handle, |status| status.error = error.map(Box::new));
            }
        }
    }

    /// A message that was coming is here.
    pub(super) fn on_arrived(&mut self, number: u32) {
        let portals = portals!(self);
        let Some(message) = portals.managed.get(number) else {
            return;
        };
        let peer = message.peer;
        if message.dropped {
            return portals.forget(number);
        }
        let Some(handle) = message.taker.take() else {
            return;
        };
        // The envelope was noted when the message was taken.
        let error = match message.place {
            Place::Failed(fail) => failure(peer, fail),
            _ => None,
        };
        if let (Some(bytes), Some(request)) = (portals.managed.bytes(number), self.requests.get(handle))
            && let Operation::Recv(recv) = &request.operation
        {
            recv.buf
                .unpack_on(&*self.fabric, 0, &bytes[..request.status.bytes as usize]);
        }
        portals.forget(number);
        self.complete(handle, |status| {
            status.error = error.map(Box::new).or(status.error.take());
        });
    }

    /// A message that no receive waited for has begun to come, or its header is here.
    pub(super) fn on_unexpected(&mut self, seen: &Seen, place: Place) {
        let portals = portals!(self);
        portals.owe(seen.from, true, None);
        let name = portals.layout.name(seen.bits);
        let (class, _) = bits::of_header(seen.data);
        let context = self.context(name.context);
        let right = came_from(self.contexts[context].members.as_ref(), name.source, seen.from);
        let portals = portals!(self);
        let number = portals.managed.note(Message {
            peer: seen.from,
            total: seen.rlength,
            owed: seen.user != user::REST,
            place,
            taker: None,
            dropped: false,
        });
        if !right {
            portals.drop_message(number);
            return self.note_corrupt(seen.from, "the sender\'s rank", u64::from(name.source));
        }
        let envelope = Self::envelope(name.context, name.source, name.tag, class, 0);
        // Its receive may be one that has no entry.
        if portals.posted.has_behind()
            && let Some(handle) = self.contexts[context]
                .queues
                .take_posted(name.source, envelope.tag)
        {
            portals.posted.remove_behind(handle);
            return self.deliver_by_portals(handle, seen.from, &envelope, number);
        }
        let held = Held::Carried {
            number,
            total: seen.rlength,
        };
        self.hold(seen.from, context, envelope, held, None);
    }
}

/// Whether rank `source` is `peer`, as far as that is known here.
fn came_from(members: Option<&crate::group::Group>, source: u32, peer: Peer) -> bool {
    members.is_none_or(|members| members.pid(source as Rank) == Some(peer.0))
}
