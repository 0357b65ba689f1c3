//! Eager zero-copy: bytes that follow a line without being asked for.

use crate::{FabricError, Peer};

/// Messages whose bytes go along with the line that tells of them, from the sender's memory to the network. The receiver
/// says where they belong when it has read the line; until then they stay where they are, or in memory of the fabric, of
/// which a sender may use so much and no more.
///
/// A fabric without them has no room for any.
#[ambassador::delegatable_trait]
pub trait Tails {
    /// The longest tail that may be sent to `peer` now, bytes. 0: none, now or ever.
    #[inline]
    fn tail_room(&self, _peer: Peer) -> usize {
        0
    }
    /// `len` bytes at `address`, at least one and no more than there is [room](Self::tail_room) for, follow the next line
    /// put to `peer`. The number goes to the receiver, in that line.
    ///
    /// # Safety
    /// The memory is valid and stays as it is until [`tail_sent`](Self::tail_sent) says so, or
    /// [`release_tail`](Self::release_tail) has returned.
    unsafe fn send_tail(&self, peer: Peer, _address: usize, _len: usize) -> Result<u32, FabricError> {
        Err(none(peer))
    }
    /// Whether `peer` has all of the tail; then, and after an error, the number is used up.
    fn tail_sent(&self, peer: Peer, _number: u32) -> Result<bool, FabricError> {
        Err(none(peer))
    }
    /// The memory of a tail is wanted back: what may have to be sent yet is copied. The number is used up.
    fn release_tail(&self, _peer: Peer, _number: u32) {}
    /// Tail `number` of `peer`, of `len` bytes, goes to `address`.
    ///
    /// # Errors
    /// There can be no such tail, or it was claimed before: a peer said something wrong.
    ///
    /// # Safety
    /// The memory is writable and otherwise unused until [`tail_landed`](Self::tail_landed) says so, or
    /// [`drop_tail`](Self::drop_tail) has returned.
    unsafe fn land_tail(
        &self,
        peer: Peer,
        _number: u32,
        _address: usize,
        _len: usize,
    ) -> Result<(), FabricError> {
        Err(none(peer))
    }
    /// Whether all bytes of a tail that was given a place are there; then, and after an error, it is forgotten.
    fn tail_landed(&self, peer: Peer, _number: u32) -> Result<bool, FabricError> {
        Err(none(peer))
    }
    /// Show `take` the bytes of a tail without a place, once all are here (then true, and it is forgotten).
    fn take_tail(
        &self,
        peer: Peer,
        _number: u32,
        _len: usize,
        _take: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, FabricError> {
        Err(none(peer))
    }
    /// Nobody wants a tail, or wants it any more: its memory is not written after this returns.
    fn drop_tail(&self, _peer: Peer, _number: u32, _len: usize) {}
}

#[cold]
fn none(peer: Peer) -> FabricError {
    FabricError::Unsupported {
        peer,
        what: "bytes that follow a line",
        why: "this fabric has none".into(),
    }
}
