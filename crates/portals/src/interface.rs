//! A network interface, *inline*: the library and the network layer in the application's own address space (paper,
//! section 3). Matching is done where a message is found, by whichever call finds it.

use crate::agent::{ENVELOPE_BYTES, Routes, envelope, open_envelope};
use crate::error::Error;
use crate::library::{
    AccessEntry, DropReason, Drops, HEADER_BYTES, Library, MessageKind, NO_TOKEN, Outgoing, Processes,
    Target, Verdict,
};
use crate::memory::{SWAP_BYTES, Segments, user};
use crate::net::{Channel, Departure, Net, NetTunables, Outcome, Placement, RxId, Upper};
use crate::types::{
    AckReq, Event, Handle, Identity, Iovec, Limits, Md, NiFail, Position, ProcessId, Taken, Unlink,
};
use farpost_fabric::wait::{Backoff, Idle, Pause, Relax, WaitPolicy, WaitTunables};
use farpost_fabric::{Distance, Fabric, FabricError, Fault, Peer, Port, Priority};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Runs for every event of a queue, after it was logged. It may call anything.
pub type Handler = Rc<dyn Fn(&Event)>;

/// Answers that may wait for a pending before requests are refused: they come again.
const ANSWERS: usize = 64;
/// Longest sleep while something is under way that rings nobody when it moves.
const SHORT: Duration = Duration::from_millis(1);
/// Longest sleep otherwise: peers that end ring nobody.
const LONG: Duration = Duration::from_millis(50);
/// Calls that find nothing between two looks at the clock: a power of two.
const CLOCK: u32 = 1024;

/// What calls and the network layer's news change.
struct State {
    library: Library,
    /// False between closing and opening again: nothing is accepted (section 4.2, rule 1).
    open: bool,
    /// Messages for which there was no pending, by channel.
    outbox: [VecDeque<Outgoing>; 2],
    /// Memory of get-puts under way, by token: what came, then what goes back.
    swaps: Vec<Swap>,
    /// Those that are over, for their memory.
    spare: Vec<Swap>,
}

struct Swap {
    token: u64,
    /// The bytes come into it; `None`: they have been exchanged.
    with: Option<Segments>,
    bytes: Box<[u8; SWAP_BYTES]>,
    len: usize,
}

impl Swap {
    fn memory(&self) -> Segments {
        Segments::one(self.bytes.as_ptr() as usize, self.len)
    }
}

/// A network interface on a fabric. Nothing blocks but [`eq_wait`](Self::eq_wait) and [`eq_poll`](Self::eq_poll).
///
/// Memory that descriptors describe belongs to the interface from [`md_attach`](Self::md_attach),
/// [`md_bind`](Self::md_bind) or [`md_update`](Self::md_update) on until the descriptor is gone, which is why these are `unsafe`.
pub struct Interface<F: Fabric> {
    net: Net<F>,
    state: RefCell<State>,
    handlers: RefCell<Vec<(Handle, Handler)>>,
    /// The outbox holds something.
    waiting: Cell<bool>,
    /// Handlers run: those of events that come meanwhile have their turn afterwards.
    handling: Cell<bool>,
    policy: WaitPolicy,
    idle: Idle,
    relax: Cell<Option<Relax>>,
    /// Calls in a row that found nothing, and when it was asked last who has ended.
    empty: Cell<u32>,
    asked: Cell<Instant>,
    /// Where some processes are reached by way of agents.
    routes: Option<Rc<Routes>>,
}

fn fail_of(outcome: Outcome) -> NiFail {
    match outcome {
        Outcome::Done => NiFail::OK,
        Outcome::PeerEnded => NiFail::UNDELIVERABLE,
        Outcome::Failed => NiFail::FAIL,
    }
}

/// What a message travels on.
#[inline(always)]
fn channel_of(header: &[u8; HEADER_BYTES]) -> Channel {
    const REQUESTS: [u8; 3] = [
        MessageKind::Put as u8,
        MessageKind::Get as u8,
        MessageKind::GetPut as u8,
    ];
    if REQUESTS.contains(&header[0]) {
        Channel::Request
    } else {
        Channel::Answer
    }
}

