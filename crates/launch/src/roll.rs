//! The roll-call of a job on this host: what each rank waits for, from the records that ranks leave in the job's memory.

use farpost_job::{JobMemory, RankState};
use farpost_rollcall::Slot;
use farpost_rollcall::table::{Rank, RollState};
use std::time::{Duration, Instant};

/// The longest time between two looks whether ranks make progress.
pub(crate) const SELDOM: Duration = Duration::from_secs(2);

/// What the guardian keeps of it.
pub(crate) struct Roll {
    /// When to look next.
    pub(crate) next: Option<Instant>,
    /// It was told that nobody makes progress, and nobody has since.
    pub(crate) told: bool,
    /// How it was when the user asked the job to end.
    pub(crate) kept: Option<Vec<Rank>>,
    /// The user has asked it to.
    pub(crate) asked: bool,
}

impl Roll {
    pub(crate) fn new(looks: bool) -> Self {
        Self {
            // Another launcher's ranks look themselves.
            next: looks.then(|| Instant::now() + SELDOM / 4),
            told: false,
            kept: None,
            asked: false,
        }
    }

    /// Whether the user has asked the job to end.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }
}

/// What a rank does, as its job's memory has it.
pub fn state_of(memory: &JobMemory, rank: u32, now: u64) -> RollState {
    let shown = || Rank::of_words(Slot::new(memory.notice(rank)).read(), now);
    match memory.state(rank) {
        // One that has opened nothing that is to be closed (RSMAPI alone) may wait all the same.
        RankState::Waiting | RankState::Started => shown().or(RollState::Starts),
        RankState::Initialised | RankState::Aborted => shown(),
        RankState::Finalised => shown().or(RollState::Finalised),
    }
}
