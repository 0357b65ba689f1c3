//! Waiting: spin briefly, then yield, then sleep until rung.
//!
//! The budgets come from the cores the job may use and the processes that share them: with a core each a
//! waiting process spins first; with fewer cores than processes it yields at once, since the message can
//! only come when somebody else runs.
//!
//! A core of one's own is what the placement promises, not what the scheduler must do: with a third busy program
//! on the host two processes may find themselves on one core, and each would spin for nothing before the other can
//! run. The time that a yield takes tells: next to nothing on a core of one's own, a few turns of peers on a
//! shared one, a time slice where the other is a stranger. In the second case waiting yields at once, until a number of
//! yields in a row have found nobody: peers that sleep for a moment come back.
//!
//! Three ways to use it: [`WaitPolicy::wait`] blocks; [`Backoff`] tells a loop of one's own what to do next; [`Idle`] is for
//! calls that must not block, but are made in loops.

mod idle;

pub use crate::host::{Host, WakeCost};
pub use idle::Idle;

use crate::clock::Clock;
use crate::{Fabric, Interrupt, Moment, Wake};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

farpost_tunables::tunables! {
    /// Tunables of waiting.
    pub struct WaitTunables {
        /// Time a waiting process polls before it yields, when every process has a core of its own: so long at least, and where a wake-up costs more, up to twice what it costs; 0: it yields at once.
        spin_us: "FARPOST_SPIN_US" = 50, 0..=1_000_000, "microseconds";
        /// Times a waiting process yields its core before it sleeps.
        yields: "FARPOST_YIELDS" = 100, 0..=1_000_000, "yields";
    }
}

/// What to do next, while nothing moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Poll again.
    Spin,
    /// Give up the core for now.
    Yield,
    /// Sleep until rung.
    Sleep,
}

/// How long this process waits in which way.
#[derive(Clone)]
pub struct WaitPolicy {
    spin: Duration,
    yields: u64,
    /// Looks before anything else is done, as placed.
    looks: u32,
    /// Yields that have to find nobody before the core counts as one's own: none when it does.
    shared: Cell<u32>,
    /// Yields in a row that somebody else used.
    turns: Cell<u32>,
    clock: Rc<Clock>,
    host: Option<Rc<dyn Host>>,
}

impl core::fmt::Debug for WaitPolicy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WaitPolicy")
            .field("spin", &self.spin())
            .field("yields", &self.yields)
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

/// Looks with a core of one's own, and with a shared one.
const LOOKS: [u32; 2] = [2000, 2];
/// A yield that nobody else used takes less.
const LONELY_YIELD: Duration = Duration::from_micros(1);
/// Peers that spin on one core, each for its whole budget before it yields in turn, at most; a stranger uses more.
const PEERS: u32 = 16;
/// Turns with somebody on the core, one after the other, before that is no accident.
const TURNS: u32 = 16;
/// Yields without anybody that make a core one's own again.
const LONELY_YIELDS: u32 = 64;

impl WaitPolicy {
    /// The policy for `processes` sharing `cores`, by `clock`.
    pub fn new(tunables: &WaitTunables, cores: u32, processes: u32, clock: Rc<Clock>) -> Self {
        let roomy = processes <= cores;
        Self {
            spin: if roomy {
                Duration::from_micros(tunables.spin_us)
            } else {
                Duration::ZERO
            },
            yields: tunables.yields,
            looks: LOOKS[usize::from(!roomy)],
            shared: Cell::new(0),
            turns: Cell::new(0),
            clock,
            host: None,
        }
    }

    /// How long to spin before yielding and sleeping: at least as told, and as long as a wake-up costs here.
    fn spin(&self) -> Duration {
        match &self.host {
            Some(host) if !self.spin.is_zero() => host.wake_cost().spin(self.spin),
            _ => self.spin,
        }
    }

    /// How often to look before a wait begins in earnest.
    #[inline(always)]
    pub fn looks(&self) -> u32 {
        if self.shared.get() > 0 {
            LOOKS[1]
        } else {
            self.looks
        }
    }

