//! One node's Fast Messages: sending, and the table of handlers.

use crate::config::FmConfig;
use crate::receive::{Receive, Stacks};
use crate::running::{Flow, Running};
use crate::sorting::Overflow;
use crate::state::{FmCounters, FmState};
use crate::waiting::Pacer;
use crate::wire::{FRAME_WORDS, Frame, FrameKind, Header, PAYLOADS};
use crate::{FmError, FmTunables};
use farpost_fabric::wait::{Backoff, Relax, WaitTunables};
use farpost_fabric::{Cost, Counter, Fabric, FabricError, Fault, Peer, Port, Work};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// How long a send at the greatest depth looks for a slot before its frame is kept.
const BEFORE_KEEPING: Duration = Duration::from_micros(100);

/// The next number that no handler has.
pub const ANY_ID: u32 = u32::MAX;

/// Handles a message of one frame: the node, its sender, its bytes. They are gone when it returns.
pub(crate) type MessageHandler<F, const WORDS: usize> = Rc<dyn Fn(&Fm<F, WORDS>, Peer, &[u8])>;
/// Handles a message of any length, receiving piece by piece.
pub(crate) type StreamHandler<F, const WORDS: usize> =
    Rc<dyn Fn(&Fm<F, WORDS>, &mut Receive<'_, F, WORDS>, Peer) -> Flow>;

/// What runs when a message names its number.
pub(crate) enum Handler<F: Fabric + 'static, const WORDS: usize> {
    Message(MessageHandler<F, WORDS>),
    Stream(StreamHandler<F, WORDS>),
}

impl<F: Fabric + 'static, const WORDS: usize> Clone for Handler<F, WORDS> {
    fn clone(&self) -> Self {
        match self {
            Handler::Message(handler) => Handler::Message(Rc::clone(handler)),
            Handler::Stream(handler) => Handler::Stream(Rc::clone(handler)),
        }
    }
}

/// What [`Fm::tend`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tended {
    /// Something moved.
    Moved,
    /// Nothing moved, and something of this node's waits: look again soon.
    Waits,
    /// Nothing is to be done until something arrives.
    Nothing,
}

/// A node of Fast Messages, whose frames have room for so many words. Clones are the same node.
pub struct Fm<F: Fabric + 'static, const WORDS: usize = FRAME_WORDS>(pub(crate) Rc<Engine<F, WORDS>>);

impl<F: Fabric + 'static, const WORDS: usize> Clone for Fm<F, WORDS> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

pub(crate) struct Engine<F: Fabric + 'static, const WORDS: usize> {
    pub fabric: Rc<F>,
    pub state: RefCell<FmState<WORDS>>,
    pub handlers: RefCell<Vec<Option<Handler<F, WORDS>>>>,
    pub stacks: RefCell<Stacks<WORDS>>,
    /// Handlers that run inside each other, and whether the innermost receives piece by piece.
    pub running: Running,
    /// A message of pieces is being sent.
    pub sending: Cell<bool>,
    /// Extractions for another layer.
    pub looks: Cell<u32>,
    /// Room for the frame that an extraction takes.
    pub spare: Cell<Option<Box<Frame<WORDS>>>>,
    pub pacer: Pacer,
    pub max_handlers: u32,
    /// Payload of a frame, in bytes.
    pub frame: usize,
    pub depth: u32,
    patience: Duration,
}

impl<F: Fabric + 'static> Fm<F> {
    /// This process's node on `fabric`, with frames and features of FM 1.0's, and a table of `max_handlers` handlers.
    ///
    /// Packets of the fabric's FM port are this node's from now on; there can be one per process.
    pub fn new(fabric: Rc<F>, tunables: &FmTunables, wait: &WaitTunables, max_handlers: u32) -> Self {
        farpost_fabric::fits::<F>();
        Self::build(fabric, &FmConfig::from(tunables), wait, max_handlers, Port::Fm)
    }
}

