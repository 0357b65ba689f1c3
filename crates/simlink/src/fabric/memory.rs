//! Remote memory.

use super::{SimFabric, finish};
use crate::link::Link;
use farpost_fabric::{
    Access, Fabric, Grant, LINE_BYTES, Line, Peer, Permission, Remote, RemoteMemory, Result, SegmentId,
    assert_aligned, bytes_of,
};
use std::rc::Rc;

/// A peer's segment, reached through the machine.
pub struct Imported<L: Link> {
    link: Rc<L>,
    reached: L::Reached,
    grant: Grant,
}

impl<L: Link> Clone for Imported<L> {
    fn clone(&self) -> Self {
        Self {
            link: Rc::clone(&self.link),
            reached: self.reached.clone(),
            grant: self.grant,
        }
    }
}

impl<L: Link> Imported<L> {
    fn send(&self, offset: usize, bytes: &[u8], whole: bool) -> Result<()> {
        self.grant.check_write(offset, bytes.len())?;
        self.link.put(&self.reached, offset, bytes, whole)
    }
}

impl<L: Link> Remote for Imported<L> {
    fn len(&self) -> usize {
        self.grant.len
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
        let op = self.link.get(&self.reached, offset, to.len())?;
        finish(&*self.link, op, to)
    }

    fn fence(&self) -> Result<()> {
        let op = self.link.fence(&self.reached)?;
        finish(&*self.link, op, &mut [])?;
        self.link.fenced(&self.reached)
    }

    fn order(&self) -> Result<()> {
        if self.link.keeps_order(&self.reached, false) {
            return Ok(());
        }
        self.fence()
    }

    fn order_line(&self) -> Result<()> {
        if self.link.keeps_order(&self.reached, true) {
            return Ok(());
        }
        self.fence()
    }
}

impl<L: Link> RemoteMemory for SimFabric<L> {
    const MAPPED: bool = false;
    type Export = L::Memory;
    type Import = Imported<L>;

    fn allocate(&self, len: usize) -> Result<L::Memory> {
        self.link.allocate(len)
    }

    fn publish(&self, id: SegmentId, memory: &L::Memory, access: Access) -> Result<()> {
        self.link.publish(id, memory, access)
    }

    fn republish(&self, id: SegmentId, _memory: &L::Memory, access: Access) -> Result<()> {
        self.link.republish(id, access)
    }

    fn detach(&self, memory: &L::Memory) -> Result<()> {
        self.link.detach(memory)
    }

    fn gives_back(&self, _peer: Peer) -> bool {
        true
    }

    fn give_back(&self, _peer: Peer, memory: &L::Memory, range: std::ops::Range<usize>) {
        self.link.clear(memory, range);
    }

    fn unpublish(&self, id: SegmentId) -> Result<()> {
        self.link.unpublish(id)
    }

    fn import(&self, peer: Peer, id: SegmentId, len: usize, permission: Permission) -> Result<Imported<L>> {
        peer.check(self.size())?;
        let (reached, grant) = self.link.import(peer, id, (permission, len))?;
        Ok(Imported {
            link: Rc::clone(&self.link),
            reached,
            grant,
        })
    }
}
