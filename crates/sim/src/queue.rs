//! Events in the order of their times; those of the same time in the order in which they were made.

use crate::record::{Cause, Recorder};
use crate::time::Ps;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

struct Entry<E> {
    at: (Ps, u64),
    cause: Cause,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// What is to happen, and when.
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    /// Events ever made.
    made: u64,
    /// Knows what the events are caused by.
    recorder: Recorder,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
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
        self.heap.push(Reverse(Entry {
            at: (time, self.made),
            cause: self.recorder.cause(),
            event,
        }));
    }

    /// When the next one happens.
    pub fn next_time(&self) -> Option<Ps> {
        self.heap.peek().map(|Reverse(entry)| entry.at.0)
    }

    /// The next one and its time.
    pub fn pop(&mut self) -> Option<(Ps, E)> {
        self.pop_caused().map(|(time, event, _)| (time, event))
    }

    /// The next one, its time, and what it was made by.
    pub fn pop_caused(&mut self) -> Option<(Ps, E, Cause)> {
        let Reverse(Entry { at, cause, event }) = self.heap.pop()?;
        Some((at.0, event, cause))
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
