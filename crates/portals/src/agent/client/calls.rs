//! The calls of an interface, done by way of an agent.

use super::accelerated::{Queue, Shown};
use super::{Client, Inner, Side};
use crate::backend::{Backend, Waiting};
use crate::bridge::record::{MAX_PIECES, Piece, Record, Update, Words, Write, command, error_of};
use crate::bridge::{Mode, Request};
use crate::error::Error;
use crate::handlers::Handlers;
use crate::library::{Library, Outgoing, Processes, memory_of};
use crate::memory::Segments;
use crate::network_interface::NetworkInterface;
use crate::types::{Event, Handle, Identity, Iovec, Limits, Md, Taken, Unlink};
use farpost_fabric::{Cost, Distance, Fabric, Peer};
use std::rc::Rc;
use std::time::Duration;

/// Time between two questions of [`NetworkInterface::attend`] whether the agent has ended.
const ATTEND: Duration = Duration::from_millis(20);

impl<F: Fabric> Backend for Client<F> {
    fn call<T: Record>(
        &self,
        here: impl FnOnce(&mut Library) -> Result<T, Error>,
        command: u8,
        told: impl Write,
    ) -> Result<T, Error> {
        match self.mode {
            Mode::Generic => self.trap(here),
            Mode::Accelerated => self.ask(command, told),
        }
    }

    fn release(
        &self,
        object: Handle,
        here: impl Fn(&mut Library) -> Result<(), Error>,
        command: u8,
    ) -> Result<(), Error> {
        self.advance();
        self.call(here, command, object)?;
        self.forget(|shown| shown.handle == object || shown.me == object);
        Ok(())
    }

    fn new_md(&self, me: Option<Handle>, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error> {
        if self.mode == Mode::Generic {
            return self.trap(|library| library.new_md(me, md, iovec, unlink));
        }
        let (memory, pieces) = self.show(&md, &iovec)?;
        let kind = if me.is_some() {
            command::MD_ATTACH
        } else {
            command::MD_BIND
        };
        let me = me.unwrap_or(Handle::NONE);
        let made = self.ask(kind, (me, unlink, md, &pieces[..]));
        let inner = &mut *self.inner.borrow_mut();
        match (made, &mut inner.side) {
            (Ok(handle), Side::Accelerated(accelerated)) => {
                accelerated.mds.push(Shown {
                    handle,
                    me,
                    memory,
                    pieces,
                });
                Ok(handle)
            }
            (made, _) => {
                inner.mailbox.withdraw(&pieces);
                made
            }
        }
    }

    fn update(
        &self,
        of: (Handle, Handle),
        old: Option<&mut Md>,
        new: Option<(Md, Iovec)>,
        how: Update,
    ) -> Result<(), Error> {
        if how != Update::ReplaceUnlessLogged || self.mode == Mode::Accelerated {
            self.advance();
        }
        if let Side::Generic(generic) = &mut self.inner.borrow_mut().side {
            return how.apply(&mut generic.library, of, old, new);
        }
        self.ask_for_update(of, old, new, how)
    }

    fn begin(
        &self,
        prepare: impl FnOnce(&mut Library) -> Result<Outgoing, Error>,
        request: Request,
    ) -> Result<(), Error> {
        self.start(prepare, &request)
    }

    fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    fn queue_made(&self, eq: Handle, count: u32, handled: bool) {
        if let Side::Accelerated(accelerated) = &mut self.inner.borrow_mut().side {
            accelerated.queues.push(Queue::new(eq, count, handled));
        }
    }

    fn queue_gone(&self, eq: Handle) {
        if let Side::Accelerated(accelerated) = &mut self.inner.borrow_mut().side {
            accelerated.queues.retain(|queue| queue.handle != eq);
        }
    }

    fn take(&self, eq: Handle) -> Result<Taken, Error> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.mailbox.leaving {
            // The interface is being closed, and its objects are gone.
            return Err(Error::EqInvalid);
        }
        let taken = match &mut inner.side {
            Side::Generic(generic) => generic.library.eq_get(eq),
            Side::Accelerated(accelerated) => accelerated
                .queues
                .iter_mut()
                .find(|queue| queue.handle == eq)
                .ok_or(Error::EqInvalid)
                .and_then(|queue| queue.events.pop_front().ok_or(Error::EqEmpty)),
        };
        match taken {
            Err(Error::EqEmpty) if inner.mailbox.ended => Err(Error::Fail),
            taken => taken,
        }
    }

    fn take_first(&self, eqs: &[Handle]) -> Option<Result<(usize, Taken), Error>> {
        if eqs.iter().any(|eq| !self.has_queue(*eq)) {
            return Some(Err(Error::EqInvalid));
        }
        for (which, eq) in eqs.iter().enumerate() {
            match self.take(*eq) {
                Err(Error::EqEmpty) => {}
                taken => return Some(taken.map(|taken| (which, taken))),
            }
        }
        None
    }

    fn distance(&self, peer: Peer) -> Distance {
        let fabric = &self.inner.borrow().mailbox.fabric;
        fabric.distance(self.routes.process_of(peer.0))
    }
}

impl<F: Fabric> NetworkInterface for Client<F> {
    fn handle(&self) -> Handle {
        self.inner.borrow().handle
    }

