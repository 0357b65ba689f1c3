//! A value for each peer, of which those that were never changed have no memory.
//!
//! Of the first [`NEAR`] peers the values are in pages that a table names. Those of the others are in a tree, so that what a process of a very large job
//! has for its peers does not grow with the job: 100,000 processes in one address space are a simulation that fits.
//!
//! Cost class: *fast path* for the first peers: one load more than a plain table has. For the others: a search among those that were written.

use crate::Peer;
use std::collections::BTreeMap;

/// Values that get memory together.
const PAGE: usize = 16;

/// Peers of which tables are as long as there are peers.
pub const NEAR: usize = 4096;

/// A value for each of a number of peers, the default where none was written. Peers near each other in number share memory.
pub struct ByPeer<V> {
    pages: Box<[Option<Box<[V; PAGE]>>]>,
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
            pages: (0..peers.min(NEAR).div_ceil(PAGE)).map(|_| None).collect(),
            far: BTreeMap::new(),
            peers,
            unwritten: V::default(),
        }
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

    #[inline(never)]
    fn far_entry(&mut self, peer: usize) -> &mut V {
        assert!(
            peer < self.peers,
            "index out of bounds: peer {peer} of {}",
            self.peers
        );
        self.far.entry(peer as u32).or_default()
    }
}

impl<V> ByPeer<V> {
    #[inline(never)]
    fn far(&self, peer: usize) -> &V {
        assert!(
            peer < self.peers,
            "index out of bounds: peer {peer} of {}",
            self.peers
        );
        self.far.get(&(peer as u32)).unwrap_or(&self.unwritten)
    }
}

impl<V> std::ops::Index<usize> for ByPeer<V> {
    type Output = V;

    #[inline(always)]
    fn index(&self, peer: usize) -> &V {
        match self.pages.get(peer / PAGE) {
            Some(Some(page)) => &page[peer % PAGE],
            Some(None) => &self.unwritten,
            None => self.far(peer),
        }
    }
}

impl<V: Default> std::ops::IndexMut<usize> for ByPeer<V> {
    #[inline(always)]
    fn index_mut(&mut self, peer: usize) -> &mut V {
        if peer / PAGE >= self.pages.len() {
            return self.far_entry(peer);
        }
        let page = &mut self.pages[peer / PAGE];
        let page = page.get_or_insert_with(|| Box::new(std::array::from_fn(|_| V::default())));
        &mut page[peer % PAGE]
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
        assert_eq!(values.get_mut(999), Some(&mut 9));
        assert_eq!((values[499], values[501], values[0]), (0, 0, 0));
    }

    #[test]
    fn of_many_peers_the_far_ones_are_as_the_near_ones() {
        let mut values = ByPeer::<u64>::new(100_000);
        assert_eq!((values[99_999], values.get_mut(99_999)), (0, None));
        (values[99_999], values[NEAR], values[3]) = (1, 2, 3);
        assert_eq!(values.pages.len(), NEAR / PAGE);
        let written: Vec<_> = values.written().filter(|(_, value)| **value != 0).collect();
        assert_eq!(
            written,
            [(Peer(3), &3), (Peer(NEAR as u32), &2), (Peer(99_999), &1)]
        );
        for (_, value) in values.written_mut() {
            *value += 1;
        }
        assert_eq!(values.get_mut(99_999), Some(&mut 2));
        assert_eq!(values.written_from(16), Some(Peer(NEAR as u32)));
        assert_eq!(values.written_from(NEAR + 1), Some(Peer(99_999)));
        assert_eq!(values.written_from(100_000), None);
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn there_are_no_more_peers_than_said() {
        let _ = ByPeer::<u8>::new(16)[16];
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn nor_of_many() {
        ByPeer::<u8>::new(5000)[5000] = 1;
    }
}
