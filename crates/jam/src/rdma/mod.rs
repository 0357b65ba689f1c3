//! RDMA mode (section 5.3): a block transfer into the receiver's memory, which one sender owns at a time.
//!
//! The protocol, of which the paper says only that software must make the sender the receiver's sole owner, with
//! low-priority messages:
//!
//! ```text
//! sender                                     receiver
//! ask (low): bytes, check, address  ──────▶  waits its turn; one block at a time
//!                                            fetches it where the fabric transfers between memories, else
//!                                   ◀──────  grant (high)
//! packets of 88 bytes (high)        ──────▶  in order, without sequence numbers or addresses, as in the paper
//!                                   ◀──────  done (high): how it ended
//! ```
//!
//! Requests are low, answers high, so that a full request queue never holds up what would empty it.
//!
//! **Exclusion.** While a block is on its way here, no other high-priority message is taken in (point 3 of section 5.3): those of the
//! program's wait in the network, and low-priority ones go on. Between two blocks those that wait have their turn.
//!
//! **Owners that are lost.** An owner that ends loses its right, and so does one from which nothing has come for `FARPOST_JAM_OWNER_SILENCE`; what
//! has come of its block is dropped, the memory is for the next one, and an owner that still lives is told.
//!
//! A block carries a check of 16 bits over all of it, whichever way it goes: see [`crate::message`].
//!
//! The user's blocks go to memory that the receiver has posted, in order of the asking, and that it may withdraw until then. Cost class: queued path.

mod incoming;

use crate::bulk::{Buffer, Exposed, Fetch};
use crate::faults::Faults;
use crate::leftover::Leftover;
use crate::message::{Header, Message, Service};
use crate::pio::{Pio, words_of};
use crate::{JamError, JamTunables, MAX_WORDS, crc16};
use farpost_fabric::{Cost, Fabric, Moment, Peer, Priority};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

const ASK: u32 = 0;
const GRANT: u32 = 1;
const DATA: u32 = 2;
const DONE: u32 = 3;

/// How a transfer ended, in the first word of `done`; the second is what its name says.
const FITTED: u32 = 0;
/// Bytes that would have fitted.
const TOO_LONG: u32 = 1;
const NOT_FETCHED: u32 = 2;
const DAMAGED: u32 = 3;
/// Milliseconds that the receiver waited.
const SILENT: u32 = 4;

/// Calls that failed and that nobody has asked about; later ones are not kept.
const FAILED_MAX: usize = 64;

/// The tag of a message of this protocol: its kind, and the number of the sender's transfer.
fn tag(kind: u32, id: u32) -> u32 {
    kind << 30 | id
}

const ID_MASK: u32 = (1 << 30) - 1;

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A block of the user's, with the tag that the user chose.
    User(u32),
    /// The argument of this procedure.
    Rpc(u32),
}

/// A block that has arrived.
#[derive(Debug)]
pub struct Block {
    /// The sender.
    pub from: Peer,
    /// The tag that the sender chose.
    pub tag: u32,
    /// The memory that was posted, with the block at its front.
    pub memory: Buffer,
    /// Bytes of the block.
    pub len: usize,
}

impl Block {
    /// The block.
    pub fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }
}

/// A call of this process's with a long argument that did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCall {
    /// Where it was to run.
    pub to: Peer,
    /// Its number.
    pub procedure: u32,
    /// Bytes of its argument.
    pub bytes: usize,
    /// Why it did not.
    pub error: JamError,
}

/// The bytes of a block to be sent.
enum BlockBytes<F: Fabric> {
    /// The receiver may fetch them.
    Exposed(Exposed<F>),
    /// They are sent in packets.
    Own(Buffer),
}

impl<F: Fabric> BlockBytes<F> {
    fn get(&self) -> &[u8] {
        match self {
            BlockBytes::Exposed(exposed) => exposed.bytes(),
            BlockBytes::Own(bytes) => bytes.bytes(),
        }
    }
}

/// A block that this process sends.
struct OutgoingBlock<F: Fabric> {
    id: u32,
    purpose: Purpose,
    bytes: BlockBytes<F>,
    check: u16,
    asked: bool,
    granted: bool,
    sent: usize,
}

/// A block that a peer wants to send.
struct BlockRequest {
    from: Peer,
    id: u32,
    purpose: Purpose,
    len: usize,
    check: u16,
    /// Address and key of the sender's memory, if the block can be fetched from there.
    place: Option<(u64, u64)>,
}

/// Where the bytes of the block under way come from.
enum BlockSource<F: Fabric> {
    Fetch(Fetch<F>),
    /// Packets: the memory that they fill, and bytes received.
    Packets(Buffer, usize),
}

struct ActiveTransfer<F: Fabric> {
    asked: BlockRequest,
    source: BlockSource<F>,
    /// The user's memory that it fills, if it does.
    posted: Option<Posted>,
    /// What is known of its owner's silence: since when, and the bytes received then.
    silent: (Moment, usize),
}