    fn limits(&self) -> Limits {
        self.inner.borrow().limits
    }

    fn identity(&self) -> Identity {
        self.me
    }

    fn processes(&self) -> Rc<Processes> {
        Rc::clone(&self.processes)
    }

    fn is_idle(&self) -> bool {
        let inner = self.inner.borrow();
        if inner.mailbox.ended {
            // Nothing that waits will move any more.
            return true;
        }
        let here = match &inner.side {
            Side::Generic(generic) => generic.is_idle(),
            Side::Accelerated(_) => true,
        };
        here && inner.mailbox.is_idle()
    }

    /// Take what the agent has posted, give it what waits, and run handlers.
    fn progress(&self) -> bool {
        self.advance_or_ask();
        self.waits.needs_progress.replace(false)
    }

    fn attend(&self) -> bool {
        self.waits.may_ask(ATTEND) && self.ask_who_has_ended()
    }

    /// The agent rings whenever it has written something.
    fn is_ready(&self) -> bool {
        let mailbox = &self.inner.borrow().mailbox;
        self.waits.needs_progress.get() || (!mailbox.ended && mailbox.is_ready())
    }

    /// Short bodies are copied into the command.
    fn is_clear(&self) -> bool {
        match &self.inner.borrow().side {
            Side::Generic(generic) => generic.is_clear(),
            Side::Accelerated(_) => true,
        }
    }

    fn close(&self, patience: Duration) -> bool {
        self.take_leave(patience)
    }

    fn eq_take<R>(&self, eq: Handle, read: impl FnOnce(&Event, bool) -> R) -> Option<R> {
        let taken = self.take(eq).ok()?;
        Some(read(&taken.event, taken.dropped))
    }
}

impl<F: Fabric> Client<F> {
    /// Have the system do what its library does.
    fn trap<T>(&self, here: impl FnOnce(&mut Library) -> Result<T, Error>) -> Result<T, Error> {
        let Inner { mailbox, side, .. } = &mut *self.inner.borrow_mut();
        let Side::Generic(generic) = side else {
            return Err(Error::Fail);
        };
        mailbox.fabric.charge(Cost::Trap);
        here(&mut generic.library)
    }

    /// Have the agent update a descriptor, and show it the new memory.
    fn ask_for_update(
        &self,
        (md, testq): (Handle, Handle),
        old: Option<&mut Md>,
        new: Option<(Md, Iovec)>,
        how: Update,
    ) -> Result<(), Error> {
        let mut seen = 0;
        if let Side::Accelerated(accelerated) = &self.inner.borrow().side
            && let Some(queue) = accelerated.queues.iter().find(|q| q.handle == testq)
        {
            // A number that cannot be says that the queue is not empty.
            seen = if queue.events.is_empty() {
                queue.seen
            } else {
                u64::MAX
            };
        }
        let replaces = new.is_some();
        let (values, iovec) = new.unwrap_or((Md::BLANK, None));
        let (memory, pieces) = self.show(&values, &iovec)?;
        let told = (md, testq, seen, how, values, &pieces[..]);
        let (code, words) = self.ask_code(command::MD_UPDATE, told)?;
        if let (Some(old), Ok(values), true) = (
            old,
            Words(&words).read(),
            code == 0 || error_of(code) == Error::MdNoUpdate,
        ) {
            *old = values;
        }
        let inner = &mut *self.inner.borrow_mut();
        if let Side::Accelerated(accelerated) = &mut inner.side {
            let shown = accelerated.mds.iter_mut().find(|shown| shown.handle == md);
            match shown {
                Some(shown) if code == 0 && replaces => {
                    let before = std::mem::replace(&mut shown.pieces, pieces);
                    shown.memory = memory;
                    inner.mailbox.withdraw(&before);
                }
                _ => inner.mailbox.withdraw(&pieces),
            }
        }
        if code == 0 { Ok(()) } else { Err(error_of(code)) }
    }

    /// Let the agent reach a descriptor's memory, segment by segment. The library checks the rest.
    fn show(&self, md: &Md, iovec: &Iovec) -> Result<(Segments, Vec<Piece>), Error> {
        // More could not be told.
        let iovec = iovec.as_ref().filter(|list| list.len() <= MAX_PIECES);
        let memory = memory_of(md, iovec.cloned()).ok_or(Error::MdIllegal)?;
        let mailbox = &mut self.inner.borrow_mut().mailbox;
        let shown = match iovec {
            // Empty segments count, too.
            Some(list) => list
                .iter()
                .map(|segment| mailbox.expose_one(*segment, true))
                .collect(),
            None => mailbox.expose(&memory, true),
        };
        let pieces = shown.map_err(|_| Error::MdIllegal)?;
        Ok((memory, pieces))
    }

    fn forget(&self, which: impl Fn(&Shown) -> bool) {
        let Inner { mailbox, side, .. } = &mut *self.inner.borrow_mut();
        if let Side::Accelerated(accelerated) = side {
            accelerated.forget(mailbox, which);
        }
    }

    fn has_queue(&self, eq: Handle) -> bool {
        match &self.inner.borrow().side {
            Side::Generic(generic) => generic.library.eq_has_events(eq).is_ok(),
            Side::Accelerated(accelerated) => accelerated.queues.iter().any(|queue| queue.handle == eq),
        }
    }
}
