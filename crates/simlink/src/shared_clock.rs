//! The virtual time of this process, for those who may ask at any time: also before there is a link, from signal handlers, and from within calls of the
//! library. A process has one link at most.

use crate::time::Ps;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static RUNS: AtomicBool = AtomicBool::new(false);
/// At the last answer, picoseconds.
static CLOCK: AtomicU64 = AtomicU64::new(0);
/// Since then.
static SPENT: AtomicU64 = AtomicU64::new(0);
/// What a look takes.
static TICK: AtomicU64 = AtomicU64::new(0);

/// The link starts: looks at the clock take so long.
pub(crate) fn begin(tick: Ps) {
    TICK.store(tick.0, Ordering::Relaxed);
    RUNS.store(true, Ordering::Relaxed);
}

/// The machine's word on this process's time.
pub(crate) fn set(clock: u64) {
    CLOCK.store(clock, Ordering::Relaxed);
}

/// What was spent since it was last asked.
pub(crate) fn take_spent() -> u64 {
    SPENT.swap(0, Ordering::Relaxed)
}

/// The process does what takes so long.
pub fn spend(time: Ps) {
    SPENT.fetch_add(time.0, Ordering::Relaxed);
}

/// The time.
pub(crate) fn now() -> Ps {
    Ps(CLOCK.load(Ordering::Relaxed) + SPENT.load(Ordering::Relaxed))
}

/// The program looks at the clock, which takes a moment: a loop until a time is over ends. `None`: this process is not simulated.
#[inline]
pub fn look() -> Option<Ps> {
    RUNS.load(Ordering::Relaxed).then(|| {
        spend(Ps(TICK.load(Ordering::Relaxed)));
        now()
    })
}

/// What a look takes; `None`: this process is not simulated.
pub fn tick() -> Option<Ps> {
    RUNS.load(Ordering::Relaxed)
        .then(|| Ps(TICK.load(Ordering::Relaxed)))
}
