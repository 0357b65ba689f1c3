//! Bulk transfers between user memories: exposed memory, requests, completions.
//!
//! All transfers are gets: a put asks the peer to get. They go from the one memory to the
//! sockets and from the sockets into the other.

use super::close_reason::CloseReason;
use super::control::{ControlCode, WORDS_MAX};
use super::peer::{Deferred, Wanted};
use super::segments::{SEGMENT_KEY, rails_of_key};
use super::state::TcpState;
use super::transfers::{ExposedMemory, OwnTransfer, TransferError, TransferPurpose, TransferStatus};
use super::{Core, Tcp};
use crate::link::{ALL_RAILS, GetRequest, OFFSET_LIMIT, Refusal};
use farpost_fabric::{
    BulkTransfer, Completion, Counter, Descriptor, Direction, FabricError, Fault, Peer, Permission, Result,
    Ticket,
};

impl TcpState {
    /// Why `peer` cannot be reached.
    fn gone(&mut self, peer: Peer) -> FabricError {
        self.peer_state(peer)
            .err()
            .unwrap_or_else(|| FabricError::dead(peer, "it has left the job"))
    }

    fn suspicious(&mut self, peer: Peer, key: u64) {
        let what = "a key and a range that it may use";
        let error = FabricError::corrupt(peer, what, key);
        self.diagnostics.record_fault(Fault { peer, error });
    }

    /// A peer wants bytes of what I exposed, or of a segment.
    pub fn bulk_request(&mut self, peer: Peer, ticket: u32, request: &GetRequest) {
        let GetRequest { key, offset, len } = *request;
        let rails;
        let found = if key & SEGMENT_KEY != 0 {
            let (handle, len) = (key as u32, usize::try_from(len).unwrap_or(usize::MAX));
            rails = rails_of_key(key);
            match self.segments.reach(peer, handle, offset, len, Permission::Read) {
                Ok(Some((memory, offset))) => Ok(memory.bytes(offset, len).as_ptr().expose_provenance()),
                // Withdrawn: the peer may not know yet.
                Ok(None) => Err((Refusal::Withdrawn, false)),
                Err(_) => Err((Refusal::OutOfRange, true)),
            }
        } else {
            let found = self.transfers.exposed(peer, key, offset, len, false);
            rails = self.transfers.rails_of(key);
            found.map_err(|refusal| (refusal, true))
        };
        if let Err((_, true)) = found {
            self.suspicious(peer, key);
        }
        let Some(remote) = self.peers.at(peer) else {
            return;
        };
        match found {
            // The memory is not read after `Link::withdraw`.
            Ok(address) => remote
                .link
                .serve_over(ticket, served_key(key), address, len, rails),
            Err((refusal, _)) => remote.link.refuse(ticket, refusal),
        }
        self.diagnostics.count(peer, Counter::BulkBytes, len);
        self.schedule_send(peer);
    }

    /// A peer wants to put into what I exposed, or into a segment: get it.
    pub fn put_asked(&mut self, peer: Peer, words: &[u64; WORDS_MAX]) -> Result<(), CloseReason> {
        let [token, key, offset, len, from] = *words;
        let sane = len > 0 && len <= OFFSET_LIMIT;
        if key & SEGMENT_KEY != 0 && sane {
            let (handle, bytes) = (key as u32, usize::try_from(len).unwrap_or(usize::MAX));
            let reached = (self.segments).reach(peer, handle, offset, bytes, Permission::ReadWrite)?;
            let address = reached.map(|(memory, at)| memory.bytes(at, bytes).as_ptr().expose_provenance());
            match address {
                Some(address) => {
                    let key = SEGMENT_KEY | u64::from(handle);
                    let purpose = TransferPurpose::Serve { token, key };
                    self.get(peer, purpose, Wanted::new(from, 0, address, len));
                }
                // Withdrawn: the peer may not know yet.
                None => self.control(peer, ControlCode::PutDone, 0, &[token, 1]),
            }
            return Ok(());
        }
        match self.transfers.exposed(peer, key, offset, len, true) {
            Ok(address) if sane => {
                let purpose = TransferPurpose::Serve { token, key };
                self.get(peer, purpose, Wanted::new(from, 0, address, len));
            }
            _ => {
                self.suspicious(peer, key);
                self.control(peer, ControlCode::PutDone, 0, &[token, 1]);
            }
        }
        Ok(())
    }