struct RdmaState<F: Fabric> {
    next: u32,
    /// By receiver; the first of each is under way.
    sending: BTreeMap<Peer, VecDeque<OutgoingBlock<F>>>,
    asked: VecDeque<BlockRequest>,
    active: Option<ActiveTransfer<F>>,
    /// The latest transfer that was taken from a silent owner, whose packets may still come.
    expired: Option<(Peer, u32)>,
    posted: VecDeque<(Posted, Buffer)>,
    next_posted: u64,
    arrived: VecDeque<Block>,
    /// Arguments of procedures that have arrived.
    arguments: VecDeque<(Peer, u32, Buffer)>,
    /// Answers that wait for the high-priority queue.
    answers: VecDeque<(Peer, u32, [u32; 2])>,
    ended: BTreeMap<u32, Result<(), JamError>>,
    failed: VecDeque<FailedCall>,
    idle: u32,
    /// Looks for the next block that waiting messages of the program's have been given before it.
    turns: u32,
}

/// The block transfers of one process.
pub struct Rdma<F: Fabric> {
    fabric: Rc<F>,
    faults: Rc<Faults<F>>,
    leftover: Rc<Leftover>,
    most: usize,
    silence: Duration,
    state: RefCell<RdmaState<F>>,
    /// Whether anything is to be done, and whether a block is on its way here: one look each on the fast path.
    busy: Cell<bool>,
    owned: Cell<bool>,
}

/// A handle of a block that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer(u32);

impl Transfer {
    /// Its number, for interfaces that return integers.
    pub fn number(self) -> u64 {
        u64::from(self.0)
    }
}

/// Names memory that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Posted(u64);

impl<F: Fabric> Rdma<F> {
    pub(crate) fn new(
        (faults, leftover): (Rc<Faults<F>>, Rc<Leftover>),
        fabric: Rc<F>,
        tunables: &JamTunables,
    ) -> Self {
        Self {
            fabric,
            faults,
            leftover,
            most: usize::try_from(tunables.rpc_max).unwrap_or(usize::MAX),
            silence: Duration::from_millis(tunables.owner_silence),
            busy: Cell::new(false),
            owned: Cell::new(false),
            state: RefCell::new(RdmaState {
                next: 0,
                sending: BTreeMap::new(),
                asked: VecDeque::new(),
                active: None,
                expired: None,
                posted: VecDeque::new(),
                next_posted: 0,
                arrived: VecDeque::new(),
                arguments: VecDeque::new(),
                answers: VecDeque::new(),
                ended: BTreeMap::new(),
                failed: VecDeque::new(),
                idle: 0,
                turns: 0,
            }),
        }
    }

    /// Send a block. Calls of [`Jam::poll`](crate::Jam::poll) send it once the receiver has granted this process sole ownership.
    ///
    /// # Errors
    /// The receiver does not exist.
    pub fn send(&self, to: Peer, tag: u32, bytes: impl Into<Buffer>) -> Result<Transfer, JamError> {
        self.start(to, Purpose::User(tag), bytes.into())
    }

    pub(crate) fn start(&self, to: Peer, purpose: Purpose, bytes: Buffer) -> Result<Transfer, JamError> {
        let size = self.fabric.size();
        if to.0 >= size {
            return Err(JamError::NoSuchPeer { peer: to, size });
        }
        let state = &mut *self.state.borrow_mut();
        let id = state.next;
        state.next = (id + 1) & ID_MASK;
        let check = crc16::of(bytes.bytes());
        let bytes = if !bytes.is_empty() && self.fabric.can_transfer(to) {
            match Exposed::new(&self.fabric, to, bytes) {
                Ok(exposed) => BlockBytes::Exposed(exposed),
                Err((bytes, _)) => BlockBytes::Own(bytes),
            }
        } else {
            BlockBytes::Own(bytes)
        };
        state.sending.entry(to).or_default().push_back(OutgoingBlock {
            id,
            purpose,
            bytes,
            check,
            asked: false,
            granted: false,
            sent: 0,
        });
        self.busy.set(true);
        self.leftover.tell();
        Ok(Transfer(id))
    }

    /// Whether a block of the user's was sent, or why not. After an answer other than `None` the handle is invalid.
    pub fn ended(&self, transfer: Transfer) -> Option<Result<(), JamError>> {
        self.state.borrow_mut().ended.remove(&transfer.0)
    }

    /// The oldest call with a long argument that did not run and was not told yet. Calls to processes that have ended are not
    /// among them.
    pub fn failed_call(&self) -> Option<FailedCall> {
        self.state.borrow_mut().failed.pop_front()
    }

    /// Longest argument that a receiver with the same settings makes room for.
    pub(crate) fn longest_argument(&self) -> usize {
        self.most
    }

