//! Bulk transfer between the memories of two processes: a descriptor in, a completion out.

use crate::{FabricError, Peer};

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer into our buffer.
    Get,
    /// From our buffer to the peer.
    Put,
}

/// A transfer. The addresses are plain numbers: the peer gave us its own, and the fabric (or the kernel
/// below it) checks both before a byte moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// With whom.
    pub peer: Peer,
    /// Which way.
    pub direction: Direction,
    /// Address in this process.
    pub local: usize,
    /// Address in the peer.
    pub remote: usize,
    /// Bytes.
    pub len: usize,
}

/// Names a transfer under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// What became of a transfer submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// All bytes have moved.
    Done,
    /// Ask [`BulkTransfer::poll_transfer`] with this ticket.
    Pending(Ticket),
}

/// Transfers between user memories.
pub trait BulkTransfer {
    /// Whether transfers with `peer` work. Probed once, by a real transfer, and remembered.
    fn can_transfer(&self, peer: Peer) -> bool;
    /// Start a transfer.
    ///
    /// # Safety
    /// `descriptor.local` for `descriptor.len` bytes is memory of this process, valid and otherwise unused
    /// (for `Get`: writable) until the completion.
    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion, FabricError>;
    /// Whether the transfer has ended.
    fn poll_transfer(&self, ticket: Ticket) -> Result<bool, FabricError>;
}