    /// The peer says that a put of mine is over.
    pub fn put_done(&mut self, peer: Peer, token: u64, fine: bool) {
        let Some(ours) = self
            .transfers
            .ours
            .get_mut(&token)
            .filter(|ours| ours.peer == peer)
        else {
            return;
        };
        if matches!(ours.purpose, TransferPurpose::Striped { .. }) {
            self.striped_done(peer, token, fine);
        } else if matches!(ours.purpose, TransferPurpose::Put(_)) {
            ours.status = if fine {
                TransferStatus::Done
            } else {
                TransferStatus::Failed(TransferError::Refused(ours.remote))
            };
        }
    }

    pub fn get(&mut self, peer: Peer, purpose: TransferPurpose, wanted: Wanted) -> u64 {
        let token = self.transfers.begin(peer, purpose, wanted.offset);
        self.push_or_defer(peer, Deferred::Get(token, wanted));
        token
    }

    /// All bytes of a get are here.
    pub fn transfer_done(&mut self, peer: Peer, token: u64) {
        self.over(peer, token, |_| TransferStatus::Done, 0);
    }

    /// The peer will not give the bytes.
    pub fn transfer_refused(&mut self, peer: Peer, token: u64) {
        self.over(
            peer,
            token,
            |remote| TransferStatus::Failed(TransferError::Refused(remote)),
            1,
        );
    }

    fn over(&mut self, peer: Peer, token: u64, status: impl FnOnce(u64) -> TransferStatus, word: u64) {
        let Some(ours) = self.transfers.ours.get_mut(&token) else {
            return;
        };
        if let TransferPurpose::Serve { token: theirs, .. } = ours.purpose {
            self.transfers.ours.remove(&token);
            self.control(peer, ControlCode::PutDone, 0, &[theirs, word]);
        } else {
            ours.status = status(ours.remote);
        }
    }

    /// The memory of a get is not written any more.
    fn give_up(&mut self, peer: Peer, token: u64) {
        if let Some(remote) = self.peers.at(peer) {
            remote.tickets.retain(|_, of| *of != token);
            remote.retract(token);
        }
    }

    /// What key `key` exposed is not read any more.
    pub fn stop_serving(&mut self, peer: Peer, key: u64) {
        let now = self.now();
        if let Some(remote) = self.peers.at(peer) {
            remote.link.withdraw(key, now);
            self.run_link_timers(peer, now);
        }
    }

    /// As [`stop_serving`](Self::stop_serving), a segment, to everybody; and what is got into it is not written any more.
    pub fn stop_serving_segment(&mut self, handle: u32) {
        let key = SEGMENT_KEY | u64::from(handle);
        for peer in (0..self.size).map(Peer) {
            self.stop_serving(peer, key);
        }
        self.refuse_puts(None, key);
    }

    fn withdraw(&mut self, key: u64) {
        let Some(exposed) = self.transfers.withdraw(key) else {
            return;
        };
        let peer = exposed.peer;
        self.stop_serving(peer, key);
        if !exposed.writable {
            return;
        }
        self.refuse_puts(Some(peer), key);
    }

    /// Puts of that peer's (of all) into what has that key are over: they are refused.
    fn refuse_puts(&mut self, of: Option<Peer>, key: u64) {
        let mut refused = Vec::new();
        self.transfers.ours.retain(|token, ours| match ours.purpose {
            TransferPurpose::Serve {
                token: theirs,
                key: into,
            } if of.is_none_or(|peer| peer == ours.peer) && into == key => {
                refused.push((ours.peer, *token, theirs));
                false
            }
            _ => true,
        });
        for (peer, token, theirs) in refused {
            self.give_up(peer, token);
            self.control(peer, ControlCode::PutDone, 0, &[theirs, 1]);
        }
    }
}

/// The key under which a segment or what was exposed is served.
fn served_key(key: u64) -> u64 {
    match key & SEGMENT_KEY {
        0 => key,
        _ => SEGMENT_KEY | u64::from(key as u32),
    }
}

impl Core {
    /// Read from a peer's segment.
    pub fn get(&self, (peer, rails): (Peer, u32), handle: u32, offset: usize, to: &mut [u8]) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let token = {
            let mut state = self.state.borrow_mut();
            state.peer_state(peer)?;
            let key = SEGMENT_KEY | u64::from(rails) << 32 | u64::from(handle);
            let address = to.as_mut_ptr().expose_provenance();
            let wanted = Wanted::new(key, offset as u64, address, to.len() as u64);
            state.get(peer, TransferPurpose::Get, wanted)
        };
        // Does not return before the transfer is over, so that `to` may be written until then.
        self.wait(|state| match state.transfers.poll(token) {
            Ok(done) => Ok(done.then_some(())),
            Err(TransferError::Refused(_)) => Err(FabricError::put_failed(
                peer,
                "a get from a segment that it has withdrawn",
            )),
            Err(TransferError::Gone) => Err(state.gone(peer)),
        })
    }
}

