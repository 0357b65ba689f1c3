//! Buffers for buffered sends (MPI-5.0 section 3.6).

use core::ffi::c_void;
use std::cell::RefCell;

use farpost_mpi::world::buffered::Attached;
use farpost_mpi::{Error, ErrorClass, Result};

use crate::abi;
use crate::args::{Out, OutCount};
use crate::cx::{CommRef, Cx};

type Slot = RefCell<Option<Attached>>;

fn attach(cx: &Cx, slot: &Slot, buffer: *mut c_void, size: i64) -> Result<()> {
    let automatic = buffer as usize == abi::MPI_BUFFER_AUTOMATIC;
    if buffer.is_null() && size > 0 {
        let message = format!("buffer=NULL: size={size} bytes of memory are needed");
        return Err(Error::new(ErrorClass::ERR_BUFFER, message));
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

pub(crate) fn mpi_buffer_attach(cx: &Cx, buffer: *mut c_void, size: i64) -> Result<()> {
    attach(cx, cx.world().process_buffer(), buffer, size)
}

pub(crate) fn mpi_buffer_detach(cx: &Cx, buffer: Out<*mut c_void>, size: OutCount) -> Result<()> {
    detach(cx, cx.world().process_buffer(), buffer, size)
}

pub(crate) fn mpi_buffer_flush(cx: &Cx) -> Result<()> {
    cx.world().flush_buffer(cx.world().process_buffer())
}

pub(crate) fn mpi_buffer_iflush(cx: &Cx, request: Out<usize>) -> Result<()> {
    request.set(cx.world().iflush_buffer(cx.world().process_buffer())?);
    Ok(())
}

pub(crate) fn mpi_comm_attach_buffer(cx: &Cx, comm: &CommRef, buffer: *mut c_void, size: i64) -> Result<()> {
    attach(cx, &comm.buffer, buffer, size)
}

pub(crate) fn mpi_comm_detach_buffer(
    cx: &Cx,
    comm: &CommRef,
    buffer: Out<*mut c_void>,
    size: OutCount,
) -> Result<()> {
    detach(cx, &comm.buffer, buffer, size)
}

pub(crate) fn mpi_comm_flush_buffer(cx: &Cx, comm: &CommRef) -> Result<()> {
    cx.world().flush_buffer(&comm.buffer)
}

pub(crate) fn mpi_comm_iflush_buffer(cx: &Cx, comm: &CommRef, request: Out<usize>) -> Result<()> {
    request.set(cx.world().iflush_buffer(&comm.buffer)?);
    Ok(())
}
