//! What calls leave behind: messages that found no room, blocks that are not on their way yet. Later calls see to it; and who computes in
//! between may have it seen to by [`Jam::tend`](crate::Jam::tend).
//!
//! Cost class: *queued path*; nothing is done where nothing is left behind.

use std::cell::Cell;

/// Who is told when something is left behind.
#[derive(Default)]
pub(crate) struct Leftover(Cell<Option<fn()>>);

impl Leftover {
    /// From now on this is called each time, in the middle of a call: it may note it, no more.
    pub fn set(&self, tell: Option<fn()>) {
        self.0.set(tell);
    }

    /// Something is left behind.
    #[cold]
    pub fn tell(&self) {
        if let Some(tell) = self.0.get() {
            tell();
        }
    }
}

/// What [`Jam::tend`](crate::Jam::tend) found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tended {
    /// Something moved.
    Moved,
    /// Nothing moved, and something waits for room, which nobody announces: look again soon.
    Waits,
    /// Nothing is to be done until something arrives.
    Nothing,
}
