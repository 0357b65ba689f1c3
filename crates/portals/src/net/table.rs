//! Structures by peer, in a hash table of fixed size (paper, section 4.2: *source* structures).

use farpost_fabric::Peer;
use std::cell::Cell;

/// No place.
pub const NONE: u16 = u16::MAX;

struct Place<T> {
    peer: Peer,
    /// The next of the same bucket.
    chain: u16,
    value: Option<T>,
}

/// A table of at most so many, and of peers that do not count. Peers numbered below its size are found at once, others by a short chain.
pub struct PeerTable<T> {
    buckets: Box<[u16]>,
    places: Box<[Place<T>]>,
    free: Vec<u16>,
    /// Places for those that count, and how many of these are free.
    limit: u16,
    left: u16,
    /// Where the search for one to give up goes on.
    hand: u16,
    /// The place that was found last.
    latest: Cell<u16>,
}

impl<T> PeerTable<T> {
    /// Places for `limit` peers, and for `others` that do not count.
    pub fn new(limit: usize, others: usize) -> Self {
        let size = limit + others;
        let buckets = size.next_power_of_two();
        let place = |_| Place {
            peer: Peer(0),
            chain: NONE,
            value: None,
        };
        Self {
            buckets: vec![NONE; buckets].into(),
            places: (0..size).map(place).collect(),
            free: (0..size as u16).rev().collect(),
            limit: limit as u16,
            left: limit as u16,
            hand: 0,
            latest: Cell::new(NONE),
        }
    }

    #[inline(always)]
    fn bucket(&self, peer: Peer) -> usize {
        peer.index() & (self.buckets.len() - 1)
    }

    /// The place of a peer.
    #[inline(always)]
    pub fn find(&self, peer: Peer) -> Option<u16> {
        let latest = self.latest.get();
        if self
            .places
            .get(usize::from(latest))
            .is_some_and(|place| place.peer == peer)
        {
            return Some(latest);
        }
        self.look_up(peer)
    }

    #[inline(never)]
    fn look_up(&self, peer: Peer) -> Option<u16> {
        let mut at = self.buckets[self.bucket(peer)];
        while let Some(place) = self.places.get(usize::from(at)) {
            if place.peer == peer {
                self.latest.set(at);
                return Some(at);
            }
            at = place.chain;
        }
        None
    }

    /// What is kept at a place that is in use.
    #[inline(always)]
    pub fn at(&mut self, at: u16) -> &mut T {
        self.places[usize::from(at)]
            .value
            .as_mut()
            .expect("a place in use")
    }

    /// As [`at`](Self::at), of any place.
    #[inline(always)]
    pub fn get(&mut self, at: u16) -> Option<&mut T> {
        self.places.get_mut(usize::from(at))?.value.as_mut()
    }

    /// A place for a peer that has none. None: all are taken.
    pub fn insert(&mut self, peer: Peer, value: T) -> Option<u16> {
        self.left = self.left.checked_sub(1)?;
        self.insert_other(peer, value)
    }

    /// As [`insert`](Self::insert), for a peer that does not count. It is never removed.
    pub fn insert_other(&mut self, peer: Peer, value: T) -> Option<u16> {
        let at = self.free.pop()?;
        let bucket = self.bucket(peer);
        self.places[usize::from(at)] = Place {
            peer,
            chain: self.buckets[bucket],
            value: Some(value),
        };
        self.buckets[bucket] = at;
        Some(at)
    }

    /// Forget what is kept about a peer that counts.
    pub fn remove(&mut self, at: u16) -> Option<T> {
        self.left += 1;
        let bucket = self.bucket(self.places[usize::from(at)].peer);
        let chain = self.places[usize::from(at)].chain;
        if self.buckets[bucket] == at {
            self.buckets[bucket] = chain;
        } else {
            let mut before = self.buckets[bucket];
            while self.places[usize::from(before)].chain != at {
                before = self.places[usize::from(before)].chain;
            }
            self.places[usize::from(before)].chain = chain;
        }
        self.free.push(at);
        if self.latest.get() == at {
            self.latest.set(NONE);
        }
        self.places[usize::from(at)].value.take()
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
        size_of::<Place<T>>() + size_of::<u16>() * 2
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
