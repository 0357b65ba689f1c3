//! The library against `model.rs`: random objects, updates and messages from seeds, with operations in progress for any time.

use super::model::{Descriptor, Entry, Flight, Link, Model};
use super::*;
use crate::memory::Segment;
use crate::types::option::*;
use std::collections::BTreeMap;

const PORTALS: usize = 3;
const ACCESS: usize = 4;
const LIMITS: Limits = Limits {
    max_mes: 20,
    max_mds: 16,
    max_eqs: 2,
    max_ac_index: ACCESS as i32 - 1,
    max_pt_index: PORTALS as i32 - 1,
    max_md_iovecs: 4,
    max_me_list: 10,
    max_getput_md: 40,
};

/// Everybody different in something.
fn crowd() -> Vec<Identity> {
    let identity = |n: u32, uid, jid| Identity { id: id(n), uid, jid };
    vec![
        identity(0, 1000, 7),
        identity(1, 1000, 7),
        identity(2, 1000, 8),
        identity(3, 1001, 8),
    ]
}

struct Run {
    random: fastrand::Rng,
    end: Library,
    model: Model,
    queues: [Handle; 2],
    flights: Vec<Flight>,
    /// Operations by their link, while events of them may come.
    links: BTreeMap<u32, u64>,
    /// Names of what has gone.
    gone: Vec<Handle>,
    place: String,
}

