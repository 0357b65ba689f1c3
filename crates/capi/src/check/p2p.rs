//! Point-to-point communication of a checked program: as the ordinary bodies (`calls::p2p`), with a header before every
//! message.
//!
//! Safety, for every body here: as there.

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use farpost_mpi::Result;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::engine::SENT;
use farpost_mpi::engine::request::Status;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::PersistentSpec;

use super::areas::Area;
use super::header::{self, Expected};
use super::pending::Operation;
use super::{Check, Site};
use crate::abi;
use crate::args::{Out, StatusOut};
use crate::calls::p2p::{apart, exchange};
use crate::calls::request::deliver;
use crate::cx::{CommRef, Cx, Fun, TypeRef};

type Ptr = *const c_void;
pub(super) type PtrMut = *mut c_void;

/// What goes out.
struct Outgoing {
    buf: SendBuf,
    areas: Vec<Area>,
}

/// What comes in, and what it is compared with.
pub(super) struct Incoming {
    pub(super) buf: RecvBuf,
    pub(super) areas: Vec<Area>,
    pub(super) expected: Option<Expected>,
}

impl Check {
    /// The buffer of a send. To nobody nothing goes, and its arguments mean nothing.
    #[allow(clippy::too_many_arguments)] // A call's place and the standard's own list.
    unsafe fn outgoing(
        &self,
        fun: Fun,
        site: Site,
        address: Ptr,
        count: i64,
        datatype: &TypeRef,
        dest: c_int,
        comm: &CommRef,
    ) -> Result<Outgoing> {
        // SAFETY: the module's contract.
        let plain = unsafe { SendBuf::new(address.cast(), count as u64, datatype.clone()) };
        let Some(peer) = comm.peer(dest) else {
            return Ok(Outgoing {
                buf: plain,
                areas: vec![],
            });
        };
        self.meet(peer.0);
        // SAFETY: the module's contract.
        let buf = unsafe { header::outgoing(fun, site, address, count as u64, datatype) }?;
        Ok(Outgoing {
            buf,
            areas: vec![Area::read(plain)],
        })
    }

    /// The buffer of a receive. `comm`: `None` where a message was matched before.
    #[allow(clippy::too_many_arguments)] // A call's place and the standard's own list.
    pub(super) unsafe fn incoming(
        &self,
        fun: Fun,
        site: Site,
        address: PtrMut,
        count: i64,
        datatype: &TypeRef,
        from_nobody: bool,
        comm: Option<&CommRef>,
    ) -> Result<Incoming> {
        if from_nobody {
            return Ok(Incoming {
                // SAFETY: the module's contract.
                buf: unsafe { RecvBuf::new(address.cast(), count as u64, datatype.clone()) },
                areas: vec![],
                expected: None,
            });
        }
        // SAFETY: the module's contract. Of the area only the place is looked at.
        let (headed, plain) = unsafe {
            (
                header::incoming(fun, site, address, count as u64, datatype, comm)?,
                SendBuf::new(address.cast_const().cast(), count as u64, datatype.clone()),
            )
        };
        Ok(Incoming {
            buf: headed.0,
            areas: vec![Area::written(plain)],
            expected: Some(headed.1),
        })
    }

    /// The status of a receive, as the program is to see it.
    pub(super) fn compared(&self, cx: &Cx, expected: &Option<Expected>, mut status: Status) -> Status {
        if let Some(expected) = expected {
            self.received(cx, expected, &mut status);
        }
        status
    }

    /// A send without a request of its own gets one, so that it is known whether the program completes it.
    fn request_of(&self, cx: &Cx, started: Result<usize>) -> Result<usize> {
        match started? {
            SENT => cx.world().done(Status::EMPTY),
            handle => Ok(handle),
        }
    }

    /// Start something and give the program its request.
    pub(super) fn start(
        &self,
        cx: &Cx,
        operation: Operation,
        request: Out<usize>,
        start: impl FnOnce() -> Result<usize>,
    ) -> Result<()> {
        let begun = self.begin(cx, operation);
        let handle = self.request_of(cx, start());
        self.begun(begun, handle.as_ref().ok().copied());
        request.set(handle?);
        Ok(())
    }
}

/// Whether a receive from `source` takes no message.
fn from_nobody(source: c_int) -> bool {
    source == abi::MPI_PROC_NULL
}

