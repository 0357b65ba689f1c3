//! Blocks: taken from the pool, written, posted along with a postbox, and read at the other end.

use super::{Outlet, Postboxes};
use crate::pool::Size;
use farpost_fabric::{Cost, Fabric, FabricError, Fault, Line, LocalMemory, Peer, Remote};

/// The most bytes of blocks fetched for the next message: no more than the cache next to the core has room for.
const PREPARED: usize = 32 << 10;

impl<F: Fabric> Postboxes<F> {
    /// A block for a message to `peer`, if there is one that it may have: where receivers share a pool, none has more than
    /// [a share](Pool::take) of it.
    pub fn take_block(&mut self, peer: Peer) -> Option<u32> {
        self.take(peer, Size::Block)
    }

    /// As [`take_block`](Self::take_block), for `bytes` that fit into one: a part of a block if they fit into that.
    #[inline]
    pub fn take_block_for(&mut self, peer: Peer, bytes: usize) -> Option<u32> {
        let size = if bytes <= self.layout.part() {
            Size::Part
        } else {
            Size::Block
        };
        self.take(peer, size)
    }

    fn take(&mut self, peer: Peer, size: Size) -> Option<u32> {
        if let Some(block) = self.try_block(peer, size) {
            return Some(block);
        }
        let home = self.tx[peer.index()].as_deref()?.home;
        let mut next = 0;
        while let Some(other) = self.tx.written_from(next) {
            next = other.index() + 1;
            if self.tx[other.index()]
                .as_deref()
                .is_some_and(|tx| tx.home == home && !tx.blocks.is_empty())
            {
                self.refresh(other);
            }
        }
        self.try_block(peer, size)
    }

    #[inline]
    fn try_block(&mut self, peer: Peer, size: Size) -> Option<u32> {
        let tx = self.tx[peer.index()].as_deref()?;
        if tx.resting {
            self.resume(peer);
        } else if !F::MAPPED && matches!(tx.outlet, Outlet::Far(_))
            || self.pools[tx.home].as_ref()?.is_untouched(size)
        {
            // What was not touched yet costs memory. Where the fabric does not map, the ack is in our own cache.
            self.refresh(peer);
        }
        let tx = self.tx.get_mut(peer.index()).and_then(Option::as_deref_mut)?;
        let block = self.pools[tx.home].as_mut()?.take(tx.lent, size)?;
        tx.lent += size.parts();
        Some(block)
    }

    /// Whether blocks are under way to `peer`: it frees them when it takes their postboxes. Where none are, a block that
    /// is not there now may be somebody else's for as long as he likes.
    pub fn has_blocks(&self, peer: Peer) -> bool {
        self.tx[peer.index()]
            .as_deref()
            .is_some_and(|tx| !tx.blocks.is_empty())
    }

    /// A message of `bytes` went through blocks to `peer`: get hold of the lines that the next one like it will be
    /// written to. Their last reader still has copies, which have to be called back before a store takes effect; now
    /// that costs nobody anything, later it is a quarter of the time of a message.
    pub fn prepare_blocks(&mut self, peer: Peer, bytes: usize) {
        let Some(tx) = self.tx[peer.index()].as_deref() else {
            return;
        };
        let (Outlet::Own(memory), Some(pool)) = (&tx.outlet, &self.pools[tx.home]) else {
            return;
        };
        let layout = tx.layout;
        if bytes <= layout.part() {
            if let Some(part) = pool.next_part() {
                memory.prefetch_write(layout.pool_block(part), bytes);
            }
            return;
        }
        let mut left = bytes.min(PREPARED);
        for block in pool.next() {
            if left == 0 {
                break;
            }
            let here = left.min(tx.layout.block as usize);
            memory.prefetch_write(tx.layout.pool_block(block), here);
            left -= here;
        }
    }

    /// Write into a block that was taken.
    pub fn write_block(&mut self, peer: Peer, block: u32, offset: usize, from: &[u8]) {
        let tx = self.tx[peer.index()]
            .as_deref_mut()
            .expect("the block was taken for this peer");
        assert!(
            tx.layout
                .holds(block)
                .is_some_and(|holds| offset + from.len() <= holds),
            "write leaves the block"
        );
        let at = tx.layout.pool_block(block) + offset;
        let result = match &tx.outlet {
            Outlet::Own(memory) => {
                self.fabric.charge(Cost::Copy(from.len()));
                memory.write(at, from);
                Ok(())
            }
            // The fabric knows what that costs.
            Outlet::Far(memory) => memory.put(at, from),
        };
        if let Err(error) = result {
            tx.die();
            self.fabric.record_fault(Fault { peer, error });
        }
    }

    /// Post a postbox that refers to bytes written to a block: they are there before the postbox is. With the
    /// last such postbox the block is given along, and is free again when that one is consumed.
    pub fn post_block(&mut self, peer: Peer, line: &Line, last_of: Option<u32>, bytes: u64) {
        let tx = self.tx[peer.index()]
            .as_deref_mut()
            .expect("room was asked first");
        if let Outlet::Far(memory) = &tx.outlet
            && let Err(error) = memory.order()
        {
            tx.die();
            self.fabric.record_fault(Fault { peer, error });
            return;
        }
        if let Some(block) = last_of {
            tx.blocks.push_back((tx.head, block));
        }
        self.post(peer, line, bytes);
    }

    /// Give back a block that was taken and not posted.
    pub fn return_block(&mut self, peer: Peer, block: u32) {
        if let Some(tx) = self.tx.get_mut(peer.index()).and_then(Option::as_deref_mut)
            && let Some(pool) = &mut self.pools[tx.home]
        {
            tx.lent -= pool.parts(block);
            pool.give(block);
        }
    }

    /// Copy out of a block that a postbox from `peer` referred to. The error names the peer when the block
    /// or the length cannot be right.
    pub fn read_block(
        &self,
        peer: Peer,
        block: u32,
        offset: usize,
        to: &mut [u8],
    ) -> Result<(), FabricError> {
        let rx = self.rx[peer.index()].as_deref().ok_or(FabricError::PeerDead {
            peer,
            why: "it has opened no queue".into(),
        })?;
        let holds = rx
            .layout
            .holds(block)
            .ok_or_else(|| FabricError::corrupt(peer, "a block index", block))?;
        if offset > holds || to.len() > holds - offset {
            return Err(FabricError::corrupt(peer, "a block length", to.len() as u64));
        }
        self.fabric.charge(Cost::Copy(to.len()));
        rx.memory.read(rx.layout.pool_block(block) + offset, to);
        Ok(())
    }
}
