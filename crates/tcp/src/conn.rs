//! Connections: made in either direction, proved, and taken into use as rails.
//!
//! Either side may connect. Of two connections made at once for the same rail, the one that the lower number began
//! stays, if it is so far that it will come to something.
//!
//! Cost class: *set-up path*.

use super::input::Input;
use super::other::{NONE, Rail, Standing};
use super::socket;
use super::state::State;
use crate::link::Checks;
use crate::trust::{
    Admission, Caller, Handshake, Listener, Opener, Place, Progress, Refusal, Sealer, Session,
};
use farpost_fabric::Peer;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Key of the listeners in the poll set; connections have their slot.
pub const LISTENER: u64 = u64::MAX;

/// An attempt that the kernel has not decided after this many nanoseconds is begun anew.
const ATTEMPT: u64 = 1_000_000_000;

/// On a rail that worked before, so many times what it took then is enough: the kernel's own second try comes too late
/// where a network is back for moments only.
const PATIENT: u64 = 20;

/// But at least this many nanoseconds.
const ATTEMPT_LEAST: u64 = 50_000_000;

/// How long nobody is taken in when the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Any value that all processes of a job know; the secret tells jobs apart.
const JOB: [u8; 16] = [0; 16];

/// How far a connection is.
pub enum Stage {
    /// We connect: waiting for the kernel.
    Reaching { peer: Peer, rail: usize },
    /// We connect: proving ourselves.
    Calling {
        peer: Peer,
        rail: usize,
        shake: Box<Handshake>,
    },
    /// Somebody connected, and has yet to prove itself.
    Stranger { place: Place, shake: Box<Handshake> },
    /// In use.
    Open { peer: Peer, rail: usize },
}

/// What an encrypted connection has besides.
pub struct Seal {
    pub sealer: Sealer,
    pub opener: Opener,
    /// Sealed bytes that wait for the socket.
    pub out: Vec<u8>,
    pub sent: usize,
}

pub struct Conn {
    pub fd: OwnedFd,
    pub stage: Stage,
    pub input: Input,
    pub seal: Option<Box<Seal>>,
    /// Nothing more is read before the protocol above has looked at what came.
    pub paused: bool,
    since: u64,
}

impl State {
    /// Take a socket among the connections; its slot.
    pub fn admit(&mut self, fd: OwnedFd, stage: Stage, interest: u32) -> std::io::Result<usize> {
        let free = |(slot, conn): (usize, &Option<_>)| conn.is_none() && slot != self.reading;
        let slot = self
            .conns
            .iter()
            .enumerate()
            .position(free)
            .unwrap_or(self.conns.len());
        self.poll.add(fd.as_raw_fd(), interest, slot as u64)?;
        let conn = Conn {
            fd,
            stage,
            input: Input::new(),
            seal: None,
            paused: false,
            since: self.now(),
        };
        if slot == self.conns.len() {
            self.conns.push(None);
        }
        self.conns[slot] = Some(Box::new(conn));
        Ok(slot)
    }

    fn rail(&mut self, peer: Peer, rail: usize) -> Option<&mut Rail> {
        self.others[peer.index()].as_deref_mut()?.rails.get_mut(rail)
    }

