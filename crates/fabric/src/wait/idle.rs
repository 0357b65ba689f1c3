//! Calls that must not block, but that programs make in loops.

use super::{Backoff, Pause, WaitPolicy};
use crate::Interrupt;
use std::cell::Cell;
use std::time::Duration;

/// Longest sleep inside a call that must not block.
const IDLE_SLEEP: Duration = Duration::from_millis(1);

/// The count of calls has run out: from now on time is looked at.
const TIMED: u32 = u32::MAX;

/// Calls that return at once, but that programs make in loops until something is there: MPI's tests and probes, polls of
/// the other layers. Such a loop is one of two things, and the time between the end of a call and the beginning of
/// the next one tells which:
///
/// - A wait: there is next to nothing between the calls. It may not keep others from the core: calls first return at
///   once, then yield, and at last sleep until rung, for at most a millisecond each.
/// - Work, with a look in between whether something has come. It is never held up: no sleep, and no yield but for a peer that may
///   share the core and has not taken yet what this process has sent it; the program may well wait for its answer.
#[derive(Debug, Default)]
pub struct Idle {
    /// Calls in a row that found nothing, as far as they are counted.
    empty: Cell<u32>,
    backoff: Cell<Backoff>,
    rhythm: Cell<Rhythm>,
    /// A call is to say when it begins.
    asks: Cell<bool>,
    favour: Cell<Favour>,
}

impl Idle {
    /// A call begins that may find nothing. Calls that do not say so are taken to begin when they end.
    #[inline(always)]
    pub fn begin(&self, policy: &WaitPolicy) {
        if self.asks.get() {
            self.begin_timed(policy);
        }
    }

    #[cold]
    fn begin_timed(&self, policy: &WaitPolicy) {
        self.asks.set(false);
        let mut rhythm = self.rhythm.get();
        rhythm.begun(policy.clock.now());
        self.rhythm.set(rhythm);
    }

    /// A call found something.
    #[inline(always)]
    pub fn found(&self) {
        self.empty.set(0);
        self.asks.set(false);
    }

    /// A call found nothing and is about to return. `ready` makes progress and tells whether there is something now; it
    /// must not take it.
    #[inline(always)]
    pub fn nothing<F: Interrupt>(&self, policy: &WaitPolicy, fabric: &F, ready: impl FnMut() -> bool) {
        let empty = self.empty.get();
        if empty < policy.looks() {
            self.empty.set(empty + 1);
        } else {
            self.pause(policy, fabric, ready);
        }
    }

    /// As [`nothing`](Self::nothing), where the caller knows better how to give up the core or to sleep: `rest` does, and
    /// for [`Pause::Spin`] lets other threads of the program in at most. `untaken` tells whether a peer of this host has not
    /// taken yet what this process has sent it.
    #[inline(always)]
    pub fn nothing_with(
        &self,
        policy: &WaitPolicy,
        untaken: impl FnOnce() -> bool,
        rest: impl FnOnce(Pause),
    ) {
        let empty = self.empty.get();
        if empty < policy.looks() {
            self.empty.set(empty + 1);
        } else {
            self.pause_with(policy, untaken, rest);
        }
    }

    #[cold]
    fn pause<F: Interrupt>(&self, policy: &WaitPolicy, fabric: &F, mut ready: impl FnMut() -> bool) {
        // Who has taken what is not known here: a peer that was rung since the last favour may not have.
        let rings = fabric.rings();
        let untaken = || {
            let mut favour = self.favour.get();
            let new = favour.rings != rings;
            favour.rings = rings;
            self.favour.set(favour);
            new
        };
        self.pause_with(policy, untaken, |pause| match pause {
            Pause::Spin => {}
            Pause::Sleep => _ = fabric.sleep(IDLE_SLEEP, &mut ready),
            Pause::Yield => policy.give_way(),
        });
    }

    #[cold]
    fn pause_with(&self, policy: &WaitPolicy, untaken: impl FnOnce() -> bool, rest: impl FnOnce(Pause)) {
        let (mut backoff, mut rhythm) = (self.backoff.get(), self.rhythm.get());
        if self.empty.get() != TIMED {
            // The count has just run out.
            self.empty.set(TIMED);
            backoff.reset();
            rhythm.restart();
        }
        if backoff.spins(policy) && backoff.pause(policy) == Pause::Spin {
            // No more clock is read while the core is one's own.
            self.backoff.set(backoff);
            return;
        }
        let now = policy.clock.now();
        let pause = match rhythm.ended(now) {
            Tempo::Unknown => Pause::Spin,
            Tempo::Works if policy.is_crowded() && self.owes_favour(now, untaken) => Pause::Yield,
            Tempo::Works => {
                backoff.reset_pauses();
                Pause::Spin
            }
            Tempo::Waits => match backoff.pause(policy) {
                // Tests of many requests, with work between such rounds, look like a wait for a while.
                Pause::Sleep if !rhythm.has_waited_long(now) => Pause::Yield,
                pause => pause,
            },
        };
        rest(pause);
        let after = if pause == Pause::Spin {
            now
        } else {
            policy.clock.now()
        };
        if rhythm.tempo() == Tempo::Works && pause == Pause::Yield {
            let mut favour = self.favour.get();
            favour.done(after);
            self.favour.set(favour);
        }
        rhythm.returned(after);
        self.asks.set(true);
        self.backoff.set(backoff);
        self.rhythm.set(rhythm);
    }

