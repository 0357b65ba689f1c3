//! An interface, wherever its library runs: chosen once, when it is opened (paper, section 3.2).

use crate::agent::Client;
use crate::error::Error;
use crate::interface::{Handler, Interface};
use crate::library::{AccessEntry, Target};
use crate::types::{AckReq, Handle, Identity, Iovec, Limits, Md, Position, ProcessId, Taken, Unlink};
use farpost_fabric::Fabric;
use std::time::Duration;

/// A network interface. Operations and errors are [`Interface`]'s; by way of an agent they may also answer [`Error::Fail`],
/// which says that the agent has ended.
pub enum AnyInterface<F: Fabric> {
    /// Library and network layer in this process.
    Inline(Box<Interface<F>>),
    /// The network layer in an agent, and the library there or here.
    Agent(Box<Client<F>>),
}

macro_rules! both {
    ($self:ident, $it:ident => $call:expr) => {
        match $self {
            AnyInterface::Inline($it) => $call,
            AnyInterface::Agent($it) => $call,
        }
    };
}

impl<F: Fabric> AnyInterface<F> {
    /// The interface's handle.
    pub fn handle(&self) -> Handle {
        both!(self, it => it.handle())
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        both!(self, it => it.limits())
    }

    /// Who this process is.
    pub fn identity(&self) -> Identity {
        both!(self, it => it.identity())
    }

    /// Whether nothing of this process's is under way.
    pub fn is_idle(&self) -> bool {
        both!(self, it => it.is_idle())
    }

    /// Move what can be moved, without blocking. True: something happened.
    pub fn progress(&self) -> bool {
        both!(self, it => it.progress())
    }

    /// `PtlNIFini`: see [`Interface::close`] and [`Client::close`].
    pub fn close(&self, patience: Duration) -> bool {
        both!(self, it => it.close(patience))
    }

    /// `PtlNIStatus`.
    ///
    /// # Errors
    /// As [`Interface::ni_status`].
    #[inline]
    pub fn ni_status(&self, register: u32) -> Result<u64, Error> {
        both!(self, it => it.ni_status(register))
    }

    /// `PtlNIDist`.
    ///
    /// # Errors
    /// As [`Interface::ni_dist`].
    #[inline]
    pub fn ni_dist(&self, id: ProcessId) -> Result<u64, Error> {
        both!(self, it => it.ni_dist(id))
    }

    /// `PtlACEntry`.
    ///
    /// # Errors
    /// As [`Interface::ac_entry`].
    #[inline]
    pub fn ac_entry(&self, index: u32, entry: AccessEntry) -> Result<(), Error> {
        both!(self, it => it.ac_entry(index, entry))
    }

    /// `PtlMEAttach`.
    ///
    /// # Errors
    /// As [`Interface::me_attach`].
    #[inline]
    pub fn me_attach(
        &self,
        pt_index: u32,
        id: ProcessId,
        bits: (u64, u64),
        unlink: Unlink,
        position: Position,
    ) -> Result<Handle, Error> {
        both!(self, it => it.me_attach(pt_index, id, bits, unlink, position))
    }

    /// `PtlMEAttachAny`.
    ///
    /// # Errors
    /// As [`Interface::me_attach_any`].
    #[inline]
    pub fn me_attach_any(
        &self,
        id: ProcessId,
        bits: (u64, u64),
        unlink: Unlink,
    ) -> Result<(u32, Handle), Error> {
        both!(self, it => it.me_attach_any(id, bits, unlink))
    }

    /// `PtlMEInsert`.
    ///
    /// # Errors
    /// As [`Interface::me_insert`].
    #[inline]
    pub fn me_insert(
        &self,
        base: Handle,
        id: ProcessId,
        bits: (u64, u64),
        unlink: Unlink,
        position: Position,
    ) -> Result<Handle, Error> {
        both!(self, it => it.me_insert(base, id, bits, unlink, position))
    }

    /// `PtlMEUnlink`.
    ///
    /// # Errors
    /// As [`Interface::me_unlink`].
    #[inline]
    pub fn me_unlink(&self, me: Handle) -> Result<(), Error> {
        both!(self, it => it.me_unlink(me))
    }

    /// `PtlMDUnlink`.
    ///
    /// # Errors
    /// As [`Interface::md_unlink`].
    #[inline]
    pub fn md_unlink(&self, md: Handle) -> Result<(), Error> {
        both!(self, it => it.md_unlink(md))
    }

    /// `PtlEQFree`.
    ///
    /// # Errors
    /// As [`Interface::eq_free`].
    #[inline]
    pub fn eq_free(&self, eq: Handle) -> Result<(), Error> {
        both!(self, it => it.eq_free(eq))
    }

