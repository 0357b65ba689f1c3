//! Which rank runs next.
//!
//! Every rank has a clock of its own, which what it does moves. The rank whose clock is behind all others runs next; ranks of equal time run in the order of
//! their numbers. A rank that waits is asleep until something happens to it, or until a deadline. Waits are polls in loops: what happens between two polls is seen
//! at the second one, so a sleep ends at a multiple of the loop's period.

use crate::record::Recorder;
use crate::time::Ps;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Runs, or waits for its turn.
    Ready,
    Asleep {
        since: Ps,
        period: Ps,
        deadline: Ps,
    },
    /// Does something else, for an unknown time.
    Away,
    /// Does something else until something happens to it.
    Resting {
        since: Ps,
    },
    Ended,
}

struct Rank {
    clock: Ps,
    turn: Turn,
    /// Something has happened to it since it last forgot.
    touched: bool,
    /// Until then an interrupt has its processor.
    taken: Ps,
    /// Entries of the heap with another number are out of date.
    stamp: u32,
    /// Times as long as another's everything takes that software does.
    slow: f64,
}

/// The clocks of all ranks, and whose turn it is.
pub struct Schedule {
    ranks: Vec<Rank>,
    heap: BinaryHeap<Reverse<(Ps, u32, u32)>>,
    running: Option<u32>,
    recorder: Recorder,
}

impl Schedule {
    /// All of `size` ranks are ready to start.
    pub fn new(size: u32) -> Self {
        let rank = |_| Rank {
            clock: Ps::ZERO,
            turn: Turn::Ready,
            touched: false,
            taken: Ps::ZERO,
            stamp: 0,
            slow: 1.0,
        };
        Self {
            ranks: (0..size).map(rank).collect(),
            heap: (0..size).map(|rank| Reverse((Ps::ZERO, rank, 0))).collect(),
            running: None,
            recorder: Recorder::default(),
        }
    }

    /// From now on waits are written down.
    pub fn record(&mut self, recorder: &Recorder) {
        self.recorder = recorder.clone();
    }

    /// Who runs, while one does.
    pub fn running(&self) -> Option<u32> {
        self.running
    }

    /// The time of a rank.
    pub fn clock(&self, rank: u32) -> Ps {
        self.ranks[rank as usize].clock
    }

    /// What software does takes `rank` so many times as long.
    pub fn set_slow(&mut self, rank: u32, factor: f64) {
        self.ranks[rank as usize].slow = factor;
    }

    /// How many times as long that is.
    pub fn slow(&self, rank: u32) -> f64 {
        self.ranks[rank as usize].slow
    }

    /// What takes another rank so long takes this one.
    pub fn slowed(&self, rank: u32, time: Ps) -> Ps {
        match self.ranks[rank as usize].slow {
            1.0 => time,
            slow => time.times(slow),
        }
    }

    /// A rank does something that takes so long.
    pub fn spend(&mut self, rank: u32, time: Ps) {
        self.ranks[rank as usize].clock += time;
    }

    /// Who is next, and when.
    pub fn next_turn(&mut self) -> Option<(Ps, u32)> {
        while let Some(&Reverse((time, rank, stamp))) = self.heap.peek() {
            if self.ranks[rank as usize].stamp == stamp {
                return Some((time, rank));
            }
            self.heap.pop();
        }
        None
    }

    fn push(&mut self, time: Ps, rank: u32) {
        let it = &mut self.ranks[rank as usize];
        it.stamp = it.stamp.wrapping_add(1);
        self.heap.push(Reverse((time, rank, it.stamp)));
    }

    /// The [next](Self::next_turn) one runs from now on.
    pub fn start(&mut self) -> Option<u32> {
        let (time, rank) = self.next_turn()?;
        self.heap.pop();
        let it = &mut self.ranks[rank as usize];
        it.stamp = it.stamp.wrapping_add(1);
        let slept = match it.turn {
            Turn::Asleep { since, .. } => Some(since),
            _ => None,
        };
        (it.clock, it.turn) = (time.max(it.clock), Turn::Ready);
        let clock = it.clock;
        if let Some(since) = slept {
            self.recorder.slept(rank, (since, clock));
        }
        self.recorder.acts(rank, clock);
        self.running = Some(rank);
        Some(rank)
    }