    /// Post memory for a block of a peer's: the next one asked for goes there.
    pub fn post(&self, memory: impl Into<Buffer>) -> Posted {
        let state = &mut *self.state.borrow_mut();
        let posted = Posted(state.next_posted);
        state.next_posted += 1;
        state.posted.push_back((posted, memory.into()));
        posted
    }

    /// Take back memory that was posted. None: a block is on its way to it or has arrived in it, or came and was taken.
    pub fn withdraw(&self, posted: Posted) -> Option<Buffer> {
        let state = &mut *self.state.borrow_mut();
        let at = state.posted.iter().position(|(name, _)| *name == posted)?;
        state.posted.remove(at).map(|(_, memory)| memory)
    }

    /// The next block that has arrived.
    pub fn arrived(&self) -> Option<Block> {
        self.state.borrow_mut().arrived.pop_front()
    }

    /// The next argument of a procedure that has arrived.
    pub(crate) fn argument(&self) -> Option<(Peer, u32, Buffer)> {
        self.state.borrow_mut().arguments.pop_front()
    }

    /// Whether there is anything for [`serve`](Self::serve) to do.
    #[inline(always)]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.get()
    }

    /// Whether blocks of this process's, or blocks to it that have memory to go to, are on their way. One that waits for
    /// memory does not count: it may wait for ever.
    pub(crate) fn has_waiting(&self) -> bool {
        let state = &*self.state.borrow();
        let comes = |asked: &BlockRequest| state.has_memory_for(asked);
        !state.sending.is_empty()
            || state.active.is_some()
            || !state.answers.is_empty()
            || state.asked.iter().any(comes)
    }

    /// Whether something waits for what nobody announces: room, or the end of a fetch.
    pub(crate) fn looks_again(&self) -> bool {
        let state = &*self.state.borrow();
        let held_up =
            |block: &OutgoingBlock<F>| !block.asked || block.granted && block.sent < block.bytes.get().len();
        let fetches = |active: &ActiveTransfer<F>| matches!(active.source, BlockSource::Fetch(_));
        !state.answers.is_empty()
            || state.active.as_ref().is_some_and(fetches)
            || state
                .sending
                .values()
                .any(|queue| queue.front().is_some_and(held_up))
    }

    /// Whether a block is on its way here: no other high-priority message is taken in meanwhile.
    #[inline(always)]
    pub fn is_owned(&self) -> bool {
        self.owned.get()
    }

    fn note(&self, state: &RdmaState<F>) {
        let idle = state.sending.is_empty()
            && state.asked.is_empty()
            && state.active.is_none()
            && state.answers.is_empty();
        self.busy.set(!idle);
        self.owned.set(state.active.is_some());
    }

    /// Handle a message of this protocol.
    pub(crate) fn on_message(&self, pio: &Pio<F>, message: &Message) {
        let state = &mut *self.state.borrow_mut();
        let (kind, id) = (message.tag >> 30, message.tag & ID_MASK);
        let from = message.from;
        let high = message.priority == Priority::High;
        match kind {
            ASK if !high => self.on_ask(state, pio, message, id),
            GRANT if high => match state.first_to(from, id) {
                Some(sending) => sending.granted = true,
                None => pio.refuse(from, "a grant", u64::from(id)),
            },
            DATA if high => self.on_data(state, pio, message, id),
            DONE if high => self.on_done(state, pio, message, id),
            _ => pio.refuse(from, "a message of the block transfer", u64::from(message.tag)),
        }
        self.note(state);
    }

    fn on_done(&self, state: &mut RdmaState<F>, pio: &Pio<F>, message: &Message, id: u32) {
        let peer = message.from;
        let &[how, word] = message.words() else {
            return pio.refuse(peer, "the length of an answer", message.words().len() as u64);
        };
        let Some(sending) = state.first_to(peer, id) else {
            return pio.refuse(peer, "the end of a transfer", u64::from(id));
        };
        let bytes = sending.bytes.get().len();
        let result = match how {
            FITTED => Ok(()),
            TOO_LONG => Err(JamError::TooLong {
                what: match sending.purpose {
                    Purpose::User(_) => "a block transfer that the receiver has no memory for",
                    Purpose::Rpc(_) => {
                        "an argument that the receiver makes no room for (FARPOST_JAM_RPC_MAX)"
                    }
                },
                bytes,
                most: word as usize,
            }),
            NOT_FETCHED => Err(JamError::NotFetched { peer, bytes }),
            DAMAGED => Err(JamError::Damaged { peer, bytes }),
            SILENT => Err(JamError::Silent { peer, millis: word }),
            _ => return pio.refuse(peer, "how a transfer ended", u64::from(how)),
        };
        self.end_first(state, peer, result);
    }

    fn end_first(&self, state: &mut RdmaState<F>, to: Peer, result: Result<(), JamError>) {
        let Some(queue) = state.sending.get_mut(&to) else {
            return;
        };
        if let Some(sending) = queue.pop_front() {
            match (sending.purpose, result) {
                (Purpose::User(_), result) => {
                    state.ended.insert(sending.id, result);
                }
                (Purpose::Rpc(_), Ok(()) | Err(JamError::PeerEnded(_))) => {}
                (Purpose::Rpc(procedure), Err(error)) if state.failed.len() < FAILED_MAX => {
                    state.failed.push_back(FailedCall {
                        to,
                        procedure,
                        bytes: sending.bytes.get().len(),
                        error,
                    });
                }
                (Purpose::Rpc(_), Err(_)) => {}
            }
        }
        if queue.is_empty() {
            state.sending.remove(&to);
        }
    }

    /// Make progress on outgoing and incoming blocks. True: something moved.
    pub(crate) fn serve(&self, pio: &Pio<F>) -> bool {
        if !self.busy.get() {
            return false;
        }
        let state = &mut *self.state.borrow_mut();
        let mut moved = false;
        while let Some(&(to, answer, words)) = state.answers.front() {
            if !self.answer(pio, to, answer, &words) {
                break;
            }
            state.answers.pop_front();
            moved = true;
        }
        moved |= self.serve_sending(state, pio);
        moved |= self.serve_active(state, pio);
        if !moved {
            state.idle = state.idle.wrapping_add(1);
            if state.idle.is_multiple_of(64) {
                self.look_for_silent(state, pio);
            }
            if state.idle.is_multiple_of(1024) {
                self.look_for_ended(state);
            }
        }
        self.note(state);
        moved
    }

    fn answer(&self, pio: &Pio<F>, to: Peer, answer: u32, words: &[u32; 2]) -> bool {
        let header = Header::new(to, Priority::High, answer);
        pio.send_as(&header, Service::Rdma, words).is_ok()
    }

    fn reply(&self, state: &mut RdmaState<F>, pio: &Pio<F>, to: Peer, answer: u32, words: [u32; 2]) {
        if !state.answers.is_empty() || !self.answer(pio, to, answer, &words) {
            state.answers.push_back((to, answer, words));
        }
    }

    fn serve_sending(&self, state: &mut RdmaState<F>, pio: &Pio<F>) -> bool {
        let mut moved = false;
        for (&to, queue) in &mut state.sending {
            let Some(sending) = queue.front_mut() else {
                continue;
            };
            if !sending.asked {
                sending.asked = ask(pio, to, sending);
                moved |= sending.asked;
            }
            while sending.granted && sending.sent < sending.bytes.get().len() {
                let bytes = sending.bytes.get();
                let part = &bytes[sending.sent..bytes.len().min(sending.sent + 4 * MAX_WORDS)];
                let mut words = [0; MAX_WORDS];
                self.fabric.charge(Cost::Copy(part.len()));
                let count = words_of(part, &mut words).max(2);
                let header = Header::new(to, Priority::High, tag(DATA, sending.id));
                if pio.send_as(&header, Service::Rdma, &words[..count]).is_err() {
                    break;
                }
                sending.sent += part.len();
                moved = true;
            }
        }
        moved
    }
}

