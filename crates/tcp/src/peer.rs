//! The state of one peer: its link, its rails, and messages that wait for room in the link's log.
//!
//! Cost class: *fast path*, but for deferred messages.

use super::control::{ControlCode, SegmentNotice};
use crate::link::{Link, PushError};
use farpost_fabric::{Line, Peer};
use farpost_net::interfaces::Candidate;
use std::collections::{HashMap, VecDeque};
use std::os::fd::RawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Whether a peer can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PeerStatus {
    /// Connected, or going to be.
    #[default]
    Active,
    /// It has sent its bye frame.
    Left,
    /// Given up, and why.
    Lost(String),
}

/// The slot of no connection.
pub const NONE: usize = usize::MAX;

/// What is kept of each process of the job, once it was met.
pub struct Peers(Vec<Option<Box<PeerState>>>);

impl Peers {
    /// With room for `size`, none of whom was met.
    pub fn new(size: u32) -> Self {
        Self((0..size).map(|_| None).collect())
    }

    #[inline]
    pub fn get(&self, peer: Peer) -> Option<&PeerState> {
        self.0.get(peer.index())?.as_deref()
    }

    /// As [`get`](Self::get), to be changed.
    #[inline]
    pub fn at(&mut self, peer: Peer) -> Option<&mut PeerState> {
        self.0.get_mut(peer.index())?.as_deref_mut()
    }

    pub fn insert(&mut self, peer: Peer, remote: PeerState) {
        self.0[peer.index()] = Some(Box::new(remote));
    }

    pub fn iter(&self) -> impl Iterator<Item = &PeerState> {
        self.0.iter().flatten().map(Box::as_ref)
    }

    pub fn numbered(&self) -> impl Iterator<Item = (Peer, &PeerState)> {
        (0..)
            .map(Peer)
            .zip(&self.0)
            .filter_map(|(peer, remote)| Some((peer, remote.as_deref()?)))
    }
}

/// One rail to the peer.
pub struct Rail {
    /// Addresses to try, in order and around.
    pub candidates: Vec<Candidate>,
    pub next: usize,
    /// The error of the last attempt, by address; empty: not tried, or not decided.
    pub outcomes: Vec<String>,
    /// Whether the last attempt was refused, by address: the host is there, and nobody listens.
    pub refusals: Vec<bool>,
    /// The connection in use, and its descriptor.
    pub slot: usize,
    pub fd: RawFd,
    /// Its socket takes no more for the time being.
    pub blocked: bool,
    /// What it carries is encrypted.
    pub sealed: bool,
    /// The connection being made.
    pub trying: usize,
    /// Nanoseconds that the kernel took to connect the last time; 0: this process has not connected this rail.
    pub took: u64,
    /// When the connection in use was made, in nanoseconds, if this process made it.
    pub ours_since: Option<u64>,
    /// The last error, as a sentence.
    pub trouble: String,
}

impl Rail {
    /// Without a connection.
    pub fn new(candidates: Vec<Candidate>) -> Self {
        Self {
            candidates,
            next: 0,
            outcomes: Vec::new(),
            refusals: Vec::new(),
            slot: NONE,
            fd: -1,
            blocked: false,
            sealed: false,
            trying: NONE,
            took: 0,
            ours_since: None,
            trouble: String::new(),
        }
    }
}

/// A message that found the link's log full. Puts have the segment's handle and the offset first.
pub enum Deferred {
    Put(u32, u64, Vec<u8>),
    Line(u32, u64, Line),
    Word(u32, u64, u64),
    /// Of a lane.
    Packet(u8, Vec<u8>),
    Ring,
    /// Code, object, payload.
    Control(ControlCode, u32, Vec<u8>),
    /// Of a transfer, by its token.
    Get(u64, Wanted),
    Bye,
}

/// Bytes wanted from a peer's memory.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// The key under which the peer exposed them, and where from there.
    pub key: u64,
    pub offset: u64,
    /// Where they go.
    pub address: usize,
    pub len: u64,
}

