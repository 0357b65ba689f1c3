//! Sending: at once where that is possible, else by a request.
//!
//! Requirements of MPI-5.0 section 3.2.2.

use crate::Result;
use crate::buffer::SendBuf;
use crate::carrier::{Chosen, Engine, postbox};
use crate::engine::Carrier;
use crate::engine::envelope::Envelope;
use crate::engine::request::{Mode, Payload};
use farpost_fabric::{Cost, Fabric, Peer, Work};

impl<F: Fabric> Engine<F> {
    /// Send a message that is one run of memory at once, without a request. False: take the long way.
    #[inline(always)]
    pub fn try_eager(&mut self, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool {
        if data.len() <= postbox::RUN_MAX && self.post.is_open(peer) {
            return self.post_short(peer, envelope, data);
        }
        Chosen::send_at_once(self, peer, envelope, data)
    }

    /// Start a send. `None`: it is complete.
    pub fn isend(
        &mut self,
        peer: Peer,
        envelope: Envelope,
        payload: Payload,
        mode: Mode,
    ) -> Result<Option<usize>> {
        Chosen::send(self, peer, envelope, payload, mode)
    }

    /// As [`isend`](Self::isend) for a user's buffer, with the quick way tried first.
    #[inline]
    pub fn isend_user(
        &mut self,
        peer: Peer,
        envelope: Envelope,
        buf: &SendBuf,
        mode: Mode,
    ) -> Result<Option<usize>> {
        self.fabric.charge(Cost::Work(Work::MpiSend));
        if mode == Mode::Standard
            && let Some(data) = buf.contiguous()
            && self.try_eager(peer, &envelope, data)
        {
            return Ok(None);
        }
        self.isend(peer, envelope, Payload::User(buf.clone()), mode)
    }
}