impl<F: Fabric + 'static, const WORDS: usize> Fm<F, WORDS> {
    /// As [`new`](Fm::new), with frames and features of one's own; those of all nodes of a job are the same.
    ///
    /// # Errors
    /// [`FrameSize`](FmError::FrameSize): smaller than 16 bytes, or larger than the fabric's packets or frames of so many words have room for.
    /// [`Unordered`](FmError::Unordered): no flow control, on a fabric whose packets overtake each other.
    pub fn with_config(
        fabric: Rc<F>,
        config: &FmConfig,
        wait: &WaitTunables,
        max_handlers: u32,
    ) -> Result<Self, FmError> {
        let (least, most) = (*PAYLOADS.start(), FmConfig::longest::<F>(WORDS));
        if !(least..=most).contains(&config.frame) {
            let bytes = config.frame;
            return Err(FmError::FrameSize { bytes, least, most });
        }
        if !(config.flow_control || F::ORDERED) {
            return Err(FmError::Unordered {
                fabric: fabric.name(),
            });
        }
        Ok(Self::build(fabric, config, wait, max_handlers, Port::Fm))
    }

    pub(crate) fn build(
        fabric: Rc<F>,
        config: &FmConfig,
        wait: &WaitTunables,
        max_handlers: u32,
        port: Port,
    ) -> Self {
        let state = FmState::new(config, port);
        let mut handlers = Vec::new();
        handlers.resize_with(max_handlers.clamp(1, 1 << 16) as usize, || None);
        let lengths = &config.lengths;
        // Without flow control each node may be in the middle of a message, and is never put off.
        let places = match config.flow_control {
            true => lengths.streams,
            false => lengths.streams.max(u64::from(fabric.size())),
        };
        Self(Rc::new(Engine {
            state: RefCell::new(state),
            max_handlers: handlers.len() as u32,
            frame: config.frame,
            handlers: RefCell::new(handlers),
            stacks: RefCell::new(Stacks::new(places as usize, lengths.stack as usize)),
            running: Running::default(),
            sending: Cell::new(false),
            looks: Cell::new(0),
            spare: Cell::new(Some(Box::default())),
            pacer: Pacer::new(wait, &*fabric),
            depth: lengths.depth as u32,
            patience: Duration::from_secs(lengths.patience),
            fabric,
        }))
    }

    /// This node's number.
    pub fn node(&self) -> u32 {
        self.0.fabric.me().0
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.0.fabric.size()
    }

    /// The fabric.
    pub fn fabric(&self) -> &F {
        &self.0.fabric
    }

    /// The longest message of [`send`](Fm::send), in bytes.
    pub fn frame(&self) -> usize {
        self.0.frame
    }

    /// What has happened so far.
    pub fn figures(&self) -> FmCounters {
        self.0.state.borrow().figures
    }

    /// Whether the last extraction found nothing.
    #[inline(always)]
    pub fn found_nothing(&self) -> bool {
        self.0.pacer.is_empty()
    }

    /// What to call while a send waits, with what would be done next; true: it let time pass. Nothing is borrowed then.
    pub fn set_relax(&self, relax: Option<Relax>) {
        self.0.pacer.set_relax(relax);
    }

    /// The faults since the last call, each naming the peer and the value, and how many more there were than fit.
    pub fn take_faults(&self) -> (Vec<Fault>, u64) {
        self.0.state.borrow_mut().take_faults()
    }

    // Handlers.

    /// Register a handler of messages of one frame under `id`, or under the next free number for [`ANY_ID`]: the number.
    /// Registering again replaces.
    pub fn register_message_handler(
        &self,
        id: u32,
        handler: impl Fn(&Fm<F, WORDS>, Peer, &[u8]) + 'static,
    ) -> Result<u32, FmError> {
        self.register(id, Handler::Message(Rc::new(handler)))
    }

    /// Register a handler of messages of any length. It starts when the first piece is there; where it
    /// [receives](Receive::receive) what has not arrived, it is suspended, on a stack of its own, and others run.
    pub fn register_handler(
        &self,
        id: u32,
        handler: impl Fn(&Fm<F, WORDS>, &mut Receive<'_, F, WORDS>, Peer) -> Flow + 'static,
    ) -> Result<u32, FmError> {
        self.register(id, Handler::Stream(Rc::new(handler)))
    }

    fn register(&self, id: u32, handler: Handler<F, WORDS>) -> Result<u32, FmError> {
        let mut handlers = self.0.handlers.borrow_mut();
        let max = self.0.max_handlers;
        let id = if id == ANY_ID {
            let free = handlers.iter().position(Option::is_none);
            free.ok_or(FmError::NoHandlerLeft { max })? as u32
        } else {
            id
        };
        let place = handlers
            .get_mut(id as usize)
            .ok_or(FmError::NoSuchHandler { id, max })?;
        *place = Some(handler);
        Ok(id)
    }

    // Sending.

    #[inline(always)]
    pub(crate) fn check(&self, to: u32, handler: u32) -> Result<(), FmError> {
        let engine = &*self.0;
        if to >= engine.fabric.size() {
            let size = engine.fabric.size();
            return Err(FmError::NoSuchNode { node: to, size });
        }
        if handler >= engine.max_handlers {
            let (id, max) = (handler, engine.max_handlers);
            return Err(FmError::NoSuchHandler { id, max });
        }
        Ok(())
    }

    /// Offer a message of at most a [frame](Fm::frame). `Ok(false)`: no slot is free; [`extract`](Fm::extract), then try again.
    #[inline(always)]
    pub fn try_send(&self, to: u32, handler: u32, bytes: &[u8]) -> Result<bool, FmError> {
        self.try_send_led(to, handler, &[], bytes)
    }

    /// As [`try_send`](Fm::try_send): some words, and after them bytes.
    #[inline(always)]
    fn try_send_led(&self, to: u32, handler: u32, lead: &[u64], bytes: &[u8]) -> Result<bool, FmError> {
        let len = 8 * lead.len() + bytes.len();
        if len > self.0.frame {
            let most = self.0.frame;
            return Err(FmError::TooLong { bytes: len, most });
        }
        self.check(to, handler)?;
        self.offer(
            to,
            Header::new(FrameKind::Message, 0, handler as u16, len),
            lead,
            bytes,
        )
    }

    #[inline(always)]
    pub(crate) fn offer(
        &self,
        to: u32,
        mut header: Header,
        lead: &[u64],
        bytes: &[u8],
    ) -> Result<bool, FmError> {
        let fabric = &*self.0.fabric;
        let mut state = self.0.state.borrow_mut();
        if state.is_lost(to) {
            return Err(FmError::Lost { peer: Peer(to) });
        }
        let sent = state.offer(fabric, to, &mut header, (lead, bytes));
        if sent {
            fabric.charge(Cost::Work(Work::FmSend));
            fabric.count(Peer(to), Counter::Sent, 1);
            fabric.count(Peer(to), Counter::SentBytes, u64::from(header.len));
        }
        Ok(sent)
    }

    /// Send a message of at most a [frame](Fm::frame) (`FM_send`). Without a free slot it waits, and runs handlers meanwhile.
    ///
    /// # Errors
    /// [`TooLong`](FmError::TooLong), [`NoSuchNode`](FmError::NoSuchNode), [`NoSuchHandler`](FmError::NoSuchHandler),
    /// [`Lost`](FmError::Lost), [`Stuck`](FmError::Stuck).
    #[inline(always)]
    pub fn send(&self, to: u32, handler: u32, bytes: &[u8]) -> Result<(), FmError> {
        if self.try_send(to, handler, bytes)? {
            return Ok(());
        }
        self.until(to, || self.try_send(to, handler, bytes))
    }

    /// Send four words (`FM_send_4`).
    #[inline(always)]
    pub fn send_4(&self, to: u32, handler: u32, words: [u32; 4]) -> Result<(), FmError> {
        let pair = |low: u32, high: u32| {
            let ([a, b, c, d], [e, f, g, h]) = (low.to_ne_bytes(), high.to_ne_bytes());
            u64::from_le_bytes([a, b, c, d, e, f, g, h])
        };
        let lead = [pair(words[0], words[1]), pair(words[2], words[3])];
        if self.try_send_led(to, handler, &lead, &[])? {
            return Ok(());
        }
        self.until(to, || self.try_send_led(to, handler, &lead, &[]))
    }

    /// Wait until `tried` says true, moving the network and, where that is allowed, running handlers.
    #[cold]
    pub(crate) fn until(
        &self,
        to: u32,
        mut tried: impl FnMut() -> Result<bool, FmError>,
    ) -> Result<(), FmError> {
        let engine = &*self.0;
        let mut backoff = Backoff::default();
        let mut waiting_since = None;
        loop {
            let may_extract = engine.running.may_extract(engine.depth);
            let mut waited = Duration::ZERO;
            let handled = if may_extract {
                self.extract_some(usize::MAX)
            } else {
                self.drain();
                let now = engine.fabric.now();
                waited = now - *waiting_since.get_or_insert(now);
                if waited > engine.patience {
                    return Err(FmError::Stuck {
                        peer: Peer(to),
                        seconds: engine.patience.as_secs(),
                        depth: engine.depth,
                    });
                }
                0
            };
            if tried()? {
                return Ok(());
            }
            if handled > 0 {
                backoff.reset();
                waiting_since = None;
                continue;
            }
            // Whoever waits for our acknowledgements may be what we wait for.
            engine.state.borrow_mut().acknowledge_all(&*engine.fabric);
            // Whoever would free a slot may wait for this node to handle frames, which it does when this handler returns.
            if !may_extract && engine.state.borrow_mut().may_keep(waited > BEFORE_KEEPING) {
                let done = tried();
                engine.state.borrow_mut().may_not_keep();
                if done? {
                    return Ok(());
                }
            }
            if engine.pacer.pause(&mut backoff, &*engine.fabric) {
                engine.state.borrow_mut().time_passed();
                if engine.pacer.time_to_ask() {
                    self.look_for_lost();
                    self.look_for(to);
                }
            }
        }
    }

    // Moving.

    /// Move the network without running handlers: take in acknowledgements and what came back, send what waits, accept
    /// what has room and return the rest.
    pub fn drain(&self) {
        let mut state = self.0.state.borrow_mut();
        state.serve(&*self.0.fabric);
        state.drain(&*self.0.fabric, Overflow::Returned);
    }

    /// What the network's side does while the program computes and calls nothing, for who has a thread for that: frames move to the host receive
    /// queue as far as there is room, what waits or came back is sent, what was accepted is acknowledged. Runs no handlers.
    pub fn tend(&self) -> Tended {
        let mut state = self.0.state.borrow_mut();
        if state.tend(&*self.0.fabric) {
            return Tended::Moved;
        }
        if state.has_unsent() {
            // Time passes here, for what came back.
            state.time_passed();
            return Tended::Waits;
        }
        Tended::Nothing
    }

    /// Whether everything this node has sent has been accepted, and everything it accepted acknowledged.
    pub fn is_settled(&self) -> bool {
        self.0.state.borrow().is_settled()
    }

    /// Send what waits and acknowledge what is owed, until everything this node has sent has been accepted or `patience`
    /// is over: whether it has. Runs no handlers.
    pub fn settle(&self, patience: Duration) -> bool {
        let engine = &*self.0;
        let until = engine.fabric.now() + patience;
        let mut backoff = Backoff::default();
        loop {
            self.drain();
            engine.state.borrow_mut().acknowledge_all(&*engine.fabric);
            if self.is_settled() {
                return true;
            }
            if engine.fabric.now() > until {
                return false;
            }
            if engine.pacer.pause(&mut backoff, &*engine.fabric) {
                engine.state.borrow_mut().time_passed();
                if engine.pacer.time_to_ask() {
                    self.look_for_lost();
                }
            }
        }
    }

    /// The end: [`settle`](Fm::settle), then messages that are incomplete are broken off and handlers forgotten.
    pub fn close(&self, patience: Duration) -> bool {
        let settled = self.settle(patience);
        loop {
            let first = self.0.state.borrow().incoming.first().map(|one| one.peer);
            let Some(peer) = first else { break };
            self.break_off(peer);
        }
        self.0.handlers.borrow_mut().fill_with(|| None);
        settled
    }

    // Lost peers.

    /// Ask the fabric whether peers that this node waits for have ended. May be system calls: for idle moments.
    pub fn look_for_lost(&self) {
        let engine = &*self.0;
        if engine.fabric.faulted() {
            let (faults, more) = engine.fabric.take_faults();
            for fault in faults {
                if let FabricError::PeerDead { peer, .. } = fault.error {
                    self.lose(peer);
                }
                engine.state.borrow_mut().record(fault);
            }
            engine.state.borrow_mut().faults_lost += more;
        }
        let mut ended = [None; 4];
        {
            let mut state = engine.state.borrow_mut();
            let mut found = 0;
            let mut look = |peer: u32| {
                if found < ended.len() && engine.fabric.has_ended(Peer(peer)) {
                    ended[found] = Some(peer);
                    found += 1;
                }
            };
            state.window.for_each(&mut look);
            for one in state.incoming.iter().filter(|one| !one.ended) {
                look(one.peer);
            }
        }
        ended.into_iter().flatten().for_each(|peer| self.has_ended(peer));
    }

    /// As [`look_for_lost`](Fm::look_for_lost), of a peer that a frame waits for and that has perhaps none yet.
    fn look_for(&self, peer: u32) {
        if self.0.fabric.has_ended(Peer(peer)) {
            self.has_ended(peer);
        }
    }

    fn has_ended(&self, peer: u32) {
        let engine = &*self.0;
        // Its last words first.
        self.drain();
        if self.lose(Peer(peer)) {
            let peer = Peer(peer);
            let why = "its process has ended".to_owned();
            let error = FabricError::PeerDead { peer, why };
            engine.fabric.count(peer, Counter::Faults, 1);
            engine.state.borrow_mut().record(Fault { peer, error });
        }
    }

    /// `peer` is gone, says who owns the fabric: its slots are free, messages of it that are incomplete are broken off, and
    /// sends to it fail. False: that was known.
    pub fn lose(&self, peer: Peer) -> bool {
        let new = self.0.state.borrow_mut().lose(peer.0);
        if new {
            self.break_off(peer.0);
        }
        new
    }
}
