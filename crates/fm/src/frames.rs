//! Slots of a queue between two sides, host and interface: atomics, so that the very same code is model-checked.
//! Who may touch which slot when is the affair of the queue's two counters.

use crate::wire::{FRAME_BYTES, Frame};
use farpost_fabric::sync::{AtomicU64, Ordering};

/// The model needs not check each word.
const WORDS: usize = if cfg!(loom) { 1 } else { FRAME_BYTES / 8 };

struct Slot {
    /// The other process in the upper half, bytes in the lower.
    who: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// A power of two of slots.
pub struct Frames(Box<[Slot]>);

impl Frames {
    pub fn new(slots: u32) -> Self {
        let slot = |_| Slot {
            who: AtomicU64::new(0),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Self((0..slots.next_power_of_two()).map(slot).collect())
    }

    /// How many.
    pub fn slots(&self) -> u32 {
        self.0.len() as u32
    }

    fn slot(&self, count: u32) -> &Slot {
        &self.0[count as usize & (self.0.len() - 1)]
    }

    /// Into the slot of frame number `count`.
    pub fn store(&self, count: u32, frame: &Frame) {
        let slot = self.slot(count);
        slot.who.store(frame.who(), Ordering::Relaxed);
        for (to, word) in slot.words.iter().zip(frame.words()) {
            to.store(word, Ordering::Relaxed);
        }
    }

    /// From the slot of frame number `count`.
    pub fn load(&self, count: u32, frame: &mut Frame) {
        let slot = self.slot(count);
        frame.set_who(slot.who.load(Ordering::Relaxed));
        for (at, word) in slot.words.iter().enumerate() {
            frame.set_word(at, word.load(Ordering::Relaxed));
        }
    }
}
