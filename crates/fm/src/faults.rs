//! Values that cannot be right, and peers that are gone.

use crate::state::{FAULTS_MAX, FmState, LOST_MAX};
use crate::wire::Malformed;
use farpost_fabric::{Counter, Fabric, FabricError, Fault, Peer};

impl<const WORDS: usize> FmState<WORDS> {
    /// A value from `peer` that cannot be right.
    #[cold]
    pub fn refuse<F: Fabric>(&mut self, fabric: &F, peer: u32, bad: Malformed) {
        self.figures.faults += 1;
        let peer = Peer(peer);
        let error = FabricError::corrupt(peer, bad.what, bad.value);
        fabric.count(peer, Counter::Faults, 1);
        self.record(Fault { peer, error });
    }

    /// Keep a fault for who asks.
    pub fn record(&mut self, fault: Fault) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        } else {
            self.faults_lost += 1;
        }
    }

    #[inline(always)]
    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    pub fn take_faults(&mut self) -> (Vec<Fault>, u64) {
        (
            self.faults.drain(..).collect(),
            std::mem::take(&mut self.faults_lost),
        )
    }

    /// Whether `peer` is known to be gone.
    #[inline(always)]
    pub fn is_lost(&self, peer: u32) -> bool {
        !self.lost.is_empty() && self.lost.contains(&peer)
    }

    /// `peer` is gone: its slots are free, and nothing of it is waited for. False: that was known.
    pub fn lose(&mut self, peer: u32) -> bool {
        if self.is_lost(peer) {
            return false;
        }
        if self.lost.len() == LOST_MAX {
            self.lost.remove(0);
        }
        self.lost.push(peer);
        self.window.forget(peer);
        self.reject.forget(peer);
        self.owed.forget(peer);
        self.in_hand.take_if(|(frame, _)| frame.peer == peer);
        for one in &mut self.incoming {
            one.ended |= one.peer == peer;
        }
        true
    }
}
