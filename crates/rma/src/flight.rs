//! Messages under way on a window's communicator.

use crate::memory::Room;
use crate::peer::Track;
use std::rc::Rc;

/// A posted receive.
pub(crate) struct Slot {
    pub request: usize,
    pub room: Room,
}

/// A message under way beside the posted receives, and what it is when it is over.
pub(crate) struct Flight {
    pub request: usize,
    pub then: Then,
}

pub(crate) enum Then {
    /// A message of our own was sent.
    Nothing,
    /// The program's data went to `target`.
    Sent { target: i32, track: Option<Rc<Track>> },
    /// So many bytes of the program's data came from `target`.
    Got {
        target: i32,
        bytes: u64,
        track: Option<Rc<Track>>,
    },
    /// Data came into the window's memory, or into room of nobody's.
    Written { origin: i32, astray: Option<Room> },
}
