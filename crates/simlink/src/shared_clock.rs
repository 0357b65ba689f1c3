//! The virtual time of this process, for those who may ask at any time: also before there is a link, from signal handlers, and from within calls of the
//! library. A process has one link at most.
//!
//! The words lie in a [`Words`] of this library's, or in that of a library that stands in for the system's clocks ([`SYMBOL`]), where it was loaded.

use crate::time::Ps;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// What a library that stands in for the system's clocks calls its [`Words`].
pub const SYMBOL: &core::ffi::CStr = c"farpost_virtual_clock";

/// Of [`Words`].
pub const LAYOUT: u64 = 1;

/// The clock, picoseconds.
#[repr(C)]
pub struct Words {
    /// [`LAYOUT`].
    pub layout: u64,
    /// At the last answer of the machine.
    pub clock: AtomicU64,
    /// What was spent since then.
    pub spent: AtomicU64,
    /// What a look takes.
    pub tick: AtomicU64,
}

impl Words {
    /// At the start; a look takes `tick`.
    pub const fn new(tick: u64) -> Self {
        Self {
            layout: LAYOUT,
            clock: AtomicU64::new(0),
            spent: AtomicU64::new(0),
            tick: AtomicU64::new(tick),
        }
    }

    /// Something takes so long.
    pub fn spend(&self, time: Ps) {
        self.spent.fetch_add(time.0, Ordering::Relaxed);
    }

    /// The time.
    pub fn now(&self) -> Ps {
        Ps(self.clock.load(Ordering::Relaxed) + self.spent.load(Ordering::Relaxed))
    }

    /// Somebody looks at the clock, which takes a moment: a loop until a time is over ends.
    pub fn look(&self) -> Ps {
        self.spend(Ps(self.tick.load(Ordering::Relaxed)));
        self.now()
    }
}

static RUNS: AtomicBool = AtomicBool::new(false);
static OWN: Words = Words::new(0);
static WORDS: AtomicPtr<Words> = AtomicPtr::new((&raw const OWN).cast_mut());

fn words() -> &'static Words {
    // SAFETY: a static of this library's, or one of a library that is never unloaded (it was loaded before the program); seen through atomics only.
    unsafe { &*WORDS.load(Ordering::Relaxed) }
}

/// The link starts: looks at the clock take so long.
pub(crate) fn begin(tick: Ps) {
    // SAFETY: a plain question for a symbol.
    let theirs = unsafe { libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr()) }.cast::<Words>();
    // SAFETY: whoever has a symbol of this name has words of some layout there, which begin with its number.
    if !theirs.is_null() && unsafe { (*theirs).layout } == LAYOUT {
        WORDS.store(theirs, Ordering::Relaxed);
    }
    words().tick.store(tick.0, Ordering::Relaxed);
    RUNS.store(true, Ordering::Relaxed);
}

/// The machine's word on this process's time.
pub(crate) fn set(clock: u64) {
    words().clock.store(clock, Ordering::Relaxed);
}

/// What was spent since it was last asked.
pub(crate) fn take_spent() -> u64 {
    words().spent.swap(0, Ordering::Relaxed)
}

/// The process does what takes so long.
pub(crate) fn spend(time: Ps) {
    words().spend(time);
}

/// The time.
pub(crate) fn now() -> Ps {
    words().now()
}

/// The program looks at the clock, which takes a moment. `None`: this process is not simulated.
#[inline]
pub fn look() -> Option<Ps> {
    RUNS.load(Ordering::Relaxed).then(|| words().look())
}

/// Whether this process is simulated.
#[inline(always)]
pub fn runs() -> bool {
    RUNS.load(Ordering::Relaxed)
}

/// What a look takes; `None`: this process is not simulated.
pub fn tick() -> Option<Ps> {
    RUNS.load(Ordering::Relaxed)
        .then(|| Ps(words().tick.load(Ordering::Relaxed)))
}
