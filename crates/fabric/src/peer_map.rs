//! What is kept about some of all peers, by peer: a table whose size does not depend on how many there are.
//!
//! Open addressing with the peer's number as its hash: neighbours in number never collide.
//!
//! Cost class: *fast path* for a peer that is there.

const FREE: u32 = u32::MAX;

/// Small values by the numbers of peers. At most half of its entries are in use.
pub struct PeerMap<V> {
    entries: Box<[(u32, V)]>,
    used: usize,
    /// The entry found last: most messages go to and come from the peer of the one before, and ask several times.
    recent: usize,
}

impl<V: Copy + Default> PeerMap<V> {
    /// Bytes of an entry, of which there are at most four for each peer that there is room for.
    pub const ENTRY_BYTES: usize = size_of::<(u32, V)>();

    /// Room for `peers` peers at once.
    pub fn new(peers: usize) -> Self {
        let len = (peers * 2).next_power_of_two().max(4);
        Self {
            entries: vec![(FREE, V::default()); len].into_boxed_slice(),
            used: 0,
            recent: 0,
        }
    }

    /// Where the peer is, or the free entry where it would be.
    #[inline(always)]
    fn at(&self, peer: u32) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = peer as usize & mask;
        while self.entries[at].0 != peer && self.entries[at].0 != FREE {
            at = (at + 1) & mask;
        }
        at
    }

    /// What is kept about `peer`.
    #[inline(always)]
    pub fn get(&mut self, peer: u32) -> Option<&mut V> {
        if self.entries[self.recent].0 != peer {
            let at = self.at(peer);
            if self.entries[at].0 != peer {
                return None;
            }
            self.recent = at;
        }
        Some(&mut self.entries[self.recent].1)
    }

    /// As [`get`](Self::get), and if there is nothing yet, a fresh entry. None: the table is full of entries that are
    /// not `idle`.
    #[inline(always)]
    pub fn enter(&mut self, peer: u32, idle: impl Fn(&V) -> bool) -> Option<&mut V> {
        if self.get(peer).is_none() {
            return self.insert(peer, idle);
        }
        Some(&mut self.entries[self.recent].1)
    }

    #[cold]
    fn insert(&mut self, peer: u32, idle: impl Fn(&V) -> bool) -> Option<&mut V> {
        if self.is_full() {
            self.sweep(idle);
            if self.is_full() {
                return None;
            }
        }
        self.used += 1;
        let at = self.at(peer);
        self.entries[at] = (peer, V::default());
        Some(&mut self.entries[at].1)
    }

    /// Forget a peer.
    pub fn remove(&mut self, peer: u32) {
        let at = self.at(peer);
        if self.entries[at].0 == peer {
            self.free(at);
        }
    }

    /// Free an entry. Those behind it that would be looked for there move up.
    fn free(&mut self, mut hole: usize) {
        let mask = self.entries.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let (peer, _) = self.entries[at];
            if peer == FREE {
                break;
            }
            let way = at.wrapping_sub(peer as usize) & mask;
            if way >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = self.entries[at];
                hole = at;
            }
        }
        self.entries[hole] = (FREE, V::default());
        self.used -= 1;
    }

    /// Whether a new peer finds no room before a [`sweep`](Self::sweep).
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.used >= self.entries.len() / 2
    }

    /// Drop the idle entries.
    pub fn sweep(&mut self, idle: impl Fn(&V) -> bool) {
        let mut at = 0;
        while let Some((peer, value)) = self.entries.get(at) {
            if *peer != FREE && idle(value) {
                // Another one may be there now.
                self.free(at);
            } else {
                at += 1;
            }
        }
    }

    /// Entry number `at` of [`len`](Self::len), if it is in use.
    pub fn entry(&mut self, at: usize) -> Option<(u32, &mut V)> {
        let (peer, value) = &mut self.entries[at];
        (*peer != FREE).then_some((*peer, value))
    }

    /// Entries, used or not.
    #[expect(clippy::len_without_is_empty, reason = "it has entries always")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_is_busy_and_forgets_what_is_idle() {
        let mut table = PeerMap::<u32>::new(8);
        let idle = |v: &u32| *v == 0;
        // All in one chain, and around the end.
        for i in 0..8 {
            *table.enter(15 + i * 16, idle).unwrap() = i % 2;
        }
        for i in 0..8 {
            assert_eq!(table.get(15 + i * 16).copied(), Some(i % 2));
        }
        assert_eq!(table.get(7), None);
        for i in 0..4 {
            *table.enter(1000 + i, idle).unwrap() = 5;
        }
        assert_eq!(table.enter(2000, idle), None, "eight are busy");
        for i in 0..4 {
            assert_eq!(table.get(15 + (2 * i + 1) * 16).copied(), Some(1));
            assert_eq!(table.get(15 + 2 * i * 16), None);
            assert_eq!(table.get(1000 + i).copied(), Some(5));
        }
        let used = (0..table.len()).filter(|at| table.entry(*at).is_some()).count();
        assert_eq!((used, table.len()), (8, 16));
    }

    #[test]
    fn is_a_map_whatever_is_asked_in_whatever_order() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut table = PeerMap::<u32>::new(rng.usize(1..9));
            let mut map = std::collections::BTreeMap::new();
            for _ in 0..400 {
                let peer = rng.u32(..40);
                match rng.u8(..9) {
                    8 => {
                        table.remove(peer);
                        map.remove(&peer);
                    }
                    0 => {
                        table.sweep(|value| *value == 0);
                        map.retain(|_, value| *value != 0);
                    }
                    1..4 => {
                        let value = rng.u32(..2);
                        if let Some(place) = table.enter(peer, |value| *value == 0) {
                            *place = value;
                            map.insert(peer, value);
                        }
                    }
                    _ => {
                        // What is idle may be forgotten.
                        let found = table.get(peer).copied();
                        let kept = map.get(&peer).copied();
                        assert!(
                            found == kept || found.is_none() && kept == Some(0),
                            "{found:?} {kept:?}"
                        );
                    }
                }
            }
        }
    }
}
