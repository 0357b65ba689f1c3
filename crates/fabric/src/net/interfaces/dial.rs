//! In which order, and how long, to try the addresses of a peer: a state machine without sockets or clock.
//!
//! One attempt is made; if it has not come through after a moment the next begins beside it, and the first that
//! is through wins (the way of RFC 8305). When all have failed, they are tried again after a pause, until the time
//! allowed has passed. "Through" means that the peer has proved itself, not that something accepted a connection.

use std::time::{Duration, Instant};

use super::rails::Candidate;

/// Times of connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialLimits {
    /// After this long without result, the next address is tried as well.
    pub stagger: Duration,
    /// An attempt that takes longer has failed.
    pub attempt: Duration,
    /// All in all.
    pub total: Duration,
}

/// The pause before all addresses are tried once more; it doubles up to a second.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// An attempt: its number in the order of starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attempt(u32);

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialStep {
    /// Begin to connect to the candidate of that index.
    Start(Attempt, usize),
    /// Close that attempt: its time is over. It counts as failed.
    Abandon(Attempt),
    /// Nothing before that time, unless an attempt ends.
    Wait(Instant),
    /// Give up, for the reasons in the sentence.
    GiveUp(String),
}

/// Trying to reach one peer on one rail.
#[derive(Clone, Debug)]
pub struct Dial {
    candidates: Vec<Candidate>,
    limits: DialLimits,
    began: Instant,
    /// Next candidate of this round.
    next: usize,
    not_before: Instant,
    rounds: u32,
    started: u32,
    running: Vec<(Attempt, usize, Instant)>,
    /// By candidate: how it last failed.
    failures: Vec<Option<String>>,
}

impl Dial {
    /// Begin.
    pub fn new(candidates: Vec<Candidate>, limits: DialLimits, now: Instant) -> Self {
        Dial {
            failures: vec![None; candidates.len()],
            candidates,
            limits,
            began: now,
            next: 0,
            not_before: now,
            rounds: 0,
            started: 0,
            running: Vec::new(),
        }
    }

    /// What to do now. Call again until it says [`DialStep::Wait`] or [`DialStep::GiveUp`].
    pub fn step(&mut self, now: Instant) -> DialStep {
        if self.candidates.is_empty() {
            return DialStep::GiveUp("there is no address to try".to_owned());
        }
        let deadline = self.began + self.limits.total;
        // An attempt that began after the deadline, on an address that had no try before, has its own time.
        let end = |since: Instant| {
            let own = since + self.limits.attempt;
            if since < deadline { own.min(deadline) } else { own }
        };
        if let Some(&(attempt, which, _)) = self.running.iter().find(|r| now >= end(r.2)) {
            let why = format!(
                "no answer in {}",
                seconds(self.limits.attempt.min(self.limits.total))
            );
            self.running.retain(|r| r.0 != attempt);
            self.fail(which, now, why);
            return DialStep::Abandon(attempt);
        }
        // Even a clock that jumped over the deadline leaves every address one try.
        let all_tried = self.rounds > 0 || self.next >= self.candidates.len();
        if now >= deadline && all_tried && self.running.is_empty() {
            return DialStep::GiveUp(self.report(now));
        }
        if self.next < self.candidates.len() && now >= self.not_before {
            let (attempt, which) = (Attempt(self.started), self.next);
            self.started += 1;
            self.next += 1;
            self.running.push((attempt, which, now));
            self.not_before = now + self.limits.stagger;
            return DialStep::Start(attempt, which);
        }
        let ends = self.running.iter().map(|r| end(r.2));
        let starts = (self.next < self.candidates.len()).then_some(self.not_before);
        let next = ends.chain(starts).min().unwrap_or(deadline);
        DialStep::Wait(if now < deadline { next.min(deadline) } else { next })
    }

    /// An attempt failed, and why: "connection refused". The next one starts at once.
    pub fn failed(&mut self, attempt: Attempt, now: Instant, why: impl Into<String>) {
        if let Some(at) = self.running.iter().position(|r| r.0 == attempt) {
            let (_, which, _) = self.running.swap_remove(at);
            self.fail(which, now, why.into());
        }
    }

    /// An attempt is through; with the others, which are to be closed.
    pub fn succeeded(&mut self, attempt: Attempt) -> Vec<Attempt> {
        let others = self
            .running
            .iter()
            .map(|r| r.0)
            .filter(|a| *a != attempt)
            .collect();
        self.running.clear();
        others
    }

    /// The candidate of that index.
    pub fn candidate(&self, which: usize) -> &Candidate {
        &self.candidates[which]
    }

    /// What failed so far, for people: "10.0.0.2:4000 via eth0: connection refused; ...".
    pub fn report(&self, now: Instant) -> String {
        let line = |(c, f): (&Candidate, &Option<String>)| {
            let why = f.as_deref()?;
            Some(format!("{} via {}: {why}", c.to, c.interface))
        };
        let lines: Vec<String> = self
            .candidates
            .iter()
            .zip(&self.failures)
            .filter_map(line)
            .collect();
        let tried = seconds(now.saturating_duration_since(self.began));
        match (lines.is_empty(), self.rounds) {
            (true, _) => format!("no answer in {tried}"),
            (false, 0 | 1) => lines.join("; "),
            (false, rounds) => format!("{} (tried {rounds} times in {tried})", lines.join("; ")),
        }
    }

    fn fail(&mut self, which: usize, now: Instant, why: String) {
        self.failures[which] = Some(why);
        if self.next < self.candidates.len() {
            self.not_before = now;
        } else if self.running.is_empty() {
            // All were tried and none is left: once more, later.
            let pause = PAUSE.saturating_mul(1 << self.rounds.min(8)).min(LONGEST_PAUSE);
            self.rounds += 1;
            self.next = 0;
            self.not_before = now + pause;
        }
    }
}

fn seconds(d: Duration) -> String {
    if d.subsec_millis() == 0 || d.as_secs() >= 10 {
        format!("{} s", d.as_secs())
    } else {
        format!("{:.1} s", d.as_secs_f64())
    }
}
