//! What is done beside the calls of a checked program: a header before every message, notes of buffers and requests, and what each
//! member of a communicator says of a collective.

use core::ffi::c_int;

use farpost_mpi::Result;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::engine::SENT;
use farpost_mpi::engine::request::Status;

use super::areas::Area;
use super::header::{self, Expected};
use super::{Call, Check};
use crate::calls::checking::{Checking, Form, Sender, Unchecked};
use crate::calls::forms::Collective;
use crate::cx::{CommRef, Cx};
use crate::names::Fun;

/// A call of a checked program.
#[derive(Clone, Copy)]
pub(crate) struct Checked<'a> {
    pub(super) check: &'a Check,
    pub(super) call: Call,
}

impl<'a> Checked<'a> {
    pub(crate) fn new(check: &'a Check, fun: Fun) -> Self {
        let call = check.call_here(fun);
        Self { check, call }
    }

    fn meet(self, dest: c_int, comm: &CommRef) -> bool {
        let peer = comm.peer(dest);
        if let Some(peer) = peer {
            self.check.meet(peer.0);
        }
        peer.is_some()
    }
}

/// The memory of a call, and what its message is compared with.
#[derive(Default)]
pub(crate) struct Noted {
    areas: Vec<Area>,
    expected: Option<Expected>,
}

impl Checking for Checked<'static> {
    type Noted = Noted;

    fn outgoing(self, buf: SendBuf, dest: c_int, comm: &CommRef) -> Result<(SendBuf, Noted)> {
        if !self.meet(dest, comm) {
            return Ok((buf, Noted::default()));
        }
        let headed = header::outgoing(self.call, &buf)?;
        let noted = Noted {
            areas: vec![Area::read(buf)],
            expected: None,
        };
        Ok((headed, noted))
    }

    unsafe fn outgoing_copy(self, copy: &[u8], of: &SendBuf, dest: c_int, comm: &CommRef) -> Result<SendBuf> {
        self.meet(dest, comm);
        // SAFETY: the caller's promise.
        unsafe { header::outgoing_copy(self.call, copy, of) }
    }

    fn incoming(self, buf: RecvBuf, from: Sender<'_>) -> Result<(RecvBuf, Noted)> {
        let comm = match from {
            Sender::Nobody => return Ok((buf, Noted::default())),
            Sender::Member(comm) => Some(comm),
            Sender::Matched => None,
        };
        let (headed, expected) = header::incoming(self.call, &buf, comm)?;
        let noted = Noted {
            areas: vec![Area::written(buf.as_send())],
            expected: Some(expected),
        };
        Ok((headed, noted))
    }

    fn both(mut sent: Noted, received: Noted) -> Noted {
        sent.areas.extend(received.areas);
        Noted {
            areas: sent.areas,
            expected: received.expected,
        }
    }

    fn run<T>(self, cx: &Cx, noted: &Noted, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let _memory = self.check.during(cx, self.call, &noted.areas);
        call()
    }

    fn received(self, cx: &Cx, noted: &Noted, mut status: Status) -> Status {
        if let Some(expected) = &noted.expected {
            self.check.received(cx, expected, &mut status);
        }
        status
    }

    fn probed(self, mut status: Status) -> Status {
        header::strip(&mut status);
        status
    }

    fn start(self, cx: &Cx, noted: Noted, start: impl FnOnce() -> Result<usize>) -> Result<usize> {
        let operation = self.check.operation(self.call, noted.areas, noted.expected);
        let begun = self.check.begin(cx, operation);
        // A send without a request of its own gets one, so that it is known whether the program completes it.
        let handle = start().and_then(|handle| match handle {
            SENT => cx.world().done(Status::EMPTY),
            handle => Ok(handle),
        });
        self.check.begun(begun, handle.as_ref().ok().copied());
        handle
    }

    fn persistent(self, noted: Noted, handle: usize) {
        let operation = self.check.operation(self.call, noted.areas, noted.expected);
        self.check.persistent(handle, operation);
    }

    fn collective(
        self,
        cx: &'static Cx,
        comm: &CommRef,
        form: Form,
        made: impl FnOnce() -> Result<Collective>,
    ) -> Result<usize> {
        let made = made();
        let (joined, areas) = self.join(cx, comm, &made);
        let call = || Unchecked.collective(cx, comm, form, || made);
        if matches!(form, Form::Run) {
            let _memory = self.check.during(cx, joined.call, &areas);
            return call().inspect_err(|error| self.check.explain(cx, joined, error));
        }
        let operation = self.check.operation(joined.call, areas, None);
        let operation = operation.of(joined);
        if matches!(form, Form::Start) {
            let begun = self.check.begin(cx, operation);
            let handle = call();
            self.check.begun(begun, handle.as_ref().ok().copied());
            handle
        } else {
            let handle = call()?;
            self.check.persistent(handle, operation);
            Ok(handle)
        }
    }
}
