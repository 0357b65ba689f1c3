//! Point-to-point communication (MPI-5.0 chapter 3), of ordinary programs and of checked ones ([`Checking`]).
//!
//! A body gets its buffers made ([`outgoing`], [`incoming`]).
//!
//! Requirements of MPI-5.0 sections 3.2.2, 3.4, 3.7.2, 3.9, 3.10, 3.11.

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::engine::request::Status;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::PersistentSpec;
use farpost_mpi::{Result, fail};

use super::arg;
use super::checking::{Checking, Sender};
use super::request::{deliver, to_abi};
use crate::abi;
use crate::args::InOut;
use crate::cx::{CommRef, Cx, TypeRef};

type Ptr = *const c_void;
type PtrMut = *mut c_void;

/// What a send does beside sending.
#[derive(Clone, Copy)]
enum Sending {
    In(Mode),
    /// `MPI_Bsend` and its kin.
    Buffered,
}

/// A ready send is a standard one that happens to find its receive posted.
const STANDARD: Sending = Sending::In(Mode::Standard);
const READY: Sending = STANDARD;
const SYNCHRONOUS: Sending = Sending::In(Mode::Synchronous);

impl Sending {
    #[inline(always)]
    fn run(self, cx: &Cx, comm: &CommRef, buf: &SendBuf, dest: c_int, tag: c_int) -> Result<()> {
        match self {
            Self::In(mode) => cx.world().send(comm, buf, dest, tag, mode),
            Self::Buffered => cx.world().bsend(comm, buf, dest, tag),
        }
    }

    #[inline(always)]
    fn start(self, cx: &Cx, comm: &CommRef, buf: &SendBuf, dest: c_int, tag: c_int) -> Result<usize> {
        match self {
            Self::In(mode) => cx.world().isend(comm, buf, dest, tag, mode),
            Self::Buffered => cx.world().ibsend(comm, buf, dest, tag),
        }
    }

    fn persistent(self, comm: &CommRef, buf: SendBuf, dest: c_int, tag: c_int) -> PersistentSpec {
        let comm = Rc::clone(comm);
        match self {
            Self::In(mode) => PersistentSpec::Send {
                comm,
                buf,
                dest,
                tag,
                mode,
            },
            Self::Buffered => PersistentSpec::BufferedSend { comm, buf, dest, tag },
        }
    }
}

/// The buffer of a send.
///
/// # Safety
/// The program keeps it where it is until the operation completes, by the contract of the C function.
#[inline(always)]
pub(crate) unsafe fn outgoing(address: Ptr, count: i64, datatype: TypeRef) -> SendBuf {
    // SAFETY: the caller's promise.
    unsafe { SendBuf::new(address.cast(), count as u64, datatype) }
}

/// The buffer of a receive.
///
/// # Safety
/// As [`outgoing`], and nobody else uses it.
#[inline(always)]
pub(crate) unsafe fn incoming(address: PtrMut, count: i64, datatype: TypeRef) -> RecvBuf {
    // SAFETY: the caller's promise.
    unsafe { RecvBuf::new(address.cast(), count as u64, datatype) }
}

fn sender(source: c_int, comm: &CommRef) -> Sender<'_> {
    match source {
        abi::MPI_PROC_NULL => Sender::Nobody,
        _ => Sender::Member(comm),
    }
}

/// Blocking, nonblocking and persistent form of a send. Named by the generator: keep the names first.
macro_rules! sends {
    ($blocking:ident: $Send:ident, $nonblocking:ident: $Isend:ident, $init:ident: $Init:ident, $sending:expr) => {
        #[inline(always)]
        pub(crate) fn $blocking<C: Checking>(cx: &Cx, checking: C, a: arg::$Send) -> Result<()> {
            let (buf, noted) = checking.outgoing(a.buf, a.dest, a.comm)?;
            checking.run(cx, &noted, || $sending.run(cx, a.comm, &buf, a.dest, a.tag))
        }

        #[inline(always)]
        pub(crate) fn $nonblocking<C: Checking>(cx: &Cx, checking: C, a: arg::$Isend) -> Result<usize> {
            let (buf, noted) = checking.outgoing(a.buf, a.dest, a.comm)?;
            checking.start(cx, noted, || {
                $sending.start(cx, a.comm, &buf, a.dest, a.tag)
            })
        }

        pub(crate) fn $init<C: Checking>(cx: &Cx, checking: C, a: arg::$Init) -> Result<usize> {
            let (buf, noted) = checking.outgoing(a.buf, a.dest, a.comm)?;
            persistent(
                cx,
                checking,
                noted,
                $sending.persistent(a.comm, buf, a.dest, a.tag),
            )
        }
    };
}

