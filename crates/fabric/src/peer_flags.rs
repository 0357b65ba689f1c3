//! A flag for each peer.
//!
//! Cost class: *fast path* for the first [`NEAR`] peers: one load. Of the others those are kept whose flag differs from the usual.

use crate::Peer;
use std::collections::BTreeSet;

/// Peers of which the table is as long as there are peers.
const NEAR: usize = 1024;

/// A flag for each of a number of peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFlags {
    near: Box<[bool]>,
    /// Of the peers behind those: whose is not the usual.
    unusual: BTreeSet<u32>,
    usual: bool,
    peers: usize,
}

impl PeerFlags {
    /// The same one for all of `peers` peers.
    pub fn new(peers: usize, usual: bool) -> Self {
        Self {
            near: vec![usual; peers.min(NEAR)].into(),
            unusual: BTreeSet::new(),
            usual,
            peers,
        }
    }

    /// What `of` says of each of `peers` peers.
    pub fn from_fn(peers: usize, mut of: impl FnMut(Peer) -> bool) -> Self {
        let last = peers.checked_sub(1).is_some_and(|last| of(Peer(last as u32)));
        let mut it = Self::new(peers, last);
        for peer in (0..peers as u32).map(Peer) {
            it.set(peer, of(peer));
        }
        it
    }

    /// A peer's.
    ///
    /// # Panics
    /// There is no such peer.
    #[inline(always)]
    pub fn get(&self, peer: Peer) -> bool {
        match self.near.get(peer.index()) {
            Some(flag) => *flag,
            None => self.far(peer),
        }
    }

    #[inline(never)]
    fn far(&self, peer: Peer) -> bool {
        self.check(peer);
        self.usual != self.unusual.contains(&peer.0)
    }

    /// A peer's is this from now on; what it was.
    ///
    /// # Panics
    /// There is no such peer.
    #[inline]
    pub fn set(&mut self, peer: Peer, flag: bool) -> bool {
        if peer.index() >= self.near.len() {
            return self.set_far(peer, flag);
        }
        std::mem::replace(&mut self.near[peer.index()], flag)
    }

    #[inline(never)]
    fn set_far(&mut self, peer: Peer, flag: bool) -> bool {
        self.check(peer);
        let was_unusual = if flag == self.usual {
            self.unusual.remove(&peer.0)
        } else {
            !self.unusual.insert(peer.0)
        };
        self.usual != was_unusual
    }

    fn check(&self, peer: Peer) {
        assert!(
            peer.index() < self.peers,
            "index out of bounds: {peer} of {}",
            self.peers
        );
    }

    /// Whether it is set for every peer.
    pub fn all(&self) -> bool {
        let far = self.peers - self.near.len();
        let set = if self.usual {
            far - self.unusual.len()
        } else {
            self.unusual.len()
        };
        set == far && self.near.iter().all(|flag| *flag)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn flags_are_as_they_were_set_near_and_far() {
        for usual in [false, true] {
            let mut flags = PeerFlags::new(5000, usual);
            assert_eq!(flags.all(), usual);
            for peer in [0, 1023, 1024, 4999].map(Peer) {
                assert_eq!(flags.set(peer, usual), usual);
                assert_eq!(flags.set(peer, !usual), usual);
                assert_eq!(flags.set(peer, !usual), !usual);
                assert_eq!((flags.get(peer), flags.all()), (!usual, false));
            }
            assert_eq!((flags.get(Peer(1)), flags.get(Peer(4998))), (usual, usual));
            for peer in [0, 1023, 1024, 4999].map(Peer) {
                assert_eq!(flags.set(peer, usual), !usual);
            }
            assert_eq!(flags, PeerFlags::new(5000, usual));
        }
        assert!(PeerFlags::new(0, false).all());
        let odd = PeerFlags::from_fn(3000, |peer| peer.0 % 2 == 1);
        assert!((0..3000).map(Peer).all(|peer| odd.get(peer) == (peer.0 % 2 == 1)));
        let mut all = PeerFlags::new(2000, false);
        (0..2000).map(Peer).for_each(|peer| assert!(!all.set(peer, true)));
        assert!(all.all());
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn there_are_no_more_peers_than_said() {
        PeerFlags::new(2000, false).get(Peer(2000));
    }
}