impl Run {
    fn new(seed: u64) -> Self {
        let who = crowd();
        let processes = Rc::new(Processes::new(who.clone()));
        let mut end = Library::new(0, seed as u32, 0, processes, Some(&LIMITS)).unwrap();
        let mut model = Model::new(who, 0, PORTALS, ACCESS, 40);
        let queues = [0, 1].map(|_| {
            let eq = end.eq_alloc(512, false).unwrap().unwrap();
            model.queues.insert(eq.0, Default::default());
            eq
        });
        assert_eq!(end.eq_alloc(2, false), Err(Error::NoSpace));
        Self {
            random: fastrand::Rng::with_seed(seed),
            end,
            model,
            queues,
            flights: Vec::new(),
            links: BTreeMap::new(),
            gone: Vec::new(),
            place: String::new(),
        }
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.usize(0..of.len())]
    }

    fn id(&mut self) -> ProcessId {
        // Also somebody who does not exist.
        let someone = id(self.random.u32(0..4));
        let pid = self.pick(&[ANY, someone.pid, someone.pid, 9]);
        let nid = self.pick(&[ANY, ANY, someone.nid]);
        ProcessId::new(nid, if pid == 9 && self.random.bool() { ANY } else { pid })
    }

    fn exists(&self, id: ProcessId) -> bool {
        self.model
            .who
            .iter()
            .any(|who| (id.nid == ANY || id.nid == who.id.nid) && (id.pid == ANY || id.pid == who.id.pid))
    }

    fn unlink(&mut self) -> Unlink {
        self.pick(&[Unlink::Retain, Unlink::Unlink])
    }

    /// Few different bits, so that much matches, and now and then all of them.
    fn bits(&mut self) -> u64 {
        self.random.u64(0..4) | self.pick(&[0, 0, 0, 1 << 63])
    }

    fn ignore(&mut self) -> u64 {
        let some = self.random.u64(0..4) & self.random.u64(0..4);
        self.pick(&[some, some, some | 1 << 63, u64::MAX])
    }

    fn md(&mut self) -> (Md, Iovec, Vec<usize>) {
        let mut options = 0;
        for option in [
            MANAGE_REMOTE,
            TRUNCATE,
            MAX_SIZE,
            ACK_DISABLE,
            IOVEC,
            EVENT_START_DISABLE,
            EVENT_END_DISABLE,
        ] {
            options |= self.pick(&[0, 0, option]);
        }
        options |= self.pick(&[OP_PUT, OP_GET, OP_PUT | OP_GET, OP_PUT | OP_GET, 0]);
        let eq_handle = self.pick(&[self.queues[0], self.queues[0], self.queues[1], Handle::EQ_NONE]);
        let mut md = Md {
            max_size: self.pick(&[0, 1, 10, 60, 1000, u64::MAX]),
            user_ptr: self.random.usize(..),
            threshold: self.pick(&[-1, -1, 0, 1, 2, 5, i32::MAX]),
            ..md(self.random.u64(0..80), options, eq_handle)
        };
        if options & IOVEC == 0 {
            let bytes = (md.start..md.start + md.length as usize).collect();
            return (md, None, bytes);
        }
        let pieces = self.random.usize(0..=4);
        let list: Vec<Segment> = (0..pieces)
            .map(|n| Segment {
                address: 0x10000 * (n + 1),
                len: self.random.usize(0..30),
            })
            .collect();
        md.length = pieces as u64;
        let bytes = list.iter().flat_map(|s| s.address..s.address + s.len).collect();
        (md, Some(list.into()), bytes)
    }

    fn entry(&mut self) -> Option<Handle> {
        let all: Vec<Handle> = self
            .model
            .portals
            .iter()
            .flatten()
            .map(|entry| entry.me)
            .collect();
        (!all.is_empty()).then(|| self.pick(&all))
    }

    fn descriptor(&mut self) -> Option<Handle> {
        let all: Vec<Handle> = self.model.mds.keys().map(|md| Handle(*md)).collect();
        (!all.is_empty()).then(|| self.pick(&all))
    }

    /// A match entry, often with a descriptor.
    fn attach(&mut self) {
        let (who, bits, ignore, unlink) = (self.id(), self.bits(), self.ignore(), self.unlink());
        let position = self.pick(&[Position::Before, Position::After]);
        let base = self.entry().filter(|_| self.random.bool());
        let any = base.is_none() && self.random.u32(0..8) == 0;
        let (made, portal, at) = match base {
            Some(base) => {
                let (portal, at) = self.model.find(base).unwrap();
                let made = self.end.me_insert(base, who, (bits, ignore), unlink, position);
                (made, portal, at + usize::from(position == Position::After))
            }
            None if any => {
                let full = self.model.portals.iter().all(|list| !list.is_empty());
                match self.end.me_attach_any(who, (bits, ignore), unlink) {
                    Err(Error::PtFull) => return assert!(full, "{}", self.place),
                    Ok((portal, me)) => (Ok(me), portal as usize, 0),
                    Err(error) => (Err(error), PORTALS - 1, 0),
                }
            }
            None => {
                let portal = self.random.usize(0..PORTALS + 1);
                let made = self
                    .end
                    .me_attach(portal as u32, who, (bits, ignore), unlink, position);
                if portal == PORTALS {
                    return assert_eq!(made, Err(Error::PtIndexInvalid), "{}", self.place);
                }
                let tail = self.model.portals[portal].len();
                (made, portal, if position == Position::Before { 0 } else { tail })
            }
        };
        let expected = if !self.exists(who) {
            Some(Error::ProcessInvalid)
        } else if !any && self.model.portals[portal].len() >= LIMITS.max_me_list as usize {
            Some(Error::MeListTooLong)
        } else if self.model.entries() >= LIMITS.max_mes as usize {
            Some(Error::NoSpace)
        } else {
            None
        };
        assert_eq!(made.err(), expected, "{}", self.place);
        let Ok(me) = made else { return };
        if any {
            assert!(self.model.portals[portal].is_empty(), "{}: in use", self.place);
        }
        let entry = Entry {
            me,
            id: who,
            bits,
            ignore,
            unlink,
            md: None,
        };
        self.model.portals[portal].insert(at, entry);
        if self.random.u32(0..6) > 0 {
            self.attach_md(me);
        }
    }

    fn attach_md(&mut self, me: Handle) {
        let (md, iovec, bytes) = self.md();
        let unlink = self.unlink();
        let made = self.end.md_attach(me, md, iovec, unlink);
        let (portal, at) = self.model.find(me).unwrap();
        let expected = if self.model.portals[portal][at].md.is_some() {
            Some(Error::MeInUse)
        } else if self.model.mds.len() >= LIMITS.max_mds as usize {
            Some(Error::NoSpace)
        } else {
            None
        };
        assert_eq!(made.err(), expected, "{}", self.place);
        if let Ok(made) = made {
            self.model.portals[portal][at].md = Some(made);
            self.model.mds.insert(made.0, Descriptor::new(md, bytes, unlink));
        }
    }

    fn unlink_entry(&mut self, me: Handle) {
        let (portal, at) = self.model.find(me).unwrap();
        let md = self.model.portals[portal][at].md;
        let busy = md.is_some_and(|md| self.model.mds[&md.0].pending > 0);
        let expected = if busy { Err(Error::MeInUse) } else { Ok(()) };
        assert_eq!(self.end.me_unlink(me), expected, "{}", self.place);
        if !busy {
            self.model.portals[portal].remove(at);
            self.gone.push(me);
            if let Some(md) = md {
                self.model.mds.remove(&md.0);
                self.gone.push(md);
            }
        }
    }

    fn unlink_md(&mut self, md: Handle) {
        let busy = self.model.mds[&md.0].pending > 0;
        let expected = if busy { Err(Error::MdInUse) } else { Ok(()) };
        assert_eq!(self.end.md_unlink(md), expected, "{}", self.place);
        if !busy {
            self.model.release(md);
            self.gone.push(md);
        }
    }

    fn update(&mut self, handle: Handle) {
        let (new, iovec, bytes) = self.md();
        let testq = self.pick(&[Handle::EQ_NONE, self.queues[0], self.queues[1]]);
        let known = &self.model.mds[&handle.0];
        let quiet = self
            .model
            .queues
            .get(&testq.0)
            .is_none_or(|queue| queue.told.is_empty() && queue.pending == 0);
        let expected = if quiet && known.pending == 0 {
            Ok(())
        } else {
            Err(Error::MdNoUpdate)
        };
        let mut old = md(0, 0, Handle::EQ_NONE);
        let updated = self
            .end
            .md_update(handle, Some(&mut old), Some((new, iovec)), testq);
        assert_eq!((updated, old), (expected, known.md), "{}", self.place);
        if updated.is_ok() {
            let unlink = known.unlink;
            self.model
                .mds
                .insert(handle.0, Descriptor::new(new, bytes, unlink));
        }
    }

    fn access(&mut self) {
        let index = self.random.usize(0..ACCESS + 1);
        let entry = AccessEntry {
            id: self.id(),
            uid: self.pick(&[ANY, ANY, 1000, 1001]),
            jid: self.pick(&[ANY, ANY, 7, 8]),
            pt_index: self.pick(&[ANY, ANY, 0, 1, PORTALS as u32 - 1, PORTALS as u32]),
        };
        let expected = if index >= ACCESS {
            Err(Error::AcIndexInvalid)
        } else if entry.pt_index == PORTALS as u32 {
            Err(Error::PtIndexInvalid)
        } else if !self.exists(entry.id) {
            Err(Error::ProcessInvalid)
        } else {
            Ok(())
        };
        assert_eq!(self.end.ac_entry(index as u32, entry), expected, "{}", self.place);
        if expected.is_ok() {
            self.model.access[index] = entry;
        }
    }

    fn word(&mut self) -> u64 {
        let some = self.random.u64(0..90);
        self.pick(&[some, some, some, some, 0, 1 << 63, u64::MAX - 1, u64::MAX])
    }

    fn message(&mut self) {
        let kind = self.pick(&[MessageKind::Put, MessageKind::Get, MessageKind::GetPut]);
        let header = Header {
            kind,
            pt_index: self.pick(&[0, 0, 1, 1, 2, PORTALS as u8, 255]),
            ac_index: self.pick(&[0, 0, 1, 2, 3, ACCESS as u8, 255]),
            interface: self.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7, 255]),
            operation: self.pick(&[5, 5, 5, 0, NO_ANSWER - 1, NO_ANSWER]),
            match_bits: self.bits(),
            offset: self.word(),
            data: self.word(),
        };
        let body = match kind {
            MessageKind::Get => self.pick(&[0, 0, 0, 0, 0, 1]),
            MessageKind::Put => self.word(),
            _ => self.pick(&[0, 8, 39, 40, 41, 64, 65]),
        };
        let from = self.pick(&[0, 1, 1, 2, 3, 3, 4]);
        let verdict = self.end.incoming(from, &header.encode(), body);
        let (token, kept, segments) = match (verdict, self.model.request(from, &header, body)) {
            (Verdict::Drop { reason, answer }, Err(expected)) => {
                assert_eq!(reason, expected, "{}: {header:?}", self.place);
                let read = header.operation != NO_ANSWER && expected != DropReason::Malformed && from < 4;
                // A get-put longer than any library sends was read before it was refused.
                let long = kind == MessageKind::GetPut && body > 64 && header.operation != NO_ANSWER;
                assert_eq!(
                    answer.is_some(),
                    read || long && from < 4,
                    "{}: {header:?}",
                    self.place
                );
                return;
            }
            (verdict, Ok(flight)) => {
                self.flights.push(flight);
                match verdict {
                    Verdict::Store { token, keep, into } => (token, keep as usize, into),
                    Verdict::Swap { token, keep, with } => (token, keep as usize, with),
                    Verdict::Reply(reply) => (reply.token, reply.body.len(), reply.body),
                    other => panic!("{}: {other:?} for {header:?}", self.place),
                }
            }
            (verdict, expected) => panic!("{}: {verdict:?}, not {:?}", self.place, expected.err()),
        };
        let flight = self.flights.last_mut().unwrap();
        flight.token = token;
        let bytes: Vec<usize> = segments
            .pieces()
            .flat_map(|p| p.address..p.address + p.len)
            .collect();
        let known = &self.model.mds[&flight.md.0];
        let expected = &known.bytes[flight.offset..flight.offset + flight.mlength];
        assert_eq!((kept, &bytes[..]), (flight.mlength, expected), "{}", self.place);
    }

    /// An operation in progress ends, well or not.
    fn end_one(&mut self) {
        if self.flights.is_empty() {
            return;
        }
        let flight = self.flights.swap_remove(self.random.usize(0..self.flights.len()));
        let outcome = self.pick(&[
            NiFail::OK,
            NiFail::OK,
            NiFail::OK,
            NiFail::FAIL,
            NiFail::UNDELIVERABLE,
        ]);
        let (mut reply, mut swapped) = (None, false);
        if flight.request.kind == MessageKind::GetPut && (outcome == NiFail::OK || self.random.bool()) {
            let old = Segments::one(0x9000, flight.mlength);
            reply = self.end.swapped(flight.token, old);
            swapped = true;
            assert_eq!(
                reply.as_ref().map(|r| (r.to, r.token)),
                Some((flight.from, flight.token))
            );
        }
        let answer = self.end.finished(flight.token, outcome);
        let kind = answer
            .or(reply)
            .map(|a| Header::decode(&a.header, 0).expect("a header"));
        let disabled = self.model.mds[&flight.md.0].md.options & ACK_DISABLE != 0;
        let expected = match flight.request.kind {
            _ if flight.request.operation == NO_ANSWER => None,
            MessageKind::Put if outcome == NiFail::OK && !disabled => Some(MessageKind::Ack),
            MessageKind::Put => Some(MessageKind::Nothing),
            MessageKind::GetPut if swapped => Some(MessageKind::Reply),
            MessageKind::GetPut => Some(MessageKind::Nothing),
            _ => None,
        };
        assert_eq!(kind.map(|k| k.kind), expected, "{}", self.place);
        if let Some(ack) = kind.filter(|k| k.kind == MessageKind::Ack) {
            let told = (ack.data, ack.offset, ack.operation);
            let stored = (
                flight.mlength as u64,
                flight.offset as u64,
                flight.request.operation,
            );
            assert_eq!(told, stored, "{}", self.place);
        }
        assert!(
            self.end.finished(flight.token, NiFail::OK).is_none(),
            "it has ended"
        );
        let before: Vec<u32> = self.model.mds.keys().copied().collect();
        let entries: Vec<Handle> = self.model.portals.iter().flatten().map(|e| e.me).collect();
        self.model.end(flight, outcome);
        let gone = before.into_iter().filter(|md| !self.model.mds.contains_key(md));
        self.gone.extend(gone.map(Handle));
        self.gone
            .extend(entries.into_iter().filter(|me| self.model.find(*me).is_none()));
    }

    /// Empty a queue: what comes is what was told, to the last field.
    fn drain(&mut self, which: usize) {
        let eq = self.queues[which];
        let told = std::mem::take(&mut self.model.queues.get_mut(&eq.0).unwrap().told);
        let events = self.end.events(eq);
        assert_eq!(events.len(), told.len(), "{}", self.place);
        for (event, told) in events.into_iter().zip(told) {
            match told.link {
                Link::Of(number) => {
                    let known = *self.links.entry(event.link).or_insert(number);
                    assert_eq!(known, number, "{}: {event:?}", self.place);
                }
                Link::To(sequence) => assert_eq!(event.link, sequence, "{}: {event:?}", self.place),
            }
            assert_eq!(Event { link: 0, ..event }, told.event, "{}", self.place);
        }
    }

    /// What has gone is gone for every call.
    fn stale(&mut self) {
        if self.gone.is_empty() {
            return;
        }
        let gone = self.pick(&self.gone.clone());
        let md = md(8, OP_PUT, Handle::EQ_NONE);
        assert_eq!(
            self.end.interface_of(gone),
            Err(Error::HandleInvalid),
            "{}",
            self.place
        );
        assert_eq!(self.end.me_unlink(gone), Err(Error::MeInvalid));
        assert_eq!(self.end.md_unlink(gone), Err(Error::MdInvalid));
        let put = self.end.put(gone, None, AckReq::Ack, &target(1, 0), 0);
        assert_eq!(put.unwrap_err(), Error::MdInvalid);
        let attached = self.end.md_attach(gone, md, None, Unlink::Retain);
        assert_eq!(attached, Err(Error::MeInvalid));
        let updated = self.end.md_update(gone, None, Some((md, None)), Handle::EQ_NONE);
        assert_eq!(updated, Err(Error::MdInvalid));
    }

    fn step(&mut self) {
        let (entry, descriptor) = (self.entry(), self.descriptor());
        match (self.random.u32(0..40), entry, descriptor) {
            (0..=5, ..) => self.attach(),
            (6, Some(me), _) => self.attach_md(me),
            (7, Some(me), _) => self.unlink_entry(me),
            (8, _, Some(md)) => self.unlink_md(md),
            (9..=10, _, Some(md)) => self.update(md),
            (11, ..) => self.access(),
            (12..=13, ..) => self.drain(self.random.clone().usize(0..2)),
            (14, ..) => self.stale(),
            (15..=22, ..) => self.end_one(),
            _ => self.message(),
        }
        for eq in [0, 1] {
            if self.model.queues[&self.queues[eq].0].told.len() > 500 {
                self.drain(eq);
            }
        }
    }

    fn check(&self) {
        for (portal, list) in self.model.portals.iter().enumerate() {
            let order = list.iter().map(|entry| entry.me.index());
            assert!(
                self.end.portals[portal].entries().eq(order),
                "{}: order",
                self.place
            );
        }
        assert_eq!(self.end.operations(), self.flights.len(), "{}", self.place);
        for reason in DropReason::ALL {
            let expected = self.model.drops.get(reason.text()).copied().unwrap_or(0);
            assert_eq!(
                self.end.drops().of(*reason),
                expected,
                "{}: {reason:?}",
                self.place
            );
        }
    }
}

#[test]
fn objects_and_translation_are_those_of_a_naive_model() {
    let mut reasons = BTreeMap::new();
    for seed in seeds(150) {
        let mut run = Run::new(seed);
        for step in 0..600 {
            run.place = format!("seed {seed}, step {step}");
            run.step();
            run.check();
        }
        while !run.flights.is_empty() {
            run.end_one();
        }
        for eq in [0, 1] {
            run.drain(eq);
        }
        run.check();
        for (reason, count) in run.model.drops {
            *reasons.entry(reason).or_insert(0) += count;
        }
    }
    // It has been everywhere: every reason that a request can have, but for 2^20 operations in progress.
    let answers = [DropReason::Answer, DropReason::NoRoom];
    for reason in DropReason::ALL.iter().filter(|reason| !answers.contains(reason)) {
        let seen = reasons.get(reason.text()).copied().unwrap_or(0);
        assert!(seen > 20, "{reason:?} {seen} times");
    }
}
