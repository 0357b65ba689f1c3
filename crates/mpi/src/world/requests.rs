//! Completing requests (MPI-5.0 section 3.7), persistent and generalized ones among them.
//!
//! Requirements of MPI-5.0 sections 3.7.3, 3.8.4, 3.9, 4.2.2.

use super::CollectiveRequest;
use super::p2p::completed;
use super::{Awaited, World};
use crate::buffer::{RecvBuf, SendBuf};
use crate::carrier::{Chosen, Engine};
use crate::coll::Plan;
use crate::comm::Comm;
use crate::engine::request::Status;
use crate::engine::{Carrier, SENT};
use crate::p2p::Mode;
use crate::partitioned::Channel;
use crate::{Error, ErrorClass, Rank, Result};
use farpost_fabric::Fabric;
use std::rc::Rc;

/// What a request is beyond a message.
pub enum Extra<F: Fabric> {
    /// A collective under way.
    Collective(Rc<CollectiveRequest<F>>),
    /// A persistent operation: what it does when started, and the request of the running one.
    Persistent {
        spec: Rc<PersistentSpec>,
        running: Option<usize>,
    },
    /// The user's own operation.
    Generalized(Rc<Generalized>),
    /// Two operations that complete as one (MPI_Isendrecv); the first one's status counts.
    Joined(usize, usize),
    /// A flush of a buffer: over when these sends are (those that are gone were complete).
    Flush(Box<[usize]>),
    /// Not a request: somebody looks at all results ([`World::watch`]), so that there is always something in the table.
    Watched,
}

/// Sees the results of requests before the program does, and may change them.
pub trait Watch {
    /// The program completes a request. `gone`: it is not persistent.
    fn finished(&self, handle: usize, status: &mut Status, gone: bool);
    /// The program looks at the status of a complete request, which stays.
    fn peeked(&self, handle: usize, status: &mut Status);
}

/// The kind of a request, for callers that treat kinds differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    Message,
    Collective,
    Persistent { active: bool },
    Generalized,
}

/// What a persistent request does each time it is started.
pub enum PersistentSpec {
    Send {
        comm: Rc<Comm>,
        buf: SendBuf,
        dest: Rank,
        tag: i32,
        mode: Mode,
    },
    BufferedSend {
        comm: Rc<Comm>,
        buf: SendBuf,
        dest: Rank,
        tag: i32,
    },
    Recv {
        comm: Rc<Comm>,
        buf: RecvBuf,
        source: Rank,
        tag: i32,
    },
    /// A collective: makes the plan anew at each start. Its messages carry the same tag each time.
    Collective {
        comm: Rc<Comm>,
        plan: Box<dyn Fn() -> Result<Plan>>,
        tag: i32,
    },
    /// A message in partitions.
    Partitioned(Rc<Channel>),
}

/// Callbacks of a generalized request (MPI-5.0 section 13.2). They return MPI error codes.
pub struct Generalized {
    /// Fill in the status.
    pub query: Box<dyn Fn(&mut Status) -> i32>,
    pub free: Box<dyn Fn() -> i32>,
    /// Argument: whether the request is complete.
    pub cancel: Box<dyn Fn(bool) -> i32>,
}

fn not_live(handle: usize) -> Error {
    error!(ERR_REQUEST: "request={handle:#x}: not a live request (freed, or never one)")
}

impl<F: Fabric> World<F> {
    /// Whether a handle is a live request.
    #[inline]
    pub fn is_request(&self, handle: usize) -> bool {
        handle == SENT || self.engine.borrow().requests.get(handle).is_some()
    }

    /// The first of `handles` that is neither a live request nor `null`, if there is one.
    #[inline]
    pub fn first_not_live(&self, handles: &[usize], null: usize) -> Option<usize> {
        let engine = self.engine.borrow();
        handles
            .iter()
            .position(|handle| *handle != null && *handle != SENT && engine.requests.get(*handle).is_none())
    }

    /// Complete and free requests whose statuses nobody wants, from the front of `requests` on, as long as they are
    /// ordinary ones that are complete without an error; each becomes `null`. How many of `requests` are now.
    pub fn discard_complete(&self, requests: &mut [usize], null: usize) -> usize {
        let special = !self.extras.borrow().is_empty();
        let mut engine = self.engine.borrow_mut();
        for (at, request) in requests.iter_mut().enumerate() {
            if *request != null
                && *request != SENT
                && (special
                    || !engine
                        .requests
                        .discard_if(*request, |r| r.complete && r.status.error.is_none()))
            {
                return at;
            }
            *request = null;
        }
        requests.len()
    }

