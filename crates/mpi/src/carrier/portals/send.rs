//! Sending: one put for each message, at once where the receiver's credits allow it.

use super::memory::{self, place_of};
use super::{MESSAGES, Portals, Seen, bits, descriptor, refused, user};
use crate::carrier::{Chosen, Engine};
use crate::engine::envelope::{Envelope, FLAG_SYNC};
use crate::engine::request::{Mode, Operation, Payload, Request, Send, SendState};
use crate::{Error, Result};
use farpost_fabric::{Cost, Fabric, Peer, Time};
use farpost_portals::{
    AckReq, AnyInterface, Error as PortalsError, EventKind, Handle, NetworkInterface, NiFail, option,
};
use std::collections::BTreeMap;

/// Messages up to this size travel in one packet, also between hosts, and their memory is free when they have been put.
const QUICK: usize = 64;
/// Messages up to this size are copied and are over at once.
const BOUNCE: usize = 128;
/// As many of them may be on their way.
const BOUNCES: usize = 64;
/// Events that a message may log here: SEND_END, ACK and GET_END.
const EVENTS: u32 = 3;

/// A message under way.
pub(super) struct Sending {
    /// What it is called among processes.
    pub name: u64,
    pub peer: Peer,
    /// Whose it is, once there is a request.
    pub request: Option<usize>,
    /// Where the receiver may fetch it.
    pub kept: Option<Handle>,
    /// The number of its put, once that has been sent.
    link: Option<u32>,
    /// Or where it lies until the receiver says that it wants it: address and bytes.
    pub announced: Option<(usize, u64)>,
    pub queue: u8,
    events: u32,
    sent: bool,
    /// The receiver has it, or need not have.
    pub taken: bool,
    /// Or could not store it; what is to be said of it as soon as it has been sent.
    pub refused: bool,
    pub fail: NiFail,
    /// What was packed for it.
    pub _packed: Option<Box<[u8]>>,
}

impl Sending {
    fn is_over(&self) -> bool {
        self.fail != NiFail::OK || self.sent && self.taken
    }
}

/// Messages under way.
pub(super) struct Sends {
    table: Vec<Option<Sending>>,
    free: Vec<u32>,
    generations: u32,
    /// Match entries of messages that are kept, and beyond how many the next ones are announced only: entries are needed for
    /// posted receives as well, and for what is wanted.
    pub exposed: usize,
    most_exposed: usize,
    /// Most with those that are wanted.
    pub most_wanted: usize,
    /// Announced messages, by the number that all events of their puts have: an ACK has no header data.
    announced: BTreeMap<u32, u32>,
    /// What is put without being waited for: another one may follow when nothing waits to leave.
    quick: Box<[u8]>,
    quick_md: Handle,
    bounce: Box<[u8]>,
    bounce_md: Handle,
    bounces: Vec<u8>,
    /// For whom they are.
    bounced_to: [Peer; BOUNCES],
    pub short_max: u64,
    under_way: usize,
}

/// How a message goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SendRoute {
    /// Put, and over when it has left.
    Short,
    /// Put, and kept for who has not waited for it: with a match entry by which it is fetched, or announced only.
    Kept { announced: bool },
    /// The same, with nothing but the header put.
    InParts { announced: bool },
}

impl SendRoute {
    fn is_in_parts(self) -> bool {
        matches!(self, SendRoute::InParts { .. })
    }

    /// Events that it may log here.
    fn events(self) -> u32 {
        match self {
            SendRoute::Short | SendRoute::InParts { .. } => 1,
            SendRoute::Kept { .. } => EVENTS,
        }
    }

    /// What the name says of it.
    fn flags(self) -> u64 {
        let announced = |announced| if announced { bits::ANNOUNCED } else { 0 };
        match self {
            SendRoute::Short => 0,
            SendRoute::Kept { announced: only } => announced(only),
            SendRoute::InParts { announced: only } => bits::IN_PARTS | announced(only),
        }
    }
}

/// What became of the beginning of a send.
enum Begun {
    /// It is over.
    Over,
    /// It is under way, as that.
    Under(u32),
    /// Not now: the receiver has to look at what it has first.
    No,
}

