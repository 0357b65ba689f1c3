//! JAM RPC (section 6.2): start a procedure in another process with an argument of any size; it runs when that
//! process polls. There is no reply: a procedure that answers calls back.
//!
//! Chosen where the paper is silent: procedures are named by number, never by address; starting one copies the
//! argument and never waits, and what the transmit queue does not take at once waits in memory, in order; calls whose
//! arguments travel in messages run in the order of their starting, longer ones (`FARPOST_JAM_RPC_RDMA`) go by block
//! transfer and may be overtaken.
//!
//! ```text
//! tag: bits 0..28 procedure, 28..32 kind
//! ONE    the argument, up to 84 bytes, filled up to at least one whole word; last word: its bytes
//! FIRST  the first 84 bytes of the argument; last word: bytes of all of it
//! MORE   the next 88
//! ```
//!
//! Cost class: fast path (an argument of up to 84 bytes), queued path (longer ones).

use crate::message::{Header, Packet, Service};
use crate::pio::{Pio, words_of};
use crate::rdma::{Purpose, Rdma};
use crate::{JamError, MAX_WORDS};
use farpost_fabric::{Cost, Fabric, Peer, Priority, Work};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

const ONE: u32 = 0;
const FIRST: u32 = 1;
const MORE: u32 = 2;

/// Highest number of a procedure.
pub const MAX_PROCEDURE: u32 = (1 << 16) - 1;
/// Calls are requests.
const PRIORITY: Priority = Priority::Low;
const PROCEDURE_MASK: u32 = (1 << 28) - 1;
/// Bytes of an argument in one message beside its length.
const ONE_BYTES: usize = 4 * (MAX_WORDS - 1);

/// An argument of which a part has come.
struct Partial {
    procedure: u32,
    bytes: Vec<u8>,
    total: usize,
}

/// The procedures `P` and calls of one process.
pub struct Rpc<P> {
    me: Peer,
    switch: usize,
    procedures: RefCell<Vec<Option<P>>>,
    /// Messages that wait for room.
    waiting: RefCell<VecDeque<Packet>>,
    any_waiting: Cell<bool>,
    own: RefCell<VecDeque<(u32, Box<[u8]>)>>,
    partial: RefCell<BTreeMap<Peer, Partial>>,
    calls: Cell<u64>,
    own_calls: Cell<u64>,
    block_calls: Cell<u64>,
}

/// How a call came to the process that ran it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRoute {
    /// The argument in messages.
    Messages,
    /// The argument by block transfer.
    Block,
    /// By no way: from the process itself.
    Own,
}

impl<P: Clone> Rpc<P> {
    pub(crate) fn new(me: Peer, switch: u64) -> Self {
        Self {
            me,
            switch: switch as usize,
            procedures: RefCell::new(Vec::new()),
            waiting: RefCell::new(VecDeque::new()),
            any_waiting: Cell::new(false),
            own: RefCell::new(VecDeque::new()),
            partial: RefCell::new(BTreeMap::new()),
            calls: Cell::new(0),
            own_calls: Cell::new(0),
            block_calls: Cell::new(0),
        }
    }

    /// Register a procedure under a number; a number used again gets the new one.
    ///
    /// # Errors
    /// The number is above [`MAX_PROCEDURE`].
    pub fn register(&self, number: u32, procedure: P) -> Result<(), JamError> {
        if number > MAX_PROCEDURE {
            return Err(JamError::TooLong {
                what: "the number of a procedure",
                bytes: number as usize,
                most: MAX_PROCEDURE as usize,
            });
        }
        let procedures = &mut *self.procedures.borrow_mut();
        if procedures.len() <= number as usize {
            procedures.resize(number as usize + 1, None);
        }
        procedures[number as usize] = Some(procedure);
        Ok(())
    }

