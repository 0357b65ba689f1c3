//! Point-to-point calls on a communicator.
//!
//! Requirements of MPI-5.0 sections 3.2.1, 3.5, 3.11.

use super::{Awaited, World};
use crate::buffer::{RecvBuf, RecvRun, SendBuf};
use crate::carrier::postbox::Short;
use crate::carrier::{Chosen, Engine};
use crate::comm::{Comm, ContextLane};
use crate::engine::carrier::Direct;
use crate::engine::context::ANY_SOURCE;
use crate::engine::request::{Payload, Request, Status};
use crate::engine::{Carrier, SENT, wire};
use crate::p2p::Mode;
use crate::{Error, Rank, Result};
use farpost_fabric::{Cost, Fabric, Peer, Work};

/// Looks at a queue that another host fills before a wait begins in earnest.
const FAR_LOOKS: u32 = 64;

/// `MPI_PROC_NULL`.
pub const PROC_NULL: Rank = -3;
#[cold]
fn no_rank(name: &str, rank: Rank, comm: &Comm) -> Error {
    if comm.is_revoked() {
        return crate::failures::revoked();
    }
    let most = i64::from(comm.peers()) - 1;
    error!(ERR_RANK: "{name}={rank}: the communicator has ranks 0 to {most}")
}

impl<F: Fabric> World<F> {
    #[inline]
    fn dest(&self, comm: &Comm, dest: Rank) -> Result<Peer> {
        comm.peer(dest).ok_or_else(|| no_rank("dest", dest, comm))
    }

    /// Start a send; the handle may be [`SENT`].
    #[inline]
    pub fn isend(&self, comm: &Comm, buf: &SendBuf, dest: Rank, tag: i32, mode: Mode) -> Result<usize> {
        if dest == PROC_NULL {
            return Ok(SENT);
        }
        let peer = self.dest(comm, dest)?;
        let envelope = comm.envelope(tag, buf.sig());
        let started = self.engine.borrow_mut().isend_user(peer, envelope, buf, mode)?;
        Ok(started.unwrap_or(SENT))
    }

    /// Send and wait.
    #[inline]
    pub fn send(&self, comm: &Comm, buf: &SendBuf, dest: Rank, tag: i32, mode: Mode) -> Result<()> {
        match self.isend(comm, buf, dest, tag, mode)? {
            SENT => Ok(()),
            handle => self
                .let_go(handle)
                .and_then(|()| self.wait(handle))
                .and_then(|status| status.error.map_or(Ok(()), |error| Err(*error))),
        }
    }

    /// A blocking send need not wait until a peer that computes has taken the message; but one that is receiving it
    /// spares us the copy.
    fn let_go(&self, handle: usize) -> Result<()> {
        if !self.engine.borrow().is_zcopy(handle) {
            return Ok(());
        }
        for _ in 0..FAR_LOOKS {
            if self.is_complete(handle)? {
                return Ok(());
            }
            self.progress();
        }
        self.engine.borrow_mut().release_zcopy_send(handle);
        Ok(())
    }

    /// Start a receive.
    #[inline]
    pub fn irecv(&self, comm: &Comm, buf: RecvBuf, source: Rank, tag: i32) -> Result<usize> {
        let mut engine = self.engine.borrow_mut();
        if source == PROC_NULL {
            return completed(&mut engine, Status::PROC_NULL);
        }
        comm.need_unrevoked()?;
        engine.fabric.charge(Cost::Work(Work::MpiReceive));
        engine.irecv(comm.slots[0], buf, source, tag)
    }

    /// Receive and wait. An error of the message itself is in the status.
    #[inline]
    pub fn recv(&self, comm: &Comm, mut buf: RecvBuf, source: Rank, tag: i32) -> Result<Status> {
        if source == PROC_NULL {
            return Ok(Status::PROC_NULL);
        }
        if source >= 0 {
            if comm.peer(source).is_none() {
                return Err(no_rank("source", source, comm));
            }
            let class = buf.sig();
            if let Some(to) = buf.contiguous_mut()
                && let Some((source, tag, len)) = self.receive_short(comm, source, tag, class, to)
            {
                return Ok(Status {
                    source,
                    tag,
                    bytes: len as u64,
                    cancelled: false,
                    error: None,
                });
            }
        }
        comm.need_unrevoked()?;
        let handle = self.engine.borrow_mut().irecv(comm.slots[0], buf, source, tag)?;
        let received = self.wait(handle);
        self.fabric().charge(Cost::Work(Work::MpiReceive));
        received
    }

