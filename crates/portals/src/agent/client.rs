//! What a client links: the operations of an interface, done by way of an agent.

use super::mailbox::{AGENT_BYTES, CLIENT_BYTES, Control, LINES, QUEUE_AT, RESULTS, RESULTS_AT, Reader};
use super::mailbox::{State, Title, Writer, lines_of};
use super::match_here::Here;
use super::moves;
use super::words::{Pen, Piece, SMALL, VERSION, Words, command, error_of, event};
use super::{CLIENT_SEGMENT, Routes, agent_segment};
use crate::error::Error;
use crate::library::{AccessEntry, Library, Processes, Target};
use crate::memory::{Segment, Segments};
use crate::net::Channel;
use crate::types::{
    AckReq, EventKind, Handle, Identity, Iovec, Kind, Limits, Md, Position, ProcessId, SR_DROP_COUNT, Taken,
    Unlink, option,
};
use farpost_fabric::wait::{Backoff, Pause, WaitPolicy, WaitTunables};
use farpost_fabric::{Access, Distance, Fabric, FabricError, LocalMemory, Peer, Permission, Remote};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Polls that find nothing between two looks who has ended: a power of two.
const CLOCK: u32 = 1024;
/// Longest sleep: an agent that ends rings nobody.
const LONG: Duration = Duration::from_millis(20);

/// Where matching is done for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Mode {
    /// By the client, after an interrupt.
    Generic = 0,
    /// By the agent.
    Accelerated = 1,
}

/// Why there is no interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The job has no agent for this process.
    #[error("{0} has no Portals agent: choose the inline interface, or start agents with the job")]
    NoAgent(Peer),
    /// The agent's process is gone.
    #[error("{0}, this host's Portals agent, has ended")]
    AgentEnded(Peer),
    /// The agent does not answer.
    #[error("{0}, this host's Portals agent, does not answer: is it running?")]
    Silent(Peer),
    /// The agent cannot reach this process's memory.
    #[error(
        "{0}, this host's Portals agent, cannot reach this process's memory: the system does not permit cross-memory attach (Yama's ptrace_scope, seccomp), or FARPOST_SHM_CMA is 0"
    )]
    Unreachable(Peer),
    /// The agent refused.
    #[error("{0}, this host's Portals agent, refused: is it of another version of Farpost?")]
    Refused(Peer),
    /// The fabric failed.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

/// Objects that the agent keeps, as far as the client has to know of them.
#[derive(Default)]
pub(super) struct There {
    mds: Vec<Shown>,
    queues: Vec<Queue>,
}

struct Shown {
    handle: Handle,
    me: Handle,
    memory: Segments,
    pieces: Vec<Piece>,
}

/// Events of a queue that have been taken from the mailbox.
struct Queue {
    handle: Handle,
    events: VecDeque<Taken>,
    most: usize,
    /// How many have come.
    seen: u64,
}

pub(super) enum Side {
    Here(Box<Here>),
    There(There),
}

/// The client's end of its mailbox.
pub(super) struct Mailbox<F: Fabric> {
    pub fabric: Rc<F>,
    pub agent: Peer,
    import: F::Import,
    memory: F::Export,
    commands: Writer<F::Import>,
    events: Reader<<F::Export as LocalMemory>::Lines>,
    results: Reader<<F::Export as LocalMemory>::Lines>,
    /// Commands for which there was no room.
    waiting: VecDeque<(Title, Vec<u64>)>,
    control: Control,
    /// Messages given to the agent, by channel.
    posted: [u64; 2],
    told: u32,
    pub pen: Pen,
    pub ended: bool,
}

impl<F: Fabric> Mailbox<F> {
    /// Give the agent a command: what the pen has written.
    pub fn command(&mut self, kind: u8, aux: u16) {
        let title = Title { kind, aux };
        if self.waiting.is_empty() && self.commands.put(title, &self.pen.0).unwrap_or(true) {
            self.fabric.wake(self.agent);
        } else {
            self.waiting.push_back((title, self.pen.0.clone()));
        }
    }

    fn post_waiting(&mut self) -> bool {
        let mut moved = false;
        while let Some((title, words)) = self.waiting.front() {
            if self.commands.room() < lines_of(words.len()) {
                break;
            }
            let _ = self.commands.put(*title, words);
            self.waiting.pop_front();
            moved = true;
        }
        if moved {
            self.fabric.wake(self.agent);
        }
        moved
    }

    /// Whether one more message of a channel may be given to the agent; it is counted.
    pub fn may_send(&mut self, channel: Channel) -> bool {
        let channel = channel as usize;
        let waiting = self.posted[channel] - self.control.sent[channel].min(self.posted[channel]);
        let may = waiting < self.control.sends;
        self.posted[channel] += u64::from(may);
        may
    }