    #[inline]
    pub(crate) fn start<F: Fabric>(
        &self,
        pio: &Pio<F>,
        rdma: &Rdma<F>,
        to: Peer,
        procedure: u32,
        argument: &[u8],
    ) -> Result<(), JamError> {
        if procedure > MAX_PROCEDURE {
            return Err(JamError::NoSuchProcedure(procedure));
        }
        if to == self.me {
            self.own.borrow_mut().push_back((procedure, argument.into()));
            return Ok(());
        }
        let header = |kind: u32| Header::new(to, PRIORITY, kind << 28 | procedure);
        let len = argument.len() as u32;
        if argument.len() <= ONE_BYTES {
            let mut packet = Packet::EMPTY;
            packet.set_bytes(&header(ONE), Service::Rpc, (&[], argument), len, true);
            return self.launch(pio, &packet);
        }
        if argument.len() > self.switch {
            let most = rdma.longest_argument();
            if argument.len() > most {
                return Err(JamError::TooLong {
                    what: "the argument of a procedure (FARPOST_JAM_RPC_MAX)",
                    bytes: argument.len(),
                    most,
                });
            }
            return rdma
                .start(to, Purpose::Rpc(procedure), argument.to_vec().into())
                .map(|_| ());
        }
        let (first, more) = argument.split_at(ONE_BYTES);
        let mut packet = Packet::EMPTY;
        packet.set_bytes(&header(FIRST), Service::Rpc, (&[], first), len, true);
        self.launch(pio, &packet)?;
        for part in more.chunks(4 * MAX_WORDS) {
            let mut words = [0; MAX_WORDS];
            let count = words_of(part, &mut words).max(2);
            packet.set(&header(MORE), Service::Rpc, &words[..count])?;
            self.launch(pio, &packet)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn launch<F: Fabric>(&self, pio: &Pio<F>, packet: &Packet) -> Result<(), JamError> {
        if !self.any_waiting.get() {
            match pio.launch_packet(packet, PRIORITY) {
                Err(JamError::TransmitFull(_)) => {}
                sent => return sent,
            }
        }
        self.keep(packet);
        Ok(())
    }

    #[cold]
    fn keep(&self, packet: &Packet) {
        self.waiting.borrow_mut().push_back(*packet);
        self.any_waiting.set(true);
    }

    /// Launch what waits for room. True: something went.
    pub(crate) fn push<F: Fabric>(&self, pio: &Pio<F>) -> bool {
        if !self.any_waiting.get() {
            return false;
        }
        let mut waiting = self.waiting.borrow_mut();
        let before = waiting.len();
        while let Some(next) = waiting.front() {
            if let Err(JamError::TransmitFull(_)) = pio.launch_packet(next, PRIORITY) {
                break;
            }
            waiting.pop_front();
        }
        self.any_waiting.set(!waiting.is_empty());
        waiting.len() < before
    }

    /// Whether calls wait for room.
    pub(crate) fn is_held_up(&self) -> bool {
        self.any_waiting.get()
    }

    /// Whether calls wait for room, or for a poll of this very process.
    pub(crate) fn has_waiting(&self) -> bool {
        self.any_waiting.get() || !self.own.borrow().is_empty()
    }

    /// Have `call` run a procedure. True: there is one.
    #[inline]
    fn run<F: Fabric>(&self, service: &Pio<F>, from: Peer, procedure: u32, call: impl FnOnce(P)) -> bool {
        let found = self
            .procedures
            .borrow()
            .get(procedure as usize)
            .cloned()
            .flatten();
        match found {
            Some(found) => {
                self.calls.set(self.calls.get() + 1);
                service.fabric().charge(Cost::Work(Work::JamRpcServe));
                call(found);
                true
            }
            None => {
                service.refuse(from, "the number of a procedure", u64::from(procedure));
                false
            }
        }
    }

    /// A message of this protocol. True: a procedure ran, by `call`.
    #[inline]
    pub(crate) fn on_message<F: Fabric>(
        &self,
        (fabric, service): (&F, &Pio<F>),
        from: Peer,
        (tag, payload): (u32, &[u8]),
        call: impl FnOnce(P, &[u8]),
    ) -> bool {
        let (kind, procedure) = (tag >> 28, tag & PROCEDURE_MASK);
        let refuse = |what, value| {
            service.refuse(from, what, value);
            false
        };
        let (argument, len) = match payload.split_last_chunk::<4>() {
            Some((argument, len)) => (argument, u32::from_le_bytes(*len) as usize),
            None => return refuse("the length of a call", payload.len() as u64),
        };
        match kind {
            ONE => {
                if len.div_ceil(4).max(1) != argument.len() / 4 {
                    return refuse("the length of an argument", len as u64);
                }
                self.run(service, from, procedure, |found| call(found, &argument[..len]))
            }
            FIRST => {
                if len <= ONE_BYTES || len > 1 << 20 || argument.len() != ONE_BYTES {
                    return refuse("the length of an argument", len as u64);
                }
                let mut partial = Partial {
                    procedure,
                    bytes: Vec::with_capacity(len),
                    total: len,
                };
                fabric.charge(Cost::Copy(argument.len()));
                partial.bytes.extend_from_slice(argument);
                if self.partial.borrow_mut().insert(from, partial).is_some() {
                    return refuse("an argument inside another", len as u64);
                }
                false
            }
            MORE => {
                let mut all = self.partial.borrow_mut();
                let Some(partial) = all.get_mut(&from) else {
                    drop(all);
                    return refuse("the rest of no argument", u64::from(procedure));
                };
                let more = payload.len().min(partial.total - partial.bytes.len());
                fabric.charge(Cost::Copy(more));
                partial.bytes.extend_from_slice(&payload[..more]);
                if partial.bytes.len() < partial.total {
                    return false;
                }
                let Some(whole) = all.remove(&from) else {
                    return false;
                };
                drop(all);
                self.run(service, from, whole.procedure, |found| call(found, &whole.bytes))
            }
            _ => refuse("the kind of a call", u64::from(kind)),
        }
    }

    /// Run what is complete without a message, by `call`: own calls, arguments that came as blocks. How many ran.
    pub(crate) fn run_others<F: Fabric>(
        &self,
        service: &Pio<F>,
        rdma: &Rdma<F>,
        call: impl Fn(P, Peer, &[u8]),
    ) -> usize {
        let mut ran = 0;
        // Those that are there now; a procedure that calls its own process does not keep this from ending.
        let own = self.own.borrow().len();
        for _ in 0..own {
            let next = self.own.borrow_mut().pop_front();
            if let Some((procedure, argument)) = next {
                let call = |found| call(found, self.me, &argument);
                let one = self.run(service, self.me, procedure, call);
                self.own_calls.set(self.own_calls.get() + u64::from(one));
                ran += usize::from(one);
            }
        }
        while let Some((from, procedure, argument)) = rdma.argument() {
            let call = |found| call(found, from, argument.bytes());
            let one = self.run(service, from, procedure, call);
            self.block_calls.set(self.block_calls.get() + u64::from(one));
            ran += usize::from(one);
        }
        ran
    }

    /// Procedures run so far.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// Those that came by one way.
    pub fn calls_by(&self, way: CallRoute) -> u64 {
        let (own, blocks) = (self.own_calls.get(), self.block_calls.get());
        match way {
            CallRoute::Own => own,
            CallRoute::Block => blocks,
            CallRoute::Messages => self.calls.get() - own - blocks,
        }
    }
}
