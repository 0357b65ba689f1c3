//! What the bodies of calls that move data do for ordinary programs and for checked ones: they stand once, and are compiled for
//! both. The generator gives a body that takes `<C: Checking>` one of them before the arguments of the call.

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::engine::request::Status;

use super::forms::Collective;
use crate::cx::{CommRef, Cx};

/// Who sends what a receive takes.
#[derive(Clone, Copy)]
pub(crate) enum Sender<'a> {
    /// Nobody: `MPI_PROC_NULL`.
    Nobody,
    Member(&'a CommRef),
    /// The message was matched before.
    Matched,
}

/// How a collective is called for.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// It is over when the call returns.
    Run,
    /// It is under way then.
    Start,
    /// It can be started.
    Persistent,
}

/// Whether buffers and operations of a call are looked at.
pub(crate) trait Checking: Copy {
    /// What is noted of buffers.
    type Noted;

    /// What goes out for a buffer of the program's. To nobody nothing goes, and its arguments mean nothing.
    ///
    /// # Errors
    /// The datatype is too large for what is added.
    fn outgoing(self, buf: SendBuf, dest: c_int, comm: &CommRef) -> Result<(SendBuf, Self::Noted)>;

    /// What goes out for a packed copy of `of`.
    ///
    /// # Errors
    /// As [`outgoing`](Self::outgoing).
    ///
    /// # Safety
    /// The copy is there until the send is complete.
    unsafe fn outgoing_copy(self, copy: &[u8], of: &SendBuf, dest: c_int, comm: &CommRef) -> Result<SendBuf>;

    /// Where a message goes for a buffer of the program's.
    ///
    /// # Errors
    /// As [`outgoing`](Self::outgoing).
    fn incoming(self, buf: RecvBuf, from: Sender<'_>) -> Result<(RecvBuf, Self::Noted)>;

    /// What is noted of an exchange.
    fn both(sent: Self::Noted, received: Self::Noted) -> Self::Noted;

    /// Run a call that is over when it returns.
    fn run<T>(self, cx: &Cx, noted: &Self::Noted, call: impl FnOnce() -> Result<T>) -> Result<T>;

    /// The status of a receive, as the program is to see it.
    fn received(self, cx: &Cx, noted: &Self::Noted, status: Status) -> Status;

    /// The status of a message that is not received yet, as the program is to see it.
    fn probed(self, status: Status) -> Status;

    /// Start an operation: its request.
    fn start(self, cx: &Cx, noted: Self::Noted, start: impl FnOnce() -> Result<usize>) -> Result<usize>;

    /// A persistent request was made.
    fn persistent(self, noted: Self::Noted, handle: usize);

    /// Run, start or make a collective: its request, or 0.
    fn collective(
        self,
        cx: &'static Cx,
        comm: &CommRef,
        form: Form,
        made: impl FnOnce() -> Result<Collective>,
    ) -> Result<usize>;
}

/// An ordinary program.
#[derive(Clone, Copy)]
pub(crate) struct Unchecked;

impl Checking for Unchecked {
    type Noted = ();

    #[inline(always)]
    fn outgoing(self, buf: SendBuf, _: c_int, _: &CommRef) -> Result<(SendBuf, ())> {
        Ok((buf, ()))
    }

    unsafe fn outgoing_copy(self, copy: &[u8], _: &SendBuf, _: c_int, _: &CommRef) -> Result<SendBuf> {
        // SAFETY: the caller's promise.
        Ok(unsafe { SendBuf::new(copy.as_ptr(), copy.len() as u64, Datatype::byte()) })
    }

    #[inline(always)]
    fn incoming(self, buf: RecvBuf, _: Sender<'_>) -> Result<(RecvBuf, ())> {
        Ok((buf, ()))
    }

    fn both((): (), (): ()) {}

    #[inline(always)]
    fn run<T>(self, _: &Cx, (): &(), call: impl FnOnce() -> Result<T>) -> Result<T> {
        call()
    }

    #[inline(always)]
    fn received(self, _: &Cx, (): &(), status: Status) -> Status {
        status
    }

    #[inline(always)]
    fn probed(self, status: Status) -> Status {
        status
    }

    #[inline(always)]
    fn start(self, _: &Cx, (): (), start: impl FnOnce() -> Result<usize>) -> Result<usize> {
        start()
    }

    fn persistent(self, (): (), _: usize) {}

    #[inline(always)]
    fn collective(
        self,
        cx: &'static Cx,
        comm: &CommRef,
        form: Form,
        made: impl FnOnce() -> Result<Collective>,
    ) -> Result<usize> {
        let made = made()?;
        match form {
            Form::Run => made.run(cx, comm).map(|()| 0),
            Form::Start => made.start(cx, comm),
            Form::Persistent => made.persistent(cx, comm),
        }
    }
}