    /// See how far the agent is. True: it has moved.
    fn look(&mut self) -> bool {
        let control = Control::of(&self.memory.load_line(0));
        if control == self.control {
            return false;
        }
        self.control = control;
        self.commands.told(control.taken as u32);
        true
    }

    /// Tell the agent what has been taken: now and then, or when there is nothing else to do.
    fn tell(&mut self, idle: bool) {
        let taken = self.events.taken();
        let owed = taken.wrapping_sub(self.told);
        if owed >= LINES / 8 || (idle && owed > 0) {
            let _ = self
                .import
                .order()
                .and_then(|()| self.import.put_word(0, u64::from(taken)));
            self.told = taken;
            self.fabric.wake(self.agent);
        }
    }

    /// Let the agent reach memory of a descriptor's.
    pub fn expose(&self, memory: &Segments, writable: bool) -> Result<Vec<Piece>, FabricError> {
        memory
            .pieces()
            .map(|piece| moves::expose(&*self.fabric, self.agent, piece, writable))
            .collect()
    }

    pub fn withdraw(&self, pieces: &[Piece]) {
        for piece in pieces {
            self.fabric.withdraw(piece.key);
        }
    }

    fn is_ready(&self) -> bool {
        self.fabric.progress();
        self.events.waits() || self.results.waits() || Control::of(&self.memory.load_line(0)) != self.control
    }
}

struct Inner<F: Fabric> {
    mailbox: Mailbox<F>,
    side: Side,
}

/// A network interface by way of an agent. The operations are those of [`Interface`](crate::Interface), where they are
/// described. Calls that ask the agent wait for its answer; put, get and get-put do not. When the agent has ended, what was under
/// way ends with events where the objects are here ([`Mode::Generic`]), events that have come can be taken, and all else
/// answers [`Error::Fail`].
pub struct Client<F: Fabric> {
    mode: Mode,
    limits: Limits,
    handle: Handle,
    me: Identity,
    processes: Rc<Processes>,
    inner: RefCell<Inner<F>>,
    policy: WaitPolicy,
    turn: Option<Rc<dyn Fn()>>,
    empty: Cell<u32>,
}

impl<F: Fabric> Client<F> {
    /// `PtlNIInit` by way of the agent that `routes` names. Waits for it, for `patience` at most. A process attaches once.
    /// `turn`, for tests and for processes that are agents themselves, is called instead of letting time pass.
    ///
    /// # Errors
    /// [`AttachError`].
    #[allow(clippy::too_many_arguments)]
    pub fn attach(
        fabric: Rc<F>,
        mode: Mode,
        routes: &Routes,
        wait: &WaitTunables,
        processes: Rc<Processes>,
        desired: Option<&Limits>,
        patience: Duration,
        turn: Option<Rc<dyn Fn()>>,
    ) -> Result<Self, AttachError> {
        let number = fabric.me().0;
        let agent = routes
            .via(number)
            .filter(|via| via.0 != number)
            .ok_or(AttachError::NoAgent(fabric.me()))?;
        // The library decides about limits and handles as the agent's will.
        let library = Library::new(0, 0, number, Rc::clone(&processes), desired)
            .map_err(|_| AttachError::NoAgent(fabric.me()))?;
        let policy = WaitPolicy::of(wait, &*fabric);
        let deadline = Instant::now() + patience;
        let mut backoff = Backoff::default();
        let mut pass = |fabric: &F| -> Result<(), AttachError> {
            if fabric.has_ended(agent) {
                return Err(AttachError::AgentEnded(agent));
            }
            if Instant::now() > deadline {
                return Err(AttachError::Silent(agent));
            }
            fabric.progress();
            match (&turn, backoff.pause(&policy)) {
                (Some(turn), _) => turn(),
                (_, Pause::Sleep) => std::thread::sleep(Duration::from_millis(1)),
                _ => policy.give_way(),
            }
            Ok(())
        };
        let only = Access::Only(vec![(agent, Permission::ReadWrite)]);
        let memory = fabric.export(CLIENT_SEGMENT, CLIENT_BYTES, only)?;
        let import = loop {
            match fabric.import(agent, agent_segment(number), AGENT_BYTES, Permission::ReadWrite) {
                Ok(import) => break import,
                Err(FabricError::NotPublished { .. }) => pass(&fabric)?,
                Err(FabricError::PeerDead { .. }) => return Err(AttachError::AgentEnded(agent)),
                Err(error) => return Err(error.into()),
            }
        };
        let mut mailbox = Mailbox {
            commands: Writer::new(&import, QUEUE_AT, LINES, 0),
            events: Reader::new(&memory, QUEUE_AT, LINES),
            results: Reader::new(&memory, RESULTS_AT, RESULTS),
            import,
            memory,
            waiting: VecDeque::new(),
            control: Control::default(),
            posted: [0; 2],
            told: 0,
            pen: Pen::default(),
            ended: false,
            agent,
            fabric,
        };
        // Both sides probe each other, so that neither finds out in the middle of something.
        let _ = mailbox.fabric.can_transfer(agent);
        let limits = *library.limits();
        mailbox.pen.begin().word(VERSION).limits(&limits).word(0);
        mailbox.command(command::HELLO, mode as u16);
        loop {
            mailbox.look();
            match State::of(mailbox.control.state) {
                State::Open => break,
                State::Unreachable => return Err(AttachError::Unreachable(agent)),
                State::Faulty | State::Closed => return Err(AttachError::Refused(agent)),
                State::Unknown => pass(&mailbox.fabric)?,
            }
        }
        Ok(Self {
            mode,
            limits,
            handle: library.handle(),
            me: library.identity(),
            processes,
            inner: RefCell::new(Inner {
                mailbox,
                side: match mode {
                    Mode::Generic => Side::Here(Box::new(Here::new(library))),
                    Mode::Accelerated => Side::There(There::default()),
                },
            }),
            policy,
            turn,
            empty: Cell::new(0),
        })
    }

