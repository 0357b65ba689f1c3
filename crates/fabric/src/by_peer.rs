//! A value for each peer, of which those that were never changed have no memory.
//!
//! Of the first [`NEAR_PEERS`] peers the values are in pages that a table names, up to the last that was written. Those of the others are in a tree, so that
//! what a process of a very large job has for peers that it never meets does not grow with the job: 100,000 processes in one address space are a simulation
//! that fits.
//!
//! Cost class: *fast path* for the first peers: one load more than a plain table has. For the others: a search among those that were written.

use crate::Peer;
use std::collections::BTreeMap;

/// Values that get memory together.
const PAGE: usize = 16;

/// Peers whose values are in a table.
pub const NEAR_PEERS: usize = 4096;

/// A value for each of a number of peers, the default where none was written. Peers near each other in number share memory.
pub struct ByPeer<V> {
    pages: Vec<Option<Box<[V; PAGE]>>>,
    /// Of the peers behind those of the pages.
    far: BTreeMap<u32, V>,
    peers: usize,
    /// What is seen where nothing was written.
    unwritten: V,
}

impl<V: Default> ByPeer<V> {
    /// For `peers` peers, all with the default.
    pub fn new(peers: usize) -> Self {
        Self {
            pages: Vec::new(),
            far: BTreeMap::new(),
            peers,
            unwritten: V::default(),
        }
    }

    /// The value of a peer of the table, where there is memory for it: to be changed without making any. For fast paths that others are spared;
    /// of those [`get_mut`](Self::get_mut) tells.
    #[inline(always)]
    pub fn near_mut(&mut self, peer: usize) -> Option<&mut V> {
        let page = self.pages.get_mut(peer / PAGE)?.as_deref_mut()?;
        Some(&mut page[peer % PAGE])
    }

    /// The value of a peer, where there is memory for it: to be changed without making any.
    #[inline(always)]
    pub fn get_mut(&mut self, peer: usize) -> Option<&mut V> {
        if peer / PAGE >= self.pages.len() {
            return self.far_mut(peer);
        }
        let page = self.pages[peer / PAGE].as_deref_mut()?;
        Some(&mut page[peer % PAGE])
    }

    #[cold]
    #[inline(never)]
    fn far_mut(&mut self, peer: usize) -> Option<&mut V> {
        self.far.get_mut(&u32::try_from(peer).ok()?)
    }

    /// As [`written`](Self::written), to be changed.
    pub fn written_mut(&mut self) -> impl Iterator<Item = (Peer, &mut V)> {
        let pages = self.pages.iter_mut().enumerate();
        let near = pages.flat_map(|(page, values)| {
            let of_page = values.iter_mut().flat_map(|values| values.iter_mut());
            (page * PAGE..)
                .zip(of_page)
                .map(|(index, value)| (Peer(index as u32), value))
        });
        near.chain(self.far.iter_mut().map(|(index, value)| (Peer(*index), value)))
    }

    /// The first peer from number `from` on whose value has memory: to go through them while they change.
    pub fn written_from(&self, from: usize) -> Option<Peer> {
        let mut at = from;
        while let Some(page) = self.pages.get(at / PAGE) {
            if page.is_some() {
                return Some(Peer(at as u32));
            }
            at = (at / PAGE + 1) * PAGE;
        }
        let (index, _) = self.far.range(u32::try_from(at).ok()?..).next()?;
        Some(Peer(*index))
    }

    /// Values of the peers that have memory, with their numbers: all that differ from the default, and some others. In order.
    pub fn written(&self) -> impl Iterator<Item = (Peer, &V)> {
        let pages = self.pages.iter().enumerate();
        let near = pages.flat_map(|(page, values)| {
            let of_page = values.iter().flat_map(|values| values.iter());
            (page * PAGE..)
                .zip(of_page)
                .map(|(index, value)| (Peer(index as u32), value))
        });
        near.chain(self.far.iter().map(|(index, value)| (Peer(*index), value)))
    }

    /// Memory for a peer's value.
    #[cold]
    #[inline(never)]
    fn make(&mut self, peer: usize) -> &mut V {
        check(peer, self.peers);
        if peer >= NEAR_PEERS {
            return self.far.entry(peer as u32).or_default();
        }
        let at = peer / PAGE;
        if at >= self.pages.len() {
            self.pages.reserve_exact(at + 1 - self.pages.len());
            self.pages.resize_with(at + 1, || None);
        }
        let page = self.pages[at].get_or_insert_with(|| Box::new(std::array::from_fn(|_| V::default())));
        &mut page[peer % PAGE]
    }
}

/// There is such a peer.
fn check(peer: usize, peers: usize) {
    assert!(peer < peers, "index out of bounds: peer {peer} of {peers}");
}

