//! Puts and gets that go on after the call that began them.
//!
//! A request is complete when all its bytes have arrived, or with the error that kept them. Requests are not part of barriers: they end one by
//! one, in any order. On memory that is mapped the processor copies, and a request is complete when it has begun.
//!
//! Cost class: *queued path*.

use crate::error::{Code, Result, RsmError};
use crate::import::memory;
use crate::names::Perm;
use crate::state::{Import, ImportState, RequestState};
use farpost_fabric::{Completion, Cost, Counter, Fabric, FabricError, Remote, TransferMemory};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Most requests of a process that are under way at a time (`RSM_MAX_REQUESTS`).
pub const REQUESTS_MAX: usize = 1024;

/// A put or a get under way, or complete. Dropped, it is withdrawn.
pub struct Request<F: Fabric> {
    state: Rc<RequestState<F>>,
}

impl<F: Fabric> RequestState<F> {
    fn end(&self, result: Result<()>) {
        if self.ticket.take().is_some() {
            let requests = &self.import.inner.requests;
            requests.set(requests.get() - 1);
        }
        self.result.borrow_mut().get_or_insert(result);
    }

    /// Look whether it is over.
    fn look(&self) {
        let (Some(ticket), Some(memory)) = (self.ticket.get(), memory(&self.import)) else {
            return;
        };
        match memory.poll_started(ticket) {
            Ok(false) => {}
            Ok(true) => self.end(Ok(())),
            Err(error) => self.end(Err(self.import.lost(&error, self.put))),
        }
    }

    /// End it early: its memory is not touched any more.
    fn give_up(&self, why: impl FnOnce() -> RsmError) {
        if let (Some(ticket), Some(memory)) = (self.ticket.get(), memory(&self.import)) {
            memory.cancel_started(ticket);
            self.end(Err(why()));
        }
    }
}

impl<F: Fabric> ImportState<F> {
    /// A transfer did not arrive: why, for who asked for it.
    #[cold]
    fn lost(&self, error: &FabricError, put: bool) -> RsmError {
        if matches!(error, FabricError::PeerDead { .. }) {
            self.abort(&error.to_string());
        } else if !self.is_aborted() {
            self.record(crate::cesr::cause(error, put), &error.to_string());
        }
        match self.check_connected() {
            Err(aborted) => aborted,
            Ok(()) => error!(
                BARRIER_FAILURE: "segment {:#x} of node {}: {error}; repeat the transfer", self.id, self.peer.0
            ),
        }
    }

    /// The connection ends, and what is under way by it.
    pub(crate) fn end_requests(&self) {
        for request in self.requests.take().iter().filter_map(Weak::upgrade) {
            request.give_up(|| {
                error!(
                    SEG_NOT_CONNECTED: "segment {:#x} of node {} was disconnected before the transfer was complete",
                    self.id, self.peer.0
                )
            });
        }
    }
}

impl<F: Fabric> Import<F> {
    /// Begin to put all of `from` at `offset` (`rsm_memseg_import_start_put`). Nobody may write to it until the request is complete. Neither
    /// barriers nor signals wait for it.
    ///
    /// # Errors
    /// In this order: `BAD_SEG_HNDL`: disconnected; `PERM_DENIED`; `BAD_OFFSET` (`BAD_LENGTH` where the segment is not mapped): past the
    /// end; `REMOTE_NODE_UNREACHABLE`: a rail that was named does not work; `CONN_ABORTED`; `INSUFFICIENT_RESOURCES`: so many are under
    /// way. What becomes of it later, the request tells.
    pub fn start_put(&self, offset: usize, from: impl Into<TransferMemory>) -> Result<Request<F>> {
        self.start(offset, from.into(), true)
    }

    /// Begin to get into all of `to` from `offset` (`rsm_memseg_import_start_get`). Nobody may use it until the request is complete.
    ///
    /// # Errors
    /// As [`start_put`](Self::start_put).
    pub fn start_get(&self, offset: usize, to: impl Into<TransferMemory>) -> Result<Request<F>> {
        self.start(offset, to.into(), false)
    }

