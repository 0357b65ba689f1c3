//! Acknowledgements owed: frames accepted that their senders have not been told of. They travel with the next frame to
//! the sender, or by themselves when many are owed.

use crate::wire::{Acks, FrameKind};
use farpost_fabric::PeerMap;

/// What is owed to whom.
pub struct OwedAcks {
    peers: PeerMap<Acks>,
    total: u32,
}

fn idle(acks: &Acks) -> bool {
    acks.is_zero()
}

impl OwedAcks {
    /// Room for that many creditors at once: when there are more, some are paid first.
    pub fn new(peers: u32) -> Self {
        Self {
            peers: PeerMap::new(peers as usize),
            total: 0,
        }
    }

    /// Whether another creditor finds room.
    #[inline(always)]
    pub fn has_room(&mut self) -> bool {
        if self.peers.is_full() {
            self.peers.sweep(idle);
        }
        !self.peers.is_full()
    }

    /// Whether nothing is owed.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Owe `peer` one more: how many now. None: no room for another creditor.
    #[inline(always)]
    pub fn add(&mut self, peer: u32, kind: FrameKind) -> Option<u32> {
        let acks = self.peers.enter(peer, idle)?;
        match kind {
            FrameKind::Message => acks.messages += 1,
            _ => acks.pieces += 1,
        }
        self.total += 1;
        Some(acks.total())
    }

    /// What is owed to `peer`.
    #[inline(always)]
    pub fn to(&mut self, peer: u32) -> Acks {
        if self.total == 0 {
            return Acks::default();
        }
        self.peers.get(peer).map_or(Acks::default(), |acks| *acks)
    }

    /// `peer` has been told of `acks`, which is all that was owed.
    #[inline(always)]
    pub fn told(&mut self, peer: u32, acks: Acks) {
        if !acks.is_zero()
            && let Some(owed) = self.peers.get(peer)
        {
            self.total -= owed.total();
            *owed = Acks::default();
        }
    }

    /// Tell everybody: `tell` says whether it could.
    pub fn tell_all(&mut self, mut tell: impl FnMut(u32, Acks) -> bool) {
        for at in 0..self.peers.len() {
            if self.total == 0 {
                return;
            }
            if let Some((peer, acks)) = self.peers.entry(at)
                && !acks.is_zero()
                && tell(peer, *acks)
            {
                self.total -= acks.total();
                *acks = Acks::default();
            }
        }
    }

    /// `peer` is gone.
    pub fn forget(&mut self, peer: u32) {
        let acks = self.to(peer);
        self.told(peer, acks);
    }
}