    /// Whether others need the core that this process waits on, as far as is known.
    pub fn is_crowded(&self) -> bool {
        self.spin.is_zero() || self.shared.get() > 0
    }

    /// The time, by the clock of the fabric that is waited on.
    #[inline]
    pub fn now(&self) -> Moment {
        Moment::from_nanos(self.clock.now())
    }

    /// Look again at once.
    #[inline(always)]
    pub fn spin_once(&self) {
        self.clock.spin();
    }

    /// Give up the core for now, and learn from the time it takes.
    pub fn give_way(&self) {
        if self.spin.is_zero() {
            return self.clock.yield_core();
        }
        let before = self.now();
        self.clock.yield_core();
        self.learn(self.now() - before);
    }

    fn learn(&self, yielded: Duration) {
        self.shared.set(if yielded < LONELY_YIELD {
            self.turns.set(0);
            self.shared.get().saturating_sub(1)
        } else if yielded < self.spin * PEERS {
            self.turns.set(self.turns.get() + 1);
            if self.turns.get() >= TURNS
                && let Some(host) = &self.host
            {
                self.turns.set(0);
                host.shares_core();
            }
            LONELY_YIELDS
        } else {
            self.turns.set(0);
            0
        });
    }
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// What is waited for.
    Done,
    /// Something else moved.
    Moved,
    /// Nothing.
    Nothing,
}

/// What a wait calls while it makes no headway, with what would be done next. True: it let time pass.
pub type Relax = fn(Pause) -> bool;

impl WaitPolicy {
    /// The policy for the processes and cores of a fabric's host.
    pub fn of<F: Fabric>(tunables: &WaitTunables, fabric: &F) -> Self {
        let (cores, processes) = fabric.cores_and_processes();
        Self {
            host: fabric.host(),
            ..Self::new(tunables, cores, processes, Rc::clone(fabric.clock()))
        }
    }

    /// Wait until `look` is done. `look` makes progress ([`Fabric::progress`]) and polls. A sleep ends when this process
    /// is rung, and after `longest` at the latest: choose it short where what is waited for rings nobody. `relax`, if
    /// there is one, is asked before each pause.
    ///
    /// Nothing here ends the wait for a peer that has ended: `look` has to see that too.
    pub fn wait<F: Interrupt>(
        &self,
        fabric: &F,
        longest: Duration,
        relax: Option<Relax>,
        mut look: impl FnMut() -> Look,
    ) {
        while !self.wait_uninterrupted(fabric, longest, relax, &mut look) {}
    }

    /// As [`wait`](Self::wait), but a handler of the program's that runs while this process sleeps ends it. False: it was so.
    pub fn wait_uninterrupted<F: Interrupt>(
        &self,
        fabric: &F,
        longest: Duration,
        relax: Option<Relax>,
        mut look: impl FnMut() -> Look,
    ) -> bool {
        let mut backoff = Backoff::default();
        loop {
            match look() {
                Look::Done => return true,
                Look::Moved => {
                    backoff.reset();
                    continue;
                }
                Look::Nothing => {}
            }
            let pause = backoff.pause(self);
            if relax.is_some_and(|relax| relax(pause)) {
                continue;
            }
            match pause {
                Pause::Spin => self.spin_once(),
                Pause::Yield => self.give_way(),
                Pause::Sleep => {
                    let mut found = Look::Nothing;
                    let wake = fabric.sleep(longest, &mut || {
                        found = look();
                        found != Look::Nothing
                    });
                    if found == Look::Done {
                        return true;
                    }
                    if wake == Wake::Interrupted {
                        return false;
                    }
                }
            }
        }
    }
}

/// How far a wait has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    polls: u32,
    yields: u64,
    spinning_since: Option<Moment>,
    /// Spinning is over.
    spun: bool,
}

impl Backoff {
    /// Something moved: start over.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Nothing moved, but this is no wait after all: no sleep yet.
    fn reset_pauses(&mut self) {
        self.yields = 0;
    }

    /// Whether the next pauses are for spinning.
    #[inline]
    fn spins(&self, policy: &WaitPolicy) -> bool {
        !policy.is_crowded() && !self.spun
    }