    /// Where matching is done.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The interface's handle.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Who this process is.
    pub fn identity(&self) -> Identity {
        self.me
    }

    /// Who everybody is.
    pub fn processes(&self) -> &Rc<Processes> {
        &self.processes
    }

    /// Whether the agent has ended, or has refused to serve this process any longer.
    pub fn has_ended(&self) -> bool {
        self.inner.borrow().mailbox.ended
    }

    /// `PtlNIFini`: let what is under way leave, for `patience` at most, then take leave of the agent. True: nothing was under way.
    pub fn close(&self, patience: Duration) -> bool {
        let deadline = Instant::now().checked_add(patience);
        let idle = self.wait_until(deadline, || self.is_idle().then_some(()));
        let mailbox = &mut self.inner.borrow_mut().mailbox;
        if !mailbox.ended {
            mailbox.pen.begin();
            mailbox.command(command::BYE, 0);
            mailbox.ended = true;
        }
        idle.is_some()
    }

    /// Whether nothing of this process's is under way between it and the agent.
    pub fn is_idle(&self) -> bool {
        let inner = self.inner.borrow();
        let box_ = &inner.mailbox;
        let here = match &inner.side {
            Side::Here(here) => here.is_idle(),
            Side::There(_) => true,
        };
        here && box_.waiting.is_empty() && box_.posted == box_.control.sent
    }

    /// `PtlNIStatus`.
    ///
    /// # Errors
    /// [`Error::SrIndexInvalid`], [`Error::Fail`].
    pub fn ni_status(&self, register: u32) -> Result<u64, Error> {
        if register != SR_DROP_COUNT {
            return Err(Error::SrIndexInvalid);
        }
        self.progress();
        if let Side::Here(here) = &self.inner.borrow().side {
            return here.library.status(register);
        }
        self.ask(command::STATUS, |pen| {
            pen.word(u64::from(register));
        })
        .map(|words| words[0])
    }

    /// `PtlNIDist`, as [`Interface::ni_dist`](crate::Interface::ni_dist).
    ///
    /// # Errors
    /// [`Error::ProcessInvalid`].
    pub fn ni_dist(&self, id: ProcessId) -> Result<u64, Error> {
        let number = self.processes.number(id).ok_or(Error::ProcessInvalid)?;
        let fabric = &self.inner.borrow().mailbox.fabric;
        Ok(match fabric.distance(Peer(number)) {
            _ if fabric.me().0 == number => 0,
            Distance::Far => 2,
            _ => 1,
        })
    }

    /// `PtlACEntry`.
    ///
    /// # Errors
    /// [`Error::AcIndexInvalid`], [`Error::PtIndexInvalid`], [`Error::ProcessInvalid`], [`Error::Fail`].
    pub fn ac_entry(&self, index: u32, entry: AccessEntry) -> Result<(), Error> {
        self.either(
            |library| library.ac_entry(index, entry),
            command::AC_ENTRY,
            |pen| {
                pen.word(u64::from(index)).access(&entry);
            },
            |_| (),
        )
    }

    /// `PtlMEAttach`.
    ///
    /// # Errors
    /// As [`Interface::me_attach`](crate::Interface::me_attach); [`Error::Fail`].
    pub fn me_attach(
        &self,
        pt_index: u32,
        id: ProcessId,
        bits: (u64, u64),
        unlink: Unlink,
        position: Position,
    ) -> Result<Handle, Error> {
        self.either(
            |library| library.me_attach(pt_index, id, bits, unlink, position),
            command::ME_ATTACH,
            |pen| {
                pen.word(u64::from(pt_index))
                    .id(id)
                    .word(bits.0)
                    .word(bits.1)
                    .pair(unlink as u32, position as u32);
            },
            |words| Handle(words[0] as u32),
        )
    }