    /// Send a short message at once, if nothing stands in the way. False: take the long way.
    #[inline(always)]
    pub fn send_short(&self, comm: &Comm, data: &[u8], class: u8, dest: Rank, tag: i32) -> bool {
        if let Some(word) = wire::word(data)
            && let Some(peer) = comm.route.peer(dest)
        {
            let envelope = comm.route.sent(tag, class);
            let posted = self
                .engine
                .borrow_mut()
                .post_word(peer, envelope, word, data.len());
            if posted {
                self.fabric().charge_in_lane(Cost::Work(Work::MpiSend));
                return true;
            }
        }
        self.send_other(comm, data, class, dest, tag)
    }

    /// As [`send_short`](Self::send_short) of any length and to any rank.
    #[inline(never)]
    fn send_other(&self, comm: &Comm, data: &[u8], class: u8, dest: Rank, tag: i32) -> bool {
        let Some(peer) = comm.peer(dest) else { return false };
        let envelope = comm.envelope(tag, class);
        let sent = self.engine.borrow_mut().try_eager(peer, &envelope, data);
        if sent {
            self.fabric().charge(Cost::Work(Work::MpiSend));
        }
        sent
    }

    /// Receive a short message from one source into plain memory, if one comes soon and nothing else is to
    /// be done meanwhile. Its source, tag and bytes. `None`: take the long way.
    #[inline(always)]
    pub fn receive_short(
        &self,
        comm: &Comm,
        source: Rank,
        tag: i32,
        class: u8,
        to: &mut [u8],
    ) -> Option<(Rank, i32, usize)> {
        // What a peer has posted, and nothing else could take, is looked for first.
        if wire::is_word(to.len())
            && let Some(peer) = comm.route.peer(source)
        {
            let (slot, envelope) = (comm.route.slot, comm.route.wanted(source, tag, class));
            let word = self.engine.borrow_mut().take_word(slot, peer, envelope, to.len());
            if let Some(word) = word {
                self.fabric().charge_in_lane(Cost::Work(Work::MpiReceive));
                wire::put_word(word, to);
                return Some((source, tag, to.len()));
            }
        }
        self.receive_other(comm, source, tag, class, to)
    }

    /// As [`receive_short`](Self::receive_short) of any length and from any rank, in several looks.
    #[inline(never)]
    fn receive_other(
        &self,
        comm: &Comm,
        source: Rank,
        tag: i32,
        class: u8,
        to: &mut [u8],
    ) -> Option<(Rank, i32, usize)> {
        let peer = comm.peer(source)?;
        let context = comm.lane(ContextLane::Messages);
        let wanted = Direct {
            context: comm.slots[0],
            context_id: context,
            peer,
            source,
            tag,
            class,
        };
        let mut engine = self.engine.borrow_mut();
        // What a lane would have looked for.
        if wire::is_word(to.len()) && comm.lacks_lane(source) {
            let envelope = comm.route.wanted(source, tag, class);
            let word = engine.take_word_of_any(comm.slots[0], peer, envelope, to.len());
            if let Some(word) = word {
                engine.fabric.charge(Cost::Work(Work::MpiReceive));
                wire::put_word(word, to);
                return Some((source, tag, to.len()));
            }
        }
        if let Short::Got { source, tag, len } = engine.receive_short(&wanted, to) {
            engine.fabric.charge(Cost::Work(Work::MpiReceive));
            return Some((source, tag, len));
        }
        let looks = if self.has_more_under_way() {
            1
        } else {
            self.policy.looks()
        };
        let got = Chosen::receive_at_once(&mut engine, &wanted, to, looks);
        if got.is_some() {
            engine.fabric.charge(Cost::Work(Work::MpiReceive));
        }
        got
    }

