//! Long messages by Fast Messages: their receiver, once they are matched, asks for the bytes, and they go frame by frame from the
//! sender's buffer straight into the receiver's. To the engine it is the fabric's block transfer.
//!
//! ```text
//! GET      eight bytes: the receiver's name for the transfer; then key, position and length
//! PIECE    four bytes: that name, four: the number of the piece; then its bytes, PIECE of them but in the last one
//! REFUSED  eight bytes: that name. The memory is not, or no more, to be had
//! ```
//!
//! A transfer takes no memory on either side but its entry here, and no more slots than the window of Fast Messages has, so that a
//! sender never outruns a receiver who does not extract. Frames of a node arrive in order.
//!
//! Cost class: *fast path* for pieces.
#![allow(unsafe_code)]

use super::fm::Sends;
use farpost_fabric::{Descriptor, FabricError, Peer, Ticket};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Bytes of a message in one frame.
pub(super) const PIECE: usize = 120;
/// Pieces of one transfer that leave before the others have their turn.
const TURN: u32 = 64;
/// Bits of a transfer's name that are its place; above them is a number that tells it from those before it there.
const PLACE_BITS: u32 = 20;
/// Refusals that wait to leave, beyond which those who ask for what there is not get no answer.
const REFUSALS: usize = 4096;

/// Memory that a peer may get.
struct Exposed {
    peer: Peer,
    address: usize,
    len: usize,
    /// It has been asked for: once is enough.
    asked: bool,
}

/// What a peer has asked for.
struct Served {
    to: Peer,
    name: u32,
    key: u64,
    address: usize,
    len: usize,
    at: usize,
    /// It cannot be had.
    refused: bool,
}

/// How far a transfer to us is.
enum Progress {
    /// That many pieces are here.
    Coming(u32),
    Done,
    Failed,
}

/// A transfer to us.
struct Wanted {
    peer: Peer,
    local: usize,
    len: usize,
    progress: Progress,
}

/// Entries that have names which later ones in their place have not.
struct Places<T> {
    all: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Places<T> {
    const fn new() -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.free.is_empty() && self.all.len() >> PLACE_BITS != 0
    }

    fn insert(&mut self, value: T) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.all.push((0, None));
            self.all.len() as u32 - 1
        });
        let (turn, entry) = &mut self.all[place as usize];
        *turn = turn.wrapping_add(1);
        *entry = Some(value);
        *turn << PLACE_BITS | place
    }

    #[inline(always)]
    fn get(&mut self, name: u32) -> Option<&mut T> {
        let (turn, entry) = self.all.get_mut((name & ((1 << PLACE_BITS) - 1)) as usize)?;
        (*turn << PLACE_BITS == name >> PLACE_BITS << PLACE_BITS)
            .then_some(entry.as_mut())
            .flatten()
    }

    fn remove(&mut self, name: u32) -> Option<T> {
        self.get(name)?;
        let place = name & ((1 << PLACE_BITS) - 1);
        self.free.push(place);
        self.all[place as usize].1.take()
    }
}

/// The transfers of a process.
pub(super) struct Gets {
    exposed: RefCell<Places<Exposed>>,
    wanted: RefCell<Places<Wanted>>,
    /// What was asked of us, and what we have yet to ask others.
    served: RefCell<VecDeque<Served>>,
    asks: RefCell<VecDeque<(Peer, u32, [u64; 3])>>,
    /// Whether anything of these waits: one look on the fast path.
    any: Cell<bool>,
}

fn corrupt(peer: Peer, what: &'static str, value: u64) -> FabricError {
    FabricError::Corrupt { peer, what, value }
}

impl Gets {
    pub fn new() -> Self {
        Self {
            exposed: RefCell::new(Places::new()),
            wanted: RefCell::new(Places::new()),
            served: RefCell::default(),
            asks: RefCell::default(),
            any: Cell::new(false),
        }
    }

    /// Whether more transfers may be begun.
    pub fn has_room(&self) -> bool {
        !self.wanted.borrow().is_full() && !self.exposed.borrow().is_full()
    }

