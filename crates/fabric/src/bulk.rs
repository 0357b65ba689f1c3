//! Bulk transfer between the memories of two processes: a descriptor in, a completion out.

use crate::{FabricError, Peer, Result};

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer into our buffer.
    Get,
    /// From our buffer to the peer.
    Put,
}

/// A transfer. The addresses are plain numbers: the peer gave us its own with the key of what it
/// [exposed](BulkTransfer::expose), and the fabric (or the kernel below it) checks both before a byte moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// With whom.
    pub peer: Peer,
    /// Which way.
    pub direction: Direction,
    /// Address in this process.
    pub local: usize,
    /// Where in the peer: counted from what [`BulkTransfer::exposed_base`] said there.
    pub remote: usize,
    /// What [`BulkTransfer::expose`] answered there.
    pub key: u64,
    /// Bytes.
    pub len: usize,
}

/// A piece of memory, as plain numbers like those of a [`Descriptor`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Piece {
    /// First byte.
    pub address: usize,
    /// Bytes.
    pub len: usize,
}

/// Most pieces of either list that [`BulkTransfer::transfer_pieces`] takes.
pub const PIECES: usize = 256;

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
#[ambassador::delegatable_trait]
pub trait BulkTransfer {
    /// Whether transfers with `peer` work. Probed once, by a real transfer, and remembered.
    fn can_transfer(&self, peer: Peer) -> bool;
    /// Let `peer` transfer from this memory (and to it, when `writable`) until [`withdraw`](Self::withdraw). The
    /// key goes to the peer, by whatever way, together with [`exposed_base`](Self::exposed_base). A fabric on which
    /// transfers need no permission answers 0.
    ///
    /// # Safety
    /// `address` for `len` bytes is valid memory until `withdraw` has returned; while it is exposed writable,
    /// nothing else uses it.
    unsafe fn expose(&self, _peer: Peer, _address: usize, _len: usize, _writable: bool) -> Result<u64> {
        Ok(0)
    }
    /// What a peer is told as the position of the first byte exposed: its address, or 0 where positions are
    /// counted from there.
    fn exposed_base(&self, _peer: Peer, address: usize) -> u64 {
        address as u64
    }
    /// The end of what [`expose`](Self::expose) began. When it returns, no transfer touches the memory any more.
    fn withdraw(&self, _key: u64) {}
    /// Start a transfer.
    ///
    /// # Safety
    /// `descriptor.local` for `descriptor.len` bytes is memory of this process, valid and otherwise unused
    /// (for `Get`: writable) until the completion.
    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion>;
    /// Whether [`transfer_pieces`](Self::transfer_pieces) works with `peer`: where a transfer costs much however short it
    /// is, and many can be made at the cost of one.
    fn can_transfer_pieces(&self, _peer: Peer) -> bool {
        false
    }
    /// Move bytes between two lists of at most [`PIECES`] pieces that have as many bytes in all, here and in `peer`, which need not
    /// have exposed them. All have moved when it returns; after an error some may have.
    ///
    /// # Safety
    /// The pieces of `local` are memory of this process, valid and otherwise unused during the call, and for `Get` writable.
    unsafe fn transfer_pieces(
        &self,
        peer: Peer,
        _direction: Direction,
        _local: &[Piece],
        _remote: &[Piece],
    ) -> Result<()> {
        Err(FabricError::unsupported(
            peer,
            "a transfer of several pieces",
            "this fabric has none",
        ))
    }
    /// Whether the transfer has ended. After `true` or an error the ticket is used up.
    fn poll_transfer(&self, ticket: Ticket) -> Result<bool>;
    /// Give a transfer up. When it returns, our memory is not touched any more; the ticket is used up.
    fn cancel_transfer(&self, _ticket: Ticket) {}
}