    /// The running rank gives way, and runs again when all others have reached its time.
    pub fn give_way(&mut self) {
        if let Some(rank) = self.running.take() {
            self.push(self.clock(rank), rank);
        }
    }

    /// The running rank sleeps until something happens to it, seen in polls of this period, or until the deadline.
    pub fn sleep(&mut self, period: Ps, deadline: Ps) {
        if let Some(rank) = self.running.take() {
            let since = self.clock(rank);
            self.ranks[rank as usize].turn = Turn::Asleep {
                since,
                period,
                deadline,
            };
            self.push(deadline.max(since), rank);
        }
    }

    /// The running rank has ended.
    pub fn end(&mut self) {
        if let Some(rank) = self.running.take() {
            let it = &mut self.ranks[rank as usize];
            it.turn = Turn::Ended;
            it.stamp = it.stamp.wrapping_add(1);
            self.recorder.ends(rank, it.clock);
        }
    }

    /// The running rank does something else, for an unknown time: others run on.
    pub fn away(&mut self) {
        if let Some(rank) = self.running.take() {
            self.ranks[rank as usize].turn = Turn::Away;
        }
    }

    /// The running rank does something else until something happens to it, or it is [back](Self::back).
    pub fn rest(&mut self) {
        if let Some(rank) = self.running.take() {
            let since = self.clock(rank);
            self.ranks[rank as usize].turn = Turn::Resting { since };
        }
    }

    /// It is back, and has a turn at `now`, or at its own time if that is later.
    pub fn back(&mut self, rank: u32, now: Ps) {
        let it = &mut self.ranks[rank as usize];
        it.turn = Turn::Ready;
        it.clock = it.clock.max(now);
        self.push(self.clock(rank), rank);
    }

    /// It has ended while it did something else.
    pub fn gone(&mut self, rank: u32) {
        let it = &mut self.ranks[rank as usize];
        it.turn = Turn::Ended;
        it.stamp = it.stamp.wrapping_add(1);
    }

    /// Something happens to `rank` at `now`.
    pub fn touch(&mut self, rank: u32, now: Ps) {
        let it = &mut self.ranks[rank as usize];
        it.touched = true;
        if let Turn::Resting { since } = it.turn {
            it.turn = Turn::Ready;
            it.clock = now.max(since).max(it.taken);
            let clock = it.clock;
            self.recorder.woken(rank, (since, clock), now);
            self.push(clock, rank);
        } else if let Turn::Asleep {
            since,
            period,
            deadline,
        } = it.turn
        {
            let polls = match period.0 {
                0 => 0,
                period => (now - since).0.div_ceil(period),
            };
            let seen = if period == Ps::ZERO {
                now
            } else {
                since + period * polls
            };
            it.turn = Turn::Ready;
            it.clock = seen.max(since).min(deadline).max(it.taken);
            let clock = it.clock;
            self.recorder.woken(rank, (since, clock), now);
            self.push(clock, rank);
        }
    }

    /// An interrupt takes the processor of `rank` at `now` for so long: what it does is done later, and it wakes no earlier.
    pub fn interrupt(&mut self, rank: u32, now: Ps, time: Ps) {
        let time = self.slowed(rank, time);
        let it = &mut self.ranks[rank as usize];
        match it.turn {
            Turn::Ready => {
                let begins = it.clock.max(now);
                it.clock = begins + time;
                self.recorder.interrupted(rank, begins, it.clock);
                if self.running != Some(rank) {
                    self.push(self.clock(rank), rank);
                }
            }
            Turn::Asleep { deadline, .. } => {
                it.taken = now + time;
                self.recorder.interrupted(rank, now, it.taken);
                let wakes = deadline.max(it.taken);
                self.push(wakes, rank);
            }
            Turn::Resting { .. } => {
                it.taken = now + time;
                self.recorder.interrupted(rank, now, it.taken);
            }
            Turn::Away | Turn::Ended => {}
        }
    }