impl<F: Fabric> RdmaState<F> {
    /// Whether a block can come: memory for the user's has been posted, and for arguments it is made.
    fn has_memory_for(&self, asked: &BlockRequest) -> bool {
        matches!(asked.purpose, Purpose::Rpc(_)) || !self.posted.is_empty()
    }

    /// The block under way to `to`, if it has this number.
    fn first_to(&mut self, to: Peer, id: u32) -> Option<&mut OutgoingBlock<F>> {
        self.sending
            .get_mut(&to)?
            .front_mut()
            .filter(|sending| sending.id == id && sending.asked)
    }
}

fn ask<F: Fabric>(pio: &Pio<F>, to: Peer, sending: &OutgoingBlock<F>) -> bool {
    let len = sending.bytes.get().len() as u64;
    let (kind, word) = match sending.purpose {
        Purpose::User(word) => (0, word),
        Purpose::Rpc(procedure) => (1, procedure),
    };
    let (kind, (base, key)) = match &sending.bytes {
        BlockBytes::Exposed(exposed) => (kind | 2, exposed.place()),
        BlockBytes::Own(_) => (kind, (0, 0)),
    };
    let low = |wide: u64| wide as u32;
    let high = |wide: u64| (wide >> 32) as u32;
    let header = Header::new(to, Priority::Low, tag(ASK, sending.id));
    let words = [
        kind,
        word,
        low(len),
        high(len),
        low(base),
        high(base),
        low(key),
        high(key),
        u32::from(sending.check),
    ];
    pio.send_as(&header, Service::Rdma, &words).is_ok()
}
