//! Connections: made in either direction, authenticated, and taken into use as rails.
//!
//! Either side may connect. Of two connections made at once for the same rail, the one that the lower number began
//! stays, if its handshake has begun.
//!
//! Cost class: *set-up path*.

use super::connections::{Connection, ConnectionStage, Seal};
use super::input::Input;
use super::peer::{NONE, PeerStatus, Rail};
use super::socket;
use super::state::TcpState;
use crate::link::Checks;
use crate::trust::{Caller, GateSlot, Handshake, Progress, Refusal, Session};
use farpost_fabric::Peer;
use farpost_net::poll;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

/// An attempt that the kernel has not decided after this many nanoseconds is begun anew.
const ATTEMPT: u64 = 1_000_000_000;

/// On a rail that worked before, so many times what it took then is enough: the kernel's own second try comes too late
/// where a network is back for moments only.
const PATIENT: u64 = 20;

/// But at least this many nanoseconds.
const ATTEMPT_LEAST: u64 = 50_000_000;

/// Any value that all processes of a job know; the secret tells jobs apart.
pub const JOB: [u8; 16] = [0; 16];

impl TcpState {
    /// Add a connection; its slot.
    pub fn admit(&mut self, fd: OwnedFd, stage: ConnectionStage, interest: u32) -> std::io::Result<usize> {
        let slot = self.conns.free_slot();
        self.poll.add(fd.as_raw_fd(), interest, slot as u64)?;
        let conn = Connection {
            fd,
            stage,
            input: Input::new(),
            seal: None,
            paused: false,
            since: self.now(),
        };
        self.conns.add(slot, conn);
        Ok(slot)
    }

    fn rail(&mut self, peer: Peer, rail: usize) -> Option<&mut Rail> {
        self.peers.at(peer)?.rails.get_mut(rail)
    }

    /// Connect a rail, or check the attempt that is under way.
    pub fn dial(&mut self, peer: Peer, rail: usize, now: u64) {
        let Some(of) = self.rail(peer, rail) else { return };
        if of.slot != NONE {
            return;
        }
        let (trying, took, choices) = (of.trying, of.took, of.candidates.len());
        let rounds = (of.next / choices.max(1)).min(3);
        if let Some(conn) = self.conns.get(trying) {
            let limit = match (took, choices) {
                (0, 0 | 1) => ATTEMPT,
                // Where the route itself takes long, the first rounds are too quick.
                (0, _) => (self.settings.connect.stagger * 1_000_000) << rounds,
                (took, _) => (PATIENT * took).clamp(ATTEMPT_LEAST, ATTEMPT),
            };
            let waits = match conn.stage {
                ConnectionStage::Connecting { .. } => now < conn.since + limit,
                // The peer's host has our first message: its process will see it when it looks.
                _ => match socket::confirmed(conn.fd.as_raw_fd()) {
                    Ok((_, false)) => {
                        if let Some(remote) = self.peers.at(peer) {
                            remote.link.on_rail_alive(rail, now);
                        }
                        true
                    }
                    _ => now < conn.since + limit,
                },
            };
            if waits {
                return;
            }
            self.conns.close(trying);
            self.attempt_ended(peer, rail, "no answer", false);
        }
        let tuning = self.settings.tcp.tuning();
        let Some(of) = self.rail(peer, rail) else { return };
        let Some(candidate) = of.candidates.get(of.next % choices.max(1)) else {
            return;
        };
        let connected = socket::connect(candidate.to, candidate.from, tuning)
            .and_then(|fd| self.admit(fd, ConnectionStage::Connecting { peer, rail }, poll::OUT));
        match connected {
            Ok(slot) => {
                if let Some(of) = self.rail(peer, rail) {
                    of.trying = slot;
                }
            }
            Err(error) => {
                self.attempt_ended(peer, rail, &error.to_string(), is_refusal(&error));
                self.rail_is_down(peer, rail, now);
            }
        }
    }

    /// An attempt failed: the next address is tried next time.
    fn attempt_ended(&mut self, peer: Peer, rail: usize, why: &str, refused: bool) {
        let Some(of) = self.rail(peer, rail) else { return };
        of.trying = NONE;
        let at = of.next % of.candidates.len().max(1);
        if let Some(candidate) = of.candidates.get(at) {
            of.trouble = format!("{} via {}: {why}", candidate.to, candidate.interface);
            of.outcomes.resize(of.candidates.len(), String::new());
            of.outcomes[at] = of.trouble.clone();
            of.refusals.resize(of.candidates.len(), false);
            of.refusals[at] = refused;
        }
        of.next += 1;
        let now = self.now();
        if let Some(remote) = self.peers.at(peer) {
            let everywhere = |of: &Rail| {
                of.refusals.len() == of.candidates.len() && of.refusals.iter().all(|refused| *refused)
            };
            remote.link.on_refused(remote.rails.iter().all(everywhere), now);
        }
    }