    /// Connect a rail, or see to the attempt that is under way.
    pub fn dial(&mut self, peer: Peer, rail: usize, now: u64) {
        let Some(of) = self.rail(peer, rail) else { return };
        if of.slot != NONE {
            return;
        }
        let (trying, took, choices) = (of.trying, of.took, of.candidates.len());
        let rounds = (of.next / choices.max(1)).min(3);
        if let Some(Some(conn)) = self.conns.get(trying) {
            let limit = match (took, choices) {
                (0, 0 | 1) => ATTEMPT,
                // Where the way itself takes long, the first rounds are too quick.
                (0, _) => (self.settings.connect.stagger * 1_000_000) << rounds,
                (took, _) => (PATIENT * took).clamp(ATTEMPT_LEAST, ATTEMPT),
            };
            let waits = match conn.stage {
                Stage::Reaching { .. } => now < conn.since + limit,
                // The peer's host has our first message: its process will see it when it looks.
                _ => match socket::confirmed(conn.fd.as_raw_fd()) {
                    Ok((_, false)) => {
                        if let Some(other) = &mut self.others[peer.index()] {
                            other.link.on_rail_alive(rail, now);
                        }
                        true
                    }
                    _ => now < conn.since + limit,
                },
            };
            if waits {
                return;
            }
            self.conns[trying] = None;
            self.tried(peer, rail, "no answer", false);
        }
        let tuning = self.settings.tcp.tuning();
        let Some(of) = self.rail(peer, rail) else { return };
        let Some(candidate) = of.candidates.get(of.next % choices.max(1)) else {
            return;
        };
        let connected = socket::connect(candidate.to, candidate.from, tuning)
            .and_then(|fd| self.admit(fd, Stage::Reaching { peer, rail }, socket::OUT));
        match connected {
            Ok(slot) => {
                if let Some(of) = self.rail(peer, rail) {
                    of.trying = slot;
                }
            }
            Err(error) => {
                self.tried(peer, rail, &error.to_string(), is_refusal(&error));
                self.rail_is_down(peer, rail, now);
            }
        }
    }

    /// An attempt came to nothing: the next address is tried next time.
    fn tried(&mut self, peer: Peer, rail: usize, why: &str, refused: bool) {
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
        if let Some(other) = &mut self.others[peer.index()] {
            let everywhere = |of: &Rail| {
                of.refusals.len() == of.candidates.len() && of.refusals.iter().all(|refused| *refused)
            };
            other.link.on_refused(other.rails.iter().all(everywhere), now);
        }
    }

    fn rail_is_down(&mut self, peer: Peer, rail: usize, now: u64) {
        if let Some(other) = &mut self.others[peer.index()] {
            other.link.on_rail_down(rail, now);
            self.deadline = 0;
        }
        self.list(peer);
    }

