//! Where the network layer hands the memory of messages to the fabric or copies it. Like the crate's `memory`, the
//! only places with unsafe code: the addresses are those that the caller of [`send`](super::Net::send) and
//! [`Placement::Keep`](super::Placement::Keep) vouched for, and they stay as they are until the layer has said that it is done.

use crate::memory::{Segment, Segments};
use farpost_fabric::{
    Completion, Descriptor, Direction, Fabric, FabricError, LocalMemory, Peer, Piece, Remote,
};

/// Copy the bytes from `at` on.
pub(super) fn load(body: &Segments, at: usize, into: &mut [u8]) {
    let part = body.region(at, into.len());
    // SAFETY: the memory of a message is readable and nobody writes it until the layer says that it has been sent.
    unsafe { part.load(into) };
}

/// As [`load`], all of it, from its beginning.
#[inline(always)]
pub(super) fn load_all(body: &Segments, into: &mut [u8]) {
    // SAFETY: as for `load`.
    unsafe { body.load(into) };
}

/// Copy `bytes` to the place `at` bytes behind the beginning.
pub(super) fn store(memory: &Segments, at: usize, bytes: &[u8]) {
    let part = memory.region(at, bytes.len());
    // SAFETY: memory that a message is kept in is writable and nobody else's until the layer says that all bytes are there.
    unsafe { part.store(bytes) };
}

/// Show the bytes of a message piece by piece.
pub(super) fn each(body: &Segments, mut show: impl FnMut(&[u8])) {
    for Segment { address, len } in body.pieces() {
        // SAFETY: as for `load`: readable, and not written while the message is under way; pieces are not empty.
        show(unsafe { std::slice::from_raw_parts(address as *const u8, len) });
    }
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
    for Segment { address, len } in memory.pieces() {
        // SAFETY: as for `store`: writable and nobody else's until the message is complete; pieces are not empty.
        read(at, unsafe {
            std::slice::from_raw_parts_mut(address as *mut u8, len)
        })?;
        at += len;
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

/// Let a peer fetch a body: position and key.
pub(super) fn expose<F: Fabric>(fabric: &F, peer: Peer, body: Segment) -> Option<(u64, u64)> {
    // SAFETY: the memory stays as it is until the message has been sent, and is withdrawn before that is said; it is
    // exposed for reading only.
    let key = unsafe { fabric.expose(peer, body.address, body.len, false) }.ok()?;
    Some((fabric.exposed_base(peer, body.address), key))
}

/// Begin to move `local` from or to `peer`.
pub(super) fn transfer<F: Fabric>(
    fabric: &F,
    (peer, direction): (Peer, Direction),
    local: Segment,
    (position, key): (u64, u64),
) -> Result<Completion, FabricError> {
    let descriptor = Descriptor {
        peer,
        direction,
        local: local.address,
        remote: position as usize,
        key,
        len: local.len,
    };
    // SAFETY: the memory is the message's, readable (put) or writable (get) and used by nobody else, until the layer
    // says that it is done, which it does after the end of the transfer or its cancellation.
    unsafe { fabric.submit(&descriptor) }
}

/// Move all of `local` from or to pieces of a peer's memory.
pub(super) fn transfer_pieces<F: Fabric>(
    fabric: &F,
    (peer, direction): (Peer, Direction),
    local: &[Piece],
    remote: &[Piece],
) -> Result<(), FabricError> {
    // SAFETY: as for `transfer`; it has ended when this returns.
    unsafe { fabric.transfer_pieces(peer, direction, local, remote) }
}

/// Memory of the layer's own, as a piece that a peer's bytes are moved to.
pub(super) fn of_scratch(memory: &mut [u8], len: usize) -> Piece {
    Piece {
        address: memory.as_mut_ptr().expose_provenance(),
        len: len.min(memory.len()),
    }
}
