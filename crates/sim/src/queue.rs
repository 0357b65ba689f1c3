//! Events in the order of their times; those of the same time in the order in which they were made.

use crate::record::{Cause, Recorder};
use crate::time::Ps;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When an event happens, how many were made before it, and its place among those that are to come: small, for the heap moves it about.
type Key = (Ps, u64, u32);

/// What is to happen, and when.
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Key>>,
    /// By place: what causes it, and the event.
    coming: Slab<(Cause, E)>,
    /// Events ever made.
    made: u64,
    /// Knows what the events are caused by.
    recorder: Recorder,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            coming: Slab::new(),
            made: 0,
            recorder: Recorder::default(),
        }
    }
}

impl<E> EventQueue<E> {
    /// From now on events remember their causes.
    pub fn record(&mut self, recorder: &Recorder) {
        self.recorder = recorder.clone();
    }

    /// `event` happens at `time`.
    pub fn at(&mut self, time: Ps, event: E) {
        self.made += 1;
        let place = self.coming.insert((self.recorder.cause(), event));
        let place = u32::try_from(place).expect("fewer events than 2^32 are to come");
        self.heap.push(Reverse((time, self.made, place)));
    }

    /// When the next one happens.
    pub fn next_time(&self) -> Option<Ps> {
        self.heap.peek().map(|Reverse((time, ..))| *time)
    }

    /// The next one and its time.
    pub fn pop(&mut self) -> Option<(Ps, E)> {
        self.pop_caused().map(|(time, event, _)| (time, event))
    }

    /// The next one, its time, and what it was made by.
    pub fn pop_caused(&mut self) -> Option<(Ps, E, Cause)> {
        let Reverse((time, _, place)) = self.heap.pop()?;
        let (cause, event) = self.coming.remove(place as usize);
        Some((time, event, cause))
    }

    /// Events ever made.
    pub fn made(&self) -> u64 {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_time_keep_their_order() {
        let mut queue = EventQueue::default();
        for (time, event) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (4, 'e')] {
            queue.at(Ps(time), event);
        }
        let order: String = std::iter::from_fn(|| queue.pop())
            .map(|(_, event)| event)
            .collect();
        assert_eq!(order, "bdeac");
    }
}
