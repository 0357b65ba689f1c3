//! Probing (MPI-5.0 section 3.8): looking at a message without receiving it, and taking it for later.
//!
//! Requirements of MPI-5.0 sections 3.8.1, 3.8.2, 3.8.3, 3.11.

use crate::buffer::RecvBuf;
use crate::carrier::Engine;
use crate::engine::context::Unexpected;
use crate::engine::request::{Operation, Recv, RecvState, Request, Status};
use crate::{Rank, Result};
use farpost_fabric::{Cost, Fabric};

/// A message that a matched probe took.
pub struct Matched {
    message: Unexpected,
    context: usize,
}

fn status_of(message: &Unexpected) -> Status {
    Status {
        source: message.envelope.source as Rank,
        tag: message.envelope.tag,
        bytes: message.total(),
        cancelled: false,
        error: None,
    }
}

impl<F: Fabric> Engine<F> {
    /// The status of the message that a receive would take now.
    pub fn probe(&mut self, context: usize, source: Rank, tag: i32) -> Option<Status> {
        self.contexts[context]
            .queues
            .search_unexpected(source, tag, |n| self.fabric.charge(Cost::Match(n)))
            .map(status_of)
    }

    /// Whether there is such a message.
    pub fn has_unexpected_for(&self, context: usize, source: Rank, tag: i32) -> bool {
        let queues = &self.contexts[context].queues;
        let searched = |n| self.fabric.charge(Cost::Match(n));
        queues.search_unexpected(source, tag, searched).is_some()
    }

    /// Take that message.
    pub fn take_matched(&mut self, context: usize, source: Rank, tag: i32) -> Option<(Matched, Status)> {
        let searched = |n| self.fabric.charge(Cost::Match(n));
        let message = self.contexts[context]
            .queues
            .take_searched(source, tag, searched)?;
        let status = status_of(&message);
        Some((Matched { message, context }, status))
    }

    /// Receive a message that was taken.
    pub fn irecv_matched(&mut self, matched: Matched, buf: RecvBuf) -> Result<usize> {
        let Matched { message, context } = matched;
        let (source, tag) = (message.envelope.source as Rank, message.envelope.tag);
        let recv = Recv {
            buf,
            context,
            source,
            tag,
            state: RecvState::Posted,
        };
        let handle = self.requests.insert(Request::new(Operation::Recv(recv)))?;
        self.deliver_held(handle, message);
        Ok(handle)
    }
}