impl Wanted {
    pub fn new(key: u64, offset: u64, address: usize, len: u64) -> Self {
        Self {
            key,
            offset,
            address,
            len,
        }
    }
}

#[derive(Default)]
pub struct PeerState {
    pub status: PeerStatus,
    pub link: Link,
    pub rails: Vec<Rail>,
    backlog: VecDeque<Deferred>,
    /// The transfers that the link knows by its tickets.
    pub tickets: HashMap<u32, u64>,
    pub zcopy: super::payloads::PeerZcopy,
    /// In [`TcpState::ack_pending`](super::state::TcpState::ack_pending).
    pub ack_pending: bool,
    /// In [`TcpState::send_list`](super::state::TcpState::send_list).
    pub in_send_list: bool,
    /// Frames came that may need an answer.
    pub answer_due: bool,
    /// Something was sent since the peer was last rung: it needs no ring.
    pub sent_since_ring: bool,
    /// The layers above have sent something: closing sends a bye.
    pub has_user_traffic: bool,
    /// Fences asked for and answered, and whether something was put since the last.
    pub fences: u64,
    pub fenced: u64,
    pub unfenced: bool,
    /// Connections dropped for malformed data.
    pub malformed_input: MalformedInput,
}

/// Connections that were dropped for malformed data. The count decays: headers damaged now and then in a job of days are no
/// reason to give the peer up.
#[derive(Clone, Copy, Debug, Default)]
pub struct MalformedInput {
    count: u32,
    /// When the count next decays, in nanoseconds.
    until: u64,
}

impl MalformedInput {
    /// The count falls by one in so many nanoseconds.
    const FORGET_AFTER: u64 = 10_000_000_000;
    /// The peer is given up at this count.
    const LIMIT: u32 = 8;

    /// Count one more. True: the peer is to be given up.
    pub fn record(&mut self, now: u64) -> bool {
        if now >= self.until {
            let faded = (now - self.until) / Self::FORGET_AFTER + 1;
            self.count = self
                .count
                .saturating_sub(u32::try_from(faded).unwrap_or(u32::MAX));
            self.until = now + Self::FORGET_AFTER;
        }
        self.count += 1;
        self.count >= Self::LIMIT
    }
}

impl PeerState {
    pub fn new(link: Link, rails: Vec<Rail>) -> Self {
        Self {
            link,
            rails,
            ..Self::default()
        }
    }

    /// Something of the layers above is sent.
    #[inline]
    pub fn note_sent(&mut self) {
        self.sent_since_ring = true;
        self.has_user_traffic = true;
    }

    /// It is connected, or will be.
    pub fn is_active(&self) -> bool {
        self.status == PeerStatus::Active
    }

    /// Some rail has a connection.
    pub fn is_connected(&self) -> bool {
        self.rails.iter().any(|rail| rail.slot != NONE)
    }

    /// No message waits for room in the link.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Push `message` to the link, now or when its log has room.
    pub fn push_or_defer(&mut self, message: Deferred) {
        if !self.backlog.is_empty() || !self.push(&message) {
            self.backlog.push_back(message);
        }
    }

    /// A control frame.
    pub fn control(&mut self, code: ControlCode, object: u32, words: &[u64]) {
        let payload = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.push_or_defer(Deferred::Control(code, object, payload));
    }

    /// A segment is announced, or a query answered.
    pub fn notice(&mut self, told: &SegmentNotice) {
        self.control(ControlCode::Segment, told.id, &told.encode());
    }

    /// Push deferred messages, as far as there is room.
    #[cold]
    pub fn push_deferred(&mut self) {
        while let Some(message) = self.backlog.pop_front() {
            if !self.push(&message) {
                self.backlog.push_front(message);
                return;
            }
        }
    }

    /// Drop the deferred request of transfer `token`, whose memory must not be written any more.
    pub fn retract(&mut self, token: u64) {
        self.backlog
            .retain(|message| !matches!(message, Deferred::Get(of, _) if *of == token));
    }