impl Sends {
    pub fn new<F: Fabric>(
        ni: &AnyInterface<F>,
        eq: Handle,
        short_max: u64,
        (most_exposed, wanted): (u64, u64),
    ) -> std::result::Result<Self, PortalsError> {
        let mut quick = vec![0; QUICK].into_boxed_slice();
        let start = quick.as_mut_ptr().expose_provenance();
        let quick_md = descriptor(start, QUICK as u64, option::EVENT_END_DISABLE, 0, Handle::EQ_NONE);
        let mut bounce = vec![0; BOUNCE * BOUNCES].into_boxed_slice();
        let (start, user) = (bounce.as_mut_ptr().expose_provenance(), user::of(user::BOUNCE, 0));
        let md = descriptor(start, bounce.len() as u64, 0, user, eq);
        Ok(Self {
            table: Vec::new(),
            free: Vec::new(),
            generations: 0,
            exposed: 0,
            most_exposed: most_exposed as usize,
            most_wanted: (most_exposed + wanted) as usize,
            announced: BTreeMap::new(),
            quick,
            quick_md: memory::bind(ni, quick_md, None)?,
            bounce,
            bounce_md: memory::bind(ni, md, None)?,
            bounces: (0..BOUNCES as u8).collect(),
            bounced_to: [Peer(0); BOUNCES],
            short_max,
            under_way: 0,
        })
    }

    /// Events that short messages may log.
    pub fn bounced(&self) -> u32 {
        BOUNCES as u32
    }

    /// Messages under way.
    pub fn under_way(&self) -> usize {
        self.under_way + BOUNCES - self.bounces.len()
    }

    /// A place for a message, with room for so many events in that queue. Short ones need not be taken, and of those in parts nothing is
    /// sent but a header, of which no event tells.
    fn insert(&mut self, peer: Peer, (queue, events): (u8, u32), route: SendRoute) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.table.len() < bits::PLACES => {
                self.table.push(None);
                self.table.len() as u32 - 1
            }
            None => return None,
        };
        self.generations = self.generations.wrapping_add(1);
        self.table[index as usize] = Some(Sending {
            name: bits::name_of(index, self.generations, queue, route.flags()),
            peer,
            request: None,
            kept: None,
            announced: None,
            link: None,
            queue,
            events,
            sent: route.is_in_parts(),
            taken: route == SendRoute::Short,
            refused: false,
            fail: NiFail::OK,
            _packed: None,
        });
        self.under_way += 1;
        Some(index)
    }

    pub fn get(&mut self, index: u32) -> Option<&mut Sending> {
        self.table.get_mut(index as usize)?.as_mut()
    }

    /// To whom the send `index` goes and its name there, if the receiver is to fetch it or to say that it has it.
    pub fn kept(&self, index: u32) -> Option<(Peer, u64)> {
        let sending = self.table.get(index as usize)?.as_ref()?;
        (sending.announced.is_some() || sending.kept.is_some()).then_some((sending.peer, sending.name))
    }

    /// As [`kept`](Self::kept), of the send that has this name.
    pub fn of_name(&self, id: u64) -> Option<(Peer, u32)> {
        let index = bits::place_of_name(id);
        let (peer, name) = self.kept(index)?;
        (name == id).then_some((peer, index))
    }

    fn take(&mut self, index: u32) -> Option<Sending> {
        let sending = self.table.get_mut(index as usize)?.take()?;
        if let Some(link) = sending.link {
            self.announced.remove(&link);
        }
        self.free.push(index);
        self.under_way -= 1;
        Some(sending)
    }
}