    /// Whether something waits to leave.
    #[inline(always)]
    pub fn has_unsent(&self) -> bool {
        self.any.get()
    }

    /// Let `peer` get memory until [`withdraw`](Self::withdraw): the key.
    ///
    /// # Safety
    /// The memory is valid until then.
    pub unsafe fn expose(&self, peer: Peer, address: usize, len: usize) -> u64 {
        let exposed = Exposed {
            peer,
            address,
            len,
            asked: false,
        };
        u64::from(self.exposed.borrow_mut().insert(exposed))
    }

    /// The memory is not touched any more.
    pub fn withdraw(&self, key: u64) {
        self.exposed.borrow_mut().remove(key as u32);
        for served in self.served.borrow_mut().iter_mut() {
            if served.key == key && !served.refused {
                served.refused = true;
            }
        }
    }

    /// Start to get what `descriptor` says.
    ///
    /// # Safety
    /// As for [`submit`](farpost_fabric::BulkTransfer::submit).
    pub unsafe fn submit(&self, descriptor: &Descriptor) -> Ticket {
        let name = self.wanted.borrow_mut().insert(Wanted {
            peer: descriptor.peer,
            local: descriptor.local,
            len: descriptor.len,
            progress: Progress::Coming(0),
        });
        let ask = [descriptor.key, descriptor.remote as u64, descriptor.len as u64];
        self.asks.borrow_mut().push_back((descriptor.peer, name, ask));
        self.any.set(true);
        Ticket(u64::from(name))
    }

    /// Whether a transfer has ended; then it is forgotten.
    pub fn poll(&self, ticket: Ticket) -> Result<bool, FabricError> {
        let mut wanted = self.wanted.borrow_mut();
        let name = ticket.0 as u32;
        let Some(one) = wanted.get(name) else {
            return Ok(true);
        };
        let (peer, result) = match one.progress {
            Progress::Coming(_) => return Ok(false),
            Progress::Done => (one.peer, Ok(true)),
            Progress::Failed => (one.peer, Err(())),
        };
        wanted.remove(name);
        result.map_err(|()| FabricError::PutFailed {
            peer,
            why: "its sender has given the message up".into(),
        })
    }

    /// Nobody waits for a transfer any more; what comes of it is dropped.
    pub fn cancel(&self, ticket: Ticket) {
        self.wanted.borrow_mut().remove(ticket.0 as u32);
        self.asks
            .borrow_mut()
            .retain(|(_, name, _)| u64::from(*name) != ticket.0);
    }

    /// Nothing goes to `peer` or comes from it any more.
    pub fn lose(&self, peer: Peer) {
        self.served.borrow_mut().retain(|served| served.to != peer);
        self.asks.borrow_mut().retain(|(to, ..)| *to != peer);
        for (_, one) in &mut self.wanted.borrow_mut().all {
            if let Some(one) = one
                && one.peer == peer
                && !matches!(one.progress, Progress::Done)
            {
                one.progress = Progress::Failed;
            }
        }
    }

    /// Send what can be sent. True: something was.
    #[inline(never)]
    pub fn push(&self, fm: &impl Sends) -> bool {
        let mut moved = false;
        self.asks.borrow_mut().retain(|(to, name, ask)| {
            let sent = fm.get(*to, u64::from(*name), ask);
            moved |= sent;
            !sent
        });
        let served = &mut *self.served.borrow_mut();
        for _ in 0..served.len() {
            let Some(mut one) = served.pop_front() else { break };
            let (over, any) = serve(&mut one, fm);
            moved |= any;
            if !over {
                served.push_back(one);
            }
        }
        self.any.set(!served.is_empty() || !self.asks.borrow().is_empty());
        moved
    }

