//! Processes that send each other messages by the network layer alone, and remember what came.
#![allow(dead_code, reason = "each test uses a part")]

pub mod unruly;

use crate::common::pattern;

use farpost_fabric::{Fabric, Peer};
use farpost_portals::net::{
    Channel, Departure, Net, NetTunables, NoPending, Outcome, Placement, RxId, Upper,
};
use farpost_portals::{Segment, Segments};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a process does with messages that are longer than a packet, or with every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// Takes them at once.
    AtOnce,
    /// Decides after so many turns.
    Later(u32),
    /// Refuses every second one.
    Reluctant,
    /// Keeps half of the body.
    Half,
    /// Wants none.
    Discard,
}

/// A message that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    pub from: Peer,
    pub header: Vec<u8>,
    pub length: u64,
    pub body: Vec<u8>,
    /// Bytes of it that are kept.
    pub kept: usize,
    pub outcome: Option<Outcome>,
}

/// The layer above, for tests.
pub struct Memory {
    pub came: Vec<Came>,
    pub sent: BTreeMap<u64, Outcome>,
    pub way: Taking,
    waiting: Vec<(u32, RxId, usize)>,
    refusals: u32,
    /// Memory is handed over in pieces of about so many bytes; 0: in one.
    pub cut: usize,
}

fn memory_of(bytes: &mut [u8]) -> Segments {
    Segments::one(bytes.as_mut_ptr().expose_provenance(), bytes.len())
}

/// All of it, in pieces of `cut` bytes and one more in turn, none of which the next one follows in memory: `bytes` is made longer.
fn pieces_of(bytes: &mut Vec<u8>, cut: usize) -> Segments {
    let pieces = bytes.len().div_ceil(cut);
    let mut laid: Vec<u8> = Vec::with_capacity(bytes.len() + pieces);
    let base = laid.as_mut_ptr().expose_provenance();
    let mut list = vec![];
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (one, more) = rest.split_at((cut + list.len() % 2).min(rest.len()));
        list.push(Segment {
            address: base + laid.len(),
            len: one.len(),
        });
        laid.extend_from_slice(one);
        laid.push(0xcc);
        rest = more;
    }
    *bytes = laid;
    Segments::many(list.into())
}

/// Put what came into the pieces together again.
fn join(bytes: &mut Vec<u8>, (len, cut): (usize, usize)) {
    let mut whole = vec![];
    let (mut at, mut number) = (0, 0);
    while whole.len() < len {
        let one = (cut + number % 2).min(len - whole.len());
        whole.extend_from_slice(&bytes[at..at + one]);
        assert_eq!(bytes[at + one], 0xcc, "a gap was written");
        (at, number) = (at + one + 1, number + 1);
    }
    *bytes = whole;
}

impl Memory {
    fn keep(&mut self, index: usize) -> Placement {
        let came = &mut self.came[index];
        let bytes = match self.way {
            Taking::Half => came.length / 2,
            Taking::Discard => {
                came.outcome = Some(Outcome::Done);
                return Placement::Discard;
            }
            _ => came.length,
        };
        // What is announced need not be true.
        let len = bytes.min(1 << 20) as usize;
        came.body = vec![0; len];
        let into = match self.cut {
            0 => memory_of(&mut came.body),
            cut => pieces_of(&mut came.body, cut),
        };
        came.kept = len;
        Placement::Keep {
            token: index as u64,
            bytes,
            into,
        }
    }
}

impl Upper for Memory {
    fn arrived(
        &mut self,
        id: RxId,
        from: Peer,
        header: &[u8],
        length: u64,
        inline: Option<&[u8]>,
    ) -> Placement {
        if self.way == Taking::Reluctant {
            self.refusals += 1;
            if self.refusals % 2 == 1 {
                return Placement::Refuse;
            }
        }
        let index = self.came.len();
        self.came.push(Came {
            from,
            header: header.to_vec(),
            length,
            body: vec![],
            kept: 0,
            outcome: None,
        });
        if let Taking::Later(turns) = self.way {
            self.waiting.push((turns, id, index));
            return Placement::Later;
        }
        match inline {
            Some(bytes) if self.way == Taking::AtOnce || self.way == Taking::Reluctant => {
                assert_eq!(bytes.len() as u64, length);
                let came = &mut self.came[index];
                came.body = bytes.to_vec();
                came.outcome = Some(Outcome::Done);
                Placement::Done
            }
            _ => self.keep(index),
        }
    }

    fn deposited(&mut self, token: u64, outcome: Outcome) {
        let came = &mut self.came[token as usize];
        assert_eq!(came.outcome.replace(outcome), None, "deposited twice");
        if self.cut > 0 {
            join(&mut came.body, (came.kept, self.cut));
        }
    }