impl<F: Fabric> Interface<F> {
    /// `PtlNIInit`: interface 0 of this process on `fabric`, whose packets of the Portals port are its from now on: there can be
    /// one per process. `processes` says who everybody is; the fabric's numbers are its indexes. `opening` counts the times
    /// that the interface has been opened, so that handles of former times are stale.
    ///
    /// # Errors
    /// [`Error::PidInvalid`]: `processes` does not have this process.
    pub fn new(
        fabric: Rc<F>,
        config: &NetTunables,
        wait: &WaitTunables,
        processes: Rc<Processes>,
        desired: Option<&Limits>,
        opening: u32,
    ) -> Result<Self, Error> {
        let library = Library::new(0, opening, fabric.me().0, processes, desired)?;
        Ok(Self {
            policy: WaitPolicy::of(wait, &*fabric),
            net: Net::new(fabric, config),
            state: RefCell::new(State {
                library,
                open: true,
                outbox: Default::default(),
                swaps: Vec::new(),
                spare: Vec::new(),
            }),
            handlers: RefCell::default(),
            waiting: Cell::new(false),
            handling: Cell::new(false),
            idle: Idle::default(),
            relax: Cell::new(None),
            empty: Cell::new(0),
            asked: Cell::new(Instant::now()),
            routes: None,
        })
    }

    /// In a job where some processes are reached by way of agents: they are told from whom and for whom messages are.
    pub fn with_routes(mut self, routes: Rc<Routes>) -> Self {
        self.routes = Some(routes);
        self
    }

    /// The network layer.
    pub fn net(&self) -> &Net<F> {
        &self.net
    }

    /// The fabric.
    pub fn fabric(&self) -> &Rc<F> {
        self.net.fabric()
    }

    /// What to call while a call waits, with what would be done next; true: it let time pass. Nothing is borrowed then.
    pub fn set_relax(&self, relax: Option<Relax>) {
        self.relax.set(relax);
    }

    /// `PtlNIFini`: let what is under way finish, for `patience` at most, then release all objects. What arrives from now on is
    /// dropped and counted (section 4.2, rule 1), as long as somebody calls [`progress`](Self::progress). True: nothing was under way
    /// any more; otherwise memory may still be in use.
    pub fn close(&self, patience: Duration) -> bool {
        let deadline = Instant::now().checked_add(patience);
        let quiet = self.wait_until(deadline, || self.is_idle().then_some(()));
        let mut state = self.state.borrow_mut();
        state.open = false;
        state.library = state.library.anew(None, state.library.opening().wrapping_add(1));
        self.handlers.borrow_mut().clear();
        quiet.is_some()
    }

    /// `PtlNIInit` again, after [`close`](Self::close).
    ///
    pub fn reopen(&self, desired: Option<&Limits>, opening: u32) {
        let mut state = self.state.borrow_mut();
        state.library = state.library.anew(desired, opening);
        state.open = true;
    }

    /// Whether nothing of this process's is under way: sends have left, bodies are in place, answers have gone.
    pub fn is_idle(&self) -> bool {
        let state = self.state.borrow();
        state.outbox.iter().all(VecDeque::is_empty) && state.swaps.is_empty() && self.net.is_idle()
    }

    /// The interface's handle.
    pub fn handle(&self) -> Handle {
        self.state.borrow().library.handle()
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        *self.state.borrow().library.limits()
    }

    /// Who this process is (`PtlGetId`, `PtlGetUid`, `PtlGetJid`).
    pub fn identity(&self) -> Identity {
        self.state.borrow().library.identity()
    }

    /// Who everybody is.
    pub fn processes(&self) -> Rc<Processes> {
        Rc::clone(self.state.borrow().library.processes())
    }

    /// `PtlNIStatus`.
    ///
    /// # Errors
    /// [`Error::SrIndexInvalid`].
    pub fn ni_status(&self, register: u32) -> Result<u64, Error> {
        // Programs ask this in loops, too.
        self.poll();
        self.state.borrow().library.status(register)
    }