    /// Whether to yield although the program works: to who has not taken what it was sent, now and then.
    fn owes_favour(&self, now: u64, untaken: impl FnOnce() -> bool) -> bool {
        let mut favour = self.favour.get();
        if !favour.is_due(now) {
            return false;
        }
        favour.asked(now);
        self.favour.set(favour);
        let untaken = untaken();
        let mut favour = self.favour.get();
        if !untaken {
            favour.helped();
        }
        self.favour.set(favour);
        untaken
    }
}

/// What a loop is, as far as its calls tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tempo {
    Unknown,
    Works,
    Waits,
}

/// So much between two calls is no work: a loop, a look at the clock, an interpreter's call. Nanoseconds.
const FREE: i64 = 150;
/// What one gap, and all of them, count for at most: tests come in rounds with work between them, and a process that the
/// scheduler puts aside has not worked.
const CREDIT: i64 = 40_000;
/// A loop that begins to work is seen to after so much.
const DEBT: i64 = -3_000;
/// Without work for so long before a call sleeps, nanoseconds.
const LONG_WAIT: u64 = 1_000_000;

/// How much a program does between calls that find nothing: a bucket that fills with the time between calls and leaks a bit
/// at each. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Rhythm {
    credit: i64,
    /// When the last call returned; 0: not known.
    returned: u64,
    /// When the present one began; 0: not known.
    begun: u64,
    /// Since when it has waited; 0: it does not.
    waits_since: u64,
}

impl Rhythm {
    fn restart(&mut self) {
        (self.returned, self.begun, self.waits_since) = (0, 0, 0);
    }

    fn begun(&mut self, now: u64) {
        if self.begun == 0 {
            self.begun = now;
        }
    }

    /// A call that found nothing ends.
    fn ended(&mut self, now: u64) -> Tempo {
        if self.returned == 0 {
            // As before, then.
            return if self.credit < 0 {
                Tempo::Waits
            } else {
                Tempo::Unknown
            };
        }
        let begun = if self.begun == 0 { now } else { self.begun };
        let gap = begun.saturating_sub(self.returned).min(CREDIT as u64) as i64;
        self.credit = (self.credit + gap - FREE).clamp(DEBT, CREDIT);
        let tempo = self.tempo();
        if tempo == Tempo::Works {
            self.waits_since = 0;
        } else if self.waits_since == 0 {
            self.waits_since = now.max(1);
        }
        tempo
    }

    fn tempo(&self) -> Tempo {
        match (self.returned, self.credit) {
            (0, _) => Tempo::Unknown,
            (_, 1..) => Tempo::Works,
            _ => Tempo::Waits,
        }
    }

    fn has_waited_long(&self, now: u64) -> bool {
        self.waits_since != 0 && now.saturating_sub(self.waits_since) >= LONG_WAIT
    }

    fn returned(&mut self, now: u64) {
        (self.returned, self.begun) = (now.max(1), 0);
    }
}

/// Shortest and longest time between two yields of a program that works, nanoseconds: a switch costs a microsecond or
/// two, and a peer that computes itself takes nothing for long.
const FAVOURS: [u64; 2] = [20_000, 1_000_000];

/// When a program that works yields to peers that have not taken what it sent.
#[derive(Clone, Copy, Debug, Default)]
struct Favour {
    due: u64,
    every: u64,
    /// The fabric's count of rings at the last one.
    rings: u64,
}

impl Favour {
    fn is_due(&self, now: u64) -> bool {
        now >= self.due
    }

    /// Looked whether there is somebody: not again for some time.
    fn asked(&mut self, now: u64) {
        self.due = now + FAVOURS[0];
    }

    /// Everything was taken.
    fn helped(&mut self) {
        self.every = 0;
    }

    /// Yielded. The next ones come at longer intervals, until everything was taken.
    fn done(&mut self, now: u64) {
        self.every = (self.every * 2).clamp(FAVOURS[0], FAVOURS[1]);
        self.due = now + self.every;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Sleepless, crowded};
    use super::*;
    use crate::clock::Clock;
    use std::rc::Rc;

    /// A program's loop of calls that find nothing, in a time of its own.
    struct Program {
        policy: WaitPolicy,
        idle: Idle,
        time: Rc<Cell<u64>>,
        pauses: Cell<[u32; 3]>,
        untaken: Cell<bool>,
    }

    /// Nanoseconds of a call.
    const CALL: u64 = 80;

