//! Many processes that put, get and swap at random over a network that delays: what each initiator and each target is told,
//! and in which order. Of order the document promises one thing (section 5): START events at a target come in the order in
//! which the initiator began. ENDs, acknowledgements and replies come in any.

use super::*;
use crate::types::option::*;
use std::collections::{BTreeMap, VecDeque};

const SIZE: u32 = 4;

/// One operation, named by the match bits of its request.
struct Begun {
    by: u32,
    to: u32,
    kind: MessageKind,
    acked: bool,
    length: u64,
    md: Handle,
    get_md: Handle,
}

struct Jungle {
    random: fastrand::Rng,
    w: World,
    /// Messages on their way, in order from one process to another on one channel.
    ways: BTreeMap<(u32, u32, bool), VecDeque<Outgoing>>,
    /// Tokens that wait for their bytes: whose, which.
    moving: Vec<(u32, u64)>,
    own: Vec<Handle>,
    queues: Vec<Handle>,
    begun: Vec<Begun>,
    seen: Vec<Vec<Event>>,
    arrived: Vec<Vec<Event>>,
}

impl Jungle {
    fn new(seed: u64) -> Self {
        let mut w = world(SIZE);
        let (mut own, mut queues) = (Vec::new(), Vec::new());
        for end in &mut w.ends {
            own.push(end.eq_alloc(1 << 12, false).unwrap().unwrap());
            let eq = end.eq_alloc(1 << 12, false).unwrap().unwrap();
            queues.push(eq);
            let both = OP_PUT | OP_GET | MANAGE_REMOTE;
            // Portal 0 takes all; 1 takes some and goes; 2 takes nothing; 3 shortens and does not acknowledge.
            for (portal, md, unlink) in [
                (0, md(100, both, eq), Unlink::Retain),
                (1, with_threshold(7, md(100, both, eq)), Unlink::Unlink),
                (3, md(20, both | TRUNCATE | ACK_DISABLE, eq), Unlink::Retain),
            ] {
                let me = end.me_attach(portal, ProcessId::ANY, (0, NO_BITS), unlink, Position::After);
                end.md_attach(me.unwrap(), md, None, unlink).unwrap();
            }
        }
        Self {
            random: fastrand::Rng::with_seed(seed),
            w,
            ways: BTreeMap::new(),
            moving: Vec::new(),
            own,
            queues,
            begun: Vec::new(),
            seen: vec![Vec::new(); SIZE as usize],
            arrived: vec![Vec::new(); SIZE as usize],
        }
    }

    fn post(&mut self, from: u32, message: Outgoing) {
        let request = matches!(message.header[0], 1 | 2 | 4);
        self.ways
            .entry((from, message.to, request))
            .or_default()
            .push_back(message);
    }

    /// A new operation with descriptors that last exactly for it.
    fn begin(&mut self) {
        let (by, to) = (self.random.u32(0..SIZE), self.random.u32(0..SIZE));
        let kind = [MessageKind::Put, MessageKind::Get, MessageKind::GetPut][self.random.usize(0..3)];
        let length = self.random.u64(0..50);
        let acked = self.random.bool();
        let name = self.begun.len() as u64;
        let target = Target {
            pt_index: self.random.u32(0..4),
            ..target(to, name)
        };
        let (eq, end) = (self.own[by as usize], &mut self.w.ends[by as usize]);
        let mut bind = |threshold| {
            let md = Md {
                user_ptr: name as usize,
                ..with_threshold(threshold, md(length, 0, eq))
            };
            end.md_bind(md, None, Unlink::Unlink).unwrap()
        };
        let (md, get_md) = match kind {
            MessageKind::Put => (bind(1 + i32::from(acked)), Handle::INVALID),
            MessageKind::Get => (Handle::INVALID, bind(1)),
            _ => (bind(1), bind(1)),
        };
        let ack = if acked { AckReq::Ack } else { AckReq::NoAck };
        let message = match kind {
            MessageKind::Put => end.put(md, None, ack, &target, name),
            MessageKind::Get => end.get(get_md, None, &target),
            _ => end.get_put(get_md, md, &target, name),
        };
        self.post(by, message.expect("an operation"));
        self.begun.push(Begun {
            by,
            to,
            kind,
            acked,
            length,
            md,
            get_md,
        });
    }

    /// The next message of some way arrives.
    fn arrive(&mut self) {
        let ways: Vec<_> = self
            .ways
            .iter()
            .filter(|(_, way)| !way.is_empty())
            .map(|(key, _)| *key)
            .collect();
        if ways.is_empty() {
            return;
        }
        let key = ways[self.random.usize(0..ways.len())];
        let message = self.ways.get_mut(&key).and_then(VecDeque::pop_front).unwrap();
        let (from, at, _) = key;
        let verdict = self.w.ends[at as usize].incoming(from, &message.header, message.body.len() as u64);
        // The sender's memory is free at any time from now on.
        self.moving.push((from, message.token));
        match verdict {
            Verdict::Done | Verdict::Drop { answer: None, .. } => {}
            Verdict::Drop {
                answer: Some(answer), ..
            }
            | Verdict::Reply(answer) => self.post(at, answer),
            Verdict::Store { token, .. } => self.moving.push((at, token)),
            Verdict::Swap { token, keep, .. } => {
                let old = Segments::one(0x9000, keep as usize);
                let reply = self.w.ends[at as usize].swapped(token, old).unwrap();
                self.post(at, reply);
            }
        }
    }

