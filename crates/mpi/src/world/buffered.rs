//! Buffered sends (MPI-5.0 section 3.6): accounted against the buffer that the user attached; the bytes
//! themselves wait in memory of ours.
//!
//! Requirements of MPI-5.0 section 3.4.

use super::World;
use super::p2p::PROC_NULL;
use crate::buffer::SendBuf;
use crate::comm::{Attached, Comm};
use crate::engine::SENT;
use crate::session::Session;
use crate::{Rank, Result};
use farpost_fabric::Fabric;
use std::cell::RefCell;

/// `MPI_BSEND_OVERHEAD`.
pub const BSEND_OVERHEAD: u64 = 512;

impl<F: Fabric> World<F> {
    fn reclaim(&self, slot: &RefCell<Option<Attached>>) {
        if let Some(attached) = slot.borrow_mut().as_mut() {
            let mut engine = self.engine.borrow_mut();
            attached
                .pending
                .retain(|(handle, _)| engine.reap(*handle).is_none());
        }
    }

    /// The buffer that sends on `comm` use: its own, its session's, or the process's.
    fn slot<'a>(&'a self, comm: &'a Comm, session: Option<&'a Session>) -> &'a RefCell<Option<Attached>> {
        let own = [Some(&comm.buffer), session.map(|session| &session.buffer)];
        let attached = own.into_iter().flatten().find(|slot| slot.borrow().is_some());
        attached.unwrap_or(&self.buffer)
    }

    /// Send a copy, accounted against the attached buffer.
    pub fn bsend(&self, comm: &Comm, buf: &SendBuf, dest: Rank, tag: i32) -> Result<()> {
        if dest == PROC_NULL {
            return Ok(());
        }
        let session = self.session(comm.local.session());
        let slot = self.slot(comm, session.as_deref());
        self.reclaim(slot);
        let bytes = buf.bytes();
        // What a check adds is not the program's.
        let needed = bytes - buf.datatype().header_bytes() + BSEND_OVERHEAD;
        let (used, size, automatic) = match &*slot.borrow() {
            Some(a) => (a.pending.iter().map(|(_, n)| n).sum::<u64>(), a.size, a.automatic),
            None => (0, 0, false),
        };
        if !automatic && used + needed > size {
            // What was sent may have been taken since.
            self.progress();
            self.reclaim(slot);
            let used: u64 = slot
                .borrow()
                .as_ref()
                .map_or(0, |a| a.pending.iter().map(|(_, n)| n).sum());
            if used + needed > size {
                return fail!(
                    ERR_BUFFER: "buffer: the message needs {needed} bytes with MPI_BSEND_OVERHEAD, {} of the {size} attached are free",
                    size - used.min(size)
                );
            }
        }
        let mut data = vec![0; bytes as usize].into_boxed_slice();
        buf.pack_on(self.fabric(), 0, &mut data);
        let handle = self.isend_owned(comm, data, dest, tag)?;
        if handle != SENT
            && let Some(attached) = slot.borrow_mut().as_mut()
        {
            attached.pending.push((handle, needed));
        }
        Ok(())
    }

    /// As [`bsend`](Self::bsend); complete at once.
    pub fn ibsend(&self, comm: &Comm, buf: &SendBuf, dest: Rank, tag: i32) -> Result<usize> {
        self.bsend(comm, buf, dest, tag).map(|()| SENT)
    }

    /// The process's buffer.
    pub fn process_buffer(&self) -> &RefCell<Option<Attached>> {
        &self.buffer
    }

    /// Attach a buffer to a slot: the process's or a communicator's.
    pub fn attach_buffer(&self, slot: &RefCell<Option<Attached>>, buffer: Attached) -> Result<()> {
        if slot.borrow().is_some() {
            return fail!(ERR_BUFFER: "buffer: one is attached already; detach it first");
        }
        *slot.borrow_mut() = Some(buffer);
        Ok(())
    }

    /// Wait until all buffered messages of a slot are on their way.
    pub fn flush_buffer(&self, slot: &RefCell<Option<Attached>>) -> Result<()> {
        self.wait_until(|| {
            self.reclaim(slot);
            Ok(slot
                .borrow()
                .as_ref()
                .is_none_or(|attached| attached.pending.is_empty()))
        })
    }

    /// Start to flush: a request that completes when the messages that are buffered now are on their way. Later
    /// ones do not delay it.
    pub fn iflush_buffer(&self, slot: &RefCell<Option<Attached>>) -> Result<usize> {
        self.reclaim(slot);
        let sends: Box<[usize]> = match &*slot.borrow() {
            Some(attached) => attached.pending.iter().map(|(handle, _)| *handle).collect(),
            None => Box::default(),
        };
        if sends.is_empty() {
            return Ok(SENT);
        }
        self.flush_request(sends)
    }

    /// Let the messages of a slot go on by themselves and forget the buffer.
    pub(crate) fn forget_buffer(&self, slot: &RefCell<Option<Attached>>) {
        let pending = slot.take().map(|attached| attached.pending);
        for (request, _) in pending.into_iter().flatten() {
            // It may be over and gone.
            let _ = self.free_request(request);
        }
    }

    /// Flush and take the buffer back.
    pub fn detach_buffer(&self, slot: &RefCell<Option<Attached>>) -> Result<Option<Attached>> {
        self.flush_buffer(slot)?;
        Ok(slot.borrow_mut().take())
    }
}
