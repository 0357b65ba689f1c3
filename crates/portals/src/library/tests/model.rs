//! What the document says of one process's objects (sections 2.2, 2.3, 3.9, 3.10), done as it says and nothing clever: lists
//! are vectors, memory is a vector of the addresses of its bytes, and every event that is to come is written down with all
//! its fields before it is looked for. `random.rs` compares it with the library.

use super::*;
use crate::types::option::*;
use std::collections::{BTreeMap, VecDeque};

pub struct Entry {
    pub me: Handle,
    pub id: ProcessId,
    pub bits: u64,
    pub ignore: u64,
    pub unlink: Unlink,
    pub md: Option<Handle>,
}

pub struct Descriptor {
    pub md: Md,
    /// Address of each byte.
    pub bytes: Vec<usize>,
    /// The local offset.
    pub offset: usize,
    /// False: retired by max_size.
    pub room_left: bool,
    pub unlink: Unlink,
    /// Operations accepted that have not ended.
    pub pending: u32,
}

impl Descriptor {
    pub fn new(mut md: Md, bytes: Vec<usize>, unlink: Unlink) -> Self {
        if md.options & MANAGE_REMOTE != 0 {
            md.options &= !MAX_SIZE;
        }
        Self {
            md,
            bytes,
            offset: 0,
            room_left: true,
            unlink,
            pending: 0,
        }
    }

    fn has(&self, option: u32) -> bool {
        self.md.options & option != 0
    }

    fn active(&self) -> bool {
        self.md.threshold != 0 && self.room_left
    }

    /// The space rule: where, and how much.
    fn room(&self, requested: u64, length: u64) -> Option<(usize, usize)> {
        let offset = if self.has(MANAGE_REMOTE) {
            requested
        } else {
            self.offset as u64
        };
        let all = self.bytes.len() as u128;
        if u128::from(offset) + u128::from(length) <= all {
            Some((offset as usize, length as usize))
        } else if self.has(TRUNCATE) && u128::from(offset) <= all {
            Some((offset as usize, self.bytes.len() - offset as usize))
        } else {
            None
        }
    }
}

/// An operation accepted and not ended.
pub struct Flight {
    pub token: u64,
    /// Tells operations apart, as `link` does.
    pub number: u64,
    pub md: Handle,
    pub request: Header,
    pub from: u32,
    pub rlength: u64,
    pub mlength: usize,
    pub offset: usize,
    /// Sequence of the START event, if there was one.
    start: Option<u32>,
}

/// What `link` is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    /// That of this operation's other event.
    Of(u64),
    /// The sequence of another event.
    To(u32),
}

/// An event that is to come.
#[derive(Debug)]
pub struct Told {
    pub event: Event,
    pub link: Link,
}

#[derive(Default)]
pub struct Queue {
    pub logged: u32,
    pub told: VecDeque<Told>,
    /// Operations that will log their END here.
    pub pending: u32,
}

/// One process's objects.
pub struct Model {
    pub portals: Vec<Vec<Entry>>,
    pub access: Vec<AccessEntry>,
    pub mds: BTreeMap<u32, Descriptor>,
    pub queues: BTreeMap<u32, Queue>,
    pub drops: BTreeMap<&'static str, u64>,
    pub who: Vec<Identity>,
    pub most_getput: u64,
    numbers: u64,
}

impl Model {
    pub fn new(who: Vec<Identity>, me: usize, portals: usize, access: usize, most_getput: u64) -> Self {
        Self {
            portals: (0..portals).map(|_| Vec::new()).collect(),
            access: vec![AccessEntry::of_user(who[me].uid); access],
            mds: BTreeMap::new(),
            queues: BTreeMap::new(),
            drops: BTreeMap::new(),
            who,
            most_getput,
            numbers: 0,
        }
    }

    /// Where a match entry is: portal and place.
    pub fn find(&self, me: Handle) -> Option<(usize, usize)> {
        let at = |list: &Vec<Entry>| list.iter().position(|entry| entry.me == me);
        let mut lists = self.portals.iter().enumerate();
        lists.find_map(|(portal, list)| Some((portal, at(list)?)))
    }

    pub fn entries(&self) -> usize {
        self.portals.iter().map(Vec::len).sum()
    }

