//! What is kept about each process that sends to us.
//!
//! Cost class: fast path.

use super::by_lines::FromLines;
use crate::net::go_back_n::ReceiveConnection;
use crate::net::table::NONE;
use farpost_fabric::{Fabric, Peer};

/// How messages come from a source.
pub enum ReceivePath {
    /// In numbered packets.
    Packets(ReceiveConnection),
    /// By lines: nothing is refused there.
    Lines(FromLines),
}

impl ReceivePath {
    /// The packet wanted next of a channel, if its sender is to know.
    #[inline(always)]
    pub fn wanted(&self, index: usize) -> Option<u16> {
        match self {
            Self::Packets(connection) => connection.wanted(index),
            Self::Lines(lines) => lines.wanted(index),
        }
    }

    /// The packets wanted next of both channels, and a mask of those that mean something.
    pub fn all_wanted(&self) -> (u16, [u16; 2]) {
        match self {
            Self::Packets(connection) => connection.all_wanted(),
            Self::Lines(lines) => lines.all_wanted(),
        }
    }

    /// The tag of the connection, where there is one.
    pub fn tag(&self) -> u16 {
        match self {
            Self::Packets(connection) => connection.tag(),
            Self::Lines(_) => 0,
        }
    }
}

/// The messages of a channel.
#[derive(Clone, Copy)]
pub struct Lane {
    /// Packets accepted that the sender has not been told of.
    pub owed: u16,
    /// Unfinished messages, oldest first.
    pub head: u16,
    pub tail: u16,
    /// The message whose packets come.
    pub streaming: u16,
    /// The message whose body is being fetched: one at a time.
    pub mover: u16,
}

impl Lane {
    pub const NEW: Lane = Lane {
        owed: 0,
        head: NONE,
        tail: NONE,
        streaming: NONE,
        mover: NONE,
    };
}

/// What is kept about a process that sends to us.
pub struct Origin<F: Fabric> {
    pub peer: Peer,
    /// Routes of bodies that do not work with it.
    pub not: u8,
    pub checked: bool,
    /// In the list of those that something has to be told.
    pub listed: bool,
    pub staging: Option<F::Import>,
    /// Where its latest staged body lies.
    pub staged: u32,
    pub rendezvous_slots: Option<F::Import>,
    pub path: ReceivePath,
    pub lanes: [Lane; 2],
}

impl<F: Fabric> Origin<F> {
    pub fn new(peer: Peer, checked: bool, path: ReceivePath) -> Self {
        Self {
            peer,
            not: 0,
            checked,
            listed: false,
            staging: None,
            staged: 0,
            rendezvous_slots: None,
            path,
            lanes: [Lane::NEW; 2],
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.head == NONE)
    }

    /// Whether it comes in packets, by a connection that `is` approves of.
    pub fn has_connection(&self, is: impl FnOnce(&ReceiveConnection) -> bool) -> bool {
        matches!(&self.path, ReceivePath::Packets(connection) if is(connection))
    }
}