    /// `PtlMEAttachAny`.
    ///
    /// # Errors
    /// As [`Interface::me_attach_any`](crate::Interface::me_attach_any); [`Error::Fail`].
    pub fn me_attach_any(
        &self,
        id: ProcessId,
        bits: (u64, u64),
        unlink: Unlink,
    ) -> Result<(u32, Handle), Error> {
        self.either(
            |library| library.me_attach_any(id, bits, unlink),
            command::ME_ATTACH_ANY,
            |pen| {
                pen.id(id).word(bits.0).word(bits.1).word(unlink as u64);
            },
            |words| ((words[0] >> 32) as u32, Handle(words[0] as u32)),
        )
    }

    /// `PtlMEInsert`.
    ///
    /// # Errors
    /// As [`Interface::me_insert`](crate::Interface::me_insert); [`Error::Fail`].
    pub fn me_insert(
        &self,
        base: Handle,
        id: ProcessId,
        bits: (u64, u64),
        unlink: Unlink,
        position: Position,
    ) -> Result<Handle, Error> {
        self.either(
            |library| library.me_insert(base, id, bits, unlink, position),
            command::ME_INSERT,
            |pen| {
                pen.word(u64::from(base.0))
                    .id(id)
                    .word(bits.0)
                    .word(bits.1)
                    .pair(unlink as u32, position as u32);
            },
            |words| Handle(words[0] as u32),
        )
    }

    /// `PtlMEUnlink`.
    ///
    /// # Errors
    /// [`Error::MeInvalid`]; [`Error::MeInUse`]: try again; [`Error::Fail`].
    pub fn me_unlink(&self, me: Handle) -> Result<(), Error> {
        self.progress();
        self.either(
            |library| library.me_unlink(me),
            command::ME_UNLINK,
            |pen| {
                pen.word(u64::from(me.0));
            },
            |_| (),
        )?;
        self.forget(|shown| shown.me == me);
        Ok(())
    }

    /// `PtlMDAttach`.
    ///
    /// # Errors
    /// As [`Interface::md_attach`](crate::Interface::md_attach); [`Error::Fail`].
    ///
    /// # Safety
    /// As [`Interface::md_attach`](crate::Interface::md_attach): the memory is valid and used by nobody else between a START and its
    /// END, until the descriptor is gone and nothing of it is under way.
    #[allow(unsafe_code)]
    pub unsafe fn md_attach(
        &self,
        me: Handle,
        md: Md,
        iovec: Iovec,
        unlink: Unlink,
    ) -> Result<Handle, Error> {
        self.new_md(Some(me), md, iovec, unlink)
    }

