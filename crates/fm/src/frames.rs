//! Slots of a queue between two sides, host and interface: atomics, so that the very same code is model-checked.
//! Who may touch which slot when is the affair of the queue's two counters.

use crate::wire::Frame;
use farpost_fabric::sync::{AtomicU64, Ordering};

/// A power of two of slots.
pub struct Frames {
    /// Of each slot the other process in the upper half, bytes in the lower.
    who: Box<[AtomicU64]>,
    /// And its words.
    words: Box<[AtomicU64]>,
    each: usize,
}

impl Frames {
    /// For frames of so many words.
    pub fn new(slots: u32, words: usize) -> Self {
        let slots = slots.next_power_of_two() as usize;
        // The model needs not check each word.
        let each = if cfg!(loom) { 1 } else { words };
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            who: zeros(slots),
            words: zeros(slots * each),
            each,
        }
    }

    /// How many.
    pub fn slots(&self) -> u32 {
        self.who.len() as u32
    }

    fn slot(&self, count: u32) -> (&AtomicU64, &[AtomicU64]) {
        let at = count as usize & (self.who.len() - 1);
        (&self.who[at], &self.words[at * self.each..][..self.each])
    }

    /// Into the slot of frame number `count`.
    pub fn store<const WORDS: usize>(&self, count: u32, frame: &Frame<WORDS>) {
        let (who, words) = self.slot(count);
        who.store(frame.who(), Ordering::Relaxed);
        for (to, word) in words.iter().zip(frame.words()) {
            to.store(word, Ordering::Relaxed);
        }
    }

    /// From the slot of frame number `count`.
    pub fn load<const WORDS: usize>(&self, count: u32, frame: &mut Frame<WORDS>) {
        let (who, words) = self.slot(count);
        frame.set_who(who.load(Ordering::Relaxed));
        frame.set_words(words.iter().map(|word| word.load(Ordering::Relaxed)));
    }
}