/// A body of one of the functions that differ in one thing only. Named by the generator: keep the name on the first line.
macro_rules! one_way {
    ($name:ident, send $mode:expr) => {
        #[allow(clippy::too_many_arguments)] // The standard's own list.
        pub(crate) unsafe fn $name(
            cx: &Cx,
            check: &Check,
            fun: Fun,
            buf: Ptr,
            count: i64,
            datatype: TypeRef,
            dest: c_int,
            tag: c_int,
            comm: &CommRef,
        ) -> Result<()> {
            let site = check.here();
            // SAFETY: the module's contract.
            let out = unsafe { check.outgoing(fun, site, buf, count, &datatype, dest, comm) }?;
            let _memory = check.during(cx, fun, site, &out.areas);
            cx.world().send(comm, &out.buf, dest, tag, $mode)
        }
    };
    ($name:ident, start |$world:ident, $comm:ident, $buf:ident, $dest:ident, $tag:ident| $start:expr) => {
        #[allow(clippy::too_many_arguments)] // The standard's own list.
        pub(crate) unsafe fn $name(
            cx: &Cx,
            check: &Check,
            fun: Fun,
            buf: Ptr,
            count: i64,
            datatype: TypeRef,
            dest: c_int,
            tag: c_int,
            comm: &CommRef,
            request: Out<usize>,
        ) -> Result<()> {
            let site = check.here();
            // SAFETY: the module's contract.
            let out = unsafe { check.outgoing(fun, site, buf, count, &datatype, dest, comm) }?;
            let ($world, $comm, $buf, $dest, $tag) = (cx.world(), comm, &out.buf, dest, tag);
            check.start(
                cx,
                check.operation(fun, site, out.areas, None),
                request,
                || $start,
            )
        }
    };
    ($name:ident, make |$comm:ident, $buf:ident, $dest:ident, $tag:ident| $spec:expr) => {
        #[allow(clippy::too_many_arguments)] // The standard's own list.
        pub(crate) unsafe fn $name(
            cx: &Cx,
            check: &Check,
            fun: Fun,
            buf: Ptr,
            count: i64,
            datatype: TypeRef,
            dest: c_int,
            tag: c_int,
            comm: &CommRef,
            request: Out<usize>,
        ) -> Result<()> {
            let site = check.here();
            // SAFETY: the module's contract.
            let out = unsafe { check.outgoing(fun, site, buf, count, &datatype, dest, comm) }?;
            let ($comm, $buf, $dest, $tag) = (Rc::clone(comm), out.buf, dest, tag);
            let handle = cx.world().persistent($spec)?;
            check.persistent(handle, check.operation(fun, site, out.areas, None));
            request.set(handle);
            Ok(())
        }
    };
}

