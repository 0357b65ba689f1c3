//! Where the network layer hands the memory of messages to the fabric or copies it: the addresses are those that the caller of [`send`](super::Net::send) and
//! [`Placement::Keep`](super::Placement::Keep) vouched for, and they stay as they are until the layer has said that it is done.

use crate::memory::{Segments, user};
use farpost_fabric::{Direction, Fabric, FabricError, LocalMemory, Peer, Piece, Remote};

/// Copy the bytes from `at` on.
pub(super) fn load(body: &Segments, at: usize, into: &mut [u8]) {
    user::load(&body.region(at, into.len()), into);
}

/// Copy `bytes` to the place `at` bytes behind the beginning.
pub(super) fn store(memory: &Segments, at: usize, bytes: &[u8]) {
    user::store(&memory.region(at, bytes.len()), bytes);
}

/// Show the bytes of a message piece by piece.
pub(super) fn each(body: &Segments, mut show: impl FnMut(&[u8])) {
    body.pieces().for_each(|piece| user::read(piece, &mut show));
}

/// CRC-32 of a body.
pub(super) fn check_of(body: &Segments) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    each(body, |bytes| hasher.update(bytes));
    hasher.finalize()
}

/// Copy a body into memory that peers read.
pub(super) fn stage(memory: &impl LocalMemory, offset: usize, body: &Segments) {
    let mut at = offset;
    each(body, |bytes| {
        memory.write(at, bytes);
        at += bytes.len();
    });
}

/// Copy `memory.len()` bytes out of a peer's memory by `read`, which is told from where on.
fn fill(
    memory: &Segments,
    offset: usize,
    mut read: impl FnMut(usize, &mut [u8]) -> Result<(), FabricError>,
) -> Result<(), FabricError> {
    let mut at = offset;
    for piece in memory.pieces() {
        user::write(piece, |into| read(at, into))?;
        at += piece.len;
    }
    Ok(())
}

/// Copy `memory.len()` bytes out of a peer's memory.
pub(super) fn fetch_staged(
    import: &impl Remote,
    offset: usize,
    memory: &Segments,
) -> Result<(), FabricError> {
    fill(memory, offset, |at, into| import.get(at, into))
}

/// As [`fetch_staged`], out of memory that is mapped here, where it cannot fail.
pub(super) fn read_staged(mapped: &impl LocalMemory, offset: usize, memory: &Segments) {
    let read = |at, into: &mut [u8]| {
        mapped.read(at, into);
        Ok(())
    };
    let filled = fill(memory, offset, read);
    debug_assert!(filled.is_ok());
}

/// Move all of `local` from or to pieces of a peer's memory.
pub(super) fn transfer_pieces<F: Fabric>(
    fabric: &F,
    (peer, direction): (Peer, Direction),
    local: &[Piece],
    remote: &[Piece],
) -> Result<(), FabricError> {
    // SAFETY: as for `user::transfer`; it has ended when this returns.
    unsafe { fabric.transfer_pieces(peer, direction, local, remote) }
}

/// Memory of the layer's own, as a piece that a peer's bytes are moved to.
pub(super) fn of_scratch(memory: &mut [u8], len: usize) -> Piece {
    Piece {
        address: memory.as_mut_ptr().expose_provenance(),
        len: len.min(memory.len()),
    }
}
