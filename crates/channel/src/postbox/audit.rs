//! For the idle moment: queues that cannot be right are found and closed, owed acks are paid, and counts go to the fabric.
//!
//! Cost class: *queued path*.

use super::ends::Traffic;
use super::{Outlet, Postboxes};
use farpost_fabric::{Counter, Fabric, FabricError, Fault, Lines, Peer, Remote};

impl<F: Fabric> Postboxes<F> {
    /// The sender's queue is beyond trust: record why and stop reading it.
    #[cold]
    pub fn fail_sender(&mut self, peer: Peer, error: FabricError) {
        if let Some(rx) = self.rx.get_mut(peer.index()).and_then(Option::as_deref_mut) {
            rx.dead = true;
        }
        self.senders.retain(|sender| *sender != peer);
        self.resting.retain(|sender| *sender != peer);
        self.rx[peer.index()] = None;
        self.fabric.record_fault(Fault { peer, error });
    }

    /// Where puts may be lost, find out about those whose acks are missing.
    fn audit_outlets(&mut self) {
        if F::MAPPED {
            return;
        }
        let mut next = 0;
        while let Some(peer) = self.tx.written_from(next) {
            next = peer.index() + 1;
            if let Some(tx) = self.tx.get_mut(peer.index()).and_then(Option::as_deref_mut)
                && !tx.dead
                && tx.head != tx.acked
                && let Outlet::Far(memory) = &tx.outlet
                && let Err(error) = memory.order()
            {
                tx.die();
                self.fabric.record_fault(Fault { peer, error });
            }
        }
    }

    /// Check that the next slot of every queue holds what it may hold: the next postbox, the one from a
    /// lap ago, or nothing since its memory was [given back](crate::rest). For the slow path: an idle receiver finds garbage that the fast path only fails to match. And look,
    /// now and then, whether those who take nothing are still there. True: a queue was closed, and a fault says why.
    pub fn audit(&mut self) -> bool {
        self.audit_outlets();
        let mut closed = self.reap_ended();
        for index in (0..self.senders.len()).rev() {
            let peer = self.senders[index];
            let Some(rx) = self.rx[peer.index()].as_deref() else {
                continue;
            };
            let found = rx.lines.first(rx.tail) as u32;
            let wanted = rx.tail.wrapping_add(1);
            let before = if rx.tail < rx.slots {
                0
            } else {
                wanted.wrapping_sub(rx.slots)
            };
            // Numbers wrap after 2^32 postboxes; then the first lap's zero is a number like any other.
            if found != wanted && found != before && found != 0 && found != wanted.wrapping_sub(rx.slots) {
                self.fail_sender(peer, FabricError::corrupt(peer, "a postbox number", found));
                closed = true;
            }
        }
        closed
    }

    /// Pay acks that are owed and add to the counters what was counted here: for the idle moment.
    pub fn settle(&mut self) {
        for index in 0..self.senders.len() {
            let peer = self.senders[index];
            let Some(rx) = self.rx.get_mut(peer.index()).and_then(Option::as_deref_mut) else {
                continue;
            };
            if rx.owed > 0 {
                let result = rx.acknowledge();
                self.check_ack(peer, result);
            }
        }
        let count = |peer: Peer, counted: &mut Traffic, postboxes: Counter, bytes: Counter| {
            if counted.postboxes > 0 {
                let counted = std::mem::take(counted);
                self.fabric.count(peer, postboxes, counted.postboxes);
                self.fabric.count(peer, bytes, counted.bytes);
            }
        };
        for (peer, tx) in self.tx.written_mut() {
            if let Some(tx) = tx {
                count(peer, &mut tx.counted, Counter::Sent, Counter::SentBytes);
            }
        }
        for (peer, rx) in self.rx.written_mut() {
            if let Some(rx) = rx {
                count(peer, &mut rx.counted, Counter::Received, Counter::ReceivedBytes);
            }
        }
    }
}
