//! Point-to-point communication (MPI-5.0 chapter 3).
//!
//! Safety, for every body here: the program keeps a buffer where it is until the operation completes; that is
//! the contract of the C function and what the constructors of buffers ask for.
//!
//! Requirements of MPI-5.0 sections 3.2.2, 3.4, 3.7.2, 3.9, 3.10, 3.11.

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::engine::request::Status;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::PersistentSpec;
use farpost_mpi::{Error, ErrorClass, Result};

use super::request::{deliver, to_abi};
use crate::abi;
use crate::args::{InOut, Out, StatusOut};
use crate::cx::{CommRef, Cx, TypeRef};

type Ptr = *const c_void;
type PtrMut = *mut c_void;

#[inline(always)]
unsafe fn outgoing(address: Ptr, count: i64, datatype: TypeRef) -> SendBuf {
    // SAFETY: the module's contract.
    unsafe { SendBuf::new(address.cast(), count as u64, datatype) }
}

#[inline(always)]
unsafe fn incoming(address: PtrMut, count: i64, datatype: TypeRef) -> RecvBuf {
    // SAFETY: the module's contract.
    unsafe { RecvBuf::new(address.cast(), count as u64, datatype) }
}

#[inline(always)]
pub(crate) unsafe fn mpi_send(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { outgoing(buf, count, datatype) };
    cx.world().send(comm, &buf, dest, tag, Mode::Standard)
}

pub(crate) unsafe fn mpi_ssend(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { outgoing(buf, count, datatype) };
    cx.world().send(comm, &buf, dest, tag, Mode::Synchronous)
}

/// A ready send is a standard one that happens to find its receive posted.
pub(crate) unsafe fn mpi_rsend(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
) -> Result<()> {
    // SAFETY: the module's contract.
    unsafe { mpi_send(cx, buf, count, datatype, dest, tag, comm) }
}

pub(crate) unsafe fn mpi_bsend(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { outgoing(buf, count, datatype) };
    cx.world().bsend(comm, &buf, dest, tag)
}

