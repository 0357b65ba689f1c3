//! Puts on their way out: cut into messages, and kept in order while the layer below has no room.
//!
//! Bounded by the credits of who puts: postboxes and blocks.
//!
//! Cost class: *fast path* while there is room.

use super::{Offered, fm::ByFm, jam::ByJam};
use farpost_fabric::{Fabric, FabricError, Fault, Peer};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The most that a message of either layer carries.
const MOST: usize = 120;

/// The layer.
pub(super) enum Layer<F: Fabric + 'static> {
    Fm(ByFm<F>),
    Jam(ByJam<F>),
}

struct Message {
    id: u32,
    offset: u32,
    len: u8,
    bytes: [u8; MOST],
}

/// What waits for one peer.
#[derive(Default)]
struct Waiting {
    messages: VecDeque<Message>,
    lost: bool,
}

/// A layer, and what it has no room for.
pub(super) struct Outbox<F: Fabric + 'static> {
    pub layer: Layer<F>,
    most: usize,
    /// Whether anything waits: one look on the fast path.
    any: Cell<bool>,
    waiting: RefCell<Vec<Waiting>>,
}

impl<F: Fabric + 'static> Layer<F> {
    #[inline(always)]
    fn offer(&self, to: Peer, id: u32, offset: u32, bytes: &[u8]) -> Offered {
        match self {
            Layer::Fm(fm) => fm.offer(to, id, offset, bytes),
            Layer::Jam(jam) => jam.offer(to, id, offset, bytes),
        }
    }

    /// Take in what has come, and send what waits below: how many messages.
    #[inline(always)]
    pub fn poll(&self) -> u32 {
        match self {
            Layer::Fm(fm) => fm.poll(),
            Layer::Jam(jam) => jam.poll(),
        }
    }

    /// Before sleeping.
    pub fn rest(&self) {
        match self {
            Layer::Fm(fm) => fm.rest(),
            Layer::Jam(_) => {}
        }
    }

    /// Whether something has not left the process.
    fn has_unsent(&self) -> bool {
        match self {
            Layer::Fm(fm) => fm.has_unsent(),
            Layer::Jam(_) => false,
        }
    }

    /// Faults that the layer keeps by itself.
    pub fn take_faults(&self) -> (Vec<Fault>, u64) {
        match self {
            Layer::Fm(fm) => fm.take_faults(),
            Layer::Jam(_) => (Vec::new(), 0),
        }
    }

    fn lose(&self, peer: Peer) {
        match self {
            Layer::Fm(fm) => fm.lose(peer),
            Layer::Jam(_) => {}
        }
    }
}

impl<F: Fabric + 'static> Outbox<F> {
    pub fn new(layer: Layer<F>, peers: u32) -> Self {
        let most = match &layer {
            Layer::Fm(_) => ByFm::<F>::MOST,
            Layer::Jam(_) => ByJam::<F>::MOST,
        };
        assert!(most <= MOST);
        let mut waiting = Vec::new();
        waiting.resize_with(peers as usize, Waiting::default);
        Self {
            layer,
            most,
            any: Cell::new(false),
            waiting: RefCell::new(waiting),
        }
    }

    /// Write `bytes` at `offset` of the peer's segment `id`. Keeps the order of puts to one peer. `offset` and length have
    /// been checked.
    ///
    /// # Errors
    /// The peer is lost.
    #[inline(always)]
    pub fn put(&self, to: Peer, id: u32, offset: usize, bytes: &[u8]) -> Result<(), FabricError> {
        if bytes.len() <= self.most && !self.any.get() && self.layer.offer(to, id, offset as u32, bytes)? {
            return Ok(());
        }
        self.put_slowly(to, id, offset, bytes)
    }

    #[inline(never)]
    fn put_slowly(&self, to: Peer, id: u32, offset: usize, bytes: &[u8]) -> Result<(), FabricError> {
        let mut waiting = self.waiting.borrow_mut();
        let mine = &mut waiting[to.index()];
        if mine.lost {
            return Err(lost(to));
        }
        let mut at = offset;
        for part in bytes.chunks(self.most) {
            if !mine.messages.is_empty() || !self.layer.offer(to, id, at as u32, part)? {
                let mut message = Message {
                    id,
                    offset: at as u32,
                    len: part.len() as u8,
                    bytes: [0; MOST],
                };
                message.bytes[..part.len()].copy_from_slice(part);
                mine.messages.push_back(message);
                self.any.set(true);
            }
            at += part.len();
        }
        Ok(())
    }

    /// Move what can be moved: whether something was.
    #[inline(always)]
    pub fn progress(&self) -> bool {
        let moved = self.layer.poll() > 0;
        if self.any.get() {
            return self.push() | moved;
        }
        moved
    }

    #[inline(never)]
    fn push(&self) -> bool {
        let (mut moved, mut left) = (false, false);
        for (index, mine) in self.waiting.borrow_mut().iter_mut().enumerate() {
            let to = Peer(index as u32);
            while let Some(message) = mine.messages.front() {
                let bytes = &message.bytes[..usize::from(message.len)];
                match self.layer.offer(to, message.id, message.offset, bytes) {
                    Ok(true) => {
                        mine.messages.pop_front();
                        moved = true;
                    }
                    Ok(false) => {
                        left = true;
                        break;
                    }
                    // The next put says so.
                    Err(_) => {
                        mine.messages.clear();
                        mine.lost = true;
                    }
                }
            }
        }
        self.any.set(left);
        moved
    }

    /// Whether puts to the peer still go anywhere.
    pub fn check(&self, peer: Peer) -> Result<(), FabricError> {
        if self.waiting.borrow()[peer.index()].lost {
            return Err(lost(peer));
        }
        Ok(())
    }

    /// Whether something has not left this process, and nobody will be rung when there is room for it.
    pub fn has_unsent(&self) -> bool {
        self.any.get() || self.layer.has_unsent()
    }

    /// Nobody takes what waits for `peer`.
    pub fn lose(&self, peer: Peer) {
        let mut waiting = self.waiting.borrow_mut();
        let mine = &mut waiting[peer.index()];
        if !mine.lost {
            mine.messages.clear();
            mine.lost = true;
            self.layer.lose(peer);
        }
    }
}

#[cold]
fn lost(peer: Peer) -> FabricError {
    FabricError::PeerDead {
        peer,
        why: "its process has ended".into(),
    }
}