    /// Rules 1 and 4 to 6: who takes a request with a body of so many bytes, where, and how much.
    fn translate(&self, from: u32, header: &Header, body: u64) -> Result<(Handle, usize, usize), DropReason> {
        let asked = match header.kind {
            MessageKind::Put => OP_PUT,
            MessageKind::Get => OP_GET,
            _ => OP_PUT | OP_GET,
        };
        let length = if header.kind == MessageKind::Get {
            header.data
        } else {
            body
        };
        let answered = header.kind != MessageKind::Put;
        if answered && header.operation == NO_ANSWER || header.kind == MessageKind::Get && body > 0 {
            return Err(DropReason::Malformed);
        }
        let who = self.who.get(from as usize).ok_or(DropReason::UnknownProcess)?;
        if header.interface != 0 {
            return Err(DropReason::UnknownProcess);
        }
        let list = self
            .portals
            .get(header.pt_index as usize)
            .ok_or(DropReason::PtIndex)?;
        let entry = self
            .access
            .get(header.ac_index as usize)
            .ok_or(DropReason::AcIndex)?;
        for (wanted, given, reason) in [
            (entry.uid, who.uid, DropReason::AccessUid),
            (entry.pt_index, header.pt_index.into(), DropReason::AccessPortal),
            (entry.jid, who.jid, DropReason::AccessJid),
            (entry.id.nid, who.id.nid, DropReason::AccessNid),
            (entry.id.pid, who.id.pid, DropReason::AccessPid),
        ] {
            if wanted != ANY && wanted != given {
                return Err(reason);
            }
        }
        if header.kind == MessageKind::GetPut && length > 64 {
            return Err(DropReason::Malformed);
        }
        if header.kind == MessageKind::GetPut && length > self.most_getput {
            return Err(DropReason::NoMatch);
        }
        for entry in list {
            let admits = (entry.id.nid == ANY || entry.id.nid == who.id.nid)
                && (entry.id.pid == ANY || entry.id.pid == who.id.pid)
                && (0..64).all(|bit| {
                    entry.ignore >> bit & 1 == 1 || (entry.bits ^ header.match_bits) >> bit & 1 == 0
                });
            let Some(handle) = entry.md.filter(|_| admits) else {
                continue;
            };
            let md = &self.mds[&handle.0];
            if md.active()
                && md.md.options & asked == asked
                && let Some((offset, accepted)) = md.room(header.offset, length)
            {
                return Ok((handle, offset, accepted));
            }
        }
        Err(DropReason::NoMatch)
    }

    /// A request arrives: an operation to be ended (its token is the caller's to fill in), or the reason for dropping it.
    pub fn request(&mut self, from: u32, header: &Header, body: u64) -> Result<Flight, DropReason> {
        let (handle, offset, accepted) = self.translate(from, header, body).inspect_err(|reason| {
            *self.drops.entry(reason.text()).or_default() += 1;
        })?;
        let md = self.mds.get_mut(&handle.0).expect("found just now");
        if !md.has(MANAGE_REMOTE) {
            md.offset += accepted;
            if md.has(MAX_SIZE) && ((md.bytes.len() - md.offset) as u64) < md.md.max_size {
                md.room_left = false;
            }
        }
        if md.md.threshold > 0 {
            md.md.threshold -= 1;
        }
        md.pending += 1;
        if let Some(queue) = self.queues.get_mut(&md.md.eq_handle.0) {
            queue.pending += 1;
        }
        self.numbers += 1;
        let mut flight = Flight {
            token: NO_TOKEN,
            number: self.numbers,
            md: handle,
            request: *header,
            from,
            rlength: if header.kind == MessageKind::Get {
                header.data
            } else {
                body
            },
            mlength: accepted,
            offset,
            start: None,
        };
        let kind = match header.kind {
            MessageKind::Put => PutStart,
            MessageKind::Get => GetStart,
            _ => GetPutStart,
        };
        flight.start = self.tell(&flight, kind, Link::Of(flight.number), NiFail::OK);
        Ok(flight)
    }

    /// An operation ends: END, and UNLINK if that was the last of its descriptor.
    pub fn end(&mut self, flight: Flight, outcome: NiFail) {
        let kind = match flight.request.kind {
            MessageKind::Put => PutEnd,
            MessageKind::Get => GetEnd,
            _ => GetPutEnd,
        };
        let end = self.tell(&flight, kind, Link::Of(flight.number), outcome);
        let md = self.mds.get_mut(&flight.md.0).expect("it has this operation");
        md.pending -= 1;
        let over = md.pending == 0 && !md.active() && md.unlink == Unlink::Unlink;
        if let Some(queue) = self.queues.get_mut(&md.md.eq_handle.0) {
            queue.pending -= 1;
        }
        if over {
            let cause = end.or(flight.start).unwrap_or(0);
            self.tell(&flight, UNLINK, Link::To(cause), outcome);
            self.release(flight.md);
        }
    }

    /// A descriptor goes, and its entry if that goes with it.
    pub fn release(&mut self, handle: Handle) {
        self.mds.remove(&handle.0);
        for list in &mut self.portals {
            list.retain(|entry| entry.md != Some(handle) || entry.unlink == Unlink::Retain);
            for entry in list {
                entry.md = entry.md.filter(|md| *md != handle);
            }
        }
    }

    /// Write down an event. Its sequence, if there is to be one.
    fn tell(&mut self, flight: &Flight, kind: EventKind, link: Link, fail: NiFail) -> Option<u32> {
        let md = &self.mds[&flight.md.0];
        let masked = match kind {
            PutStart | GetStart | GetPutStart => md.has(EVENT_START_DISABLE),
            PutEnd | GetEnd | GetPutEnd => md.has(EVENT_END_DISABLE),
            _ => false,
        };
        let queue = self.queues.get_mut(&md.md.eq_handle.0).filter(|_| !masked)?;
        let who = self.who[flight.from as usize];
        let sequence = queue.logged;
        queue.logged += 1;
        queue.told.push_back(Told {
            event: Event {
                kind,
                initiator: who.id,
                uid: who.uid,
                jid: who.jid,
                pt_index: flight.request.pt_index.into(),
                match_bits: flight.request.match_bits,
                rlength: flight.rlength,
                mlength: flight.mlength as u64,
                offset: flight.offset as u64,
                md_handle: flight.md,
                md: md.md,
                hdr_data: if flight.request.kind == MessageKind::Get {
                    0
                } else {
                    flight.request.data
                },
                link: 0,
                ni_fail_type: fail,
                sequence,
            },
            link,
        });
        Some(sequence)
    }
}
