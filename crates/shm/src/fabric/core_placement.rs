//! Processes of a host that share a core move apart.
//! Beside a busy process of another job, two processes that wait for each other look light to the scheduler, which may put them
//! on one core while others idle. Each message then costs a context switch. A process that notices this names its core in the
//! shared region; of two that name the same core the one with the higher number moves to a core that no process of the job has
//! named. It binds itself to that core and at once restores its affinity, so that it stays unbound.
//!
//! The cores that others name are hints: a wrong one costs a move.
//!
//! Cost class: *set-up path*.

use farpost_fabric::clock::Clock;
use farpost_fabric::sync::Ordering;
use farpost_fabric::wait::{Host, WakeCost};
use farpost_mapped::Word32;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::cell::Cell;
use std::rc::Rc;

/// Shortest and longest time between two moves, nanoseconds.
const MOVE_INTERVAL: [u64; 2] = [500_000, 100_000_000];

/// Time between two checks, nanoseconds.
const CHECK_INTERVAL: u64 = 20_000;

pub struct CorePlacement {
    /// For each process, the core it has named, plus 1.
    words: Vec<Word32>,
    index: usize,
    clock: Rc<Clock>,
    cost: WakeCost,
    looked: Cell<u64>,
    /// When to move at the earliest, and how long to stay then.
    next: Cell<u64>,
    every: Cell<u64>,
}

impl CorePlacement {
    pub fn new(words: Vec<Word32>, index: usize, clock: Rc<Clock>) -> Self {
        Self {
            words,
            index,
            clock,
            cost: WakeCost::default(),
            looked: Cell::new(0),
            next: Cell::new(0),
            every: Cell::new(MOVE_INTERVAL[0]),
        }
    }

    /// Name the core of this process.
    fn name(&self, core: usize) {
        if let Some(word) = self.words.get(self.index) {
            let word = word.get();
            if word.load(Ordering::Relaxed) != core as u32 + 1 {
                word.store(core as u32 + 1, Ordering::Relaxed);
            }
        }
    }
}

impl Host for CorePlacement {
    fn wake_cost(&self) -> &WakeCost {
        &self.cost
    }

    #[cold]
    fn shares_core(&self) {
        let now = self.clock.now();
        if now < self.looked.get() + CHECK_INTERVAL {
            return;
        }
        self.looked.set(now);
        let core = sched_getcpu();
        self.name(core);
        if now < self.next.get() {
            return;
        }
        let named: Vec<u32> = self
            .words
            .iter()
            .map(|w| w.get().load(Ordering::Relaxed))
            .collect();
        let Ok(mine) = sched_getaffinity(None) else { return };
        let Some(to) = target(&named, self.index, core, |cpu| mine.is_set(cpu)) else {
            return;
        };
        self.name(to);
        move_to(to, &mine);
        // A process that is moved back soon moves less often.
        let every = self.every.get();
        self.every.set(if now > self.next.get() + 100 * every {
            MOVE_INTERVAL[0]
        } else {
            (2 * every).min(MOVE_INTERVAL[1])
        });
        self.next.set(now + self.every.get());
    }
}

/// Where process `index`, which is on `core`, goes, if it is the one that goes. `named` has for each process the core it has
/// named, plus 1.
fn target(named: &[u32], index: usize, core: usize, may: impl Fn(usize) -> bool) -> Option<usize> {
    let below = named.get(..index)?;
    if !below.contains(&(core as u32 + 1)) {
        return None;
    }
    (0..CpuSet::MAX_CPU).find(|cpu| may(*cpu) && !named.contains(&(*cpu as u32 + 1)))
}

/// Go to `cpu`, and be free again to run on all of `before`.
fn move_to(cpu: usize, before: &CpuSet) {
    let mut one = CpuSet::new();
    one.set(cpu);
    if sched_setaffinity(None, &one).is_ok() {
        let _ = sched_setaffinity(None, before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_on_one_core_the_higher_number_goes_where_nobody_is() {
        let any = |cpu| cpu < 4;
        assert_eq!(target(&[1, 1], 1, 0, any), Some(1));
        assert_eq!(target(&[1, 1], 0, 0, any), None, "the lower number stays");
        assert_eq!(target(&[1, 2, 1], 2, 0, any), Some(2));
        assert_eq!(target(&[1, 2, 3, 4, 1], 4, 0, any), None, "no core is free");
        assert_eq!(target(&[1, 0, 1], 2, 0, |cpu| cpu == 0), None, "bound");
        assert_eq!(target(&[2, 1], 1, 0, any), None, "with a stranger");
        assert_eq!(target(&[u32::MAX, 0], 1, 0, any), None, "an invalid number");
        assert_eq!(target(&[], 3, 0, any), None);
    }

    #[test]
    fn a_process_that_moves_may_run_where_it_might_before() {
        let before = sched_getaffinity(None).unwrap();
        let cpu = (0..1024).rev().find(|cpu| before.is_set(*cpu)).unwrap();
        move_to(cpu, &before);
        let after = sched_getaffinity(None).unwrap();
        assert!((0..1024).all(|cpu| before.is_set(cpu) == after.is_set(cpu)));
    }

    /// Processes that run on cores of a made-up host settle on different ones, whatever they hear of each other late.
    #[test]
    fn processes_end_up_apart() {
        for start in 0..4_usize.pow(4) {
            let mut on: Vec<usize> = (0..4).map(|i| start / 4_usize.pow(i) % 4).collect();
            let mut named = vec![0; 4];
            for _ in 0..8 {
                for index in 0..4 {
                    let shares = on.iter().filter(|c| **c == on[index]).count() > 1;
                    if shares {
                        named[index] = on[index] as u32 + 1;
                        if let Some(to) = target(&named, index, on[index], |cpu| cpu < 4) {
                            on[index] = to;
                            named[index] = to as u32 + 1;
                        }
                    }
                }
            }
            on.sort_unstable();
            assert_eq!(on, [0, 1, 2, 3], "from {start}");
        }
    }
}