impl<F: Fabric> Portals<F> {
    /// Send a message of at most [`BOUNCE`] bytes, given in one piece. False: not now or not this way.
    #[inline(always)]
    pub(super) fn quick(&mut self, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool {
        let credit = &mut self.credit[peer.index()];
        if data.len() > QUICK
            || !self.ni.is_clear()
            || !self.layout.admits(envelope.context, envelope.tag)
            || !credit.admits()
            || !credit.admits_short(data.len() as u64)
        {
            return self.bounce(peer, envelope, data);
        }
        credit.spend(Some(data.len() as u64));
        self.fabric.charge(Cost::Copy(data.len()));
        match data.first_chunk::<8>() {
            Some(eight) if data.len() == 8 => self.sends.quick[..8].copy_from_slice(eight),
            _ => self.sends.quick[..data.len()].copy_from_slice(data),
        }
        let target = self.target(peer, MESSAGES, self.bits(envelope));
        let header = bits::header(envelope.class, 0);
        let region = (0, data.len() as u64);
        let sent = self
            .ni
            .put_region(self.sends.quick_md, region, AckReq::NoAck, &target, header);
        debug_assert!(Self::begun(sent), "{sent:?}");
        // Nothing of it is logged; but the call may have made progress.
        self.needs_progress = true;
        true
    }

    /// As [`quick`](Self::quick), with an event when it has left.
    fn bounce(&mut self, peer: Peer, envelope: &Envelope, data: &[u8]) -> bool {
        let credit = &mut self.credit[peer.index()];
        if data.len() > BOUNCE
            || !self.layout.admits(envelope.context, envelope.tag)
            || !credit.admits()
            || !credit.admits_short(data.len() as u64)
        {
            return false;
        }
        let Some(slot) = self.sends.bounces.pop() else {
            return false;
        };
        credit.spend(Some(data.len() as u64));
        self.sends.bounced_to[usize::from(slot)] = peer;
        let at = usize::from(slot) * BOUNCE;
        self.fabric.charge(Cost::Copy(data.len()));
        self.sends.bounce[at..at + data.len()].copy_from_slice(data);
        let target = self.target(peer, MESSAGES, self.bits(envelope));
        let header = bits::header(envelope.class, u64::from(slot));
        let region = (at as u64, data.len() as u64);
        let sent = self
            .ni
            .put_region(self.sends.bounce_md, region, AckReq::NoAck, &target, header);
        debug_assert!(Self::begun(sent), "{sent:?}");
        self.needs_progress = true;
        true
    }

    #[inline(always)]
    pub(super) fn bits(&self, envelope: &Envelope) -> u64 {
        self.layout.of(&bits::Name {
            context: envelope.context,
            source: envelope.source,
            tag: envelope.tag,
        })
    }

    /// Begin a send.
    fn begin(&mut self, send: &Send) -> std::result::Result<Begun, PortalsError> {
        let (peer, total) = (send.peer, send.payload.bytes());
        if !self.credit[peer.index()].admits() {
            return Ok(Begun::No);
        }
        let sync = send.envelope.flags & FLAG_SYNC != 0;
        let short = !sync && total <= self.sends.short_max && self.credit[peer.index()].admits_short(total);
        let announced = self.sends.exposed >= self.sends.most_exposed;
        let route = match short {
            true => SendRoute::Short,
            false if self.parts.needs(peer, total) => SendRoute::InParts { announced },
            false => SendRoute::Kept { announced },
        };
        if short && total <= BOUNCE as u64 {
            let mut packed = [0; BOUNCE];
            let data = match send.payload.contiguous() {
                Some(data) => data,
                None => {
                    let packed = &mut packed[..total as usize];
                    let n = send.payload.pack_on(&*self.fabric, 0, packed);
                    &packed[..n]
                }
            };
            if self.quick(peer, &send.envelope, data) {
                return Ok(Begun::Over);
            }
        }
        let events = route.events();
        let queue = self.reserve(events)?;
        let Some(index) = self.sends.insert(peer, (queue, events), route) else {
            self.release(queue, events);
            return Ok(Begun::No);
        };
        let begun = match route {
            SendRoute::Short => self.put_whole(send, index, (0, AckReq::NoAck)).map(|_| ()),
            SendRoute::Kept { announced: false } => self.begin_kept(send, index),
            SendRoute::Kept { announced: true } => self.announce(send, index),
            SendRoute::InParts { announced } => self.begin_in_parts(send, index, announced),
        };
        if let Err(error) = begun {
            self.end(index);
            return Err(error);
        }
        self.credit[peer.index()].spend(short.then_some(total));
        self.needs_progress = true;
        Ok(Begun::Under(index))
    }

    /// Put all of a message, from where it is, or from a copy if it has gaps: where that is.
    pub(super) fn put_whole(
        &mut self,
        send: &Send,
        index: u32,
        (kind, ack): (u64, AckReq),
    ) -> std::result::Result<(usize, u64), PortalsError> {
        let (address, len, packed) = whole(&*self.fabric, &send.payload);
        let Some(sending) = self.sends.get(index) else {
            return Err(PortalsError::Fail);
        };
        sending._packed = packed;
        let (name, queue) = (sending.name, sending.queue);
        let target = self.target(send.peer, MESSAGES, self.bits(&send.envelope) | kind);
        let header = bits::header(send.envelope.class, name);
        let memory = self.queues[usize::from(queue)].memory;
        self.ni
            .put_region(memory, place_of(address, len), ack, &target, header)?;
        Ok((address, len as u64))
    }

    /// Forget a send.
    pub(super) fn end(&mut self, index: u32) -> Option<Sending> {
        let mut sending = self.sends.take(index)?;
        self.release(sending.queue, sending.events);
        if let Some(me) = sending.kept.take() {
            self.sends.exposed -= 1;
            self.unlink(me);
            // Another one may have its entry.
            self.needs_progress |= !self.wanted.is_empty();
        }
        Some(sending)
    }

    /// Nobody waits for a send any more; its end is noted by whoever comes across it.
    pub(super) fn abandon(&mut self, index: u32) {
        if let Some(sending) = self.sends.get(index) {
            sending.request = None;
            sending.taken = true;
            if sending.sent {
                self.end(index);
            }
        }
    }

    /// Whom an operation that failed was with.
    pub(super) fn other_of(&mut self, seen: &Seen) -> Peer {
        let (_, id) = bits::of_header(seen.data);
        match seen.user & ((1 << user::BITS) - 1) {
            user::BOUNCE => self.sends.bounced_to[id as usize % BOUNCES],
            user::MEMORY => self
                .sends
                .get(bits::place_of_name(id))
                .map_or(seen.from, |sending| sending.peer),
            user::KEPT => {
                let index = bits::place_of_name(seen.number() as u64);
                self.sends.get(index).map_or(seen.from, |sending| sending.peer)
            }
            _ => seen.from,
        }
    }

    /// An event of a send. The send, if it is over.
    #[inline]
    pub(super) fn on_send_event(&mut self, seen: &Seen) -> Option<Sending> {
        let kind = seen.user & ((1 << user::BITS) - 1);
        if kind == user::BOUNCE {
            let (_, slot) = bits::of_header(seen.data);
            if slot < BOUNCES as u64 {
                self.sends.bounces.push(slot as u8);
            }
            return None;
        }
        let id = match (kind, seen.kind) {
            (user::KEPT, _) => seen.number() as u64,
            (user::NOTICE, _) => return self.on_notice(seen),
            (_, EventKind::Ack) => {
                let index = self.sends.announced.remove(&seen.link)?;
                self.sends.kept(index)?.1
            }
            _ => bits::of_header(seen.data).1,
        };
        let index = bits::place_of_name(id);
        let sending = self.sends.get(index)?;
        if sending.name != id {
            return None;
        }
        if seen.kind == EventKind::SendEnd && sending.announced.is_some() {
            sending.link = Some(seen.link);
            self.sends.announced.insert(seen.link, index);
        }
        let sending = self.sends.get(index)?;
        match seen.kind {
            EventKind::SendEnd => sending.sent = true,
            EventKind::Ack | EventKind::GetEnd => sending.taken = true,
            _ => return None,
        }
        if seen.fail != NiFail::OK {
            sending.fail = seen.fail;
        }
        sending.note_refusal();
        self.end_if_over(index)
    }

    /// Forget a send that is over, once somebody is told of it.
    pub(super) fn end_if_over(&mut self, index: u32) -> Option<Sending> {
        let sending = self.sends.get(index)?;
        if !sending.is_over() || !sending.is_claimed() {
            return None;
        }
        self.end(index)
    }
}

impl Sending {
    /// Whether somebody is told of the end, or nobody any more: not while it begins.
    fn is_claimed(&self) -> bool {
        self.request.is_some() || self.taken && self.sent || self.fail != NiFail::OK
    }

