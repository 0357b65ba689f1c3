//! Nanoseconds since the start, cheaply; and the pauses that let them pass.
//!
//! The system's clock costs as much as a good part of a short message's way through here, so where the processor counts
//! steadily, its counter is read instead and set by the system's clock now and then.
//!
//! With the feature `simulated` a clock may show [simulated](Simulated) time instead. Other builds have no such clocks, and no branch for them.
//!
//! Cost class: *fast path*.

use std::cell::Cell;
use std::time::Instant;

/// The counter is trusted for so many nanoseconds after it was last set.
const TRUSTED: u64 = 1_000_000_000;

/// Shortest time from which the counter's speed is taken.
const MEASURED: u64 = 10_000_000;

/// Which says whether the kernel finds the counter steady.
const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// A clock of one thread's.
pub struct Clock {
    epoch: Instant,
    steady: bool,
    /// Counter and nanoseconds when it was first and last set.
    first: (u64, u64),
    last: Cell<(u64, u64)>,
    /// Nanoseconds per 2^32 counts; 0: not known.
    rate: Cell<u64>,
    /// Counts for which the rate is trusted.
    span: Cell<u64>,
    #[cfg(feature = "simulated")]
    simulated: Option<std::rc::Rc<dyn Simulated>>,
}

/// Time that passes as a simulation or a test says.
#[cfg(feature = "simulated")]
pub trait Simulated {
    /// Nanoseconds since its start.
    fn now(&self) -> u64;
    /// So many nanoseconds pass in a pause.
    fn pass(&self, nanos: u64);
    /// Whether a sleep ends as soon as spinning would have seen something, so that nobody need spin.
    fn skips(&self) -> bool {
        false
    }
}

#[cfg(feature = "simulated")]
impl Simulated for Cell<u64> {
    fn now(&self) -> u64 {
        self.get()
    }

    fn pass(&self, nanos: u64) {
        self.set(self.get().saturating_add(nanos));
    }
}

/// What pauses take in simulated time, nanoseconds: a look at a queue, and a yield that nobody uses.
#[cfg(feature = "simulated")]
const PAUSES: [u64; 2] = [50, 400];

impl core::fmt::Debug for Clock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Clock({} ns)", self.now())
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock that starts now.
    pub fn new() -> Self {
        let epoch = Instant::now();
        let steady = counter() != 0
            && std::fs::read_to_string(SOURCE)
                .is_ok_and(|source| matches!(source.trim(), "tsc" | "hyperv_clocksource_tsc_page"));
        let first = (counter(), epoch.elapsed().as_nanos() as u64);
        Self {
            epoch,
            steady,
            first,
            last: Cell::new(first),
            rate: Cell::new(0),
            span: Cell::new(0),
            #[cfg(feature = "simulated")]
            simulated: None,
        }
    }

    /// A clock of simulated time.
    #[cfg(feature = "simulated")]
    pub fn simulated(time: std::rc::Rc<dyn Simulated>) -> Self {
        Self {
            simulated: Some(time),
            ..Self::new()
        }
    }

    /// Whether waits are to sleep at once: see [`Simulated::skips`].
    #[inline(always)]
    pub fn skips(&self) -> bool {
        #[cfg(feature = "simulated")]
        return self.simulated.as_ref().is_some_and(|time| time.skips());
        #[cfg(not(feature = "simulated"))]
        false
    }

    /// Where it starts.
    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// Nanoseconds since the epoch. Nearly never goes back, and then by very little.
    #[inline]
    pub fn now(&self) -> u64 {
        #[cfg(feature = "simulated")]
        if let Some(time) = &self.simulated {
            return time.now();
        }
        let (count, at) = self.last.get();
        let counts = counter().wrapping_sub(count);
        if counts < self.span.get() {
            return at + ((u128::from(counts) * u128::from(self.rate.get())) >> 32) as u64;
        }
        self.set()
    }

    /// Let the shortest time pass, without giving up the core.
    #[inline(always)]
    pub fn spin(&self) {
        #[cfg(feature = "simulated")]
        if let Some(time) = &self.simulated {
            return time.pass(PAUSES[0]);
        }
        std::hint::spin_loop();
    }

    /// Give up the core for now.
    #[inline]
    pub fn yield_core(&self) {
        #[cfg(feature = "simulated")]
        if let Some(time) = &self.simulated {
            return time.pass(PAUSES[1]);
        }
        std::thread::yield_now();
    }

    /// By the system's clock.
    #[cold]
    fn set(&self) -> u64 {
        let (count, now) = (counter(), self.epoch.elapsed().as_nanos() as u64);
        if !self.steady {
            return now;
        }
        let (counts, time) = (count.wrapping_sub(self.first.0), now - self.first.1);
        if time >= MEASURED && counts > 0 && counts >> 63 == 0 {
            let rate = (u128::from(time) << 32) / u128::from(counts);
            self.rate.set(rate as u64);
            self.span.set(((u128::from(TRUSTED) << 32) / rate.max(1)) as u64);
        }
        self.last.set((count, now));
        now
    }
}

/// The processor's count, 0 where there is none that may be read.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn counter() -> u64 {
    // SAFETY: every processor of this architecture has the instruction, and systems that Farpost runs on permit it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn it_keeps_up_with_the_systems_clock() {
        let clock = Clock::new();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(3));
            let (before, now, after) = (clock.epoch.elapsed(), clock.now(), clock.epoch.elapsed());
            // A part in a hundred, and a switch to another process in between.
            let slack = Duration::from_millis(1) + after / 100;
            assert!(Duration::from_nanos(now) + slack >= before, "{now} {before:?}");
            assert!(Duration::from_nanos(now) <= after + slack, "{now} {after:?}");
        }
    }
}