    fn finish(&mut self) {
        if self.moving.is_empty() {
            return;
        }
        let (at, token) = self.moving.swap_remove(self.random.usize(0..self.moving.len()));
        if let Some(answer) = self.w.ends[at as usize].finished(token, NiFail::OK) {
            self.post(at, answer);
        }
    }

    fn read(&mut self) {
        for at in 0..SIZE as usize {
            let own = self.w.ends[at].events(self.own[at]);
            self.seen[at].extend(own);
            let arrived = self.w.ends[at].events(self.queues[at]);
            self.arrived[at].extend(arrived);
        }
    }

    fn run(&mut self, operations: usize) {
        while self.begun.len() < operations
            || !self.moving.is_empty()
            || self.ways.values().any(|w| !w.is_empty())
        {
            match self.random.u32(0..5) {
                0 | 1 if self.begun.len() < operations => self.begin(),
                0..=2 => self.arrive(),
                3 => self.finish(),
                _ => self.read(),
            }
        }
        self.read();
    }

    /// What a target was told of one operation: its START and END.
    fn at_target(&self, name: u64) -> Option<(Event, Event)> {
        let to = self.begun[name as usize].to as usize;
        let of: Vec<&Event> = self.arrived[to]
            .iter()
            .filter(|e| e.match_bits == name && e.kind != UNLINK)
            .collect();
        match of[..] {
            [] => None,
            [start, end] => Some((*start, *end)),
            _ => panic!("operation {name}: {of:?}"),
        }
    }
}

#[test]
fn everybody_is_told_what_happened_and_no_more() {
    for seed in seeds(60) {
        let mut jungle = Jungle::new(seed);
        jungle.run(150);
        assert!(jungle.w.at_rest(), "seed {seed}");
        let mut accepted = vec![0; SIZE as usize];
        let mut dropped = vec![0; SIZE as usize];
        for (name, begun) in jungle.begun.iter().enumerate() {
            let place = format!("seed {seed}, operation {name}");
            let there = jungle.at_target(name as u64);
            let own = &jungle.seen[begun.by as usize];
            let kinds = |md: Handle| {
                let of = own.iter().filter(|e| e.md_handle == md && e.md.user_ptr == name);
                of.map(|e| e.kind).collect::<Vec<_>>()
            };
            let mut expected = vec![SendStart, SendEnd];
            match there {
                Some((start, end)) => {
                    accepted[begun.to as usize] += 1;
                    let pair = match begun.kind {
                        MessageKind::Put => (PutStart, PutEnd),
                        MessageKind::Get => (GetStart, GetEnd),
                        _ => (GetPutStart, GetPutEnd),
                    };
                    assert_eq!((start.kind, end.kind), pair, "{place}");
                    assert_eq!((start.link, start.initiator), (end.link, id(begun.by)), "{place}");
                    assert_eq!(end.rlength, begun.length, "{place}");
                    assert!(end.mlength == begun.length || start.pt_index == 3, "{place}");
                }
                None => dropped[begun.to as usize] += 1,
            }
            let acknowledged = there.filter(|(start, _)| start.pt_index != 3);
            let (put, get) = (begun.kind != MessageKind::Get, begun.kind != MessageKind::Put);
            if begun.kind == MessageKind::Put
                && begun.acked
                && let Some((_, end)) = acknowledged
            {
                // Nothing is acknowledged that is not in place.
                expected.push(Ack);
                let ack = own
                    .iter()
                    .find(|e| e.md_handle == begun.md && e.kind == Ack && e.md.user_ptr == name);
                assert_eq!(
                    ack.map(|a| (a.mlength, a.offset)),
                    Some((end.mlength, end.offset)),
                    "{place}"
                );
            }
            // The descriptor of a put whose acknowledgement does not come stays, with one operation left.
            if begun.kind != MessageKind::Put || !begun.acked || expected.len() == 3 {
                expected.push(UNLINK);
            }
            if put {
                assert_eq!(kinds(begun.md), expected, "{place}");
            }
            if get {
                let expected: &[EventKind] = match there {
                    Some(_) => &[ReplyStart, ReplyEnd, UNLINK],
                    None => &[],
                };
                assert_eq!(kinds(begun.get_md), expected, "{place}");
            }
        }
        for at in 0..SIZE as usize {
            assert_eq!(jungle.w.ends[at].drops().total(), dropped[at], "seed {seed}");
            assert_eq!(
                jungle.w.dropped(at as u32, DropReason::NoMatch),
                dropped[at],
                "seed {seed}"
            );
            assert!(accepted[at] > 0 && dropped[at] > 0);
            // Section 5: STARTs here are in the order of the initiator's, for each initiator.
            for from in 0..SIZE {
                let starts = jungle.arrived[at].iter().filter(|e| {
                    matches!(e.kind, PutStart | GetStart | GetPutStart) && e.initiator == id(from)
                });
                assert!(
                    starts.is_sorted_by_key(|e| e.match_bits),
                    "seed {seed}, {from} to {at}"
                );
            }
        }
    }
}