    fn rail_is_down(&mut self, peer: Peer, rail: usize, now: u64) {
        if let Some(remote) = self.peers.at(peer) {
            remote.link.on_rail_down(rail, now);
            self.deadline = 0;
        }
        self.schedule_send(peer);
    }

    /// The kernel has decided about a connection of ours.
    pub fn reached(&mut self, slot: usize) {
        let Some(conn) = self.conns.at(slot) else {
            return;
        };
        let ConnectionStage::Connecting { peer, rail } = conn.stage else {
            return;
        };
        let (fd, since) = (conn.fd.as_raw_fd(), conn.since);
        let caller = Caller {
            job: JOB,
            me: self.me.0,
            peer: peer.0,
            rail: rail as u8,
            encrypt: self.settings.trust.encrypt != 0,
            note: 0,
        };
        let mut shake = Box::new(Handshake::initiator(&self.secret, caller));
        let greeted = socket::outcome(&conn.fd)
            .and_then(|()| match shake.feed(&[]).1 {
                Progress::Send(flight) => socket::send(fd, &flight).map(drop),
                _ => Err(std::io::Error::other("no random numbers to be had")),
            })
            .and_then(|()| self.poll.change(fd, poll::IN, slot as u64));
        match greeted {
            Ok(()) => {
                conn.stage = ConnectionStage::Handshaking { peer, rail, shake };
                let took = (self.now() - since).max(1);
                if let Some(of) = self.rail(peer, rail) {
                    of.took = took;
                }
            }
            Err(error) => {
                self.attempt_failed(slot, peer, rail, (&error.to_string(), is_refusal(&error)));
            }
        }
    }

    fn attempt_failed(&mut self, slot: usize, peer: Peer, rail: usize, (why, refused): (&str, bool)) {
        self.conns.close(slot);
        if self.rail(peer, rail).is_some_and(|of| of.trying == slot) {
            self.attempt_ended(peer, rail, why, refused);
            let now = self.now();
            self.rail_is_down(peer, rail, now);
        }
    }

    /// Advance a handshake.
    pub fn advance_handshake(&mut self, slot: usize) {
        let Some(mut conn) = self.conns.take(slot) else {
            return;
        };
        let fd = conn.fd.as_raw_fd();
        self.conns.reading = slot;
        let session = handshake(&mut conn.stage, fd, &mut self.acceptor.gate);
        self.conns.reading = NONE;
        let ours = match &conn.stage {
            ConnectionStage::Handshaking { peer, rail, .. } => Some((*peer, *rail)),
            _ => None,
        };
        match session {
            Ok(None) => {
                self.conns.put(slot, conn);
                self.schedule_acceptor();
            }
            Ok(Some(session)) => self.use_connection(slot, conn, *session),
            Err(why) => {
                if let Some((peer, rail)) = ours {
                    self.attempt_failed(slot, peer, rail, (&why.to_string(), false));
                } else if let ConnectionStage::Unauthenticated { place, .. } = conn.stage {
                    if matches!(why, Refusal::Incomplete(_)) && self.has_crossed(place, conn.since) {
                        self.acceptor.gate.withdrawn(place);
                    } else {
                        self.acceptor.gate.refused(place, Instant::now(), &why);
                    }
                }
            }
        }
    }
    /// Whether a connection that came at `came` and was closed by its caller most likely crossed one that this process made: the
    /// peer then uses that one.
    fn has_crossed(&self, place: GateSlot, came: u64) -> bool {
        let source = self.acceptor.gate.source(place);
        let meanwhile = |rail: &Rail| {
            rail.ours_since.is_some_and(|since| came < since + CROSSED)
                && rail
                    .candidates
                    .iter()
                    .any(|candidate| Some(candidate.to.ip()) == source)
        };
        self.peers.iter().any(|remote| remote.rails.iter().any(meanwhile))
    }