    /// What kind of request it is.
    pub fn request_kind(&self, handle: usize) -> Special {
        if self.extras.borrow().is_empty() {
            return Special::Message;
        }
        match self.extras.borrow().get(&handle) {
            None => Special::Message,
            Some(Extra::Collective(_)) => Special::Collective,
            Some(Extra::Persistent { running, .. }) => Special::Persistent {
                active: running.is_some(),
            },
            Some(Extra::Generalized(_)) => Special::Generalized,
            Some(Extra::Joined(..) | Extra::Flush(_) | Extra::Watched) => Special::Message,
        }
    }

    /// Whether a request is complete (or inactive). Makes no progress.
    #[inline]
    pub fn is_complete(&self, handle: usize) -> Result<bool> {
        if handle == SENT {
            return Ok(true);
        }
        let complete = self.engine.borrow().requests.get(handle).map(|r| r.complete);
        match complete {
            Some(complete) if self.extras.borrow().is_empty() => Ok(complete),
            Some(complete) => match self.extras.borrow().get(&handle) {
                Some(Extra::Joined(first, second)) => {
                    let (first, second) = (*first, *second);
                    let engine = self.engine.borrow();
                    let over = |h: usize| h == SENT || engine.requests.is_over(h);
                    Ok(over(first) && over(second))
                }
                Some(Extra::Flush(sends)) => {
                    let engine = self.engine.borrow();
                    let over = |h: &usize| engine.requests.is_over(*h);
                    Ok(sends.iter().all(over))
                }
                Some(Extra::Persistent {
                    running: Some(running),
                    ..
                }) if *running != SENT => Ok(self.engine.borrow().requests.is_over(*running)),
                _ => Ok(complete),
            },
            None => Err(not_live(handle)),
        }
    }

    /// Whether a request is active: neither null nor an inactive persistent one.
    pub fn is_active(&self, handle: usize) -> bool {
        !matches!(self.request_kind(handle), Special::Persistent { active: false })
    }

    /// Take the result of a complete request. The request goes, unless it is persistent, which becomes
    /// inactive. True with the status: the handle is to be set to null.
    pub fn finish(&self, handle: usize) -> Result<(Status, bool)> {
        if handle == SENT {
            return Ok((Status::EMPTY, true));
        }
        if !self.extras.borrow().is_empty() {
            let (mut status, gone) = self.finish_special(handle)?;
            if let Some(watch) = self.watch.get() {
                watch.finished(handle, &mut status, gone);
            }
            return Ok((status, gone));
        }
        let reaped = self.engine.borrow_mut().reap(handle);
        Ok((reaped.ok_or_else(|| not_live(handle))?, true))
    }

    /// As [`finish`](Self::finish), where a request may be more than a message.
    fn finish_special(&self, handle: usize) -> Result<(Status, bool)> {
        let extra = {
            let mut extras = self.extras.borrow_mut();
            match extras.get_mut(&handle) {
                Some(Extra::Persistent { running, .. }) => {
                    let running = running.take();
                    drop(extras);
                    return Ok((self.finish_running(running), false));
                }
                Some(_) => extras.remove(&handle),
                None => None,
            }
        };
        if let Some(Extra::Joined(first, second)) = extra {
            let mut engine = self.engine.borrow_mut();
            engine.requests.remove(handle);
            let mut status = engine.reap(first).unwrap_or(Status::EMPTY);
            if let Some(second) = engine.reap(second) {
                status.error = status.error.or(second.error);
            }
            return Ok((status, true));
        }
        if let Some(Extra::Flush(_)) = extra {
            self.engine.borrow_mut().requests.remove(handle);
            return Ok((Status::EMPTY, true));
        }
        let mut status = self
            .engine
            .borrow_mut()
            .reap(handle)
            .ok_or_else(|| not_live(handle))?;
        if let Some(Extra::Generalized(generalized)) = extra {
            let code = (generalized.query)(&mut status);
            let code = if code == 0 { (generalized.free)() } else { code };
            if code != 0 {
                let text = format!("a generalized request's callback returned error code {code}");
                status.error = Some(Box::new(Error::new(ErrorClass(code), text)));
            }
        }
        Ok((status, true))
    }

    fn finish_running(&self, running: Option<usize>) -> Status {
        match running {
            None | Some(SENT) => Status::EMPTY,
            Some(running) => {
                self.extras.borrow_mut().remove(&running);
                self.engine.borrow_mut().reap(running).unwrap_or(Status::EMPTY)
            }
        }
    }

    /// Wait for one request.
    #[inline]
    pub fn wait(&self, handle: usize) -> Result<Status> {
        self.wait_finish(handle).map(|(status, _)| status)
    }

    /// As [`wait`](Self::wait), with whether the handle is to be set to null.
    #[inline]
    pub fn wait_finish(&self, handle: usize) -> Result<(Status, bool)> {
        if !self.is_complete(handle)? && !self.soon(handle)? {
            self.wait_for(Awaited::All(&[handle]), || self.is_complete(handle))?;
        }
        self.finish(handle)
    }

