//! One agreement of some processes, as one of them sees it. Nothing here sends or waits.
//!
//! The first process that lives leads. Everybody tells it what it brings; it proposes an outcome, everybody accepts, and then it tells that
//! this is decided. When the leader ends, the next one does the same: everybody tells it what was proposed to them, and the proposal of the latest
//! leader stands. Whoever has an outcome got it after all that lived had accepted it, so every later leader proposes that one: also those
//! who end right after they have heard it have heard the same.
//!
//! It relies on two things: who is said to have ended has ended, and everybody learns at last of every end.

use std::collections::{BTreeMap, BTreeSet};

/// What a process brings, and what comes out.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Verdict {
    /// Of all that took part: bits that are set at all of them.
    pub flags: i32,
    /// Processes that have ended.
    pub failed: Vec<u32>,
    /// Those of which all knew by their own word (`MPIX_Comm_ack_failed`).
    pub acknowledged: Vec<u32>,
    /// For a communicator that is made of those who are left.
    pub context: u64,
}

/// What processes tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// To the leader: what I bring, and what an earlier leader proposed to me.
    State {
        mine: Verdict,
        proposal: Option<(u32, Verdict)>,
    },
    Proposed(Verdict),
    Accepted,
    Decided(Verdict),
}

#[derive(Default)]
pub(crate) struct Agreement {
    /// Ascending.
    members: Vec<u32>,
    me: u32,
    mine: Option<Verdict>,
    /// The leader that I have told.
    told: Option<u32>,
    proposal: Option<(u32, Verdict)>,
    states: BTreeMap<u32, (Verdict, Option<(u32, Verdict)>)>,
    leads: bool,
    accepted: BTreeSet<u32>,
    decided: Option<Verdict>,
}

impl Agreement {
    /// The program takes part. Others may have spoken before.
    pub fn begin(&mut self, me: u32, members: Vec<u32>, mine: Verdict) {
        (self.me, self.members, self.mine) = (me, members, Some(mine));
    }

    /// What came out.
    pub fn decided(&self) -> Option<&Verdict> {
        self.decided.as_ref()
    }

    /// What is to be told to whom, now that these are `dead`. A leader asks for the `context` of what it proposes.
    pub fn advance(
        &mut self,
        dead: impl Fn(u32) -> bool,
        context: impl FnOnce() -> u64,
    ) -> Vec<(u32, Message)> {
        let Some(mine) = &self.mine else { return Vec::new() };
        let me = self.me;
        let alive = self
            .members
            .iter()
            .copied()
            .filter(|pid| *pid == me || !dead(*pid));
        let alive: Vec<u32> = alive.collect();
        let others = || alive.iter().copied().filter(|pid| *pid != me);
        let leader = alive.first().copied().unwrap_or(me);
        if leader != me {
            if self.told.replace(leader) == Some(leader) {
                return Vec::new();
            }
            let message = match &self.decided {
                Some(verdict) => Message::Decided(verdict.clone()),
                None => Message::State {
                    mine: mine.clone(),
                    proposal: self.proposal.clone(),
                },
            };
            return vec![(leader, message)];
        }
        let mut out = Vec::new();
        if let Some(verdict) = &self.decided {
            // Some may have told me what they bring, and others not yet.
            if !std::mem::replace(&mut self.leads, true) {
                out.extend(others().map(|pid| (pid, Message::Decided(verdict.clone()))));
            }
            return out;
        }
        if !self.leads {
            if others().any(|pid| !self.states.contains_key(&pid)) {
                return out;
            }
            let earlier = self.states.values().filter_map(|(_, proposal)| proposal.as_ref());
            let latest = earlier
                .chain(self.proposal.as_ref())
                .max_by_key(|(leader, _)| *leader);
            let verdict = match latest {
                Some((_, verdict)) => verdict.clone(),
                None => self.sum(mine, &dead, context()),
            };
            out.extend(others().map(|pid| (pid, Message::Proposed(verdict.clone()))));
            self.proposal = Some((me, verdict));
            self.leads = true;
        }
        if others().all(|pid| self.accepted.contains(&pid))
            && let Some((_, verdict)) = &self.proposal
        {
            out.extend(others().map(|pid| (pid, Message::Decided(verdict.clone()))));
            self.decided = Some(verdict.clone());
        }
        out
    }

    fn sum(&self, mine: &Verdict, dead: impl Fn(u32) -> bool, context: u64) -> Verdict {
        let mut failed: BTreeSet<u32> = self
            .members
            .iter()
            .copied()
            .filter(|pid| *pid != self.me && dead(*pid))
            .collect();
        let mut all = Verdict {
            context,
            ..mine.clone()
        };
        failed.extend(&mine.failed);
        for (theirs, _) in self.states.values() {
            all.flags &= theirs.flags;
            failed.extend(&theirs.failed);
            all.acknowledged.retain(|pid| theirs.acknowledged.contains(pid));
        }
        all.failed = failed.into_iter().collect();
        all
    }

    /// A process has told something; what is answered.
    pub fn hear(&mut self, from: u32, message: Message) -> Option<Message> {
        match message {
            Message::State { mine, proposal } => match &self.decided {
                Some(verdict) => return Some(Message::Decided(verdict.clone())),
                None => _ = self.states.insert(from, (mine, proposal)),
            },
            // A leader that I have given up has ended, and what it said last does not count.
            Message::Proposed(verdict) if self.told == Some(from) && self.decided.is_none() => {
                self.proposal = Some((from, verdict));
                return Some(Message::Accepted);
            }
            Message::Proposed(_) => {}
            Message::Accepted => _ = self.accepted.insert(from),
            Message::Decided(verdict) => _ = self.decided.get_or_insert(verdict),
        }
        None
    }
}