    /// Start a receive into one run of bytes, from `source` or MPI_ANY_SOURCE, unless a message is held that it might
    /// take, or something is wrong. `room` is asked once at most, where the room is needed: it does not go through memory.
    /// `None`: take the long way.
    #[inline(always)]
    pub fn irecv_run<'a>(
        &self,
        comm: &Comm,
        room: impl FnOnce() -> RecvRun<'a>,
        source: Rank,
        tag: i32,
    ) -> Option<usize> {
        let peer = match source {
            ANY_SOURCE if comm.is_revoked() => return None,
            ANY_SOURCE => None,
            _ => Some(comm.peer(source)?),
        };
        let context = comm.lane(ContextLane::Messages);
        let mut engine = self.engine.borrow_mut();
        engine.irecv_run(comm.slots[0], context, peer, room, source, tag)
    }

    /// Use the communicator behind a handle without taking a share of it.
    #[inline(always)]
    pub fn with_comm<R>(&self, handle: usize, use_it: impl FnOnce(&Comm) -> R) -> Option<R> {
        let table;
        let comm: &Comm = if handle == self.predefined[0].get() {
            self.comm_world()
        } else {
            table = self.comms.borrow();
            table.get(handle)?
        };
        Some(use_it(comm))
    }

    /// The status of the message that a receive would take now, if one is there.
    pub fn iprobe(&self, comm: &Comm, source: Rank, tag: i32) -> Result<Option<Status>> {
        if source == PROC_NULL {
            return Ok(Some(Status::PROC_NULL));
        }
        comm.need_unrevoked()?;
        self.looks();
        if let Some(status) = self.engine.borrow_mut().probe(comm.slots[0], source, tag) {
            self.looked(true);
            return Ok(Some(status));
        }
        self.progress();
        let mut engine = self.engine.borrow_mut();
        let found = engine.probe(comm.slots[0], source, tag);
        if found.is_none()
            && !engine.lost.is_empty()
            && let Some(error) = engine.lost_source(comm.slots[0], source)
        {
            return Err(error);
        }
        drop(engine);
        self.looked_for(Awaited::Message { comm, source, tag }, found.is_some());
        Ok(found)
    }

    /// Wait for a message and look at it.
    pub fn probe(&self, comm: &Comm, source: Rank, tag: i32) -> Result<Status> {
        let mut found = None;
        self.wait_for(Awaited::Message { comm, source, tag }, || {
            found = match source {
                PROC_NULL => Some(Status::PROC_NULL),
                _ if comm.is_revoked() => return Err(crate::failures::revoked()),
                _ => self.engine.borrow_mut().probe(comm.slots[0], source, tag),
            };
            if found.is_none() {
                let engine = self.engine.borrow();
                if !engine.lost.is_empty()
                    && !engine.has_unexpected_for(comm.slots[0], source, tag)
                    && let Some(error) = engine.lost_source(comm.slots[0], source)
                {
                    return Err(error);
                }
            }
            Ok(found.is_some())
        })?;
        found.ok_or_else(|| error!(ERR_INTERN: "a probe ended without a message"))
    }

    /// Take the message that a receive would take now: its handle and status. `Ok(None)`: none is there.
    /// The handle of a message from MPI_PROC_NULL is `MPI_MESSAGE_NO_PROC`.
    pub fn improbe(&self, comm: &Comm, source: Rank, tag: i32) -> Result<Option<(usize, Status)>> {
        if source == PROC_NULL {
            return Ok(Some((MESSAGE_NO_PROC, Status::PROC_NULL)));
        }
        if self.iprobe(comm, source, tag)?.is_none() {
            return Ok(None);
        }
        let taken = self.engine.borrow_mut().take_matched(comm.slots[0], source, tag);
        match taken {
            Some((matched, status)) => Ok(Some((self.messages.borrow_mut().insert(matched)?, status))),
            None => Ok(None),
        }
    }

    /// Wait for a message and take it.
    pub fn mprobe(&self, comm: &Comm, source: Rank, tag: i32) -> Result<(usize, Status)> {
        loop {
            self.probe(comm, source, tag)?;
            if let Some(taken) = self.improbe(comm, source, tag)? {
                return Ok(taken);
            }
        }
    }

    /// Receive a message that was taken by a probe.
    pub fn imrecv(&self, message: usize, buf: RecvBuf) -> Result<usize> {
        if message == MESSAGE_NO_PROC {
            return completed(&mut self.engine.borrow_mut(), Status::PROC_NULL);
        }
        let matched = self
            .messages
            .borrow_mut()
            .remove(message)
            .ok_or_else(|| error!(ERR_REQUEST: "message={message:#x}: not a live message handle"))?;
        self.engine.borrow_mut().irecv_matched(matched, buf)
    }

    /// Whether a message handle is live.
    pub fn is_message(&self, message: usize) -> bool {
        message == MESSAGE_NO_PROC || self.messages.borrow().get(message).is_some()
    }

    /// Start a send of a copy: the buffer may change at once.
    pub fn isend_copy(&self, comm: &Comm, buf: &SendBuf, dest: Rank, tag: i32) -> Result<usize> {
        if dest == PROC_NULL {
            return Ok(SENT);
        }
        let mut data = vec![0; buf.bytes() as usize].into_boxed_slice();
        buf.pack_on(self.fabric(), 0, &mut data);
        self.isend_owned(comm, data, dest, tag)
    }

    /// Send a copy of our own.
    pub fn isend_owned(&self, comm: &Comm, data: Box<[u8]>, dest: Rank, tag: i32) -> Result<usize> {
        let peer = self.dest(comm, dest)?;
        let envelope = comm.envelope(tag, 0);
        let payload = Payload::Owned(data);
        let started = self
            .engine
            .borrow_mut()
            .isend(peer, envelope, payload, Mode::Standard)?;
        Ok(started.unwrap_or(SENT))
    }
}

/// `MPI_MESSAGE_NO_PROC`.
pub const MESSAGE_NO_PROC: usize = 0x129;

/// A request that is complete from the start.
pub(crate) fn completed<F: Fabric>(engine: &mut Engine<F>, status: Status) -> Result<usize> {
    let mut request = Request::new(crate::engine::request::Operation::Idle);
    request.complete = true;
    request.status = status;
    engine.requests.insert(request)
}
