//! The library of section 3 of the paper: objects of one process's network interface and the translation of
//! addresses. Written once; where it runs is somebody else's choice. It does no input and output and follows no address.
//!
//! Who runs it takes what [`prepare_put`](Library::prepare_put), [`get`](Library::get) and
//! [`prepare_get_put`](Library::prepare_get_put) answer to the network, says [`started`](Library::started), asks
//! [`incoming`](Library::incoming) what is to become of each header that arrives, moves the bytes that this names, and says
//! [`finished`](Library::finished) when they have moved.

mod access;
mod descriptor;
mod drops;
mod ended;
mod initiate;
mod list;
mod objects;
mod operation;
mod processes;
mod queue;
mod receive;
mod table;
#[cfg(test)]
mod tests;
mod whole;
mod wire;
mod without_body;

pub use access::AccessEntry;
pub(crate) use descriptor::memory_of;
pub use drops::{DropReason, Drops};
pub use initiate::Target;
pub use processes::{Pid, Processes};
pub use receive::Verdict;
pub use wire::{HEADER_BYTES, Header, MessageKind, NO_ANSWER};
pub use without_body::lose_body;

use crate::error::Error;
use crate::memory::Segments;
use crate::types::{Event, Handle, HandleKind, Identity, Limits, NiFail, SR_DROP_COUNT, Unlink, option};
use crate::types::{EventKind, ProcessId};
use descriptor::Descriptor;
use list::MatchList;
use operation::{Facts, Operation};
use queue::EventQueue;
use std::collections::VecDeque;
use std::rc::Rc;
use table::{Named, ObjectTable};
use whole::LastRequest;

/// A token that names no operation: nobody wants to hear of the end of what it goes with.
pub const NO_TOKEN: u64 = u64::MAX;

/// Most operations in progress at once, those included that wait for an answer.
pub const MAX_OPERATIONS: u32 = 1 << 20;

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The fabric's number of the process it is for.
    pub to: u32,
    /// The header, as it travels.
    pub header: [u8; HEADER_BYTES],
    /// The body; it stays valid until [`finished`](Library::finished) is told of `token`.
    pub body: Segments,
    /// For [`finished`](Library::finished), or [`NO_TOKEN`].
    pub token: u64,
}

struct MatchEntry {
    handle: Handle,
    pt_index: u32,
    /// Finds it in its list.
    label: u64,
    unlink: Unlink,
    md: Option<u32>,
}

impl Named for MatchEntry {
    const KIND: HandleKind = HandleKind::Me;
    #[inline]
    fn handle(&self) -> Handle {
        self.handle
    }
}

/// Number, in handles, of a job's interface that is beside another of its process; that one's is 0.
pub const BESIDE: u8 = 2;

/// One network interface's objects.
pub struct Library {
    interface: u8,
    /// In headers: of which interfaces it is one. The two that a process of a job may have reach each other.
    network: u8,
    opening: u32,
    handle: Handle,
    me: Identity,
    processes: Rc<Processes>,
    limits: Limits,
    portals: Vec<MatchList>,
    access: Vec<AccessEntry>,
    mes: ObjectTable<MatchEntry>,
    mds: ObjectTable<Descriptor>,
    eqs: ObjectTable<EventQueue>,
    operations: ObjectTable<Operation>,
    drops: Drops,
    /// Events for handlers.
    handled: VecDeque<(Handle, Event)>,
    /// Links START to END.
    next_link: u32,
    again: LastRequest,
}

impl Library {
    /// The objects of interface `interface` (0 to 7) of process `me`, a number of the fabric's that `processes` has.
    /// `desired` may ask for less than [`Limits::LIBRARY`]; values below 0 mean 0. `generation` counts the openings
    /// of this interface, so that its handles of before are stale.
    ///
    /// # Errors
    /// [`Error::PidInvalid`]: there is no process `me`.
    pub fn new(
        interface: u8,
        generation: u32,
        me: u32,
        processes: Rc<Processes>,
        desired: Option<&Limits>,
    ) -> Result<Self, Error> {
        let identity = *processes.identity(me).ok_or(Error::PidInvalid)?;
        let mut library = Self::of(interface, generation, identity, processes, desired);
        // An answer to somebody whom this process had here before finds nothing.
        library.operations.begin_at(generation);
        library.mes.begin_at(generation);
        library.mds.begin_at(generation);
        library.eqs.begin_at(generation);
        Ok(library)
    }

