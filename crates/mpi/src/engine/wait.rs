//! Waiting: spin briefly, then yield, then sleep until rung.
//!
//! The budgets come from the cores the job may use and the processes that share them: with a core each a
//! waiting process spins first; with fewer cores than processes it yields at once, since the message can
//! only come when somebody else runs.

use super::EngineTunables;
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
}

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
        }
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
        if !self.policy.spin.is_zero() && self.yields == 0 {
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
}