    /// The kernel has decided about a connection of ours.
    pub fn reached(&mut self, slot: usize) {
        let Some(conn) = self.conns[slot].as_deref_mut() else {
            return;
        };
        let Stage::Reaching { peer, rail } = conn.stage else {
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
        let greeted = socket::outcome(fd)
            .and_then(|()| match shake.feed(&[]).1 {
                Progress::Send(flight) => socket::send(fd, &flight).map(drop),
                _ => Err(std::io::Error::other("no random numbers to be had")),
            })
            .and_then(|()| self.poll.change(fd, socket::IN, slot as u64));
        match greeted {
            Ok(()) => {
                conn.stage = Stage::Calling { peer, rail, shake };
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
        self.conns[slot] = None;
        if self.rail(peer, rail).is_some_and(|of| of.trying == slot) {
            self.tried(peer, rail, why, refused);
            let now = self.now();
            self.rail_is_down(peer, rail, now);
        }
    }

    /// Take in those who wait at the door.
    pub fn accept(&mut self) {
        let now = Instant::now();
        for at in 0..self.listeners.len() {
            loop {
                if let Err(until) = self.gate.room(now) {
                    return self.shut_door(until);
                }
                let accepted = socket::accept(&self.listeners[at], self.settings.tcp.tuning());
                let (fd, from) = match accepted {
                    Ok(Some(accepted)) => accepted,
                    Ok(None) => break,
                    // No descriptors or no memory left: later there may be.
                    Err(_) => return self.shut_door(now + NO_ROOM),
                };
                let Admission::Wait { place, drop } = self.gate.admit(now, from) else {
                    continue;
                };
                if drop.is_some() {
                    let slot = self.waiting_in[place.index()];
                    if let Some(conn) = self.conns.get_mut(slot) {
                        *conn = None;
                    }
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
                match self.admit(fd, Stage::Stranger { place, shake }, socket::IN) {
                    Ok(slot) => self.waiting_in[place.index()] = slot,
                    Err(_) => self.gate.refused(place, now, &Refusal::Crowded),
                }
            }
        }
    }

    /// Leave newcomers in the kernel's queue for a while.
    fn shut_door(&mut self, until: Instant) {
        for listener in &self.listeners {
            let _ = self.poll.change(listener.as_raw_fd(), 0, LISTENER);
        }
        self.shut_until = Some(until);
        self.look_at_door_by(until);
    }

    fn look_at_door_by(&mut self, at: Instant) {
        let at = at.saturating_duration_since(self.epoch()).as_nanos() as u64;
        self.door_at = self.door_at.min(at);
        self.deadline = self.deadline.min(self.door_at);
    }

    /// Strangers whose time is over; a door to be opened again.
    pub fn mind_door(&mut self) {
        let now = Instant::now();
        while let Some(place) = self.gate.overdue(now) {
            let slot = self.waiting_in[place.index()];
            // This process itself may have been away.
            self.shake(slot);
            if self.gate.overdue(now) != Some(place) {
                continue;
            }
            let mut why = Refusal::Crowded;
            if let Some(Some(conn)) = self.conns.get(slot)
                && let Stage::Stranger { shake, .. } = &conn.stage
            {
                why = shake.late();
                self.conns[slot] = None;
            }
            self.gate.refused(place, now, &why);
        }
        if self
            .shut_until
            .is_some_and(|until| until <= now || self.gate.room(now).is_ok())
        {
            self.shut_until = None;
            for listener in &self.listeners {
                let _ = self.poll.change(listener.as_raw_fd(), socket::IN, LISTENER);
            }
        }
        self.door_at = u64::MAX;
        if let Some(next) = self.gate.next_deadline() {
            self.look_at_door_by(next);
        }
        if let Some(until) = self.shut_until {
            self.look_at_door_by(until);
        }
    }

    /// Go on with a handshake.
    pub fn shake(&mut self, slot: usize) {
        let Some(mut conn) = self.conns.get_mut(slot).and_then(Option::take) else {
            return;
        };
        let fd = conn.fd.as_raw_fd();
        self.reading = slot;
        let session = handshake(&mut conn.stage, fd, &mut self.gate);
        self.reading = NONE;
        let ours = match &conn.stage {
            Stage::Calling { peer, rail, .. } => Some((*peer, *rail)),
            _ => None,
        };
        match session {
            Ok(None) => {
                self.conns[slot] = Some(conn);
                if let Some(at) = self.gate.next_deadline() {
                    self.look_at_door_by(at);
                }
            }
            Ok(Some(session)) => self.prove(slot, conn, *session),
            Err(why) => {
                if let Some((peer, rail)) = ours {
                    self.attempt_failed(slot, peer, rail, (&why.to_string(), false));
                } else if let Stage::Stranger { place, .. } = conn.stage {
                    if matches!(why, Refusal::Incomplete(_)) && self.has_crossed(place, conn.since) {
                        self.gate.withdrawn(place);
                    } else {
                        self.gate.refused(place, Instant::now(), &why);
                    }
                }
            }
        }
    }

    /// Whether a connection that came then and was closed by its caller is most likely that of a peer whom this process called
    /// meanwhile, and who has taken this process's call for its own.
    fn has_crossed(&self, place: Place, came: u64) -> bool {
        let source = self.gate.source(place);
        let meanwhile = |rail: &Rail| {
            rail.ours_since.is_some_and(|since| came < since + CROSSED)
                && rail
                    .candidates
                    .iter()
                    .any(|candidate| Some(candidate.to.ip()) == source)
        };
        self.others
            .iter()
            .flatten()
            .any(|other| other.rails.iter().any(meanwhile))
    }

    /// A connection has proved itself.
    fn prove(&mut self, slot: usize, mut conn: Box<Conn>, session: Session) {
        let rail = usize::from(session.rail);
        let (peer, called) = match conn.stage {
            Stage::Stranger { place, .. } => {
                self.gate.passed(place);
                (Peer(session.initiator), true)
            }
            _ => (Peer(session.responder), false),
        };
        if self.others[peer.index()].is_none() {
            self.meet(peer);
        }
        let now = self.now();
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return;
        };
        let Some(of) = other.rails.get_mut(rail) else {
            return;
        };
        if matches!(other.standing, Standing::Dead(_)) {
            return;
        }
        let (trying, old) = (of.trying, of.slot);
        let fresh = |since: u64| now.saturating_sub(since) < CROSSED;
        if called && self.me < peer && old != NONE && of.ours_since.is_some_and(fresh) {
            return;
        }
        if called && trying != NONE {
            let ours = self.conns.get(trying).and_then(Option::as_ref);
            if self.me < peer && ours.is_some_and(|c| matches!(c.stage, Stage::Calling { .. })) {
                return;
            }
            self.conns[trying] = None;
        }
        if old != NONE && old != slot {
            self.close_rail(peer, rail);
        }
        let Some(other) = self.others[peer.index()].as_deref_mut() else {
            return;
        };
        let of = &mut other.rails[rail];
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
        other.link.on_rail_up(rail, checks, now);
        conn.seal = session.records.map(|(sealer, opener)| {
            Box::new(Seal {
                sealer,
                opener,
                out: Vec::new(),
                sent: 0,
            })
        });
        conn.stage = Stage::Open { peer, rail };
        self.conns[slot] = Some(conn);
        self.open += 1;
        self.deadline = 0;
        self.list(peer);
    }

    /// A rail's connection is closed; its link is told by who calls this, or knows.
    pub fn close_rail(&mut self, peer: Peer, rail: usize) {
        let Some(of) = self.rail(peer, rail) else { return };
        let slot = std::mem::replace(&mut of.slot, NONE);
        of.fd = -1;
        let blocked = std::mem::take(&mut of.blocked);
        if slot == NONE {
            return;
        }
        self.open -= 1;
        self.blocked -= usize::from(blocked);
        if let Some(conn) = self.conns.get_mut(slot) {
            *conn = None;
        }
        if self.hot == slot {
            self.hot = NONE;
        }
    }

    /// A rail's connection ended by itself.
    pub fn rail_ended(&mut self, peer: Peer, rail: usize, why: &str) {
        self.close_rail(peer, rail);
        if let Some(of) = self.rail(peer, rail) {
            let via = of.candidates.first().map_or("?", |c| c.interface.as_str());
            of.trouble = format!("rail {rail} via {via}: {why}");
        }
        self.count(peer, farpost_fabric::Counter::Retries, 1);
        let now = self.now();
        self.rail_is_down(peer, rail, now);
        let gone = self.others[peer.index()].as_ref();
        if gone.is_some_and(|other| other.standing == Standing::Left && !other.is_connected()) {
            self.transfers.peer_gone(peer);
        }
        self.arrivals += 1;
    }
}

/// Two processes that call each other at once would each give up its own call for the other's, and have none: the one
/// with the lower number keeps its own, and for so long, in nanoseconds, takes a call for one that crossed it.
const CROSSED: u64 = 200_000_000;

/// Read what a handshake wants and answer. None: more is to come.
fn handshake(
    stage: &mut Stage,
    fd: RawFd,
    gate: &mut crate::trust::Gate,
) -> Result<Option<Box<Session>>, Refusal> {
    let (shake, place) = match stage {
        Stage::Calling { shake, .. } => (shake, None),
        Stage::Stranger { shake, place } => (shake, Some(*place)),
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

/// Whether a host says that nobody listens where a process of the job did.
fn is_refusal(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}
