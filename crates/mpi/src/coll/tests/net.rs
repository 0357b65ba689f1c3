//! The network of the tests: pairs are in order, everything else happens when the seed says so. Long messages
//! are read from the sender's memory at some time between their match and their completion, so that reusing a
//! buffer too early is seen.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use crate::buffer::{RecvBuf, SendBuf};
use crate::coll::{Lane, Schedule, Transport};
use crate::{Error, ErrorClass, Rank, Result};

/// A small generator (splitmix64): the seed is the test's name for a run.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

type Place = (usize, usize);

enum Data {
    /// Copied when sent.
    Here(Vec<u8>),
    /// Still in the sender's memory.
    There(SendBuf),
}

struct Message {
    from: Place,
    lane: Lane,
    tag: i32,
    data: Data,
    req: usize,
}

struct Posted {
    from: Place,
    lane: Lane,
    tag: i32,
    buf: RecvBuf,
    req: usize,
}

struct NetState {
    rng: Rng,
    flying: BTreeMap<(Place, Place), VecDeque<Message>>,
    posted: BTreeMap<Place, Vec<Posted>>,
    waiting: BTreeMap<Place, Vec<Message>>,
    matched: Vec<(Message, Posted)>,
    done: Vec<Option<Result<()>>>,
    events: u64,
    /// Rank to rank of the first group, bytes: every message.
    sent: Vec<(usize, usize, u64)>,
}

pub(super) struct Net {
    sizes: [usize; 2],
    state: RefCell<NetState>,
}

/// One rank's view of the network.
pub(super) struct Port<'a> {
    net: &'a Net,
    me: Place,
}

impl<'a> Port<'a> {
    pub(super) fn new(net: &'a Net, group: usize, rank: usize) -> Self {
        Self {
            net,
            me: (group, rank),
        }
    }

    fn place(&self, lane: Lane, rank: Rank) -> Place {
        let group = if lane == Lane::Local {
            self.me.0
        } else {
            1 - self.me.0
        };
        assert!(
            (rank as usize) < self.net.sizes[group],
            "{:?} talks to {lane:?} rank {rank}, which does not exist",
            self.me
        );
        (group, rank as usize)
    }
}

impl Transport for Port<'_> {
    type Req = usize;

    fn rank(&self) -> usize {
        self.me.1
    }

    fn size(&self) -> usize {
        self.net.sizes[self.me.0]
    }

    fn remote_size(&self) -> usize {
        self.net.sizes[1 - self.me.0]
    }

    fn isend(&self, lane: Lane, buf: SendBuf, dest: Rank, tag: i32) -> Result<usize> {
        let to = self.place(lane, dest);
        assert_ne!(to, self.me, "a rank sends to itself");
        let mut state = self.net.state.borrow_mut();
        let req = state.done.len();
        let eager = state.rng.below(2) == 0;
        state.done.push(eager.then_some(Ok(())));
        state.events += 1;
        if self.me.0 == 0 && to.0 == 0 {
            state.sent.push((self.me.1, to.1, buf.bytes()));
        }
        let data = if eager {
            Data::Here(bytes_of(&buf))
        } else {
            Data::There(buf)
        };
        let message = Message {
            from: self.me,
            lane,
            tag,
            data,
            req,
        };
        state.flying.entry((self.me, to)).or_default().push_back(message);
        Ok(req)
    }

    fn irecv(&self, lane: Lane, buf: RecvBuf, src: Rank, tag: i32) -> Result<usize> {
        let from = self.place(lane, src);
        let mut state = self.net.state.borrow_mut();
        let req = state.done.len();
        state.done.push(None);
        state.events += 1;
        let posted = Posted {
            from,
            lane,
            tag,
            buf,
            req,
        };
        let waiting = state.waiting.entry(self.me).or_default();
        match waiting.iter().position(|m| fits(m, &posted)) {
            Some(i) => {
                let message = waiting.remove(i);
                state.matched.push((message, posted));
            }
            None => state.posted.entry(self.me).or_default().push(posted),
        }
        Ok(req)
    }

    fn test(&self, req: &mut usize) -> Result<bool> {
        match self.net.state.borrow_mut().done[*req].take() {
            None => Ok(false),
            Some(result) => result.map(|()| true),
        }
    }

    fn cancel(&self, req: usize) {
        let mut state = self.net.state.borrow_mut();
        for posted in state.posted.values_mut() {
            posted.retain(|p| p.req != req);
        }
        for flying in state.flying.values_mut() {
            flying.retain(|m| m.req != req);
        }
        for waiting in state.waiting.values_mut() {
            waiting.retain(|m| m.req != req);
        }
        state.matched.retain(|(m, p)| m.req != req && p.req != req);
    }
}

fn fits(message: &Message, posted: &Posted) -> bool {
    (message.from, message.lane, message.tag) == (posted.from, posted.lane, posted.tag)
}

fn bytes_of(buf: &SendBuf) -> Vec<u8> {
    let mut bytes = vec![0; buf.bytes() as usize];
    assert_eq!(buf.pack(0, &mut bytes), bytes.len());
    bytes
}

