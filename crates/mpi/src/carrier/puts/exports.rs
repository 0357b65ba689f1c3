//! Memory of this process that peers write to by messages.

use farpost_fabric::{Access, FabricError, LocalMemory, Peer, Permission, SegmentId};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The segments.
pub(super) struct Exports<M> {
    all: RefCell<BTreeMap<u32, (M, Access)>>,
    /// Per peer, the segment it wrote to last, which it may.
    recent: RefCell<Vec<Option<(u32, M)>>>,
}

fn permits(access: &Access, peer: Peer) -> bool {
    match access {
        Access::Everyone(permission) => *permission == Permission::ReadWrite,
        Access::Only(list) => list.contains(&(peer, Permission::ReadWrite)),
    }
}

impl<M: LocalMemory + Clone> Exports<M> {
    pub fn new(peers: u32) -> Self {
        Self {
            all: RefCell::default(),
            recent: RefCell::new((0..peers).map(|_| None).collect()),
        }
    }

    /// Whether a segment is there.
    pub fn has(&self, id: SegmentId) -> bool {
        self.all.borrow().contains_key(&id.0)
    }

    /// Let peers write to `memory`; in the place of what was under that number.
    pub fn set(&self, id: SegmentId, memory: M, access: Access) {
        self.all.borrow_mut().insert(id.0, (memory, access));
        self.forget(id);
    }

    /// The end of [`set`](Self::set). False: there was none.
    pub fn remove(&self, id: SegmentId) -> bool {
        self.forget(id);
        self.all.borrow_mut().remove(&id.0).is_some()
    }

    fn forget(&self, id: SegmentId) {
        for recent in self.recent.borrow_mut().iter_mut() {
            recent.take_if(|(of, _)| *of == id.0);
        }
    }

    /// What a message of `peer` says: write `bytes` at `offset` of segment `id`.
    ///
    /// # Errors
    /// There is no such segment, it is not the peer's to write to, or the bytes leave it.
    #[inline(always)]
    pub fn write(&self, peer: Peer, id: u32, offset: usize, bytes: &[u8]) -> Result<(), FabricError> {
        if let Some(Some((recent, memory))) = self.recent.borrow().get(peer.index())
            && *recent == id
        {
            return write(memory, offset, bytes);
        }
        self.write_other(peer, id, offset, bytes)
    }

    #[cold]
    #[inline(never)]
    fn write_other(&self, peer: Peer, id: u32, offset: usize, bytes: &[u8]) -> Result<(), FabricError> {
        let all = self.all.borrow();
        // Names the peer at fault, which is the one that wrote.
        let (memory, access) = all.get(&id).ok_or(FabricError::Corrupt {
            peer,
            what: "a segment that this process has published",
            value: u64::from(id),
        })?;
        if !permits(access, peer) {
            return Err(FabricError::Corrupt {
                peer,
                what: "a segment that it may write to",
                value: u64::from(id),
            });
        }
        write(memory, offset, bytes)?;
        if let Some(recent) = self.recent.borrow_mut().get_mut(peer.index()) {
            *recent = Some((id, memory.clone()));
        }
        Ok(())
    }
}

#[inline(always)]
fn write<M: LocalMemory>(memory: &M, offset: usize, bytes: &[u8]) -> Result<(), FabricError> {
    let len = memory.len();
    if offset > len || bytes.len() > len - offset {
        let end = offset.saturating_add(bytes.len());
        return Err(FabricError::OutOfRange { offset, end, len });
    }
    if offset.is_multiple_of(8) && bytes.len().is_multiple_of(8) && bytes.len() <= 64 {
        // A postbox or an acknowledgement. Nobody looks before this returns.
        for (i, word) in bytes.chunks_exact(8).enumerate() {
            memory.store(
                offset + 8 * i,
                u64::from_le_bytes(word.try_into().expect("eight bytes")),
            );
        }
    } else {
        memory.write(offset, bytes);
    }
    Ok(())
}
