//! What the processes of one host know of each other's waiting: what a wake-up costs here, and who is on whose core.

use std::cell::Cell;
use std::time::Duration;

/// What a fabric tells those who wait on it about its host.
pub trait Host {
    /// What waking a process costs here.
    fn wake_cost(&self) -> &WakeCost;
    /// This process finds again and again that it takes turns on its core with another: move to one of its own, if that is
    /// a peer and there is one.
    fn shares_core(&self);
}

/// What a wake-up is taken to cost before there was one, nanoseconds: as much as in most virtual machines.
const ASSUMED: u64 = 100_000;
/// More than that is no wake-up's cost, but the time slice of somebody else on the core.
const MOST: u64 = 500_000;
/// So often the part of a spin that has not paid is halved before it is left out.
const HALVINGS: u32 = 3;

/// The cost of a wake-up, from the ring to the first instruction of who slept, as measured when ranks wait for each other at the start and at
/// each sleep after it; and how long to spin in view of it.
///
/// Who spins for as long as a wake-up costs wastes at most as much as sleeping at once would have cost. It spins for twice that: then
/// two processes that answer each other cannot both sleep in turn, since who has rung the other still spins when the answer
/// comes, a wake-up later. Where sleeps turn out long, spinning beyond the given minimum has not paid, and less and less of it
/// is done; the first sleep that was ended sooner than it could begin brings all of it back.
#[derive(Debug)]
pub struct WakeCost {
    nanos: Cell<u64>,
    halvings: Cell<u32>,
}

impl Default for WakeCost {
    fn default() -> Self {
        Self {
            nanos: Cell::new(ASSUMED),
            halvings: Cell::new(0),
        }
    }
}

impl WakeCost {
    /// How long to spin before a sleep, at least `least`.
    pub fn spin(&self, least: Duration) -> Duration {
        let most = Duration::from_nanos(2 * self.nanos.get());
        let more = most.saturating_sub(least);
        match self.halvings.get() {
            HALVINGS.. => least,
            halvings => least + more / (1 << halvings),
        }
    }

    /// A sleep has ended: it began, the ring came, and the process ran again, at these times in nanoseconds.
    pub fn rung(&self, slept: u64, rung: u64, awake: u64) {
        if rung < slept || awake < rung {
            // Rung for an earlier sleep, or an invalid time from another process.
            return;
        }
        let (cost, took) = (self.nanos.get(), (awake - rung).min(MOST));
        self.nanos.set(if took > cost {
            took
        } else {
            cost - (cost - took) / 8
        });
        if rung - slept < cost {
            self.halvings.set(0);
        } else if rung - slept > 4 * cost {
            self.slept_long();
        }
    }

    /// A sleep was long: nobody came.
    pub fn slept_long(&self) {
        self.halvings.set((self.halvings.get() + 1).min(HALVINGS));
    }

    /// The cost.
    pub fn cost(&self) -> Duration {
        Duration::from_nanos(self.nanos.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_micros(50);

    #[test]
    fn spinning_lasts_as_long_as_a_wake_up_costs() {
        let cost = WakeCost::default();
        assert!(cost.spin(LEAST) >= cost.cost());
        cost.rung(0, 10, 300_010);
        assert!(cost.spin(LEAST) >= Duration::from_micros(300), "at once");
        (0..50).for_each(|_| cost.rung(0, 10, 5_010));
        assert!(cost.cost() < Duration::from_micros(6));
        assert_eq!(cost.spin(LEAST), LEAST);
        // The time slice of a stranger.
        cost.rung(0, 10, 3_000_000);
        assert!(cost.cost() <= Duration::from_nanos(MOST));
    }

    #[test]
    fn spinning_that_does_not_pay_is_given_up_until_it_would_have() {
        let cost = WakeCost::default();
        let full = cost.spin(LEAST);
        for _ in 0..HALVINGS {
            assert!(cost.spin(LEAST) > LEAST);
            cost.slept_long();
        }
        assert_eq!(cost.spin(LEAST), LEAST);
        // Rung just after it fell asleep.
        cost.rung(1000, 21_000, 121_000);
        assert!(cost.spin(LEAST) >= full);
        cost.rung(0, 50_000_000, 50_100_000);
        assert!(cost.spin(LEAST) < full);
        // A ring from before the sleep says nothing.
        cost.rung(1000, 0, 5000);
        assert!(cost.cost() >= Duration::from_micros(90));
    }

    /// Two processes that answer each other at once, as they wait here: at any cost of a wake-up they spin after a few
    /// exchanges, wherever they begin.
    #[test]
    fn two_processes_do_not_sleep_in_turn_for_long() {
        for true_cost in [5_000, 60_000, 130_000, 240_000] {
            for halvings in 0..=HALVINGS {
                let both = [WakeCost::default(), WakeCost::default()];
                both.iter().for_each(|c| c.halvings.set(halvings));
                // The one has just been woken, and answers; how long has the other been waiting then?
                let (mut waited, mut sleeps) = (true_cost, 0);
                for exchange in 0..20 {
                    let waits = &both[exchange % 2];
                    let spin = waits.spin(LEAST).as_nanos() as u64;
                    if waited <= spin {
                        // Found spinning: it answers at once.
                        waited = 200;
                        continue;
                    }
                    sleeps += 1;
                    assert!(
                        exchange < 4,
                        "{true_cost} ns, {halvings} halvings: asleep in exchange {exchange}"
                    );
                    waits.rung(spin, waited, waited + true_cost);
                    waited = true_cost;
                }
                assert!(sleeps <= 4);
            }
        }
    }
}
