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
//! ONE    word 0: bytes of the argument; then the argument, up to 84 bytes
//! FIRST  word 0: bytes of the argument; then its first 84
//! MORE   the next 88
//! ```
//!
//! Cost class: fast path (an argument of up to 84 bytes), queued path (longer ones).

use crate::message::{Header, Message, Service};
use crate::pio::{Pio, bytes_of, words_of};
use crate::rdma::{Rdma, Use};
use crate::{JamError, MAX_WORDS};
use farpost_fabric::{Fabric, Peer, Priority};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

const ONE: u32 = 0;
const FIRST: u32 = 1;
const MORE: u32 = 2;

/// Highest number of a procedure.
pub const MAX_PROCEDURE: u32 = (1 << 16) - 1;
const PROCEDURE_MASK: u32 = (1 << 28) - 1;
/// Bytes of an argument in one message beside its length.
const ONE_BYTES: usize = 4 * (MAX_WORDS - 1);

/// What runs: the caller and the argument, which lives until the procedure returns.
pub type Procedure<F> = Rc<dyn Fn(&crate::Jam<F>, Peer, &[u8])>;

/// A message that waits for room.
struct Waiting {
    to: Peer,
    tag: u32,
    len: u8,
    words: [u32; MAX_WORDS],
}

/// An argument of which a part has come.
struct Partial {
    procedure: u32,
    bytes: Vec<u8>,
    total: usize,
}

/// The procedures and calls of one process.
pub struct Rpc<F: Fabric> {
    me: Peer,
    switch: usize,
    procedures: RefCell<Vec<Option<Procedure<F>>>>,
    waiting: RefCell<VecDeque<Waiting>>,
    any_waiting: Cell<bool>,
    own: RefCell<VecDeque<(u32, Box<[u8]>)>>,
    partial: RefCell<HashMap<Peer, Partial>>,
    calls: Cell<u64>,
}

impl<F: Fabric> Rpc<F> {
    pub(crate) fn new(me: Peer, switch: u64) -> Self {
        Self {
            me,
            switch: switch as usize,
            procedures: RefCell::new(Vec::new()),
            waiting: RefCell::new(VecDeque::new()),
            any_waiting: Cell::new(false),
            own: RefCell::new(VecDeque::new()),
            partial: RefCell::new(HashMap::new()),
            calls: Cell::new(0),
        }
    }