    /// A peer asks for what it was told of.
    pub fn on_get(&self, peer: Peer, message: &[u8]) -> Result<(), FabricError> {
        let Ok(words) = <&[u8; 32]>::try_from(message) else {
            return Err(corrupt(peer, "the length of a get", message.len() as u64));
        };
        let word = |at: usize| u64::from_le_bytes(words[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        let (name, key, position, len) = (word(0) as u32, word(1), word(2), word(3));
        let mut exposed = self.exposed.borrow_mut();
        let found = u32::try_from(key).ok().and_then(|key| exposed.get(key));
        let mut one = Served {
            to: peer,
            name,
            key,
            address: 0,
            len: 0,
            at: 0,
            refused: true,
        };
        let served = &mut *self.served.borrow_mut();
        let result = match found {
            Some(memory) if memory.peer != peer || memory.asked => {
                return Err(corrupt(peer, "the key of memory that it may get once", key));
            }
            Some(memory)
                if position as usize > memory.len || len as usize > memory.len - position as usize =>
            {
                Err(corrupt(peer, "the length of what it gets", len))
            }
            Some(memory) => {
                memory.asked = true;
                one.address = memory.address + position as usize;
                one.len = len as usize;
                one.refused = false;
                Ok(())
            }
            // Its sender may just have given it up.
            None => Ok(()),
        };
        if one.refused && served.len() > REFUSALS {
            return Err(corrupt(peer, "the key of memory that it may get", key));
        }
        served.push_back(one);
        self.any.set(true);
        result
    }

    /// A piece of what we asked for.
    #[inline(always)]
    pub fn on_piece(&self, peer: Peer, message: &[u8]) -> Result<(), FabricError> {
        let Some((header, bytes)) = message.split_first_chunk::<8>() else {
            return Err(corrupt(peer, "the length of a piece", message.len() as u64));
        };
        let header = u64::from_le_bytes(*header);
        let mut wanted = self.wanted.borrow_mut();
        let Some(one) = wanted.get(header as u32).filter(|one| one.peer == peer) else {
            // It was cancelled.
            return Ok(());
        };
        let Progress::Coming(number) = one.progress else {
            return Ok(());
        };
        let at = number as usize * PIECE;
        if header >> 32 != u64::from(number) || bytes.len() != PIECE.min(one.len - at) {
            one.progress = Progress::Failed;
            return Err(corrupt(peer, "the number or the length of a piece", header));
        }
        let to = std::ptr::with_exposed_provenance_mut::<u8>(one.local + at);
        // SAFETY: `submit`'s caller vouches for `one.len` bytes at `one.local` until the transfer is polled to its end or cancelled,
        // when its entry goes; the bytes end within them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        one.progress = if at + bytes.len() == one.len {
            Progress::Done
        } else {
            Progress::Coming(number + 1)
        };
        Ok(())
    }

    /// What we asked for cannot be had.
    pub fn on_refused(&self, peer: Peer, message: &[u8]) -> Result<(), FabricError> {
        let Ok(name) = <[u8; 8]>::try_from(message) else {
            return Err(corrupt(peer, "the length of a refusal", message.len() as u64));
        };
        let mut wanted = self.wanted.borrow_mut();
        if let Some(one) = wanted.get(u64::from_le_bytes(name) as u32)
            && one.peer == peer
            && !matches!(one.progress, Progress::Done)
        {
            one.progress = Progress::Failed;
        }
        Ok(())
    }
}

/// Send some of what a peer asked for: whether all of it has left, and whether any.
fn serve(one: &mut Served, fm: &impl Sends) -> (bool, bool) {
    if one.refused {
        let sent = fm.refuse(one.to, u64::from(one.name));
        return (sent, sent);
    }
    for turn in 0..TURN {
        let len = PIECE.min(one.len - one.at);
        let from = std::ptr::with_exposed_provenance::<u8>(one.address + one.at);
        // SAFETY: `expose`'s caller vouches for the memory until `withdraw`, which refuses what is left of this transfer; the bytes
        // were found to lie in it.
        let bytes = unsafe { std::slice::from_raw_parts(from, len) };
        let header = u64::from(one.name) | ((one.at / PIECE) as u64) << 32;
        if !fm.piece(one.to, header, bytes) {
            return (false, turn > 0);
        }
        one.at += len;
        if one.at == one.len {
            return (true, true);
        }
    }
    (false, true)
}
