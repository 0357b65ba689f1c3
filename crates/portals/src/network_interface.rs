//! The calls of a network interface (sections 3.5 to 3.13), each described once: what it is called with, what this process's library
//! does for it, and in what words an agent is asked for it.

use crate::backend::Backend;
use crate::bridge::{Halves, Request, Update, command};
use crate::error::Error;
use crate::handlers::Handler;
use crate::library::{AccessEntry, DropReason, Library, Processes, Target};
use crate::types::{
    AckReq, Event, Handle, Identity, Iovec, Limits, Md, Position, ProcessId, SR_DROP_COUNT, Taken, Unlink,
};
use farpost_fabric::wait::Relax;
use farpost_fabric::{Distance, Peer};
use std::rc::Rc;
use std::time::Duration;

/// A network interface, wherever its library runs: an [`Interface`](crate::Interface) has it in this process, a
/// [`Client`](crate::agent::Client) works by way of an agent, and an [`AnyInterface`](crate::AnyInterface) is either. Nothing blocks
/// but [`eq_wait`](Self::eq_wait), [`eq_poll`](Self::eq_poll) and [`close`](Self::close).
///
/// By way of an agent, calls that ask it wait for its answer; put, get and get-put do not. When it has ended they answer
/// [`Error::Fail`], which is not listed below.
///
/// Memory that descriptors describe belongs to the interface from [`md_attach`](Self::md_attach), [`md_bind`](Self::md_bind) or
/// [`md_update`](Self::md_update) on until the descriptor is gone, which is why these are `unsafe`.
pub trait NetworkInterface: Backend {
    /// The interface's handle.
    fn handle(&self) -> Handle;

    /// The limits in force.
    fn limits(&self) -> Limits;

    /// Who this process is (`PtlGetId`, `PtlGetUid`, `PtlGetJid`).
    fn identity(&self) -> Identity;

    /// Who everybody is.
    fn processes(&self) -> Rc<Processes>;

    /// Whether nothing of this process's is under way: sends have left, bodies are in place, answers have gone; by way of an agent,
    /// between it and this process.
    fn is_idle(&self) -> bool;

    /// What to call while a call waits, with what would be done next; true: it let time pass. Nothing is borrowed then.
    fn set_relax(&self, relax: Option<Relax>) {
        self.waits().relax.set(relax);
    }

    /// Move what can be moved, without blocking, and run handlers. True: something happened, now or since the last call, by way of
    /// another call that makes progress too: events may be there that nobody has looked for.
    fn progress(&self) -> bool;

    /// Take in what has come, quicker than [`progress`](Self::progress), which has to be called now and then all the same: what can wait
    /// is left to it. True: something had come. For loops that wait.
    #[inline(always)]
    fn look(&self) -> bool {
        self.progress()
    }

    /// `PtlNIFini`: let what is under way finish, for `patience` at most, then release all objects. What arrives from now on is
    /// dropped and counted (section 4.2, rule 1), as long as somebody calls [`progress`](Self::progress); an agent does that by
    /// itself. True: nothing was under way any more; otherwise memory may still be in use.
    fn close(&self, patience: Duration) -> bool;

    /// What waiting calls do now and then, for who waits by itself: look who has ended. True: something was logged.
    fn attend(&self) -> bool {
        self.poll()
    }

    /// Whether a look would find something; by way of an agent only a look tells.
    #[inline(always)]
    fn is_ready(&self) -> bool {
        true
    }

    /// Whether no message of this process's waits to be taken over by the network layer: then a put of what fits into a
    /// packet has left its memory when the call returns, and so have those before it. By way of an agent nobody can tell.
    #[inline(always)]
    fn is_clear(&self) -> bool {
        false
    }

    /// `PtlNIStatus`: a status register. There is one, the messages that were dropped.
    ///
    /// # Errors
    /// [`Error::SrIndexInvalid`].
    fn ni_status(&self, register: u32) -> Result<u64, Error> {
        if register != SR_DROP_COUNT {
            return Err(Error::SrIndexInvalid);
        }
        // Programs ask this in loops, too.
        self.poll();
        self.call(|library| library.status(register), command::STATUS, 0u64)
    }

    /// Messages that were dropped for this reason; 0 when the agent has ended.
    fn dropped(&self, reason: DropReason) -> u64 {
        let dropped = self.call(
            |library| Ok(library.drops().of(reason)),
            command::STATUS,
            1 + reason as u64,
        );
        dropped.unwrap_or(0)
    }

    /// `PtlNIDist`: 0 for this process, 1 within the host, 2 between hosts.
    ///
    /// # Errors
    /// [`Error::ProcessInvalid`].
    fn ni_dist(&self, id: ProcessId) -> Result<u64, Error> {
        let number = self.processes().number(id).ok_or(Error::ProcessInvalid)?;
        Ok(match self.distance(Peer(number)) {
            Distance::Same => 0,
            Distance::Host => 1,
            Distance::Far => 2,
        })
    }