    /// Register a procedure under a number; a number used again gets the new one.
    ///
    /// # Errors
    /// The number is above [`MAX_PROCEDURE`].
    pub fn register(&self, number: u32, procedure: Procedure<F>) -> Result<(), JamError> {
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
    pub(crate) fn start(
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
        if argument.len() <= ONE_BYTES {
            let mut words = [0; MAX_WORDS];
            words[0] = argument.len() as u32;
            let mut rest = [0; MAX_WORDS];
            let count = words_of(argument, &mut rest);
            words[1..].copy_from_slice(&rest[..MAX_WORDS - 1]);
            return self.launch(pio, to, ONE << 28 | procedure, &words, (1 + count).max(2));
        }
        if argument.len() > self.switch {
            return rdma
                .start(to, Use::Rpc(procedure), argument.to_vec().into())
                .map(|_| ());
        }
        let (first, more) = argument.split_at(ONE_BYTES);
        let mut words = [0; MAX_WORDS];
        words[0] = argument.len() as u32;
        let mut rest = [0; MAX_WORDS];
        words_of(first, &mut rest);
        words[1..].copy_from_slice(&rest[..MAX_WORDS - 1]);
        self.launch(pio, to, FIRST << 28 | procedure, &words, MAX_WORDS)?;
        for part in more.chunks(4 * MAX_WORDS) {
            let mut words = [0; MAX_WORDS];
            let count = words_of(part, &mut words).max(2);
            self.launch(pio, to, MORE << 28 | procedure, &words, count)?;
        }
        Ok(())
    }

    #[inline]
    fn launch(
        &self,
        pio: &Pio<F>,
        to: Peer,
        tag: u32,
        words: &[u32; MAX_WORDS],
        count: usize,
    ) -> Result<(), JamError> {
        if !self.any_waiting.get() {
            let header = Header::new(to, Priority::Low, tag);
            match pio.send_as(&header, Service::Rpc, &words[..count]) {
                Err(JamError::TransmitFull(_)) => {}
                sent => return sent,
            }
        }
        self.waiting.borrow_mut().push_back(Waiting {
            to,
            tag,
            len: count as u8,
            words: *words,
        });
        self.any_waiting.set(true);
        Ok(())
    }

    /// Launch what waits for room. True: something went.
    pub(crate) fn push(&self, pio: &Pio<F>) -> bool {
        if !self.any_waiting.get() {
            return false;
        }
        let mut waiting = self.waiting.borrow_mut();
        let before = waiting.len();
        while let Some(next) = waiting.front() {
            let header = Header::new(next.to, Priority::Low, next.tag);
            if let Err(JamError::TransmitFull(_)) =
                pio.send_as(&header, Service::Rpc, &next.words[..next.len as usize])
            {
                break;
            }
            waiting.pop_front();
        }
        self.any_waiting.set(!waiting.is_empty());
        waiting.len() < before
    }

    /// Whether calls wait for room, or for a poll of this very process.
    pub(crate) fn has_waiting(&self) -> bool {
        self.any_waiting.get() || !self.own.borrow().is_empty()
    }

    fn run(&self, jam: &crate::Jam<F>, from: Peer, procedure: u32, argument: &[u8]) -> bool {
        let found = self
            .procedures
            .borrow()
            .get(procedure as usize)
            .and_then(Option::clone);
        match found {
            Some(run) => {
                self.calls.set(self.calls.get() + 1);
                run(jam, from, argument);
                true
            }
            None => {
                jam.service()
                    .refuse(from, "the number of a procedure", u64::from(procedure));
                false
            }
        }
    }

    /// A message of this protocol. True: a procedure ran.
    #[inline]
    pub(crate) fn on_message(&self, jam: &crate::Jam<F>, message: &Message) -> bool {
        let (kind, procedure) = (message.tag >> 28, message.tag & PROCEDURE_MASK);
        let from = message.from;
        let words = message.words();
        let mut bytes = [0; 4 * MAX_WORDS];
        let refuse = |what, value| {
            jam.service().refuse(from, what, value);
            false
        };
        match kind {
            ONE => {
                let len = words[0] as usize;
                let there = bytes_of(&words[1..], &mut bytes);
                if len > there || there - len > 7 {
                    return refuse("the length of an argument", len as u64);
                }
                self.run(jam, from, procedure, &bytes[..len])
            }
            FIRST => {
                let total = words[0] as usize;
                if total <= ONE_BYTES || total > 1 << 20 || words.len() != MAX_WORDS {
                    return refuse("the length of an argument", total as u64);
                }
                bytes_of(&words[1..], &mut bytes);
                let mut partial = Partial {
                    procedure,
                    bytes: Vec::with_capacity(total),
                    total,
                };
                partial.bytes.extend_from_slice(&bytes[..ONE_BYTES]);
                if self.partial.borrow_mut().insert(from, partial).is_some() {
                    return refuse("an argument inside another", total as u64);
                }
                false
            }
            MORE => {
                let there = bytes_of(words, &mut bytes);
                let mut all = self.partial.borrow_mut();
                let Some(partial) = all.get_mut(&from) else {
                    drop(all);
                    return refuse("the rest of no argument", u64::from(procedure));
                };
                let len = there.min(partial.total - partial.bytes.len());
                partial.bytes.extend_from_slice(&bytes[..len]);
                if partial.bytes.len() < partial.total {
                    return false;
                }
                let Some(whole) = all.remove(&from) else {
                    return false;
                };
                drop(all);
                self.run(jam, from, whole.procedure, &whole.bytes)
            }
            _ => refuse("the kind of a call", u64::from(kind)),
        }
    }

    /// Run what is complete without a message: own calls, arguments that came as blocks. How many ran.
    pub(crate) fn run_others(&self, jam: &crate::Jam<F>) -> usize {
        let mut ran = 0;
        // Those that are there now; a procedure that calls its own process does not keep this from ending.
        let own = self.own.borrow().len();
        for _ in 0..own {
            let next = self.own.borrow_mut().pop_front();
            if let Some((procedure, argument)) = next {
                ran += usize::from(self.run(jam, self.me, procedure, &argument));
            }
        }
        while let Some((from, procedure, argument)) = jam.rdma().argument() {
            ran += usize::from(self.run(jam, from, procedure, argument.bytes()));
        }
        ran
    }

    /// Procedures run so far.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }
}