    /// A connection is authenticated: take it into use.
    fn use_connection(&mut self, slot: usize, mut conn: Box<Connection>, session: Session) {
        let rail = usize::from(session.rail);
        let (peer, called) = match conn.stage {
            ConnectionStage::Unauthenticated { place, .. } => {
                self.acceptor.gate.passed(place);
                (Peer(session.initiator), true)
            }
            _ => (Peer(session.responder), false),
        };
        if self.peers.get(peer).is_none() {
            self.meet(peer);
        }
        let now = self.now();
        let Some(remote) = self.peers.at(peer) else {
            return;
        };
        let Some(of) = remote.rails.get_mut(rail) else {
            return;
        };
        if matches!(remote.status, PeerStatus::Lost(_)) {
            return;
        }
        let (trying, old) = (of.trying, of.slot);
        let fresh = |since: u64| now.saturating_sub(since) < CROSSED;
        if called && self.me < peer && old != NONE && of.ours_since.is_some_and(fresh) {
            return;
        }
        if called && trying != NONE {
            let ours = self.conns.get(trying);
            if self.me < peer && ours.is_some_and(|c| matches!(c.stage, ConnectionStage::Handshaking { .. }))
            {
                return;
            }
            self.conns.close(trying);
        }
        if old != NONE && old != slot {
            self.close_rail(peer, rail);
        }
        let Some(remote) = self.peers.at(peer) else {
            return;
        };
        let of = &mut remote.rails[rail];
        of.trying = NONE;
        of.ours_since = (!called).then_some(now);
        of.slot = slot;
        of.fd = conn.fd.as_raw_fd();
        of.blocked = false;
        of.sealed = session.records.is_some();
        let checks = Checks {
            send: session.send_check,
            receive: session.receive_check,
        };
        remote.link.on_rail_up(rail, checks, now);
        conn.seal = session.records.map(|(sealer, opener)| {
            Box::new(Seal {
                sealer,
                opener,
                out: Vec::new(),
                sent: 0,
            })
        });
        conn.stage = ConnectionStage::Open { peer, rail };
        self.conns.put(slot, conn);
        self.conns.open += 1;
        self.deadline = 0;
        self.schedule_send(peer);
    }

    /// Close a rail's connection. The caller tells the link, unless the link asked for it.
    pub fn close_rail(&mut self, peer: Peer, rail: usize) {
        let Some(of) = self.rail(peer, rail) else { return };
        let slot = std::mem::replace(&mut of.slot, NONE);
        of.fd = -1;
        let blocked = std::mem::take(&mut of.blocked);
        if slot == NONE {
            return;
        }
        self.conns.open -= 1;
        self.conns.blocked -= usize::from(blocked);
        self.conns.close(slot);
        if self.conns.hot == slot {
            self.conns.hot = NONE;
        }
    }

    /// A rail's connection ended by itself.
    pub fn rail_ended(&mut self, peer: Peer, rail: usize, why: &str) {
        self.close_rail(peer, rail);
        if let Some(of) = self.rail(peer, rail) {
            let via = of.candidates.first().map_or("?", |c| c.interface.as_str());
            of.trouble = format!("rail {rail} via {via}: {why}");
        }
        self.diagnostics.count(peer, farpost_fabric::Counter::Retries, 1);
        let now = self.now();
        self.rail_is_down(peer, rail, now);
        let gone = self.peers.get(peer);
        if gone.is_some_and(|remote| remote.status == PeerStatus::Left && !remote.is_connected()) {
            self.peer_gone(peer);
        }
        self.arrivals += 1;
    }
}

/// Two processes that connect to each other at once would each give up its own connection for the other's, and have none. So the
/// one with the lower number keeps its own, and for so many nanoseconds takes an incoming connection for one that crossed it.
const CROSSED: u64 = 200_000_000;

/// Read what a handshake waits for and answer. None: more is to come.
fn handshake(
    stage: &mut ConnectionStage,
    fd: RawFd,
    gate: &mut crate::trust::Gate,
) -> Result<Option<Box<Session>>, Refusal> {
    let (shake, place) = match stage {
        ConnectionStage::Handshaking { shake, .. } => (shake, None),
        ConnectionStage::Unauthenticated { shake, place } => (shake, Some(*place)),
        _ => return Ok(None),
    };
    loop {
        let mut bytes = [0u8; 256];
        let wanted = shake.wants().min(bytes.len());
        let parts = [socket::part(bytes.as_mut_ptr(), wanted)];
        // SAFETY: `bytes` is writable for as much as is wanted.
        let came = match unsafe { socket::receive(fd, &parts) } {
            Ok(0) => return Err(shake.closed()),
            Ok(came) => came,
            Err(e) if socket::would_block(&e) => return Ok(None),
            Err(_) => return Err(shake.closed()),
        };
        // A message is far smaller than what a fresh socket takes.
        match shake.feed(&bytes[..came]).1 {
            Progress::NeedMore(_) => {}
            Progress::Send(flight) => {
                if let Some(place) = place
                    && shake.is_known()
                {
                    gate.known(place, Instant::now(), shake.hello())?;
                }
                if !matches!(socket::send(fd, &flight), Ok(sent) if sent == flight.len()) {
                    return Err(shake.closed());
                }
            }
            Progress::Done { send, session } => {
                if !send.is_empty() && !matches!(socket::send(fd, &send), Ok(sent) if sent == send.len()) {
                    return Err(shake.closed());
                }
                return Ok(Some(session));
            }
            Progress::Refused { tell, reason } => {
                if !tell.is_empty() {
                    let _ = socket::send(fd, &tell);
                }
                return Err(reason);
            }
        }
    }
}

/// Whether the peer's host lives and nobody listens at the address.
fn is_refusal(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}
