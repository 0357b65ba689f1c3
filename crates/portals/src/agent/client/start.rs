//! Calls that begin an operation.

use super::{Client, Inner, Side};
use crate::bridge::{Mode, Request, SMALL, command};
use crate::error::Error;
use crate::library::{Library, Outgoing};
use crate::memory::user;
use crate::net::Channel;
use crate::types::Handle;
use farpost_fabric::{Cost, Fabric};

impl<F: Fabric> Client<F> {
    /// Who gives more than the agent takes waits here.
    fn wait_for_room(&self) {
        let ready = || {
            let mailbox = &mut self.inner.borrow_mut().mailbox;
            (mailbox.ended || mailbox.may_send(Channel::Request)).then_some(())
        };
        self.wait_for_agent(ready);
    }

    /// Begin an operation: as the library prepares it where that is here, otherwise as the agent is asked.
    pub(super) fn start(
        &self,
        prepare: impl FnOnce(&mut Library) -> Result<Outgoing, Error>,
        request: &Request,
    ) -> Result<(), Error> {
        if self.mode == Mode::Generic {
            self.start_here(prepare)?;
            self.run_handlers();
            return Ok(());
        }
        if self.inner.borrow().mailbox.ended {
            return Err(Error::Fail);
        }
        let Some(to) = self.processes.number(request.target.id) else {
            return Err(Error::ProcessInvalid);
        };
        self.check(request)?;
        self.wait_for_room();
        self.ask_for(to, request)
    }

    fn start_here(&self, prepare: impl FnOnce(&mut Library) -> Result<Outgoing, Error>) -> Result<(), Error> {
        let Inner { mailbox, side, .. } = &mut *self.inner.borrow_mut();
        let (Side::Generic(generic), false) = (side, mailbox.ended) else {
            return Err(Error::Fail);
        };
        mailbox.fabric.charge(Cost::Trap);
        let message = prepare(&mut generic.library)?;
        generic.library.started(message.token);
        generic.post(mailbox, message);
        Ok(())
    }

    /// What the agent would refuse without a word.
    fn check(&self, request: &Request) -> Result<(), Error> {
        let inner = &*self.inner.borrow();
        let Side::Accelerated(accelerated) = &inner.side else {
            return Ok(());
        };
        let most = match request.kind {
            // Of a body that stays where it is.
            command::PUT_HEADER => {
                let possible = request
                    .region
                    .is_some_and(|(_, length)| length <= isize::MAX as u64);
                return possible.then_some(()).ok_or(Error::MdIllegal);
            }
            command::GET_PUT => {
                accelerated.memory(request.get_md)?;
                inner.limits.max_getput_md as u64
            }
            _ => u64::MAX,
        };
        let whole = accelerated.memory(request.md)?.len() as u64;
        let (offset, length) = request.region.unwrap_or((0, whole));
        if offset > whole || length > whole - offset || length > most {
            return Err(Error::MdIllegal);
        }
        Ok(())
    }

    fn ask_for(&self, to: u32, request: &Request) -> Result<(), Error> {
        let Request {
            kind,
            md,
            region,
            target,
            hdr_data,
            ..
        } = *request;
        let Inner { mailbox, side, .. } = &mut *self.inner.borrow_mut();
        let (Side::Accelerated(accelerated), false) = (side, mailbox.ended) else {
            return Err(Error::Fail);
        };
        if let (command::PUT_HEADER, Some((_, length))) = (kind, region) {
            mailbox.count_given(to, 0);
            mailbox.command(kind, 0, (target, length, hdr_data));
            return Ok(());
        }
        let memory = accelerated.memory(md)?;
        let (offset, length) = region.unwrap_or((0, memory.len() as u64));
        mailbox.count_given(to, if kind == command::GET { 0 } else { length });
        // The library takes what goes first: of a get-put the descriptor that receives.
        let (first, second) = if kind == command::GET_PUT {
            (request.get_md, md)
        } else {
            (md, Handle::NONE)
        };
        let mut bytes = [0; SMALL];
        let mut inline = &bytes[..0];
        if kind != command::GET && length <= SMALL as u64 && offset + length <= memory.len() as u64 {
            let len = length as usize;
            mailbox.fabric.charge(Cost::Copy(len));
            user::load(&memory.region(offset as usize, len), &mut bytes[..len]);
            inline = &bytes[..len];
        }
        let part = (region.is_some(), offset, length);
        let told = (
            first,
            second,
            part,
            target,
            (request.ack, hdr_data),
            (inline.len(), inline),
        );
        mailbox.command(kind, 0, told);
        Ok(())
    }
}
