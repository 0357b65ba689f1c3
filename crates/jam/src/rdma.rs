//! RDMA mode (section 5.3): a block transfer into the receiver's memory, which one sender owns at a time.
//!
//! The protocol, of which the paper says only that software must make the sender the receiver's sole owner, with
//! low-priority messages:
//!
//! ```text
//! sender                              receiver
//! ask (low): bytes, place    ──────▶  waits its turn; one block at a time
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
use farpost_fabric::{Fabric, FabricError, Fault, Peer, Port, Priority};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

const ASK: u32 = 0;
const GRANT: u32 = 1;
const DATA: u32 = 2;
const DONE: u32 = 3;

/// In the answer to an ask.
const FITTED: u32 = 0;
const TOO_LONG: u32 = 1;

/// The tag of a message of this protocol: what it is, and which transfer of the sender's it is about.
fn tag(kind: u32, id: u32) -> u32 {
    kind << 30 | id
}

const ID_MASK: u32 = (1 << 30) - 1;

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The user's, with a word of theirs.
    User(u32),
    /// The argument of this procedure.
    Rpc(u32),
}

/// A block that has come.
#[derive(Debug)]
pub struct Block {
    /// Who sent it.
    pub from: Peer,
    /// The sender's word.
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

enum Bytes<F: Fabric> {
    /// The receiver may fetch them.
    Exposed(Exposed<F>),
    /// They go by packets.
    Own(Buffer),
}

impl<F: Fabric> Bytes<F> {
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Exposed(exposed) => exposed.bytes(),
            Bytes::Own(bytes) => bytes.bytes(),
        }
    }
}

/// A block of mine.
struct Sending<F: Fabric> {
    id: u32,
    purpose: Use,
    bytes: Bytes<F>,
    asked: bool,
    granted: bool,
    sent: usize,
}

/// A block that a peer wants to send.
struct Asked {
    from: Peer,
    id: u32,
    purpose: Use,
    len: usize,
    /// Where the sender lets it be fetched.
    place: Option<(u64, u64)>,
}

enum Way<F: Fabric> {
    Fetch(Fetch<F>),
    /// Memory and how much of it has come.
    Packets(Buffer, usize),
}

struct Active<F: Fabric> {
    asked: Asked,
    way: Way<F>,
}

struct State<F: Fabric> {
    next: u32,
    /// By receiver; the first of each is under way.
    sending: HashMap<Peer, VecDeque<Sending<F>>>,
    asked: VecDeque<Asked>,
    active: Option<Active<F>>,
    posted: VecDeque<Buffer>,
    arrived: VecDeque<Block>,
    /// Arguments of procedures that have come.
    arguments: VecDeque<(Peer, u32, Buffer)>,
    /// Answers that found no room.
    answers: VecDeque<(Peer, u32, u32)>,
    ended: HashMap<u32, Result<(), JamError>>,
    idle: u32,
}

/// The block transfers of one process.
pub struct Rdma<F: Fabric> {
    fabric: Rc<F>,
    faults: Rc<Faults<F>>,
    most: usize,
    state: RefCell<State<F>>,
}

/// Names a block that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer(u32);