    fn start(&self, offset: usize, with: TransferMemory, put: bool) -> Result<Request<F>> {
        let state = &self.state;
        let inner = &state.inner;
        let wanted = if put { Perm::WRITE } else { Perm::READ };
        let memory = state.check_access(offset, with.len(), wanted)?;
        if state.is_aborted() {
            state.lost_again();
            state.check_connected()?;
        }
        if inner.requests.get() >= REQUESTS_MAX {
            return fail!(
                INSUFFICIENT_RESOURCES: "{REQUESTS_MAX} puts and gets of this process are under way: wait for some of them"
            );
        }
        let bytes = with.len() as u64;
        let started = if put {
            inner.fabric.count(state.peer, Counter::Sent, 1);
            inner.fabric.count(state.peer, Counter::SentBytes, bytes);
            memory.start_put(offset, &with)
        } else {
            inner.fabric.charge(Cost::Copy(with.len()));
            inner.fabric.count(state.peer, Counter::Received, 1);
            inner.fabric.count(state.peer, Counter::ReceivedBytes, bytes);
            memory.start_get(offset, &with)
        };
        let (ticket, result) = match started {
            Ok(Completion::Pending(ticket)) => (Some(ticket), None),
            // By loads and stores, which know nothing of the segment's end.
            Ok(Completion::Done) => (None, Some(state.check_connected())),
            Err(error) => (None, Some(Err(state.lost(&error, put)))),
        };
        let request = Rc::new(RequestState {
            import: Rc::clone(state),
            put,
            ticket: Cell::new(ticket),
            memory: RefCell::new(Some(with)),
            result: RefCell::new(result),
        });
        if ticket.is_some() {
            inner.requests.set(inner.requests.get() + 1);
            let mut all = state.requests.borrow_mut();
            if all.len() == all.capacity() {
                all.retain(|request| request.upgrade().is_some_and(|it| it.ticket.get().is_some()));
            }
            all.push(Rc::downgrade(&request));
        }
        Ok(Request { state: request })
    }

    /// Requests of this connection that are under way, as far as anybody has looked.
    pub fn under_way(&self) -> usize {
        let all = self.state.requests.borrow();
        let under_way = all.iter().filter_map(Weak::upgrade);
        under_way.filter(|request| request.ticket.get().is_some()).count()
    }
}

impl<F: Fabric> Request<F> {
    /// What became of it (`rsm_request_test`). None: it is under way.
    ///
    /// # Errors
    /// Inside: `CONN_ABORTED`: the segment was withdrawn, or its owner is gone; `BARRIER_FAILURE`: bytes did not arrive, to be repeated;
    /// `SEG_NOT_CONNECTED`: disconnected meanwhile; `INTERRUPTED`: [`cancel`](Self::cancel)led.
    pub fn test(&self) -> Option<Result<()>> {
        if self.state.result.borrow().is_none() {
            self.state.import.inner.progress();
            self.state.look();
        }
        self.state.result.borrow().clone()
    }

    /// Wait until it is complete (`rsm_request_wait`); without `timeout`, for ever.
    ///
    /// # Errors
    /// `TIMEOUT`, and `INTERRUPTED`: a handler of the program's has run; it is still under way after both. Else as [`test`](Self::test).
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        if let Some(result) = self.test() {
            return result;
        }
        let inner = &self.state.import.inner;
        inner.wait(timeout, || {
            self.state.look();
            self.state.result.borrow().clone()
        })?
    }

    /// Whether it is known to be complete, without looking.
    pub fn is_over(&self) -> bool {
        self.state.ticket.get().is_none()
    }

    /// Give it up (`rsm_request_cancel`): when this returns its memory is not touched any more. Whether bytes of a put arrive, nobody knows.
    pub fn cancel(&self) {
        self.state
            .give_up(|| RsmError::new(Code::INTERRUPTED, "the transfer was cancelled"));
    }

    /// The bytes that were put or got, of a request that is over and was started with a box.
    pub fn into_bytes(self) -> Option<Box<[u8]>> {
        if !self.is_over() {
            return None;
        }
        let memory = self.state.memory.take();
        memory.and_then(TransferMemory::into_box)
    }
}

impl<F: Fabric> Drop for Request<F> {
    fn drop(&mut self) {
        self.cancel();
    }
}