    /// The same process's interface with no objects, opened for the `generation`th time. Counts of drops go on;
    /// handles and tokens of before are stale.
    pub fn anew(&self, desired: Option<&Limits>, generation: u32) -> Self {
        let processes = Rc::clone(&self.processes);
        let new = Self::of(self.interface, generation, self.me, processes, desired);
        let limits = new.limits;
        Self {
            drops: self.drops.clone(),
            mes: self.mes.emptied(limits.max_mes as u32),
            mds: self.mds.emptied(limits.max_mds as u32),
            eqs: self.eqs.emptied(limits.max_eqs as u32),
            operations: self.operations.emptied(MAX_OPERATIONS),
            ..new
        }
    }

    fn of(
        interface: u8,
        generation: u32,
        identity: Identity,
        processes: Rc<Processes>,
        desired: Option<&Limits>,
    ) -> Self {
        let limits = actual_limits(desired);
        let mut operations = ObjectTable::new(MAX_OPERATIONS);
        operations.reserve(256);
        Self {
            interface: interface & 7,
            network: if interface == BESIDE { 0 } else { interface & 7 },
            opening: generation,
            handle: Handle::new(HandleKind::Ni, interface, 0, generation),
            me: identity,
            limits,
            portals: (0..=limits.max_pt_index).map(|_| MatchList::default()).collect(),
            access: vec![AccessEntry::of_user(identity.uid); limits.max_ac_index as usize + 1],
            mes: ObjectTable::new(limits.max_mes as u32),
            mds: ObjectTable::new(limits.max_mds as u32),
            eqs: ObjectTable::new(limits.max_eqs as u32),
            operations,
            drops: Drops::default(),
            handled: VecDeque::new(),
            next_link: 1,
            again: LastRequest::NONE,
            processes,
        }
    }