    fn sent(&mut self, token: u64, outcome: Outcome) {
        assert_eq!(self.sent.insert(token, outcome), None, "sent twice");
    }
}

/// A process.
pub struct Process<F: Fabric> {
    pub net: Net<F>,
    pub upper: Memory,
    /// Bodies under way.
    bodies: BTreeMap<u64, Vec<u8>>,
    tokens: u64,
    /// What can leave at once does, and how many messages have.
    pub hasty: bool,
    pub hurried: u64,
}

impl<F: Fabric> Process<F> {
    pub fn new(fabric: Rc<F>, config: &NetTunables, way: Taking) -> Self {
        Self {
            net: Net::new(fabric, config),
            upper: Memory {
                came: vec![],
                sent: BTreeMap::new(),
                way,
                waiting: vec![],
                refusals: 0,
                cut: 0,
            },
            bodies: BTreeMap::new(),
            tokens: 0,
            hasty: false,
            hurried: 0,
        }
    }

    /// Send; false: no pending.
    pub fn send(&mut self, to: u32, channel: Channel, header: &[u8], body: &[u8]) -> bool {
        if self.hasty && self.send_now(to, channel, header, body) {
            self.hurried += 1;
            return true;
        }
        let mut copy = body.to_vec();
        let token = self.tokens;
        let memory = match self.upper.cut {
            0 => memory_of(&mut copy),
            cut => pieces_of(&mut copy, cut),
        };
        let sent = self.net.send(Peer(to), channel, header, &memory, token);
        match sent {
            Err(NoPending) => return false,
            Ok(Departure::Gone) => copy.fill(0xee),
            Ok(Departure::Waits) => {
                self.bodies.insert(token, copy);
            }
        }
        self.tokens += 1;
        true
    }

    fn send_now(&self, to: u32, channel: Channel, header: &[u8], body: &[u8]) -> bool {
        let sizes = (header.len(), body.len());
        self.net.send_now(Peer(to), channel, sizes, |packet| {
            let whole = [header, body].concat();
            for (to, from) in packet.iter_mut().zip(whole.chunks(8)) {
                to[..from.len()].copy_from_slice(from);
            }
        })
    }

    /// One turn of progress, and of those who decide later.
    pub fn turn(&mut self) -> bool {
        let moved = self.net.progress(&mut self.upper);
        for (token, outcome) in &self.upper.sent {
            if let Some(mut body) = self.bodies.remove(token)
                && *outcome == Outcome::Done
            {
                body.fill(0xee);
            }
        }
        let mut due = vec![];
        self.upper.waiting.retain_mut(|(turns, id, index)| {
            *turns -= u32::from(*turns != u32::MAX);
            if *turns == 0 {
                due.push((*id, *index));
            }
            *turns > 0
        });
        for (id, index) in due {
            let placement = self.upper.keep(index);
            assert!(self.net.place(id, placement));
        }
        moved
    }

    /// Decide about everything that waits for it.
    pub fn decide(&mut self) {
        for (_, id, index) in std::mem::take(&mut self.upper.waiting) {
            let placement = self.upper.keep(index);
            assert!(self.net.place(id, placement));
        }
    }

    /// Whether all that came is in place and all that was sent is gone.
    pub fn settled(&self) -> bool {
        self.bodies.is_empty() && self.upper.came.iter().all(|came| came.outcome.is_some())
    }
}

/// A header that names sender, receiver, channel and number.
pub fn header(from: u32, to: u32, channel: Channel, number: u32) -> Vec<u8> {
    let mut header = vec![];
    for word in [from, to, channel as u32, number] {
        header.extend(word.to_le_bytes());
    }
    header.resize(40, number as u8);
    header
}

/// The number in a header.
pub fn number_of(header: &[u8]) -> u32 {
    u32::from_le_bytes(header[12..16].try_into().expect("four bytes"))
}

/// Everybody sends `each` messages to everybody else on both channels, of lengths that `length` gives by number; checks that
/// all arrive, once, in order, whole.
pub fn everybody_to_everybody<F: Fabric>(
    fabrics: Vec<Rc<F>>,
    config: &NetTunables,
    way: Taking,
    each: u32,
    length: impl Fn(u32) -> usize,
) -> Vec<Process<F>> {
    in_pieces(fabrics, config, (way, 0), each, length)
}

/// As [`everybody_to_everybody`], of and to memory in pieces of about `cut` bytes; 0: in one.
pub fn in_pieces<F: Fabric>(
    fabrics: Vec<Rc<F>>,
    config: &NetTunables,
    (way, cut): (Taking, usize),
    each: u32,
    length: impl Fn(u32) -> usize,
) -> Vec<Process<F>> {
    exchange(fabrics, config, (way, cut, false), each, length, |_, _| true)
}