impl Core {
    /// Whether a transfer of ours is over; then it is forgotten, and its memory not touched any more.
    pub fn poll_over(&self, token: u64) -> Result<bool, (Peer, TransferError)> {
        let state = &mut *self.state.borrow_mut();
        let Some(OwnTransfer { peer, purpose, .. }) = state.transfers.ours.get(&token) else {
            return Ok(true);
        };
        let (peer, purpose) = (*peer, *purpose);
        let mut result = state.transfers.poll(token);
        if matches!(result, Ok(false)) {
            state.turn(0);
            result = state.transfers.poll(token);
        }
        if let TransferPurpose::Put(key) = purpose
            && !matches!(result, Ok(false))
        {
            state.stop_serving(peer, key);
        }
        result.map_err(|failed| (peer, failed))
    }

    /// Give a transfer up: its memory is not touched any more.
    pub fn give_up(&self, token: u64) {
        let state = &mut *self.state.borrow_mut();
        let Some(ours) = state.transfers.ours.remove(&token) else {
            return;
        };
        match ours.purpose {
            TransferPurpose::Put(key) => state.withdraw(key),
            _ => state.give_up(ours.peer, token),
        }
    }

    /// Why `peer` cannot be reached.
    pub fn gone(&self, peer: Peer) -> FabricError {
        self.state.borrow_mut().gone(peer)
    }
}

impl BulkTransfer for Tcp {
    fn can_transfer(&self, peer: Peer) -> bool {
        peer.0 < self.size && peer != self.me
    }

    unsafe fn expose(&self, peer: Peer, address: usize, len: usize, writable: bool) -> Result<u64> {
        let state = &mut *self.core.state.borrow_mut();
        state.check_peer(peer)?;
        Ok(state.transfers.expose(ExposedMemory {
            peer,
            address,
            len,
            writable,
            rails: ALL_RAILS,
        }))
    }

    fn exposed_base(&self, _peer: Peer, _address: usize) -> u64 {
        0
    }

    fn withdraw(&self, key: u64) {
        self.core.state.borrow_mut().withdraw(key);
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion> {
        let d = descriptor;
        let state = &mut *self.core.state.borrow_mut();
        state.check_peer(d.peer)?;
        if d.peer == state.me {
            return Err(FabricError::unsupported(
                d.peer,
                "a bulk transfer",
                "it is this process itself",
            ));
        }
        state.peer_state(d.peer)?;
        let (remote, len) = (d.remote as u64, d.len as u64);
        if len == 0 {
            return Ok(Completion::Done);
        }
        if len > OFFSET_LIMIT || remote.checked_add(len).is_none() {
            return Err(FabricError::corrupt(d.peer, "a buffer's key and range", remote));
        }
        state.diagnostics.count(d.peer, Counter::BulkBytes, len);
        let token = match d.direction {
            Direction::Get => state.get(
                d.peer,
                TransferPurpose::Get,
                Wanted::new(d.key, remote, d.local, len),
            ),
            Direction::Put => {
                let key = state.transfers.expose(ExposedMemory {
                    peer: d.peer,
                    address: d.local,
                    len: d.len,
                    writable: false,
                    rails: ALL_RAILS,
                });
                let token = state.transfers.begin(d.peer, TransferPurpose::Put(key), remote);
                state.control(d.peer, ControlCode::PutAsk, 0, &[token, d.key, remote, len, key]);
                token
            }
        };
        state.flush();
        Ok(Completion::Pending(Ticket(token)))
    }

    fn poll_transfer(&self, ticket: Ticket) -> Result<bool> {
        let over = self.core.poll_over(ticket.0);
        over.map_err(|(peer, failed)| match failed {
            TransferError::Refused(value) => FabricError::corrupt(peer, "a buffer's key and range", value),
            TransferError::Gone => self.core.gone(peer),
        })
    }

    fn cancel_transfer(&self, ticket: Ticket) {
        self.core.give_up(ticket.0);
    }
}