    /// What was dropped, by reason.
    pub fn drops(&self) -> Drops {
        self.state.borrow().library.drops().clone()
    }

    /// `PtlNIDist`: 0 for this process, 1 within the host, 2 between hosts.
    ///
    /// # Errors
    /// [`Error::ProcessInvalid`].
    pub fn ni_dist(&self, id: ProcessId) -> Result<u64, Error> {
        let number = self
            .state
            .borrow()
            .library
            .processes()
            .number(id)
            .ok_or(Error::ProcessInvalid)?;
        let fabric = self.fabric();
        Ok(match fabric.distance(Peer(number)) {
            _ if fabric.me().0 == number => 0,
            Distance::Far => 2,
            _ => 1,
        })
    }

    /// `PtlNIHandle`: the interface that an object belongs to.
    ///
    /// # Errors
    /// [`Error::HandleInvalid`].
    pub fn ni_handle(&self, handle: Handle) -> Result<Handle, Error> {
        self.state.borrow().library.interface_of(handle)
    }

    /// `PtlACEntry`: see [`Library::ac_entry`].
    ///
    /// # Errors
    /// [`Error::AcIndexInvalid`], [`Error::PtIndexInvalid`], [`Error::ProcessInvalid`].
    pub fn ac_entry(&self, index: u32, entry: AccessEntry) -> Result<(), Error> {
        self.state.borrow_mut().library.ac_entry(index, entry)
    }

    /// `PtlMEAttach`: see [`Library::me_attach`].
    ///
    /// # Errors
    /// [`Error::PtIndexInvalid`], [`Error::ProcessInvalid`], [`Error::MeListTooLong`], [`Error::NoSpace`].
    pub fn me_attach(
        &self,
        pt_index: u32,
        id: ProcessId,
        bits: (u64, u64),
        unlink: Unlink,
        position: Position,
    ) -> Result<Handle, Error> {
        self.state
            .borrow_mut()
            .library
            .me_attach(pt_index, id, bits, unlink, position)
    }

    /// `PtlMEAttachAny`: see [`Library::me_attach_any`].
    ///
    /// # Errors
    /// [`Error::PtFull`], [`Error::ProcessInvalid`], [`Error::NoSpace`].
    pub fn me_attach_any(
        &self,
        id: ProcessId,
        bits: (u64, u64),
        unlink: Unlink,
    ) -> Result<(u32, Handle), Error> {
        self.state.borrow_mut().library.me_attach_any(id, bits, unlink)
    }

    /// `PtlMEInsert`: see [`Library::me_insert`].
    ///
    /// # Errors
    /// [`Error::MeInvalid`], [`Error::ProcessInvalid`], [`Error::MeListTooLong`], [`Error::NoSpace`].
    pub fn me_insert(
        &self,
        base: Handle,
        id: ProcessId,
        bits: (u64, u64),
        unlink: Unlink,
        position: Position,
    ) -> Result<Handle, Error> {
        self.state
            .borrow_mut()
            .library
            .me_insert(base, id, bits, unlink, position)
    }

    /// `PtlMEUnlink`: see [`Library::me_unlink`].
    ///
    /// # Errors
    /// [`Error::MeInvalid`]; [`Error::MeInUse`]: try again, which makes progress.
    pub fn me_unlink(&self, me: Handle) -> Result<(), Error> {
        self.again(Error::MeInUse, |library| library.me_unlink(me))
    }

    /// `PtlMDAttach`: see [`Library::md_attach`].
    ///
    /// # Errors
    /// [`Error::MeInvalid`], [`Error::MeInUse`], [`Error::MdIllegal`], [`Error::EqInvalid`], [`Error::NoSpace`].
    ///
    /// # Safety
    /// The memory described is valid, for writing if the descriptor accepts puts or is to receive replies, and used by
    /// nobody else between a START and its END, until the descriptor is gone and [`close`](Self::close) or
    /// [`progress`](Self::progress) have nothing of it under way.
    #[allow(unsafe_code)]
    pub unsafe fn md_attach(
        &self,
        me: Handle,
        md: Md,
        iovec: Iovec,
        unlink: Unlink,
    ) -> Result<Handle, Error> {
        self.state.borrow_mut().library.md_attach(me, md, iovec, unlink)
    }

