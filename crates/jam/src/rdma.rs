//! RDMA mode (section 5.3): a block transfer into the receiver's memory, which one sender owns at a time.
//!
//! The protocol, of which the paper says only that software must make the sender the receiver's sole owner, with
//! low-priority messages:
//!
//! ```text
//! sender                              receiver
//! ask (low): bytes, address  ──────▶  waits its turn; one block at a time
//!                                     fetches it where the fabric transfers between memories, else
//!                            ◀──────  grant (high)
//! packets of 88 bytes (high) ──────▶  in order, without sequence numbers or addresses, as in the paper
//!                            ◀──────  done (high): whether it fitted
//! ```
//!
//! Requests are low, answers high, so that a full request queue never holds up what would empty it. An owner that
//! ends loses its right; what has come of its block is dropped.
//!
//! The user's blocks go to memory that the receiver has posted, in order of the asking. Cost class: queued path.

use crate::bulk::{Buffer, Exposed, Fetch};
use crate::faults::Faults;
use crate::message::{Header, Message, Service};
use crate::pio::{Pio, bytes_of, words_of};
use crate::{JamError, MAX_WORDS};
use farpost_fabric::{Cost, Fabric, FabricError, Fault, Peer, Port, Priority};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

const ASK: u32 = 0;
const GRANT: u32 = 1;
const DATA: u32 = 2;
const DONE: u32 = 3;

/// In the answer to an ask.
const FITTED: u32 = 0;
const TOO_LONG: u32 = 1;

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
}

struct RdmaState<F: Fabric> {
    next: u32,
    /// By receiver; the first of each is under way.
    sending: BTreeMap<Peer, VecDeque<OutgoingBlock<F>>>,
    asked: VecDeque<BlockRequest>,
    active: Option<ActiveTransfer<F>>,
    posted: VecDeque<Buffer>,
    arrived: VecDeque<Block>,
    /// Arguments of procedures that have arrived.
    arguments: VecDeque<(Peer, u32, Buffer)>,
    /// Answers that wait for the low-priority queue.
    answers: VecDeque<(Peer, u32, u32)>,
    ended: BTreeMap<u32, Result<(), JamError>>,
    idle: u32,
}

/// The block transfers of one process.
pub struct Rdma<F: Fabric> {
    fabric: Rc<F>,
    faults: Rc<Faults<F>>,
    most: usize,
    state: RefCell<RdmaState<F>>,
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

impl<F: Fabric> Rdma<F> {
    pub(crate) fn new(faults: Rc<Faults<F>>, fabric: Rc<F>, most: u64) -> Self {
        Self {
            fabric,
            faults,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            state: RefCell::new(RdmaState {
                next: 0,
                sending: BTreeMap::new(),
                asked: VecDeque::new(),
                active: None,
                posted: VecDeque::new(),
                arrived: VecDeque::new(),
                arguments: VecDeque::new(),
                answers: VecDeque::new(),
                ended: BTreeMap::new(),
                idle: 0,
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
            asked: false,
            granted: false,
            sent: 0,
        });
        Ok(Transfer(id))
    }
    /// Whether a block of the user's was sent, or why not. After an answer other than `None` the handle is invalid.
    pub fn ended(&self, transfer: Transfer) -> Option<Result<(), JamError>> {
        self.state.borrow_mut().ended.remove(&transfer.0)
    }

    /// Post memory for a block of a peer's: the next one asked for goes there.
    pub fn post(&self, memory: impl Into<Buffer>) {
        self.state.borrow_mut().posted.push_back(memory.into());
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
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.borrow();
        state.sending.is_empty()
            && state.asked.is_empty()
            && state.active.is_none()
            && state.answers.is_empty()
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
            DONE if high => match state.first_to(from, id) {
                Some(_) => {
                    let result = match message.words()[0] {
                        FITTED => Ok(()),
                        _ => Err(self.too_long(state, from)),
                    };
                    self.end_first(state, from, result);
                }
                None => pio.refuse(from, "the end of a transfer", u64::from(id)),
            },
            _ => pio.refuse(from, "a message of the block transfer", u64::from(message.tag)),
        }
    }

    fn too_long(&self, state: &RdmaState<F>, to: Peer) -> JamError {
        let bytes = state.sending.get(&to).and_then(|queue| queue.front());
        JamError::TooLong {
            what: "a block transfer that the receiver has no memory for",
            bytes: bytes.map_or(0, |sending| sending.bytes.get().len()),
            most: 0,
        }
    }

