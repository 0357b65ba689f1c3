//! How often a network is polled by a process that has neighbours on its host as well.

use farpost_fabric::clock::counter;
use std::cell::Cell;

/// Polls without result after which the network is polled less often.
const PATIENT: u32 = 64;
/// Then one call in so many polls it: the calls between cost a few tens of nanoseconds each, a poll some hundreds.
const SKIP: u32 = 16;
/// Counts of the processor's between two calls, some 15 to 60 µs, that somebody lets pass who computes in between: such calls are too few to
/// skip any.
const AWAY: u64 = 1 << 16;

/// Counts polls.
pub struct Pace {
    /// Whether there is somebody whom frequent polling would slow down.
    neighbours: bool,
    /// Polls in a row that found nothing.
    idle: Cell<u32>,
    skipped: Cell<u32>,
    /// The counter at the latest call, of those that may be skipped.
    called: Cell<u64>,
}

impl Pace {
    pub fn new(neighbours: bool) -> Self {
        Self {
            neighbours,
            idle: Cell::new(0),
            skipped: Cell::new(0),
            called: Cell::new(0),
        }
    }

    /// Poll, or not this time.
    #[inline]
    pub fn poll(&self, poll: impl FnOnce() -> bool) -> bool {
        self.poll_at(counter, poll)
    }

    #[inline]
    fn poll_at(&self, now: impl FnOnce() -> u64, poll: impl FnOnce() -> bool) -> bool {
        if self.neighbours && self.idle.get() >= PATIENT && !self.was_away(now()) {
            let skipped = self.skipped.get() + 1;
            self.skipped.set(skipped % SKIP);
            if skipped < SKIP {
                return false;
            }
        }
        let moved = poll();
        self.idle.set(if moved {
            0
        } else {
            self.idle.get().saturating_add(1)
        });
        moved
    }

    fn was_away(&self, now: u64) -> bool {
        now.wrapping_sub(self.called.replace(now)) > AWAY
    }

    /// Poll at the next call, whatever was found before.
    pub fn hurry(&self) {
        self.idle.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often of so many calls, `apart` counts from each other, the network is polled.
    fn polls(pace: &Pace, calls: u32, apart: u64) -> u32 {
        let mut polled = 0;
        for _ in 0..calls {
            let now = pace.called.get() + apart;
            let poll = || {
                polled += 1;
                false
            };
            pace.poll_at(|| now, poll);
        }
        polled
    }

    #[test]
    fn a_silent_network_is_polled_now_and_then() {
        let pace = Pace::new(true);
        assert_eq!(polls(&pace, PATIENT, 300), PATIENT);
        assert_eq!(polls(&pace, SKIP * 10, 300), 10);
        pace.hurry();
        assert_eq!(polls(&pace, PATIENT, 300), PATIENT);
    }

    #[test]
    fn alone_on_a_host_it_is_polled_always() {
        let pace = Pace::new(false);
        assert_eq!(polls(&pace, 1000, 300), 1000);
    }

    #[test]
    fn who_computes_between_calls_polls_with_each() {
        let pace = Pace::new(true);
        assert_eq!(polls(&pace, PATIENT + 100, 2 * AWAY), PATIENT + 100);
    }
}