    /// `PtlMDBind`: see [`Library::md_bind`].
    ///
    /// # Errors
    /// [`Error::MdIllegal`], [`Error::EqInvalid`], [`Error::NoSpace`].
    ///
    /// # Safety
    /// As for [`md_attach`](Self::md_attach).
    #[allow(unsafe_code)]
    pub unsafe fn md_bind(&self, md: Md, iovec: Iovec, unlink: Unlink) -> Result<Handle, Error> {
        self.state.borrow_mut().library.md_bind(md, iovec, unlink)
    }

    /// `PtlMDUnlink`: see [`Library::md_unlink`].
    ///
    /// # Errors
    /// [`Error::MdInvalid`]; [`Error::MdInUse`]: try again, which makes progress.
    pub fn md_unlink(&self, md: Handle) -> Result<(), Error> {
        self.again(Error::MdInUse, |library| library.md_unlink(md))
    }

    /// `PtlMDUpdate`: see [`Library::md_update`].
    ///
    /// # Errors
    /// [`Error::MdNoUpdate`], [`Error::MdInvalid`], [`Error::EqInvalid`], [`Error::MdIllegal`].
    ///
    /// # Safety
    /// As for [`md_attach`](Self::md_attach).
    #[allow(unsafe_code)]
    pub unsafe fn md_update(
        &self,
        md: Handle,
        old: Option<&mut Md>,
        new: Option<(Md, Iovec)>,
        testq: Handle,
    ) -> Result<(), Error> {
        let updated = self.state.borrow_mut().library.md_update(md, old, new, testq);
        if updated == Err(Error::MdNoUpdate) {
            // Who repeats the call until it succeeds is not to wait for itself.
            self.progress();
        }
        updated
    }

