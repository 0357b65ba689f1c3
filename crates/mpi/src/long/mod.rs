//! Long messages: one protocol, whose steps a pair of processes has or has not.
//!
//! The sender chooses how a message leaves ([`Departure`]): whole, without being asked ([`zcopy`]), or as an [`Offer`]. The receiver of an
//! offer, once a receive has matched, chooses how the bytes come ([`Fetch`]):
//!
//! | Step | File | The pair has | Copies | Chosen |
//! |---|---|---|---|---|
//! | eager zero-copy | [`zcopy`] | a network that sends bytes unasked, and room of the receiver's grant | 0 | above `FARPOST_ZCOPY_MIN`, up to `FARPOST_ZCOPY_MAX` |
//! | both copy | [`copy`] | cross-memory attach, a rendezvous slot; both buffers are one run | 1, shared out | above `FARPOST_CHUNK_MIN`, with `FARPOST_BOTH_COPY` |
//! | the receiver copies | [`copy`] | cross-memory attach; the sender's buffer is one run | 1, or 2 where the receiver's has gaps | otherwise |
//! | remote get | [`get`] | a network or a layer that transfers between memories; both buffers are one run | 0 | always, where it is had |
//! | stream | [`stream`] | nothing | 2 | otherwise |
//!
//! These choices are made in this file, from limits that `farpost tune` measures; that a shorter message is offered as well, because its receiver
//! holds it back or blocks are short, is its carrier's. What each step waits for, and who frees it, is in `docs/flow-control.md`.
//!
//! Requirements of MPI-5.0 section 3.4.

mod copy;
mod get;
mod held;
mod stream;
mod zcopy;

use crate::engine::context::Held;
use crate::engine::deliver::note_match;
use crate::engine::envelope::Envelope;
use crate::engine::offer::Offer;
use crate::engine::request::{Send, SendState};
use crate::engine::{Carrier, Engine, wire};
use farpost_channel::RendezvousSlots;
use farpost_fabric::{Fabric, Line, Peer};

/// How a message leaves its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// At once, through postboxes and blocks, or as the carrier sends short messages.
    Whole,
    /// With its bytes behind its line, from the user's memory.
    ZeroCopy,
    /// An offer goes, and the bytes when it has been matched.
    Offer,
}

/// How the bytes of an offered message come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetch {
    /// Both sides copy parts, which they claim in this rendezvous slot of the sender.
    Both { address: u64, slot: u32 },
    /// The receiver copies all.
    Alone { address: u64 },
    /// The fabric gets them.
    Get { position: u64, key: u64 },
    /// The sender is asked for them.
    Stream,
}

/// Offer the message of the request `handle`: the line, after which the send is offered. Its buffer is exposed where the carrier's
/// layer `transfers`, the fabric does, and the buffer is one run; what is not exposed will be asked for.
pub(crate) fn offer<F: Fabric>(
    fabric: &F,
    send: &mut Send,
    handle: usize,
    transfers: bool,
    slot: Option<u32>,
) -> Line {
    let exposed = if transfers && fabric.can_transfer(send.peer) {
        send.payload.expose(fabric, send.peer)
    } else {
        None
    };
    let offer = Offer {
        total: send.payload.bytes(),
        request: handle as u64,
        exposed,
        slot: slot.filter(|_| exposed.is_some()),
    };
    let mut line = send.envelope.line(wire::KIND_RTS, 1, 0);
    offer.fill(&mut line);
    send.state = SendState::Offered {
        slot: offer.slot,
        // What is mapped needs no key.
        key: exposed.filter(|_| !fabric.maps(send.peer)).map(|(_, key)| key),
    };
    line
}

impl<F: Fabric, C: Carrier<F>> Engine<F, C> {
    /// How a message of so many bytes leaves for `peer`. Eager zero-copy is a wish: a buffer with gaps cannot, and goes as one
    /// that is too long or whole.
    #[inline]
    pub(crate) fn departure(&self, peer: Peer, total: u64) -> Departure {
        if total > self.tunables.zcopy_min
            && total <= self.tunables.zcopy_max
            && !self.fabric.maps(peer)
            && total <= self.fabric.zcopy_room(peer) as u64
        {
            Departure::ZeroCopy
        } else if total <= self.eager_max(peer) {
            Departure::Whole
        } else {
            Departure::Offer
        }
    }

