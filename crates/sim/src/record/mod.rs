//! What happens on a machine, written down while it happens: which message is whose, which packet was served where and when, what each rank waited for, and what each
//! event was caused by. [`crate::trace`] makes traces, paths and pictures of it.
//!
//! A [`Recorder`] is a handle that the machine's parts hold. Switched off, as it is at first, it is `None`: each hook costs a branch, and nothing is allocated. Switched on
//! it keeps at most so many entries; what comes later is left out, and [`Recording::cut`] says from when on.
//!
//! Causes: every event of the queue remembers during which other one it was made, or by which rank at which time. So a chain of causes leads from whatever ended a wait back to the
//! operation of a rank, through any adapter, without the adapter's help.

mod data;

pub use data::{Call, Cause, Happening, Interrupted, Label, Mark, MessageKind, Sent, Serve, Travel, Wait};

use crate::time::Ps;
use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Entries kept where nothing else is said: about 200 MB.
pub const ENTRIES: usize = 5_000_000;

/// What is being done now, and so the cause of what is made.
#[derive(Clone, Copy, Debug)]
enum Current {
    Nothing,
    /// An event, or what a rank does and has been written down.
    Known(Cause),
    /// A rank acts at this time, and has caused nothing yet.
    Acts(u32, Ps),
}

/// What was written down.
pub struct Recording {
    limit: usize,
    left: usize,
    cut: Option<Ps>,
    current: Current,
    pub(crate) happenings: Vec<Happening>,
    /// In the order in which they began.
    pub(crate) serves: Vec<Serve>,
    pub(crate) travels: Vec<Travel>,
    pub(crate) sent: Vec<Sent>,
    /// By rank, in the order of their times.
    pub(crate) waits: Vec<Vec<Wait>>,
    pub(crate) interrupts: Vec<Vec<Interrupted>>,
    /// By rank, in the order of their ends.
    pub(crate) calls: Vec<Vec<Call>>,
    /// Calls under way, outermost first.
    open: Vec<Vec<Call>>,
    /// By rank: times in which it was said to compute.
    pub(crate) computed: Vec<Vec<(Ps, Ps)>>,
    /// When ranks ended.
    pub(crate) ended: Vec<Option<Ps>>,
    names: Vec<Rc<str>>,
    by_name: BTreeMap<Rc<str>, u16>,
}

impl Recording {
    fn new(ranks: u32, limit: usize) -> Self {
        fn each<T>(ranks: u32) -> Vec<Vec<T>> {
            (0..ranks).map(|_| Vec::new()).collect()
        }
        Self {
            limit,
            left: limit,
            cut: None,
            current: Current::Nothing,
            happenings: Vec::new(),
            serves: Vec::new(),
            travels: Vec::new(),
            sent: Vec::new(),
            waits: each(ranks),
            interrupts: each(ranks),
            calls: each(ranks),
            open: each(ranks),
            computed: each(ranks),
            ended: vec![None; ranks as usize],
            names: Vec::new(),
            by_name: BTreeMap::new(),
        }
    }

    /// From when on entries were left out, as there were more than the limit.
    pub fn cut(&self) -> Option<Ps> {
        self.cut
    }

    /// Entries that are kept at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn name(&self, name: u16) -> &str {
        &self.names[usize::from(name)]
    }

    /// Calls that have ended, and those that had not when the run was over.
    pub(crate) fn calls_of(&self, rank: u32, end: Ps) -> Vec<Call> {
        let open = self.open[rank as usize].iter();
        let open = open.map(|call| Call { end, ..*call });
        self.calls[rank as usize].iter().copied().chain(open).collect()
    }

    /// Whether there is room for an entry of this time, which is then used.
    fn room(&mut self, now: Ps) -> bool {
        if self.cut.is_some() {
            return false;
        }
        if self.left == 0 {
            self.cut = Some(now);
            return false;
        }
        self.left -= 1;
        true
    }

    fn number_of(&mut self, name: &str) -> u16 {
        if let Some(number) = self.by_name.get(name) {
            return *number;
        }
        let Ok(number) = u16::try_from(self.names.len()) else {
            return u16::MAX;
        };
        let name: Rc<str> = name.into();
        self.names.push(Rc::clone(&name));
        self.by_name.insert(name, number);
        number
    }

    fn happening(&mut self, time: Ps, cause: Cause, label: Label) -> Cause {
        let Ok(number) = u32::try_from(self.happenings.len()) else {
            return Cause::NONE;
        };
        if !self.room(time) {
            return Cause::NONE;
        }
        self.happenings.push(Happening { time, cause, label });
        Cause(number)
    }

    fn cause(&mut self) -> Cause {
        match self.current {
            Current::Nothing => Cause::NONE,
            Current::Known(cause) => cause,
            Current::Acts(rank, time) => {
                let cause = self.happening(time, Cause::NONE, Label::Rank(rank));
                self.current = Current::Known(cause);
                cause
            }
        }
    }
}

