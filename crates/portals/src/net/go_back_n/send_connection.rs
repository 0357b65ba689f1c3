//! The sender's side of a connection.
//!
//! Cost class: fast path ([`SendConnection::next_new`], [`SendConnection::may_send`], [`SendConnection::acknowledged`]); else queued path.

use super::send_window::SendWindow;
use crate::net::queue::{Chain, MessageQueue};
use crate::net::wire::Word;
use farpost_fabric::Moment;
use std::time::Duration;

/// Times that the period before sending again doubles.
const DOUBLINGS: u8 = 6;
/// Progress calls after the first refusal before a channel tries again, and times that this doubles.
const PAUSE: u64 = 4;
const PAUSES: u8 = 10;
/// Periods without an answer after which the receiver is asked for a tag again.
const ASK_TAG: u8 = 4;

/// What a packet that goes next says of itself.
#[derive(Clone, Copy)]
pub struct SendTitle {
    pub seq: u16,
    pub tag: u16,
    /// Nothing before it is outstanding.
    pub first: bool,
}

/// What a sender knows of a connection.
pub struct SendConnection {
    /// What the receiver calls it; 0: nothing, as far as is known.
    tag: u16,
    /// The latest tag that was not 0.
    last: u16,
    /// A packet without a tag is out: one is enough to begin with.
    probing: bool,
    refusals: u8,
    timeouts: u8,
    /// The progress call before which nothing goes.
    wait_until: u64,
    /// When something was heard last, and what was acknowledged then.
    stamp: Moment,
    stamp_base: [u16; 2],
    windows: [SendWindow; 2],
}

impl SendConnection {
    /// `numbers`: where the numbers of its channels begin.
    pub fn new(numbers: [u16; 2], now: Moment) -> Self {
        Self {
            tag: 0,
            last: 0,
            probing: false,
            refusals: 0,
            timeouts: 0,
            wait_until: 0,
            stamp: now,
            stamp_base: numbers,
            windows: numbers.map(SendWindow::new),
        }
    }

    /// Where the numbers of its channels go on.
    pub fn numbers(&self) -> [u16; 2] {
        self.windows.each_ref().map(|window| window.outstanding().end())
    }

    /// Nothing that has gone was accepted: where the numbers of another way of sending begin.
    pub fn taken_back(&self) -> [u16; 2] {
        self.windows.each_ref().map(|window| window.outstanding().base())
    }

    #[inline(always)]
    pub fn is_waiting(&self) -> bool {
        self.wait_until != 0
    }

    /// Whether a pause after a refusal lasts in progress call `turn`.
    #[inline(always)]
    pub fn pauses(&mut self, turn: u64) -> bool {
        if self.wait_until > turn {
            return true;
        }
        self.wait_until = 0;
        false
    }

    #[inline(always)]
    pub fn has_room(&self, index: usize, window: u16) -> bool {
        self.windows[index].has_room(window)
    }

    /// What a packet says that goes here and now, if nothing has to be seen to before: for the fast path.
    #[inline(always)]
    pub fn next_new(&self, index: usize, window: u16) -> Option<SendTitle> {
        let numbers = &self.windows[index];
        let (seq, first) = numbers.next();
        let tag = self.tag;
        (tag != 0 && self.wait_until == 0 && numbers.is_at_end() && numbers.has_room(window))
            .then_some(SendTitle { seq, tag, first })
    }

    /// What the next packet says. None: it has to wait for an answer.
    #[inline(always)]
    pub fn may_send(&mut self, index: usize, window: u16) -> Option<SendTitle> {
        if !self.has_room(index, window) {
            return None;
        }
        if self.tag == 0 {
            if self.probing {
                return None;
            }
            self.probing = true;
        }
        let (seq, first) = self.windows[index].next();
        let tag = self.tag;
        Some(SendTitle { seq, tag, first })
    }

    /// There was no room for that packet.
    pub fn did_not_go(&mut self) {
        if self.tag == 0 {
            self.probing = false;
        }
    }

    /// It has gone. True: for the first time.
    #[inline(always)]
    pub fn went(&mut self, index: usize) -> bool {
        self.windows[index].went()
    }

    /// The window of a channel that something was acknowledged of.
    #[inline(always)]
    pub fn window(&mut self, index: usize) -> &mut SendWindow {
        &mut self.windows[index]
    }

