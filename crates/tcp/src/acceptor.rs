//! Accepting connections, and dropping those that take too long to authenticate themselves.
//!
//! Cost class: *set-up path*.

use super::connection::JOB;
use super::connections::ConnectionStage;
use super::socket;
use super::state::TcpState;
use crate::trust::{Admission, Handshake, Listener, Refusal};
use farpost_net::poll;
use std::time::{Duration, Instant};

/// How long nobody is accepted when the system has no descriptor or memory for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);

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
