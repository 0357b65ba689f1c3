//! Receivers that end before they have taken what was posted to them.
//!
//! Cost class: *queued path*, for the idle moment; a system call now and then while a receiver takes nothing.

use crate::postbox::Postboxes;
use farpost_fabric::{Fabric, FabricError, Fault, Peer};

/// Audits without an ack after which the receiver is looked for, and again: a look is a system call or two.
const AUDITS_BEFORE_LOOK: u32 = 16;

impl<F: Fabric> Postboxes<F> {
    /// Find receivers that have ended and will not take what was posted. Nobody reads the blocks that were under
    /// way to them: they are free again. True: one was found, and a fault names it.
    pub(crate) fn reap_ended(&mut self) -> bool {
        let mut found = false;
        let mut next = 0;
        while let Some(peer) = self.tx.written_from(next) {
            next = peer.index() + 1;
            self.refresh(peer);
            let Some(tx) = self.tx.get_mut(peer.index()).and_then(Option::as_deref_mut) else {
                continue;
            };
            if tx.head == tx.acked || tx.dead && tx.blocks.is_empty() {
                continue;
            }
            let (audits, acked) = tx.idle;
            if acked != tx.acked || audits + 1 < AUDITS_BEFORE_LOOK {
                let audits = if acked == tx.acked { audits + 1 } else { 0 };
                tx.idle = (audits, tx.acked);
                continue;
            }
            tx.idle.0 = 0;
            let Some(end) = self.fabric.end_of(peer) else {
                continue;
            };
            let known = tx.dead;
            self.reap(peer);
            if !known {
                let why = format!("{}, and has not taken what was sent to it", end.why);
                let error = FabricError::PeerDead { peer, why };
                self.fabric.record_fault(Fault { peer, error });
                found = true;
            }
        }
        found
    }

    /// `peer` is gone: it takes nothing any more, and nothing more is posted to it.
    pub fn reap(&mut self, peer: Peer) {
        let Some(tx) = self.tx.get_mut(peer.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        if let Some(pool) = &mut self.pools[tx.home] {
            for (_, block) in tx.blocks.drain(..) {
                tx.lent -= pool.parts(block);
                pool.give(block);
            }
        }
        if !tx.dead {
            tx.die();
        }
    }
}