    /// `PtlEQAlloc`: a queue of at least `count` events; [`Handle::EQ_NONE`] for 0. `handler` sees every event.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn eq_alloc(&self, count: u32, handler: Option<Handler>) -> Result<Handle, Error> {
        let handle = self
            .state
            .borrow_mut()
            .library
            .eq_alloc(count, handler.is_some())?;
        if let (Some(eq), Some(handler)) = (handle, handler) {
            self.handlers.borrow_mut().push((eq, handler));
        }
        Ok(handle.unwrap_or(Handle::EQ_NONE))
    }

    /// `PtlEQFree`: see [`Library::eq_free`].
    ///
    /// # Errors
    /// [`Error::EqInvalid`].
    pub fn eq_free(&self, eq: Handle) -> Result<(), Error> {
        self.state.borrow_mut().library.eq_free(eq)?;
        self.handlers.borrow_mut().retain(|(of, _)| *of != eq);
        Ok(())
    }

    /// `PtlEQGet`: the oldest event. A program that calls this in a loop and finds nothing for long gives up the core in
    /// here, and later sleeps until something comes, a millisecond at most.
    ///
    /// # Errors
    /// [`Error::EqEmpty`], [`Error::EqInvalid`].
    #[inline]
    pub fn eq_get(&self, eq: Handle) -> Result<Taken, Error> {
        self.eq_get_with(eq, |event, dropped| Taken {
            event: *event,
            dropped,
        })
    }

    /// As [`eq_get`](Self::eq_get), with the event where it lies. `read` must not call the interface.
    ///
    /// # Errors
    /// As [`eq_get`](Self::eq_get).
    #[inline]
    pub fn eq_get_with<R>(&self, eq: Handle, read: impl FnOnce(&Event, bool) -> R) -> Result<R, Error> {
        match self.state.borrow_mut().library.eq_take(eq) {
            Ok((event, dropped)) => return Ok(read(event, dropped)),
            Err(Error::EqEmpty) => {}
            Err(error) => return Err(error),
        }
        // Others may keep this process busy, though nothing comes to this queue.
        let moved = self.poll();
        let error = match self.state.borrow_mut().library.eq_take(eq) {
            Ok((event, dropped)) => {
                self.idle.found();
                return Ok(read(event, dropped));
            }
            Err(error) => error,
        };
        if moved {
            self.idle.found();
        } else {
            self.rest();
        }
        Err(error)
    }

    /// `PtlEQWait`: the oldest event, as soon as there is one.
    ///
    /// # Errors
    /// [`Error::EqInvalid`], also when the queue is freed meanwhile.
    pub fn eq_wait(&self, eq: Handle) -> Result<Taken, Error> {
        let look = || match self.take(eq) {
            Err(Error::EqEmpty) => None,
            taken => Some(taken),
        };
        self.wait_until(None, look).unwrap_or(Err(Error::EqEmpty))
    }

    /// `PtlEQPoll`: the oldest event of the first of `eqs` that holds one, and which that is. None for `timeout` waits as long
    /// as it takes.
    ///
    /// # Errors
    /// [`Error::EqEmpty`]: the time is up. [`Error::EqInvalid`]: `eqs` is empty or names what is no queue.
    pub fn eq_poll(&self, eqs: &[Handle], timeout: Option<Duration>) -> Result<(usize, Taken), Error> {
        if eqs.is_empty() {
            return Err(Error::EqInvalid);
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let look = || {
            let state = &mut *self.state.borrow_mut();
            let mut first = None;
            for (which, eq) in eqs.iter().enumerate() {
                match state.library.eq_has_events(*eq) {
                    Ok(true) if first.is_none() => first = Some(which),
                    Ok(_) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
            let which = first?;
            Some(state.library.eq_get(eqs[which]).map(|taken| (which, taken)))
        };
        self.wait_until(deadline, look).unwrap_or(Err(Error::EqEmpty))
    }

    /// `PtlPut`: see [`Library::put`].
    ///
    /// # Errors
    /// [`Error::MdInvalid`], [`Error::ProcessInvalid`], [`Error::NoSpace`].
    #[inline]
    pub fn put(&self, md: Handle, ack: AckReq, target: &Target, hdr_data: u64) -> Result<(), Error> {
        self.start(|library| library.prepare_put(md, None, ack, target, hdr_data))
    }

    /// `PtlPutRegion`: `region` is offset and length within the descriptor.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`Error::MdIllegal`]: the region leaves the descriptor.
    #[inline]
    pub fn put_region(
        &self,
        md: Handle,
        region: (u64, u64),
        ack: AckReq,
        target: &Target,
        hdr_data: u64,
    ) -> Result<(), Error> {
        self.start(|library| library.prepare_put(md, Some(region), ack, target, hdr_data))
    }

    /// `PtlGet`: see [`Library::get`].
    ///
    /// # Errors
    /// As [`put`](Self::put).
    #[inline]
    pub fn get(&self, md: Handle, target: &Target) -> Result<(), Error> {
        self.start(|library| library.get(md, None, target))
    }

    /// `PtlGetRegion`: `region` is offset and length within the descriptor, where the reply lands.
    ///
    /// # Errors
    /// As [`put_region`](Self::put_region).
    #[inline]
    pub fn get_region(&self, md: Handle, region: (u64, u64), target: &Target) -> Result<(), Error> {
        self.start(|library| library.get(md, Some(region), target))
    }

    /// `PtlGetPut`: see [`Library::get_put`].
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
        self.start(|library| library.prepare_get_put(get_md, put_md, target, hdr_data))
    }

    /// Move what can be moved, without blocking. True: something happened.
    #[inline]
    pub fn progress(&self) -> bool {
        let mut moved = self.net.progress(&mut Upcalls(self));
        if self.waiting.get() {
            moved |= self.empty_outbox();
        }
        if moved {
            self.run_handlers();
        }
        moved
    }

    /// [`progress`](Self::progress), and now and then a look who has ended.
    #[inline]
    fn poll(&self) -> bool {
        if self.progress() {
            self.empty.set(0);
            return true;
        }
        let empty = self.empty.get().wrapping_add(1);
        self.empty.set(empty);
        empty.is_multiple_of(CLOCK) && self.ask_who_has_ended()
    }

    #[inline]
    fn take(&self, eq: Handle) -> Result<Taken, Error> {
        self.state.borrow_mut().library.eq_get(eq)
    }

    /// A call that fails with `busy` while something is in progress; who repeats it is not to wait for itself.
    fn again(&self, busy: Error, call: impl Fn(&mut Library) -> Result<(), Error>) -> Result<(), Error> {
        let result = call(&mut self.state.borrow_mut().library);
        if result != Err(busy) {
            return result;
        }
        if !self.poll() {
            self.rest();
        }
        call(&mut self.state.borrow_mut().library)
    }

    /// Begin an operation: it is on its way before it is counted and logged.
    #[inline]
    fn start(&self, prepare: impl FnOnce(&mut Library) -> Result<Outgoing, Error>) -> Result<(), Error> {
        let mut borrowed = self.state.borrow_mut();
        let state = &mut *borrowed;
        if !state.open {
            return Err(Error::NiInvalid);
        }
        let message = prepare(&mut state.library)?;
        let departure = match state.outbox[Channel::Request as usize].is_empty() {
            true => self.try_send(Channel::Request, &message),
            false => None,
        };
        state.library.started(message.token);
        match departure {
            Some(Departure::Gone) => self.gone(state, message.token, NiFail::OK),
            Some(Departure::Waits) => {}
            None => self.queue(state, Channel::Request, message),
        }
        self.after(borrowed);
        Ok(())
    }

    /// A call of the program's is about to return.
    #[inline]
    fn after(&self, state: RefMut<'_, State>) {
        let handled = state.library.has_handled();
        drop(state);
        if self.waiting.get() {
            // Programs that only send make room here.
            self.progress();
        } else if handled {
            self.run_handlers();
        }
    }

    #[inline]
    fn try_send(&self, channel: Channel, message: &Outgoing) -> Option<Departure> {
        if let Some(routes) = &self.routes
            && routes.is_client(message.to)
        {
            return self.send_to_agent(routes, channel, message);
        }
        self.net
            .send(
                Peer(message.to),
                channel,
                &message.header,
                &message.body,
                message.token,
            )
            .ok()
    }

    fn send_to_agent(&self, routes: &Routes, channel: Channel, message: &Outgoing) -> Option<Departure> {
        let header = envelope(&message.header, message.to, self.fabric().me().0);
        self.net
            .send(
                routes.via(message.to)?,
                channel,
                &header,
                &message.body,
                message.token,
            )
            .ok()
    }

    #[cold]
    fn queue(&self, state: &mut State, channel: Channel, message: Outgoing) {
        state.outbox[channel as usize].push_back(message);
        self.waiting.set(true);
    }

    /// Send a message, or let it wait for a pending. Those of one channel keep their order.
    #[inline]
    fn post(&self, state: &mut State, message: Outgoing) {
        let channel = channel_of(&message.header);
        if !state.outbox[channel as usize].is_empty() || !self.send(state, channel, &message) {
            self.queue(state, channel, message);
        }
    }

    #[inline]
    fn send(&self, state: &mut State, channel: Channel, message: &Outgoing) -> bool {
        let departure = self.try_send(channel, message);
        if departure == Some(Departure::Gone) {
            self.gone(state, message.token, NiFail::OK);
        }
        departure.is_some()
    }

    /// The memory of a message's body is free again.
    #[inline]
    fn gone(&self, state: &mut State, token: u64, outcome: NiFail) {
        if token == NO_TOKEN {
            return;
        }
        if !state.swaps.is_empty() {
            self.forget_swap(state, token);
        }
        if let Some(answer) = state.library.finished(token, outcome) {
            self.post(state, answer);
        }
    }

    #[cold]
    fn forget_swap(&self, state: &mut State, token: u64) {
        if let Some(at) = state.swaps.iter().position(|s| s.token == token) {
            let over = state.swaps.swap_remove(at);
            state.spare.push(over);
        }
    }

    /// Send what waits for pendings, answers first.
    #[cold]
    fn empty_outbox(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        let mut moved = false;
        for channel in [Channel::Answer, Channel::Request] {
            while let Some(message) = state.outbox[channel as usize].pop_front() {
                if !self.send(state, channel, &message) {
                    state.outbox[channel as usize].push_front(message);
                    break;
                }
                moved = true;
            }
        }
        self.waiting
            .set(state.outbox.iter().any(|waiting| !waiting.is_empty()));
        moved
    }

    #[inline]
    fn run_handlers(&self) {
        if !self.state.borrow().library.has_handled() || self.handling.replace(true) {
            return;
        }
        loop {
            let next = self.state.borrow_mut().library.next_handled();
            let Some((eq, event)) = next else { break };
            let handler = self
                .handlers
                .borrow()
                .iter()
                .find(|(of, _)| *of == eq)
                .map(|(_, h)| Rc::clone(h));
            if let Some(handler) = handler {
                handler(&event);
            }
        }
        self.handling.set(false);
    }

    /// Look whether processes have ended whose answers are awaited, now and then. True: one has.
    fn ask_who_has_ended(&self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.asked.get()) < LONG {
            return false;
        }
        self.asked.set(now);
        let awaited = self.state.borrow().library.awaited();
        let ended: Vec<u32> = awaited
            .into_iter()
            .filter(|peer| {
                let via = self.routes.as_ref().and_then(|routes| routes.via(*peer));
                let has_ended = |peer| self.fabric().has_ended(peer);
                has_ended(Peer(*peer)) || via.is_some_and(|via| via.0 != *peer && has_ended(via))
            })
            .collect();
        if ended.is_empty() {
            return false;
        }
        // What it sent before is still taken.
        while self.progress() {}
        for peer in ended {
            self.state.borrow_mut().library.peer_ended(peer);
        }
        self.run_handlers();
        true
    }

    /// Whether a look would find something.
    fn is_ready(&self) -> bool {
        let fabric = self.fabric();
        fabric.progress();
        Priority::ALL
            .iter()
            .any(|priority| fabric.packets_waiting(Port::Portals, *priority, 1) > 0)
    }

    /// A call that does not block found nothing.
    #[inline]
    fn rest(&self) {
        // Other threads have their turn first.
        if self.relax.get().is_some_and(|relax| relax(Pause::Yield)) {
            return;
        }
        self.idle
            .nothing(&self.policy, &**self.fabric(), || self.is_ready());
    }

    /// Make progress until `look` finds something or the deadline has passed.
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
            let now = deadline.map(|_| Instant::now());
            let left = deadline
                .zip(now)
                .map(|(deadline, now)| deadline.saturating_duration_since(now));
            if left == Some(Duration::ZERO) {
                return look();
            }
            let pause = backoff.pause(&self.policy);
            if self.relax.get().is_some_and(|relax| relax(pause)) {
                continue;
            }
            match pause {
                Pause::Spin => std::hint::spin_loop(),
                Pause::Yield => self.policy.give_way(),
                Pause::Sleep => {
                    self.net.flush();
                    let longest = if self.is_idle() { LONG } else { SHORT };
                    let longest = left.map_or(longest, |left| left.min(longest));
                    self.fabric().sleep(longest, &mut || self.is_ready());
                    self.ask_who_has_ended();
                }
            }
        }
    }
}

