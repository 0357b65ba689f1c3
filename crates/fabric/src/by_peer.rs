//! A value for each peer, of which those that were never changed have no memory.
//!
//! The values of [`PAGE`] peers that follow each other get memory together, and the table of those pages reaches to the last peer that was written: what a
//! process of a very large job has for peers that it never meets is a bit for each at most.
//!
//! Cost class: *fast path*: one load more than a plain table has.

use crate::Peer;

/// Values that get memory together, where they are as small as a pointer: the more, the shorter the table of pages.
pub const PAGE: usize = 64;

/// A value for each of a number of peers, the default where none was written. Peers near each other in number share memory.
pub struct ByPeer<V, const TOGETHER: usize = PAGE> {
    /// Up to the last that has memory.
    pages: Vec<Option<Box<[V; TOGETHER]>>>,
    peers: usize,
    /// What is seen where nothing was written.
    unwritten: V,
}

impl<V: Default, const TOGETHER: usize> ByPeer<V, TOGETHER> {
    /// For `peers` peers, all with the default.
    pub fn new(peers: usize) -> Self {
        Self {
            pages: Vec::new(),
            peers,
            unwritten: V::default(),
        }
    }

    /// The value of a peer, where there is memory for it: to be changed without making any.
    #[inline(always)]
    pub fn get_mut(&mut self, peer: usize) -> Option<&mut V> {
        let page = self.pages.get_mut(peer / TOGETHER)?.as_deref_mut()?;
        Some(&mut page[peer % TOGETHER])
    }

    /// As [`written`](Self::written), to be changed.
    pub fn written_mut(&mut self) -> impl Iterator<Item = (Peer, &mut V)> {
        let pages = self.pages.iter_mut().enumerate();
        pages.flat_map(|(page, values)| {
            let of_page = values.iter_mut().flat_map(|values| values.iter_mut());
            (page * TOGETHER..)
                .zip(of_page)
                .map(|(index, value)| (Peer(index as u32), value))
        })
    }

    /// The first peer from number `from` on whose value has memory: to go through them while they change.
    pub fn written_from(&self, from: usize) -> Option<Peer> {
        let mut at = from;
        while self.pages.get(at / TOGETHER)?.is_none() {
            at = (at / TOGETHER + 1) * TOGETHER;
        }
        Some(Peer(at as u32))
    }

    /// Values of the peers that have memory, with their numbers: all that differ from the default, and some others. In order.
    pub fn written(&self) -> impl Iterator<Item = (Peer, &V)> {
        let pages = self.pages.iter().enumerate();
        pages.flat_map(|(page, values)| {
            let of_page = values.iter().flat_map(|values| values.iter());
            (page * TOGETHER..)
                .zip(of_page)
                .map(|(index, value)| (Peer(index as u32), value))
        })
    }

    /// Memory for a peer's value, and those beside it.
    #[cold]
    #[inline(never)]
    fn make(&mut self, peer: usize) -> &mut [V; TOGETHER] {
        check(peer, self.peers);
        let page = peer / TOGETHER;
        if page >= self.pages.len() {
            self.pages.reserve_exact(page + 1 - self.pages.len());
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| Box::new(std::array::from_fn(|_| V::default())))
    }
}

/// There is such a peer.
#[inline(always)]
fn check(peer: usize, peers: usize) {
    assert!(peer < peers, "index out of bounds: peer {peer} of {peers}");
}

impl<V, const TOGETHER: usize> ByPeer<V, TOGETHER> {
    /// The value of a peer, where there is memory for it.
    #[inline(always)]
    pub fn get(&self, peer: usize) -> Option<&V> {
        let page = self.pages.get(peer / TOGETHER)?.as_deref()?;
        Some(&page[peer % TOGETHER])
    }
}

impl<V, const TOGETHER: usize> std::ops::Index<usize> for ByPeer<V, TOGETHER> {
    type Output = V;

    #[inline(always)]
    fn index(&self, peer: usize) -> &V {
        match self.pages.get(peer / TOGETHER) {
            Some(Some(page)) => &page[peer % TOGETHER],
            Some(None) => &self.unwritten,
            None => {
                check(peer, self.peers);
                &self.unwritten
            }
        }
    }
}

impl<V: Default, const TOGETHER: usize> std::ops::IndexMut<usize> for ByPeer<V, TOGETHER> {
    #[inline(always)]
    fn index_mut(&mut self, peer: usize) -> &mut V {
        let page = match self.pages.get(peer / TOGETHER) {
            Some(Some(_)) => self.pages[peer / TOGETHER].as_deref_mut().expect("just seen"),
            _ => self.make(peer),
        };
        &mut page[peer % TOGETHER]
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
            Some(Peer(448)),
            "with whom it shares memory"
        );
        assert_eq!(values.written_from(500), Some(Peer(500)));
        assert_eq!(values.written_from(512), Some(Peer(960)));
        assert_eq!((values.written_from(1024), values.get_mut(0)), (None, None));
        assert_eq!((values.get(999), values.get(0)), (Some(&9), None));
        assert_eq!(values.get_mut(999), Some(&mut 9));
        assert_eq!((values[499], values[501], values[0]), (0, 0, 0));
    }

    #[test]
    fn the_table_of_pages_reaches_to_the_last_peer_that_was_written() {
        let mut values = ByPeer::<u64, 16>::new(100_000);
        assert_eq!((values[99_999], values.pages.capacity()), (0, 0));
        values[20] = 1;
        assert_eq!((values.pages.capacity(), values[99_999]), (2, 0));
        values[99_999] = 2;
        values[3] = 3;
        assert_eq!(values.pages.len(), 100_000 / 16);
        assert_eq!(
            (values[3], values[20], values[50_000], values[99_999]),
            (3, 1, 0, 2)
        );
        for (_, value) in values.written_mut() {
            *value += 1;
        }
        assert_eq!(values.written().count(), 3 * 16);
        assert_eq!(values.get_mut(99_999), Some(&mut 3));
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
