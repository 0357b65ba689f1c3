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

use super::EngineTunables;
use std::cell::Cell;
use std::time::{Duration, Instant};

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
#[derive(Clone, Debug)]
pub struct WaitPolicy {
    spin: Duration,
    yields: u64,
    /// Looks before anything else is done, as placed.
    looks: u32,
    /// Yields that have to find nobody before the core counts as one's own: none when it does.
    shared: Cell<u32>,
}

/// Looks with a core of one's own, and with a shared one.
const LOOKS: [u32; 2] = [2000, 2];
/// A yield that nobody else used takes less.
const LONELY_YIELD: Duration = Duration::from_micros(1);
/// Peers that spin on one core, each for its whole budget before it yields in turn, at most; a stranger uses more.
const PEERS: u32 = 16;
/// Yields without anybody that make a core one's own again.
const LONELY_YIELDS: u32 = 64;

impl WaitPolicy {
    /// The policy for `processes` sharing `cores`.
    pub fn new(tunables: &EngineTunables, cores: u32, processes: u32) -> Self {
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

    /// Give up the core for now, and learn from the time it takes.
    pub fn give_way(&self) {
        if self.spin.is_zero() {
            return std::thread::yield_now();
        }
        let before = Instant::now();
        std::thread::yield_now();
        self.learn(before.elapsed());
    }

    fn learn(&self, yielded: Duration) {
        self.shared.set(if yielded < LONELY_YIELD {
            self.shared.get().saturating_sub(1)
        } else if yielded < self.spin * PEERS {
            LONELY_YIELDS
        } else {
            0
        });
    }
}

/// One wait.
pub struct Backoff<'a> {
    policy: &'a WaitPolicy,
    polls: u32,
    yields: u64,
    spinning_since: Option<Instant>,
}

impl<'a> Backoff<'a> {
    pub fn new(policy: &'a WaitPolicy) -> Self {
        Self {
            policy,
            polls: 0,
            yields: 0,
            spinning_since: None,
        }
    }

    /// Something moved: start over.
    pub fn reset(&mut self) {
        self.polls = 0;
        self.yields = 0;
        self.spinning_since = None;
    }

    /// Nothing moved: what next?
    pub fn pause(&mut self) -> Pause {
        if !self.policy.spin.is_zero() && self.policy.shared.get() == 0 && self.yields == 0 {
            self.polls += 1;
            // The clock is read once in a while: it costs as much as a poll.
            if !self.polls.is_multiple_of(64) {
                return Pause::Spin;
            }
            let now = Instant::now();
            let since = *self.spinning_since.get_or_insert(now);
            if now.duration_since(since) < self.policy.spin {
                return Pause::Spin;
            }
        }
        self.yields += 1;
        if self.yields <= self.policy.yields {
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
        let tunables = EngineTunables {
            yields: 3,
            ..Default::default()
        };
        let policy = WaitPolicy::new(&tunables, 2, 8);
        let mut backoff = Backoff::new(&policy);
        let first: Vec<Pause> = (0..5).map(|_| backoff.pause()).collect();
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
        assert_eq!(backoff.pause(), Pause::Yield);
    }

    #[test]
    fn a_core_shared_with_a_peer_is_noticed_and_forgotten() {
        let policy = WaitPolicy::new(&EngineTunables::default(), 2, 2);
        let next = || (Backoff::new(&policy).pause(), policy.looks());
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
}
