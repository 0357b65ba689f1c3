//! Eager zero-copy: bytes that follow a line without being asked for.

use crate::{FabricError, Peer, Result};

/// Messages whose bytes go along with the line that tells of them, from the sender's memory to the network. The receiver
/// says where they belong when it has read the line; until then they stay where they are, or in memory of the fabric, of
/// which a sender may use so much and no more.
///
/// A fabric without them has no room for any.
#[ambassador::delegatable_trait]
pub trait ZeroCopy {
    /// The longest payload that may be sent to `peer` now, bytes. 0: none, now or ever.
    #[inline]
    fn zcopy_room(&self, _peer: Peer) -> usize {
        0
    }
    /// `len` bytes at `address`, at least one and no more than there is [room](Self::zcopy_room) for, follow the next line
    /// put to `peer`. The number goes to the receiver, in that line.
    ///
    /// # Safety
    /// The memory is valid and stays as it is until [`zcopy_sent`](Self::zcopy_sent) says so, or
    /// [`release_zcopy`](Self::release_zcopy) has returned.
    unsafe fn send_zcopy(&self, peer: Peer, _address: usize, _len: usize) -> Result<u32> {
        Err(none(peer))
    }
    /// Whether `peer` has all of the payload; then, and after an error, the number is used up.
    fn zcopy_sent(&self, peer: Peer, _number: u32) -> Result<bool> {
        Err(none(peer))
    }
    /// The memory of a payload is wanted back: what may have to be sent yet is copied. The number is used up.
    fn release_zcopy(&self, _peer: Peer, _number: u32) {}
    /// Tail `number` of `peer`, of `len` bytes, goes to `address`.
    ///
    /// # Errors
    /// There can be no such payload, or it was claimed before: a peer said something wrong.
    ///
    /// # Safety
    /// The memory is writable and otherwise unused until [`zcopy_landed`](Self::zcopy_landed) says so, or
    /// [`drop_zcopy`](Self::drop_zcopy) has returned.
    unsafe fn land_zcopy(&self, peer: Peer, _number: u32, _address: usize, _len: usize) -> Result<()> {
        Err(none(peer))
    }
    /// Whether all bytes of a payload that was given a place are there; then, and after an error, it is forgotten.
    fn zcopy_landed(&self, peer: Peer, _number: u32) -> Result<bool> {
        Err(none(peer))
    }
    /// Show `take` the bytes of a payload without a place, once all are here (then true, and it is forgotten).
    fn take_zcopy(
        &self,
        peer: Peer,
        _number: u32,
        _len: usize,
        _take: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        Err(none(peer))
    }
    /// Nobody wants a payload, or wants it any more: its memory is not written after this returns.
    fn drop_zcopy(&self, _peer: Peer, _number: u32, _len: usize) {}
}

#[cold]
fn none(peer: Peer) -> FabricError {
    FabricError::unsupported(peer, "bytes that follow a line", "this fabric has none")
}
