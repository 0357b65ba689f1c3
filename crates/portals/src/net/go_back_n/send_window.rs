//! The sender's numbers of one channel.
//!
//! Cost class: fast path, but for [`SendWindow::go_back`].

use crate::malformed::Malformed;
use crate::net::numbers::{Outstanding, is_before};
use crate::net::queue::{Chain, MessageQueue};

/// Which packets of a channel are outstanding, and which goes next.
pub struct SendWindow {
    outstanding: Outstanding,
    /// The number of the packet that goes next: not the newest, after going back.
    next: u16,
    /// Packets of the oldest message that are acknowledged.
    head_done: u32,
}

impl SendWindow {
    pub fn new(seq: u16) -> Self {
        Self {
            outstanding: Outstanding::none(seq),
            next: seq,
            head_done: 0,
        }
    }

    #[inline(always)]
    pub fn outstanding(&self) -> Outstanding {
        self.outstanding
    }

    /// Whether another packet may go before an acknowledgement comes.
    #[inline(always)]
    pub fn has_room(&self, window: u16) -> bool {
        self.next.wrapping_sub(self.outstanding.base()) < window
    }

    /// The number of the packet that goes next, and whether nothing before it is outstanding.
    #[inline(always)]
    pub fn next(&self) -> (u16, bool) {
        (self.next, self.next == self.outstanding.base())
    }

    /// Whether what goes next has not gone before.
    #[inline(always)]
    pub fn is_at_end(&self) -> bool {
        self.next == self.outstanding.end()
    }

    /// The next packet has gone. True: for the first time.
    #[inline(always)]
    pub fn went(&mut self) -> bool {
        let new = self.is_at_end();
        self.next = self.next.wrapping_add(1);
        if new {
            self.outstanding.add();
        }
        new
    }

    /// The receiver wants packet `wanted` next: how many it is done with. [`take_done`](Self::take_done) names their messages, then
    /// [`catch_up`](Self::catch_up) is called.
    #[inline(always)]
    pub fn acknowledge(&mut self, wanted: u16) -> Result<u16, Malformed> {
        self.outstanding.acknowledge(wanted)
    }

    /// The next message that is over when `done` more packets are.
    #[inline(always)]
    pub fn take_done(&mut self, queue: &mut MessageQueue, chain: &impl Chain, done: &mut u16) -> Option<u16> {
        if *done == 0 {
            return None;
        }
        let left = chain.packets(queue.head()) - self.head_done;
        if u32::from(*done) < left {
            self.head_done += u32::from(*done);
            *done = 0;
            return None;
        }
        *done -= left as u16;
        self.head_done = 0;
        Some(queue.pop(chain))
    }

    /// What is acknowledged need not go again.
    #[inline(always)]
    pub fn catch_up(&mut self, queue: &mut MessageQueue, chain: &impl Chain) {
        if is_before(self.next, self.outstanding.base()) {
            self.next = self.outstanding.base();
            queue.go_from(chain, self.head_done, 0);
        }
    }

    /// Go back to packet `seq`, which is outstanding or the next.
    pub fn go_back(&mut self, queue: &mut MessageQueue, chain: &impl Chain, seq: u16) {
        let skip = seq.wrapping_sub(self.outstanding.base());
        queue.go_from(chain, self.head_done, u32::from(skip));
        self.next = seq;
    }

    /// Nothing that has gone was accepted, nor will be: packets are numbered anew.
    pub fn take_back(&mut self) {
        self.outstanding.take_back();
    }

    /// Whether the oldest message is acknowledged in part.
    pub fn has_part(&self) -> bool {
        self.head_done > 0
    }
}
