//! Buffers for buffered sends (MPI-5.0 section 3.6).

use core::ffi::c_void;
use std::cell::RefCell;

use farpost_mpi::comm::Attached;
use farpost_mpi::{Result, fail};

use super::arg;
use crate::abi;
use crate::args::{Out, OutCount};
use crate::cx::Cx;

type Slot = RefCell<Option<Attached>>;

fn attach(cx: &Cx, slot: &Slot, buffer: *mut c_void, size: i64) -> Result<()> {
    let automatic = buffer as usize == abi::MPI_BUFFER_AUTOMATIC;
    if buffer.is_null() && size > 0 {
        return fail!(ERR_BUFFER: "buffer=NULL: size={size} bytes of memory are needed");
    }
    cx.world()
        .attach_buffer(slot, Attached::new(buffer as usize, size as u64, automatic))
}

fn detach(cx: &Cx, slot: &Slot, buffer: Out<*mut c_void>, size: OutCount) -> Result<()> {
    match cx.world().detach_buffer(slot)? {
        Some(attached) if !attached.automatic => {
            size.set(attached.size as i64)?;
            buffer.set(attached.address as *mut c_void);
        }
        Some(_) => {
            size.set(0)?;
            buffer.set(abi::MPI_BUFFER_AUTOMATIC as *mut c_void);
        }
        None => {
            size.set(0)?;
            buffer.set(core::ptr::null_mut());
        }
    }
    Ok(())
}

pub(crate) fn mpi_buffer_attach(cx: &Cx, a: arg::BufferAttach) -> Result<()> {
    attach(cx, cx.world().process_buffer(), a.buffer, a.size)
}

pub(crate) fn mpi_buffer_detach(cx: &Cx, a: arg::BufferDetach) -> Result<()> {
    detach(cx, cx.world().process_buffer(), a.buffer_addr, a.size)
}

pub(crate) fn mpi_buffer_flush(cx: &Cx) -> Result<()> {
    cx.world().flush_buffer(cx.world().process_buffer())
}

pub(crate) fn mpi_buffer_iflush(cx: &Cx) -> Result<usize> {
    cx.world().iflush_buffer(cx.world().process_buffer())
}

pub(crate) fn mpi_session_attach_buffer(cx: &Cx, a: arg::SessionAttachBuffer) -> Result<()> {
    attach(cx, &a.session.buffer, a.buffer, a.size)
}

pub(crate) fn mpi_session_detach_buffer(cx: &Cx, a: arg::SessionDetachBuffer) -> Result<()> {
    detach(cx, &a.session.buffer, a.buffer_addr, a.size)
}

pub(crate) fn mpi_session_flush_buffer(cx: &Cx, a: arg::SessionFlushBuffer) -> Result<()> {
    cx.world().flush_buffer(&a.session.buffer)
}

pub(crate) fn mpi_session_iflush_buffer(cx: &Cx, a: arg::SessionIflushBuffer) -> Result<usize> {
    cx.world().iflush_buffer(&a.session.buffer)
}

pub(crate) fn mpi_comm_attach_buffer(cx: &Cx, a: arg::CommAttachBuffer) -> Result<()> {
    attach(cx, &a.comm.buffer, a.buffer, a.size)
}

pub(crate) fn mpi_comm_detach_buffer(cx: &Cx, a: arg::CommDetachBuffer) -> Result<()> {
    detach(cx, &a.comm.buffer, a.buffer_addr, a.size)
}

pub(crate) fn mpi_comm_flush_buffer(cx: &Cx, a: arg::CommFlushBuffer) -> Result<()> {
    cx.world().flush_buffer(&a.comm.buffer)
}

pub(crate) fn mpi_comm_iflush_buffer(cx: &Cx, a: arg::CommIflushBuffer) -> Result<usize> {
    cx.world().iflush_buffer(&a.comm.buffer)
}
