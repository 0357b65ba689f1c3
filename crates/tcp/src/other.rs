//! A peer with whom something was exchanged: its link, its rails, and what waits for room in the link.
//!
//! Cost class: *fast path*, but for what waits for room.

use crate::link::{Link, PushError};
use farpost_fabric::Line;
use farpost_net::interfaces::Candidate;
use std::collections::{HashMap, VecDeque};
use std::os::fd::RawFd;

/// What a peer is to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Connected, or going to be.
    Here,
    /// It has said goodbye.
    Left,
    /// Given up, and why.
    Dead(String),
}

/// No connection.
pub const NONE: usize = usize::MAX;

/// One rail to the peer.
pub struct Rail {
    /// Addresses to try, in order and around.
    pub candidates: Vec<Candidate>,
    pub next: usize,
    /// What came of the last attempt, by address; empty: not tried, or not decided.
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
    /// Nanoseconds that the kernel took to connect the last time; 0: it never did, from here.
    pub took: u64,
    /// When the connection in use was made, in nanoseconds, if this process made it.
    pub ours_since: Option<u64>,
    /// What last went wrong, for people.
    pub trouble: String,
}

/// Something for the peer that found no room.
pub enum Say {
    Put {
        handle: u32,
        offset: u64,
        bytes: Vec<u8>,
    },
    Line {
        handle: u32,
        offset: u64,
        line: Line,
    },
    Word {
        handle: u32,
        offset: u64,
        value: u64,
    },
    Packet {
        lane: u8,
        bytes: Vec<u8>,
    },
    Ring,
    Control {
        code: u8,
        object: u32,
        payload: Vec<u8>,
    },
    Get {
        token: u64,
        key: u64,
        offset: u64,
        address: usize,
        len: u64,
    },
    Bye,
}

pub struct Other {
    pub standing: Standing,
    pub link: Link,
    pub rails: Vec<Rail>,
    backlog: VecDeque<Say>,
    /// The transfers that the link knows by its tickets.
    pub tickets: HashMap<u32, u64>,
    pub tails: super::tails::PeerTails,
    /// In the list of those who wait to hear that something has come.
    pub owing: bool,
    /// In the list of those with something to send.
    pub listed: bool,
    /// Frames came that may want an answer.
    pub answers: bool,
    /// Something was sent since it was last rung.
    pub told: bool,
    /// Something of the user's was ever sent.
    pub used: bool,
    /// Fences asked for and answered, and whether something was put since the last.
    pub fences: u64,
    pub fenced: u64,
    pub unfenced: bool,
    /// Connections dropped because what came could not be.
    pub nonsense: Nonsense,
}

/// Connections that were dropped for what came by them, of which time takes some back: headers damaged here and there in a
/// job of days are no reason to give a peer up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nonsense {
    count: u32,
    /// Until when, in nanoseconds, nothing is taken back.
    until: u64,
}

impl Nonsense {
    /// One is forgotten after so long, nanoseconds.
    const FADES: u64 = 10_000_000_000;
    /// So many, not forgotten yet, are too many.
    const MOST: u32 = 8;

    /// One more, now. True: too many in too short a time.
    pub fn more(&mut self, now: u64) -> bool {
        if now >= self.until {
            let faded = (now - self.until) / Self::FADES + 1;
            self.count = self
                .count
                .saturating_sub(u32::try_from(faded).unwrap_or(u32::MAX));
            self.until = now + Self::FADES;
        }
        self.count += 1;
        self.count >= Self::MOST
    }
}

impl Other {
    pub fn new(link: Link, rails: Vec<Rail>) -> Self {
        Self {
            standing: Standing::Here,
            link,
            rails,
            backlog: VecDeque::new(),
            tickets: HashMap::new(),
            tails: Default::default(),
            owing: false,
            listed: false,
            answers: false,
            told: false,
            used: false,
            fences: 0,
            fenced: 0,
            unfenced: false,
            nonsense: Nonsense::default(),
        }
    }

    /// It is connected, or will be.
    pub fn is_here(&self) -> bool {
        self.standing == Standing::Here
    }

    /// Some rail has a connection.
    pub fn is_connected(&self) -> bool {
        self.rails.iter().any(|rail| rail.slot != NONE)
    }

    /// Nothing waits for room in the link.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Hand something to the link, now or when it has room.
    pub fn say(&mut self, say: Say) {
        if !self.backlog.is_empty() || !self.offer(&say) {
            self.backlog.push_back(say);
        }
    }

    /// A control frame.
    pub fn control(&mut self, code: super::apply::Code, object: u32, words: &[u64]) {
        let payload = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let code = code as u8;
        self.say(Say::Control {
            code,
            object,
            payload,
        });
    }

    /// What waited for room, as far as there is some now.
    #[cold]
    pub fn catch_up(&mut self) {
        while let Some(say) = self.backlog.pop_front() {
            if !self.offer(&say) {
                self.backlog.push_front(say);
                return;
            }
        }
    }

    /// The memory of transfer `token` is not to be written: it was not asked for yet, and will not be.
    pub fn retract(&mut self, token: u64) {
        self.backlog
            .retain(|say| !matches!(say, Say::Get { token: of, .. } if *of == token));
    }

    /// Nothing goes out any more.
    pub fn forget_all(&mut self) {
        self.backlog.clear();
    }

    /// False: no room. What is said after the end goes nowhere.
    fn offer(&mut self, say: &Say) -> bool {
        let link = &mut self.link;
        let result = match say {
            Say::Put {
                handle,
                offset,
                bytes,
            } => link.push_put(*handle, *offset, bytes),
            Say::Line { handle, offset, line } => link.push_line(*handle, *offset, line),
            Say::Word {
                handle,
                offset,
                value,
            } => link.push_word(*handle, *offset, *value),
            Say::Packet { lane, bytes } => link.push_packet(*lane, bytes),
            Say::Ring => link.push_ring(),
            Say::Control {
                code,
                object,
                payload,
            } => link.push_control(*code, *object, 0, payload),
            Say::Bye => link.push_bye(),
            Say::Get {
                token,
                key,
                offset,
                address,
                len,
            } => link.push_get(*key, *offset, *address, *len).map(|ticket| {
                self.tickets.insert(ticket, *token);
            }),
        };
        result != Err(PushError::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_now_and_then_is_forgiven_and_much_at_once_is_not() {
        const S: u64 = 1_000_000_000;
        let mut seldom = Nonsense::default();
        assert!((1..10_000).all(|at| !seldom.more(at * 11 * S)));
        for start in [0, 5 * S, 1000 * S] {
            let mut often = Nonsense::default();
            let given_up = (0..20).position(|at| often.more(start + at * S / 10));
            assert_eq!(given_up, Some(7), "the eighth within a second");
        }
        // A second burst long after the first one is judged by itself.
        let mut bursts = Nonsense::default();
        assert!((0..7).all(|at| !bursts.more(at)));
        assert!((0..7).all(|at| !bursts.more(3600 * S + at)));
        assert!(bursts.more(3600 * S + 7));
    }
}
