//! The listening sockets, and who waits at their gate.

use super::peer::NONE;
use crate::trust::{Gate, Limits};
use farpost_net::poll::{self, Poll};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

/// Key of the listeners in the poll set; connections have their slot.
pub const LISTENER: u64 = u64::MAX;

pub struct Acceptor {
    pub listeners: Vec<OwnedFd>,
    pub gate: Gate,
    /// By place at the gate: the connection's slot.
    pub slots: Vec<usize>,
    /// Newcomers stay in the kernel's queue until then.
    paused_until: Option<Instant>,
    /// When [`TcpState::check_acceptor`] has something to do, in nanoseconds since the epoch.
    pub deadline: u64,
}

impl Acceptor {
    /// Listeners, whose events go to `poll` under the key [`LISTENER`].
    ///
    /// # Errors
    /// The system has no memory for them.
    pub fn new(listeners: Vec<OwnedFd>, limits: Limits, poll: &Poll) -> io::Result<Self> {
        for listener in &listeners {
            poll.add(listener.as_raw_fd(), poll::IN, LISTENER)?;
        }
        Ok(Self {
            listeners,
            gate: Gate::new(limits),
            slots: vec![NONE; limits.places.max(1)],
            paused_until: None,
            deadline: u64::MAX,
        })
    }

    /// Leave newcomers in the kernel's queue for a while.
    pub fn pause(&mut self, poll: &Poll, until: Instant) {
        self.listen_for(poll, 0);
        self.paused_until = Some(until);
    }

    /// Accept again, if the pause is over or a place has become free.
    pub fn resume(&mut self, poll: &Poll, now: Instant) {
        let over = |until| until <= now || self.gate.room(now).is_ok();
        if self.paused_until.is_some_and(over) {
            self.paused_until = None;
            self.listen_for(poll, poll::IN);
        }
    }

    fn listen_for(&self, poll: &Poll, events: u32) {
        for listener in &self.listeners {
            let _ = poll.change(listener.as_raw_fd(), events, LISTENER);
        }
    }

    /// When a connection is overdue, or the pause ends.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.gate
            .next_deadline()
            .into_iter()
            .chain(self.paused_until)
            .min()
    }
}
