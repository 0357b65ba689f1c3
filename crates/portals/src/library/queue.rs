//! Event queues (section 3.11): circular, the newest event takes the place of the oldest when they are full, and whoever
//! reads next is told. Never a reason to refuse a message.

use super::descriptor::Descriptor;
use super::operation::Facts;
use super::table::Named;
use crate::memory::field;
use crate::types::{Event, Handle, HandleKind};
use crate::types::{EventKind, Identity, Md, NiFail, ProcessId};
use std::collections::VecDeque;

pub(super) struct EventQueue {
    pub handle: Handle,
    /// Every event is shown to a handler as well.
    pub handled: bool,
    /// Operations that have been accepted and will still log an event here: `md_update` waits for them.
    pub pending: u32,
    events: Box<[Event]>,
    /// Events logged and taken (or lost) so far; the low 32 bits of `logged` are the next event's sequence.
    logged: u64,
    taken: u64,
    /// The event that stands in the first place: an empty queue begins there again, so that one whose events are taken soon stays in
    /// few cache lines, however many it has room for.
    first: u64,
}

impl Named for EventQueue {
    const KIND: HandleKind = HandleKind::Eq;
    #[inline]
    fn handle(&self) -> Handle {
        self.handle
    }
}

/// The most events of a queue: a bound for what one call may ask of the memory.
pub(super) const MAX_EVENTS: u32 = 1 << 20;

const BLANK: Event = Event {
    kind: EventKind::GetStart,
    initiator: ProcessId::new(0, 0),
    uid: 0,
    jid: 0,
    pt_index: 0,
    match_bits: 0,
    rlength: 0,
    mlength: 0,
    offset: 0,
    md_handle: Handle::INVALID,
    md: Md::BLANK,
    hdr_data: 0,
    link: 0,
    ni_fail_type: NiFail::OK,
    sequence: 0,
};

impl EventQueue {
    /// Memory for at least `count` events, at most [`MAX_EVENTS`], rounded up to a power of two and to two at least, as the
    /// reference does. None: there is not so much.
    pub fn memory(count: u32) -> Option<Vec<Event>> {
        let count = count.max(2).next_power_of_two() as usize;
        let mut events = Vec::new();
        events.try_reserve_exact(count).ok()?;
        events.resize(count, BLANK);
        Some(events)
    }

    /// A queue in [`memory`](Self::memory).
    pub fn new(handle: Handle, memory: Vec<Event>, handled: bool) -> Self {
        Self {
            handle,
            handled,
            pending: 0,
            events: memory.into_boxed_slice(),
            logged: 0,
            taken: 0,
            first: 0,
        }
    }

    #[inline(always)]
    fn place(&self, event: u64) -> usize {
        event.wrapping_sub(self.first) as usize & (self.events.len() - 1)
    }

    /// The place of the next event, which has its sequence; the other fields are the caller's to write. They are written
    /// one by one: an event made elsewhere and copied here costs as much as everything else about it.
    #[inline(always)]
    pub fn log(&mut self) -> &mut Event {
        if self.is_empty() {
            self.first = self.logged;
        }
        let at = self.place(self.logged);
        let place = &mut self.events[at];
        place.sequence = self.logged as u32;
        self.logged += 1;
        place
    }

    /// [`log`](Self::log) an event of a descriptor, for `handled` as well where a handler is to see it. Its sequence.
    #[inline(always)]
    pub fn log_of(
        &mut self,
        descriptor: &Descriptor,
        kind: EventKind,
        who: &Identity,
        facts: &Facts,
        ni_fail_type: NiFail,
        handled: &mut VecDeque<(Handle, Event)>,
    ) -> u32 {
        let handled = self.handled.then_some((handled, self.handle));
        let event = self.log();
        event.kind = kind;
        event.initiator = who.id;
        event.uid = who.uid;
        event.jid = who.jid;
        event.pt_index = facts.pt_index;
        event.match_bits = facts.match_bits;
        event.rlength = facts.rlength;
        event.mlength = facts.mlength;
        event.offset = facts.offset;
        event.md_handle = descriptor.handle;
        // The threshold was most likely written just now, and is not to be read along with what stands beside it.
        event.md = Md {
            threshold: field(&descriptor.md.threshold),
            ..descriptor.md
        };
        event.hdr_data = facts.hdr_data;
        event.link = facts.link;
        event.ni_fail_type = ni_fail_type;
        if let Some((handled, queue)) = handled {
            handled.push_back((queue, *event));
        }
        event.sequence
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == self.logged
    }

    /// Memory of its events, bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.events)
    }

    /// Events that are left.
    pub fn len(&self) -> usize {
        (self.logged - self.taken).min(self.events.len() as u64) as usize
    }

    /// The oldest event that is left, and whether events before it were lost. It is taken.
    #[inline(always)]
    pub fn take(&mut self) -> Option<(&Event, bool)> {
        if self.is_empty() {
            return None;
        }
        let dropped = self.logged - self.taken > self.events.len() as u64;
        if dropped {
            self.taken = self.logged - self.events.len() as u64;
        }
        let at = self.place(self.taken);
        self.taken += 1;
        Some((&self.events[at], dropped))
    }
}
