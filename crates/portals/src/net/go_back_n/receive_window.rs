//! The receiver's numbers of one channel.
//!
//! Cost class: fast path.

use crate::net::numbers::is_before;
use crate::net::wire::{Op, Word};

/// What is wanted next of a channel, and what its sender has to be told about that.
#[derive(Clone, Copy)]
pub struct ReceiveWindow {
    /// Whether the packet wanted next is accepted when it comes.
    open: bool,
    /// Whether `wanted` means something.
    known: bool,
    wanted: u16,
    /// To be told to the sender.
    refusal: Option<Op>,
    /// The sender has been told that it has to go back.
    told: bool,
}

impl ReceiveWindow {
    pub const NEW: Self = Self {
        open: false,
        known: false,
        wanted: 0,
        refusal: None,
        told: false,
    };

    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.open
    }

    #[inline(always)]
    pub fn is_known(&self) -> bool {
        self.known
    }

    #[inline(always)]
    pub fn wanted(&self) -> u16 {
        self.wanted
    }

    #[inline(always)]
    pub fn wants(&self, seq: u16) -> bool {
        self.open && self.wanted == seq
    }

    /// Begin with the number of a packet before which nothing is outstanding.
    pub fn begin(&mut self, seq: u16) {
        (self.open, self.known) = (true, true);
        self.wanted = seq;
    }

    /// The packet wanted next is accepted.
    #[inline(always)]
    pub fn accept(&mut self, word: &Word) {
        self.wanted = word.seq.wrapping_add(1);
        self.told = false;
    }

    /// The packet just accepted is refused after all.
    pub fn take_back(&mut self) {
        self.wanted = self.wanted.wrapping_sub(1);
    }

    /// Whether a packet was accepted before.
    pub fn is_duplicate(&self, seq: u16) -> bool {
        is_before(seq, self.wanted)
    }

    /// Whether a packet of a sender without a tag may be one of those that were accepted lately.
    pub fn may_have(&self, seq: u16) -> bool {
        self.open && self.wanted.wrapping_sub(seq) < 4096
    }

    /// Whether its sender has not been told yet to go back.
    pub fn is_untold(&self) -> bool {
        !self.told
    }

    /// Its sender is to go back.
    pub fn refuse(&mut self, op: Op) {
        self.refusal = Some(op);
        self.told = true;
    }

    pub fn refusal(&self) -> Option<Op> {
        self.refusal
    }

    pub fn refusal_is_told(&mut self) {
        self.refusal = None;
    }

    /// Accept nothing any more, and say nothing about it.
    pub fn close(&mut self) {
        self.refusal = None;
        self.open = false;
    }
}