    /// What was refused fails, but not while its memory may still be read.
    pub fn note_refusal(&mut self) {
        if self.refused && self.sent && self.fail == NiFail::OK {
            self.fail = NiFail::FAIL;
        }
    }

    /// What to say of its end.
    pub fn error(&self) -> Option<Error> {
        failure(self.peer, self.fail)
    }
}

/// What to say of an operation with `peer` that has failed.
pub(super) fn failure(peer: Peer, fail: NiFail) -> Option<Error> {
    match fail {
        NiFail::OK => None,
        NiFail::UNDELIVERABLE => Some(
            error!(ERR_PROC_ABORTED: "{peer} cannot be reached: its process, or an agent on the way, has ended"),
        ),
        _ => Some(
            error!(ERR_OTHER: "moving a message to or from {peer} failed: its memory could not be read or written"),
        ),
    }
}

/// A message in one run: where, how long, and the copy if it has gaps.
pub(super) fn whole(time: &impl Time, payload: &Payload) -> (usize, usize, Option<Box<[u8]>>) {
    if let Some(data) = payload.contiguous() {
        return (data.as_ptr().expose_provenance(), data.len(), None);
    }
    let mut packed = vec![0; payload.bytes() as usize].into_boxed_slice();
    payload.pack_on(time, 0, &mut packed);
    let address = packed.as_ptr().expose_provenance();
    (address, packed.len(), Some(packed))
}

impl<F: Fabric> Engine<F> {
    /// Start a send. `None`: it is complete.
    pub(crate) fn isend_by_portals(
        &mut self,
        peer: Peer,
        envelope: Envelope,
        payload: Payload,
        mode: Mode,
    ) -> Result<Option<usize>> {
        self.check_way(peer, false)?;
        self.check_tag(envelope.context, envelope.tag)?;
        let mut send = Send::new(peer, envelope, payload, mode);
        let mut begun = Begun::No;
        if !self.is_busy.get(peer) {
            begun = self.begin_by_portals(&send)?;
            if matches!(begun, Begun::No) {
                // There may be credits that nobody has looked at.
                self.progress_portals();
                begun = self.begin_by_portals(&send)?;
            }
        }
        match begun {
            Begun::Over => return Ok(None),
            Begun::Under(index) => {
                send.state = SendState::Carried { number: index };
                let handle = self
                    .requests
                    .insert(Request::new(Operation::Send(Box::new(send))))?;
                if let Some(sending) = self.carrier.portals_mut().and_then(|p| p.sends.get(index)) {
                    sending.request = Some(handle);
                }
                self.note_events();
                return Ok(Some(handle));
            }
            Begun::No => {}
        }
        self.enqueue(send).map(Some)
    }

