//! The critical path: from the end of the last rank back through its waits to what ended them.
//!
//! A rank's time is followed back to its last wait. That was ended by something that happened, whose chain of causes is followed back to what a rank did; the
//! time between two of them is the adapter's, or a link's. A packet's time at a link is its wait before the link, in which others were served or there was no room ahead, and then its own. From
//! the rank that caused it, it goes on in the same way to the start. The pieces have no gaps, so their sum is the run's time exactly.

use crate::core::Core;
use crate::net::ResourceId;
use crate::record::{Cause, Happening, Label, Mark, Recording, Serve};
use crate::time::Ps;
use std::collections::{BTreeMap, BTreeSet};

/// Where time goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A rank's program itself.
    Compute(u32),
    /// In a call of a rank, by the number of its name.
    Call(u32, u16),
    /// A rank, whose calls are not known.
    Run(u32),
    /// An interrupt had its processor.
    Interrupt(u32),
    /// From what a rank waits for to its next look.
    Look(u32),
    /// A rank until a time.
    Sleep(u32),
    /// An adapter's work of a kind, by the number of its name.
    Adapter(u32, u16),
    /// Memory between processes of a host.
    Memory(u32),
    /// A packet passes a link.
    Link(u32),
    /// It waits for the link while others pass.
    Queue(u32),
    /// It waits for room ahead.
    Room(u32),
    /// Nothing is recorded of it.
    Unknown,
}

/// A part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub place: Place,
    pub from: Ps,
    pub until: Ps,
}

/// The critical path of a run.
pub struct CriticalPath {
    /// Whose end it is.
    pub rank: u32,
    pub end: Ps,
    /// From the end to the start, without gaps.
    pub pieces: Vec<Piece>,
    /// From rank to rank, how often.
    pub steps: usize,
    /// Ranks on it.
    pub ranks: BTreeSet<u32>,
    /// Messages of which rank, or packets of which host where those are not known, were served while the path waited for a link.
    pub ahead: BTreeMap<u32, BTreeMap<Ahead, BTreeSet<u32>>>,
}

/// Whose packets others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ahead {
    Messages(u32),
    Packets(u32),
}

impl CriticalPath {
    pub fn of(core: &Core, recording: &Recording) -> Self {
        let schedule = &core.kernel.procs.schedule;
        let ends = (0..core.kernel.procs.size()).map(|rank| {
            let end = recording.ended[rank as usize];
            (end.unwrap_or_else(|| schedule.clock(rank)), rank)
        });
        // Of equal ones the first.
        let last = ends.max_by_key(|(end, rank)| (*end, std::cmp::Reverse(*rank)));
        let (end, rank) = last.unwrap_or_default();
        let mut walk = Walk {
            core,
            recording,
            by_resource: by_resource(core, recording),
            runs: BTreeMap::new(),
            time: end,
            path: Self {
                rank,
                end,
                pieces: Vec::new(),
                steps: 0,
                ranks: BTreeSet::new(),
                ahead: BTreeMap::new(),
            },
        };
        walk.follow(rank);
        walk.path
    }
}

/// Services of each resource, in order.
fn by_resource(core: &Core, recording: &Recording) -> Vec<Vec<u32>> {
    let mut by_resource = vec![Vec::new(); core.kernel.net.resources().count()];
    for (number, serve) in (0..).zip(&recording.serves) {
        by_resource[serve.resource as usize].push(number);
    }
    by_resource
}

struct Walk<'a> {
    core: &'a Core,
    recording: &'a Recording,
    by_resource: Vec<Vec<u32>>,
    /// What ranks that were met do when they do not wait, each from a time on.
    runs: BTreeMap<u32, Vec<(Ps, Place)>>,
    /// All after it is told.
    time: Ps,
    path: CriticalPath,
}