fn persistent<C: Checking>(cx: &Cx, checking: C, noted: C::Noted, spec: PersistentSpec) -> Result<usize> {
    let handle = cx.world().persistent(spec)?;
    checking.persistent(noted, handle);
    Ok(handle)
}

sends!(mpi_send: Send, mpi_isend: Isend, mpi_send_init: SendInit, STANDARD);
sends!(mpi_ssend: Ssend, mpi_issend: Issend, mpi_ssend_init: SsendInit, SYNCHRONOUS);
sends!(mpi_rsend: Rsend, mpi_irsend: Irsend, mpi_rsend_init: RsendInit, READY);
sends!(mpi_bsend: Bsend, mpi_ibsend: Ibsend, mpi_bsend_init: BsendInit, Sending::Buffered);

#[inline(always)]
pub(crate) fn mpi_recv<C: Checking>(cx: &Cx, checking: C, a: arg::Recv) -> Result<()> {
    let (buf, noted) = checking.incoming(a.buf, sender(a.source, a.comm))?;
    let received = checking.run(cx, &noted, || cx.world().recv(a.comm, buf, a.source, a.tag))?;
    deliver(checking.received(cx, &noted, received), a.status)
}

#[inline(always)]
pub(crate) fn mpi_irecv<C: Checking>(cx: &Cx, checking: C, a: arg::Irecv) -> Result<usize> {
    let (buf, noted) = checking.incoming(a.buf, sender(a.source, a.comm))?;
    checking.start(cx, noted, || cx.world().irecv(a.comm, buf, a.source, a.tag))
}

pub(crate) fn mpi_recv_init<C: Checking>(cx: &Cx, checking: C, a: arg::RecvInit) -> Result<usize> {
    let (source, tag) = (a.source, a.tag);
    let (buf, noted) = checking.incoming(a.buf, sender(source, a.comm))?;
    let comm = Rc::clone(a.comm);
    let spec = PersistentSpec::Recv {
        comm,
        buf,
        source,
        tag,
    };
    persistent(cx, checking, noted, spec)
}