    /// `PtlNIHandle`: the interface that an object belongs to; its own handle belongs to it, too.
    ///
    /// # Errors
    /// [`Error::HandleInvalid`].
    fn ni_handle(&self, handle: Handle) -> Result<Handle, Error> {
        let own = self.handle();
        if handle == own {
            return Ok(own);
        }
        let interface_of = |library: &mut Library| library.interface_of(handle).map(|_| ());
        self.call(interface_of, command::INTERFACE_OF, handle)
            .map(|()| own)
    }

    /// `PtlACEntry`: whom access entry `index` admits.
    ///
    /// # Errors
    /// [`Error::AcIndexInvalid`]; [`Error::PtIndexInvalid`]; [`Error::ProcessInvalid`]: no process of the job can be meant.
    fn ac_entry(&self, index: u32, entry: AccessEntry) -> Result<(), Error> {
        self.call(
            |library| library.ac_entry(index, entry),
            command::AC_ENTRY,
            (index, entry),
        )
    }

    /// `PtlMEAttach`: a match entry at the head or the tail of portal `pt_index`'s list. `bits` are the match bits, and those that are
    /// ignored.
    ///
    /// # Errors
    /// [`Error::PtIndexInvalid`], [`Error::ProcessInvalid`], [`Error::MeListTooLong`], [`Error::NoSpace`].
    #[inline]
    fn me_attach(
        &self,
        pt_index: u32,
        id: ProcessId,
        bits: (u64, u64),
        unlink: Unlink,
        position: Position,
    ) -> Result<Handle, Error> {
        self.call(
            |library| library.me_attach(pt_index, id, bits, unlink, position),
            command::ME_ATTACH,
            (pt_index, id, bits, Halves(unlink, position)),
        )
    }

    /// `PtlMEAttachAny`: a match entry at a portal index that has none, and which one that is.
    ///
    /// # Errors
    /// [`Error::PtFull`], [`Error::ProcessInvalid`], [`Error::NoSpace`].
    #[inline]
    fn me_attach_any(&self, id: ProcessId, bits: (u64, u64), unlink: Unlink) -> Result<(u32, Handle), Error> {
        let attach = |library: &mut Library| library.me_attach_any(id, bits, unlink);
        let made = self.call(
            |library| attach(library).map(|(pt_index, me)| Halves(me, pt_index)),
            command::ME_ATTACH_ANY,
            (id, bits, unlink),
        );
        made.map(|Halves(me, pt_index)| (pt_index, me))
    }

    /// `PtlMEInsert`: a match entry directly before or after `base`.
    ///
    /// # Errors
    /// [`Error::MeInvalid`], [`Error::ProcessInvalid`], [`Error::MeListTooLong`], [`Error::NoSpace`].
    #[inline]
    fn me_insert(
        &self,
        base: Handle,
        id: ProcessId,
        bits: (u64, u64),
        unlink: Unlink,
        position: Position,
    ) -> Result<Handle, Error> {
        self.call(
            |library| library.me_insert(base, id, bits, unlink, position),
            command::ME_INSERT,
            (base, id, bits, Halves(unlink, position)),
        )
    }

    /// `PtlMEUnlink`: take a match entry out of its list and release it with its descriptor.
    ///
    /// # Errors
    /// [`Error::MeInvalid`]; [`Error::MeInUse`]: its descriptor has operations in progress; try again, which makes progress.
    #[inline]
    fn me_unlink(&self, me: Handle) -> Result<(), Error> {
        self.release(me, |library| library.me_unlink(me), command::ME_UNLINK)
    }