/// Writes down what happens, if it is switched on. All parts of a machine share one recording.
#[derive(Clone, Default)]
pub struct Recorder(Option<Rc<RefCell<Recording>>>);

impl Recorder {
    /// Switched on, for a machine of so many ranks; at most `limit` entries are kept.
    pub fn new(ranks: u32, limit: usize) -> Self {
        Self(Some(Rc::new(RefCell::new(Recording::new(ranks, limit)))))
    }

    /// Whether it is switched on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// What was written down so far.
    pub fn recording(&self) -> Option<Ref<'_, Recording>> {
        self.0.as_ref().map(|it| it.borrow())
    }

    #[inline]
    fn note<T>(&self, off: T, write: impl FnOnce(&mut Recording) -> T) -> T {
        match &self.0 {
            None => off,
            Some(it) => write(&mut it.borrow_mut()),
        }
    }

    // Events and their causes.

    /// The cause of what is made now.
    #[inline]
    pub fn cause(&self) -> Cause {
        self.note(Cause::NONE, Recording::cause)
    }

    /// From now on a rank acts, at this time of its.
    #[inline]
    pub fn acts(&self, rank: u32, time: Ps) {
        self.note((), |it| it.current = Current::Acts(rank, time));
    }

    /// An event happens, made by `cause`.
    pub fn happens(&self, time: Ps, cause: Cause, label: Label) {
        self.note((), |it| {
            let happening = it.happening(time, cause, label);
            it.current = Current::Known(happening);
            if let (Label::Head { travel, .. }, true) = (label, happening != Cause::NONE) {
                it.travels[travel as usize].head = happening;
            }
        });
    }

    /// An adapter's event happens: `what` is its kind. `local`: between processes of the host.
    pub fn adapter_happens(&self, time: Ps, cause: Cause, host: u32, what: &str, local: bool) {
        let number = self.note(0, |it| it.number_of(what));
        let what = number;
        self.happens(time, cause, Label::Adapter { host, what, local });
    }

    // Messages and packets.

    /// A message begins at a rank.
    #[inline]
    pub fn message(&self, kind: MessageKind, (from, to): (u32, u32), bytes: u64, now: Ps) -> Mark {
        self.note(Mark::NONE, |it| {
            if !it.room(now) {
                return Mark::NONE;
            }
            it.sent.push(Sent {
                kind,
                from,
                to,
                bytes,
                begun: now,
                arrived: None,
            });
            Mark::new(it.sent.len() - 1)
        })
    }

    /// It takes effect at its receiver.
    #[inline]
    pub fn arrives(&self, mark: Mark, now: Ps) {
        self.note((), |it| {
            if let Some(number) = mark.number() {
                it.sent[number].arrived = Some(now);
            }
        });
    }

    /// A packet of a message begins its way between hosts.
    #[inline]
    pub fn travels(&self, mark: Mark, (from, to): (u32, u32), bytes: u32, now: Ps) -> u32 {
        self.note(Travel::NONE, |it| {
            if !it.room(now) {
                return Travel::NONE;
            }
            it.travels.push(Travel {
                mark,
                from,
                to,
                bytes,
                head: Cause::NONE,
                serve: Serve::NONE,
            });
            (it.travels.len() - 1) as u32
        })
    }

    /// A resource begins to serve a packet, which came at `came`, until `served`.
    #[inline]
    pub fn serves(&self, travel: u32, resource: u32, came: Ps, (begun, served): (Ps, Ps)) {
        self.note((), |it| {
            if travel == Travel::NONE || !it.room(begun) {
                return;
            }
            let number = it.serves.len() as u32;
            let travelling = &mut it.travels[travel as usize];
            let (head, before) = (travelling.head, std::mem::replace(&mut travelling.serve, number));
            it.serves.push(Serve {
                travel,
                resource,
                head,
                before,
                came,
                begun,
                served,
            });
        });
    }

    /// By which service a packet came to where it is.
    pub fn last_serve(&self, travel: u32) -> u32 {
        self.note(Serve::NONE, |it| {
            it.travels.get(travel as usize).map_or(Serve::NONE, |it| it.serve)
        })
    }

    // Ranks.

    /// A rank that slept from `from` runs again from `until` on; what it waited for happens now, at `touched`.
    #[inline]
    pub fn woken(&self, rank: u32, (from, until): (Ps, Ps), touched: Ps) {
        self.note((), |it| {
            let cause = it.cause();
            it.wait(rank, from, until, touched, cause);
        });
    }

    /// A rank that slept from `from` wakes at its deadline, `until`.
    #[inline]
    pub fn slept(&self, rank: u32, (from, until): (Ps, Ps)) {
        self.note((), |it| it.wait(rank, from, until, until, Cause::NONE));
    }

    /// An interrupt has the processor of a rank.
    #[inline]
    pub fn interrupted(&self, rank: u32, from: Ps, until: Ps) {
        self.note((), |it| {
            if it.room(from) {
                it.interrupts[rank as usize].push(Interrupted { from, until });
            }
        });
    }

    /// A rank has ended.
    #[inline]
    pub fn ends(&self, rank: u32, now: Ps) {
        self.note((), |it| it.ended[rank as usize] = Some(now));
    }

    /// A rank computes.
    #[inline]
    pub fn computes(&self, rank: u32, from: Ps, until: Ps) {
        self.note((), |it| {
            if from == until {
                return;
            }
            if let Some(last) = it.computed[rank as usize].last_mut()
                && last.1 == from
            {
                last.1 = until;
            } else if it.room(from) {
                it.computed[rank as usize].push((from, until));
            }
        });
    }

    /// A rank begins a call, within those that it is in.
    pub fn call_begins(&self, rank: u32, name: &str, now: Ps) {
        self.note((), |it| {
            let (name, depth) = (it.number_of(name), it.open[rank as usize].len() as u16);
            it.open[rank as usize].push(Call {
                name,
                depth,
                begun: now,
                end: now,
            });
        });
    }

    /// The last call that it began ends.
    pub fn call_ends(&self, rank: u32, now: Ps) {
        self.note((), |it| {
            let Some(call) = it.open[rank as usize].pop() else {
                return;
            };
            if it.room(now) {
                it.calls[rank as usize].push(Call { end: now, ..call });
            }
        });
    }
}

