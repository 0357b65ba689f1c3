//! Long puts over several rails.
//!
//! Ordered frames go by one rail. So a put that is long enough for several is copied and its bytes are exposed; the peer is asked
//! to get them ([`ControlCode::PutAsk`] with a segment's key) and gets them as bulk data, by the measured speed of the rails, straight into the
//! segment. When it has them it says so. Such a put may be overtaken by what follows it: fences wait for it, and so do `order` and
//! `get` of the import by which it went.
//!
//! Cost class: *queued path*; a copy and an entry of a table for each put.

use super::Core;
use super::control::ControlCode;
use super::peer::PeerState;
use super::segments::SEGMENT_KEY;
use super::state::TcpState;
use super::transfers::{ExposedMemory, TransferPurpose};
use farpost_fabric::{Counter, Peer, Result};

/// Puts of so many bytes are worth the question, which takes a round trip.
pub const STRIPED_FROM: usize = 16 << 10;

/// Bytes that may wait for peers; then a put waits.
const STRIPED_MAX: usize = 64 << 20;

impl TcpState {
    /// Whether a long put to `peer` over those `rails` (a bit each) is better got by the peer than sent by the rail of ordered frames.
    fn is_striped(&mut self, peer: Peer, rails: u32) -> Result<bool> {
        let link = &self.peer_state(peer)?.link;
        let working = link.working_rails();
        let over = match working & rails {
            0 => working,
            some => some,
        };
        let lead = link.lead().map_or(0, |lead| 1 << lead);
        Ok(over != 0 && over != lead)
    }

    fn put_striped(
        &mut self,
        (peer, rails): (Peer, u32),
        handle: u32,
        offset: usize,
        from: &[u8],
    ) -> Result<()> {
        self.peer_state(peer)?.note_sent();
        let copy: Box<[u8]> = from.into();
        let exposed = ExposedMemory {
            peer,
            address: copy.as_ptr().expose_provenance(),
            len: copy.len(),
            writable: false,
            rails,
        };
        let key = self.transfers.expose(exposed);
        let (at, len) = (offset as u64, from.len() as u64);
        let purpose = TransferPurpose::Striped { key, handle };
        let token = self.transfers.begin(peer, purpose, at);
        self.transfers.striped_bytes += copy.len();
        self.transfers.striped.insert((peer, token), copy);
        let into = SEGMENT_KEY | u64::from(handle);
        self.control(peer, ControlCode::PutAsk, 0, &[token, into, at, len, key]);
        self.diagnostics.count(peer, Counter::BulkBytes, len);
        self.flush();
        Ok(())
    }

    /// The peer has the put of that token, or will not take it.
    pub fn striped_done(&mut self, peer: Peer, token: u64, fine: bool) {
        let Some(ours) = self.transfers.ours.remove(&token) else {
            return;
        };
        if let TransferPurpose::Striped { key, handle } = ours.purpose {
            if !fine {
                self.segments.count_refused(peer, handle);
            }
            self.forget_striped(peer, token, key);
        }
    }

    fn forget_striped(&mut self, peer: Peer, token: u64, key: u64) {
        self.transfers.withdraw(key);
        // Its bytes are not read after this.
        self.stop_serving(peer, key);
        if let Some(copy) = self.transfers.striped.remove(&(peer, token)) {
            self.transfers.striped_bytes -= copy.len();
        }
    }

    /// Nothing more comes from `peer` or goes to it.
    pub fn peer_gone(&mut self, peer: Peer) {
        let all = self.transfers.striped.range((peer, 0)..=(peer, u64::MAX));
        let tokens: Vec<u64> = all.map(|(&(_, token), _)| token).collect();
        for token in tokens {
            if let Some(TransferPurpose::Striped { key, .. }) = self.transfers.purpose(token) {
                self.forget_striped(peer, token, key);
            }
        }
        self.transfers.peer_gone(peer);
    }

    /// Whether a peer has yet to get what was striped to it.
    pub fn owes_striped(&self) -> bool {
        let mut waiting = self.transfers.striped.keys();
        waiting.any(|(peer, _)| self.peers.get(*peer).is_some_and(PeerState::is_active))
    }

    /// Whether `peer` has all that was striped, up to that token.
    pub fn has_striped(&self, peer: Peer, until: u64) -> bool {
        let waiting = self.transfers.striped.range((peer, 0)..=(peer, until));
        waiting.take(1).count() == 0
    }
}

impl Core {
    /// Put bytes over those `rails` (a bit each) that work; over any when none of them does.
    pub fn put_over(&self, to: (Peer, u32), handle: u32, offset: usize, from: &[u8]) -> Result<()> {
        let (peer, rails) = to;
        if from.len() < STRIPED_FROM || !self.state.borrow_mut().is_striped(peer, rails)? {
            return self.state.borrow_mut().put(peer, handle, offset, from);
        }
        if self.state.borrow().transfers.striped_bytes > STRIPED_MAX {
            self.wait(|state| {
                state.peer_state(peer)?;
                Ok((state.transfers.striped_bytes <= STRIPED_MAX).then_some(()))
            })?;
        }
        self.state.borrow_mut().put_striped(to, handle, offset, from)?;
        // What was put before moves while more is copied: else the rails would be idle until somebody waits.
        self.state.borrow_mut().turn(0);
        Ok(())
    }

    /// What was striped to `peer` so far is there.
    pub fn order_striped(&self, peer: Peer) -> Result<()> {
        let until = self.state.borrow().transfers.next_token;
        if self.state.borrow().has_striped(peer, until) {
            return Ok(());
        }
        self.wait(|state| {
            state.peer_state(peer)?;
            Ok(state.has_striped(peer, until).then_some(()))
        })
    }
}
