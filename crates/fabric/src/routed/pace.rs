//! How often a network is polled by a process that has neighbours on its host as well.

use std::cell::Cell;

/// Polls without result after which the network is polled less often.
const PATIENT: u32 = 64;
/// Then one call in so many polls it: the calls between cost a few tens of nanoseconds each, a poll some hundreds.
const SKIP: u32 = 16;

/// Counts polls.
pub struct Pace {
    /// Whether there is somebody whom frequent polling would slow down.
    neighbours: bool,
    /// Polls in a row that found nothing.
    idle: Cell<u32>,
    skipped: Cell<u32>,
}

impl Pace {
    pub fn new(neighbours: bool) -> Self {
        Self {
            neighbours,
            idle: Cell::new(0),
            skipped: Cell::new(0),
        }
    }

    /// Poll, or not this time.
    #[inline]
    pub fn poll(&self, poll: impl FnOnce() -> bool) -> bool {
        if self.neighbours && self.idle.get() >= PATIENT {
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

    /// Poll at the next call, whatever was found before.
    pub fn hurry(&self) {
        self.idle.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polls(pace: &Pace, calls: u32) -> u32 {
        let mut polled = 0;
        for _ in 0..calls {
            pace.poll(|| {
                polled += 1;
                false
            });
        }
        polled
    }

    #[test]
    fn a_silent_network_is_polled_now_and_then() {
        let pace = Pace::new(true);
        assert_eq!(polls(&pace, PATIENT), PATIENT);
        assert_eq!(polls(&pace, SKIP * 10), 10);
        pace.hurry();
        assert_eq!(polls(&pace, PATIENT), PATIENT);
    }

    #[test]
    fn alone_on_a_host_it_is_polled_always() {
        let pace = Pace::new(false);
        assert_eq!(polls(&pace, 1000), 1000);
    }
}
