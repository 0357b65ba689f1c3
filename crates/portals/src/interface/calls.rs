//! The calls of an inline interface: the library's, behind a borrow. Fast path: `begin`, `take`, `eq_take`, `progress`.

use super::Interface;
use crate::backend::{Backend, Waiting};
use crate::bridge::{Record, Request, Update, Write};
use crate::error::Error;
use crate::handlers::Handlers;
use crate::library::{Library, Outgoing, Processes, Target};
use crate::network_interface::NetworkInterface;
use crate::types::{AckReq, Event, Handle, Identity, Iovec, Limits, Md, Taken, Unlink};
use farpost_fabric::{Cost, Distance, Fabric, Peer, Work};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

impl<F: Fabric> Backend for Interface<F> {
    #[inline]
    fn call<T: Record>(
        &self,
        here: impl FnOnce(&mut Library) -> Result<T, Error>,
        _: u8,
        _: impl Write,
    ) -> Result<T, Error> {
        here(&mut self.state.borrow_mut().library)
    }

    fn release(
        &self,
        _: Handle,
        here: impl Fn(&mut Library) -> Result<(), Error>,
        _: u8,
    ) -> Result<(), Error> {
        let result = here(&mut self.state.borrow_mut().library);
        if !matches!(result, Err(Error::MeInUse | Error::MdInUse)) {
            return result;
        }
        if !self.poll() {
            self.rest();
        }
        here(&mut self.state.borrow_mut().library)
    }

    fn new_md(&self, me: Option<Handle>, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error> {
        self.state.borrow_mut().library.new_md(me, md, iovec, unlink)
    }

    fn update(
        &self,
        of: (Handle, Handle),
        old: Option<&mut Md>,
        new: Option<(Md, Iovec)>,
        how: Update,
    ) -> Result<(), Error> {
        let updated = how.apply(&mut self.state.borrow_mut().library, of, old, new);
        if updated == Err(Error::MdNoUpdate) && how != Update::ReplaceUnlessLogged {
            // Who repeats the call until it succeeds is not to wait for itself.
            self.advance();
        }
        updated
    }

    #[inline(always)]
    fn begin(
        &self,
        prepare: impl FnOnce(&mut Library) -> Result<Outgoing, Error>,
        _: Request,
    ) -> Result<(), Error> {
        self.fabric().charge(Cost::Work(Work::PortalsCall));
        self.start(prepare)
    }

    #[inline]
    fn begin_put(
        &self,
        md: Handle,
        region: Option<(u64, u64)>,
        ack: AckReq,
        target: &Target,
        hdr_data: u64,
    ) -> Result<(), Error> {
        self.fabric().charge(Cost::Work(Work::PortalsCall));
        if self.put_at_once(md, region, ack, target, hdr_data)? {
            return Ok(());
        }
        self.start(|library| library.prepare_put(md, region, ack, target, hdr_data))
    }

    fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    #[inline]
    fn take(&self, eq: Handle) -> Result<Taken, Error> {
        self.state.borrow_mut().library.eq_get(eq)
    }

    #[inline]
    fn take_first(&self, eqs: &[Handle]) -> Option<Result<(usize, Taken), Error>> {
        let state = &mut *self.state.borrow_mut();
        let mut first = None;
        for (which, eq) in eqs.iter().enumerate() {
            match state.library.eq_has_events(*eq) {
                Ok(true) if first.is_none() => first = Some(which),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        let which = first?;
        Some(state.library.eq_get(eqs[which]).map(|taken| (which, taken)))
    }

    fn distance(&self, peer: Peer) -> Distance {
        self.fabric().distance(self.process_of(peer.0))
    }
}

impl<F: Fabric> NetworkInterface for Interface<F> {
    fn handle(&self) -> Handle {
        self.state.borrow().library.handle()
    }

    fn limits(&self) -> Limits {
        *self.state.borrow().library.limits()
    }

    fn identity(&self) -> Identity {
        self.state.borrow().library.identity()
    }

    fn processes(&self) -> Rc<Processes> {
        Rc::clone(self.state.borrow().library.processes())
    }

    fn is_idle(&self) -> bool {
        let state = self.state.borrow();
        state.outbox.iter().all(VecDeque::is_empty) && state.swaps.is_empty() && self.net.is_idle()
    }

    #[inline]
    fn progress(&self) -> bool {
        self.advance();
        self.waits.needs_progress.replace(false)
    }

    #[inline(always)]
    fn look(&self) -> bool {
        self.glance()
    }

    fn close(&self, patience: Duration) -> bool {
        let deadline = self.policy().now() + patience;
        let quiet = self.wait_until(Some(deadline), || self.is_idle().then_some(()));
        let mut state = self.state.borrow_mut();
        state.open = false;
        state.library = state.library.anew(None, state.library.opening().wrapping_add(1));
        self.handlers.clear();
        quiet.is_some()
    }

    fn attend(&self) -> bool {
        self.ask_who_has_ended()
    }

    #[inline]
    fn is_ready(&self) -> bool {
        self.waits.needs_progress.get() || self.has_packets()
    }

    #[inline(always)]
    fn is_clear(&self) -> bool {
        !self.waiting.get()
    }

    /// The same, but an event is copied once, to where it goes.
    #[inline]
    fn eq_get(&self, eq: Handle) -> Result<Taken, Error> {
        let copy = |(event, dropped): (&Event, bool)| Taken {
            event: *event,
            dropped,
        };
        match self.state.borrow_mut().library.eq_take(eq) {
            Ok(oldest) => return Ok(copy(oldest)),
            Err(Error::EqEmpty) => {}
            Err(error) => return Err(error),
        }
        let moved = self.poll();
        let error = match self.state.borrow_mut().library.eq_take(eq) {
            Ok(oldest) => {
                self.found();
                return Ok(copy(oldest));
            }
            Err(error) => error,
        };
        if moved {
            self.found();
        } else {
            self.rest();
        }
        Err(error)
    }

    /// The same, and it is copied by `read` alone.
    #[inline]
    fn eq_wait_with<R>(&self, eq: Handle, read: impl FnOnce(&Event, bool) -> R) -> Result<R, Error> {
        let mut read = Some(read);
        let look = || match self.state.borrow_mut().library.eq_take(eq) {
            Err(Error::EqEmpty) => None,
            Err(error) => Some(Err(error)),
            Ok((event, dropped)) => read.take().map(|read| Ok(read(event, dropped))),
        };
        self.wait_until(None, look).unwrap_or(Err(Error::Fail))
    }

    #[inline]
    fn eq_take<R>(&self, eq: Handle, read: impl FnOnce(&Event, bool) -> R) -> Option<R> {
        let state = &mut *self.state.borrow_mut();
        let (event, dropped) = state.library.eq_take(eq).ok()?;
        Some(read(event, dropped))
    }
}
