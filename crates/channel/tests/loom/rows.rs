//! Rows, on which collectives stand: what a process sees is what was shown in that step, also when others are a step ahead.

use farpost_channel::rows::{Look, Row, Rows, WORDS};
use farpost_fabric::{Line, Lines};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use std::convert::Infallible;

/// Words of a line that a model has: the number of the step, and one that must belong to it.
const KEPT: usize = 2;

/// A queue of lines as the shared-memory fabric maps it.
#[derive(Clone)]
struct Shared(Arc<Vec<[AtomicU64; KEPT]>>);

impl Shared {
    fn new(lines: usize) -> Self {
        let line = |_| std::array::from_fn(|_| AtomicU64::new(0));
        Self(Arc::new((0..lines).map(line).collect()))
    }
}

impl Lines for Shared {
    fn first(&self, number: u32) -> u64 {
        self.0[number as usize][0].load(Ordering::Acquire)
    }
    fn word(&self, number: u32, index: usize) -> u64 {
        self.0[number as usize][index].load(Ordering::Relaxed)
    }
    fn line(&self, number: u32) -> Line {
        let mut line = [0; 8];
        line[0] = self.first(number);
        for (index, word) in line.iter_mut().enumerate().take(KEPT).skip(1) {
            *word = self.word(number, index);
        }
        line
    }
    fn put(&self, number: u32, line: &Line, _: usize) {
        let words = &self.0[number as usize];
        for (word, value) in words.iter().zip(line).skip(1) {
            word.store(*value, Ordering::Relaxed);
        }
        words[0].store(line[0], Ordering::Release);
    }
    fn put_first(&self, number: u32, word: u64) {
        self.0[number as usize][0].store(word, Ordering::Release);
    }
}

/// Wait as collectives do, for as long as it takes; a line that nobody can have written is an error.
fn wait(_: usize, row: &Row<Shared>, step: u64) -> Result<(), Infallible> {
    loop {
        match row.look(step) {
            Look::Shown => return Ok(()),
            Look::Before => thread::yield_now(),
            Look::Wrong(found) => panic!("step {found} where {step} comes next"),
        }
    }
}

/// What process `at` shows in a collective.
fn shown(at: usize, collective: u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[0] = collective << 8 | (at as u64 + 1);
    words
}

/// The rows of all in `memory`, two lines from `first` on for each.
fn rows(me: usize, memory: &Shared, firsts: &[u32]) -> Rows<Shared> {
    let row = |first: &u32| Row::new(memory.clone(), *first);
    Rows::new(me, firsts.iter().map(row).collect())
}

fn exchange(rows: &Rows<Shared>, collective: u64) {
    let mut seen = 0;
    let mine = shown(rows.me(), collective);
    let see = |at, words: &[u64; WORDS]| {
        assert_eq!(*words, shown(at, collective));
        seen += 1;
        Ok(())
    };
    let Ok(()) = rows.exchange(&mine, KEPT - 1, || (), wait, see);
    assert_eq!(seen, rows.rows().len());
}

/// `process` by its number, in a thread for each but 0, which is this one.
fn check(
    processes: usize,
    lines: usize,
    preemptions: usize,
    process: impl Fn(&Shared, &[AtomicU32], usize) + Copy + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        let memory = Shared::new(lines);
        let told: Arc<Vec<AtomicU32>> = Arc::new((0..processes).map(|_| AtomicU32::new(0)).collect());
        let others: Vec<_> = (1..processes)
            .map(|me| {
                let (memory, told) = (memory.clone(), Arc::clone(&told));
                thread::spawn(move || process(&memory, &told, me))
            })
            .collect();
        process(&memory, &told, 0);
        for other in others {
            other.join().unwrap();
        }
    });
}

/// A fast one enters the next collective, and the one after that, while a slow one still reads.
#[test]
fn two_show_each_other_four_steps() {
    check(2, 4, 2, |memory, _, me| {
        let rows = rows(me, memory, &[0, 2]);
        (1..=4).for_each(|collective| exchange(&rows, collective));
    });
}

/// With three, a process is left only where it waits, and a load finds each value that it may: more would take minutes.
#[test]
fn three_show_each_other_three_steps() {
    check(3, 6, 0, |memory, _, me| {
        let rows = rows(me, memory, &[0, 2, 4]);
        (1..=3).for_each(|collective| exchange(&rows, collective));
    });
}

/// Collectives in which the first takes together what the others bring, and shows what came of it.
fn gather_and_follow(rows: &Rows<Shared>, collective: u64) {
    let outcome = shown(0, collective);
    if rows.me() > 0 {
        let mine = shown(rows.me(), collective);
        let Ok(seen) = rows.follow(&mine, KEPT - 1, || (), |at, row, step| wait(at, row, step));
        assert_eq!(seen, outcome);
        return;
    }
    let mut seen = 0;
    let see = |at, words: &[u64; WORDS]| {
        assert_eq!(*words, shown(at, collective));
        seen += 1;
        Ok(())
    };
    let Ok(()) = rows.gather(wait, see);
    assert_eq!(seen + 1, rows.rows().len());
    rows.show(&outcome, KEPT - 1);
}

#[test]
fn two_in_two_levels() {
    check(2, 4, 2, |memory, _, me| {
        let rows = rows(me, memory, &[0, 2]);
        (1..=3).for_each(|collective| gather_and_follow(&rows, collective));
    });
}

#[test]
fn three_in_two_levels() {
    check(3, 6, 0, |memory, _, me| {
        let rows = rows(me, memory, &[0, 2, 4]);
        (1..=2).for_each(|collective| gather_and_follow(&rows, collective));
    });
}

/// A communicator goes and another comes, whose row is that of the first at a process which sees that all have left it, and else a
/// fresh one. Where it is everybody tells everybody, by a message.
fn one_after_the_other(memory: &Shared, told: &[AtomicU32], me: usize, steps: u64) {
    let processes = told.len();
    let old: Vec<u32> = (0..processes as u32).map(|at| at * 4).collect();
    let first = rows(me, memory, &old);
    (1..=steps).for_each(|collective| exchange(&first, collective));
    first.show(&[0; WORDS], WORDS);
    let mine = if first.everybody_left() {
        old[me]
    } else {
        old[me] + 2
    };
    Row::new(memory.clone(), mine).clear();
    told[me].store(mine + 1, Ordering::Release);
    let new: Vec<u32> = told
        .iter()
        .map(|row| {
            loop {
                match row.load(Ordering::Acquire) {
                    0 => thread::yield_now(),
                    found => break found - 1,
                }
            }
        })
        .collect();
    let second = rows(me, memory, &new);
    exchange(&second, 100);
}

#[test]
fn two_use_a_row_again() {
    check(2, 8, 2, |memory, told, me| {
        one_after_the_other(memory, told, me, 1)
    });
}

#[test]
fn two_use_a_row_again_after_two_steps() {
    check(2, 8, 2, |memory, told, me| {
        one_after_the_other(memory, told, me, 2)
    });
}