    /// Nothing moved: what next?
    pub fn pause(&mut self, policy: &WaitPolicy) -> Pause {
        if policy.clock.skips() {
            return Pause::Sleep;
        }
        if self.spins(policy) {
            self.polls += 1;
            // The clock is read once in a while: it costs as much as a poll.
            if !self.polls.is_multiple_of(64) {
                return Pause::Spin;
            }
            let now = policy.now();
            let since = *self.spinning_since.get_or_insert(now);
            if now - since < policy.spin() {
                return Pause::Spin;
            }
            self.spun = true;
        }
        self.yields += 1;
        if self.yields <= policy.yields {
            Pause::Yield
        } else {
            Pause::Sleep
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_fewer_cores_than_processes_nobody_spins() {
        let tunables = WaitTunables {
            yields: 3,
            ..Default::default()
        };
        let policy = WaitPolicy::new(&tunables, 2, 8, Rc::default());
        let mut backoff = Backoff::default();
        let first: Vec<Pause> = (0..5).map(|_| backoff.pause(&policy)).collect();
        assert_eq!(
            first,
            [
                Pause::Yield,
                Pause::Yield,
                Pause::Yield,
                Pause::Sleep,
                Pause::Sleep
            ]
        );
        backoff.reset();
        assert_eq!(backoff.pause(&policy), Pause::Yield);
    }

    #[test]
    fn a_core_shared_with_a_peer_is_noticed_and_forgotten() {
        let policy = WaitPolicy::new(&WaitTunables::default(), 2, 2, Rc::default());
        let next = || (Backoff::default().pause(&policy), policy.looks());
        assert_eq!(next(), (Pause::Spin, LOOKS[0]));
        policy.learn(Duration::from_micros(60));
        assert_eq!(next(), (Pause::Yield, LOOKS[1]), "the peer spun and yielded");
        policy.learn(Duration::from_micros(3));
        assert_eq!(next(), (Pause::Yield, LOOKS[1]), "both yield at once");
        for _ in 1..LONELY_YIELDS {
            policy.learn(Duration::from_nanos(400));
        }
        assert_eq!(next(), (Pause::Yield, LOOKS[1]), "it may be asleep");
        policy.learn(Duration::from_nanos(400));
        assert_eq!(next(), (Pause::Spin, LOOKS[0]), "nobody else is there");
        policy.learn(Duration::from_micros(300));
        assert_eq!(next(), (Pause::Yield, LOOKS[1]), "several peers spun and yielded");
        policy.learn(Duration::from_millis(3));
        assert_eq!(next(), (Pause::Spin, LOOKS[0]), "a stranger's time slice");
    }

    /// A fabric on which one can only sleep.
    pub(super) struct Sleepless(pub(super) Cell<u32>);

    impl crate::Time for Sleepless {
        fn clock(&self) -> &Rc<Clock> {
            unreachable!("nobody asks")
        }
    }

    impl Interrupt for Sleepless {
        type Bell = ();
        fn bell(&self, _: crate::Peer) {}
        fn wake_by(&self, (): &()) {}
        fn wake(&self, _: crate::Peer) {}
        fn sleep(&self, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> crate::Wake {
            assert!(timeout <= Duration::from_millis(1));
            self.0.set(self.0.get() + 1);
            if ready() {
                crate::Wake::Ready
            } else {
                crate::Wake::Timeout
            }
        }
    }

    pub(super) fn crowded() -> WaitPolicy {
        let tunables = WaitTunables {
            yields: 3,
            ..Default::default()
        };
        WaitPolicy::new(&tunables, 2, 8, Rc::default())
    }

    #[test]
    fn a_wait_ends_with_what_a_sleep_found() {
        let (policy, fabric) = (crowded(), Sleepless(Cell::new(0)));
        let mut looks = 0;
        policy.wait(&fabric, Duration::from_millis(1), None, || {
            looks += 1;
            // The first look, three after yields, and one inside the sleep.
            if looks == 5 { Look::Done } else { Look::Nothing }
        });
        assert_eq!((looks, fabric.0.get()), (5, 1));
    }
}
