//! Work stealing in the manner of distributed Cilk (section 6.2), on remote procedures.
//!
//! Work is named by number and takes and gives bytes, so that any process can do it. Each process keeps what it has
//! spawned in a deque: it takes from the young end itself, and a process without work asks a victim chosen at random,
//! which gives away its oldest piece. One call asks, one answers, one brings the result back.
//!
//! A process that waits for a child that was stolen helps whom it waits for: it steals from that thief only, so that
//! what lies on its stack stays as deep as the computation and no deeper.
//!
//! **Processes that end.** A piece of work depends on its argument alone, and whoever spawned it keeps the argument
//! until the result is there: when a thief ends, its pieces are done again where they were spawned, and results of
//! work that nobody waits for any more are dropped. Each result is used exactly once. When the process that runs the root
//! ends, the others stop with an error. Work must therefore have no effects but its result.
//!
//! Victims answer in [`Jam::poll`], which every spawn and sync call now and then: work that computes for long
//! between them delays thieves.

use crate::{Jam, JamError};
use farpost_fabric::{Fabric, Moment, Peer, Port, Priority};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// The procedures that work stealing uses: applications have those below.
pub const FIRST_PROCEDURE: u32 = 0xff00;
const STEAL: u32 = FIRST_PROCEDURE;
const STOLEN: u32 = FIRST_PROCEDURE + 1;
const RESULT: u32 = FIRST_PROCEDURE + 2;
const FINISH: u32 = FIRST_PROCEDURE + 3;

/// Time after a poll in which spawns and syncs do without another one.
const POLL_AFTER: Duration = Duration::from_micros(30);
/// Fruitless polls between two checks for processes that have ended.
const CHECK_EVERY: u32 = 256;

/// What any process can run: argument in, result out.
pub type Work<F> = Rc<dyn Fn(&Cilk<F>, &[u8]) -> Result<Vec<u8>, CilkError>>;

/// Why a computation stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CilkError {
    /// The process that ran the root has ended.
    #[error("{0}, which ran the root of the computation, has ended")]
    RootEnded(Peer),
    /// The computation is over elsewhere: what this piece would give is not wanted any more.
    #[error("the computation is over")]
    Over,
    /// A number of work that nobody registered.
    #[error("work {0} is not registered")]
    NoSuchWork(u32),
    /// The error that the work returned.
    #[error("{0}")]
    Work(String),
    /// An error of JAM's.
    #[error(transparent)]
    Jam(#[from] JamError),
}

/// A piece of work that was spawned; [`Cilk::sync`] takes its result.
#[must_use]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Child(u64);

impl Child {
    /// Its number, for interfaces that return integers.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The child of that [`number`](Self::number).
    pub fn numbered(number: u64) -> Self {
        Self(number)
    }
}

/// Counters of work done and stolen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CilkCounters {
    /// Pieces spawned here.
    pub spawned: u64,
    /// Pieces of others done here.
    pub stolen: u64,
    /// Requests that found nothing.
    pub refused: u64,
    /// Pieces done again because their thief ended.
    pub again: u64,
    /// Results that nobody waited for any more.
    pub dropped: u64,
}

struct WorkItem {
    id: u64,
    work: u32,
    argument: Rc<[u8]>,
}

enum ChildState {
    /// In the deque.
    Ready,
    /// With another process.
    Stolen(Peer, u32, Rc<[u8]>),
    Done(Result<Vec<u8>, String>),
}

struct StolenPiece {
    id: u64,
    work: u32,
    argument: Vec<u8>,
}

#[derive(Default)]
struct CilkState {
    deque: RefCell<VecDeque<WorkItem>>,
    children: RefCell<BTreeMap<u64, ChildState>>,
    next: Cell<u64>,
    /// The request for work under way.
    asked: Cell<Option<(Peer, u32)>>,
    requests: Cell<u32>,
    /// Requests in a row that found nothing: the more, the longer until the next.
    refusals: Cell<u32>,
    not_before: Cell<Moment>,
    stolen_piece: RefCell<Option<StolenPiece>>,
    /// The computation this process takes part in, and the last that is over.
    round: Cell<u32>,
    over: Cell<u32>,
    counters: Cell<CilkCounters>,
}

