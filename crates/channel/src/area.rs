//! The layout of a postbox area.
//!
//! ```text
//! queues   per receiver: `slots` postboxes of 64 bytes
//! acks     per receiver: one line. Its first word counts the postboxes consumed (mapped fabrics), its second and third
//!          say that the queue [rests](crate::rest)
//! desk     `DESK_LINES` lines that owner and receivers may use for whatever they agree on (mapped fabrics)
//! pool     `blocks` blocks of `block` bytes
//! ```
//! Where the fabric maps memory, a process exports one area that all its receivers import. Where it does
//! not, the receiver exports an area of one queue for each sender, and acks go to a segment of the sender's.

use crate::ChannelTunables;
use farpost_fabric::LINE_BYTES;

/// Lines on the desk.
pub const DESK_LINES: usize = 256;

/// Sizes of an area, as both ends must see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Queues in the area.
    pub queues: u32,
    /// Postboxes in a queue; a power of two.
    pub slots: u32,
    /// Bytes in a block; a multiple of 64.
    pub block: u32,
    /// Blocks in the pool.
    pub blocks: u32,
}

impl Layout {
    /// The layout for `queues` receivers.
    pub fn new(tunables: &ChannelTunables, queues: u32) -> Self {
        Self {
            queues,
            slots: (tunables.slots as u32).next_power_of_two(),
            block: (tunables.block as u32).next_multiple_of(LINE_BYTES as u32),
            blocks: tunables.blocks as u32,
        }
    }

    /// Whether these can be sizes of an area: what arrives from a peer is checked by this.
    pub fn plausible(&self) -> bool {
        (1..=1 << 20).contains(&self.queues)
            && self.slots.is_power_of_two()
            && (16..=4096).contains(&self.slots)
            && (1024..=1 << 20).contains(&self.block)
            && self.block.is_multiple_of(LINE_BYTES as u32)
            && (8..=65536).contains(&self.blocks)
    }

    /// Offset of the queue for receiver `index`.
    pub fn queue(&self, index: u32) -> usize {
        index as usize * self.slots as usize * LINE_BYTES
    }

    /// Offset of the ack line of receiver `index`.
    pub fn ack(&self, index: u32) -> usize {
        self.queue(self.queues) + index as usize * LINE_BYTES
    }

    /// Offset of the desk.
    pub fn desk(&self) -> usize {
        self.ack(self.queues)
    }

    /// Offset of a block.
    pub fn pool_block(&self, block: u32) -> usize {
        (self.desk() + DESK_LINES * LINE_BYTES).next_multiple_of(4096) + block as usize * self.block as usize
    }

    /// Bytes of the whole area.
    pub fn bytes(&self) -> usize {
        self.pool_block(self.blocks)
    }
}