    /// `PtlMDBind`.
    ///
    /// # Errors
    /// As [`Interface::md_bind`](crate::Interface::md_bind); [`Error::Fail`].
    ///
    /// # Safety
    /// As [`md_attach`](Self::md_attach).
    #[allow(unsafe_code)]
    pub unsafe fn md_bind(&self, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error> {
        self.new_md(None, md, iovec, unlink)
    }

    fn new_md(&self, me: Option<Handle>, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error> {
        if let Side::Here(here) = &mut self.inner.borrow_mut().side {
            return match me {
                Some(me) => here.library.md_attach(me, md, iovec, unlink),
                None => here.library.md_bind(md, iovec, unlink),
            };
        }
        let memory = memory_of(&md, &iovec)?;
        let pieces = self.show(&memory, &iovec)?;
        let kind = if me.is_some() {
            command::MD_ATTACH
        } else {
            command::MD_BIND
        };
        let me = me.unwrap_or(Handle::NONE);
        let made = self.ask(kind, |pen| {
            pen.word(u64::from(me.0))
                .word(unlink as u64)
                .md(&md)
                .pieces(&pieces);
        });
        let inner = &mut *self.inner.borrow_mut();
        match (made, &mut inner.side) {
            (Ok(words), Side::There(there)) => {
                let handle = Handle(words[0] as u32);
                there.mds.push(Shown {
                    handle,
                    me,
                    memory,
                    pieces,
                });
                Ok(handle)
            }
            (made, _) => {
                inner.mailbox.withdraw(&pieces);
                made.map(|words| Handle(words[0] as u32))
            }
        }
    }

    /// Let the agent reach a descriptor's memory, segment by segment.
    fn show(&self, memory: &Segments, iovec: &Iovec) -> Result<Vec<Piece>, Error> {
        let inner = self.inner.borrow();
        let shown = match iovec {
            // Empty segments count, too.
            Some(list) => list
                .iter()
                .map(|segment| moves::expose(&*inner.mailbox.fabric, inner.mailbox.agent, *segment, true))
                .collect(),
            None => inner.mailbox.expose(memory, true),
        };
        shown.map_err(|_| Error::MdIllegal)
    }

    /// `PtlMDUnlink`.
    ///
    /// # Errors
    /// [`Error::MdInvalid`]; [`Error::MdInUse`]: try again; [`Error::Fail`].
    pub fn md_unlink(&self, md: Handle) -> Result<(), Error> {
        self.progress();
        self.either(
            |library| library.md_unlink(md),
            command::MD_UNLINK,
            |pen| {
                pen.word(u64::from(md.0));
            },
            |_| (),
        )?;
        self.forget(|shown| shown.handle == md);
        Ok(())
    }

    /// `PtlMDUpdate`. What the agent has posted and the program has not taken counts as an event of `testq`.
    ///
    /// # Errors
    /// As [`Interface::md_update`](crate::Interface::md_update); [`Error::Fail`].
    ///
    /// # Safety
    /// As [`md_attach`](Self::md_attach).
    #[allow(unsafe_code)]
    pub unsafe fn md_update(
        &self,
        md: Handle,
        old: Option<&mut Md>,
        new: Option<(Md, Iovec)>,
        testq: Handle,
    ) -> Result<(), Error> {
        self.progress();
        if let Side::Here(here) = &mut self.inner.borrow_mut().side {
            return here.library.md_update(md, old, new, testq);
        }
        let mut seen = 0;
        if let Side::There(there) = &self.inner.borrow().side
            && let Some(queue) = there.queues.iter().find(|q| q.handle == testq)
        {
            // A number that cannot be says that the queue is not empty.
            seen = if queue.events.is_empty() {
                queue.seen
            } else {
                u64::MAX
            };
        }
        let replaces = new.is_some();
        let (values, iovec) = new.unwrap_or((BLANK, None));
        let memory = memory_of(&values, &iovec)?;
        let pieces = self.show(&memory, &iovec)?;
        let (code, words) = self.ask_code(command::MD_UPDATE, |pen| {
            pen.word(u64::from(md.0))
                .word(u64::from(testq.0))
                .word(seen)
                .word(u64::from(replaces))
                .md(&values)
                .pieces(&pieces);
        })?;
        if let (Some(old), Ok(values), true) = (
            old,
            Words(&words).md(),
            code == 0 || error_of(code) == Error::MdNoUpdate,
        ) {
            *old = values;
        }
        let inner = &mut *self.inner.borrow_mut();
        if let Side::There(there) = &mut inner.side {
            let shown = there.mds.iter_mut().find(|shown| shown.handle == md);
            match shown {
                Some(shown) if code == 0 && replaces => {
                    let before = std::mem::replace(&mut shown.pieces, pieces);
                    shown.memory = memory;
                    inner.mailbox.withdraw(&before);
                }
                _ => inner.mailbox.withdraw(&pieces),
            }
        }
        if code == 0 { Ok(()) } else { Err(error_of(code)) }
    }

    fn forget(&self, which: impl Fn(&Shown) -> bool) {
        let Inner { mailbox, side } = &mut *self.inner.borrow_mut();
        if let Side::There(there) = side {
            there.forget(mailbox, which);
        }
    }

    /// `PtlEQAlloc`, without a handler. Beside the queue, the mailbox holds some events.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Fail`].
    pub fn eq_alloc(&self, count: u32) -> Result<Handle, Error> {
        let handle = self.either(
            |library| {
                library
                    .eq_alloc(count, false)
                    .map(|eq| eq.unwrap_or(Handle::EQ_NONE))
            },
            command::EQ_ALLOC,
            |pen| {
                pen.word(u64::from(count));
            },
            |words| Handle(words[0] as u32),
        )?;
        if let Side::There(there) = &mut self.inner.borrow_mut().side
            && handle != Handle::EQ_NONE
        {
            there.queues.push(Queue {
                handle,
                events: VecDeque::new(),
                most: count.max(2).next_power_of_two() as usize,
                seen: 0,
            });
        }
        Ok(handle)
    }

    /// `PtlEQFree`.
    ///
    /// # Errors
    /// [`Error::EqInvalid`], [`Error::Fail`].
    pub fn eq_free(&self, eq: Handle) -> Result<(), Error> {
        self.either(
            |library| library.eq_free(eq),
            command::EQ_FREE,
            |pen| {
                pen.word(u64::from(eq.0));
            },
            |_| (),
        )?;
        if let Side::There(there) = &mut self.inner.borrow_mut().side {
            there.queues.retain(|queue| queue.handle != eq);
        }
        Ok(())
    }

    /// `PtlEQGet`.
    ///
    /// # Errors
    /// [`Error::EqEmpty`], [`Error::EqInvalid`]; [`Error::Fail`]: it is empty, and the agent has ended.
    pub fn eq_get(&self, eq: Handle) -> Result<Taken, Error> {
        self.poll();
        self.take(eq)
    }

    fn take(&self, eq: Handle) -> Result<Taken, Error> {
        let inner = &mut *self.inner.borrow_mut();
        let taken = match &mut inner.side {
            Side::Here(here) => here.library.eq_get(eq),
            Side::There(there) => there
                .queues
                .iter_mut()
                .find(|queue| queue.handle == eq)
                .ok_or(Error::EqInvalid)
                .and_then(|queue| queue.events.pop_front().ok_or(Error::EqEmpty)),
        };
        match taken {
            Err(Error::EqEmpty) if inner.mailbox.ended => Err(Error::Fail),
            taken => taken,
        }
    }

    /// `PtlEQWait`.
    ///
    /// # Errors
    /// [`Error::EqInvalid`]; [`Error::Fail`]: the agent has ended.
    pub fn eq_wait(&self, eq: Handle) -> Result<Taken, Error> {
        let look = || match self.take(eq) {
            Err(Error::EqEmpty) => None,
            taken => Some(taken),
        };
        self.wait_until(None, look).unwrap_or(Err(Error::Fail))
    }

    /// `PtlEQPoll`, as [`Interface::eq_poll`](crate::Interface::eq_poll).
    ///
    /// # Errors
    /// [`Error::EqEmpty`]: the time is up. [`Error::EqInvalid`]; [`Error::Fail`]: the agent has ended.
    pub fn eq_poll(&self, eqs: &[Handle], timeout: Option<Duration>) -> Result<(usize, Taken), Error> {
        if eqs.is_empty() {
            return Err(Error::EqInvalid);
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let look = || {
            for (which, eq) in eqs.iter().enumerate() {
                match self.take(*eq) {
                    Err(Error::EqEmpty) => {}
                    taken => return Some(taken.map(|taken| (which, taken))),
                }
            }
            None
        };
        self.wait_until(deadline, look).unwrap_or(Err(Error::EqEmpty))
    }

    /// `PtlPut`. With [`Mode::Accelerated`] a put from a descriptor that is inactive, or not there, does nothing and succeeds
    /// (section 3.10.1 of the document); the same holds for the others.
    ///
    /// # Errors
    /// As [`Interface::put`](crate::Interface::put); [`Error::Fail`].
    pub fn put(&self, md: Handle, ack: AckReq, target: &Target, hdr_data: u64) -> Result<(), Error> {
        self.start(command::PUT, (md, Handle::NONE), None, ack, target, hdr_data)
    }

    /// `PtlPutRegion`.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::MdIllegal`].
    pub fn put_region(
        &self,
        md: Handle,
        region: (u64, u64),
        ack: AckReq,
        target: &Target,
        hdr_data: u64,
    ) -> Result<(), Error> {
        self.start(
            command::PUT,
            (md, Handle::NONE),
            Some(region),
            ack,
            target,
            hdr_data,
        )
    }

    /// `PtlGet`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn get(&self, md: Handle, target: &Target) -> Result<(), Error> {
        self.start(command::GET, (md, Handle::NONE), None, AckReq::NoAck, target, 0)
    }

    /// `PtlGetRegion`.
    ///
    /// # Errors
    /// As [`put_region`](Self::put_region).
    pub fn get_region(&self, md: Handle, region: (u64, u64), target: &Target) -> Result<(), Error> {
        self.start(
            command::GET,
            (md, Handle::NONE),
            Some(region),
            AckReq::NoAck,
            target,
            0,
        )
    }

    /// `PtlGetPut`.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::MdIllegal`]: more bytes than the limit.
    pub fn get_put(
        &self,
        get_md: Handle,
        put_md: Handle,
        target: &Target,
        hdr_data: u64,
    ) -> Result<(), Error> {
        self.start(
            command::GET_PUT,
            (put_md, get_md),
            None,
            AckReq::NoAck,
            target,
            hdr_data,
        )
    }

    fn start(
        &self,
        kind: u8,
        (md, get_md): (Handle, Handle),
        region: Option<(u64, u64)>,
        ack: AckReq,
        target: &Target,
        hdr_data: u64,
    ) -> Result<(), Error> {
        {
            let Inner { mailbox, side } = &mut *self.inner.borrow_mut();
            if mailbox.ended {
                return Err(Error::Fail);
            }
            if let Side::Here(here) = side {
                let message = match kind {
                    command::PUT => here.library.put(md, region, ack, target, hdr_data),
                    command::GET => here.library.get(md, region, target),
                    _ => here.library.get_put(get_md, md, target, hdr_data),
                }?;
                here.post(mailbox, message);
                return Ok(());
            }
            if let Side::There(there) = side {
                if self.processes.number(target.id).is_none() {
                    return Err(Error::ProcessInvalid);
                }
                let whole = there.memory(md)?.len() as u64;
                let (offset, length) = region.unwrap_or((0, whole));
                if offset > whole
                    || length > whole - offset
                    || (kind == command::GET_PUT && length > self.limits.max_getput_md as u64)
                {
                    return Err(Error::MdIllegal);
                }
                if kind == command::GET_PUT {
                    there.memory(get_md)?;
                }
            }
        }
        // Who gives more than the agent takes waits here.
        let ready = || {
            let mailbox = &mut self.inner.borrow_mut().mailbox;
            (mailbox.ended || mailbox.may_send(Channel::Request)).then_some(())
        };
        self.wait_until(None, ready);
        let Inner { mailbox, side } = &mut *self.inner.borrow_mut();
        let Side::There(there) = side else { return Ok(()) };
        if mailbox.ended {
            return Err(Error::Fail);
        }
        let memory = there.memory(md)?;
        let (offset, length) = region.unwrap_or((0, memory.len() as u64));
        // The library takes what goes first: of a get-put the descriptor that receives.
        let (first, second) = if kind == command::GET_PUT {
            (get_md, md)
        } else {
            (md, Handle::NONE)
        };
        let mut bytes = [0; SMALL];
        let inline =
            if kind != command::GET && length <= SMALL as u64 && offset + length <= memory.len() as u64 {
                let bytes = &mut bytes[..length as usize];
                moves::load(&memory.region(offset as usize, length as usize), bytes);
                &*bytes
            } else {
                &[]
            };
        mailbox
            .pen
            .begin()
            .word(u64::from(first.0))
            .word(u64::from(second.0))
            .word(u64::from(region.is_some()))
            .word(offset)
            .word(length)
            .target(target)
            .word(ack as u64)
            .word(hdr_data)
            .word(inline.len() as u64)
            .bytes(inline);
        mailbox.command(kind, 0);
        Ok(())
    }

    /// A call, done by the library here or asked of the agent.
    fn either<T>(
        &self,
        here: impl FnOnce(&mut Library) -> Result<T, Error>,
        kind: u8,
        write: impl FnOnce(&mut Pen),
        read: impl FnOnce(&[u64]) -> T,
    ) -> Result<T, Error> {
        if let Side::Here(side) = &mut self.inner.borrow_mut().side {
            return here(&mut side.library);
        }
        self.ask(kind, write).map(|words| read(&words))
    }

    fn ask(&self, kind: u8, write: impl FnOnce(&mut Pen)) -> Result<Vec<u64>, Error> {
        let (code, words) = self.ask_code(kind, write)?;
        if code == 0 { Ok(words) } else { Err(error_of(code)) }
    }

    /// Ask the agent, and wait for what it answers: a code and at least one line of words.
    fn ask_code(&self, kind: u8, write: impl FnOnce(&mut Pen)) -> Result<(u16, Vec<u64>), Error> {
        {
            let mailbox = &mut self.inner.borrow_mut().mailbox;
            if mailbox.ended {
                return Err(Error::Fail);
            }
            write(mailbox.pen.begin());
            mailbox.command(kind, 0);
        }
        let answered = || {
            let mailbox = &mut self.inner.borrow_mut().mailbox;
            match mailbox.results.take() {
                Ok(Some((title, words))) => Some((title.aux, words.to_vec())),
                Ok(None) => None,
                Err(_) => {
                    mailbox.ended = true;
                    None
                }
            }
        };
        self.wait_until(None, answered).ok_or(Error::Fail)
    }

    /// Take what the agent has posted, and give it what waits. True: something happened.
    pub fn progress(&self) -> bool {
        let Inner { mailbox, side } = &mut *self.inner.borrow_mut();
        if mailbox.ended {
            return false;
        }
        let mut moved = mailbox.fabric.progress();
        moved |= mailbox.look();
        if matches!(
            State::of(mailbox.control.state),
            State::Faulty | State::Unreachable
        ) {
            side.agent_ended(mailbox);
            return true;
        }
        moved |= mailbox.post_waiting();
        moved |= side.take_events(mailbox);
        mailbox.tell(!moved);
        moved
    }

    /// [`progress`](Self::progress), and now and then a look whether the agent has ended.
    fn poll(&self) -> bool {
        if self.progress() {
            self.empty.set(0);
            return true;
        }
        self.empty.set(self.empty.get().wrapping_add(1));
        self.empty.get().is_multiple_of(CLOCK) && self.ask_whether_it_has_ended()
    }

    fn ask_whether_it_has_ended(&self) -> bool {
        let Inner { mailbox, side } = &mut *self.inner.borrow_mut();
        if mailbox.ended || !mailbox.fabric.has_ended(mailbox.agent) {
            side.tell_of_the_ended(mailbox);
            return false;
        }
        // What it posted before is still taken.
        while side.take_events(mailbox) {}
        side.agent_ended(mailbox);
        true
    }

    /// Make progress until `look` finds something. None: the deadline has passed, or the agent has ended.
    fn wait_until<T>(&self, deadline: Option<Instant>, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            if self.poll() {
                backoff.reset();
                continue;
            }
            if self.inner.borrow().mailbox.ended {
                return look();
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return look();
            }
            if let Some(turn) = &self.turn {
                turn();
                continue;
            }
            match backoff.pause(&self.policy) {
                Pause::Spin => std::hint::spin_loop(),
                Pause::Yield => self.policy.give_way(),
                Pause::Sleep => {
                    let longest = left.map_or(LONG, |left| left.min(LONG));
                    let mailbox = &self.inner.borrow().mailbox;
                    mailbox.fabric.sleep(longest, &mut || mailbox.is_ready());
                }
            }
            if matches!(backoff.pause(&self.policy), Pause::Sleep) {
                self.ask_whether_it_has_ended();
            }
        }
    }
}

const BLANK: Md = Md {
    start: 0,
    length: 0,
    threshold: 0,
    max_size: 0,
    options: 0,
    user_ptr: 0,
    eq_handle: Handle::EQ_NONE,
};

/// The memory that a descriptor describes, as far as that can be said here; the library checks the rest.
fn memory_of(md: &Md, iovec: &Iovec) -> Result<Segments, Error> {
    let exists = |s: &Segment| s.len <= isize::MAX as usize && s.address.checked_add(s.len).is_some();
    match (md.options & option::IOVEC != 0, iovec) {
        (true, Some(list))
            if list.len() <= 256
                && list.iter().all(exists)
                && list
                    .iter()
                    .try_fold(0usize, |sum, s| sum.checked_add(s.len))
                    .is_some() =>
        {
            Ok(Segments::many(Rc::clone(list)))
        }
        (false, None) => {
            let segment = Segment {
                address: md.start,
                len: usize::try_from(md.length).map_err(|_| Error::MdIllegal)?,
            };
            if !exists(&segment) || (segment.address == 0 && segment.len > 0) {
                return Err(Error::MdIllegal);
            }
            Ok(segment.into())
        }
        _ => Err(Error::MdIllegal),
    }
}

impl There {
    fn memory(&self, md: Handle) -> Result<&Segments, Error> {
        let shown = self.mds.iter().find(|shown| shown.handle == md);
        shown.map(|shown| &shown.memory).ok_or(Error::MdInvalid)
    }

