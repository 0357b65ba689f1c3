//! The fast path of a blocking receive from one source: a match entry without a request, waited for in a few quick looks and then taken
//! back, or left to the long way where it has a message whose bytes are still to come.

use super::managed::{Message, Place};
use super::{Portals, Seen, bits, user};
use crate::Rank;
use crate::carrier::{Chosen, Engine};
use crate::engine::carrier::Direct;
use crate::engine::context::{Held, Unexpected};
use crate::engine::request::{Operation, RecvState};
use farpost_fabric::Fabric;
use farpost_portals::{EventKind, Handle, NetworkInterface, NiFail};

/// In the place of a request.
pub(super) const DIRECT: usize = usize::MAX;
/// With fewer looks than this nobody waits here.
const LEAST: u32 = 64;
/// Looks between two rounds of everything that makes progress: a power of two.
const BETWEEN: u32 = 256;

/// What its descriptor says of an entry.
#[inline(always)]
const fn posted(number: u32) -> usize {
    user::of(user::POSTED, number as usize)
}

/// An entry with a message whose bytes are on their way, for the same receive by the long way, which comes next in this call of
/// the program's: what comes late is waited for as everything is.
pub(super) struct Begun {
    entry: u32,
    context: usize,
    source: Rank,
    tag: i32,
    /// Where the bytes go.
    start: usize,
    length: u64,
    /// It has come meanwhile.
    pub came: Option<Seen>,
}

impl Begun {
    pub fn is(&self, number: usize) -> bool {
        self.entry as usize == number
    }
}

impl<F: Fabric> Portals<F> {
    /// A match entry for a receive into `to`, and the queue with room for its event. `None`: something stands in the way.
    #[inline]
    fn post_direct(&mut self, wanted: &Direct, to: &mut [u8]) -> Option<(u32, Handle)> {
        let is_full = self.posted.is_full() || self.posted.has_behind();
        if is_full || !self.layout.admits(wanted.context_id, wanted.tag) {
            return None;
        }
        let id = self.ids[wanted.peer.index()];
        let wanted = self.wanted(id, wanted.context_id, wanted.source, wanted.tag);
        let number = self.posted.place(&self.ni, wanted).ok()?;
        let queue = self.reserve(1).ok()?;
        let start = if to.is_empty() {
            0
        } else {
            to.as_mut_ptr().expose_provenance()
        };
        let room = (start, to.len() as u64, None);
        let name = posted(number);
        let eq = self.queues[usize::from(queue)].eq;
        let armed = self
            .posted
            .arm(&self.ni, number, room, (name, eq, self.unexpected));
        if armed != Ok(true) {
            self.needs_progress = true;
            self.release(queue, 1);
            return None;
        }
        let entry = self.posted.get(number as usize)?;
        (entry.request, entry.queue) = (Some(DIRECT), queue);
        Some((number, eq))
    }

    /// It has taken its message.
    #[inline]
    fn direct_is_over(&mut self, number: u32, seen: &Seen) {
        self.posted.over(number as usize);
        if let Some(entry) = self.posted.get(number as usize) {
            entry.request = None;
            let queue = entry.queue;
            self.release(queue, 1);
        }
        let short = (seen.bits & bits::KEPT == 0).then_some(seen.rlength);
        self.owe(seen.from, true, short);
    }
}