impl Recording {
    fn wait(&mut self, rank: u32, from: Ps, until: Ps, touched: Ps, cause: Cause) {
        if until > from && self.room(until) {
            self.waits[rank as usize].push(Wait {
                from,
                until,
                touched,
                cause,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_that_is_off_keeps_nothing() {
        let recorder = Recorder::default();
        assert_eq!(recorder.message(MessageKind::Put, (0, 1), 8, Ps(1)), Mark::NONE);
        assert_eq!(recorder.travels(Mark::NONE, (0, 1), 8, Ps(1)), Travel::NONE);
        assert!(recorder.recording().is_none() && !recorder.is_on());
    }

    #[test]
    fn beyond_its_limit_it_says_from_when_on_it_was_cut() {
        let recorder = Recorder::new(1, 3);
        for time in 1..=5 {
            recorder.message(MessageKind::Put, (0, 0), 8, Ps(time));
        }
        let recording = recorder.recording().expect("on");
        assert_eq!((recording.sent.len(), recording.cut()), (3, Some(Ps(4))));
    }

    #[test]
    fn what_a_rank_does_is_written_down_when_it_causes_something() {
        let recorder = Recorder::new(2, 100);
        recorder.acts(0, Ps(5));
        recorder.acts(1, Ps(7));
        let (first, second) = (recorder.cause(), recorder.cause());
        assert_eq!(first, second);
        recorder.happens(Ps(9), first, Label::Served { resource: 3 });
        recorder.woken(0, (Ps(5), Ps(10)), Ps(9));
        let recording = recorder.recording().expect("on");
        let labels: Vec<Label> = recording.happenings.iter().map(|it| it.label).collect();
        assert_eq!(labels, [Label::Rank(1), Label::Served { resource: 3 }]);
        assert_eq!(recording.waits[0][0].cause, Cause(1));
    }
}