    /// Whether match bits can tell a tag of the program's apart.
    pub(super) fn check_tag(&self, context: u64, tag: i32) -> Result<()> {
        match &self.carrier {
            Chosen::Portals(portals) if !portals.layout.admits(context, tag) => {
                fail!(ERR_TAG: "tag={tag}: with FARPOST_DEVICE=portals and as many ranks tags are 0 to {} (MPI_TAG_UB)",
                    portals.layout.tag_ub())
            }
            _ => Ok(()),
        }
    }

    fn begin_by_portals(&mut self, send: &Send) -> Result<Begun> {
        let portals = portals!(self, Ok(Begun::No));
        portals.begin(send).map_err(|error| refused("a send", error))
    }

    /// Begin what waits for credits, in order.
    pub(crate) fn push_by_portals(&mut self) -> bool {
        let mut moved = false;
        for at in (0..self.busy.len()).rev() {
            let Some(&peer) = self.busy.get(at) else { continue };
            while let Some(&handle) = self.outgoing[peer.index()].sends.front() {
                let taken = self
                    .requests
                    .get_mut(handle)
                    .map(|request| std::mem::replace(&mut request.operation, Operation::Idle));
                let Some(Operation::Send(mut send)) = taken else {
                    self.outgoing[peer.index()].sends.pop_front();
                    continue;
                };
                let begun = self.begin_by_portals(&send);
                if let (Ok(Begun::Under(index)), Chosen::Portals(portals)) = (&begun, &mut self.carrier) {
                    send.state = SendState::Carried { number: *index };
                    if let Some(sending) = portals.sends.get(*index) {
                        sending.request = Some(handle);
                    }
                }
                if let Some(request) = self.requests.get_mut(handle) {
                    request.operation = Operation::Send(send);
                }
                match begun {
                    Ok(Begun::No) => break,
                    Ok(Begun::Under(_)) => {}
                    Ok(Begun::Over) => self.complete(handle, |_| {}),
                    Err(error) => self.fail(handle, error),
                }
                self.outgoing[peer.index()].sends.pop_front();
                moved = true;
            }
            self.retire_if_empty(peer);
        }
        if moved {
            self.note_events();
        }
        moved
    }
}