impl CilkState {
    fn note(&self, change: impl FnOnce(&mut CilkCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    fn is_over(&self) -> bool {
        self.over.get() >= self.round.get()
    }
}

/// A process's part in computations.
pub struct Cilk<F: Fabric> {
    jam: Rc<Jam<F>>,
    work: RefCell<Vec<Option<Work<F>>>>,
    inner: Rc<CilkState>,
    polled: Cell<Moment>,
    fruitless: Cell<u32>,
}

fn words<const N: usize>(argument: &[u8]) -> Option<([u32; N], &[u8])> {
    let (head, rest) = argument.split_at_checked(4 * N)?;
    let word =
        |i: usize| u32::from_le_bytes([head[4 * i], head[4 * i + 1], head[4 * i + 2], head[4 * i + 3]]);
    Some((std::array::from_fn(word), rest))
}

fn message<const N: usize>(head: [u32; N], rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 * N + rest.len());
    for word in head {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(rest);
    bytes
}

fn halves(id: u64) -> [u32; 2] {
    [id as u32, (id >> 32) as u32]
}

fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl<F: Fabric> Cilk<F> {
    /// Work stealing on `jam`. Whom this process asks is the fabric's [`random`](farpost_fabric::Time::random) choice.
    ///
    /// # Errors
    /// JAM refuses the procedures.
    pub fn new(jam: Rc<Jam<F>>) -> Result<Self, JamError> {
        let inner = Rc::<CilkState>::default();
        let state = Rc::clone(&inner);
        jam.register(
            STEAL,
            Rc::new(move |jam, from, bytes| on_steal(&state, jam, from, bytes)),
        )?;
        let state = Rc::clone(&inner);
        jam.register(
            STOLEN,
            Rc::new(move |jam, from, bytes| on_loot(&state, jam, from, bytes)),
        )?;
        let state = Rc::clone(&inner);
        jam.register(
            RESULT,
            Rc::new(move |jam, from, bytes| on_result(&state, jam, from, bytes)),
        )?;
        let state = Rc::clone(&inner);
        jam.register(
            FINISH,
            Rc::new(move |jam, from, bytes| on_finish(&state, jam, from, bytes)),
        )?;
        Ok(Self {
            jam,
            work: RefCell::new(Vec::new()),
            inner,
            polled: Cell::default(),
            fruitless: Cell::new(0),
        })
    }

    /// Register a piece of work under a number, the same one in every process.
    pub fn register(&self, number: u16, work: Work<F>) {
        let all = &mut *self.work.borrow_mut();
        if all.len() <= usize::from(number) {
            all.resize(usize::from(number) + 1, None);
        }
        all[usize::from(number)] = Some(work);
    }

    /// What has been done so far.
    pub fn counters(&self) -> CilkCounters {
        self.inner.counters.get()
    }

    /// Whether there is a child of that number whose result was not taken.
    pub fn has(&self, child: u64) -> bool {
        self.inner.children.borrow().contains_key(&child)
    }

    /// Whether no computation is under way that this process takes part in.
    pub fn is_over(&self) -> bool {
        self.inner.is_over()
    }

    /// Offer a piece of work to whoever is idle. It may run here, later.
    pub fn spawn(&self, work: u16, argument: &[u8]) -> Child {
        let id = self.inner.next.get();
        self.inner.next.set(id + 1);
        self.inner.children.borrow_mut().insert(id, ChildState::Ready);
        self.inner.deque.borrow_mut().push_back(WorkItem {
            id,
            work: u32::from(work),
            argument: argument.into(),
        });
        self.inner.note(|counters| counters.spawned += 1);
        self.glance();
        Child(id)
    }

    /// Serve those who ask: at once when a message is here, which costs a load to see, and after a while in any case,
    /// since it takes polls for messages to come from other hosts.
    #[inline]
    fn glance(&self) {
        let fabric = self.jam.fabric();
        let now = fabric.now();
        if now - self.polled.get() >= POLL_AFTER
            || fabric.packets_waiting(Port::JamService, Priority::Low, 1) > 0
        {
            self.polled.set(now);
            self.jam.poll();
        }
    }

    /// The result of a child, done here if nobody has taken it.
    ///
    /// # Errors
    /// The work failed, or the computation ended early.
    pub fn sync(&self, child: Child) -> Result<Vec<u8>, CilkError> {
        loop {
            let piece = {
                let deque = &mut *self.inner.deque.borrow_mut();
                // Children are mostly waited for in the reverse order of their spawning.
                let at = deque.iter().rposition(|piece| piece.id == child.0);
                at.and_then(|at| deque.remove(at))
            };
            if let Some(piece) = piece {
                self.glance();
                self.inner.children.borrow_mut().remove(&child.0);
                return self.run_work(piece.work, &piece.argument);
            }
            let thief = match self.inner.children.borrow().get(&child.0) {
                Some(ChildState::Stolen(thief, ..)) => Some(*thief),
                _ => None,
            };
            let Some(thief) = thief else {
                return match self.inner.children.borrow_mut().remove(&child.0) {
                    Some(ChildState::Done(result)) => result.map_err(CilkError::Work),
                    _ => Err(CilkError::Over),
                };
            };
            self.help(thief)?;
        }
    }

    fn run_work(&self, work: u32, argument: &[u8]) -> Result<Vec<u8>, CilkError> {
        let found = self.work.borrow().get(work as usize).and_then(Option::clone);
        let run = found.ok_or(CilkError::NoSuchWork(work))?;
        run(self, argument)
    }

    /// Something useful while `thief` has what we wait for: what it has to give away.
    fn help(&self, thief: Peer) -> Result<(), CilkError> {
        if self.inner.is_over() {
            return Err(CilkError::Over);
        }
        self.ask(thief)?;
        if !self.do_loot()? {
            self.look_around(Some(thief))?;
        }
        Ok(())
    }

    /// Ask for work, unless an answer is still to come or nobody had any just now.
    fn ask(&self, victim: Peer) -> Result<(), CilkError> {
        let refusals = self.inner.refusals.get();
        if self.inner.asked.get().is_some()
            || (refusals > 0 && self.inner.not_before.get() > self.jam.fabric().now())
        {
            return Ok(());
        }
        let number = self.inner.requests.get().wrapping_add(1);
        self.inner.requests.set(number);
        self.inner.asked.set(Some((victim, number)));
        self.jam
            .rpc(victim, STEAL, &message([self.inner.round.get(), number], &[]))?;
        Ok(())
    }

    /// Do what a victim gave, if it gave something.
    fn do_loot(&self) -> Result<bool, CilkError> {
        self.jam.poll();
        let Some(stolen_piece) = self.inner.stolen_piece.borrow_mut().take() else {
            self.jam.rest(false);
            return Ok(false);
        };
        // There is loot only while the request is open.
        let Some((victim, _)) = self.inner.asked.take() else {
            return Ok(false);
        };
        self.jam.rest(true);
        self.inner.note(|counters| counters.stolen += 1);
        let (ok, bytes) = match self.run_work(stolen_piece.work, &stolen_piece.argument) {
            Ok(bytes) => (1, bytes),
            Err(CilkError::Over) => return Err(CilkError::Over),
            Err(error) => (0, error.to_string().into_bytes()),
        };
        let [low, high] = halves(stolen_piece.id);
        let head = [self.inner.round.get(), low, high, ok];
        self.jam.rpc(victim, RESULT, &message(head, &bytes))?;
        Ok(true)
    }

    /// Now and then: has anybody ended that matters?
    fn look_around(&self, waited_for: Option<Peer>) -> Result<(), CilkError> {
        self.fruitless.set(self.fruitless.get().wrapping_add(1));
        if !self.fruitless.get().is_multiple_of(CHECK_EVERY) {
            return Ok(());
        }
        let fabric = self.jam.fabric();
        if self.jam.me() != ROOT && fabric.is_gone(ROOT) {
            // Its last word may be that the computation is over.
            while self.jam.poll() > 0 {}
            return if self.inner.is_over() {
                Ok(())
            } else {
                Err(CilkError::RootEnded(ROOT))
            };
        }
        if let Some((victim, _)) = self.inner.asked.get()
            && fabric.is_gone(victim)
        {
            self.inner.asked.set(None);
        }
        if let Some(thief) = waited_for
            && fabric.is_gone(thief)
        {
            self.take_back(thief);
        }
        Ok(())
    }

    /// `thief` has ended: what it took is ready again.
    fn take_back(&self, thief: Peer) {
        let children = &mut *self.inner.children.borrow_mut();
        let deque = &mut *self.inner.deque.borrow_mut();
        for (&id, state) in children.iter_mut() {
            if let ChildState::Stolen(with, work, argument) = state
                && *with == thief
            {
                let (work, argument) = (*work, Rc::clone(argument));
                *state = ChildState::Ready;
                deque.push_front(WorkItem { id, work, argument });
                self.inner.note(|counters| counters.again += 1);
            }
        }
    }

    /// Take part in a computation, which all processes of the job call together: process 0 runs `work` on
    /// `argument` and returns its result; the others steal until it is done and return `None`.
    ///
    /// # Errors
    /// The work failed (at process 0), or process 0 has ended (elsewhere).
    pub fn run(&self, work: u16, argument: &[u8]) -> Result<Option<Vec<u8>>, CilkError> {
        let round = self.inner.round.get() + 1;
        self.inner.round.set(round);
        let outcome = if self.jam.me() == ROOT {
            let result = self.run_work(u32::from(work), argument);
            self.inner.over.set(round);
            for peer in (1..self.jam.size()).map(Peer) {
                self.jam.rpc(peer, FINISH, &message([round], &[]))?;
            }
            result.map(Some)
        } else {
            self.steal_until_over().map(|()| None)
        };
        while self.jam.has_waiting() {
            self.jam.poll();
        }
        self.inner.deque.borrow_mut().clear();
        self.inner.children.borrow_mut().clear();
        self.inner.asked.set(None);
        outcome
    }

    fn steal_until_over(&self) -> Result<(), CilkError> {
        let size = self.jam.size();
        while !self.inner.is_over() {
            let victim = (self.jam.fabric().random() % u64::from(size - 1)) as u32;
            self.ask(Peer(victim + u32::from(victim >= self.jam.me().0)))?;
            match self.do_loot() {
                Ok(true) => {}
                Ok(false) => self.look_around(None)?,
                Err(CilkError::Over) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Who runs the root.
const ROOT: Peer = Peer(0);

fn refuse<F: Fabric>(jam: &Jam<F>, from: Peer, what: &'static str, bytes: &[u8]) {
    jam.service().refuse(from, what, bytes.len() as u64);
}

fn on_steal<F: Fabric>(inner: &CilkState, jam: &Jam<F>, from: Peer, bytes: &[u8]) {
    let Some(([round, number], [])) = words::<2>(bytes) else {
        return refuse(jam, from, "a request for work", bytes);
    };
    // A piece goes only to those in the same computation.
    let same = round == inner.round.get() && !inner.is_over();
    let piece = if same {
        inner.deque.borrow_mut().pop_front()
    } else {
        None
    };
    let answer = match &piece {
        Some(piece) => {
            let [low, high] = halves(piece.id);
            message([round, number, 1, low, high, piece.work], &piece.argument)
        }
        None => message([round, number, 0], &[]),
    };
    if let Some(piece) = piece {
        let state = ChildState::Stolen(from, piece.work, piece.argument);
        inner.children.borrow_mut().insert(piece.id, state);
    }
    // The thief exists, and the number is one: nothing else is refused.
    let _ = jam.rpc(from, STOLEN, &answer);
}

fn on_loot<F: Fabric>(inner: &CilkState, jam: &Jam<F>, from: Peer, bytes: &[u8]) {
    let Some(([round, number, any], rest)) = words::<3>(bytes) else {
        return refuse(jam, from, "an answer to a request for work", bytes);
    };
    if inner.asked.get() != Some((from, number)) || round != inner.round.get() {
        return inner.note(|counters| counters.dropped += 1);
    }
    if any == 0 {
        inner.asked.set(None);
        let refusals = (inner.refusals.get() + 1).min(10);
        inner.refusals.set(refusals);
        inner
            .not_before
            .set(jam.fabric().now() + Duration::from_micros(1 << refusals));
        return inner.note(|counters| counters.refused += 1);
    }
    let Some(([low, high, work], argument)) = words::<3>(rest) else {
        return refuse(jam, from, "an answer to a request for work", bytes);
    };
    inner.refusals.set(0);
    *inner.stolen_piece.borrow_mut() = Some(StolenPiece {
        id: whole([low, high]),
        work,
        argument: argument.into(),
    });
}

fn on_result<F: Fabric>(inner: &CilkState, jam: &Jam<F>, from: Peer, bytes: &[u8]) {
    let Some(([round, low, high, ok], result)) = words::<4>(bytes) else {
        return refuse(jam, from, "a result", bytes);
    };
    let children = &mut *inner.children.borrow_mut();
    match children.get_mut(&whole([low, high])) {
        Some(state @ ChildState::Stolen(..)) if round == inner.round.get() => {
            if !matches!(state, ChildState::Stolen(thief, ..) if *thief == from) {
                return refuse(jam, from, "the result of another's work", bytes);
            }
            *state = ChildState::Done(match ok {
                1 => Ok(result.into()),
                _ => Err(String::from_utf8_lossy(result).into_owned()),
            });
        }
        _ => inner.note(|counters| counters.dropped += 1),
    }
}

fn on_finish<F: Fabric>(inner: &CilkState, jam: &Jam<F>, from: Peer, bytes: &[u8]) {
    match words::<1>(bytes) {
        Some(([round], [])) if from == ROOT => inner.over.set(inner.over.get().max(round)),
        _ => refuse(jam, from, "the end of a computation", bytes),
    }
}
