//! The listening sockets, and the connections that come by them and are not authenticated yet.
//!
//! Cost class: *set-up path*.

use super::connection::{ConnectionStage, JOB};
use super::peer::NONE;
use super::socket;
use super::state::TcpState;
use crate::trust::{Admission, Gate, Handshake, Limits, Listener, Refusal};
use farpost_net::poll::{self, Poll};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Key of the listeners in the poll set; connections have their slot.
pub const LISTENER: u64 = u64::MAX;

/// How long nobody is accepted when the system has no descriptor or memory for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);

pub struct Acceptor {
    listeners: Vec<OwnedFd>,
    pub gate: Gate,
    /// By place at the gate: the connection's slot.
    slots: Vec<usize>,
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
    fn pause(&mut self, poll: &Poll, until: Instant) {
        self.listen_for(poll, 0);
        self.paused_until = Some(until);
    }

    /// Accept again, if the pause is over or a place has become free.
    fn resume(&mut self, poll: &Poll, now: Instant) {
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
    fn next_deadline(&self) -> Option<Instant> {
        self.gate
            .next_deadline()
            .into_iter()
            .chain(self.paused_until)
            .min()
    }
}

impl TcpState {
    /// Accept connections as long as the gate has places for them.
    pub fn accept(&mut self) {
        let now = Instant::now();
        for at in 0..self.acceptor.listeners.len() {
            loop {
                if let Err(until) = self.acceptor.gate.room(now) {
                    return self.pause_accepting(until);
                }
                let accepted = socket::accept(&self.acceptor.listeners[at], self.settings.tcp.tuning());
                let (fd, from) = match accepted {
                    Ok(Some(accepted)) => accepted,
                    Ok(None) => break,
                    // No descriptors or no memory left: later there may be.
                    Err(_) => return self.pause_accepting(now + NO_ROOM),
                };
                let Admission::Wait { place, drop } = self.acceptor.gate.admit(now, from) else {
                    continue;
                };
                if drop.is_some() {
                    let slot = self.acceptor.slots[place.index()];
                    self.conns.close(slot);
                }
                let listener = Listener {
                    job: JOB,
                    me: self.me.0,
                    size: self.size,
                    rails: self.card.interfaces.len().max(1) as u8,
                    encrypt: self.settings.trust.encrypt != 0,
                    note: 0,
                };
                let shake = Box::new(Handshake::responder(&self.secret, listener));
                match self.admit(fd, ConnectionStage::Unauthenticated { place, shake }, poll::IN) {
                    Ok(slot) => self.acceptor.slots[place.index()] = slot,
                    Err(_) => self.acceptor.gate.refused(place, now, &Refusal::Crowded),
                }
            }
        }
        self.schedule_acceptor();
    }

    fn pause_accepting(&mut self, until: Instant) {
        self.acceptor.pause(&self.poll, until);
        self.schedule_acceptor();
    }

    /// Call [`TcpState::check_acceptor`] in time for what the acceptor waits for.
    pub fn schedule_acceptor(&mut self) {
        let at = self.acceptor.next_deadline().map_or(u64::MAX, |at| {
            at.saturating_duration_since(self.epoch()).as_nanos() as u64
        });
        self.acceptor.deadline = at;
        self.deadline = self.deadline.min(at);
    }

    /// Drop unauthenticated connections whose time has passed; accept again where accepting was paused.
    pub fn check_acceptor(&mut self) {
        let now = Instant::now();
        while let Some(place) = self.acceptor.gate.overdue(now) {
            let slot = self.acceptor.slots[place.index()];
            // This process itself may have been away.
            self.advance_handshake(slot);
            if self.acceptor.gate.overdue(now) != Some(place) {
                continue;
            }
            let mut why = Refusal::Crowded;
            if let Some(conn) = self.conns.get(slot)
                && let ConnectionStage::Unauthenticated { shake, .. } = &conn.stage
            {
                why = shake.late();
                self.conns.close(slot);
            }
            self.acceptor.gate.refused(place, now, &why);
        }
        self.acceptor.resume(&self.poll, now);
        self.schedule_acceptor();
    }
}
