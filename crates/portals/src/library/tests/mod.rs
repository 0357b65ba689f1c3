//! Libraries of several processes, and a network that is a function call. No byte is moved: addresses are made up.

mod at_once;
mod codes;
mod events;
mod life_cycle;
mod lists;
mod many;
mod model;
mod pitfalls;
mod random;
mod rules;
mod wire;
mod without_body;

use super::*;
use crate::types::EventKind::{
    Ack, GetEnd, GetPutEnd, GetPutStart, GetStart, PutEnd, PutStart, ReplyEnd, ReplyStart, SendEnd, SendStart,
};
use crate::types::*;

const UNLINK: EventKind = EventKind::Unlink;

const UID: u32 = 1000;
const JID: u32 = 77;

/// All bits count.
const EXACT: u64 = 0;
/// No bit counts.
const NO_BITS: u64 = u64::MAX;

/// Seeds of a test that makes its cases from them; `FARPOST_TEST_SEEDS` multiplies how many there are.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let times = std::env::var("FARPOST_TEST_SEEDS").map_or(Ok(1), |times| times.parse());
    0..count * times.unwrap_or_else(|error| panic!("FARPOST_TEST_SEEDS: {error}"))
}

/// Operations that are under way as soon as they are prepared.
impl Library {
    pub fn put(
        &mut self,
        md: Handle,
        region: Option<(u64, u64)>,
        ack: AckReq,
        target: &Target,
        hdr_data: u64,
    ) -> Result<Outgoing, Error> {
        let message = self.prepare_put(md, region, ack, target, hdr_data)?;
        self.started(message.token);
        Ok(message)
    }

    pub fn get_put(
        &mut self,
        get_md: Handle,
        put_md: Handle,
        target: &Target,
        hdr_data: u64,
    ) -> Result<Outgoing, Error> {
        let message = self.prepare_get_put(get_md, put_md, target, hdr_data)?;
        self.started(message.token);
        Ok(message)
    }
}

struct World {
    ends: Vec<Library>,
}

fn id(n: u32) -> ProcessId {
    ProcessId::new(n / 2, n % 2)
}

/// Two processes to a node.
fn processes(size: u32) -> Rc<Processes> {
    let identity = |n| Identity {
        id: id(n),
        uid: UID,
        jid: JID,
    };
    Rc::new(Processes::new((0..size).map(identity).collect()))
}

fn library(me: u32, processes: &Rc<Processes>, desired: Option<&Limits>) -> Library {
    Library::new(0, 0, me, Rc::clone(processes), desired).expect("a library")
}

fn world(size: u32) -> World {
    let processes = processes(size);
    World {
        ends: (0..size).map(|n| library(n, &processes, None)).collect(),
    }
}

/// A descriptor of `length` bytes at 0x1000, with threshold infinite.
fn md(length: u64, options: u32, eq: Handle) -> Md {
    Md {
        start: 0x1000,
        length,
        threshold: THRESHOLD_INFINITE,
        max_size: 0,
        options,
        user_ptr: 0xabc,
        eq_handle: eq,
    }
}

fn with_threshold(threshold: i32, md: Md) -> Md {
    Md { threshold, ..md }
}

fn target(n: u32, match_bits: u64) -> Target {
    Target {
        id: id(n),
        pt_index: 3,
        ac_index: 0,
        match_bits,
        offset: 0,
    }
}

impl Library {
    fn queue(&mut self) -> Handle {
        self.eq_alloc(256, false)
            .expect("a queue")
            .expect("more than no events")
    }

    /// An entry at the tail of portal 3 with a descriptor.
    fn post(&mut self, bits: u64, md: Md, unlink: Unlink) -> (Handle, Handle) {
        let me = self
            .me_attach(3, ProcessId::ANY, (bits, EXACT), unlink, Position::After)
            .expect("an entry");
        (me, self.md_attach(me, md, None, unlink).expect("a descriptor"))
    }

    fn events(&mut self, eq: Handle) -> Vec<Event> {
        let mut events = Vec::new();
        while let Ok(taken) = self.eq_get(eq) {
            assert!(!taken.dropped, "events were lost");
            events.push(taken.event);
        }
        assert_eq!(self.eq_get(eq), Err(Error::EqEmpty));
        events
    }

    fn kinds(&mut self, eq: Handle) -> Vec<EventKind> {
        self.events(eq).iter().map(|e| e.kind).collect()
    }

    /// A put without ack of all of `md`.
    fn send(&mut self, md: Handle, target: &Target) -> Outgoing {
        self.put(md, None, AckReq::NoAck, target, 0).expect("a put")
    }
}

impl World {
    /// Carry a message to where it goes, and everything that follows from it, in the natural order.
    fn carry(&mut self, from: u32, message: Outgoing) {
        let to = message.to;
        let length = message.body.len() as u64;
        let verdict = self.ends[to as usize].incoming(from, &message.header, length);
        self.ended(from, message.token, NiFail::OK);
        self.obey(to, verdict);
    }

    fn ended(&mut self, at: u32, token: u64, outcome: NiFail) {
        if let Some(answer) = self.ends[at as usize].finished(token, outcome) {
            self.carry(at, answer);
        }
    }

    /// Do what a verdict says.
    fn obey(&mut self, at: u32, verdict: Verdict) {
        match verdict {
            Verdict::Drop { answer: None, .. } | Verdict::Done => {}
            Verdict::Drop {
                answer: Some(message),
                ..
            }
            | Verdict::Reply(message) => self.carry(at, message),
            Verdict::Store { token, keep, into } => {
                assert_eq!(keep, into.len() as u64);
                self.ended(at, token, NiFail::OK);
            }
            Verdict::Swap { token, keep, with } => {
                assert_eq!(keep, with.len() as u64);
                let old = Segments::one(0x9000, keep as usize);
                let reply = self.ends[at as usize].swapped(token, old).expect("a reply");
                self.carry(at, reply);
            }
        }
    }

    /// Process `from` puts `length` bytes to `target`.
    fn put(&mut self, from: u32, length: u64, ack: AckReq, target: &Target) {
        let end = &mut self.ends[from as usize];
        let source = end
            .md_bind(md(length, 0, Handle::EQ_NONE), None, Unlink::Retain)
            .expect("a descriptor");
        let message = end.put(source, None, ack, target, 5).expect("a put");
        self.carry(from, message);
        self.ends[from as usize]
            .md_unlink(source)
            .expect("nothing is in progress");
    }

    fn dropped(&self, at: u32, reason: DropReason) -> u64 {
        self.ends[at as usize].drops().of(reason)
    }

    /// Nothing is in progress anywhere.
    fn at_rest(&self) -> bool {
        self.ends.iter().all(|end| end.operations() == 0)
    }
}