    /// Something was acknowledged.
    #[inline(always)]
    pub fn acknowledged(&mut self) {
        self.refusals = 0;
        self.timeouts = 0;
    }

    /// Go back to the oldest outstanding packet of both channels.
    pub fn go_back(&mut self, queues: &mut [MessageQueue; 2], chain: &impl Chain) {
        for (window, queue) in self.windows.iter_mut().zip(queues) {
            let base = window.outstanding().base();
            window.go_back(queue, chain, base);
        }
    }

    /// The receiver refuses the packet with `word`'s number: go back to it, with `busy` after a pause. False: that is of no connection or packet that
    /// is under way.
    pub fn refused(
        &mut self,
        (queues, chain): (&mut [MessageQueue; 2], &impl Chain),
        (index, word): (usize, &Word),
        (busy, turn): (bool, u64),
    ) -> bool {
        if word.tag == 0 {
            // The receiver knows nothing of us: what was acknowledged stays so.
            if self.tag != 0 {
                return false;
            }
            self.probing = false;
            self.go_back(queues, chain);
        } else {
            let outstanding = self.windows[index].outstanding();
            if self.tag != word.tag || word.seq.wrapping_sub(outstanding.base()) > outstanding.count() {
                return false;
            }
            self.windows[index].go_back(&mut queues[index], chain, word.seq);
        }
        // Who pauses has sent nothing that could be refused anew: what still comes, late or once more, does not make it longer.
        if busy && self.wait_until <= turn {
            self.wait_until = turn + (PAUSE << self.refusals.min(PAUSES));
            self.refusals = self.refusals.saturating_add(1);
        }
        true
    }

    /// Whether the receiver's tag is one that was not heard of before.
    pub fn is_new(&self, tag: u16) -> bool {
        self.tag != tag && (self.last == 0 || tag.wrapping_sub(self.last) <= 0x7fff)
    }

    /// Whether acknowledgements under the tag `before` are about this connection.
    pub fn was(&self, before: u16) -> bool {
        self.last != 0 && self.last == before
    }

    /// The receiver has a new tag for us. Everything that is outstanding has to go again.
    pub fn begin(&mut self, tag: u16) {
        (self.tag, self.last) = (tag, tag);
        self.probing = false;
        self.timeouts = 0;
        self.wait_until = 0;
    }

    /// What has gone is numbered anew.
    pub fn take_back(&mut self, index: usize) {
        self.windows[index].take_back();
    }

    /// Whether the receiver may give up the connection with that tag. Who heard nothing for long asks without its tag, and knows it still: what was
    /// accepted under it is said here for the last time.
    pub fn may_detach(&self, tag: u16) -> bool {
        self.tag == tag || self.tag == 0 && self.last == tag
    }

    /// The receiver forgets the connection, and so do we. What it forgets it never names again, and its next tag may be any number of others later.
    pub fn detach(&mut self) {
        (self.tag, self.last) = (0, 0);
        self.probing = false;
    }

    /// Whether nothing has been heard for so long that packets have to go again.
    pub fn is_overdue(&mut self, now: Moment, resend: Duration) -> bool {
        let bases = self.taken_back();
        if bases != self.stamp_base {
            (self.stamp_base, self.stamp) = (bases, now);
            self.timeouts = 0;
            return false;
        }
        let waiting = self.probing || self.windows.iter().any(|window| window.outstanding().count() > 0);
        if !waiting {
            self.stamp = now;
            return false;
        }
        if now - self.stamp < resend * (1 << self.timeouts.min(DOUBLINGS)) {
            return false;
        }
        self.stamp = now;
        self.timeouts = self.timeouts.saturating_add(1);
        self.probing = false;
        if self.timeouts.is_multiple_of(ASK_TAG) {
            // Perhaps the receiver knows us under another tag.
            self.tag = 0;
        }
        true
    }

    /// The peer has ended: nothing is outstanding any more.
    pub fn end(&mut self) {
        self.windows = self.numbers().map(SendWindow::new);
    }

    /// How many packets lie before the one numbered `seq` of a connection with that tag, if it is outstanding and the receiver may speak of it.
    pub fn before(&self, index: usize, word: &Word) -> Option<u16> {
        let window = &self.windows[index];
        (self.tag == word.tag && !window.has_part())
            .then(|| window.outstanding().before(word.seq))
            .flatten()
    }
}
