//! Puts to segments and gets from them that go on after the call that began them.
//!
//! A put is asked for as a striped one is ([`striped`](super::striped)), but what the peer gets is the caller's memory, and the end of it is
//! the caller's to ask for. So each knows what became of itself: bytes that arrive at a segment withdrawn meanwhile are refused one by
//! one.
//!
//! Cost class: *queued path*; an entry of two tables for each.

use super::Core;
use super::control::ControlCode;
use super::peer::Wanted;
use super::segments::SEGMENT_KEY;
use super::transfers::{ExposedMemory, TransferError, TransferPurpose};
use crate::link::ALL_RAILS;
use farpost_fabric::{Completion, Counter, FabricError, Peer, Result, Ticket, TransferMemory};

impl Core {
    /// Begin to put to a segment, over those `rails` (a bit each; none: all).
    pub fn start_put(
        &self,
        (peer, rails): (Peer, u32),
        handle: u32,
        offset: usize,
        from: &TransferMemory,
    ) -> Result<Completion> {
        let state = &mut *self.state.borrow_mut();
        state.peer_state(peer)?.note_sent();
        if from.is_empty() {
            return Ok(Completion::Done);
        }
        let key = state.transfers.expose(ExposedMemory {
            peer,
            address: from.address(),
            len: from.len(),
            writable: false,
            rails: if rails == 0 { ALL_RAILS } else { rails },
        });
        let (at, len) = (offset as u64, from.len() as u64);
        let token = state.transfers.begin(peer, TransferPurpose::Put(key), at);
        state.transfers.memory.insert(token, from.clone());
        let into = SEGMENT_KEY | u64::from(handle);
        state.control(peer, ControlCode::PutAsk, 0, &[token, into, at, len, key]);
        state.diagnostics.count(peer, Counter::BulkBytes, len);
        state.flush();
        Ok(Completion::Pending(Ticket(token)))
    }

    /// Begin to get from a segment.
    pub fn start_get(
        &self,
        (peer, rails): (Peer, u32),
        handle: u32,
        offset: usize,
        to: &TransferMemory,
    ) -> Result<Completion> {
        let state = &mut *self.state.borrow_mut();
        state.peer_state(peer)?.note_sent();
        if to.is_empty() {
            return Ok(Completion::Done);
        }
        let key = SEGMENT_KEY | u64::from(rails) << 32 | u64::from(handle);
        let wanted = Wanted::new(key, offset as u64, to.address(), to.len() as u64);
        let token = state.get(peer, TransferPurpose::Get, wanted);
        state.transfers.memory.insert(token, to.clone());
        state.flush();
        Ok(Completion::Pending(Ticket(token)))
    }

    pub fn poll_started(&self, ticket: Ticket) -> Result<bool> {
        let over = self.poll_over(ticket.0);
        if !matches!(over, Ok(false)) {
            self.state.borrow_mut().transfers.memory.remove(&ticket.0);
        }
        over.map_err(|(peer, failed)| match failed {
            TransferError::Refused(_) => {
                FabricError::put_failed(peer, "its segment was withdrawn before all had arrived")
            }
            TransferError::Gone => self.gone(peer),
        })
    }

    pub fn cancel_started(&self, ticket: Ticket) {
        self.give_up(ticket.0);
        self.state.borrow_mut().transfers.memory.remove(&ticket.0);
    }
}