    /// Whether `rank` sleeps.
    pub fn is_asleep(&self, rank: u32) -> bool {
        matches!(self.ranks[rank as usize].turn, Turn::Asleep { .. })
    }

    /// Whether something has happened to `rank` since this was last asked.
    pub fn take_touched(&mut self, rank: u32) -> bool {
        std::mem::take(&mut self.ranks[rank as usize].touched)
    }

    /// Ranks that have not ended.
    pub fn left(&self) -> impl Iterator<Item = u32> {
        let left = |(rank, it): (usize, &Rank)| (it.turn != Turn::Ended).then_some(rank as u32);
        self.ranks.iter().enumerate().filter_map(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(nanos: u64) -> Ps {
        Ps::from_nanos(nanos)
    }

    #[test]
    fn whose_clock_is_behind_runs_next() {
        let mut schedule = Schedule::new(3);
        let mut order = Vec::new();
        for _ in 0..6 {
            let rank = schedule.start().expect("all are ready");
            order.push(rank);
            schedule.spend(rank, ns(10 + u64::from(rank) * 10));
            schedule.give_way();
        }
        assert_eq!(order, [0, 1, 2, 0, 0, 1], "times 0 0 0 10 20 20");
    }

    #[test]
    fn a_sleeper_sees_what_happens_at_its_next_poll() {
        let mut schedule = Schedule::new(2);
        schedule.start();
        schedule.spend(0, ns(5));
        schedule.sleep(ns(50), ns(1000));
        schedule.touch(0, ns(60));
        assert!(schedule.take_touched(0));
        assert_eq!(schedule.next_turn(), Some((Ps::ZERO, 1)));
        schedule.start();
        schedule.end();
        assert_eq!(schedule.start(), Some(0));
        assert_eq!(schedule.clock(0), ns(105));
        schedule.sleep(ns(50), ns(300));
        assert_eq!(schedule.next_turn(), Some((ns(300), 0)), "or at its deadline");
        assert_eq!(schedule.left().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn who_rests_has_a_turn_when_something_happens_or_it_is_back() {
        let mut schedule = Schedule::new(2);
        schedule.start();
        schedule.rest();
        assert_eq!(schedule.next_turn(), Some((Ps::ZERO, 1)));
        schedule.start();
        schedule.touch(0, ns(30));
        assert_eq!(schedule.next_turn(), Some((ns(30), 0)));
        assert!(schedule.take_touched(0));
        schedule.end();
        assert_eq!(schedule.start(), Some(0));
        schedule.rest();
        assert_eq!(schedule.next_turn(), None, "nobody else is there");
        schedule.back(0, ns(50));
        assert_eq!(schedule.next_turn(), Some((ns(50), 0)));
    }

    #[test]
    fn an_interrupt_delays_what_its_processor_does_and_wakes() {
        let mut schedule = Schedule::new(2);
        schedule.start();
        schedule.interrupt(0, ns(0), ns(20));
        assert_eq!(schedule.clock(0), ns(20), "it runs");
        schedule.sleep(ns(1), ns(1000));
        schedule.interrupt(0, ns(30), ns(20));
        schedule.touch(0, ns(35));
        schedule.interrupt(1, ns(5), ns(20));
        assert_eq!(schedule.next_turn(), Some((ns(25), 1)), "it waits for its turn");
        schedule.start();
        schedule.end();
        assert_eq!(schedule.next_turn(), Some((ns(50), 0)), "it sleeps");
        schedule.interrupt(0, ns(40), ns(20));
        assert_eq!(schedule.next_turn(), Some((ns(70), 0)), "it has been woken");
    }
}
