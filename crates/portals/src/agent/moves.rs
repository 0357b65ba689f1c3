//! Bytes between the agent's memory and its clients': the only unsafe code of the bridge.

use crate::bridge::record::Piece;
use crate::memory::{Segment, Segments};
use farpost_fabric::{Completion, Descriptor, Direction, Fabric, FabricError, LocalMemory, Peer, Remote};

/// Let the agent reach a piece of this process's memory.
pub(super) fn expose<F: Fabric>(
    fabric: &F,
    agent: Peer,
    segment: Segment,
    writable: bool,
) -> Result<Piece, FabricError> {
    // SAFETY: memory of a descriptor: whoever made it vouches for it until it is gone, and it is withdrawn before that
    // is said, or when nothing of it is under way any more.
    let key = unsafe { fabric.expose(agent, segment.address, segment.len, writable) }?;
    Ok(Piece {
        address: segment.address as u64,
        len: segment.len as u64,
        position: fabric.exposed_base(agent, segment.address),
        key,
    })
}

/// Begin to move bytes between `local`, memory of the agent's arena, and a client.
pub(super) fn transfer<F: Fabric>(
    fabric: &F,
    (client, direction): (Peer, Direction),
    local: Segment,
    (position, key): (u64, u64),
) -> Result<Completion, FabricError> {
    let descriptor = Descriptor {
        peer: client,
        direction,
        local: local.address,
        remote: position as usize,
        key,
        len: local.len,
    };
    // SAFETY: `local` is a part of the arena that was allocated for this move, and stays so until the move has ended or
    // was cancelled. What the client's side is, the fabric checks.
    unsafe { fabric.submit(&descriptor) }
}

/// Copy a short body out of the program's memory.
pub(super) fn load(body: &Segments, into: &mut [u8]) {
    // SAFETY: memory of a descriptor, which the program does not write while it is being sent (see `Client::md_bind`).
    unsafe { body.load(into) }
}

/// Copy bytes to memory of the arena, or of a get-put.
pub(super) fn store(into: &Segments, bytes: &[u8]) {
    // SAFETY: memory that was allocated for this message, or that of a descriptor which accepted it.
    unsafe { into.store(bytes) }
}

/// Copy a window of the agent's to a piece of memory that was lent for writing.
pub(super) fn fetch<R: Remote>(import: &R, at: usize, into: Segment) -> Result<(), FabricError> {
    if into.len == 0 {
        return Ok(());
    }
    // SAFETY: a part of memory that a descriptor lends and that nobody else uses until it is withdrawn.
    let bytes = unsafe { std::slice::from_raw_parts_mut(into.address as *mut u8, into.len) };
    import.get(at, bytes)
}

/// Copy a piece of memory that was lent to a window of the agent's.
pub(super) fn bring<R: Remote>(import: &R, at: usize, from: Segment) -> Result<(), FabricError> {
    if from.len == 0 {
        return Ok(());
    }
    // SAFETY: a part of memory that a descriptor lends and that nobody writes until it is withdrawn.
    let bytes = unsafe { std::slice::from_raw_parts(from.address as *const u8, from.len) };
    import.put(at, bytes)
}

/// Copy memory of the arena to a window.
pub(super) fn to_window<M: LocalMemory>(window: &M, at: usize, from: Segment) {
    if from.len > 0 {
        // SAFETY: a part of the arena that was allocated for a message and is not written while it is copied.
        window.write(at, unsafe {
            std::slice::from_raw_parts(from.address as *const u8, from.len)
        });
    }
}

/// Copy a window to memory of the arena.
pub(super) fn from_window<M: LocalMemory>(window: &M, at: usize, into: Segment) {
    if into.len > 0 {
        // SAFETY: a part of the arena that was allocated for a message and that nobody else uses.
        window.read(at, unsafe {
            std::slice::from_raw_parts_mut(into.address as *mut u8, into.len)
        });
    }
}