    /// A request that waits for a carrier which matches by itself completes by many quick looks, without pauses.
    #[inline]
    fn soon(&self, handle: usize) -> Result<bool> {
        if handle == SENT || !self.extras.borrow().is_empty() {
            return Ok(false);
        }
        let mut looks = self.policy.looks();
        loop {
            let Some(ready) = Chosen::is_ready(&self.engine.borrow()) else {
                return Ok(false);
            };
            if looks & 15 == 0 || ready {
                self.progress();
                if self.is_complete(handle)? {
                    return Ok(true);
                }
            }
            looks = looks.saturating_sub(1);
            if looks == 0 {
                return Ok(false);
            }
        }
    }

    /// Whether a request is complete, after making progress if it was not. The call that asks says afterwards what it
    /// [found](Self::looked).
    pub fn test(&self, handle: usize) -> Result<bool> {
        if self.is_complete(handle)? {
            return Ok(true);
        }
        self.looks();
        self.progress();
        self.is_complete(handle)
    }

    /// From now on `watch` sees the results of all requests.
    pub fn watch(&self, watch: Box<dyn Watch>) {
        if self.watch.set(watch).is_ok() {
            self.extras.borrow_mut().insert(0, Extra::Watched);
        }
    }

    /// A request that is complete from the start.
    pub fn done(&self, status: Status) -> Result<usize> {
        completed(&mut self.engine.borrow_mut(), status)
    }

    /// The status of a complete request, which stays.
    pub fn peek_status(&self, handle: usize) -> Result<Status> {
        if handle == SENT {
            return Ok(Status::EMPTY);
        }
        let mut status = self.status_of(handle)?;
        if let Some(watch) = self.watch.get() {
            watch.peeked(handle, &mut status);
        }
        Ok(status)
    }

    fn status_of(&self, handle: usize) -> Result<Status> {
        let running = match self.extras.borrow().get(&handle) {
            Some(Extra::Persistent {
                running: None | Some(SENT),
                ..
            }) => return Ok(Status::EMPTY),
            Some(Extra::Persistent {
                running: Some(running),
                ..
            }) => *running,
            Some(Extra::Generalized(generalized)) => {
                let generalized = Rc::clone(generalized);
                let mut status = Status::EMPTY;
                (generalized.query)(&mut status);
                return Ok(status);
            }
            Some(Extra::Joined(first, _)) => *first,
            _ => handle,
        };
        let engine = self.engine.borrow();
        engine
            .requests
            .get(running)
            .map(|request| request.status.clone())
            .ok_or_else(|| not_live(handle))
    }

    /// Free a request (MPI_Request_free): it goes when it completes.
    pub fn free_request(&self, handle: usize) -> Result<()> {
        if handle == SENT {
            return Ok(());
        }
        if self.engine.borrow().requests.get(handle).is_none() {
            return Err(not_live(handle));
        }
        let extra = self.extras.borrow_mut().remove(&handle);
        match extra {
            Some(Extra::Persistent { running, spec }) => {
                self.engine.borrow_mut().requests.remove(handle);
                if let PersistentSpec::Partitioned(channel) = &*spec {
                    self.partitioned.borrow_mut().forget(channel);
                }
                match running {
                    Some(running) if running != SENT => self.free_request(running),
                    _ => Ok(()),
                }
            }
            Some(Extra::Generalized(generalized)) => {
                let complete = self.is_complete(handle)?;
                if complete {
                    self.engine.borrow_mut().reap(handle);
                    (generalized.free)();
                } else {
                    // Its free function runs when the user completes it.
                    self.extras
                        .borrow_mut()
                        .insert(handle, Extra::Generalized(generalized));
                    self.detach(handle);
                }
                Ok(())
            }
            Some(Extra::Joined(first, second)) => {
                self.engine.borrow_mut().requests.remove(handle);
                self.free_request(first)?;
                self.free_request(second)
            }
            // The sends go on without it.
            Some(Extra::Flush(_)) => {
                self.engine.borrow_mut().requests.remove(handle);
                Ok(())
            }
            // A collective goes on by itself: it is in the list of active ones.
            _ => {
                self.detach(handle);
                Ok(())
            }
        }
    }

    fn detach(&self, handle: usize) {
        let mut engine = self.engine.borrow_mut();
        let complete = engine.requests.is_complete(handle);
        if complete {
            engine.requests.remove(handle);
        } else if let Some(request) = engine.requests.get_mut(handle) {
            request.detached = true;
        }
    }

