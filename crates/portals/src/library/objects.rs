//! Match entries, memory descriptors and event queues: making, changing and releasing them (sections 3.9 to 3.11). What is wrong
//! with a call is said as by [`NetworkInterface`](crate::NetworkInterface), which also lists it.

use super::descriptor::{Descriptor, Region};
use super::list::Criteria;
use super::queue::{EventQueue, MAX_EVENTS};
use super::{Library, MatchEntry};
use crate::error::Error;
use crate::types::{Event, Handle, HandleKind, Iovec, Md, Position, ProcessId, Taken, Unlink};

impl Library {
    /// `PtlMEAttach`: a match entry at the head or the tail of portal `pt_index`'s list.
    pub fn me_attach(
        &mut self,
        pt_index: u32,
        id: ProcessId,
        (bits, ignore): (u64, u64),
        unlink: Unlink,
        position: Position,
    ) -> Result<Handle, Error> {
        if pt_index as usize >= self.portals.len() {
            return Err(Error::PtIndexInvalid);
        }
        self.new_entry(pt_index, None, Criteria { id, bits, ignore }, unlink, position)
    }

    /// `PtlMEAttachAny`: a match entry at a portal index that has none, and which one that is.
    pub fn me_attach_any(
        &mut self,
        id: ProcessId,
        (bits, ignore): (u64, u64),
        unlink: Unlink,
    ) -> Result<(u32, Handle), Error> {
        let unused = self.portals.iter().position(|list| list.is_empty());
        let pt_index = unused.ok_or(Error::PtFull)? as u32;
        let criteria = Criteria { id, bits, ignore };
        let handle = self.new_entry(pt_index, None, criteria, unlink, Position::After)?;
        Ok((pt_index, handle))
    }

    /// `PtlMEInsert`: a match entry directly before or after `base`.
    pub fn me_insert(
        &mut self,
        base: Handle,
        id: ProcessId,
        (bits, ignore): (u64, u64),
        unlink: Unlink,
        position: Position,
    ) -> Result<Handle, Error> {
        let entry = self.mes.seen(base).ok_or(Error::MeInvalid)?;
        let (pt_index, base) = (entry.pt_index, (base.index(), entry.label));
        let criteria = Criteria { id, bits, ignore };
        self.new_entry(pt_index, Some(base), criteria, unlink, position)
    }

    fn new_entry(
        &mut self,
        pt_index: u32,
        base: Option<(u16, u64)>,
        criteria: Criteria,
        unlink: Unlink,
        position: Position,
    ) -> Result<Handle, Error> {
        if !self.admissible(criteria.id) {
            return Err(Error::ProcessInvalid);
        }
        // Entries that were left without a descriptor count (section 12, 10).
        if self.portals[pt_index as usize].len() >= self.limits.max_me_list as usize {
            return Err(Error::MeListTooLong);
        }
        let (me, handle) = self.mes.enter(self.interface, |handle| MatchEntry {
            handle,
            pt_index,
            label: 0,
            unlink,
            md: None,
        })?;
        let mes = &mut self.mes;
        let relabel = |me, label| {
            if let Some(entry) = mes.get_mut(u32::from(me)) {
                entry.label = label;
            }
        };
        let label = self.portals[pt_index as usize].insert(base, criteria, me as u16, position, relabel);
        if let Some(entry) = self.mes.get_mut(me) {
            entry.label = label;
        }
        Ok(handle)
    }

    /// `PtlMEUnlink`: take a match entry out of its list and release it with its descriptor.
    ///
    /// # Errors
    /// [`Error::MeInvalid`]; [`Error::MeInUse`]: its descriptor has operations in progress (section 12, 12).
    pub fn me_unlink(&mut self, me: Handle) -> Result<(), Error> {
        let index = self.mes.find(me).ok_or(Error::MeInvalid)?;
        if let Some(md) = self.mes.get(index).and_then(|entry| entry.md) {
            if self.mds.get(md).is_some_and(|d| d.pending > 0) {
                return Err(Error::MeInUse);
            }
            self.mds.remove(md);
        }
        self.remove_entry(index);
        Ok(())
    }

