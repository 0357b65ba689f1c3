//! Rendezvous slots: lines of an area that owner and receivers may use for whatever they agree on, where the fabric
//! maps memory.

use crate::area::RENDEZVOUS_SLOTS;
use crate::postbox::Postboxes;
use crate::shared_copy::SharedCopy;
use farpost_fabric::sync::{AtomicU64, Ordering, fence};
use farpost_fabric::{Fabric, LINE_BYTES, LocalMemory, Peer, RemoteMemory};

impl<F: Fabric> Postboxes<F> {
    /// My rendezvous slots: lines in my area that receivers may read and write too. None where the fabric does not map
    /// even the processes of one host.
    pub fn my_slots(&mut self) -> Option<RendezvousSlots<F>> {
        if !self.fabric.maps(self.fabric.me()) {
            return None;
        }
        self.ensure_own_area();
        let memory = self.own_area.clone()?;
        Some(RendezvousSlots {
            memory,
            offset: self.layout.slots(),
        })
    }

    /// The rendezvous slots of a process that has opened a queue to us.
    pub fn slots_of(&self, peer: Peer) -> Option<RendezvousSlots<F>> {
        if !self.fabric.maps(peer) {
            return None;
        }
        let rx = self.rx[peer.index()].as_deref()?;
        Some(RendezvousSlots {
            memory: rx.memory.clone(),
            offset: rx.layout.slots(),
        })
    }
}

/// Lines of an area that owner and receivers both may touch.
pub struct RendezvousSlots<F: RemoteMemory> {
    memory: F::Export,
    offset: usize,
}

impl<F: RemoteMemory> RendezvousSlots<F> {
    /// Lines on it.
    pub const LINES: u32 = RENDEZVOUS_SLOTS as u32;

    fn at(&self, line: u32, word: usize) -> usize {
        assert!(line < Self::LINES && word < 8);
        self.offset + line as usize * LINE_BYTES + word * 8
    }

    /// Load a word of a line.
    pub fn load(&self, line: u32, word: usize) -> u64 {
        self.memory.load(self.at(line, word))
    }

    /// Store a word of a line.
    pub fn store(&self, line: u32, word: usize, value: u64) {
        self.memory.store(self.at(line, word), value);
    }

    /// Add to a word of a line; the value before.
    pub fn fetch_add(&self, line: u32, word: usize, amount: u64) -> u64 {
        self.memory.fetch_add(self.at(line, word), amount)
    }

    /// A line by which both sides copy.
    pub fn slot(&self, line: u32) -> RendezvousSlot<'_, F::Export> {
        RendezvousSlot::new(&self.memory, self.at(line, 0))
    }
}

/// Words of a line behind those of the [`SharedCopy`].
const RECORD: usize = 3;
const OPEN: usize = 4;
const CLOSED: usize = 5;

/// A line by which the owner of rendezvous slots and one receiver copy together what the owner has offered. The receiver opens it, once it knows
/// where the bytes go, and closes it when all are there. The owner uses it again when it is closed.
///
/// Third processes map the line too, so that nothing in it says where bytes go: it says where in the receiver's own memory a
/// [`Record`] of that lies.
pub struct RendezvousSlot<'a, M> {
    memory: &'a M,
    offset: usize,
}

impl<'a, M: LocalMemory> RendezvousSlot<'a, M> {
    /// The line at `offset` of a memory.
    #[must_use]
    pub fn new(memory: &'a M, offset: usize) -> Self {
        Self { memory, offset }
    }

    /// The parts that both copy.
    #[must_use]
    pub fn copy(&self) -> SharedCopy<'a, M> {
        SharedCopy::new(self.memory, self.offset)
    }

    fn load(&self, word: usize) -> u64 {
        self.memory.load(self.offset + word * 8)
    }

    fn store(&self, word: usize, value: u64) {
        self.memory.store(self.offset + word * 8, value);
    }

    /// Owner: before the line is offered.
    pub fn clear(&self) {
        self.copy().clear();
        for word in [RECORD, OPEN, CLOSED] {
            self.store(word, 0);
        }
    }

    /// Receiver: the owner may copy too, as the record at `record` says (0: there is none).
    pub fn open(&self, record: u64) {
        self.store(RECORD, record);
        self.store(OPEN, 1);
    }

    /// Owner: whether the receiver has opened it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.load(OPEN) != 0
    }

    /// Owner: what `read` finds at the record's address, if the line is open and was not closed meanwhile: then the record has
    /// not been cleared or written again, and no word of it is another's.
    pub fn record<T>(&self, read: impl FnOnce(u64) -> Option<T>) -> Option<T> {
        if !self.is_open() || self.is_closed() {
            return None;
        }
        let found = read(self.load(RECORD))?;
        fence(Ordering::Acquire);
        (!self.is_closed()).then_some(found)
    }

    /// Receiver: it has finished looking at the line. The record may be [cleared](Record::clear) after this and not before.
    pub fn close(&self) {
        self.store(CLOSED, 1);
    }

    /// Owner: whether the receiver has finished looking, so that the line may be used again.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.load(CLOSED) != 0
    }
}

/// Words of a record that are kept. Model checking: the first and the last, between which it would be torn.
const KEPT: usize = if cfg!(loom) { 2 } else { 8 };

/// Eight words of a receiver's own memory that the owner of rendezvous slots reads while a line is open.
#[repr(align(64))]
pub struct Record([AtomicU64; KEPT]);

impl Default for Record {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Record {
    fn places() -> impl Iterator<Item = usize> {
        (0..KEPT).map(|at| at * 7 / (KEPT - 1))
    }

    /// Write it, before a line is [opened](RendezvousSlot::open) with it.
    pub fn write(&self, words: &[u64; 8]) {
        for (to, at) in self.0.iter().zip(Self::places()) {
            to.store(words[at], Ordering::Relaxed);
        }
    }

    /// What is written.
    #[must_use]
    pub fn words(&self) -> [u64; 8] {
        let mut words = [0; 8];
        for (from, at) in self.0.iter().zip(Self::places()) {
            words[at] = from.load(Ordering::Relaxed);
        }
        words
    }

    /// Make it nothing, after the line was [closed](RendezvousSlot::close): who sees anything of this, or of what is written later,
    /// sees also that the line was closed.
    pub fn clear(&self) {
        fence(Ordering::Release);
        self.write(&[0; 8]);
    }
}