    impl Program {
        fn new(mut policy: WaitPolicy) -> Self {
            let time = Rc::new(Cell::new(1));
            policy.clock = Rc::new(Clock::simulated(Rc::clone(&time) as Rc<_>));
            Self {
                policy,
                idle: Idle::default(),
                time,
                pauses: Cell::default(),
                untaken: Cell::new(false),
            }
        }

        fn pass(&self, nanos: u64) {
            self.time.set(self.time.get() + nanos);
        }

        /// `calls` calls, each after `work`.
        fn run(&self, calls: u32, work: u64) {
            for _ in 0..calls {
                self.pass(work);
                self.idle.begin(&self.policy);
                self.pass(CALL);
                self.idle.nothing_with(
                    &self.policy,
                    || self.untaken.get(),
                    |pause| {
                        let mut pauses = self.pauses.get();
                        pauses[pause as usize] += 1;
                        self.pauses.set(pauses);
                        self.pass([0, 500, 60_000][pause as usize]);
                    },
                );
            }
        }

        /// Yields and sleeps since the last question.
        fn pauses(&self) -> [u32; 2] {
            let [_, yields, sleeps] = self.pauses.take();
            [yields, sleeps]
        }
    }

    #[test]
    fn who_works_between_calls_is_not_held_up() {
        for work in [300, 3_000, 30_000] {
            let program = Program::new(crowded());
            program.run(10_000, work);
            assert_eq!(program.pauses(), [0, 0], "{work} ns of work");
        }
    }

    #[test]
    fn rounds_of_many_calls_with_work_between_them_are_work() {
        let program = Program::new(crowded());
        let round = |calls| {
            program.pass(30_000);
            program.run(calls, 10);
        };
        round(128);
        program.pauses();
        (0..100).for_each(|_| round(128));
        assert_eq!(program.pauses(), [0, 0]);
        // Rounds in which a call costs more than the work between them do yield, and do not sleep.
        (0..100).for_each(|_| round(300));
        let [yields, sleeps] = program.pauses();
        assert!(yields > 0 && sleeps == 0, "{yields} yields, {sleeps} sleeps");
    }

    #[test]
    fn a_loop_with_nothing_between_calls_yields_and_then_sleeps() {
        let program = Program::new(crowded());
        program.run(1000, 10);
        let [yields, sleeps] = program.pauses();
        assert!(
            (990..=1000).contains(&yields) && sleeps == 0,
            "{yields} yields, {sleeps} sleeps"
        );
        program.run(3000, 10);
        let [_, sleeps] = program.pauses();
        assert!(sleeps > 1500, "{sleeps}");
        // The scheduler has put it aside within its loop.
        program.pass(3_000_000);
        program.run(400, 10);
        assert!(program.pauses()[0] > 100);
        // Now it works.
        program.run(1000, 300);
        let [yields, sleeps] = program.pauses();
        assert!(yields + sleeps < 30, "{yields} yields, {sleeps} sleeps");
        // Found: the next calls return at once.
        program.idle.found();
        program.run(super::super::LOOKS[1], 10);
        assert_eq!(program.pauses(), [0, 0]);
    }

    #[test]
    fn who_works_yields_to_peers_that_have_not_taken_what_it_sent() {
        let program = Program::new(crowded());
        program.run(10, 300);
        assert_eq!(program.pauses(), [0, 0]);
        program.untaken.set(true);
        program.pass(30_000);
        program.run(1, 300);
        assert_eq!(program.pauses(), [1, 0], "at once");
        // A second of a peer that takes nothing: a yield in a millisecond or so.
        program.run(2_500_000, 300);
        let [yields, sleeps] = program.pauses();
        assert!(
            (900..1100).contains(&yields) && sleeps == 0,
            "{yields} yields, {sleeps} sleeps"
        );
        program.untaken.set(false);
        program.run(10_000, 300);
        program.pauses();
        program.run(10_000, 300);
        assert_eq!(program.pauses(), [0, 0]);
        program.untaken.set(true);
        program.run(100, 300);
        assert_eq!(program.pauses(), [2, 0], "at once again");
    }

    #[test]
    fn with_a_core_of_its_own_nobody_yields_who_works() {
        let tunables = super::super::WaitTunables::default();
        let program = Program::new(WaitPolicy::new(&tunables, 2, 2, Rc::default()));
        program.untaken.set(true);
        program.run(50_000, 300);
        let [yields, sleeps] = program.pauses();
        assert!(yields <= 1 && sleeps == 0, "{yields} yields, {sleeps} sleeps");
    }

    #[test]
    fn a_loop_of_empty_calls_sleeps_on_its_fabric() {
        let program = Program::new(crowded());
        let fabric = Sleepless(Cell::new(0));
        while fabric.0.get() < 5 {
            program.pass(CALL);
            program.idle.nothing(&program.policy, &fabric, || false);
        }
        // Something came: the next calls do not sleep at once.
        program.idle.found();
        for _ in 0..super::super::LOOKS[1] + 3 {
            program.idle.nothing(&program.policy, &fabric, || false);
        }
        assert_eq!(fabric.0.get(), 5);
    }
}
