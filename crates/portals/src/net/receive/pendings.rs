//! Receive pendings: messages that are being received.

use super::fetch;
use crate::memory::Segments;
use crate::net::table::NONE;
use crate::net::wire::Place;
use farpost_fabric::{FabricError, Moment, PACKET_BYTES, Peer};

/// Bytes of it.
pub const SCRATCH: usize = 16 << 10;

/// Memory for bytes that nobody keeps, of bodies whose check is about them too.
pub type Scratch = Box<[u8; SCRATCH]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Free,
    /// The host decides.
    Later,
    Placed,
    /// The sender has ended while the host decides.
    Orphan,
}

/// A message being received.
pub struct ReceivePending {
    pub generation: u16,
    pub stage: Stage,
    /// Where its body comes from; `None`: that came with its header, and is in the pending.
    pub from: Option<Place>,
    pub peer: Peer,
    pub origin: u16,
    pub lane: u8,
    /// The number of the header packet.
    pub seq: u16,
    /// The next unfinished one of its lane.
    pub next: u16,
    pub inline_len: u8,
    pub tries: u8,
    pub length: u64,
    pub token: Option<u64>,
    pub keep: u64,
    pub done: u64,
    pub check: Option<u32>,
    /// Bytes of a part, where both sides copy.
    pub part: Option<u64>,
    pub ticket: Option<fetch::UnderWay>,
    /// A transfer of it broke off then, and nobody has asked since whether the peer has ended.
    pub broken: Option<(Moment, FabricError)>,
    pub pauses: bool,
    /// Where the list of its pieces goes on: which, and bytes of it.
    pub cursor: (u32, u64),
    /// Bytes that came by way of the layer's own memory, and the check so far.
    pub aside: u64,
    pub sum: u32,
    pub scratch: Option<Scratch>,
    pub into: Segments,
    pub inline: [u8; PACKET_BYTES],
}

impl ReceivePending {
    pub fn new(me: Peer) -> Self {
        Self {
            generation: 0,
            stage: Stage::Free,
            from: None,
            peer: me,
            origin: NONE,
            lane: 0,
            seq: 0,
            next: NONE,
            inline_len: 0,
            tries: 0,
            length: 0,
            token: None,
            keep: 0,
            done: 0,
            check: None,
            part: None,
            ticket: None,
            broken: None,
            pauses: false,
            cursor: (0, 0),
            aside: 0,
            sum: 0,
            scratch: None,
            into: Segments::default(),
            inline: [0; PACKET_BYTES],
        }
    }

    /// Whether its header packet is not acknowledged before it is finished.
    pub fn holds_back(&self) -> bool {
        !matches!(self.from, None | Some(Place::Stream))
    }

    /// Bytes that go straight to their place: all that are kept, but none of a body that is fetched again.
    pub fn direct(&self) -> u64 {
        if self.tries == 0 { self.keep } else { 0 }
    }

    /// Whether there are bytes left that come by way of the layer's own memory.
    pub fn has_aside(&self) -> bool {
        self.check.is_some() && self.keep > 0 && self.direct() + self.aside < self.length
    }
}
