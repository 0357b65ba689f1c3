//! Sequence numbers of what was sent and is kept until its receiver is done with it: the packets of go-back-n, and of what goes by
//! lines the messages whose bodies the receiver fetches. They wrap; at most half of all are outstanding.
//!
//! Cost class: fast path.

use crate::malformed::{Malformed, fail};

/// Whether a number is older than another one.
#[inline(always)]
pub fn is_before(number: u16, other: u16) -> bool {
    number.wrapping_sub(other) > 0x7fff
}

/// A run of numbers: of what has gone and is not acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Outstanding {
    base: u16,
    end: u16,
}

impl Outstanding {
    /// Nothing, and the next is `seq`.
    pub fn none(seq: u16) -> Self {
        Self { base: seq, end: seq }
    }

    /// The oldest that is not acknowledged.
    #[inline(always)]
    pub fn base(self) -> u16 {
        self.base
    }

    /// One more than the newest that has gone.
    #[inline(always)]
    pub fn end(self) -> u16 {
        self.end
    }

    #[inline(always)]
    pub fn count(self) -> u16 {
        self.end.wrapping_sub(self.base)
    }

    /// The next one has gone.
    #[inline(always)]
    pub fn add(&mut self) {
        self.end = self.end.wrapping_add(1);
    }

    /// What has gone counts as not sent.
    pub fn take_back(&mut self) {
        self.end = self.base;
    }

    /// How many came before `seq`, which is outstanding.
    pub fn before(self, seq: u16) -> Option<u16> {
        let before = seq.wrapping_sub(self.base);
        (before < self.count()).then_some(before)
    }

    /// The receiver wants `wanted` next: how many it is done with since it was last heard.
    #[inline(always)]
    pub fn acknowledge(&mut self, wanted: u16) -> Result<u16, Malformed> {
        let done = wanted.wrapping_sub(self.base);
        if done > self.count() {
            // An old one that was held up is no fault.
            return if is_before(wanted, self.base) {
                Ok(0)
            } else {
                fail!("the number of a packet that was sent", wanted)
            };
        }
        self.base = wanted;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_count_what_is_done_and_old_ones_nothing() {
        let mut sent = Outstanding::none(0xfffe);
        (0..4).for_each(|_| sent.add());
        assert_eq!((sent.count(), sent.end(), sent.before(1)), (4, 2, Some(3)));
        assert_eq!(sent.acknowledge(0).ok(), Some(2));
        assert_eq!(sent.acknowledge(0).ok(), Some(0));
        assert_eq!(sent.acknowledge(0xffff).ok(), Some(0), "held up on the way");
        assert!(sent.acknowledge(3).is_err(), "never sent");
        assert_eq!(
            (sent.base(), sent.before(2), sent.before(0xffff)),
            (0, None, None)
        );
        sent.take_back();
        assert_eq!((sent.count(), sent.end()), (0, 0));
    }
}