impl Walk<'_> {
    /// From `from` to what is told already it was there.
    fn add(&mut self, place: Place, from: Ps) {
        if from < self.time {
            let until = std::mem::replace(&mut self.time, from);
            match self.path.pieces.last_mut() {
                Some(last) if last.place == place => last.from = from,
                _ => self.path.pieces.push(Piece { place, from, until }),
            }
        }
    }

    fn follow(&mut self, rank: u32) {
        let mut rank = rank;
        if let Some(cut) = self.recording.cut() {
            // Whoever acted last of what is known.
            self.add(Place::Unknown, cut);
            let acted = self.recording.happenings.iter().rev();
            let acted = acted.filter_map(|it| match it.label {
                Label::Rank(rank) => Some(rank),
                _ => None,
            });
            rank = acted.take(1).next().unwrap_or(rank);
        }
        self.path.ranks.insert(rank);
        while self.time > Ps::ZERO {
            let waits = &self.recording.waits[rank as usize];
            let before = waits.partition_point(|wait| wait.until <= self.time);
            let Some(wait) = before.checked_sub(1).map(|last| waits[last]) else {
                self.run(rank, Ps::ZERO);
                break;
            };
            self.run(rank, wait.until);
            if wait.cause == Cause::NONE {
                self.add(Place::Sleep(rank), wait.from);
                continue;
            }
            self.add(Place::Look(rank), wait.touched);
            match self.rank_behind(wait.cause) {
                Some(other) => rank = other,
                None => {
                    self.add(Place::Unknown, Ps::ZERO);
                    break;
                }
            }
            self.path.steps += 1;
            self.path.ranks.insert(rank);
        }
    }

    /// From something that happened back to the rank that caused it.
    fn rank_behind(&mut self, cause: Cause) -> Option<u32> {
        let mut cause = cause;
        loop {
            let it: &Happening = self.recording.happenings.get(cause.0 as usize)?;
            let made_at = |cause: Cause| {
                let maker = self.recording.happenings.get(cause.0 as usize);
                maker.map_or(Ps::ZERO, |maker| maker.time)
            };
            cause = match it.label {
                Label::Rank(rank) => return Some(rank),
                Label::Head { before, .. } | Label::Tail { before, .. }
                    if (before as usize) < self.recording.serves.len() =>
                {
                    self.pass(&self.recording.serves[before as usize])
                }
                // On its way from the adapter to the first resource.
                Label::Head { travel, .. } | Label::Tail { travel, .. } => {
                    let host = self.recording.travels.get(travel as usize)?.from;
                    self.add(Place::Adapter(host, u16::MAX), made_at(it.cause));
                    it.cause
                }
                Label::Served { resource } => {
                    self.add(Place::Link(resource), made_at(it.cause));
                    it.cause
                }
                Label::Adapter {
                    host, local: true, ..
                } => {
                    self.add(Place::Memory(host), made_at(it.cause));
                    it.cause
                }
                Label::Adapter { host, what, .. } => {
                    self.add(Place::Adapter(host, what), made_at(it.cause));
                    it.cause
                }
            };
        }
    }

    /// Over a resource, and before it.
    fn pass(&mut self, serve: &Serve) -> Cause {
        let resource = serve.resource;
        // Bytes that came slower than it serves are those of the slowest link before it.
        let bytes = self.recording.travels[serve.travel as usize].bytes;
        let service = |resource: u32| {
            self.core
                .kernel
                .net
                .resource(ResourceId(resource))
                .spec
                .service(bytes)
        };
        let came_late = (serve.served - serve.begun) - service(resource);
        if came_late > Ps::ZERO {
            let before = |serve: &Serve| self.recording.serves.get(serve.before as usize).copied();
            let way = std::iter::successors(before(serve), before);
            let slowest = way.map(|it| it.resource).max_by_key(|it| service(*it));
            self.add(Place::Link(resource), serve.begun + came_late);
            self.add(Place::Link(slowest.unwrap_or(resource)), serve.begun);
        }
        self.add(Place::Link(resource), serve.begun);
        let recording = self.recording;
        let all = std::mem::take(&mut self.by_resource[resource as usize]);
        let serve_of = |number: &u32| &recording.serves[*number as usize];
        let later = all.partition_point(|number| serve_of(number).begun < serve.begun);
        let mark = recording.travels[serve.travel as usize].mark;
        // Others were served from the latest back to when this one came.
        for other in all[..later].iter().rev().map(serve_of) {
            if other.served <= serve.came || self.time <= serve.came {
                break;
            }
            self.add(Place::Room(resource), other.served);
            let travel = &recording.travels[other.travel as usize];
            let since = other.begun.max(serve.came);
            if travel.mark == mark && mark != Mark::NONE {
                // The message itself passes.
                self.add(Place::Link(resource), since);
                continue;
            }
            self.add(Place::Queue(resource), since);
            let (whose, which) = match travel.mark.number() {
                Some(number) => (Ahead::Messages(recording.sent[number].from), number as u32),
                None => (Ahead::Packets(travel.from), other.travel),
            };
            let ahead = self.path.ahead.entry(resource).or_default();
            ahead.entry(whose).or_default().insert(which);
        }
        self.by_resource[resource as usize] = all;
        self.add(Place::Room(resource), serve.came);
        serve.head
    }

    /// What a rank did without waiting, back to `from`.
    fn run(&mut self, rank: u32, from: Ps) {
        let runs = self
            .runs
            .remove(&rank)
            .unwrap_or_else(|| runs(self.recording, rank));
        while self.time > from {
            let before = runs.partition_point(|(since, _)| *since < self.time);
            let (since, place) = runs[before - 1];
            self.add(place, since.max(from));
        }
        self.runs.insert(rank, runs);
    }
}

/// What a rank does when it does not wait, each from a time on, the first from the start on.
fn runs(recording: &Recording, rank: u32) -> Vec<(Ps, Place)> {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Within {
        Interrupt,
        Computes,
        Call(u16, u16),
    }
    let at = rank as usize;
    let calls = recording.calls_of(rank, Ps::NEVER);
    let outside = if calls.is_empty() {
        Place::Run(rank)
    } else {
        Place::Compute(rank)
    };
    let calls = calls
        .iter()
        .map(|it| (Within::Call(it.depth, it.name), it.begun, it.end));
    let interrupts = &recording.interrupts[at];
    let interrupts = interrupts.iter().map(|it| (Within::Interrupt, it.from, it.until));
    let computed = &recording.computed[at];
    let computed = computed
        .iter()
        .map(|(from, until)| (Within::Computes, *from, *until));
    let mut changes = Vec::new();
    for (within, from, until) in calls.chain(interrupts).chain(computed) {
        if from < until {
            changes.push((from, true, within));
            changes.push((until, false, within));
        }
    }
    // Ends before beginnings.
    changes.sort_unstable();
    let mut runs = vec![(Ps::ZERO, outside)];
    let mut open: Vec<Within> = Vec::new();
    for (time, begins, within) in changes {
        if begins {
            open.push(within);
        } else if let Some(place) = open.iter().rposition(|it| *it == within) {
            open.remove(place);
        }
        let innermost = open.iter().filter_map(|it| match it {
            Within::Call(depth, name) => Some((*depth, *name)),
            _ => None,
        });
        let place = if open.contains(&Within::Interrupt) {
            Place::Interrupt(rank)
        } else if open.contains(&Within::Computes) {
            Place::Compute(rank)
        } else {
            innermost
                .max()
                .map_or(outside, |(_, name)| Place::Call(rank, name))
        };
        match runs.last_mut() {
            Some(last) if last.0 == time => last.1 = place,
            _ => runs.push((time, place)),
        }
    }
    runs
}
