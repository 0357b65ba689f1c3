//! Match lists (figure 2.5): ordered entries, and the walk along them. Fast path: what every entry is tested by lies in
//! one dense array in the order of the list, 32 bytes an entry; the rest is looked at only where that passes.

use crate::types::{ANY, Position, ProcessId};
use std::collections::VecDeque;

/// What a request is tested against: `(request ^ value) & care == 0`.
#[derive(Clone, Copy)]
struct Test {
    bits: u64,
    bits_care: u64,
    id: u64,
    id_care: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Grows along the list.
    label: u64,
    /// The match entry.
    pub me: u16,
    /// Its descriptor, where `operations` is not 0.
    pub md: u16,
    /// Operations that its descriptor accepts now: 0 without an active one.
    pub operations: u8,
}

/// The match list of one portal index.
#[derive(Default)]
pub(super) struct MatchList {
    tests: VecDeque<Test>,
    places: VecDeque<Place>,
    /// Where the last walk ended: the entry that is asked for next, most often.
    hint: usize,
    /// The same walk would end there again if that entry is ready: none before it has changed since.
    steady: bool,
}

/// Bytes of an entry of a list.
pub(super) const ENTRY: usize = size_of::<Test>() + size_of::<Place>();

/// Distance between labels of entries that are appended.
const STEP: u64 = 1 << 24;
const MIDDLE: u64 = 1 << 63;

#[inline]
fn id_word(id: ProcessId) -> u64 {
    u64::from(id.nid) << 32 | u64::from(id.pid)
}

/// What a match entry demands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Criteria {
    pub id: ProcessId,
    pub bits: u64,
    pub ignore: u64,
}

impl From<Criteria> for Test {
    fn from(c: Criteria) -> Self {
        let care = |part: u32| if part == ANY { 0 } else { u32::MAX };
        Self {
            bits: c.bits,
            bits_care: !c.ignore,
            id: id_word(c.id),
            id_care: id_word(ProcessId::new(care(c.id.nid), care(c.id.pid))),
        }
    }
}

impl MatchList {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Insert at the head or the tail, or directly before or after the entry `base`. The label finds the entry again;
    /// entries that get another one are told to `relabelled`.
    pub fn insert(
        &mut self,
        base: Option<(u16, u64)>,
        criteria: Criteria,
        me: u16,
        position: Position,
        relabelled: impl FnMut(u16, u64),
    ) -> u64 {
        let at = match (base, position) {
            (None, Position::Before) => 0,
            (None, Position::After) => self.len(),
            (Some((base, label)), Position::Before) => self.position(base, label),
            (Some((base, label)), Position::After) => self.position(base, label) + 1,
        };
        let label = self.free_label(at).unwrap_or_else(|| {
            self.relabel(relabelled);
            self.free_label(at)
                .expect("labels lie apart after they were spread")
        });
        self.put_in(at, label, criteria, me);
        label
    }

    fn put_in(&mut self, at: usize, label: u64, criteria: Criteria, me: u16) {
        self.tests.insert(at, criteria.into());
        self.places.insert(
            at,
            Place {
                label,
                me,
                md: 0,
                operations: 0,
            },
        );
        if self.hint >= at {
            self.hint += 1;
            self.steady = false;
        }
    }

    fn free_label(&self, at: usize) -> Option<u64> {
        let before = at.checked_sub(1).map(|i| self.places[i].label);
        let after = self.places.get(at).map(|p| p.label);
        match (before, after) {
            (None, None) => Some(MIDDLE),
            (Some(before), None) => before.checked_add(STEP),
            (None, Some(after)) => after.checked_sub(STEP),
            (Some(before), Some(after)) => {
                let between = before + (after - before) / 2;
                (between > before).then_some(between)
            }
        }
    }

    /// Spread the labels: set-up path, once in many insertions between the same two entries.
    fn relabel(&mut self, mut relabelled: impl FnMut(u16, u64)) {
        let mut label = MIDDLE - (self.len() as u64 / 2) * STEP;
        for place in &mut self.places {
            place.label = label;
            relabelled(place.me, label);
            label += STEP;
        }
    }

    /// Where the entry `me` of that label is.
    ///
    /// # Panics
    /// When it is not in the list.
    #[inline]
    fn position(&self, me: u16, label: u64) -> usize {
        if self.places.get(self.hint).is_some_and(|p| p.me == me) {
            return self.hint;
        }
        let found = self.places.binary_search_by_key(&label, |p| p.label);
        found.expect("an entry is in its list")
    }

    /// Take an entry out.
    pub fn remove(&mut self, me: u16, label: u64) {
        let at = self.position(me, label);
        self.tests.remove(at);
        self.places.remove(at);
        if self.hint >= at {
            self.steady = false;
        }
        if self.hint > at {
            self.hint -= 1;
        }
    }

    /// Say what an entry's descriptor accepts from now on.
    #[inline]
    pub fn set(&mut self, me: u16, label: u64, md: u16, operations: u8) {
        let at = self.position(me, label);
        if at < self.hint {
            self.steady = false;
        }
        let place = &mut self.places[at];
        place.md = md;
        place.operations = operations;
    }

    /// The entry where the last walk ended, if the same walk would end there again and it is ready for all `operations`.
    #[inline(always)]
    pub fn found_again(&self, operations: u8) -> Option<Place> {
        let place = self.places.get(self.hint).filter(|_| self.steady)?;
        (place.operations & operations == operations).then_some(*place)
    }

    /// The descriptor of the entry that the last walk found accepts nothing from now on.
    #[inline]
    pub fn found_is_over(&mut self) {
        if let Some(place) = self.places.get_mut(self.hint) {
            place.operations = 0;
        }
    }

    /// The first entry that admits a request with these bits from this process, is ready for all `operations`, and
    /// that `accept` takes: what it said. An entry that fails any test is passed over (section 4.2, rule 5). `searched` is told how many were
    /// looked at.
    #[inline]
    pub fn walk<R>(
        &mut self,
        id: ProcessId,
        bits: u64,
        operations: u8,
        mut accept: impl FnMut(Place) -> Option<R>,
        searched: impl FnOnce(usize),
    ) -> Option<R> {
        let id = id_word(id);
        let (front, back) = self.tests.as_slices();
        let mut base = 0;
        // Whoever has no room for this request may have for the next.
        self.steady = true;
        for tests in [front, back] {
            let mut at = 0;
            while let Some(step) = tests[at..]
                .iter()
                .position(|t| (bits ^ t.bits) & t.bits_care == 0 && (id ^ t.id) & t.id_care == 0)
            {
                at += step;
                let place = self.places[base + at];
                if place.operations & operations == operations {
                    if let Some(accepted) = accept(place) {
                        self.hint = base + at;
                        searched(base + at + 1);
                        return Some(accepted);
                    }
                    self.steady = false;
                }
                at += 1;
            }
            base += tests.len();
        }
        self.steady = false;
        searched(base);
        None
    }

    /// The entries in order.
    #[cfg(test)]
    pub fn entries(&self) -> impl Iterator<Item = u16> + '_ {
        self.places.iter().map(|p| p.me)
    }
}