    /// How the bytes of an offer come to a receive, whose buffer is `one_run` or not.
    fn fetch_step(&self, peer: Peer, offer: &Offer, one_run: bool) -> Fetch {
        let Some((position, key)) = offer.exposed.filter(|_| self.fabric.can_transfer(peer)) else {
            return Fetch::Stream;
        };
        if !self.fabric.maps(peer) {
            return match one_run {
                true => Fetch::Get { position, key },
                false => Fetch::Stream,
            };
        }
        let address = position;
        match offer.slot {
            Some(slot) if one_run && self.post.slots_of(peer).is_some() => Fetch::Both { address, slot },
            _ => Fetch::Alone { address },
        }
    }

    /// Sender: offer a long message. False: no room for the offer yet.
    pub(crate) fn post_offer(&mut self, peer: Peer, send: &mut Send, handle: usize) -> bool {
        if self.post.room(peer) == 0 {
            return false;
        }
        // What is one chunk is the receiver's to copy.
        let shares = self.fabric.maps(peer)
            && self.fabric.can_transfer(peer)
            && send.payload.contiguous().is_some()
            && send.payload.bytes() > self.tunables.chunk_min;
        let slot = if shares { self.take_slot() } else { None };
        let line = offer(&*self.fabric, send, handle, true, slot);
        let SendState::Offered { slot: used, .. } = send.state else {
            unreachable!("it was offered")
        };
        self.post.post(peer, &line, 0);
        match (slot, used) {
            (Some(_), Some(_)) => self.offered.push(handle),
            (Some(slot), None) => self.free_slot(slot),
            (None, _) => {}
        }
        true
    }

    /// Sender: the receiver has what it wanted, or wants it in another way.
    pub(crate) fn end_offer(&mut self, state: SendState) {
        if let SendState::Offered { slot, key } = state {
            if let Some(slot) = slot {
                self.free_slot(slot);
            }
            if let Some(key) = key {
                self.fabric.withdraw(key);
            }
        }
    }

    /// Receiver: an offer.
    #[inline(never)]
    pub(crate) fn on_rts(&mut self, peer: Peer, line: &Line) -> bool {
        let Some(offer) = Offer::of(line, RendezvousSlots::<F>::LINES) else {
            self.fail_sender(peer, "the length of a long message", line[3]);
            return false;
        };
        let envelope = Envelope::of(line);
        let Some(context) = self.admit(peer, &envelope) else {
            return false;
        };
        match self.match_posted(context, &envelope) {
            Some(handle) => self.fetch(handle, peer, &envelope, &offer),
            None => self.hold(peer, context, envelope, Held::Offered(offer), None),
        }
        true
    }

    /// Receiver: the receive `handle` takes a message that was offered.
    pub(crate) fn fetch(&mut self, handle: usize, peer: Peer, envelope: &Envelope, offer: &Offer) {
        let Some((recv, status)) = self.requests.recv_mut(handle) else {
            return;
        };
        let wanted = note_match(status, &recv.buf, envelope, offer.total);
        if wanted == 0 {
            self.answer_done(peer, offer.request);
            self.complete(handle, |_| {});
            return;
        }
        let one_run = recv.buf.contiguous_address().is_some();
        match self.fetch_step(peer, offer, one_run) {
            Fetch::Both { address, slot } => {
                self.copy_with_sender(handle, (peer, offer.request), address, slot, wanted)
            }
            Fetch::Alone { address } => self.copy_alone(handle, (peer, offer.request), address, wanted),
            Fetch::Get { position, key } => {
                self.get_remote(handle, (peer, offer.request), (position, key), wanted)
            }
            Fetch::Stream => self.ask(handle, peer, offer.request, wanted),
        }
    }
}
