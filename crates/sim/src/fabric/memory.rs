//! Remote memory.

use super::SimFabric;
use crate::adapter::{Get, Pair, Put};
use crate::process::ImportId;
use crate::running::Running;
use farpost_fabric::segment::Segment;
use farpost_fabric::{
    Access, Grant, LINE_BYTES, Line, LocalMemory, Peer, Permission, Remote, RemoteMemory, Result, SegmentId,
    assert_aligned, bytes_of,
};
use std::rc::Rc;

/// A peer's segment, reached through the machine.
#[derive(Clone)]
pub struct Imported {
    running: Rc<Running>,
    pair: Pair,
    import: ImportId,
    grant: Grant,
    segment: Segment,
}

impl Imported {
    fn send(&self, offset: usize, bytes: &[u8], whole: bool) -> Result<()> {
        self.grant.check_write(offset, bytes.len())?;
        self.running.sync(self.pair.from);
        let mut core = self.running.core.borrow_mut();
        let (adapter, kernel) = core.adapter(self.pair.from, self.pair.to);
        let time = adapter.put(
            kernel,
            Put {
                pair: self.pair,
                import: self.import,
                segment: &self.segment,
                offset,
                bytes,
                whole,
            },
        )?;
        core.spend(self.pair.from, time);
        Ok(())
    }

    /// Wait for an operation, as [`SimFabric`] does.
    fn finish(&self, op: crate::process::OpId) -> Result<Vec<u8>> {
        SimFabric::new(Rc::clone(&self.running), self.pair.from).finish(op)
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
        self.running.sync(self.pair.from);
        let op = {
            let mut core = self.running.core.borrow_mut();
            core.kernel.procs.check_alive(self.pair.to)?;
            let (adapter, kernel) = core.adapter(self.pair.from, self.pair.to);
            let (time, op) = adapter.get(
                kernel,
                Get {
                    pair: self.pair,
                    segment: &self.segment,
                    offset,
                    len: to.len(),
                },
            )?;
            core.spend(self.pair.from, time);
            op
        };
        to.copy_from_slice(&self.finish(op)?);
        Ok(())
    }

    fn fence(&self) -> Result<()> {
        self.running.sync(self.pair.from);
        let op = {
            let mut core = self.running.core.borrow_mut();
            let (adapter, kernel) = core.adapter(self.pair.from, self.pair.to);
            let (time, op) = adapter.fence(kernel, self.pair, self.import)?;
            core.spend(self.pair.from, time);
            op
        };
        self.finish(op)?;
        let mut core = self.running.core.borrow_mut();
        core.kernel.procs.check_alive(self.pair.to)?;
        let error = core.kernel.procs.import_of(self.import).error.take();
        error.map_or(Ok(()), Err)
    }
}

impl RemoteMemory for SimFabric {
    const MAPPED: bool = false;
    type Export = Segment;
    type Import = Imported;

    fn allocate(&self, len: usize) -> Result<Segment> {
        Ok(Segment::new(len))
    }

    fn publish(&self, id: SegmentId, memory: &Segment, access: Access) -> Result<()> {
        self.running.sync(self.me);
        self.core().kernel.procs.publish(self.me, id, memory, access)
    }

    fn republish(&self, id: SegmentId, _memory: &Segment, access: Access) -> Result<()> {
        self.running.sync(self.me);
        self.core().kernel.procs.republish(self.me, id, access)
    }

    fn detach(&self, memory: &Segment) -> Result<()> {
        memory.detach();
        Ok(())
    }

    fn gives_back(&self, _peer: Peer) -> bool {
        true
    }

    fn give_back(&self, _peer: Peer, memory: &Segment, range: std::ops::Range<usize>) {
        memory.clear(range);
    }

    fn unpublish(&self, id: SegmentId) -> Result<()> {
        self.running.sync(self.me);
        self.core().kernel.procs.unpublish(self.me, id)
    }

    fn import(&self, peer: Peer, id: SegmentId, len: usize, permission: Permission) -> Result<Imported> {
        peer.check(self.size)?;
        self.running.sync(self.me);
        let mut core = self.core();
        core.kernel.procs.check_alive(peer)?;
        let published = core.kernel.procs.published(peer, id)?;
        let segment = published.segment.as_imported();
        let granted = published.access.of(self.me);
        let grant = Grant::new((peer, id), segment.len(), granted, (permission, len))?;
        let pair = Pair {
            from: self.me,
            to: peer,
        };
        Ok(Imported {
            running: Rc::clone(&self.running),
            pair,
            import: core.kernel.procs.import(self.me, peer),
            grant,
            segment,
        })
    }
}