#[inline(always)]
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_isend(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { outgoing(buf, count, datatype) };
    request.set(cx.world().isend(comm, &buf, dest, tag, Mode::Standard)?);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_issend(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { outgoing(buf, count, datatype) };
    request.set(cx.world().isend(comm, &buf, dest, tag, Mode::Synchronous)?);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_irsend(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    unsafe { mpi_isend(cx, buf, count, datatype, dest, tag, comm, request) }
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_ibsend(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { outgoing(buf, count, datatype) };
    request.set(cx.world().ibsend(comm, &buf, dest, tag)?);
    Ok(())
}

#[inline(always)]
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_recv(
    cx: &Cx,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    status: StatusOut,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { incoming(buf, count, datatype) };
    deliver(cx.world().recv(comm, buf, source, tag)?, status)
}

#[inline(always)]
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_irecv(
    cx: &Cx,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { incoming(buf, count, datatype) };
    request.set(cx.world().irecv(comm, buf, source, tag)?);
    Ok(())
}

/// The buffers of a send and a receive at the same time must not begin at the same byte.
#[inline(always)]
pub(crate) fn apart(send: &SendBuf, recv: &RecvBuf) -> Result<()> {
    match (send.contiguous(), recv.contiguous_address()) {
        (Some(data), Some(address))
            if !data.is_empty() && recv.bytes() > 0 && data.as_ptr().addr() == address =>
        {
            let instead = "; MPI_Sendrecv_replace and MPI_Isendrecv_replace are for that";
            Err(crate::args::overlap("sendbuf", "recvbuf", instead))
        }
        _ => Ok(()),
    }
}

/// Receives and sends at the same time, then waits for both. An error of one does not leave the other behind.
pub(crate) fn exchange(
    cx: &Cx,
    comm: &CommRef,
    send: (SendBuf, c_int, c_int),
    recv: (RecvBuf, c_int, c_int),
) -> Result<Status> {
    let world = cx.world();
    let ((outgoing, dest, sendtag), (incoming, source, recvtag)) = (send, recv);
    let receiving = world.irecv(comm, incoming, source, recvtag)?;
    let sent = world.send(comm, &outgoing, dest, sendtag, Mode::Standard);
    if sent.is_err() {
        world.cancel(receiving)?;
    }
    let received = world.wait(receiving)?;
    sent?;
    Ok(received)
}

#[inline(always)]
#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_sendrecv(
    cx: &Cx,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: TypeRef,
    dest: c_int,
    sendtag: c_int,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: TypeRef,
    source: c_int,
    recvtag: c_int,
    comm: &CommRef,
    status: StatusOut,
) -> Result<()> {
    // SAFETY: the module's contract.
    let (send, recv) = unsafe {
        (
            outgoing(sendbuf, sendcount, sendtype),
            incoming(recvbuf, recvcount, recvtype),
        )
    };
    apart(&send, &recv)?;
    let received = exchange(cx, comm, (send, dest, sendtag), (recv, source, recvtag))?;
    deliver(received, status)
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_sendrecv_replace(
    cx: &Cx,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: &CommRef,
    status: StatusOut,
) -> Result<()> {
    // SAFETY: the module's contract.
    let (send, recv) = unsafe {
        (
            outgoing(buf.cast_const(), count, datatype.clone()),
            incoming(buf, count, datatype),
        )
    };
    // What goes out is packed first, so that what comes in may overwrite it.
    let mut packed = vec![0; send.bytes() as usize];
    send.pack(0, &mut packed);
    // SAFETY: `packed` outlives `exchange`, which waits for the send.
    let send = unsafe { SendBuf::new(packed.as_ptr(), packed.len() as u64, Datatype::byte()) };
    let received = exchange(cx, comm, (send, dest, sendtag), (recv, source, recvtag))?;
    deliver(received, status)
}

pub(crate) fn mpi_probe(cx: &Cx, source: c_int, tag: c_int, comm: &CommRef, status: StatusOut) -> Result<()> {
    status.set(&to_abi(&cx.world().probe(comm, source, tag)?));
    Ok(())
}

pub(crate) fn mpi_iprobe(
    cx: &Cx,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    flag: Out<c_int>,
    status: StatusOut,
) -> Result<()> {
    let found = cx.world().iprobe(comm, source, tag)?;
    if let Some(found) = &found {
        status.set(&to_abi(found));
    }
    flag.set(c_int::from(found.is_some()));
    Ok(())
}

pub(crate) fn mpi_mprobe(
    cx: &Cx,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    message: Out<usize>,
    status: StatusOut,
) -> Result<()> {
    let (handle, found) = cx.world().mprobe(comm, source, tag)?;
    message.set(handle);
    status.set(&to_abi(&found));
    Ok(())
}

pub(crate) fn mpi_improbe(
    cx: &Cx,
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
            status.set(&to_abi(&found));
        }
        None => message.set(abi::MPI_MESSAGE_NULL),
    }
    Ok(())
}

pub(crate) fn matched(message: InOut<usize>) -> Result<usize> {
    match message.get() {
        abi::MPI_MESSAGE_NULL => Err(Error::new(
            ErrorClass::ERR_REQUEST,
            "message=MPI_MESSAGE_NULL: a message from MPI_Mprobe or MPI_Improbe is needed",
        )),
        handle => Ok(handle),
    }
}

pub(crate) unsafe fn mpi_mrecv(
    cx: &Cx,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    message: InOut<usize>,
    status: StatusOut,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { incoming(buf, count, datatype) };
    let receiving = cx.world().imrecv(matched(message)?, buf)?;
    message.set(abi::MPI_MESSAGE_NULL);
    deliver(cx.world().wait(receiving)?, status)
}

pub(crate) unsafe fn mpi_imrecv(
    cx: &Cx,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    message: InOut<usize>,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { incoming(buf, count, datatype) };
    request.set(cx.world().imrecv(matched(message)?, buf)?);
    message.set(abi::MPI_MESSAGE_NULL);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
unsafe fn send_init(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
    mode: Mode,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { outgoing(buf, count, datatype) };
    request.set(cx.world().persistent(PersistentSpec::Send {
        comm: Rc::clone(comm),
        buf,
        dest,
        tag,
        mode,
    })?);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_send_init(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    unsafe { send_init(cx, buf, count, datatype, dest, tag, comm, Mode::Standard, request) }
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_rsend_init(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    unsafe { send_init(cx, buf, count, datatype, dest, tag, comm, Mode::Standard, request) }
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_ssend_init(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    unsafe {
        send_init(
            cx,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            Mode::Synchronous,
            request,
        )
    }
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_bsend_init(
    cx: &Cx,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { outgoing(buf, count, datatype) };
    let spec = PersistentSpec::BufferedSend {
        comm: Rc::clone(comm),
        buf,
        dest,
        tag,
    };
    request.set(cx.world().persistent(spec)?);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_recv_init(
    cx: &Cx,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    let buf = unsafe { incoming(buf, count, datatype) };
    request.set(cx.world().persistent(PersistentSpec::Recv {
        comm: Rc::clone(comm),
        buf,
        source,
        tag,
    })?);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_isendrecv(
    cx: &Cx,
    sendbuf: Ptr,
    sendcount: i64,
    sendtype: TypeRef,
    dest: c_int,
    sendtag: c_int,
    recvbuf: PtrMut,
    recvcount: i64,
    recvtype: TypeRef,
    source: c_int,
    recvtag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    let (send, recv) = unsafe {
        (
            outgoing(sendbuf, sendcount, sendtype),
            incoming(recvbuf, recvcount, recvtype),
        )
    };
    apart(&send, &recv)?;
    let world = cx.world();
    let receiving = world.irecv(comm, recv, source, recvtag)?;
    let sending = world.isend(comm, &send, dest, sendtag, Mode::Standard)?;
    request.set(world.join(receiving, sending)?);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_isendrecv_replace(
    cx: &Cx,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    // SAFETY: the module's contract.
    let (send, recv) = unsafe {
        (
            outgoing(buf.cast_const(), count, datatype.clone()),
            incoming(buf, count, datatype),
        )
    };
    let world = cx.world();
    // A copy goes out, so that what comes in may overwrite it; it is taken before anything can come in.
    let sending = world.isend_copy(comm, &send, dest, sendtag)?;
    let receiving = world.irecv(comm, recv, source, recvtag)?;
    request.set(world.join(receiving, sending)?);
    Ok(())
}
