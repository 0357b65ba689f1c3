//! Looking at many postboxes at once.
//!
//! Cost class: fast path.

use farpost_fabric::Lines;

/// The postboxes of one sender that are not consumed yet, to be looked at where they lie. `ahead` counts from the
/// next one and stays below the number of postboxes in the queue.
pub struct Waiting<'a, L> {
    pub(crate) lines: &'a L,
    pub(crate) tail: u32,
}

impl<L: Lines> Waiting<'_, L> {
    /// The first word of a postbox, if it is there.
    #[inline(always)]
    pub fn first(&self, ahead: u32) -> Option<u64> {
        let number = self.tail.wrapping_add(ahead);
        let first = self.lines.first(number);
        (first as u32 == number.wrapping_add(1)).then_some(first)
    }

    /// Another word of a postbox whose first was seen. The sender may change it at any time: load it once.
    #[inline(always)]
    pub fn word(&self, ahead: u32, index: usize) -> u64 {
        self.lines.word(self.tail.wrapping_add(ahead), index)
    }

    /// A hint that a postbox is wanted soon. One that is not written yet is taken away from the sender, who has to
    /// fetch it back: not for those that may not come.
    #[inline(always)]
    pub fn prefetch(&self, ahead: u32) {
        self.lines.prefetch(self.tail.wrapping_add(ahead));
    }
}