impl Net {
    pub(super) fn new(sizes: [usize; 2], seed: u64) -> Self {
        Self {
            sizes,
            state: RefCell::new(NetState {
                rng: Rng::new(seed),
                flying: BTreeMap::new(),
                posted: BTreeMap::new(),
                waiting: BTreeMap::new(),
                matched: Vec::new(),
                done: Vec::new(),
                events: 0,
                sent: Vec::new(),
            }),
        }
    }

    /// One thing happens: a message arrives, or the data of a matched one moves.
    pub(super) fn step(&self) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.flying.retain(|_, queue| !queue.is_empty());
        let choices = state.flying.len() + state.matched.len();
        if choices == 0 {
            return;
        }
        state.events += 1;
        let choice = state.rng.below(choices);
        if let Some((&(from, to), _)) = state.flying.iter().nth(choice) {
            let message = state
                .flying
                .get_mut(&(from, to))
                .and_then(VecDeque::pop_front)
                .expect("empty queues are gone");
            let posted = state.posted.entry(to).or_default();
            match posted.iter().position(|p| fits(&message, p)) {
                Some(i) => {
                    let posted = posted.remove(i);
                    state.matched.push((message, posted));
                }
                None => state.waiting.entry(to).or_default().push(message),
            }
            return;
        }
        let (message, posted) = state.matched.swap_remove(choice - state.flying.len());
        let bytes = match &message.data {
            Data::Here(bytes) => bytes.clone(),
            Data::There(buf) => {
                state.done[message.req] = Some(Ok(()));
                bytes_of(buf)
            }
        };
        let room = posted.buf.bytes() as usize;
        posted.buf.unpack(0, &bytes[..bytes.len().min(room)]);
        let result = if bytes.len() == room {
            Ok(())
        } else {
            let text = format!("{} bytes from {:?}, room for {room}", bytes.len(), message.from);
            Err(Error::new(ErrorClass::ERR_TRUNCATE, text))
        };
        state.done[posted.req] = Some(result);
    }

    /// Advance all schedules until all are complete; returns each one's result.
    pub(super) fn outcome(&self, schedules: &mut [Schedule<usize>], ports: &[Port<'_>]) -> Vec<Result<()>> {
        let mut results: Vec<Option<Result<()>>> = schedules.iter().map(|_| None).collect();
        while results.iter().any(Option::is_none) {
            let before = self.state.borrow().events;
            let finished = results.iter().flatten().count();
            for i in 0..schedules.len() {
                // Some ranks are late.
                let late = self.state.borrow_mut().rng.below(3) == 0;
                if results[i].is_some() || late {
                    continue;
                }
                results[i] = match schedules[i].advance(&ports[i]) {
                    Ok(true) => Some(Ok(())),
                    Ok(false) => None,
                    Err(error) => Some(Err(error)),
                };
            }
            let steps = self.state.borrow_mut().rng.below(2 * schedules.len() + 2);
            for _ in 0..steps {
                self.step();
            }
            let moved = self.state.borrow().events > before || results.iter().flatten().count() > finished;
            if !moved && self.is_stuck(schedules, ports, &mut results) {
                panic!("the ranks wait for each other; done: {results:?}");
            }
        }
        results.into_iter().flatten().collect()
    }

    /// Nothing moves even when everybody is asked and everything delivered?
    fn is_stuck(
        &self,
        schedules: &mut [Schedule<usize>],
        ports: &[Port<'_>],
        results: &mut [Option<Result<()>>],
    ) -> bool {
        let before = self.state.borrow().events;
        let mut finished = false;
        for (i, result) in results.iter_mut().enumerate() {
            if result.is_none() {
                *result = match schedules[i].advance(&ports[i]) {
                    Ok(true) => Some(Ok(())),
                    Ok(false) => None,
                    Err(error) => Some(Err(error)),
                };
                finished |= result.is_some();
            }
        }
        self.step();
        !finished && self.state.borrow().events == before
    }

    /// Every message within the first group: from, to, bytes.
    pub(super) fn sent(&self) -> Vec<(usize, usize, u64)> {
        self.state.borrow().sent.clone()
    }

    /// Receives posted and not matched.
    pub(super) fn waiting_receives(&self) -> usize {
        self.state.borrow().posted.values().map(Vec::len).sum()
    }

    /// As [`Net::outcome`]; all must succeed, and nothing may be left over.
    pub(super) fn run(&self, schedules: &mut [Schedule<usize>], ports: Vec<Port<'_>>) {
        for (i, result) in self.outcome(schedules, &ports).into_iter().enumerate() {
            assert_eq!(result, Ok(()), "rank {i} of all");
        }
        let state = self.state.borrow();
        assert!(
            state.flying.values().all(VecDeque::is_empty),
            "messages nobody waits for"
        );
        assert!(
            state.waiting.values().all(Vec::is_empty),
            "messages nobody received"
        );
        assert!(
            state.posted.values().all(Vec::is_empty),
            "receives nobody sent to"
        );
        assert!(state.matched.is_empty(), "messages half received");
    }
}