    fn end_first(&self, state: &mut RdmaState<F>, to: Peer, result: Result<(), JamError>) {
        let Some(queue) = state.sending.get_mut(&to) else {
            return;
        };
        if let Some(sending) = queue.pop_front()
            && matches!(sending.purpose, Purpose::User(_))
        {
            state.ended.insert(sending.id, result);
        }
        if queue.is_empty() {
            state.sending.remove(&to);
        }
    }

    fn on_ask(&self, state: &mut RdmaState<F>, pio: &Pio<F>, message: &Message, id: u32) {
        let from = message.from;
        let &[kind, word, len, len_high, base, base_high, key, key_high] = message.words() else {
            return pio.refuse(from, "the length of an ask", message.words().len() as u64);
        };
        let wide = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let already = state.asked.iter().any(|asked| asked.from == from)
            || state
                .active
                .as_ref()
                .is_some_and(|active| active.asked.from == from);
        if already {
            return pio.refuse(from, "a second ask", u64::from(id));
        }
        let purpose = match kind & 1 {
            0 => Purpose::User(word),
            _ => Purpose::Rpc(word),
        };
        state.asked.push_back(BlockRequest {
            from,
            id,
            purpose,
            len: usize::try_from(wide(len, len_high)).unwrap_or(usize::MAX),
            place: (kind & 2 != 0).then(|| (wide(base, base_high), wide(key, key_high))),
        });
    }

    fn on_data(&self, state: &mut RdmaState<F>, pio: &Pio<F>, message: &Message, id: u32) {
        let Some(ActiveTransfer {
            asked,
            source: BlockSource::Packets(memory, at),
        }) = &mut state.active
        else {
            return pio.refuse(message.from, "a packet of no transfer", u64::from(id));
        };
        if asked.from != message.from || asked.id != id || *at == asked.len {
            return pio.refuse(message.from, "a packet of another's transfer", u64::from(id));
        }
        let mut bytes = [0; 4 * MAX_WORDS];
        let len = bytes_of(message.words(), &mut bytes).min(asked.len - *at);
        self.fabric.charge(Cost::Copy(len));
        memory.bytes_mut()[*at..*at + len].copy_from_slice(&bytes[..len]);
        *at += len;
    }

    /// Make progress on outgoing and incoming blocks. True: something moved.
    pub(crate) fn serve(&self, pio: &Pio<F>) -> bool {
        if self.is_idle() {
            return false;
        }
        let state = &mut *self.state.borrow_mut();
        let mut moved = false;
        while let Some(&(to, answer, word)) = state.answers.front() {
            if !self.answer(pio, to, answer, word) {
                break;
            }
            state.answers.pop_front();
            moved = true;
        }
        moved |= self.serve_sending(state, pio);
        moved |= self.serve_active(state, pio);
        if !moved {
            state.idle = state.idle.wrapping_add(1);
            if state.idle.is_multiple_of(1024) {
                self.look_for_ended(state);
            }
        }
        moved
    }

    fn answer(&self, pio: &Pio<F>, to: Peer, answer: u32, word: u32) -> bool {
        let header = Header::new(to, Priority::High, answer);
        pio.send_as(&header, Service::Rdma, &[word, 0]).is_ok()
    }