    /// Cancel: sends and receives that are not matched, and generalized requests as their owner wishes.
    pub fn cancel(&self, handle: usize) -> Result<()> {
        if handle == SENT {
            return Ok(());
        }
        let target = match self.extras.borrow().get(&handle) {
            Some(Extra::Persistent {
                running: Some(running),
                spec,
            }) if !matches!(**spec, PersistentSpec::Partitioned(_)) => *running,
            Some(Extra::Persistent { .. } | Extra::Collective(_) | Extra::Flush(_)) => {
                return fail!(
                    ERR_REQUEST: "request={handle:#x}: only active point-to-point requests can be cancelled"
                );
            }
            Some(Extra::Generalized(generalized)) => {
                let generalized = Rc::clone(generalized);
                let complete = self.engine.borrow().requests.is_complete(handle);
                return match (generalized.cancel)(complete) {
                    0 => Ok(()),
                    code => Err(Error::new(
                        ErrorClass(code),
                        "a generalized request's cancel callback failed",
                    )),
                };
            }
            Some(Extra::Joined(first, _)) => *first,
            None | Some(Extra::Watched) => handle,
        };
        self.engine.borrow_mut().cancel(target);
        Ok(())
    }

    /// Make a persistent request, inactive.
    pub fn persistent(&self, spec: PersistentSpec) -> Result<usize> {
        self.persistent_in(&mut self.engine.borrow_mut(), spec)
    }

    pub(super) fn persistent_in(&self, engine: &mut Engine<F>, spec: PersistentSpec) -> Result<usize> {
        let handle = completed(engine, Status::EMPTY)?;
        self.extras.borrow_mut().insert(
            handle,
            Extra::Persistent {
                spec: Rc::new(spec),
                running: None,
            },
        );
        Ok(handle)
    }

    /// Start a persistent request.
    pub fn start(&self, handle: usize) -> Result<()> {
        let spec = match self.extras.borrow().get(&handle) {
            Some(Extra::Persistent { spec, running: None }) => Rc::clone(spec),
            Some(Extra::Persistent { .. }) => {
                return fail!(ERR_REQUEST: "request={handle:#x}: already started and not yet completed");
            }
            _ => {
                return fail!(ERR_REQUEST: "request={handle:#x}: not a persistent request");
            }
        };
        let inner = match &*spec {
            PersistentSpec::Send {
                comm,
                buf,
                dest,
                tag,
                mode,
            } => self.isend(comm, buf, *dest, *tag, *mode)?,
            PersistentSpec::BufferedSend { comm, buf, dest, tag } => self.ibsend(comm, buf, *dest, *tag)?,
            PersistentSpec::Recv {
                comm,
                buf,
                source,
                tag,
            } => self.irecv(comm, buf.clone(), *source, *tag)?,
            PersistentSpec::Collective { comm, plan, tag } => self.start_tagged(comm, plan()?, None, *tag)?,
            PersistentSpec::Partitioned(channel) => self.start_partitioned(channel)?,
        };
        if let Some(Extra::Persistent { running, .. }) = self.extras.borrow_mut().get_mut(&handle) {
            *running = Some(inner);
        }
        Ok(())
    }

    /// Make one request of two.
    pub fn join(&self, first: usize, second: usize) -> Result<usize> {
        let mut engine = self.engine.borrow_mut();
        let handle = engine.requests.insert_idle()?;
        self.extras
            .borrow_mut()
            .insert(handle, Extra::Joined(first, second));
        Ok(handle)
    }

    /// Make a request that completes with all of `sends`.
    pub(super) fn flush_request(&self, sends: Box<[usize]>) -> Result<usize> {
        let handle = self.engine.borrow_mut().requests.insert_idle()?;
        self.extras.borrow_mut().insert(handle, Extra::Flush(sends));
        Ok(handle)
    }

    /// Make a generalized request.
    pub fn generalized(&self, callbacks: Generalized) -> Result<usize> {
        let mut engine = self.engine.borrow_mut();
        let handle = engine.requests.insert_idle()?;
        self.extras
            .borrow_mut()
            .insert(handle, Extra::Generalized(Rc::new(callbacks)));
        Ok(handle)
    }

    /// The user's operation is over (MPI_Grequest_complete).
    pub fn complete_generalized(&self, handle: usize) -> Result<()> {
        let generalized = match self.extras.borrow().get(&handle) {
            Some(Extra::Generalized(generalized)) => Rc::clone(generalized),
            _ => {
                return fail!(ERR_REQUEST: "request={handle:#x}: not a generalized request");
            }
        };
        let detached = {
            let mut engine = self.engine.borrow_mut();
            let detached = engine
                .requests
                .get(handle)
                .is_some_and(|request| request.detached);
            engine.complete(handle, |_| {});
            detached
        };
        if detached {
            self.extras.borrow_mut().remove(&handle);
            (generalized.free)();
        }
        Ok(())
    }
}