impl Transfer {
    /// Its number, for those who cannot hold the name.
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
            state: RefCell::new(State {
                next: 0,
                sending: HashMap::new(),
                asked: VecDeque::new(),
                active: None,
                posted: VecDeque::new(),
                arrived: VecDeque::new(),
                arguments: VecDeque::new(),
                answers: VecDeque::new(),
                ended: HashMap::new(),
                idle: 0,
            }),
        }
    }

    /// Send a block. It goes with later calls of [`Jam::poll`](crate::Jam::poll), once the receiver is this
    /// process's alone.
    ///
    /// # Errors
    /// The receiver does not exist.
    pub fn send(&self, to: Peer, tag: u32, bytes: impl Into<Buffer>) -> Result<Transfer, JamError> {
        self.start(to, Use::User(tag), bytes.into())
    }

    pub(crate) fn start(&self, to: Peer, purpose: Use, bytes: Buffer) -> Result<Transfer, JamError> {
        let size = self.fabric.size();
        if to.0 >= size {
            return Err(JamError::NoSuchPeer { peer: to, size });
        }
        let state = &mut *self.state.borrow_mut();
        let id = state.next;
        state.next = (id + 1) & ID_MASK;
        let bytes = if !bytes.is_empty() && self.fabric.can_transfer(to) {
            match Exposed::new(&self.fabric, to, bytes) {
                Ok(exposed) => Bytes::Exposed(exposed),
                Err((bytes, _)) => Bytes::Own(bytes),
            }
        } else {
            Bytes::Own(bytes)
        };
        state.sending.entry(to).or_default().push_back(Sending {
            id,
            purpose,
            bytes,
            asked: false,
            granted: false,
            sent: 0,
        });
        Ok(Transfer(id))
    }

    /// Whether a block of the user's has gone, or why it did not. After an answer other than `None` the name is
    /// used up.
    pub fn ended(&self, transfer: Transfer) -> Option<Result<(), JamError>> {
        self.state.borrow_mut().ended.remove(&transfer.0)
    }

    /// Memory for a block of a peer's: the next one asked for goes there.
    pub fn post(&self, memory: impl Into<Buffer>) {
        self.state.borrow_mut().posted.push_back(memory.into());
    }

    /// The next block that has come.
    pub fn arrived(&self) -> Option<Block> {
        self.state.borrow_mut().arrived.pop_front()
    }

    /// The next argument of a procedure that has come.
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

    /// A message of this protocol.
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

    fn too_long(&self, state: &State<F>, to: Peer) -> JamError {
        let bytes = state.sending.get(&to).and_then(|queue| queue.front());
        JamError::TooLong {
            what: "a block transfer that the receiver has no memory for",
            bytes: bytes.map_or(0, |sending| sending.bytes.get().len()),
            most: 0,
        }
    }

    fn end_first(&self, state: &mut State<F>, to: Peer, result: Result<(), JamError>) {
        let Some(queue) = state.sending.get_mut(&to) else {
            return;
        };
        if let Some(sending) = queue.pop_front()
            && matches!(sending.purpose, Use::User(_))
        {
            state.ended.insert(sending.id, result);
        }
        if queue.is_empty() {
            state.sending.remove(&to);
        }
    }

    fn on_ask(&self, state: &mut State<F>, pio: &Pio<F>, message: &Message, id: u32) {
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
            0 => Use::User(word),
            _ => Use::Rpc(word),
        };
        state.asked.push_back(Asked {
            from,
            id,
            purpose,
            len: usize::try_from(wide(len, len_high)).unwrap_or(usize::MAX),
            place: (kind & 2 != 0).then(|| (wide(base, base_high), wide(key, key_high))),
        });
    }

    fn on_data(&self, state: &mut State<F>, pio: &Pio<F>, message: &Message, id: u32) {
        let Some(Active {
            asked,
            way: Way::Packets(memory, at),
        }) = &mut state.active
        else {
            return pio.refuse(message.from, "a packet of no transfer", u64::from(id));
        };
        if asked.from != message.from || asked.id != id || *at == asked.len {
            return pio.refuse(message.from, "a packet of another's transfer", u64::from(id));
        }
        let mut bytes = [0; 4 * MAX_WORDS];
        let len = bytes_of(message.words(), &mut bytes).min(asked.len - *at);
        memory.bytes_mut()[*at..*at + len].copy_from_slice(&bytes[..len]);
        *at += len;
    }

    /// Move blocks along, both ways. True: something moved.
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

    fn reply(&self, state: &mut State<F>, pio: &Pio<F>, to: Peer, answer: u32, word: u32) {
        if !state.answers.is_empty() || !self.answer(pio, to, answer, word) {
            state.answers.push_back((to, answer, word));
        }
    }

    fn serve_sending(&self, state: &mut State<F>, pio: &Pio<F>) -> bool {
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

    fn serve_active(&self, state: &mut State<F>, pio: &Pio<F>) -> bool {
        if state.active.is_none() && !self.admit(state, pio) {
            return false;
        }
        let Some(active) = &mut state.active else {
            return true;
        };
        let (from, id) = (active.asked.from, active.asked.id);
        match &mut active.way {
            Way::Packets(_, at) if *at < active.asked.len => return false,
            Way::Packets(..) => {}
            Way::Fetch(fetch) => match fetch.finished() {
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
        let Some((asked, memory)) = state.active.take().and_then(Active::end) else {
            return true;
        };
        match asked.purpose {
            Use::Rpc(procedure) => state.arguments.push_back((from, procedure, memory)),
            Use::User(tag) => state.arrived.push_back(Block {
                from,
                tag,
                memory,
                len: asked.len,
            }),
        }
        self.reply(state, pio, from, tag(DONE, id), FITTED);
        true
    }

    /// Make the next one the owner.
    fn admit(&self, state: &mut State<F>, pio: &Pio<F>) -> bool {
        let may = |asked: &Asked| matches!(asked.purpose, Use::Rpc(_)) || !state.posted.is_empty();
        let Some(index) = state.asked.iter().position(may) else {
            return false;
        };
        let Some(asked) = state.asked.remove(index) else {
            return false;
        };
        let (from, id) = (asked.from, asked.id);
        let most = match asked.purpose {
            Use::Rpc(_) => self.most,
            Use::User(_) => state.posted.front().map_or(0, Buffer::len),
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
            Use::User(_) => state.posted.pop_front(),
            Use::Rpc(_) => None,
        };
        let mut memory = posted.unwrap_or_else(|| vec![0; asked.len].into());
        if let Some(place) = asked.place
            && asked.len > 0
            && self.fabric.can_transfer(from)
        {
            match Fetch::new(&self.fabric, from, place, (memory, asked.len)) {
                Ok(fetch) => {
                    let way = Way::Fetch(fetch);
                    state.active = Some(Active { asked, way });
                    return true;
                }
                Err((back, _)) => memory = back,
            }
        }
        let way = Way::Packets(memory, 0);
        state.active = Some(Active { asked, way });
        self.reply(state, pio, from, tag(GRANT, id), 0);
        true
    }

    /// Nobody waits for a process that has ended.
    #[cold]
    fn look_for_ended(&self, state: &mut State<F>) {
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

impl<F: Fabric> Active<F> {
    /// The owner's right ends; the memory is ours again.
    fn end(self) -> Option<(Asked, Buffer)> {
        let memory = match self.way {
            Way::Packets(memory, _) => memory,
            Way::Fetch(mut fetch) => fetch.take()?,
        };
        Some((self.asked, memory))
    }
}

impl<F: Fabric> State<F> {
    /// The block under way does not come: the user's memory is for the next one.
    fn give_back(&mut self) {
        if let Some((asked, memory)) = self.active.take().and_then(Active::end)
            && matches!(asked.purpose, Use::User(_))
        {
            self.posted.push_front(memory);
        }
    }

    /// The block under way to `to`, if it is this one.
    fn first_to(&mut self, to: Peer, id: u32) -> Option<&mut Sending<F>> {
        self.sending
            .get_mut(&to)?
            .front_mut()
            .filter(|sending| sending.id == id && sending.asked)
    }
}

fn ask<F: Fabric>(pio: &Pio<F>, to: Peer, sending: &Sending<F>) -> bool {
    let len = sending.bytes.get().len() as u64;
    let (kind, word) = match sending.purpose {
        Use::User(word) => (0, word),
        Use::Rpc(procedure) => (1, procedure),
    };
    let (kind, (base, key)) = match &sending.bytes {
        Bytes::Exposed(exposed) => (kind | 2, exposed.place()),
        Bytes::Own(_) => (kind, (0, 0)),
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
