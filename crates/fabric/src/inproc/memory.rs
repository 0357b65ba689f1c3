//! Segments and imports.

use super::state::{ImportId, Published};
use super::{InProc, Network};
use crate::segment::Segment;
use crate::{
    Access, FabricError, Grant, LINE_BYTES, Line, LocalMemory, Peer, Permission, Remote, RemoteMemory,
    Result, SegmentId, assert_aligned, bytes_of,
};

/// A peer's segment, reached through the network.
#[derive(Clone)]
pub struct Imported {
    network: Network,
    /// Sender, owner and number of this import.
    route: (Peer, Peer, ImportId),
    grant: Grant,
    segment: Segment,
}

impl Imported {
    fn send(&self, offset: usize, bytes: &[u8], whole: bool) -> Result<()> {
        self.grant.check_write(offset, bytes.len())?;
        let mut state = self.network.0.borrow_mut();
        state.put(self.route, &self.segment, offset, bytes, whole);
        state.drift();
        Ok(())
    }
}

impl Remote for Imported {
    fn len(&self) -> usize {
        self.segment.len()
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.send(offset, from, false)
    }

    fn put_word(&self, offset: usize, value: u64) -> Result<()> {
        assert_aligned(offset, 8);
        self.send(offset, &value.to_ne_bytes(), true)
    }

    fn put_line(&self, offset: usize, line: &Line) -> Result<()> {
        assert_aligned(offset, LINE_BYTES);
        self.send(offset, &bytes_of(line), true)
    }

    fn get(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.grant.check(offset, to.len())?;
        let mut at = 0;
        while at < to.len() {
            {
                let mut state = self.network.0.borrow_mut();
                state.check_alive(self.route.1)?;
                state.drift();
            }
            // Up to the next multiple of eight, so that words are never torn.
            let len = (8 - (offset + at) % 8).min(to.len() - at);
            self.segment.read(offset + at, &mut to[at..at + len]);
            at += len;
        }
        self.network.0.borrow().check_alive(self.route.1)
    }

    fn fence(&self) -> Result<()> {
        let (_, to, import) = self.route;
        self.network.0.borrow_mut().fence(to, import)
    }
}

impl RemoteMemory for InProc {
    const MAPPED: bool = false;
    type Export = Segment;
    type Import = Imported;

    fn allocate(&self, len: usize) -> Result<Segment> {
        Ok(Segment::new(len))
    }

    fn publish(&self, id: SegmentId, memory: &Segment, access: Access) -> Result<()> {
        access.check(self.size)?;
        let mut state = self.network.0.borrow_mut();
        if state.published.contains_key(&(self.me, id)) {
            return Err(FabricError::InUse { id: id.0 });
        }
        let published = Published {
            segment: memory.clone(),
            access,
        };
        state.published.insert((self.me, id), published);
        Ok(())
    }

    fn republish(&self, id: SegmentId, _memory: &Segment, access: Access) -> Result<()> {
        access.check(self.size)?;
        let mut state = self.network.0.borrow_mut();
        let published = state.published.get_mut(&(self.me, id));
        let published = published.ok_or(FabricError::not_published(self.me, id))?;
        published.access = access;
        Ok(())
    }

    /// Imports of the past see memory of their own from now on.
    fn detach(&self, memory: &Segment) -> Result<()> {
        memory.detach();
        Ok(())
    }

    fn gives_back(&self, _peer: Peer) -> bool {
        true
    }

    /// All bytes at once, not whole pages: who needs one of them notices.
    fn give_back(&self, _peer: Peer, memory: &Segment, range: std::ops::Range<usize>) {
        memory.clear(range);
    }

    fn unpublish(&self, id: SegmentId) -> Result<()> {
        let mut state = self.network.0.borrow_mut();
        let gone = state.published.remove(&(self.me, id));
        gone.map(|_| ()).ok_or(FabricError::not_published(self.me, id))
    }

    fn import(&self, peer: Peer, id: SegmentId, len: usize, permission: Permission) -> Result<Imported> {
        self.check_peer(peer)?;
        let mut state = self.network.0.borrow_mut();
        state.drift();
        state.check_alive(peer)?;
        let published = state
            .published
            .get(&(peer, id))
            .ok_or(FabricError::NotPublished { peer, id: id.0 })?;
        let segment = published.segment.as_imported();
        let granted = published.access.of(self.me);
        let grant = Grant::new((peer, id), segment.len(), granted, (permission, len))?;
        Ok(Imported {
            network: self.network.clone(),
            route: (self.me, peer, state.new_import()),
            grant,
            segment,
        })
    }
}