impl<V> ByPeer<V> {
    /// The value of a peer, where there is memory for it.
    #[inline(always)]
    pub fn get(&self, peer: usize) -> Option<&V> {
        if peer / PAGE >= self.pages.len() {
            return self.far(peer);
        }
        let page = self.pages[peer / PAGE].as_deref()?;
        Some(&page[peer % PAGE])
    }

    #[cold]
    #[inline(never)]
    fn far(&self, peer: usize) -> Option<&V> {
        check(peer, self.peers);
        self.far.get(&(peer as u32))
    }
}

impl<V> std::ops::Index<usize> for ByPeer<V> {
    type Output = V;

    #[inline(always)]
    fn index(&self, peer: usize) -> &V {
        self.get(peer).unwrap_or(&self.unwritten)
    }
}

impl<V: Default> std::ops::IndexMut<usize> for ByPeer<V> {
    #[inline(always)]
    fn index_mut(&mut self, peer: usize) -> &mut V {
        match self.pages.get(peer / PAGE) {
            Some(Some(_)) => {
                let page = self.pages[peer / PAGE].as_deref_mut().expect("just seen");
                &mut page[peer % PAGE]
            }
            _ => self.make(peer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_written_is_the_default_and_has_no_memory() {
        let mut values = ByPeer::<u64>::new(1000);
        assert!((0..1000).all(|peer| values[peer] == 0));
        assert_eq!(values.written().count(), 0);
        values[500] = 7;
        values[999] += 9;
        let written: Vec<_> = values.written().filter(|(_, value)| **value != 0).collect();
        assert_eq!(written, [(Peer(500), &7), (Peer(999), &9)]);
        assert!(values.written().count() <= 2 * PAGE);
        assert_eq!(
            values.written_from(0),
            Some(Peer(496)),
            "with whom it shares memory"
        );
        assert_eq!(values.written_from(500), Some(Peer(500)));
        assert_eq!(values.written_from(512), Some(Peer(992)));
        assert_eq!((values.written_from(1008), values.get_mut(0)), (None, None));
        assert_eq!((values.get(999), values.get(0)), (Some(&9), None));
        assert_eq!(values.get_mut(999), Some(&mut 9));
        assert_eq!((values[499], values[501], values[0]), (0, 0, 0));
    }

    #[test]
    fn the_table_reaches_to_the_last_peer_that_was_written() {
        let mut values = ByPeer::<u64>::new(100_000);
        assert_eq!((values[99_999], values.pages.capacity()), (0, 0));
        values[20] = 1;
        assert_eq!((values.pages.capacity(), values[99_999]), (2, 0));
        values[3] = 3;
        assert_eq!((values[3], values[20], values[40]), (3, 1, 0));
        assert_eq!(values.near_mut(20), Some(&mut 1));
        assert_eq!(values.near_mut(40), None);
    }

    #[test]
    fn of_many_peers_the_far_ones_are_as_the_near_ones() {
        let mut values = ByPeer::<u64>::new(100_000);
        assert_eq!((values[99_999], values.get_mut(99_999)), (0, None));
        (values[99_999], values[NEAR_PEERS], values[3]) = (1, 2, 3);
        values[NEAR_PEERS - 1] += 4;
        assert_eq!(values.pages.len(), NEAR_PEERS / PAGE);
        let written: Vec<_> = values.written().filter(|(_, value)| **value != 0).collect();
        let last = Peer(NEAR_PEERS as u32 - 1);
        let first_far = Peer(NEAR_PEERS as u32);
        assert_eq!(
            written,
            [(Peer(3), &3), (last, &4), (first_far, &2), (Peer(99_999), &1)]
        );
        for (_, value) in values.written_mut() {
            *value += 1;
        }
        assert_eq!(values.get_mut(99_999), Some(&mut 2));
        assert_eq!((values.get(99_998), values.get(99_999)), (None, Some(&2)));
        assert_eq!(values.near_mut(99_999), None);
        assert_eq!(values.written_from(16), Some(Peer(NEAR_PEERS as u32 - 16)));
        assert_eq!(values.written_from(NEAR_PEERS), Some(first_far));
        assert_eq!(values.written_from(NEAR_PEERS + 1), Some(Peer(99_999)));
        assert_eq!(values.written_from(100_000), None);
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn nor_of_many() {
        ByPeer::<u8>::new(5000)[5000] = 1;
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn nor_is_there_memory_for_more() {
        ByPeer::<u8>::new(16)[16] = 1;
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn there_are_no_more_peers_than_said() {
        let _ = ByPeer::<u8>::new(16)[16];
    }
}
