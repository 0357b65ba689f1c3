//! MPI over postboxes and blocks, matched here. A protocol event has a file.
//!
//! Which protocol a message takes over postboxes:
//!
//! | Kind in the postbox | Message |
//! |---|---|
//! | `SHORT` | up to 40 bytes, in one line |
//! | `RUN`, `MORE` | up to 264 bytes in at most 5 postboxes, 56 bytes in each after the first (a receiver accepts 8 postboxes, 432 bytes) |
//! | `BLOCK`, `PIECE` | up to `FARPOST_EAGER_MAX`, in blocks of the sender's pool; a long one in pieces, so that the receiver empties one while the sender fills the next |
//! | `ZCOPY` | between hosts, where the fabric has [`ZeroCopy`](farpost_fabric::ZeroCopy): longer than `FARPOST_ZCOPY_MIN`, up to `FARPOST_ZCOPY_MAX` |
//! | `RTS`, `CTS`, `DATA`, `DONE` | rendezvous: the offer, the request for blocks, a piece, the end |
//! | `CANCEL`, `CANCELLED` | the sender asks for an unmatched message back; it was dropped |
//!
//! How the bytes of an offered message come is chosen in [`long`](crate::long). What each step waits for, and who frees it, is in
//! `docs/flow-control.md`.

mod burst;
mod cancel;
mod direct;
mod eager;
mod receive;

pub(crate) use eager::{RUN_MAX, bytes_in_pieces};
pub(crate) use receive::Short;

use crate::carrier::{Chosen, Engine};
use crate::engine::Carrier;
use crate::engine::carrier::{Direct, Limits};
use crate::engine::envelope::Envelope;
use crate::engine::request::{Mode, Payload};
use crate::{Rank, Result};
use farpost_fabric::{Cost, Fabric, Line, Peer};
use std::cell::Cell;

/// A line has room for every tag and every context.
pub(super) const LIMITS: Limits = Limits {
    tag_ub: i32::MAX,
    count_bits: 30,
};

/// The carrier.
pub(super) struct Postbox;

impl<F: Fabric> Carrier<F, Chosen<F>> for Postbox {
    #[inline]
    fn send_at_once(engine: &mut Engine<F>, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool {
        engine.post_at_once(peer, envelope, data)
    }

    fn send(
        engine: &mut Engine<F>,
        peer: Peer,
        envelope: Envelope,
        payload: Payload,
        mode: Mode,
    ) -> Result<Option<usize>> {
        engine.isend_by_postbox(peer, envelope, payload, mode)
    }

    fn receive_at_once(
        engine: &mut Engine<F>,
        wanted: &Direct,
        to: &mut [u8],
        looks: u32,
    ) -> Option<(Rank, i32, usize)> {
        engine.receive_soon(wanted, to, looks)
    }

    #[inline]
    fn receive(engine: &mut Engine<F>, handle: usize) -> Result<()> {
        let Some(recv) = engine.requests.recv(handle) else {
            return Ok(());
        };
        let (context, source, tag) = (recv.context, recv.source, recv.tag);
        let searched = |n| engine.fabric.charge(Cost::Match(n));
        match engine.contexts[context]
            .queues
            .take_searched(source, tag, searched)
        {
            Some(message) => engine.deliver_held(handle, message),
            None => {
                engine.contexts[context].queues.post(source, tag, handle);
                if !engine.lost.is_empty() {
                    engine.refuse_lost(handle, context, source);
                }
            }
        }
        Ok(())
    }

    fn take_held(_: &mut Engine<F>, _: Peer, _: &Envelope, _: u32, _: Option<usize>) {}

    fn ask_back(engine: &mut Engine<F>, handle: usize) {
        engine.ask_for_cancel(handle);
    }

    fn give_up(_: &mut Engine<F>, _: usize) -> bool {
        true
    }

    fn answer(engine: &mut Engine<F>, peer: Peer, line: Line) {
        engine.post_answer(peer, line);
    }

    fn push(engine: &mut Engine<F>, peer: Peer) -> bool {
        engine.push_postboxes(peer)
    }

    fn hold_back(engine: &mut Engine<F>, peer: Peer, on: bool) {
        engine.post.hold_back(peer, on);
    }

    #[inline]
    fn progress(engine: &mut Engine<F>) -> bool {
        engine.progress_postboxes()
    }

    fn catch_up(engine: &mut Engine<F>) {
        engine.post.poll_control();
    }

    fn close_peer(engine: &mut Engine<F>, peer: Peer) {
        while engine.post.has_sender(peer) && engine.drain(peer) {}
        engine.post.reap(peer);
    }

    fn is_ready(_: &Engine<F>) -> Option<bool> {
        None
    }

    #[inline]
    fn has_duties(engine: &Engine<F>) -> bool {
        !engine.offered.is_empty()
            || !engine.copying.is_empty()
            || !engine.fetching.is_empty()
            || !engine.zcopy.is_empty()
            || !engine.landing.is_empty()
            || engine.post.control_pending()
    }

    fn has_untaken(engine: &Engine<F>, _: &Cell<u64>) -> bool {
        engine.post.has_untaken()
    }

    fn rest(engine: &mut Engine<F>) -> bool {
        engine.post.settle();
        if engine.post.audit() {
            engine.fail_closed();
        }
        engine.post.control_pending()
    }

    fn is_drained(engine: &mut Engine<F>, gone: &dyn Fn(Peer) -> bool) -> bool {
        // Other hosts do not read our memory; what was put to them goes out when the fabric is closed.
        let mut peers = (0..engine.fabric.size()).map(Peer);
        peers.all(|peer| !engine.fabric.maps(peer) || engine.post.drained(peer) || gone(peer))
    }
}

impl<F: Fabric> Engine<F> {
    /// Let everything move that can, over postboxes and in memory that both sides see. True: something did.
    fn progress_postboxes(&mut self) -> bool {
        // Connections are made once; their packets can wait for a few rounds of messages.
        let mut moved = self.fabric.progress();
        if self.fabric.faulted() {
            moved |= self.look_for_lost();
        }
        moved |= self.rounds & 7 == 0 && self.post.poll_control();
        for index in 0..self.post.senders().len() {
            let Some(&peer) = self.post.senders().get(index) else {
                break;
            };
            moved |= self.drain(peer);
        }
        if !self.busy.is_empty() {
            moved |= self.push_outgoing();
        }
        if !self.offered.is_empty() {
            moved |= self.serve_offered();
        }
        if !self.copying.is_empty() {
            moved |= self.serve_copying();
        }
        if !self.fetching.is_empty() {
            moved |= self.serve_fetching();
        }
        if !self.landing.is_empty() {
            moved |= self.serve_landing();
        }
        if !self.zcopy.is_empty() {
            moved |= self.serve_zcopy();
        }
        moved
    }

    /// Take in what waits from one peer, but not so much that others starve. Whatever is held already, a queue is emptied:
    /// what is waited for may lie behind, and so may the answers on which sends to that peer depend.
    fn drain(&mut self, peer: Peer) -> bool {
        let mut moved = false;
        for _ in 0..64 {
            if !self.take_burst(peer) && !self.take_one(peer) {
                break;
            }
            moved = true;
        }
        moved
    }
}
