//! Messages that are too long for the agents between sender and receiver, through whose memory all bytes pass
//! (`FARPOST_PORTALS_AGENT_MEMORY`): only the header is put, whether a receive waits for it or not, and the receiver that takes it gets the
//! bytes part by part, a few parts at a time. When it has them, or cannot have them, it says so in a *notice*, which ends the send.
//!
//! What a part needs is memory of both agents, which others leave when the network and the agents alone have moved them on. A notice
//! needs an event of the queue in which the send has room for it, and is not waited for.

use super::questions::Want;
use super::send::{Sending, whole};
use super::{MESSAGES, NOTICES, Portals, Seen, bits};
use crate::carrier::{Chosen, Engine};
use crate::engine::deliver::note_match;
use crate::engine::request::{RecvState, Send};
use farpost_fabric::{Fabric, Peer};
use farpost_portals::agent::{Access, Routes};
use farpost_portals::{AckReq, Error as PortalsError, EventKind, NetworkInterface, NiFail};

/// The shortest and the longest part, bytes.
const LEAST: u64 = 4096;
const MOST: u64 = 1 << 20;
/// Parts of one message that are on their way at a time.
pub(super) const AT_A_TIME: u32 = 4;
/// Of a notice: the receiver could not have the bytes.
const FAILED: u64 = 1 << 63;

/// What needs parts, and how long these are: the same for all ranks of the job.
pub(super) struct Parts {
    /// Where the job has agents: who is reached by way of one.
    routes: Option<Routes>,
    me: u32,
    /// What is not longer goes in one.
    pub whole: u64,
    pub part: u64,
}

impl Parts {
    pub fn new(access: Option<&Access>, me: Peer) -> Self {
        let memory = access.map_or(u64::MAX, |access| access.memory);
        Self {
            routes: access.map(|access| access.routes.clone()),
            me: me.0,
            // Several have room at a time, and none waits for all others to leave.
            whole: (memory / 4).max(LEAST),
            part: (memory / 16 / LEAST * LEAST).clamp(LEAST, MOST),
        }
    }

    /// Whether a message of `total` bytes to `peer` goes in parts.
    #[inline]
    pub fn needs(&self, peer: Peer, total: u64) -> bool {
        let by_agent = |routes: &Routes| routes.is_client(self.me) || routes.is_client(peer.0);
        total > self.whole && self.routes.as_ref().is_some_and(by_agent)
    }
}

impl<F: Fabric> Portals<F> {
    /// Put the header of a message and let the receiver fetch it; if it is `announced` only, when it asks.
    pub(super) fn begin_in_parts(
        &mut self,
        send: &Send,
        index: u32,
        announced: bool,
    ) -> std::result::Result<(), PortalsError> {
        if announced {
            let (address, len, packed) = whole(&*self.fabric, &send.payload);
            if let Some(sending) = self.sends.get(index) {
                (sending.announced, sending._packed) = (Some((address, len as u64)), packed);
            }
        } else {
            self.keep(send, index)?;
        }
        let name = self.sends.get(index).map_or(0, |sending| sending.name);
        let header = bits::header(send.envelope.class, name);
        let target = self.target(send.peer, MESSAGES, self.bits(&send.envelope) | bits::KEPT);
        self.ni.put_header(send.payload.bytes(), &target, header)
    }

    /// Tell the sender of a message that it is over: all that is wanted of it is here, or nobody will ask for more, or `fail`.
    pub(super) fn notice(&mut self, peer: Peer, id: u64, fail: NiFail) {
        let failed = if fail == NiFail::OK { 0 } else { FAILED };
        let target = self.target(peer, NOTICES, bits::queue_of_name(id));
        let sent = self.ni.put(self.silent, AckReq::NoAck, &target, failed | id);
        debug_assert!(Self::begun(sent), "{sent:?}");
        self.needs_progress = true;
    }

    /// A receiver has said that a message is over. The send, if somebody is to be told.
    pub(super) fn on_notice(&mut self, seen: &Seen) -> Option<Sending> {
        let id = seen.data & bits::NAME;
        let index = bits::place_of_name(id);
        let sending = self.sends.get(index)?;
        if seen.kind != EventKind::PutEnd || sending.name != id || sending.peer != seen.from {
            return None;
        }
        sending.taken = true;
        sending.refused = seen.data & FAILED != 0;
        sending.note_refusal();
        self.end_if_over(index)
    }
}

impl<F: Fabric> Engine<F> {
    /// The receive `handle` has taken the header of a message that goes in parts.
    #[cold]
    pub(super) fn on_header(&mut self, handle: usize, peer: Peer, seen: &Seen) {
        let portals = portals!(self);
        let name = portals.layout.name(seen.bits);
        let (class, id) = bits::of_header(seen.data);
        let envelope = Self::envelope(name.context, name.source, name.tag, class, 0);
        let Some((recv, status)) = self.requests.recv_mut(handle) else {
            return;
        };
        let bytes = note_match(status, &recv.buf, &envelope, seen.rlength);
        let want = Want {
            peer,
            id,
            bytes,
            request: handle,
        };
        self.take_kept(want);
    }

    /// Give a receive, whose envelope has been noted, a message that its sender keeps.
    pub(super) fn take_kept(&mut self, want: Want) {
        let portals = portals!(self);
        let Want {
            peer, id, request, ..
        } = want;
        if want.bytes == 0 && id & bits::IN_PARTS != 0 {
            portals.notice(peer, id, NiFail::OK);
            return self.complete(request, |_| {});
        }
        if id & bits::ANNOUNCED == 0 {
            return self.fetch_kept(want);
        }
        if let Some((recv, _)) = self.requests.recv_mut(request) {
            recv.state = RecvState::Got {
                peer,
                fetch: super::fetch::NO_FETCH,
            };
            portals.want(want);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farpost_portals::agent::Mode;
    use std::time::Duration;

    fn parts(memory: u64) -> Parts {
        let access = Access {
            routes: Routes::new(4, &[(0, Peer(3)), (1, Peer(3))]),
            mode: Some(Mode::Generic),
            patience: Duration::ZERO,
            memory,
            turn: None,
        };
        Parts::new(Some(&access), Peer(2))
    }

    #[test]
    fn agents_can_hold_what_goes_in_one_and_every_part() {
        for memory in [4096, 4097, 8192, 65_536, 100_000, 64 << 20, 1 << 36] {
            let parts = parts(memory);
            assert!(parts.whole <= memory && parts.part <= memory, "{memory}");
            assert!(parts.part.is_multiple_of(LEAST) && parts.part > 0, "{memory}");
            assert!(parts.needs(Peer(0), parts.whole + 1) && !parts.needs(Peer(0), parts.whole));
        }
        assert!(
            !parts(4096).needs(Peer(2), u64::MAX),
            "neither is behind an agent"
        );
        assert!(!Parts::new(None, Peer(0)).needs(Peer(1), u64::MAX - 1));
    }
}
