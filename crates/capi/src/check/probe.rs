//! Probes and matched receives of a checked program.
//!
//! Safety, for every body here: as in `calls::p2p`.

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::engine::request::Status;

use super::Check;
use super::header::strip;
use super::p2p::PtrMut;
use crate::abi;
use crate::args::{InOut, Out, StatusOut};
use crate::calls::p2p::matched;
use crate::calls::request::{deliver, to_abi};
use crate::cx::{CommRef, Cx, Fun, TypeRef};

/// A status of a message that is not received yet, as the program is to see it.
fn stripped(mut status: Status) -> Status {
    strip(&mut status);
    status
}

pub(crate) fn mpi_probe(
    cx: &Cx,
    _: &Check,
    _: Fun,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    status: StatusOut,
) -> Result<()> {
    status.set(&to_abi(&stripped(cx.world().probe(comm, source, tag)?)));
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) fn mpi_iprobe(
    cx: &Cx,
    _: &Check,
    _: Fun,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    flag: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    let found = cx.world().iprobe(comm, source, tag)?.map(stripped);
    if let Some(found) = &found {
        status.set(&to_abi(found));
    }
    flag.set(c_int::from(found.is_some()));
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) fn mpi_mprobe(
    cx: &Cx,
    _: &Check,
    _: Fun,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    message: Out<usize>,
    status: StatusOut,
) -> Result<()> {
    let (handle, found) = cx.world().mprobe(comm, source, tag)?;
    message.set(handle);
    status.set(&to_abi(&stripped(found)));
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) fn mpi_improbe(
    cx: &Cx,
    _: &Check,
    _: Fun,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    flag: Out<c_int>,
    message: Out<usize>,
    status: StatusOut,
) -> Result<()> {
    let found = cx.world().improbe(comm, source, tag)?;
    flag.set(c_int::from(found.is_some()));
    match found {
        Some((handle, found)) => {
            message.set(handle);
            status.set(&to_abi(&stripped(found)));
        }
        None => message.set(abi::MPI_MESSAGE_NULL),
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_mrecv(
    cx: &Cx,
    check: &Check,
    fun: Fun,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    message: InOut<usize>,
    status: StatusOut,
) -> Result<()> {
    let site = check.here();
    let handle = matched(message)?;
    // SAFETY: the module's contract.
    let room = unsafe {
        check.incoming(
            fun,
            site,
            buf,
            count,
            &datatype,
            handle == abi::MPI_MESSAGE_NO_PROC,
            None,
        )
    }?;
    let _memory = check.during(cx, fun, site, &room.areas);
    let receiving = cx.world().imrecv(handle, room.buf)?;
    message.set(abi::MPI_MESSAGE_NULL);
    let received = cx.world().wait(receiving)?;
    deliver(check.compared(cx, &room.expected, received), status)
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_imrecv(
    cx: &Cx,
    check: &Check,
    fun: Fun,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    message: InOut<usize>,
    request: Out<usize>,
) -> Result<()> {
    let site = check.here();
    let handle = matched(message)?;
    // SAFETY: the module's contract.
    let room = unsafe {
        check.incoming(
            fun,
            site,
            buf,
            count,
            &datatype,
            handle == abi::MPI_MESSAGE_NO_PROC,
            None,
        )
    }?;
    check.start(
        cx,
        check.operation(fun, site, room.areas, room.expected),
        request,
        || {
            let receiving = cx.world().imrecv(handle, room.buf)?;
            message.set(abi::MPI_MESSAGE_NULL);
            Ok(receiving)
        },
    )
}