/// The interface as the network layer sees it.
struct Upcalls<'a, F: Fabric>(&'a Interface<F>);

impl<F: Fabric> Upcalls<'_, F> {
    /// A get-put whose bytes are here: exchange, and send what was there.
    fn exchange(&self, state: &mut State, at: usize) {
        let swap = &mut state.swaps[at];
        let Some(with) = swap.with.take() else { return };
        user::swap(&with, &mut swap.bytes[..swap.len]);
        let (token, old) = (swap.token, swap.memory());
        match state.library.swapped(token, old) {
            Some(reply) => self.0.post(state, reply),
            None => self.0.forget_swap(state, token),
        }
    }

    /// A message that an agent sent for one of its clients. It speaks for nobody else.
    fn arrived_by_agent(
        &mut self,
        id: RxId,
        from: Peer,
        bytes: &[u8],
        length: u64,
        inline: Option<&[u8]>,
    ) -> Placement {
        let me = self.0.fabric().me().0;
        let opened = open_envelope(bytes).filter(|(_, to, source)| {
            let routes = self.0.routes.as_ref();
            *to == me
                && routes.is_some_and(|routes| routes.is_client(*source) && routes.speaks_for(from, *source))
        });
        match opened {
            Some((header, _, source)) => self.arrived(id, Peer(source), &header, length, inline),
            None => {
                self.refused(from, bytes, DropReason::Malformed);
                if inline.is_some() || length == 0 {
                    Placement::Done
                } else {
                    Placement::Discard
                }
            }
        }
    }

    #[cold]
    fn refused(&self, from: Peer, header: &[u8], reason: DropReason) {
        if reason == DropReason::Malformed {
            let value = header.first().copied().map_or(u64::MAX, u64::from);
            let error = FabricError::Corrupt {
                peer: from,
                what: "a Portals header",
                value,
            };
            self.0.fabric().record_fault(Fault { peer: from, error });
        }
    }
}