    fn reply(&self, state: &mut RdmaState<F>, pio: &Pio<F>, to: Peer, answer: u32, word: u32) {
        if !state.answers.is_empty() || !self.answer(pio, to, answer, word) {
            state.answers.push_back((to, answer, word));
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

    fn serve_active(&self, state: &mut RdmaState<F>, pio: &Pio<F>) -> bool {
        if state.active.is_none() && !self.admit(state, pio) {
            return false;
        }
        let Some(active) = &mut state.active else {
            return true;
        };
        let (from, id) = (active.asked.from, active.asked.id);
        match &mut active.source {
            BlockSource::Packets(_, at) if *at < active.asked.len => return false,
            BlockSource::Packets(..) => {}
            BlockSource::Fetch(fetch) => match fetch.finished() {
                Ok(false) => return false,
                Ok(true) => {}
                Err(error) => {
                    let fault = Fault { peer: from, error };
                    self.faults.record(fault);
                    state.give_back();
                    self.reply(state, pio, from, tag(DONE, id), TOO_LONG);
                    return true;
                }
            },
        }
        let Some((asked, memory)) = state.active.take().and_then(ActiveTransfer::end) else {
            return true;
        };
        match asked.purpose {
            Purpose::Rpc(procedure) => state.arguments.push_back((from, procedure, memory)),
            Purpose::User(tag) => state.arrived.push_back(Block {
                from,
                tag,
                memory,
                len: asked.len,
            }),
        }
        self.reply(state, pio, from, tag(DONE, id), FITTED);
        true
    }

    /// Make the sender of the next request the owner.
    fn admit(&self, state: &mut RdmaState<F>, pio: &Pio<F>) -> bool {
        let may = |asked: &BlockRequest| matches!(asked.purpose, Purpose::Rpc(_)) || !state.posted.is_empty();
        let Some(index) = state.asked.iter().position(may) else {
            return false;
        };
        let Some(asked) = state.asked.remove(index) else {
            return false;
        };
        let (from, id) = (asked.from, asked.id);
        let most = match asked.purpose {
            Purpose::Rpc(_) => self.most,
            Purpose::User(_) => state.posted.front().map_or(0, Buffer::len),
        };
        if asked.len > most {
            self.faults.record(Fault {
                peer: from,
                error: FabricError::OutOfRange {
                    offset: 0,
                    end: asked.len,
                    len: most,
                },
            });
            self.reply(state, pio, from, tag(DONE, id), TOO_LONG);
            return true;
        }
        let posted = match asked.purpose {
            Purpose::User(_) => state.posted.pop_front(),
            Purpose::Rpc(_) => None,
        };
        let mut memory = posted.unwrap_or_else(|| vec![0; asked.len].into());
        if let Some(place) = asked.place
            && asked.len > 0
            && self.fabric.can_transfer(from)
        {
            match Fetch::new(&self.fabric, from, place, (memory, asked.len)) {
                Ok(fetch) => {
                    let source = BlockSource::Fetch(fetch);
                    state.active = Some(ActiveTransfer { asked, source });
                    return true;
                }
                Err((back, _)) => memory = back,
            }
        }
        let source = BlockSource::Packets(memory, 0);
        state.active = Some(ActiveTransfer { asked, source });
        self.reply(state, pio, from, tag(GRANT, id), 0);
        true
    }

    /// Cancel what waits for processes that have ended.
    #[cold]
    fn look_for_ended(&self, state: &mut RdmaState<F>) {
        let fabric = &self.fabric;
        state.asked.retain(|asked| !fabric.is_gone(asked.from));
        // Its last packets may have come and wait to be looked at.
        let waits = |priority| fabric.packets_waiting(Port::JamService, priority, 1) > 0;
        if let Some(active) = &state.active
            && fabric.is_gone(active.asked.from)
            && !Priority::ALL.into_iter().any(waits)
        {
            let peer = active.asked.from;
            state.give_back();
            self.faults.record(Fault {
                peer,
                error: FabricError::PeerDead {
                    peer,
                    why: "it ended while it owned this process's block transfer".into(),
                },
            });
        }
        let gone: Vec<Peer> = state
            .sending
            .keys()
            .copied()
            .filter(|to| fabric.is_gone(*to))
            .collect();
        for to in gone {
            while state.sending.contains_key(&to) {
                self.end_first(state, to, Err(JamError::PeerEnded(to)));
            }
        }
        state.answers.retain(|(to, ..)| !fabric.is_gone(*to));
    }
}

impl<F: Fabric> ActiveTransfer<F> {
    /// End the ownership; the memory is this process's again.
    fn end(self) -> Option<(BlockRequest, Buffer)> {
        let memory = match self.source {
            BlockSource::Packets(memory, _) => memory,
            BlockSource::Fetch(mut fetch) => fetch.take()?,
        };
        Some((self.asked, memory))
    }
}

impl<F: Fabric> RdmaState<F> {
    /// Cancel the block under way: the user's memory is for the next one.
    fn give_back(&mut self) {
        if let Some((asked, memory)) = self.active.take().and_then(ActiveTransfer::end)
            && matches!(asked.purpose, Purpose::User(_))
        {
            self.posted.push_front(memory);
        }
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
    ];
    pio.send_as(&header, Service::Rdma, &words).is_ok()
}