/// The buffers of a send and a receive at the same time must not begin at the same byte.
#[inline(always)]
fn apart(send: &SendBuf, recv: &RecvBuf) -> Result<()> {
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
fn exchange(
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
pub(crate) fn mpi_sendrecv<C: Checking>(cx: &Cx, checking: C, a: arg::Sendrecv) -> Result<()> {
    apart(&a.send, &a.recv)?;
    let (send, sent) = checking.outgoing(a.send, a.dest, a.comm)?;
    let (recv, noted) = checking.incoming(a.recv, sender(a.source, a.comm))?;
    let noted = C::both(sent, noted);
    let received = checking.run(cx, &noted, || {
        exchange(cx, a.comm, (send, a.dest, a.sendtag), (recv, a.source, a.recvtag))
    })?;
    deliver(checking.received(cx, &noted, received), a.status)
}

pub(crate) fn mpi_isendrecv<C: Checking>(cx: &Cx, checking: C, a: arg::Isendrecv) -> Result<usize> {
    let comm = a.comm;
    apart(&a.send, &a.recv)?;
    let (send, sent) = checking.outgoing(a.send, a.dest, comm)?;
    let (recv, noted) = checking.incoming(a.recv, sender(a.source, comm))?;
    checking.start(cx, C::both(sent, noted), || {
        let world = cx.world();
        let receiving = world.irecv(comm, recv, a.source, a.recvtag)?;
        let sending = world.isend(comm, &send, a.dest, a.sendtag, Mode::Standard)?;
        world.join(receiving, sending)
    })
}

pub(crate) fn mpi_sendrecv_replace<C: Checking>(cx: &Cx, checking: C, a: arg::SendrecvReplace) -> Result<()> {
    // What goes out is packed first, so that what comes in may overwrite it.
    let plain = a.buf.as_send();
    let mut packed = vec![0; plain.bytes() as usize];
    plain.pack(0, &mut packed);
    let (recv, noted) = checking.incoming(a.buf, sender(a.source, a.comm))?;
    // SAFETY: `packed` outlives `exchange`, which waits for the send.
    let send = unsafe { checking.outgoing_copy(&packed, &plain, a.dest, a.comm) }?;
    let received = checking.run(cx, &noted, || {
        exchange(cx, a.comm, (send, a.dest, a.sendtag), (recv, a.source, a.recvtag))
    })?;
    deliver(checking.received(cx, &noted, received), a.status)
}

pub(crate) fn mpi_isendrecv_replace<C: Checking>(
    cx: &Cx,
    checking: C,
    a: arg::IsendrecvReplace,
) -> Result<usize> {
    let comm = a.comm;
    // The memory is noted once, as that of the receive.
    let (send, _) = checking.outgoing(a.buf.as_send(), a.dest, comm)?;
    let (recv, noted) = checking.incoming(a.buf, sender(a.source, comm))?;
    checking.start(cx, noted, || {
        let world = cx.world();
        // A copy goes out, so that what comes in may overwrite it; it is taken before anything can come in.
        let sending = world.isend_copy(comm, &send, a.dest, a.sendtag)?;
        let receiving = world.irecv(comm, recv, a.source, a.recvtag)?;
        world.join(receiving, sending)
    })
}

pub(crate) fn mpi_probe<C: Checking>(cx: &Cx, checking: C, a: arg::Probe) -> Result<()> {
    let found = cx.world().probe(a.comm, a.source, a.tag)?;
    a.status.set(&to_abi(&checking.probed(found)));
    Ok(())
}

pub(crate) fn mpi_iprobe<C: Checking>(cx: &Cx, checking: C, a: arg::Iprobe) -> Result<()> {
    let found = cx.world().iprobe(a.comm, a.source, a.tag)?;
    a.flag.set(c_int::from(found.is_some()));
    if let Some(found) = found {
        a.status.set(&to_abi(&checking.probed(found)));
    }
    Ok(())
}

pub(crate) fn mpi_mprobe<C: Checking>(cx: &Cx, checking: C, a: arg::Mprobe) -> Result<()> {
    let (handle, found) = cx.world().mprobe(a.comm, a.source, a.tag)?;
    a.message.set(handle);
    a.status.set(&to_abi(&checking.probed(found)));
    Ok(())
}

pub(crate) fn mpi_improbe<C: Checking>(cx: &Cx, checking: C, a: arg::Improbe) -> Result<()> {
    let found = cx.world().improbe(a.comm, a.source, a.tag)?;
    a.flag.set(c_int::from(found.is_some()));
    match found {
        Some((handle, found)) => {
            a.message.set(handle);
            a.status.set(&to_abi(&checking.probed(found)));
        }
        None => a.message.set(abi::MPI_MESSAGE_NULL),
    }
    Ok(())
}

/// The room for a message that was matched before, and its handle.
fn matched<C: Checking>(
    checking: C,
    buf: RecvBuf,
    message: InOut<usize>,
) -> Result<(usize, RecvBuf, C::Noted)> {
    let (handle, from) = match message.get() {
        abi::MPI_MESSAGE_NULL => {
            return fail!(
                ERR_REQUEST: "message=MPI_MESSAGE_NULL: a message from MPI_Mprobe or MPI_Improbe is needed"
            );
        }
        abi::MPI_MESSAGE_NO_PROC => (abi::MPI_MESSAGE_NO_PROC, Sender::Nobody),
        handle => (handle, Sender::Matched),
    };
    let (buf, noted) = checking.incoming(buf, from)?;
    Ok((handle, buf, noted))
}

pub(crate) fn mpi_mrecv<C: Checking>(cx: &Cx, checking: C, a: arg::Mrecv) -> Result<()> {
    let (handle, buf, noted) = matched(checking, a.buf, a.message)?;
    let received = checking.run(cx, &noted, || {
        let receiving = cx.world().imrecv(handle, buf)?;
        a.message.set(abi::MPI_MESSAGE_NULL);
        cx.world().wait(receiving)
    })?;
    deliver(checking.received(cx, &noted, received), a.status)
}

pub(crate) fn mpi_imrecv<C: Checking>(cx: &Cx, checking: C, a: arg::Imrecv) -> Result<usize> {
    let (handle, buf, noted) = matched(checking, a.buf, a.message)?;
    checking.start(cx, noted, || {
        let receiving = cx.world().imrecv(handle, buf)?;
        a.message.set(abi::MPI_MESSAGE_NULL);
        Ok(receiving)
    })
}
