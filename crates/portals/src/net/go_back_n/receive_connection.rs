//! The receiver's side of a connection.
//!
//! Cost class: fast path ([`ReceiveConnection::expects`], [`ReceiveConnection::accept`], [`ReceiveConnection::wanted`]); else queued path.

use super::receive_window::ReceiveWindow;
use crate::net::wire::{self, FIRST, Op, UNUSED, Word};

/// Progress calls after which a source that never came back may be given up.
const SILENT: u64 = 1000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// Waits for the first packet with the new tag.
    Syncing,
    Open,
    /// Nothing is accepted any more; waits until the sender has forgotten the tag.
    Closing,
}

/// What a packet is that is not the one wanted next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unexpected {
    /// The one wanted next after all: numbers begin with it.
    Begins,
    /// Its sender does not know yet how the connection begins or ends.
    Untold,
    /// Of a connection that is over.
    Stale,
    /// Its sender has lost the tag, but is known here.
    LostTag,
    /// Its sender has no tag, and nothing of it is known: a connection begins.
    NoTag,
    /// It was accepted before.
    Duplicate,
    /// One before it is missing.
    Gap,
    /// Nothing is to be done about it.
    Nothing,
}

/// What a receiver knows of a connection.
pub struct ReceiveConnection {
    tag: u16,
    /// The tag before, and what was wanted under it, of the channels in a mask.
    before: u16,
    before_wanted: [u16; 2],
    before_known: u8,
    state: ConnectionState,
    /// Something was accepted under this tag.
    served: bool,
    /// `Sync` or `Detach` has to be told.
    tell: bool,
    /// The progress call in which it got its tag.
    since: u64,
    windows: [ReceiveWindow; 2],
}

impl ReceiveConnection {
    pub fn new(tag: u16, turn: u64) -> Self {
        Self {
            tag,
            before: 0,
            before_wanted: [0; 2],
            before_known: 0,
            state: ConnectionState::Syncing,
            served: false,
            tell: true,
            since: turn,
            windows: [ReceiveWindow::NEW; 2],
        }
    }

    pub fn tag(&self) -> u16 {
        self.tag
    }

    #[inline(always)]
    pub fn window(&mut self, index: usize) -> &mut ReceiveWindow {
        &mut self.windows[index]
    }

    /// The packet wanted next of a channel, if its sender is to know.
    #[inline(always)]
    pub fn wanted(&self, index: usize) -> Option<u16> {
        let window = &self.windows[index];
        window.is_open().then_some(window.wanted())
    }

    /// The packets wanted next of both channels, and a mask of those that mean something.
    pub fn all_wanted(&self) -> (u16, [u16; 2]) {
        let [answers, requests] = self.windows.each_ref().map(|window| u16::from(window.is_known()));
        let wanted = self.windows.each_ref().map(ReceiveWindow::wanted);
        (answers | requests << 1, wanted)
    }

    /// Whether a packet is the one wanted next.
    #[inline(always)]
    pub fn expects(&self, index: usize, word: &Word) -> bool {
        self.tag == word.tag && self.windows[index].wants(word.seq)
    }

    /// The packet wanted next is accepted.
    #[inline(always)]
    pub fn accept(&mut self, index: usize, word: &Word) {
        self.windows[index].accept(word);
        self.served = true;
    }

    /// A packet that is not the one wanted next. `is_empty`: no message of its sender is being received.
    pub fn unexpected(&mut self, index: usize, word: &Word, is_empty: bool) -> Unexpected {
        if self.state == ConnectionState::Closing {
            self.tell = true;
            return Unexpected::Untold;
        }
        let window = &mut self.windows[index];
        if self.tag != word.tag {
            return if self.state == ConnectionState::Syncing {
                self.tell = true;
                Unexpected::Untold
            } else if word.tag != 0 {
                Unexpected::Stale
            } else if window.may_have(word.seq) || !is_empty {
                Unexpected::LostTag
            } else {
                Unexpected::NoTag
            };
        }
        if !window.is_open() {
            if !word.has(FIRST) {
                return Unexpected::Nothing;
            }
            window.begin(word.seq);
            self.state = ConnectionState::Open;
            self.tell = false;
            return Unexpected::Begins;
        }
        if window.is_duplicate(word.seq) {
            Unexpected::Duplicate
        } else if window.is_untold() {
            Unexpected::Gap
        } else {
            Unexpected::Nothing
        }
    }

    /// Begin anew with another tag. All that was accepted is acknowledged with it.
    pub fn begin(&mut self, tag: u16, turn: u64) {
        let (known, wanted) = self.all_wanted();
        (self.before, self.before_wanted, self.before_known) = (self.tag, wanted, known as u8);
        self.tag = tag;
        self.state = ConnectionState::Syncing;
        self.served = false;
        self.since = turn;
        self.tell = true;
        self.windows = [ReceiveWindow::NEW; 2];
    }

    /// What [`Op::Sync`] says; `not`: ways of sending that do not work.
    pub fn sync(&self, not: u8) -> u64 {
        wire::numbers(self.before, self.before_wanted, not | self.before_known << 4)
    }

    /// What has to be told about its beginning or end, and the argument.
    pub fn news(&self, not: u8) -> Option<(Op, u64)> {
        if !self.tell {
            return None;
        }
        match self.state {
            ConnectionState::Syncing => Some((Op::Sync, self.sync(not))),
            ConnectionState::Closing => {
                let (known, wanted) = self.all_wanted();
                Some((Op::Detach, wire::numbers(known, wanted, 0)))
            }
            ConnectionState::Open => None,
        }
    }

    /// That has been told.
    pub fn news_are_told(&mut self) {
        self.tell = false;
    }

    /// Time has passed: what was told may be lost. True: it has to be told again.
    pub fn tell_again(&mut self) -> bool {
        let again = self.state != ConnectionState::Open;
        self.tell |= again;
        again
    }

    pub fn is_open(&self) -> bool {
        self.state == ConnectionState::Open
    }

    pub fn is_closing(&self) -> bool {
        self.state == ConnectionState::Closing
    }

    /// Whether its sender never came back: nothing was accepted that it has to know of.
    pub fn is_silent(&self, turn: u64) -> bool {
        self.state == ConnectionState::Syncing
            && self.before == 0
            && !self.served
            && turn.wrapping_sub(self.since) > SILENT
    }

    /// Whether its sender may be asked to forget it, if no message of it is being received.
    pub fn may_close(&self) -> bool {
        self.is_open() && self.served
    }

    /// Ask its sender to forget it.
    pub fn close(&mut self) {
        self.state = ConnectionState::Closing;
        self.tell = true;
        self.windows.iter_mut().for_each(ReceiveWindow::close);
    }

    /// The sender has forgotten the tag of `word`, or has no use for one under which nothing has been accepted. True: so it is.
    pub fn is_detached(&self, word: &Word, is_empty: bool) -> bool {
        let agreed = match self.state {
            ConnectionState::Closing => word.seq != UNUSED,
            ConnectionState::Syncing => word.seq == UNUSED && !self.served && is_empty,
            ConnectionState::Open => false,
        };
        agreed && self.tag == word.tag
    }
}