impl<F: Fabric> Engine<F> {
    /// Receive a message into `to` if one comes within so many `looks`: source, tag and bytes. `None`: take the long way, which
    /// finds what came instead.
    #[inline]
    pub(crate) fn receive_by_portals(
        &mut self,
        wanted: &Direct,
        to: &mut [u8],
        mut looks: u32,
    ) -> Option<(Rank, i32, usize)> {
        if looks < LEAST || self.contexts[wanted.context].queues.has_unexpected() {
            return None;
        }
        let portals = self.carrier.portals_mut()?;
        if !portals.begun.is_empty() {
            return None;
        }
        let (entry, queue) = portals.post_direct(wanted, to)?;
        loop {
            let portals = self.carrier.portals_mut()?;
            looks -= 1;
            if looks == 0 {
                if !portals.disarm(entry) {
                    portals.begun.push(Begun {
                        entry,
                        context: wanted.context,
                        source: wanted.source,
                        tag: wanted.tag,
                        start: to.as_ptr().addr(),
                        length: to.len() as u64,
                        came: None,
                    });
                }
                return None;
            }
            if looks.is_multiple_of(BETWEEN) {
                self.progress();
            } else if portals.ni.look() {
                // Whatever else there is can wait until this call is over.
                portals.needs_progress = true;
                while let Some(seen) = self.carrier.portals()?.ni.eq_take(queue, Seen::of) {
                    if seen.user == posted(entry) && seen.kind == EventKind::PutEnd && seen.fail == NiFail::OK
                    {
                        self.carrier.portals_mut()?.direct_is_over(entry, &seen);
                        return self.received_directly(wanted, &seen, to);
                    }
                    self.note_event(&seen);
                }
            }
            if let Some(seen) = self.carrier.portals_mut()?.direct.take() {
                return self.received_directly(wanted, &seen, to);
            }
        }
    }

    /// Give the receive `handle` the entry that it has begun with, if there is one. False: there is none.
    pub(super) fn goes_on(&mut self, handle: usize, start: usize, length: u64) -> bool {
        let (Chosen::Portals(portals), Some(request)) = (&mut self.carrier, self.requests.get_mut(handle))
        else {
            return false;
        };
        let Operation::Recv(recv) = &mut request.operation else {
            return false;
        };
        let same = |begun: &Begun| {
            let place = begun.length == length && (length == 0 || begun.start == start);
            place && (begun.context, begun.source, begun.tag) == (recv.context, recv.source, recv.tag)
        };
        let Some(at) = portals.begun.iter().position(same) else {
            return false;
        };
        let Begun { entry, came, .. } = portals.begun.swap_remove(at);
        recv.state = RecvState::Entered { number: entry };
        self.contexts[recv.context].queues.entered();
        match came {
            Some(seen) => self.on_taken(handle, None, &seen),
            None => {
                if let Some(entry) = portals.posted.get(entry as usize) {
                    entry.request = Some(handle);
                }
            }
        }
        true
    }

    #[inline(always)]
    fn received_directly(&mut self, wanted: &Direct, seen: &Seen, to: &[u8]) -> Option<(Rank, i32, usize)> {
        let portals = self.carrier.portals()?;
        let (class, _) = bits::of_header(seen.data);
        let suits = class == wanted.class || class == 0 || wanted.class == 0 || seen.rlength == 0;
        if !suits || seen.rlength != seen.mlength || seen.fail != NiFail::OK {
            self.list_again(wanted.context, seen, to);
            return None;
        }
        let tag = portals.layout.name(seen.bits).tag;
        Some((wanted.source, tag, seen.mlength as usize))
    }

    /// Something is wrong with a message, or only its header came: it is listed as if it had come before its receive, ahead of all
    /// others, and the long way says what, or fetches it.
    #[cold]
    fn list_again(&mut self, context: usize, seen: &Seen, to: &[u8]) {
        let portals = portals!(self);
        let name = portals.layout.name(seen.bits);
        let (class, id) = bits::of_header(seen.data);
        let place = match seen.fail {
            NiFail::OK if seen.bits & bits::KEPT != 0 && id & bits::IN_PARTS != 0 => Place::Kept { id },
            NiFail::OK => Place::Copied(to[..seen.mlength as usize].into()),
            fail => Place::Failed(fail),
        };
        let message = portals.managed.note(Message {
            peer: seen.from,
            total: seen.rlength,
            place,
            taker: None,
            dropped: false,
            owed: false,
        });
        let envelope = Self::envelope(name.context, name.source, name.tag, class, 0);
        let held = Held::Carried {
            number: message,
            total: seen.rlength,
        };
        let first = Unexpected::new(seen.from, envelope, held, None);
        self.contexts[context].queues.hold_first(first);
    }
}
