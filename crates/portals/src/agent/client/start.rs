//! Calls that begin an operation.

use super::{Client, Inner, Side};
use crate::backend::Waiting;
use crate::bridge::{Mode, Request, SMALL, command};
use crate::error::Error;
use crate::library::{Library, Outgoing, Target};
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
        self.wait_until(None, ready);
    }

    /// Begin a put of which only the header goes.
    pub(super) fn start_header(&self, length: u64, target: &Target, hdr_data: u64) -> Result<(), Error> {
        if self.processes.number(target.id).is_none() {
            return Err(Error::ProcessInvalid);
        }
        if self.mode == Mode::Generic {
            let Inner { mailbox, side, .. } = &mut *self.inner.borrow_mut();
            if mailbox.ended {
                return Err(Error::Fail);
            }
            if let Side::Generic(generic) = side {
                mailbox.fabric.charge(Cost::Trap);
                let message = generic.library.put_header(length, target, hdr_data)?;
                generic.post(mailbox, message);
            }
            return Ok(());
        }
        if length > isize::MAX as u64 {
            return Err(Error::MdIllegal);
        }
        self.wait_for_room();
        let mailbox = &mut self.inner.borrow_mut().mailbox;
        if mailbox.ended {
            return Err(Error::Fail);
        }
        mailbox.command(command::PUT_HEADER, 0, (target, length, hdr_data));
        Ok(())
    }

    /// Begin an operation: as the library prepares it where that is here, otherwise as the agent is asked.
    pub(super) fn start(
        &self,
        prepare: impl FnOnce(&mut Library) -> Result<Outgoing, Error>,
        request: &Request,
    ) -> Result<(), Error> {
        let Request {
            kind,
            md,
            get_md,
            region,
            ack,
            target,
            hdr_data,
        } = *request;
        {
            let Inner {
                mailbox,
                side,
                limits,
                ..
            } = &mut *self.inner.borrow_mut();
            if mailbox.ended {
                return Err(Error::Fail);
            }
            if let Side::Generic(generic) = side {
                mailbox.fabric.charge(Cost::Trap);
                let message = prepare(&mut generic.library)?;
                generic.library.started(message.token);
                generic.post(mailbox, message);
            } else if let Side::Accelerated(accelerated) = side {
                if self.processes.number(target.id).is_none() {
                    return Err(Error::ProcessInvalid);
                }
                if kind == command::GET_PUT {
                    accelerated.memory(get_md)?;
                }
                let whole = accelerated.memory(md)?.len() as u64;
                let (offset, length) = region.unwrap_or((0, whole));
                if offset > whole
                    || length > whole - offset
                    || (kind == command::GET_PUT && length > limits.max_getput_md as u64)
                {
                    return Err(Error::MdIllegal);
                }
            }
        }
        if self.mode == Mode::Generic {
            self.run_handlers();
            return Ok(());
        }
        self.wait_for_room();
        let Inner { mailbox, side, .. } = &mut *self.inner.borrow_mut();
        let Side::Accelerated(accelerated) = side else {
            return Ok(());
        };
        if mailbox.ended {
            return Err(Error::Fail);
        }
        let memory = accelerated.memory(md)?;
        let (offset, length) = region.unwrap_or((0, memory.len() as u64));
        // The library takes what goes first: of a get-put the descriptor that receives.
        let (first, second) = if kind == command::GET_PUT {
            (get_md, md)
        } else {
            (md, Handle::NONE)
        };
        let mut bytes = [0; SMALL];
        let inline =
            if kind != command::GET && length <= SMALL as u64 && offset + length <= memory.len() as u64 {
                let bytes = &mut bytes[..length as usize];
                mailbox.fabric.charge(Cost::Copy(bytes.len()));
                user::load(&memory.region(offset as usize, length as usize), bytes);
                &*bytes
            } else {
                &[]
            };
        let part = (region.is_some(), offset, length);
        let told = (
            first,
            second,
            part,
            target,
            (ack, hdr_data),
            (inline.len(), inline),
        );
        mailbox.command(kind, 0, told);
        Ok(())
    }
}
