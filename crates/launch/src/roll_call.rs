//! The guardian makes the roll-call of its job: when the user asks, when the job is ended, and when nobody makes progress.

use crate::guardian::Guardian;
use crate::report::End;
use crate::roll::{SELDOM, state_of};
use farpost_job::watch;
use farpost_rollcall::now;
use farpost_rollcall::table::{self, Rank, RollState};
use std::time::{Duration, Instant};

/// Time between two looks whether ranks make progress: a part of the time after which they are told, within these.
const LOOKS: u32 = 8;
const OFTEN: Duration = Duration::from_millis(100);
/// Ranks of another launcher that are asked have answered by then: hosts that do not answer them are waited for less long.
const ANSWER: Duration = Duration::from_secs(4);

impl Guardian<'_> {
    /// What all ranks do now.
    fn look(&self) -> Vec<Rank> {
        let now = now();
        let plan = self.plan;
        let ranks = self.ranks.iter().take(plan.job.ranks()).enumerate();
        ranks
            .map(|(number, rank)| Rank {
                number: number as u32,
                host: plan.job.host.clone(),
                state: match rank.end {
                    Some(End::Exit(code)) => RollState::Ended(format!("ended with code {code}")),
                    Some(End::Signal(signal)) => RollState::Ended(format!("ended by signal {signal}")),
                    None => state_of(&plan.memory, number as u32, now),
                },
                now,
            })
            .collect()
    }

    /// Ranks that another launcher has started are asked to say what they wait for, if some of them are on this host: one of those
    /// that wait prints it. Waits for that a little, as nothing is waited for when nobody waits.
    fn ask_ranks(&self) -> bool {
        let below = crate::descendants::list()
            .into_iter()
            .map(|pid| pid.as_raw_pid() as u32);
        // Slurm's daemon starts its ranks, not srun.
        let elsewhere =
            std::iter::once_with(|| watch::started_with(farpost_job::HANDED_BY, &self.plan.memory.id()));
        let Some(memory) = below.chain(elsewhere.flatten()).find_map(|pid| {
            let memory = watch::job_of(pid).ok()?;
            // Those of a job within this one are not meant.
            (memory.id() != self.plan.memory.id()).then_some(memory)
        }) else {
            return false;
        };
        let now = now();
        let waits =
            |rank: u32| memory.pid(rank) != 0 && matches!(state_of(&memory, rank, now), RollState::Waits(_));
        if !(0..memory.layout().ranks - memory.services()).any(waits) {
            return false;
        }
        let number = memory.ask_roll();
        let until = Instant::now() + ANSWER;
        while memory.roll_given() != number {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(OFTEN / 10);
        }
        true
    }

    /// The user asks the job to end: how it was until then is what counts.
    pub(crate) fn keep_roll(&mut self) {
        if self.roll.asked || self.first.is_some() {
            return;
        }
        self.roll.asked = true;
        if self.plan.job.engine.is_some() {
            // Afterwards there is nobody left to ask.
            self.ask_ranks();
        } else {
            self.roll.kept = Some(self.look());
        }
    }

    /// The job is about to be ended. Nothing is said when nobody waits.
    pub(crate) fn tell_roll_at_end(&mut self) {
        if self.plan.options.quiet || self.first.as_ref().is_some_and(|first| first.ends_job) {
            return;
        }
        if self.plan.job.engine.is_some() {
            self.ask_ranks();
            return;
        }
        let ranks = match self.roll.kept.take() {
            Some(ranks) => ranks,
            None => self.look(),
        };
        self.roll.next = None;
        if self.roll.told && table::stuck_for(&ranks).is_some() {
            return self.say("no rank has made progress since the table above");
        }
        self.say_table("what the ranks were waiting for:", &ranks);
    }

    /// The user has asked what the ranks wait for.
    pub(crate) fn tell_roll(&mut self) {
        if self.plan.job.engine.is_some() {
            if !self.ask_ranks() {
                self.say("no rank waits on this host");
            }
            return;
        }
        let ranks = self.look();
        if !self.say_table("what the ranks wait for:", &ranks) {
            self.say("no rank waits");
        }
    }

    fn say_table(&mut self, heading: &str, ranks: &[Rank]) -> bool {
        let Some(text) = table::table(ranks) else {
            return false;
        };
        self.say(&format!("{heading}\n{}", text.trim_end()));
        true
    }

    /// Look whether the ranks make progress, if it is time to.
    pub(crate) fn watch_roll(&mut self, at: Instant) {
        if self.roll.next.is_none_or(|next| next > at) {
            return;
        }
        let limit = match self.plan.memory.hang_after() {
            // No rank has joined the job yet.
            None => Duration::MAX,
            Some(0) => {
                self.roll.next = None;
                return;
            }
            Some(seconds) => Duration::from_secs(seconds.into()),
        };
        self.roll.next = Some(at + (limit / LOOKS).clamp(OFTEN, SELDOM));
        if limit == Duration::MAX || self.first.as_ref().is_some_and(|first| first.ends_job) {
            return;
        }
        let ranks = self.look();
        let stuck = table::stuck_for(&ranks).map(Duration::from_nanos);
        let Some(stuck) = stuck.filter(|stuck| *stuck >= limit) else {
            self.roll.told = false;
            return;
        };
        if !std::mem::replace(&mut self.roll.told, true) {
            let heading = format!(
                "no rank has made progress for {}; the job goes on waiting. What the ranks wait for:",
                table::age(stuck.as_nanos() as u64)
            );
            self.say_table(&heading, &ranks);
        }
    }
}
