//! Waiting, by the fabric's policy: in sends without a slot, and in loops of extractions that find nothing.

use crate::receive_queue;
use farpost_fabric::wait::{Backoff, Idle, Pause, Relax, WaitPolicy, WaitTunables};
use farpost_fabric::{Fabric, Moment, Wake};
use std::cell::Cell;
use std::time::Duration;

/// Room in a queue is not announced by a ring, so sleeps are short.
const SLEEP: Duration = Duration::from_millis(1);
/// Time between two questions whether peers have ended.
const LOST: Duration = Duration::from_millis(100);
/// Sleeps in a row that something was there for at once, after which time has passed all the same: it may be what cannot be taken.
const HASTY: u32 = 16;
/// Empty extractions between two looks at the clock.
const CLOCK: u32 = 4096;

/// What a pause was.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Paused {
    /// Short.
    Shortly,
    /// A sleep that something was there for at once.
    Hardly,
    /// A sleep.
    Slept,
}

impl Paused {
    fn by(pause: Pause, wake: Wake) -> Self {
        match (pause, wake) {
            (Pause::Sleep, Wake::Ready) => Self::Hardly,
            (Pause::Sleep, _) => Self::Slept,
            _ => Self::Shortly,
        }
    }
}

/// How a process waits.
pub struct Pacer {
    policy: WaitPolicy,
    idle: Idle,
    relax: Cell<Option<Relax>>,
    /// Empty extractions in a row.
    empty: Cell<u32>,
    asked: Cell<Moment>,
    /// Sleeps in a row that something was there for at once.
    hasty: Cell<u32>,
}

impl Pacer {
    pub fn new<F: Fabric>(tunables: &WaitTunables, fabric: &F) -> Self {
        Self {
            policy: WaitPolicy::of(tunables, fabric),
            idle: Idle::default(),
            relax: Cell::new(None),
            empty: Cell::new(0),
            asked: Cell::new(fabric.now()),
            hasty: Cell::new(0),
        }
    }

    pub fn set_relax(&self, relax: Option<Relax>) {
        self.relax.set(relax);
    }

    /// An extraction begins.
    #[inline(always)]
    pub fn begin(&self) {
        self.idle.begin(&self.policy);
    }

    /// An extraction found something.
    #[inline(always)]
    pub fn found(&self) {
        self.empty.set(0);
        self.idle.found();
    }

    /// Whether the last extraction found nothing.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.empty.get() != 0
    }

    /// An extraction found nothing: how many in a row.
    #[inline(always)]
    pub fn nothing(&self) -> u32 {
        let empty = self.empty.get().wrapping_add(1);
        self.empty.set(empty);
        empty
    }

    /// The extraction that found nothing is about to return.
    #[inline(always)]
    pub fn idle<F: Fabric>(&self, fabric: &F) {
        self.idle.nothing(&self.policy, fabric, || {
            fabric.progress();
            receive_queue::waits(fabric)
        });
    }

    /// Nothing has moved in a wait.
    pub fn pause<F: Fabric>(&self, backoff: &mut Backoff, fabric: &F) -> Paused {
        let pause = backoff.pause(&self.policy);
        let mut wake = Wake::Timeout;
        if self.relax.get().is_some_and(|relax| relax(pause)) {
            return Paused::by(pause, wake);
        }
        match pause {
            Pause::Spin => {
                self.policy.spin_once();
            }
            Pause::Yield => self.policy.give_way(),
            Pause::Sleep => {
                wake = fabric.sleep(SLEEP, &mut || {
                    fabric.progress();
                    receive_queue::waits(fabric)
                });
            }
        }
        let paused = Paused::by(pause, wake);
        let hasty = if paused == Paused::Hardly {
            self.hasty.get() + 1
        } else {
            0
        };
        self.hasty.set(hasty % HASTY);
        if hasty == HASTY { Paused::Slept } else { paused }
    }

    /// After `empty` extractions that found nothing: whether it is time to ask who has ended.
    #[inline(always)]
    pub fn may_ask(&self, empty: u32) -> bool {
        empty.is_multiple_of(CLOCK) && self.time_to_ask()
    }

    /// Whether it is time to ask who has ended.
    pub fn time_to_ask(&self) -> bool {
        let now = self.policy.now();
        let due = now - self.asked.get() > LOST;
        if due {
            self.asked.set(now);
        }
        due
    }
}
