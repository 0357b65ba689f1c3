//! What arrives early or twice: ordered frames that wait for those before them, and byte ranges of a bulk transfer.

use super::frame::Header;
use std::collections::BTreeMap;

/// Ordered frames that came before their turn, by distance from the first one ever expected.
#[derive(Default)]
pub(super) struct Early {
    frames: BTreeMap<u64, (Header, Vec<u8>)>,
    bytes: usize,
}

impl Early {
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Keep a frame. False: it was there already.
    pub fn keep(&mut self, number: u64, header: &Header, payload: &[u8]) -> bool {
        if self.frames.contains_key(&number) {
            return false;
        }
        self.bytes += header.total();
        self.frames.insert(number, (*header, payload.to_vec()));
        true
    }

    /// The frame `number`, if it is there.
    pub fn take(&mut self, number: u64) -> Option<(Header, Vec<u8>)> {
        let found = self.frames.remove(&number)?;
        self.bytes -= found.0.total();
        Some(found)
    }

    /// Forget what is before `number`: it came another way.
    pub fn forget_before(&mut self, number: u64) {
        while let Some((&first, _)) = self.frames.first_key_value() {
            if first >= number {
                break;
            }
            self.take(first);
        }
    }

    /// Bytes kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A set of byte ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    /// Start to end, neither touching nor overlapping.
    runs: BTreeMap<u64, u64>,
    total: u64,
}

impl Ranges {
    /// Bytes in the set.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Runs in the set.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Add `start..end`; the bytes that were not there before, and the run that holds it now.
    pub fn add(&mut self, start: u64, end: u64) -> (u64, (u64, u64)) {
        let (mut low, mut high) = (start, end);
        let mut known = 0;
        if let Some((&s, &e)) = self.runs.range(..=start).next_back()
            && e >= start
        {
            low = s;
        }
        while let Some((&s, &e)) = self.runs.range(low..=high).next() {
            known += e.min(end).saturating_sub(s.max(start));
            high = high.max(e);
            self.runs.remove(&s);
        }
        self.runs.insert(low, high);
        let fresh = end - start - known;
        self.total += fresh;
        (fresh, (low, high))
    }

    /// Take `start..end` out.
    pub fn remove(&mut self, start: u64, end: u64) {
        let from = match self.runs.range(..=start).next_back() {
            Some((&s, &e)) if e > start => s,
            _ => start,
        };
        let hit: Vec<(u64, u64)> = self.runs.range(from..end).map(|(&s, &e)| (s, e)).collect();
        for (s, e) in hit {
            self.runs.remove(&s);
            self.total -= e.min(end) - s.max(start);
            if s < start {
                self.runs.insert(s, start);
            }
            if e > end {
                self.runs.insert(end, e);
            }
        }
    }

    /// Whether the whole of `start..end` is in the set.
    #[cfg(test)]
    pub fn covers(&self, start: u64, end: u64) -> bool {
        self.runs
            .range(..=start)
            .next_back()
            .is_some_and(|(_, &e)| e >= end)
    }

    /// The first run from `start` on.
    pub fn after(&self, start: u64) -> Option<(u64, u64)> {
        self.runs.range(start..).next().map(|(&s, &e)| (s, e))
    }

    /// The first run.
    pub fn first(&self) -> Option<(u64, u64)> {
        self.runs.first_key_value().map(|(&s, &e)| (s, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::frame::{FrameKind, HEADER_BYTES};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ranges_are_a_set_of_bytes(steps in prop::collection::vec((any::<bool>(), 0u64..100, 1u64..20), 1..60)) {
            let mut set = Ranges::default();
            let mut model = [false; 128];
            for (add, start, len) in steps {
                let end = start + len;
                let bytes = start as usize..end as usize;
                if add {
                    let fresh = model[bytes.clone()].iter().filter(|b| !**b).count() as u64;
                    model[bytes].fill(true);
                    let (got, (low, high)) = set.add(start, end);
                    prop_assert_eq!(got, fresh);
                    prop_assert!(low <= start && end <= high);
                    prop_assert!(model[low as usize..high as usize].iter().all(|b| *b));
                    prop_assert!(!model[high as usize] && (low == 0 || !model[low as usize - 1]));
                } else {
                    model[bytes].fill(false);
                    set.remove(start, end);
                }
                prop_assert_eq!(set.total(), model.iter().filter(|b| **b).count() as u64);
                for start in 0..120usize {
                    prop_assert_eq!(set.covers(start as u64, start as u64 + 3), model[start..start + 3].iter().all(|b| *b));
                }
                let edges = (0..127).filter(|&i| model[i + 1] && !model[i]).count() + usize::from(model[0]);
                prop_assert_eq!(set.runs(), edges);
            }
        }
    }

    #[test]
    fn early_frames_wait_once() {
        let mut early = Early::default();
        let header = Header {
            len: 3,
            ..Header::new(FrameKind::Put)
        };
        assert!(early.keep(7, &header, b"abc"));
        assert!(!early.keep(7, &header, b"abc"));
        assert!(early.keep(5, &header, b"xyz"));
        assert_eq!(early.bytes(), 2 * (HEADER_BYTES + 3));
        early.forget_before(6);
        assert_eq!(early.take(5), None);
        assert_eq!(early.take(7), Some((header, b"abc".to_vec())));
        assert!(early.is_empty() && early.bytes() == 0);
    }
}
