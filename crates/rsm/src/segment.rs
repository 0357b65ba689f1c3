//! Segments: memory that other processes may reach. Export and import, put, get and fence, the same on fabrics
//! that map memory and on those that do not (RSMAPI's export and import sides).

use farpost_fabric::{Access, FabricError, Peer, Permission, Remote, RemoteMemory, SegmentId};

/// A segment of this process. Withdrawn when dropped; what importers do with it afterwards harms nobody.
pub struct Exported<'a, F: RemoteMemory> {
    fabric: &'a F,
    id: SegmentId,
    memory: F::Export,
}

impl<'a, F: RemoteMemory> Exported<'a, F> {
    /// Make `len` zeroed bytes of memory and publish them as `id` to those that `access` names.
    ///
    /// # Errors
    /// The identifier is taken, the access list names a process that does not exist, or there is no memory.
    pub fn publish(fabric: &'a F, id: SegmentId, len: usize, access: Access) -> Result<Self, FabricError> {
        let memory = fabric.export(id, len, access)?;
        Ok(Self { fabric, id, memory })
    }

    /// The identifier.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// The memory, which importers may be reading and writing.
    pub fn memory(&self) -> &F::Export {
        &self.memory
    }
}

impl<F: RemoteMemory> Drop for Exported<'_, F> {
    fn drop(&mut self) {
        // It was published by this value and by nobody else withdrawn, so this cannot fail.
        let withdrawn = self.fabric.unpublish(self.id);
        debug_assert!(withdrawn.is_ok(), "{withdrawn:?}");
    }
}

/// A segment of another process.
pub struct Imported<F: RemoteMemory> {
    peer: Peer,
    id: SegmentId,
    permission: Permission,
    memory: F::Import,
}

impl<F: RemoteMemory> Imported<F> {
    /// Connect to segment `id` of `peer`, which must have at least `len` bytes and admit us with `permission`.
    ///
    /// # Errors
    /// It is not published (yet), denied, too short, or its owner is gone.
    pub fn connect(
        fabric: &F,
        peer: Peer,
        id: SegmentId,
        len: usize,
        permission: Permission,
    ) -> Result<Self, FabricError> {
        let memory = fabric.import(peer, id, len, permission)?;
        Ok(Self {
            peer,
            id,
            permission,
            memory,
        })
    }

    /// Write `from` at `offset`. It may arrive after later puts, until a [`fence`](Self::fence).
    ///
    /// # Errors
    /// The segment was imported for reading, or the bytes leave it.
    pub fn put(&self, offset: usize, from: &[u8]) -> Result<(), FabricError> {
        if self.permission != Permission::ReadWrite {
            return Err(FabricError::Denied {
                peer: self.peer,
                id: self.id.0,
            });
        }
        self.memory.put(offset, from)
    }

    /// Read into `to`; the bytes are here when this returns.
    ///
    /// # Errors
    /// The bytes leave the segment, or its owner is gone.
    pub fn get(&self, offset: usize, to: &mut [u8]) -> Result<(), FabricError> {
        self.memory.get(offset, to)
    }

    /// Everything put so far has arrived, or here is the error.
    ///
    /// # Errors
    /// A put since the last fence failed.
    pub fn fence(&self) -> Result<(), FabricError> {
        self.memory.fence()
    }

    /// Plain access, where the fabric maps memory.
    pub fn mapped(&self) -> Option<&F::Export> {
        F::mapped(&self.memory)
    }
}