    /// `PtlMDAttach`: a descriptor for a match entry that has none.
    pub fn md_attach(&mut self, me: Handle, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error> {
        let index = self.mes.find(me).ok_or(Error::MeInvalid)?;
        if self.mes.get(index).is_some_and(|entry| entry.md.is_some()) {
            return Err(Error::MeInUse);
        }
        let (key, handle) = self.new_descriptor(md, iovec, unlink, Some(index))?;
        if let Some(entry) = self.mes.get_mut(index) {
            entry.md = Some(key);
        }
        self.show(index);
        Ok(handle)
    }

    /// `PtlMDBind`: a descriptor of its own, to send from and for replies.
    pub fn md_bind(&mut self, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error> {
        Ok(self.new_descriptor(md, iovec, unlink, None)?.1)
    }

    /// Either.
    pub fn new_md(
        &mut self,
        me: Option<Handle>,
        md: Md,
        iovec: Iovec,
        unlink: Unlink,
    ) -> Result<Handle, Error> {
        match me {
            Some(me) => self.md_attach(me, md, iovec, unlink),
            None => self.md_bind(md, iovec, unlink),
        }
    }

    fn new_descriptor(
        &mut self,
        md: Md,
        iovec: Iovec,
        unlink: Unlink,
        me: Option<u32>,
    ) -> Result<(u32, Handle), Error> {
        let region = self.check_descriptor(&md, iovec)?;
        self.mds.enter(self.interface, |handle| {
            Descriptor::new(handle, md, region, unlink, me)
        })
    }

    fn check_descriptor(&self, md: &Md, iovec: Iovec) -> Result<Region, Error> {
        let eq = md.eq_handle;
        if eq != Handle::EQ_NONE && self.eqs.find(eq).is_none() {
            // A queue of another interface is a descriptor that contradicts itself; anything else is no queue at all.
            let other = eq.is_plausible() && eq.kind() == HandleKind::Eq && eq.interface() != self.interface;
            return Err(if other { Error::MdIllegal } else { Error::EqInvalid });
        }
        Region::check(md, iovec, &self.limits)
    }

    /// `PtlMDUnlink`: release a descriptor, and its match entry where that was made to go with it. No UNLINK event
    /// (section 12, 4).
    ///
    /// # Errors
    /// [`Error::MdInvalid`]; [`Error::MdInUse`]: operations are in progress (section 12, 12). A get or an ack that has
    /// not been answered does not count: its target may have dropped it. What answers afterwards is dropped.
    pub fn md_unlink(&mut self, md: Handle) -> Result<(), Error> {
        let index = self.mds.find(md).ok_or(Error::MdInvalid)?;
        if self.mds.get(index).is_some_and(|d| d.pending > 0) {
            return Err(Error::MdInUse);
        }
        self.release(index);
        Ok(())
    }

    /// `PtlMDUpdate` (section 6): `old` receives the present values in any case; `new` replaces all of them at once and
    /// begins the local offset again, unless `testq` holds an event.
    ///
    /// # Errors
    /// [`Error::MdNoUpdate`]: `testq` is not empty, or will not be, since an operation that logs to it is in progress, or
    /// this descriptor has operations in progress. Without the second the program would miss a message that has
    /// matched and is not in its queue yet. [`Error::MdInvalid`], [`Error::EqInvalid`], [`Error::MdIllegal`].
    pub fn md_update(
        &mut self,
        md: Handle,
        old: Option<&mut Md>,
        new: Option<(Md, Iovec)>,
        testq: Handle,
    ) -> Result<(), Error> {
        let index = self.mds.find(md).ok_or(Error::MdInvalid)?;
        let descriptor = self.mds.get(index).ok_or(Error::MdInvalid)?;
        let (values, me, pending) = (descriptor.md, descriptor.me, descriptor.pending);
        if let Some(old) = old {
            *old = values;
        }
        let quiet = if testq == Handle::EQ_NONE {
            true
        } else {
            let queue = self.eqs.seen(testq).ok_or(Error::EqInvalid)?;
            queue.is_empty() && queue.pending == 0
        };
        let Some((new, iovec)) = new else { return Ok(()) };
        let region = self.check_descriptor(&new, iovec)?;
        if !quiet || pending > 0 {
            return Err(Error::MdNoUpdate);
        }
        if let Some(descriptor) = self.mds.get_mut(index) {
            descriptor.replace(new, region);
        }
        if let Some(me) = me {
            self.show(me);
        }
        Ok(())
    }

    /// The same, but only events that `eq` holds are in the way, and not those that operations in progress will log there.
    ///
    /// # Errors
    /// As for [`md_update`](Self::md_update).
    pub fn md_update_unless_logged(&mut self, md: Handle, new: (Md, Iovec), eq: Handle) -> Result<(), Error> {
        if self.eq_has_events(eq)? {
            return Err(Error::MdNoUpdate);
        }
        self.md_update(md, None, Some(new), Handle::EQ_NONE)
    }

    /// `PtlEQAlloc`: a queue of at least `count` events. None: `count` is 0, C's `PTL_EQ_NONE`. With `handled` each
    /// event is also given out by [`next_handled`](Library::next_handled).
    ///
    /// # Errors
    /// [`Error::NoSpace`]: no queue is left, `count` is more than 2^20, or there is no memory for so many events.
    pub fn eq_alloc(&mut self, count: u32, handled: bool) -> Result<Option<Handle>, Error> {
        if count == 0 {
            return Ok(None);
        }
        if count > MAX_EVENTS || !self.eqs.has_room() {
            return Err(Error::NoSpace);
        }
        let memory = EventQueue::memory(count).ok_or(Error::NoSpace)?;
        let made = self
            .eqs
            .enter(self.interface, |handle| EventQueue::new(handle, memory, handled));
        made.map(|(_, handle)| Some(handle))
    }

    /// `PtlEQFree`: release a queue with the events in it. The program sees to it that no descriptor refers to it; one
    /// that does logs no events from now on.
    pub fn eq_free(&mut self, eq: Handle) -> Result<(), Error> {
        let index = self.eqs.find(eq).ok_or(Error::EqInvalid)?;
        self.eqs.remove(index);
        Ok(())
    }

    /// `PtlEQGet`: the oldest event. [`Taken::dropped`] says that events before it were lost.
    ///
    /// # Errors
    /// [`Error::EqEmpty`], [`Error::EqInvalid`].
    #[inline]
    pub fn eq_get(&mut self, eq: Handle) -> Result<Taken, Error> {
        let (event, dropped) = self.eq_take(eq)?;
        Ok(Taken {
            event: *event,
            dropped,
        })
    }

    /// As [`eq_get`](Self::eq_get), where the event lies.
    ///
    /// # Errors
    /// As [`eq_get`](Self::eq_get).
    #[inline(always)]
    pub fn eq_take(&mut self, eq: Handle) -> Result<(&Event, bool), Error> {
        let queue = self.eqs.named(eq).ok_or(Error::EqInvalid)?;
        queue.take().ok_or(Error::EqEmpty)
    }

    /// Whether a queue holds an event.
    ///
    /// # Errors
    /// [`Error::EqInvalid`].
    #[inline]
    pub fn eq_has_events(&self, eq: Handle) -> Result<bool, Error> {
        self.eqs
            .seen(eq)
            .map(|queue| !queue.is_empty())
            .ok_or(Error::EqInvalid)
    }

    /// Events that a queue holds; 0 of what is no queue.
    pub fn eq_len(&self, eq: Handle) -> usize {
        self.eqs.seen(eq).map_or(0, EventQueue::len)
    }
}