    /// `PtlMDAttach`: a descriptor for a match entry that has none.
    ///
    /// # Errors
    /// [`Error::MeInvalid`]; [`Error::MeInUse`]: it has one; [`Error::MdIllegal`]; [`Error::EqInvalid`]; [`Error::NoSpace`].
    ///
    /// # Safety
    /// The memory described is valid, for writing if the descriptor accepts puts or is to receive replies, and used by
    /// nobody else between a START and its END, until the descriptor is gone and [`close`](Self::close) or
    /// [`progress`](Self::progress) have nothing of it under way.
    #[allow(unsafe_code)]
    #[inline]
    unsafe fn md_attach(&self, me: Handle, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error> {
        self.new_md(Some(me), md, iovec, unlink)
    }

    /// `PtlMDBind`: a descriptor of its own, to send from and for replies.
    ///
    /// # Errors
    /// [`Error::MdIllegal`], [`Error::EqInvalid`], [`Error::NoSpace`].
    ///
    /// # Safety
    /// As for [`md_attach`](Self::md_attach).
    #[allow(unsafe_code)]
    #[inline]
    unsafe fn md_bind(&self, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error> {
        self.new_md(None, md, iovec, unlink)
    }

    /// `PtlMDUnlink`: release a descriptor, and its match entry where that was made to go with it. No UNLINK event.
    ///
    /// # Errors
    /// [`Error::MdInvalid`]; [`Error::MdInUse`]: operations are in progress; try again, which makes progress. A get or an
    /// acknowledgement that has not been answered does not count.
    #[inline]
    fn md_unlink(&self, md: Handle) -> Result<(), Error> {
        self.release(md, |library| library.md_unlink(md), command::MD_UNLINK)
    }

    /// `PtlMDUpdate`: `old` receives the present values in any case; `new` replaces all of them at once and begins the local
    /// offset again, unless `testq` holds an event. What an agent has posted and the program has not taken counts as one.
    ///
    /// # Errors
    /// [`Error::MdNoUpdate`]: `testq` is not empty or will not be, or the descriptor has operations in progress; try again, which makes
    /// progress. [`Error::MdInvalid`], [`Error::EqInvalid`], [`Error::MdIllegal`].
    ///
    /// # Safety
    /// As for [`md_attach`](Self::md_attach).
    #[allow(unsafe_code)]
    unsafe fn md_update(
        &self,
        md: Handle,
        old: Option<&mut Md>,
        new: Option<(Md, Iovec)>,
        testq: Handle,
    ) -> Result<(), Error> {
        let how = if new.is_some() {
            Update::Replace
        } else {
            Update::Read
        };
        self.update((md, testq), old, new, how)
    }

    /// As [`md_update`](Self::md_update), for who has taken in what `eq` says so far: events that it holds refuse the update, those that
    /// operations in progress will log there do not. Who holds on to messages from their beginning to their end would otherwise wait
    /// here for whoever sends one.
    ///
    /// # Errors
    /// [`Error::MdNoUpdate`]: `eq` holds events, or the descriptor has operations in progress. Else as for
    /// [`md_update`](Self::md_update).
    ///
    /// # Safety
    /// As for [`md_attach`](Self::md_attach).
    #[allow(unsafe_code)]
    unsafe fn md_update_unless_logged(&self, md: Handle, new: (Md, Iovec), eq: Handle) -> Result<(), Error> {
        self.update((md, eq), None, Some(new), Update::ReplaceUnlessLogged)
    }

    /// `PtlEQAlloc`: a queue of at least `count` events; [`Handle::EQ_NONE`] for 0. `handler` sees every event, in a call of this
    /// process's that finds it. By way of an agent the mailbox holds some events beside the queue.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: no queue is left, `count` is more than 2^20 (2^16 for an agent that matches), or there is no memory for so
    /// many events.
    fn eq_alloc(&self, count: u32, handler: Option<Handler>) -> Result<Handle, Error> {
        let handled = handler.is_some();
        let eq = self.call(
            |library| Ok(library.eq_alloc(count, handled)?.unwrap_or(Handle::EQ_NONE)),
            command::EQ_ALLOC,
            (count, handled),
        )?;
        if eq != Handle::EQ_NONE {
            self.queue_made(eq, count, handled);
            if let Some(handler) = handler {
                self.handlers().add(eq, handler);
            }
        }
        Ok(eq)
    }

    /// `PtlEQFree`: release a queue with the events in it. A descriptor that refers to it logs no events from now on.
    ///
    /// # Errors
    /// [`Error::EqInvalid`].
    fn eq_free(&self, eq: Handle) -> Result<(), Error> {
        self.call(|library| library.eq_free(eq), command::EQ_FREE, eq)?;
        self.queue_gone(eq);
        self.handlers().remove(eq);
        Ok(())
    }

    /// `PtlEQGet`: the oldest event. A program that calls this in a loop and finds nothing for long gives up the core in
    /// here, and later sleeps until something comes, a millisecond at most.
    ///
    /// # Errors
    /// [`Error::EqEmpty`], [`Error::EqInvalid`].
    #[inline]
    fn eq_get(&self, eq: Handle) -> Result<Taken, Error> {
        match self.take(eq) {
            Err(Error::EqEmpty) => {}
            taken => return taken,
        }
        // Others may keep this process busy, though nothing comes to this queue.
        let moved = self.poll();
        let taken = self.take(eq);
        if moved || taken.is_ok() {
            self.found();
        } else if taken == Err(Error::EqEmpty) {
            self.rest();
        }
        taken
    }

    /// The oldest event, where it lies, and whether events before it were lost; without a look at the network: for who calls
    /// [`progress`](Self::progress) by itself. `None`: there is none. `read` must not call the interface.
    fn eq_take<R>(&self, eq: Handle, read: impl FnOnce(&Event, bool) -> R) -> Option<R>;

    /// `PtlEQWait`: the oldest event, as soon as there is one.
    ///
    /// # Errors
    /// [`Error::EqInvalid`], also when the queue is freed or the interface closed meanwhile.
    #[inline]
    fn eq_wait(&self, eq: Handle) -> Result<Taken, Error> {
        let look = || match self.take(eq) {
            Err(Error::EqEmpty) => None,
            taken => Some(taken),
        };
        self.wait_until(None, look).unwrap_or(Err(Error::Fail))
    }

    /// As [`eq_wait`](Self::eq_wait), with the event where it lies, and whether events before it were lost. `read` must not call the
    /// interface.
    ///
    /// # Errors
    /// As [`eq_wait`](Self::eq_wait).
    #[inline]
    fn eq_wait_with<R>(&self, eq: Handle, read: impl FnOnce(&Event, bool) -> R) -> Result<R, Error> {
        let taken = self.eq_wait(eq)?;
        Ok(read(&taken.event, taken.dropped))
    }

    /// `PtlEQPoll`: the oldest event of the first of `eqs` that holds one, and which that is. `None` for `timeout` waits as long
    /// as it takes.
    ///
    /// # Errors
    /// [`Error::EqEmpty`]: the time is up. [`Error::EqInvalid`]: `eqs` is empty or names what is no queue.
    #[inline]
    fn eq_poll(&self, eqs: &[Handle], timeout: Option<Duration>) -> Result<(usize, Taken), Error> {
        if eqs.is_empty() {
            return Err(Error::EqInvalid);
        }
        let deadline = timeout.map(|timeout| self.policy().now() + timeout);
        self.wait_until(deadline, || self.take_first(eqs))
            .unwrap_or(Err(Error::EqEmpty))
    }

    /// `PtlPut`: what `md` describes goes to `target`. An acknowledgement is asked for only if the descriptor has a queue to log it
    /// in.
    ///
    /// # Errors
    /// [`Error::MdInvalid`]: no descriptor, or an inactive one; of an agent that matches, a put from an inactive one, or one that has
    /// gone there, does nothing and succeeds (section 3.10.1), and so do the others. [`Error::ProcessInvalid`]; [`Error::NoSpace`];
    /// [`Error::NiInvalid`]: the interface is closed.
    #[inline]
    fn put(&self, md: Handle, ack: AckReq, target: &Target, hdr_data: u64) -> Result<(), Error> {
        self.begin_put(md, None, ack, target, hdr_data)
    }

    /// `PtlPutRegion`: `region` is offset and length within the descriptor, in bytes.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::MdIllegal`]: the region leaves the descriptor.
    #[inline]
    fn put_region(
        &self,
        md: Handle,
        region: (u64, u64),
        ack: AckReq,
        target: &Target,
        hdr_data: u64,
    ) -> Result<(), Error> {
        self.begin_put(md, Some(region), ack, target, hdr_data)
    }

    /// The header of a put of `length` bytes, which stay where they are: it is matched as that put would be, and its events at the target
    /// say so many bytes requested, and none stored. Nothing is logged here, and nothing is acknowledged. Not a call of the document.
    ///
    /// # Errors
    /// [`Error::ProcessInvalid`]; [`Error::MdIllegal`]: no memory is so long; [`Error::NiInvalid`].
    fn put_header(&self, length: u64, target: &Target, hdr_data: u64) -> Result<(), Error> {
        self.begin(
            |library| library.put_header(length, target, hdr_data),
            Request::put_header(length, target, hdr_data),
        )
    }

    /// `PtlGet`: what `target` describes comes to `md`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    #[inline]
    fn get(&self, md: Handle, target: &Target) -> Result<(), Error> {
        self.begin(
            |library| library.get(md, None, target),
            Request::get(md, None, target),
        )
    }

    /// `PtlGetRegion`: `region` is offset and length within the descriptor, in bytes, where the reply lands.
    ///
    /// # Errors
    /// As [`put_region`](Self::put_region).
    #[inline]
    fn get_region(&self, md: Handle, region: (u64, u64), target: &Target) -> Result<(), Error> {
        self.begin(
            |library| library.get(md, Some(region), target),
            Request::get(md, Some(region), target),
        )
    }

    /// `PtlGetPut`: what `put_md` describes goes to `target`, and what was there comes to `get_md`.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::MdIllegal`]: more bytes than the limit `max_getput_md`.
    #[inline]
    fn get_put(&self, get_md: Handle, put_md: Handle, target: &Target, hdr_data: u64) -> Result<(), Error> {
        self.begin(
            |library| library.prepare_get_put(get_md, put_md, target, hdr_data),
            Request::get_put(get_md, put_md, target, hdr_data),
        )
    }
}
