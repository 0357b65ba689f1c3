//! The layout of a postbox area.
//!
//! ```text
//! queues   per receiver: `slots` postboxes of 64 bytes
//! acks     per receiver: one line. Its first word counts the postboxes consumed (mapped fabrics), its second and third
//!          say that the queue [rests](crate::rest). That of a single queue lies in front of it
//! slots    `RENDEZVOUS_SLOTS` lines that owner and receivers may use for whatever they agree on (mapped fabrics)
//! pool     `blocks` blocks of `block` bytes, each used whole or in parts
//! ```
//! An area of a single queue begins with [`FEW`] postboxes and, right behind them, the pool, so that a connection of which little is
//! used at a time takes a page. Its `slots` postboxes follow the pool; they are used from when the queue has [grown](crate::grow).
//!
//! Blocks are numbered from 0, behind them their parts: part `p` of block `b` is `blocks + PARTS * b + p`.
//!
//! Where the fabric maps memory, a process exports one area that all its receivers import. Where it does
//! not, the receiver exports an area of one queue for each sender, and acks go to a segment of the sender's.

use crate::ChannelTunables;
use farpost_fabric::LINE_BYTES;

/// Rendezvous slots of an area.
pub const RENDEZVOUS_SLOTS: usize = 256;

/// Postboxes that an area of a single queue is used with at first: they, the acknowledgement's line and two parts of blocks of the
/// default size lie in one page.
pub const FEW: u32 = 16;

/// Parts of a block, for messages that would leave most of one empty.
pub const PARTS: u32 = 8;

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

    /// Offset of the queue for receiver `index`: all its postboxes.
    pub fn queue(&self, index: u32) -> usize {
        match self.queues {
            1 if self.slots > FEW => self.behind_pool().next_multiple_of(4096),
            1 => LINE_BYTES,
            _ => index as usize * self.slots as usize * LINE_BYTES,
        }
    }

    /// Postboxes that a queue is used with before it [grows](crate::grow), and their offset.
    pub fn first_queue(&self) -> (usize, u32) {
        debug_assert!(self.queues == 1, "others do not grow");
        (LINE_BYTES, self.slots.min(FEW))
    }

    /// Offset of the ack line of receiver `index`.
    pub fn ack(&self, index: u32) -> usize {
        match self.queues {
            1 => 0,
            _ => self.queue(self.queues) + index as usize * LINE_BYTES,
        }
    }

    /// Offset of the rendezvous slots.
    pub fn slots(&self) -> usize {
        match self.queues {
            1 => {
                self.queue(0).max(self.behind_pool()).next_multiple_of(4096)
                    + self.slots as usize * LINE_BYTES
            }
            _ => self.queues as usize * (self.slots as usize + 1) * LINE_BYTES,
        }
    }

    /// Offset of a block, or of a part of one.
    #[inline]
    pub fn pool_block(&self, number: u32) -> usize {
        let (block, part) = match number.checked_sub(self.blocks) {
            Some(part) => (part / PARTS, part % PARTS),
            None => (number, 0),
        };
        self.pool() + block as usize * self.block as usize + part as usize * self.part()
    }

    fn pool(&self) -> usize {
        match self.queues {
            1 => LINE_BYTES + self.slots.min(FEW) as usize * LINE_BYTES,
            _ => (self.slots() + RENDEZVOUS_SLOTS * LINE_BYTES).next_multiple_of(4096),
        }
    }

    fn behind_pool(&self) -> usize {
        self.pool() + self.blocks as usize * self.block as usize
    }

    /// Bytes of a part of a block: whole lines.
    #[inline]
    pub fn part(&self) -> usize {
        (self.block / PARTS) as usize / LINE_BYTES * LINE_BYTES
    }

    /// Bytes of the block or part of that number. None: there is none.
    #[inline]
    pub fn holds(&self, number: u32) -> Option<usize> {
        match number.checked_sub(self.blocks) {
            None => Some(self.block as usize),
            Some(part) => (part < self.blocks * PARTS).then(|| self.part()),
        }
    }

    /// Bytes of the whole area.
    pub fn bytes(&self) -> usize {
        match self.queues {
            1 => self.slots() + RENDEZVOUS_SLOTS * LINE_BYTES,
            _ => self.behind_pool(),
        }
    }
}