    /// After a rest of the link: bytes that it has freed. What is kept beside it for messages under way goes as well.
    pub fn take_freed(&mut self) -> usize {
        let Some(freed) = self.link.take_freed() else {
            return 0;
        };
        self.backlog.shrink_to_fit();
        self.tickets.shrink_to_fit();
        self.zcopy.shrink();
        freed
    }

    /// Drop all deferred messages.
    pub fn clear_deferred(&mut self) {
        self.backlog.clear();
    }

    /// Push to the link. False: no room. After the link is closed the message is dropped.
    fn push(&mut self, message: &Deferred) -> bool {
        let link = &mut self.link;
        let result = match message {
            Deferred::Put(handle, offset, bytes) => link.push_put(*handle, *offset, bytes),
            Deferred::Line(handle, offset, line) => link.push_line(*handle, *offset, line),
            Deferred::Word(handle, offset, value) => link.push_word(*handle, *offset, *value),
            Deferred::Packet(lane, bytes) => link.push_packet(*lane, bytes),
            Deferred::Ring => link.push_ring(),
            Deferred::Control(code, object, payload) => link.push_control(*code as u8, *object, 0, payload),
            Deferred::Bye => link.push_bye(),
            Deferred::Get(token, of) => (link.push_get(of.key, of.offset, of.address, of.len))
                .map(|ticket| _ = self.tickets.insert(ticket, *token)),
        };
        result != Err(PushError::Full)
    }
}

/// Most attempts that one sentence lists.
const ATTEMPTS_LISTED: usize = 8;

/// The error text for a peer that was never reached.
pub fn never_reached(host: &str, remote: &PeerState, waited: u64) -> String {
    let since = SystemTime::now() - Duration::from_nanos(waited);
    let day = since
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs() % 86_400);
    let mut tried: Vec<String> = Vec::new();
    for rail in &remote.rails {
        tried.extend(rail.outcomes.iter().filter(|o| !o.is_empty()).cloned());
        // What is being tried now.
        let now = rail.next % rail.candidates.len().max(1);
        let known = rail.outcomes.get(now).is_some_and(|o| !o.is_empty());
        if let Some(candidate) = rail.candidates.get(now).filter(|_| !known && rail.trying != NONE) {
            tried.push(format!("{} via {}: no answer", candidate.to, candidate.interface));
        }
    }
    let more = match tried.len().saturating_sub(ATTEMPTS_LISTED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let attempts = match tried.is_empty() {
        true => "nothing could be tried".to_owned(),
        false => tried[..tried.len().min(ATTEMPTS_LISTED)].join("; "),
    };
    format!(
        "host {host}: connecting has waited {}.{} s, since {:02}:{:02}:{:02} UTC, and no way led there: {attempts}{more}. \
         `farpost doctor --hosts` tells which networks reach it, FARPOST_INTERFACE chooses them, FARPOST_CONNECT_MS is the time allowed",
        waited / 1_000_000_000,
        waited / 100_000_000 % 10,
        day / 3600,
        day / 60 % 60,
        day % 60,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_malformed_data_is_tolerated_and_a_burst_is_not() {
        const S: u64 = 1_000_000_000;
        let mut seldom = MalformedInput::default();
        assert!((1..10_000).all(|at| !seldom.record(at * 11 * S)));
        for start in [0, 5 * S, 1000 * S] {
            let mut often = MalformedInput::default();
            let given_up = (0..20).position(|at| often.record(start + at * S / 10));
            assert_eq!(given_up, Some(7), "the eighth within a second");
        }
        // A second burst long after the first one is judged by itself.
        let mut bursts = MalformedInput::default();
        assert!((0..7).all(|at| !bursts.record(at)));
        assert!((0..7).all(|at| !bursts.record(3600 * S + at)));
        assert!(bursts.record(3600 * S + 7));
    }
}
