//! Structures by peer (paper, section 4.2: *source* structures): a fixed number of places, whose numbers others keep, found by a
//! [`PeerMap`].

use farpost_fabric::{Peer, PeerMap};

/// No place.
pub const NONE: u16 = u16::MAX;

/// A table of at most so many, and of peers that do not count.
pub struct PeerTable<T> {
    numbers: PeerMap<u16>,
    places: Box<[Option<(Peer, T)>]>,
    free: Vec<u16>,
    /// Places for those that count, and how many of these are free.
    limit: u16,
    left: u16,
    /// Where the search for one to give up goes on.
    hand: u16,
}

impl<T> PeerTable<T> {
    /// Places for `limit` peers, and for `others` that do not count.
    pub fn new(limit: usize, others: usize) -> Self {
        let size = limit + others;
        Self {
            numbers: PeerMap::new(size),
            places: (0..size).map(|_| None).collect(),
            free: (0..size as u16).rev().collect(),
            limit: limit as u16,
            left: limit as u16,
            hand: 0,
        }
    }

    /// The place of a peer.
    #[inline(always)]
    pub fn find(&mut self, peer: Peer) -> Option<u16> {
        self.numbers.get(peer.0).copied()
    }

    /// What is kept at a place that is in use.
    #[inline(always)]
    pub fn at(&mut self, at: u16) -> &mut T {
        self.get(at).expect("a place in use")
    }

    /// As [`at`](Self::at), of any place.
    #[inline(always)]
    pub fn get(&mut self, at: u16) -> Option<&mut T> {
        let (_, value) = self.places.get_mut(usize::from(at))?.as_mut()?;
        Some(value)
    }

    /// A place for a peer that has none. None: all are taken.
    pub fn insert(&mut self, peer: Peer, value: T) -> Option<u16> {
        self.left = self.left.checked_sub(1)?;
        self.insert_other(peer, value)
    }

    /// As [`insert`](Self::insert), for a peer that does not count. It is never removed.
    pub fn insert_other(&mut self, peer: Peer, value: T) -> Option<u16> {
        let at = self.free.pop()?;
        *self.numbers.enter(peer.0, |_| false)? = at;
        self.places[usize::from(at)] = Some((peer, value));
        Some(at)
    }

    /// Forget what is kept about a peer that counts.
    pub fn remove(&mut self, at: u16) -> Option<T> {
        let (peer, value) = self.places[usize::from(at)].take()?;
        self.left += 1;
        self.numbers.remove(peer.0);
        self.free.push(at);
        Some(value)
    }

    /// Whether no place is left for peers that count.
    pub fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Places for peers that count.
    pub fn limit(&self) -> u16 {
        self.limit
    }

    /// Places in the order of the table, free ones among them.
    pub fn len(&self) -> u16 {
        self.places.len() as u16
    }

    /// The next in turn that `idle` approves of.
    pub fn candidate(&mut self, mut idle: impl FnMut(&mut T) -> bool) -> Option<u16> {
        for _ in 0..self.len() {
            let at = self.hand;
            self.hand = if at + 1 == self.len() { 0 } else { at + 1 };
            if let Some(value) = self.get(at)
                && idle(value)
            {
                return Some(at);
            }
        }
        None
    }

    /// Bytes of one entry, its part of the table included.
    pub const fn entry_bytes() -> usize {
        size_of::<Option<(Peer, T)>>() + size_of::<u16>() + 4 * PeerMap::<u16>::ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_found_until_removed() {
        let mut table = PeerTable::new(3, 0);
        let places: Vec<u16> = [5, 1, 9]
            .map(|p| table.insert(Peer(p), p).expect("room"))
            .to_vec();
        assert_eq!(table.insert(Peer(7), 7), None);
        for (peer, place) in [5, 1, 9].into_iter().zip(&places) {
            assert_eq!(table.find(Peer(peer)), Some(*place));
            assert_eq!(*table.at(*place), peer);
        }
        assert_eq!(table.remove(places[1]), Some(1));
        assert_eq!((table.find(Peer(1)), table.get(places[1])), (None, None));
        assert!(table.find(Peer(5)).is_some() && table.find(Peer(9)).is_some());
        let seven = table.insert(Peer(7), 7).expect("room again");
        assert_eq!(table.find(Peer(7)), Some(seven));
        let turn: Vec<_> = (0..3).map(|_| table.candidate(|_| true)).collect();
        assert!(
            (0..3).all(|at| turn.contains(&Some(at))),
            "everybody's turn comes"
        );
    }

    #[test]
    fn those_that_do_not_count_take_no_place() {
        let mut table = PeerTable::new(1, 1);
        assert!(table.insert_other(Peer(4), 4).is_some() && !table.is_full());
        let five = table.insert(Peer(5), 5).expect("room");
        assert!(table.is_full() && table.insert(Peer(6), 6).is_none());
        assert_eq!((table.limit(), table.remove(five)), (1, Some(5)));
        assert!(table.insert(Peer(6), 6).is_some() && table.find(Peer(4)).is_some());
    }
}
