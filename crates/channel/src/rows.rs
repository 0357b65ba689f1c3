//! Rows: lines in shared memory by which processes show each other a few words, one step after another.
//!
//! Each process has two lines, used in turn. A line of step *n* is written over in step *n* + 2, which a process reaches only
//! when every other has shown its line of step *n* + 1, and so has read step *n*. For that, every process shows a line in every
//! step, also when it has nothing to say, but where [`gather`](Rows::gather) and [`follow`](Rows::follow) take its place.
//!
//! Cost class: fast path; one line written, and one read per other process.

use farpost_fabric::{Line, Lines};
use std::cell::Cell;

/// Words that a process can show.
pub const WORDS: usize = 7;

/// The two lines of a process.
pub struct Row<L> {
    lines: L,
    first: u32,
}

/// What a line shows to who waits for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// That step.
    Shown,
    /// Not yet.
    Before,
    /// What its process cannot have written.
    Wrong(u64),
}

impl<L: Lines> Row<L> {
    /// Lines `first` and `first + 1` of `lines`.
    #[must_use]
    pub fn new(lines: L, first: u32) -> Self {
        Self { lines, first }
    }

    #[inline(always)]
    fn number(&self, step: u64) -> u32 {
        self.first + (step & 1) as u32
    }

    /// Whether it shows `step`.
    #[inline(always)]
    #[must_use]
    pub fn shows(&self, step: u64) -> bool {
        self.lines.first(self.number(step)) == step
    }

    /// What it shows to who waits for `step`.
    ///
    /// Until then it shows the step before the last, which every process has shown, or it would not have shown the last
    /// one, and we would not be here. Anything else was not written by the protocol, and need not change again: it is
    /// an error, not something to wait for. In the first two steps a line may be empty; a process that empties it then is
    /// like one that does not come.
    #[must_use]
    pub fn look(&self, step: u64) -> Look {
        match self.lines.first(self.number(step)) {
            found if found == step => Look::Shown,
            found if found == step.saturating_sub(2) => Look::Before,
            found => Look::Wrong(found),
        }
    }

    /// What it shows in `step`, which it [shows](Self::shows).
    #[inline(always)]
    #[must_use]
    pub fn words(&self, step: u64) -> [u64; WORDS] {
        let [_, words @ ..] = self.lines.line(self.number(step));
        words
    }

    /// Own: show nothing, before others know of it.
    pub fn clear(&self) {
        for number in [self.first, self.first + 1] {
            self.lines.put(number, &[0; 8], 8);
        }
    }
}

/// The rows of those who do steps together, and how far this process is.
pub struct Rows<L> {
    /// Steps done. They do not wrap in the life of a computer.
    step: Cell<u64>,
    me: usize,
    rows: Vec<Row<L>>,
}

impl<L: Lines> Rows<L> {
    /// Of processes that have all cleared their rows before, in the same order everywhere; `me` is the place of this one.
    ///
    /// # Panics
    /// When there is no such place.
    #[must_use]
    pub fn new(me: usize, rows: Vec<Row<L>>) -> Self {
        assert!(me < rows.len());
        Self {
            step: Cell::new(0),
            me,
            rows,
        }
    }

    /// My place.
    #[inline(always)]
    #[must_use]
    pub fn me(&self) -> usize {
        self.me
    }

    /// All rows.
    #[inline(always)]
    #[must_use]
    pub fn rows(&self) -> &[Row<L>] {
        &self.rows
    }

    /// Show `mine`, of which the first `words` matter: the number of the step.
    #[inline]
    pub fn show(&self, mine: &[u64; WORDS], words: usize) -> u64 {
        let step = self.next_step();
        // Written out: a copy of a slice is a call.
        let [a, b, c, d, e, f, g] = *mine;
        let line: Line = [step, a, b, c, d, e, f, g];
        let row = &self.rows[self.me];
        row.lines.put(row.number(step), &line, words + 1);
        step
    }

    /// The number of a step in which this process shows nothing.
    #[inline]
    pub fn next_step(&self) -> u64 {
        let step = self.step.get() + 1;
        self.step.set(step);
        step
    }

    /// A step: show `mine`, of which the first `words` matter, `ring` for those who sleep, and see what all show in the order
    /// of their places. `wait` returns when a row shows the step.
    ///
    /// # Errors
    /// The first of `wait` and `see`. The others are waited for all the same: the next line that we show goes where they may
    /// still be reading.
    #[inline]
    pub fn exchange<E>(
        &self,
        mine: &[u64; WORDS],
        words: usize,
        ring: impl FnOnce(),
        mut wait: impl FnMut(usize, &Row<L>, u64) -> Result<(), E>,
        mut see: impl FnMut(usize, &[u64; WORDS]) -> Result<(), E>,
    ) -> Result<(), E> {
        let step = self.show(mine, words);
        ring();
        let mut failed = None;
        for (at, row) in self.rows.iter().enumerate() {
            let seen = if at == self.me {
                see(at, mine)
            } else {
                wait(at, row, step).and_then(|()| see(at, &row.words(step)))
            };
            if let Err(error) = seen {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The first process, in a step in which all others [follow](Self::follow): see what they show. It shows the next step, for
    /// which they wait.
    ///
    /// # Errors
    /// As in [`exchange`](Self::exchange).
    pub fn gather<E>(
        &self,
        mut wait: impl FnMut(usize, &Row<L>, u64) -> Result<(), E>,
        mut see: impl FnMut(usize, &[u64; WORDS]) -> Result<(), E>,
    ) -> Result<(), E> {
        let step = self.next_step();
        let mut failed = None;
        for (at, row) in self.rows.iter().enumerate().skip(1) {
            let seen = wait(at, row, step).and_then(|()| see(at, &row.words(step)));
            if let Err(error) = seen {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// All but the first process, which [gathers](Self::gather): show `mine`, of which the first `words` matter, and see what the
    /// first one shows in the step after.
    ///
    /// # Errors
    /// Those of `wait`.
    pub fn follow<E>(
        &self,
        mine: &[u64; WORDS],
        words: usize,
        ring: impl FnOnce(),
        wait: impl FnOnce(usize, &Row<L>, u64) -> Result<(), E>,
    ) -> Result<[u64; WORDS], E> {
        self.show(mine, words);
        ring();
        let step = self.next_step();
        let first = &self.rows[0];
        wait(0, first, step)?;
        Ok(first.words(step))
    }

    /// Whether every process has shown the step that this one shows, its last: then all have read everything before. A process
    /// whose row has been taken into use again is past that too.
    #[must_use]
    pub fn everybody_left(&self) -> bool {
        let last = self.step.get();
        self.rows.iter().enumerate().all(|(at, row)| {
            at == self.me || {
                let found = row.lines.first(row.number(last));
                found != 0 && found != last.wrapping_sub(2)
            }
        })
    }
}