    fn forget<F: Fabric>(&mut self, mailbox: &Mailbox<F>, which: impl Fn(&Shown) -> bool) {
        self.mds.retain(|shown| {
            let goes = which(shown);
            if goes {
                mailbox.withdraw(&shown.pieces);
            }
            !goes
        });
    }
}

impl Side {
    /// Take events. True: there were some.
    fn take_events<F: Fabric>(&mut self, mailbox: &mut Mailbox<F>) -> bool {
        let mut moved = false;
        loop {
            if let Side::Here(here) = self {
                moved |= here.empty_outbox(mailbox);
                if here.is_full() {
                    // Whoever asks more than can be answered waits in the mailbox, and then in the network.
                    return moved;
                }
            }
            let (title, words) = match mailbox.events.take() {
                Ok(None) => return moved,
                Ok(Some((title, words))) => (title, words.to_vec()),
                Err(_) => {
                    // An agent that writes nonsense is none.
                    self.agent_ended(mailbox);
                    return true;
                }
            };
            moved = true;
            let done = match self {
                Side::Here(here) => here.event(mailbox, title, Words(&words)),
                Side::There(there) => there.event(mailbox, title, Words(&words)),
            };
            if done.is_err() {
                self.agent_ended(mailbox);
                return true;
            }
        }
    }

