//! What an agent has made at its start and never makes again: memory for bodies, jobs, pendings.

use crate::memory::{Segment, Segments};
use farpost_fabric::slots::{Key, Slots};

/// Bytes of a page of the arena.
const PAGE: usize = 4096;

/// Memory for bodies on their way through the agent: pages, the lowest free ones first, so that few are ever touched.
pub(super) struct Arena {
    /// Never looked at through this: the network layer and the fabric know it by its address.
    _memory: Box<[u8]>,
    address: usize,
    used: Box<[bool]>,
}

/// A part of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    page: u32,
    pages: u32,
}

impl Arena {
    pub fn new(bytes: usize) -> Self {
        let pages = bytes.div_ceil(PAGE).max(1);
        let mut memory = vec![0; pages * PAGE].into_boxed_slice();
        let address = memory.as_mut_ptr().expose_provenance();
        Self {
            _memory: memory,
            address,
            used: vec![false; pages].into(),
        }
    }

    /// Whether there could ever be room for so many bytes.
    pub fn could_hold(&self, len: u64) -> bool {
        len <= (self.used.len() * PAGE) as u64
    }

    /// Room for `len` bytes; None: not now.
    pub fn take(&mut self, len: u64) -> Option<Room> {
        if !self.could_hold(len) {
            return None;
        }
        let pages = (len as usize).div_ceil(PAGE).max(1);
        let mut run = 0;
        for (page, used) in self.used.iter().enumerate() {
            run = if *used { 0 } else { run + 1 };
            if run == pages {
                let first = page + 1 - pages;
                self.used[first..=page].fill(true);
                return Some(Room {
                    page: first as u32,
                    pages: pages as u32,
                });
            }
        }
        None
    }

    /// Whether [`take`](Self::take) would find room.
    pub fn has_room(&mut self, len: u64) -> bool {
        self.take(len).map(|room| self.give_back(room)).is_some()
    }

    pub fn give_back(&mut self, room: Room) {
        let first = room.page as usize;
        self.used[first..first + room.pages as usize].fill(false);
    }

    /// `len` bytes of a room, from `offset` on.
    pub fn memory(&self, room: Room, offset: usize, len: usize) -> Segments {
        self.segment(room, offset, len).into()
    }

    /// As [`memory`](Self::memory).
    pub fn segment(&self, room: Room, offset: usize, len: usize) -> Segment {
        assert!(
            offset + len <= room.pages as usize * PAGE,
            "a body leaves its room"
        );
        Segment::new(self.address + room.page as usize * PAGE + offset, len)
    }

    /// Pages in use.
    pub fn pages_used(&self) -> usize {
        self.used.iter().filter(|used| **used).count()
    }
}

/// A fixed number of places, each use of one named by a number.
pub(super) struct Slab<T>(Slots<Key, T>);

impl<T> Slab<T> {
    /// Bytes of a place.
    pub const PLACE: usize = Slots::<Key, T>::SLOT_BYTES;

    pub fn new(size: usize) -> Self {
        Self(Slots::of((0..size as u32).map(|index| Key::new(index, 0))))
    }

    pub fn is_full(&self) -> bool {
        !self.0.has_free()
    }

    pub fn insert(&mut self, value: T) -> Option<u64> {
        let (name, place) = self.0.take(|_| Err(())).ok()?;
        *place = Some(value);
        Some(name.number())
    }

    pub fn get(&mut self, name: u64) -> Option<&mut T> {
        self.0.get_mut(Key::of(name))
    }

    pub fn remove(&mut self, name: u64) -> Option<T> {
        self.0.remove(Key::of(name))
    }

    /// Names of all that `which` approves of.
    pub fn names(&self, which: impl Fn(&T) -> bool) -> Vec<u64> {
        let chosen = self.0.iter().filter(|(_, value)| which(value));
        chosen.map(|(name, _)| name.number()).collect()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_and_come_back() {
        let mut arena = Arena::new(10 * PAGE);
        let mut rng = fastrand::Rng::with_seed(3);
        let mut ranges: Vec<Room> = vec![];
        for _ in 0..2000 {
            if rng.bool() {
                if let Some(room) = arena.take(rng.u64(0..5 * PAGE as u64)) {
                    let overlaps = |r: &Room| r.page < room.page + room.pages && room.page < r.page + r.pages;
                    assert!(!ranges.iter().any(overlaps));
                    ranges.push(room);
                }
            } else if !ranges.is_empty() {
                arena.give_back(ranges.swap_remove(rng.usize(..ranges.len())));
            }
        }
        ranges.drain(..).for_each(|room| arena.give_back(room));
        assert_eq!(arena.pages_used(), 0);
        assert!(arena.has_room(10 * PAGE as u64) && !arena.has_room(10 * PAGE as u64 + 1));
    }

    #[test]
    fn names_of_what_is_gone_are_stale() {
        let mut slab = Slab::new(1);
        let first = slab.insert('a').expect("room");
        assert!(slab.is_full() && slab.insert('b').is_none());
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('c').expect("room");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get(second), Some(&mut 'c'));
        assert_eq!(slab.names(|_| true), [second]);
        assert_eq!(slab.remove(7), None);
    }
}
