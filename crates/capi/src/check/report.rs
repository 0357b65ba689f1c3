//! Findings, as they are told: a process's first of each kind in full, later ones counted.

use std::cell::{Cell, RefCell};

use farpost_mpi::Error;

use super::{Call, Check};
use crate::cx::Cx;
use crate::process::say;

/// Exit code of a job that has findings, where that was asked for.
pub(crate) const EXIT_CODE: i32 = 1;

/// What kind of mistake a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportKind {
    Collective,
    Signature,
    Overlap,
    Changed,
    Left,
}

impl ReportKind {
    const ALL: [ReportKind; 5] = [
        ReportKind::Collective,
        ReportKind::Signature,
        ReportKind::Overlap,
        ReportKind::Changed,
        ReportKind::Left,
    ];

    fn name(self) -> &'static str {
        match self {
            ReportKind::Collective => "of collective calls that differ",
            ReportKind::Signature => "of type signatures that differ",
            ReportKind::Overlap => "of buffers that overlap",
            ReportKind::Changed => "of buffers changed too early",
            ReportKind::Left => "of what was left at the end",
        }
    }
}

#[derive(Default)]
pub(crate) struct Findings {
    counts: RefCell<[u64; ReportKind::ALL.len()]>,
    told: Cell<u64>,
}

impl Findings {
    /// All so far.
    pub(crate) fn count(&self) -> u64 {
        self.counts.borrow().iter().sum()
    }

    /// What was counted and not told.
    pub(crate) fn untold(&self) -> Option<String> {
        let counts = self.counts.borrow();
        let more = counts.iter().sum::<u64>() - self.told.get();
        if more == 0 {
            return None;
        }
        let kinds = ReportKind::ALL
            .iter()
            .zip(*counts)
            .filter(|(_, count)| *count > 0);
        let kinds: Vec<String> = kinds
            .map(|(kind, count)| format!("{count} {}", kind.name()))
            .collect();
        Some(format!(
            "{more} more findings were counted and not told (FARPOST_CHECK=all tells them); in all {}",
            kinds.join(", ")
        ))
    }
}

impl Check {
    /// A mistake of the program's.
    pub(crate) fn find(&self, cx: &Cx, kind: ReportKind, text: &str) {
        let first = {
            let mut counts = self.findings.counts.borrow_mut();
            counts[kind as usize] += 1;
            counts[kind as usize] == 1
        };
        if first || self.mode.all {
            self.findings.told.set(self.findings.told.get() + 1);
            self.tell(&format!("rank {}: {text}", self.rank));
        }
        if self.mode.error && kind != ReportKind::Left {
            cx.abort(
                EXIT_CODE,
                "a finding of the check ends the job (FARPOST_CHECK=error)",
            );
        }
    }

    /// An error with the place of the call that raised it.
    pub(crate) fn placed(&self, error: &Error) -> Error {
        let place = self.sites.describe(self.here());
        if place.is_empty() {
            return error.clone();
        }
        Error::new(error.class, format!("{} (called {place})", error.message))
    }

    /// A line for people.
    pub(crate) fn tell(&self, text: &str) {
        say(&format!("check: {text}"));
    }

    /// A function and where it was called.
    pub(crate) fn call_text(&self, call: Call) -> String {
        self.sites.call_text(call)
    }
}