/// As [`everybody_to_everybody`]; what can leave at once does.
pub fn in_haste<F: Fabric>(
    fabrics: Vec<Rc<F>>,
    config: &NetTunables,
    way: Taking,
    each: u32,
    length: impl Fn(u32) -> usize,
) -> Vec<Process<F>> {
    exchange(fabrics, config, (way, 0, true), each, length, |_, _| true)
}

/// As [`everybody_to_everybody`], while the system lets processes wait for their turn as `seed` has it, some of them for long.
pub fn with_pauses<F: Fabric>(
    fabrics: Vec<Rc<F>>,
    config: &NetTunables,
    seed: u64,
    each: u32,
    length: impl Fn(u32) -> usize,
) -> Vec<Process<F>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = move |most: u64| {
        // xorshift64* (Vigna 2016).
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % most
    };
    let mut until = vec![0; fabrics.len()];
    exchange(
        fabrics,
        config,
        (Taking::AtOnce, 0, false),
        each,
        length,
        move |round, me| {
            let until = &mut until[me as usize];
            if round < *until {
                return false;
            }
            if draw(8) == 0 {
                let most = 1 << draw(8);
                *until = round + 1 + draw(most);
            }
            true
        },
    )
}

fn exchange<F: Fabric>(
    fabrics: Vec<Rc<F>>,
    config: &NetTunables,
    (way, cut, hasty): (Taking, usize, bool),
    each: u32,
    length: impl Fn(u32) -> usize,
    mut has_turn: impl FnMut(u64, u32) -> bool,
) -> Vec<Process<F>> {
    let size = fabrics.len() as u32;
    let mut processes: Vec<Process<F>> = fabrics
        .into_iter()
        .map(|fabric| Process::new(fabric, config, way))
        .collect();
    for process in &mut processes {
        (process.upper.cut, process.hasty) = (cut, hasty);
    }
    let seed = |from: u32, to: u32, channel: Channel, number: u32| {
        (u64::from(from) << 48 | u64::from(to) << 40 | u64::from(number)) * 2 + channel as u64
    };
    let mut next = vec![[0u32; 2]; (size * size) as usize];
    let wanted = (each * 2 * (size - 1)) as usize;
    for round in 0u64.. {
        assert!(
            round < 3_000_000,
            "nothing moves any more: {:?}",
            stuck(&processes, &next)
        );
        for me in 0..size {
            if !has_turn(round, me) {
                continue;
            }
            for to in (0..size).filter(|to| *to != me) {
                for channel in [Channel::Answer, Channel::Request] {
                    let number = &mut next[(me * size + to) as usize][channel as usize];
                    if *number < each {
                        let body = pattern(seed(me, to, channel, *number), length(*number));
                        let header = header(me, to, channel, *number);
                        *number += u32::from(processes[me as usize].send(to, channel, &header, &body));
                    }
                }
            }
            processes[me as usize].turn();
        }
        if processes
            .iter()
            .all(|p| p.upper.came.len() == wanted && p.settled())
        {
            break;
        }
    }
    for (me, process) in processes.iter().enumerate() {
        for from in (0..size).filter(|from| *from as usize != me) {
            for channel in [Channel::Answer, Channel::Request] {
                let mut expected = 0;
                for came in process.upper.came.iter().filter(|came| {
                    came.from == Peer(from) && came.header[8..12] == (channel as u32).to_le_bytes()
                }) {
                    assert_eq!(came.header, header(from, me as u32, channel, expected), "order");
                    let body = pattern(seed(from, me as u32, channel, expected), length(expected));
                    assert_eq!(came.length, body.len() as u64);
                    assert_eq!(came.outcome, Some(Outcome::Done));
                    let kept = match way {
                        Taking::Discard => &[][..],
                        Taking::Half => &body[..body.len() / 2],
                        _ => &body[..],
                    };
                    assert_eq!(came.body, kept, "message {expected} of {from} to {me}");
                    expected += 1;
                }
                assert_eq!(expected, each, "messages of {from} to {me}");
            }
        }
    }
    processes
}

/// What everybody has done, for the sentence that says that nothing moves any more.
pub fn stuck<F: Fabric>(processes: &[Process<F>], next: &[[u32; 2]]) -> String {
    let one = |p: &Process<F>| {
        let open = p.upper.came.iter().filter(|came| came.outcome.is_none()).count();
        format!(
            "\n{} came, {open} of them open, {} to be sent, {:?}",
            p.upper.came.len(),
            p.bodies.len(),
            p.net.figures()
        )
    };
    format!("{next:?}{}", processes.iter().map(one).collect::<String>())
}
