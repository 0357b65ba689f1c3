//! A value for each peer, of which those that were never changed have no memory.
//!
//! Cost class: *fast path*: one load more than a plain table has.

use crate::Peer;

/// Values that get memory together.
const PAGE: usize = 16;

/// A value for each of a number of peers, the default where none was written. Peers near each other in number share memory.
pub struct ByPeer<V> {
    pages: Box<[Option<Box<[V; PAGE]>>]>,
    /// What is seen where nothing was written.
    unwritten: V,
}

impl<V: Default> ByPeer<V> {
    /// For `peers` peers, all with the default.
    pub fn new(peers: usize) -> Self {
        Self {
            pages: (0..peers.div_ceil(PAGE)).map(|_| None).collect(),
            unwritten: V::default(),
        }
    }

    /// The value of a peer, where there is memory for it: to be changed without making any.
    #[inline(always)]
    pub fn get_mut(&mut self, peer: usize) -> Option<&mut V> {
        let page = self.pages.get_mut(peer / PAGE)?.as_deref_mut()?;
        Some(&mut page[peer % PAGE])
    }

    /// As [`written`](Self::written), to be changed.
    pub fn written_mut(&mut self) -> impl Iterator<Item = (Peer, &mut V)> {
        let pages = self.pages.iter_mut().enumerate();
        pages.flat_map(|(page, values)| {
            let of_page = values.iter_mut().flat_map(|values| values.iter_mut());
            (page * PAGE..)
                .zip(of_page)
                .map(|(index, value)| (Peer(index as u32), value))
        })
    }

    /// The first peer from number `from` on whose value has memory: to go through them while they change.
    pub fn written_from(&self, from: usize) -> Option<Peer> {
        let mut at = from;
        while self.pages.get(at / PAGE)?.is_none() {
            at = (at / PAGE + 1) * PAGE;
        }
        Some(Peer(at as u32))
    }

    /// Values of the peers that have memory, with their numbers: all that differ from the default, and some others. In order.
    pub fn written(&self) -> impl Iterator<Item = (Peer, &V)> {
        let pages = self.pages.iter().enumerate();
        pages.flat_map(|(page, values)| {
            let of_page = values.iter().flat_map(|values| values.iter());
            (page * PAGE..)
                .zip(of_page)
                .map(|(index, value)| (Peer(index as u32), value))
        })
    }
}

impl<V> std::ops::Index<usize> for ByPeer<V> {
    type Output = V;

    #[inline(always)]
    fn index(&self, peer: usize) -> &V {
        match &self.pages[peer / PAGE] {
            Some(page) => &page[peer % PAGE],
            None => &self.unwritten,
        }
    }
}

impl<V: Default> std::ops::IndexMut<usize> for ByPeer<V> {
    #[inline(always)]
    fn index_mut(&mut self, peer: usize) -> &mut V {
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
    #[should_panic(expected = "index out of bounds")]
    fn there_are_no_more_peers_than_said() {
        let _ = ByPeer::<u8>::new(16)[16];
    }
}