    /// The interface's handle.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Which opening of the interface this is.
    pub fn opening(&self) -> u32 {
        self.opening
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Who this process is (`PtlGetId`, `PtlGetUid`, `PtlGetJid`).
    pub fn identity(&self) -> Identity {
        self.me
    }

    /// Others are who they are from now on; this process stays who it is.
    pub fn set_processes(&mut self, processes: &Rc<Processes>) {
        self.processes = Rc::clone(processes);
        self.again = LastRequest::NONE;
    }

    /// The job's processes.
    pub fn processes(&self) -> &Rc<Processes> {
        &self.processes
    }

    /// `PtlNIStatus`: a status register.
    /// There is only [`SR_DROP_COUNT`].
    pub fn status(&self, register: u32) -> Result<u64, Error> {
        if register == SR_DROP_COUNT {
            Ok(self.drops.total())
        } else {
            Err(Error::SrIndexInvalid)
        }
    }

    /// What was dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// `PtlNIHandle`: the interface of any object, this interface's own handle included.
    pub fn interface_of(&self, handle: Handle) -> Result<Handle, Error> {
        let known = match handle.kind() {
            HandleKind::Ni => handle == self.handle,
            HandleKind::Me => self.mes.find(handle).is_some(),
            HandleKind::Md => self.mds.find(handle).is_some(),
            HandleKind::Eq => self.eqs.find(handle).is_some(),
        };
        if known {
            Ok(self.handle)
        } else {
            Err(Error::HandleInvalid)
        }
    }

    /// `PtlACEntry` (section 3.12): whom access entry `index` admits.
    pub fn ac_entry(&mut self, index: u32, entry: AccessEntry) -> Result<(), Error> {
        let slot = self.access.get_mut(index as usize).ok_or(Error::AcIndexInvalid)?;
        if entry.pt_index != crate::types::ANY && entry.pt_index as usize >= self.portals.len() {
            return Err(Error::PtIndexInvalid);
        }
        if !self.processes.admissible(entry.id) {
            return Err(Error::ProcessInvalid);
        }
        *slot = entry;
        self.again = LastRequest::NONE;
        Ok(())
    }

    /// The next event that a handler is to see, with the queue it was logged in. To be asked after every call that can
    /// log events.
    #[inline]
    pub fn next_handled(&mut self) -> Option<(Handle, Event)> {
        self.handled.pop_front()
    }

    /// Whether [`next_handled`](Self::next_handled) has one.
    #[inline]
    pub fn has_handled(&self) -> bool {
        !self.handled.is_empty()
    }

    /// How many it has.
    pub fn handled_len(&self) -> usize {
        self.handled.len()
    }

    /// What the objects take, bytes: match entries with their places in lists, descriptors without the segments they name, queues with
    /// their events.
    pub fn object_bytes(&self) -> usize {
        let queues: usize = self.eqs.iter().map(|(_, queue)| queue.bytes()).sum();
        self.mes.len() * (ObjectTable::<MatchEntry>::PLACE + list::ENTRY)
            + self.mds.len() * ObjectTable::<Descriptor>::PLACE
            + self.eqs.len() * ObjectTable::<EventQueue>::PLACE
            + queues
    }

    /// Operations in progress, those included that wait for an answer.
    pub fn operations(&self) -> usize {
        self.operations.len()
    }

    #[inline]
    fn link(&mut self) -> u32 {
        let link = self.next_link;
        self.next_link = link.wrapping_add(1);
        link
    }

    /// Log an event of a descriptor, if it has a queue and does not disable such events. The sequence it got. A START
    /// promises the queue an END, which `md_update` waits for.
    #[inline(always)]
    fn log(
        &mut self,
        md: u32,
        kind: EventKind,
        who: &Identity,
        facts: &Facts,
        ni_fail_type: NiFail,
    ) -> Option<u32> {
        use EventKind::*;
        let descriptor = self.mds.get(md)?;
        let queue = self.eqs.named(descriptor.md.eq_handle)?;
        let off = match kind {
            GetStart | PutStart | GetPutStart | ReplyStart | SendStart => {
                queue.pending += 1;
                descriptor.has(option::EVENT_START_DISABLE)
            }
            GetEnd | PutEnd | GetPutEnd | ReplyEnd | SendEnd => {
                queue.pending = queue.pending.saturating_sub(1);
                descriptor.has(option::EVENT_END_DISABLE)
            }
            // An acknowledgement has no pair: it is off when both are (section 5).
            Ack => descriptor.has(option::EVENT_START_DISABLE) && descriptor.has(option::EVENT_END_DISABLE),
            Unlink => false,
        };
        if off {
            return None;
        }
        Some(queue.log_of(descriptor, kind, who, facts, ni_fail_type, &mut self.handled))
    }

    /// `count` an operation that begins and ends here and now in its descriptor, log its START and END, and UNLINK if that was the last of
    /// the descriptor, which `over` tells the match list first: what [`consume`](Self::consume), [`log`](Self::log) and [`end`](Self::end)
    /// do in steps.
    #[inline(always)]
    fn log_whole(
        &mut self,
        md: u32,
        kinds: [EventKind; 2],
        who: &Identity,
        facts: &Facts,
        count: impl FnOnce(&mut Descriptor),
        over: impl FnOnce(&mut Self),
    ) {
        let Some(descriptor) = self.mds.get_mut(md) else {
            return;
        };
        count(descriptor);
        let mut cause = 0;
        if let Some(queue) = self.eqs.named(descriptor.md.eq_handle) {
            let [start, end] = kinds;
            if !descriptor.has(option::EVENT_START_DISABLE) {
                cause = queue.log_of(descriptor, start, who, facts, NiFail::OK, &mut self.handled);
            }
            if !descriptor.has(option::EVENT_END_DISABLE) {
                cause = queue.log_of(descriptor, end, who, facts, NiFail::OK, &mut self.handled);
            }
        }
        if !descriptor.active {
            over(self);
            // By copies, so that these need no memory as long as it does not come to this.
            let (who, facts) = (*who, *facts);
            self.retire(md, &who, &facts, cause, NiFail::OK);
        }
    }

    /// An operation of a descriptor ends: END, then UNLINK if that was the last of it (section 6).
    #[inline(always)]
    fn end(&mut self, md: u32, kind: EventKind, who: &Identity, facts: &Facts, fail: NiFail) {
        let sequence = self.log(md, kind, who, facts, fail);
        let Some(descriptor) = self.mds.get_mut(md) else {
            return;
        };
        descriptor.pending -= 1;
        if descriptor.unlink == Unlink::Unlink && !descriptor.active {
            self.retire(md, who, facts, sequence.unwrap_or(facts.start), fail);
        }
    }

    /// Release a descriptor that is to go by itself: inactive, and nothing in progress. Its UNLINK links to the event
    /// that caused it, `cause`.
    #[inline(never)]
    fn retire(&mut self, md: u32, who: &Identity, facts: &Facts, cause: u32, fail: NiFail) {
        let goes = self
            .mds
            .get(md)
            .is_some_and(|d| d.unlink == Unlink::Unlink && !d.active && d.pending == 0);
        if goes {
            self.log(
                md,
                EventKind::Unlink,
                who,
                &Facts {
                    link: cause,
                    ..*facts
                },
                fail,
            );
            self.release(md);
        }
    }

    /// Take a descriptor away, and its match entry where that is to go with it.
    fn release(&mut self, md: u32) {
        let Some(me) = self.mds.remove(md).and_then(|d| d.me) else {
            return;
        };
        let goes = match self.mes.get_mut(me) {
            Some(entry) => {
                entry.md = None;
                entry.unlink == Unlink::Unlink
            }
            None => return,
        };
        if goes {
            self.remove_entry(me);
        } else {
            self.show(me);
        }
    }

    fn remove_entry(&mut self, me: u32) {
        if let Some(entry) = self.mes.remove(me) {
            self.portals[entry.pt_index as usize].remove(me as u16, entry.label);
        }
    }

    /// Make the match list see what an entry's descriptor accepts now.
    #[inline]
    fn show(&mut self, me: u32) {
        let Some(entry) = self.mes.get(me) else { return };
        let (md, operations) = match entry.md.and_then(|md| Some((md, self.mds.get(md)?))) {
            Some((md, descriptor)) => (md as u16, descriptor.operations()),
            None => (0, 0),
        };
        self.portals[entry.pt_index as usize].set(me as u16, entry.label, md, operations);
    }

    /// One operation of a descriptor's threshold, and what follows from it for the match list.
    #[inline]
    fn consume(&mut self, md: u32) {
        let Some(descriptor) = self.mds.get_mut(md) else {
            return;
        };
        descriptor.consume();
        if !descriptor.active {
            self.show_spent(md);
        }
    }

    /// Make the match list see that a descriptor has become inactive.
    fn show_spent(&mut self, md: u32) {
        if let Some(me) = self.mds.get(md).and_then(|descriptor| descriptor.me) {
            self.show(me);
        }
    }
}

/// Library limits, or what is asked for where that is less (section 3.5).
fn actual_limits(desired: Option<&Limits>) -> Limits {
    let most = Limits::LIBRARY;
    let Some(wanted) = desired else { return most };
    let least = |wanted: i32, most: i32| wanted.clamp(0, most);
    Limits {
        max_mes: least(wanted.max_mes, most.max_mes),
        max_mds: least(wanted.max_mds, most.max_mds),
        max_eqs: least(wanted.max_eqs, most.max_eqs),
        max_ac_index: least(wanted.max_ac_index, most.max_ac_index),
        max_pt_index: least(wanted.max_pt_index, most.max_pt_index),
        max_md_iovecs: least(wanted.max_md_iovecs, most.max_md_iovecs),
        max_me_list: least(wanted.max_me_list, most.max_me_list),
        max_getput_md: least(wanted.max_getput_md, most.max_getput_md),
    }
}

impl Library {
    /// Whether a match entry or access entry may name `id`.
    fn admissible(&self, id: ProcessId) -> bool {
        self.processes.admissible(id)
    }
}