one_way!(mpi_send, send Mode::Standard);
one_way!(mpi_ssend, send Mode::Synchronous);
one_way!(mpi_rsend, send Mode::Standard);
one_way!(
    mpi_isend,
    start | world,
    comm,
    buf,
    dest,
    tag | world.isend(comm, buf, dest, tag, Mode::Standard)
);
one_way!(
    mpi_issend,
    start | world,
    comm,
    buf,
    dest,
    tag | world.isend(comm, buf, dest, tag, Mode::Synchronous)
);
one_way!(
    mpi_irsend,
    start | world,
    comm,
    buf,
    dest,
    tag | world.isend(comm, buf, dest, tag, Mode::Standard)
);
one_way!(
    mpi_ibsend,
    start | world,
    comm,
    buf,
    dest,
    tag | world.ibsend(comm, buf, dest, tag)
);
one_way!(
    mpi_send_init,
    make | comm,
    buf,
    dest,
    tag | PersistentSpec::Send {
        comm,
        buf,
        dest,
        tag,
        mode: Mode::Standard
    }
);
one_way!(
    mpi_rsend_init,
    make | comm,
    buf,
    dest,
    tag | PersistentSpec::Send {
        comm,
        buf,
        dest,
        tag,
        mode: Mode::Standard
    }
);
one_way!(
    mpi_ssend_init,
    make | comm,
    buf,
    dest,
    tag | PersistentSpec::Send {
        comm,
        buf,
        dest,
        tag,
        mode: Mode::Synchronous
    }
);
one_way!(
    mpi_bsend_init,
    make | comm,
    buf,
    dest,
    tag | PersistentSpec::BufferedSend { comm, buf, dest, tag }
);

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_bsend(
    cx: &Cx,
    check: &Check,
    fun: Fun,
    buf: Ptr,
    count: i64,
    datatype: TypeRef,
    dest: c_int,
    tag: c_int,
    comm: &CommRef,
) -> Result<()> {
    let site = check.here();
    // SAFETY: the module's contract.
    let out = unsafe { check.outgoing(fun, site, buf, count, &datatype, dest, comm) }?;
    let _memory = check.during(cx, fun, site, &out.areas);
    cx.world().bsend(comm, &out.buf, dest, tag)
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_recv(
    cx: &Cx,
    check: &Check,
    fun: Fun,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    status: StatusOut,
) -> Result<()> {
    let site = check.here();
    // SAFETY: the module's contract.
    let room = unsafe { check.incoming(fun, site, buf, count, &datatype, from_nobody(source), Some(comm)) }?;
    let _memory = check.during(cx, fun, site, &room.areas);
    let received = cx.world().recv(comm, room.buf, source, tag)?;
    deliver(check.compared(cx, &room.expected, received), status)
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_irecv(
    cx: &Cx,
    check: &Check,
    fun: Fun,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    let site = check.here();
    // SAFETY: the module's contract.
    let room = unsafe { check.incoming(fun, site, buf, count, &datatype, from_nobody(source), Some(comm)) }?;
    check.start(
        cx,
        check.operation(fun, site, room.areas, room.expected),
        request,
        || cx.world().irecv(comm, room.buf, source, tag),
    )
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_recv_init(
    cx: &Cx,
    check: &Check,
    fun: Fun,
    buf: PtrMut,
    count: i64,
    datatype: TypeRef,
    source: c_int,
    tag: c_int,
    comm: &CommRef,
    request: Out<usize>,
) -> Result<()> {
    let site = check.here();
    // SAFETY: the module's contract.
    let room = unsafe { check.incoming(fun, site, buf, count, &datatype, from_nobody(source), Some(comm)) }?;
    let handle = cx.world().persistent(PersistentSpec::Recv {
        comm: Rc::clone(comm),
        buf: room.buf,
        source,
        tag,
    })?;
    check.persistent(handle, check.operation(fun, site, room.areas, room.expected));
    request.set(handle);
    Ok(())
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_sendrecv(
    cx: &Cx,
    check: &Check,
    fun: Fun,
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
    unsafe {
        apart(
            &SendBuf::new(sendbuf.cast(), sendcount as u64, sendtype.clone()),
            &RecvBuf::new(recvbuf.cast(), recvcount as u64, recvtype.clone()),
        )?;
    }
    let site = check.here();
    // SAFETY: the module's contract.
    let (out, room) = unsafe {
        (
            check.outgoing(fun, site, sendbuf, sendcount, &sendtype, dest, comm)?,
            check.incoming(
                fun,
                site,
                recvbuf,
                recvcount,
                &recvtype,
                from_nobody(source),
                Some(comm),
            )?,
        )
    };
    let areas: Vec<Area> = out.areas.iter().chain(&room.areas).cloned().collect();
    let _memory = check.during(cx, fun, site, &areas);
    let received = exchange(cx, comm, (out.buf, dest, sendtag), (room.buf, source, recvtag))?;
    deliver(check.compared(cx, &room.expected, received), status)
}

/// A packed copy of what a replacing exchange sends.
unsafe fn packed(address: PtrMut, count: i64, datatype: &TypeRef) -> Vec<u8> {
    // SAFETY: the module's contract.
    let send = unsafe { SendBuf::new(address.cast_const().cast(), count as u64, datatype.clone()) };
    let mut packed = vec![0; send.bytes() as usize];
    send.pack(0, &mut packed);
    packed
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_sendrecv_replace(
    cx: &Cx,
    check: &Check,
    fun: Fun,
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
    let site = check.here();
    // SAFETY: the module's contract; the copy outlives `exchange`, which waits for the send.
    let (packed, room) = unsafe {
        (
            packed(buf, count, &datatype),
            check.incoming(fun, site, buf, count, &datatype, from_nobody(source), Some(comm))?,
        )
    };
    if let Some(peer) = comm.peer(dest) {
        check.meet(peer.0);
    }
    // SAFETY: as above.
    let send = unsafe { header::outgoing_copy(fun, site, &packed, count as u64, &datatype) }?;
    let _memory = check.during(cx, fun, site, &room.areas);
    let received = exchange(cx, comm, (send, dest, sendtag), (room.buf, source, recvtag))?;
    deliver(check.compared(cx, &room.expected, received), status)
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_isendrecv(
    cx: &Cx,
    check: &Check,
    fun: Fun,
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
    unsafe {
        apart(
            &SendBuf::new(sendbuf.cast(), sendcount as u64, sendtype.clone()),
            &RecvBuf::new(recvbuf.cast(), recvcount as u64, recvtype.clone()),
        )?;
    }
    let site = check.here();
    // SAFETY: the module's contract.
    let (out, room) = unsafe {
        (
            check.outgoing(fun, site, sendbuf, sendcount, &sendtype, dest, comm)?,
            check.incoming(
                fun,
                site,
                recvbuf,
                recvcount,
                &recvtype,
                from_nobody(source),
                Some(comm),
            )?,
        )
    };
    let areas = out.areas.into_iter().chain(room.areas).collect();
    check.start(
        cx,
        check.operation(fun, site, areas, room.expected),
        request,
        || {
            let world = cx.world();
            let receiving = world.irecv(comm, room.buf, source, recvtag)?;
            let sending = world.isend(comm, &out.buf, dest, sendtag, Mode::Standard)?;
            world.join(receiving, sending)
        },
    )
}

#[allow(clippy::too_many_arguments)] // The standard's own list.
pub(crate) unsafe fn mpi_isendrecv_replace(
    cx: &Cx,
    check: &Check,
    fun: Fun,
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
    let site = check.here();
    // SAFETY: the module's contract.
    let (out, room) = unsafe {
        (
            check.outgoing(fun, site, buf, count, &datatype, dest, comm)?,
            check.incoming(fun, site, buf, count, &datatype, from_nobody(source), Some(comm))?,
        )
    };
    check.start(
        cx,
        check.operation(fun, site, room.areas, room.expected),
        request,
        || {
            let world = cx.world();
            // A copy goes out, so that what comes in may overwrite it; it is taken before anything can come in.
            let sending = world.isend_copy(comm, &out.buf, dest, sendtag)?;
            let receiving = world.irecv(comm, room.buf, source, recvtag)?;
            world.join(receiving, sending)
        },
    )
}