    /// `PtlEQGet`.
    ///
    /// # Errors
    /// As [`Interface::eq_get`].
    #[inline]
    pub fn eq_get(&self, eq: Handle) -> Result<Taken, Error> {
        both!(self, it => it.eq_get(eq))
    }

    /// `PtlEQWait`.
    ///
    /// # Errors
    /// As [`Interface::eq_wait`].
    #[inline]
    pub fn eq_wait(&self, eq: Handle) -> Result<Taken, Error> {
        both!(self, it => it.eq_wait(eq))
    }

    /// `PtlEQPoll`.
    ///
    /// # Errors
    /// As [`Interface::eq_poll`].
    #[inline]
    pub fn eq_poll(&self, eqs: &[Handle], timeout: Option<Duration>) -> Result<(usize, Taken), Error> {
        both!(self, it => it.eq_poll(eqs, timeout))
    }

    /// `PtlPut`.
    ///
    /// # Errors
    /// As [`Interface::put`].
    #[inline]
    pub fn put(&self, md: Handle, ack: AckReq, target: &Target, hdr_data: u64) -> Result<(), Error> {
        both!(self, it => it.put(md, ack, target, hdr_data))
    }

    /// `PtlPutRegion`.
    ///
    /// # Errors
    /// As [`Interface::put_region`].
    #[inline]
    pub fn put_region(
        &self,
        md: Handle,
        region: (u64, u64),
        ack: AckReq,
        target: &Target,
        hdr_data: u64,
    ) -> Result<(), Error> {
        both!(self, it => it.put_region(md, region, ack, target, hdr_data))
    }

    /// `PtlGet`.
    ///
    /// # Errors
    /// As [`Interface::get`].
    #[inline]
    pub fn get(&self, md: Handle, target: &Target) -> Result<(), Error> {
        both!(self, it => it.get(md, target))
    }

    /// `PtlGetRegion`.
    ///
    /// # Errors
    /// As [`Interface::get_region`].
    #[inline]
    pub fn get_region(&self, md: Handle, region: (u64, u64), target: &Target) -> Result<(), Error> {
        both!(self, it => it.get_region(md, region, target))
    }

    /// `PtlGetPut`.
    ///
    /// # Errors
    /// As [`Interface::get_put`].
    #[inline]
    pub fn get_put(
        &self,
        get_md: Handle,
        put_md: Handle,
        target: &Target,
        hdr_data: u64,
    ) -> Result<(), Error> {
        both!(self, it => it.get_put(get_md, put_md, target, hdr_data))
    }

    /// `PtlEQAlloc`.
    ///
    /// # Errors
    /// As [`Interface::eq_alloc`]. [`Error::Fail`] also: a handler by way of an agent, where there are none.
    pub fn eq_alloc(&self, count: u32, handler: Option<Handler>) -> Result<Handle, Error> {
        match (self, handler) {
            (AnyInterface::Inline(it), handler) => it.eq_alloc(count, handler),
            (AnyInterface::Agent(it), None) => it.eq_alloc(count),
            (AnyInterface::Agent(_), Some(_)) => Err(Error::Fail),
        }
    }

    /// `PtlMDAttach`.
    ///
    /// # Errors
    /// As [`Interface::md_attach`].
    ///
    /// # Safety
    /// As [`Interface::md_attach`].
    #[allow(unsafe_code)]
    pub unsafe fn md_attach(
        &self,
        me: Handle,
        md: Md,
        iovec: Iovec,
        unlink: Unlink,
    ) -> Result<Handle, Error> {
        // SAFETY: the caller's promise is what both ask for.
        both!(self, it => unsafe { it.md_attach(me, md, iovec, unlink) })
    }

    /// `PtlMDBind`.
    ///
    /// # Errors
    /// As [`Interface::md_bind`].
    ///
    /// # Safety
    /// As [`Interface::md_attach`].
    #[allow(unsafe_code)]
    pub unsafe fn md_bind(&self, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error> {
        // SAFETY: the caller's promise is what both ask for.
        both!(self, it => unsafe { it.md_bind(md, iovec, unlink) })
    }

    /// `PtlMDUpdate`.
    ///
    /// # Errors
    /// As [`Interface::md_update`].
    ///
    /// # Safety
    /// As [`Interface::md_attach`].
    #[allow(unsafe_code)]
    pub unsafe fn md_update(
        &self,
        md: Handle,
        old: Option<&mut Md>,
        new: Option<(Md, Iovec)>,
        testq: Handle,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise is what both ask for.
        both!(self, it => unsafe { it.md_update(md, old, new, testq) })
    }
}