    fn agent_ended<F: Fabric>(&mut self, mailbox: &mut Mailbox<F>) {
        mailbox.ended = true;
        if let Side::Here(here) = self {
            here.agent_ended(mailbox);
        }
    }

    fn tell_of_the_ended<F: Fabric>(&mut self, mailbox: &Mailbox<F>) {
        if let Side::Here(here) = self
            && !mailbox.ended
        {
            here.tell_of_the_ended(&*mailbox.fabric);
        }
    }
}

impl There {
    fn event<F: Fabric>(
        &mut self,
        mailbox: &Mailbox<F>,
        title: Title,
        mut words: Words,
    ) -> Result<(), super::words::Bad> {
        if title.kind != event::EVENT {
            return Err(super::words::Bad {
                what: "the kind of an event",
                value: u64::from(title.kind),
            });
        }
        let eq = words.handle()?;
        let event = words.event()?;
        if event.kind == EventKind::Unlink && event.md_handle.kind() == Kind::Md {
            self.forget(mailbox, |shown| shown.handle == event.md_handle);
        }
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.handle == eq) {
            queue.seen += 1;
            let mut dropped = title.aux != 0;
            if queue.events.len() >= queue.most {
                // The newest takes the place of the oldest, and whoever reads next is told.
                queue.events.pop_front();
                match queue.events.front_mut() {
                    Some(next) => next.dropped = true,
                    None => dropped = true,
                }
            }
            queue.events.push_back(Taken { event, dropped });
        }
        Ok(())
    }
}