impl<F: Fabric> Upper for Upcalls<'_, F> {
    #[inline]
    fn arrived(
        &mut self,
        id: RxId,
        from: Peer,
        header: &[u8],
        length: u64,
        inline: Option<&[u8]>,
    ) -> Placement {
        if header.len() == ENVELOPE_BYTES {
            return self.arrived_by_agent(id, from, header, length, inline);
        }
        let state = &mut *self.0.state.borrow_mut();
        if state.outbox[Channel::Answer as usize].len() >= ANSWERS
            && matches!(header.first(), Some(kind) if *kind != MessageKind::Ack as u8
                && *kind != MessageKind::Reply as u8 && *kind != MessageKind::Nothing as u8)
        {
            // Whoever asks more than can be answered comes again.
            return Placement::Refuse;
        }
        let verdict = if state.open {
            state.library.incoming(from.0, header, length)
        } else {
            state.library.incoming_while_closed(from.0, header, length)
        };
        let inline = if length == 0 { Some(&[][..]) } else { inline };
        let unwanted = if inline.is_some() {
            Placement::Done
        } else {
            Placement::Discard
        };
        match verdict {
            Verdict::Drop { reason, answer } => {
                self.refused(from, header, reason);
                if let Some(answer) = answer {
                    self.0.post(state, answer);
                }
                unwanted
            }
            Verdict::Done => unwanted,
            Verdict::Reply(reply) => {
                self.0.post(state, reply);
                unwanted
            }
            Verdict::Store { token, keep, into } => {
                match inline {
                    Some(bytes) => user::store(&into, &bytes[..keep as usize]),
                    None if keep > 0 => {
                        return Placement::Keep {
                            token,
                            bytes: keep,
                            into,
                        };
                    }
                    None => {}
                }
                self.0.gone(state, token, NiFail::OK);
                unwanted
            }
            Verdict::Swap { token, keep, with } => {
                let bytes = state
                    .spare
                    .pop()
                    .map_or_else(|| Box::new([0; SWAP_BYTES]), |over| over.bytes);
                state.swaps.push(Swap {
                    token,
                    with: Some(with),
                    bytes,
                    len: keep as usize,
                });
                let at = state.swaps.len() - 1;
                match inline {
                    Some(bytes) => {
                        state.swaps[at].bytes[..keep as usize].copy_from_slice(&bytes[..keep as usize])
                    }
                    None if keep > 0 => {
                        return Placement::Keep {
                            token,
                            bytes: keep,
                            into: state.swaps[at].memory(),
                        };
                    }
                    None => {}
                }
                self.exchange(state, at);
                unwanted
            }
        }
    }

    #[inline]
    fn deposited(&mut self, token: u64, outcome: Outcome) {
        let state = &mut *self.0.state.borrow_mut();
        if !state.swaps.is_empty()
            && outcome == Outcome::Done
            && let Some(at) = state.swaps.iter().position(|s| s.token == token)
        {
            return self.exchange(state, at);
        }
        self.0.gone(state, token, fail_of(outcome));
    }

    #[inline]
    fn sent(&mut self, token: u64, outcome: Outcome) {
        self.0
            .gone(&mut self.0.state.borrow_mut(), token, fail_of(outcome));
    }
}
