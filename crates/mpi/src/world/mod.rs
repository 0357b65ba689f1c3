//! A world: everything one process knows of a job, as a value. No globals, so that a test can hold many.
//!
//! All methods take `&self`. No borrow is held across a user's callback, so callbacks may call back.
//!
//! Requirements of MPI-5.0 sections 3.5, 3.7.4.

mod blame;
pub mod buffered;
mod coll;
mod comm;
mod failures;
mod integers;
mod lifetime;
mod p2p;
mod partitioned;
mod requests;
mod roll;
mod service;
mod sessions;
mod tools;

pub use coll::{CollectiveRequest, board, by_host};
pub use requests::{Extra, Generalized, PersistentSpec, Special, Watch};
pub use roll::Awaited;
pub use service::Service;

use crate::carrier::{Chosen, DeviceConfig, Engine};
use crate::coll::{Pool, Tuning};
use crate::comm::{Attached, Comm};
use crate::engine::envelope::FAILURES_COUNT;
use crate::engine::{Carrier, EngineTunables};
use crate::handle::{HandleKind, HandleTable};
use crate::partitioned::Operations;
use crate::session::Session;
use crate::{Result, p2p::Matched};
use farpost_channel::ChannelTunables;
use farpost_fabric::Fabric;
use farpost_fabric::wait::{Backoff, Idle, Pause, Relax, WaitPolicy, WaitTunables};
use farpost_rollcall::teller::Polls;
use farpost_rollcall::{Noted, Teller};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Handle of `MPI_COMM_WORLD`.
pub const COMM_WORLD: usize = 0x101;
/// Handle of `MPI_COMM_SELF`.
pub const COMM_SELF: usize = 0x102;

/// What is no handle.
const HIDDEN: usize = usize::MAX;

/// Longest sleep of a process that others will ring.
const LONG_SLEEP: Duration = Duration::from_millis(100);
/// Longest sleep of a process that waits for room in a queue, which nobody rings for.
const SHORT_SLEEP: Duration = Duration::from_millis(1);
/// Longest sleep in a call that only looks.
const TEST_SLEEP: Duration = Duration::from_micros(50);

/// What a world is made with.
#[derive(Clone, Debug, Default)]
pub struct WorldConfig {
    pub rsm: ChannelTunables,
    pub engine: EngineTunables,
    pub wait: WaitTunables,
    pub tuning: Tuning,
    pub device: DeviceConfig,
}

/// Everything one process knows of a job.
pub struct World<F: Fabric> {
    pub(crate) fabric: Rc<F>,
    pub(crate) engine: RefCell<Engine<F>>,
    pub(crate) policy: WaitPolicy,
    pub tuning: Tuning,
    pub(crate) pool: Pool,
    comms: RefCell<HandleTable<Rc<Comm>>>,
    comm_world: Rc<Comm>,
    comm_self: Rc<Comm>,
    /// What the program knows the two as: their handles, or none while it has not initialised the world model.
    predefined: [Cell<usize>; 2],
    pub(crate) sessions: RefCell<HandleTable<Rc<Session>>>,
    pub(crate) messages: RefCell<HandleTable<Matched>>,
    /// What requests are that the engine does not run by itself.
    pub(crate) extras: RefCell<BTreeMap<usize, Extra<F>>>,
    watch: OnceCell<Box<dyn Watch>>,
    /// Nonblocking collectives under way.
    pub(crate) active: RefCell<Vec<Rc<CollectiveRequest<F>>>>,
    partitioned: RefCell<Operations>,
    /// Some of them are started and not complete.
    parts_under_way: Cell<bool>,
    /// Made when something of it is used.
    failures: OnceCell<Rc<failures::Failures>>,
    /// What else takes part in progress.
    services: RefCell<Vec<Rc<dyn Service<F>>>>,
    pub(crate) buffer: RefCell<Option<Attached>>,
    next_context: Cell<u64>,
    /// Freed communicators whose contexts are still in use.
    closing: RefCell<Vec<Rc<Comm>>>,
    boards: board::Boards<F>,
    /// What is waited for comes without anybody ringing.
    unrung: Cell<bool>,
    /// Called while a wait makes no headway, with what would be done next; true: it has let time pass.
    relax: Cell<Option<Relax>>,
    let_in: Cell<Option<Relax>>,
    /// Tests and probes in a row that found nothing.
    idle: Idle,
    rings: Cell<u64>,
    /// Tells others of waits that last.
    teller: Cell<Option<&'static Teller>>,
    /// The same tests and probes, for the teller.
    polls: Polls,
    /// Processes of other hosts that were waited for.
    sought: RefCell<BTreeSet<u32>>,
}

impl<F: Fabric> World<F> {
    /// A world on `fabric`, with MPI_COMM_WORLD and MPI_COMM_SELF.
    pub fn new(fabric: F, config: WorldConfig) -> Self {
        Self::on(Rc::new(fabric), config)
    }

    /// A world on a fabric that others use as well.
    pub fn on(fabric: Rc<F>, config: WorldConfig) -> Self {
        let policy = WaitPolicy::of(&config.wait, &*fabric);
        let device = (&config.device, &config.wait);
        let mut engine = crate::carrier::engine(Rc::clone(&fabric), &config.rsm, config.engine, device);
        let (me, size) = (fabric.me().0, fabric.size());
        let everyone = crate::group::Group::all(size);
        let alone = crate::group::Group::from_pids(&[me]);
        let comm_world = lifetime::make_comm(
            &mut engine,
            0,
            everyone,
            None,
            me as i32,
            COMM_WORLD,
            b"MPI_COMM_WORLD",
        );
        // Context numbers are made of who leads the group and how many it has led; number 1 of everybody is
        // its own MPI_COMM_SELF.
        let own = lifetime::context_number(me, 1);
        let comm_self = lifetime::make_comm(&mut engine, own, alone, None, 0, COMM_SELF, b"MPI_COMM_SELF");
        Self {
            fabric,
            engine: RefCell::new(engine),
            policy,
            pool: Pool::new(config.tuning.pool as usize),
            tuning: config.tuning,
            comms: RefCell::new(HandleTable::new(HandleKind::Comm)),
            comm_world: Rc::new(comm_world),
            comm_self: Rc::new(comm_self),
            predefined: [Cell::new(COMM_WORLD), Cell::new(COMM_SELF)],
            sessions: RefCell::new(HandleTable::new(HandleKind::Session)),
            messages: RefCell::new(HandleTable::new(HandleKind::Message)),
            extras: RefCell::default(),
            watch: OnceCell::new(),
            active: RefCell::default(),
            partitioned: RefCell::default(),
            parts_under_way: Cell::new(false),
            failures: OnceCell::new(),
            services: RefCell::default(),
            buffer: RefCell::new(None),
            // Those before are taken.
            next_context: Cell::new(FAILURES_COUNT + 1),
            closing: RefCell::default(),
            boards: board::Boards::default(),
            unrung: Cell::new(false),
            relax: Cell::new(None),
            let_in: Cell::new(None),
            idle: Idle::default(),
            rings: Cell::new(0),
            teller: Cell::new(None),
            polls: Polls::default(),
            sought: RefCell::default(),
        }
    }

    /// The fabric below.
    pub fn fabric(&self) -> &F {
        &self.fabric
    }

    /// The largest tag (`MPI_TAG_UB`).
    pub fn tag_ub(&self) -> i32 {
        self.engine.borrow().limits.tag_ub
    }

    /// My number in the job.
    pub fn pid(&self) -> u32 {
        self.fabric.me().0
    }

    /// Processes in the job.
    pub fn size(&self) -> u32 {
        self.fabric.size()
    }

    /// Let `relax` decide what happens while a wait makes no headway: a program with several threads
    /// lets another one in.
    pub fn set_relax(&self, relax: Option<Relax>) {
        self.relax.set(relax);
    }

    /// As [`set_relax`](Self::set_relax), for a program that may get a second thread: asked when a wait yields or sleeps.
    pub fn set_let_in(&self, relax: Relax) {
        self.let_in.set(Some(relax));
    }

    /// Let everything move that can. True: something moved.
    pub fn progress(&self) -> bool {
        let mut moved = self.engine.borrow_mut().progress();
        if !self.services.borrow().is_empty() {
            moved |= self.advance_services();
        }
        if !self.has_more_under_way() {
            return moved;
        }
        self.advance_more() | moved
    }

    /// Whether anything is under way that takes more than moving messages.
    fn has_more_under_way(&self) -> bool {
        self.parts_under_way.get() || !self.active.borrow().is_empty()
    }

    #[inline(never)]
    fn advance_more(&self) -> bool {
        let moved = self.parts_under_way.get() && self.advance_partitioned();
        self.advance_collectives() | moved
    }

    /// Whether somebody else moves messages of other processes who may have to wait for this one to look.
    pub fn serves_agent(&self) -> bool {
        self.engine.borrow().carrier.serves_agent()
    }

    /// Let everything move that can, for a thread that looks after the process while the program computes, and before it
    /// sleeps. What moved, and how long it may sleep when nothing did.
    pub fn serve(&self) -> (bool, Duration) {
        let mut engine = self.engine.borrow_mut();
        let mut moved = engine.progress_all();
        if !moved {
            engine.idle();
        }
        let unrung = !engine.busy.is_empty() || self.unrung.get() || engine.unrung;
        let called = engine.called_on;
        drop(engine);
        if called {
            self.answer_call();
        }
        if !self.services.borrow().is_empty() {
            moved |= self.advance_services();
        }
        if self.has_more_under_way() {
            moved |= self.advance_more();
        }
        (moved, if unrung { SHORT_SLEEP } else { LONG_SLEEP })
    }

    /// Make progress until `done` says so.
    pub fn wait_until(&self, done: impl FnMut() -> Result<bool>) -> Result<()> {
        self.wait_for(Awaited::Everything, done)
    }

    /// As [`wait_until`](Self::wait_until), with what is waited for, in case it lasts.
    pub fn wait_for(&self, awaited: Awaited, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
        let mut noted = Noted::begin(self.teller.get());
        let mut backoff = Backoff::default();
        loop {
            if done()? {
                return Ok(());
            }
            if self.progress() {
                noted.moved();
                backoff.reset();
                continue;
            }
            let pause = backoff.pause(&self.policy);
            if pause == Pause::Sleep {
                noted.sleeps(|record| self.describe(awaited, record));
                self.answer_call();
            }
            if self.lets_others_in(pause) {
                continue;
            }
            match pause {
                Pause::Spin => self.policy.spin_once(),
                Pause::Yield => self.policy.give_way(),
                Pause::Sleep => self.sleep_for(noted.nap(LONG_SLEEP)),
            }
        }
    }

    /// Other threads were let in, and time has passed.
    #[inline]
    fn lets_others_in(&self, pause: Pause) -> bool {
        match self.relax.get() {
            Some(relax) => relax(pause),
            // While it spins nobody is expected.
            None => pause != Pause::Spin && self.let_in.get().is_some_and(|relax| relax(pause)),
        }
    }

    /// A call that does not block begins to look for what it did not find at once.
    #[inline(always)]
    pub fn looks(&self) {
        self.idle.begin(&self.policy);
    }

    /// A call that does not block has looked. A loop of such calls with nothing between them is a wait, in which peers and
    /// other threads may need the core.
    #[inline]
    pub fn looked(&self, found: bool) {
        self.looked_for(Awaited::Everything, found);
    }

    /// As [`looked`](Self::looked), with what was looked for.
    #[inline]
    pub fn looked_for(&self, awaited: Awaited, found: bool) {
        let teller = self.teller.get();
        if found {
            self.polls.found(teller);
            self.idle.found();
        } else {
            self.polls
                .nothing(teller, |record| self.describe(awaited, record));
            let untaken = || Chosen::has_untaken(&self.engine.borrow(), &self.rings);
            self.idle
                .nothing_with(&self.policy, untaken, |pause| self.rest(pause));
        }
    }

    #[cold]
    fn rest(&self, pause: Pause) {
        self.answer_call();
        if self.lets_others_in(pause) {
            return;
        }
        match pause {
            Pause::Spin => {}
            // The scheduler gives those who yield the core again and again while they have used less than others.
            Pause::Sleep if self.policy.is_crowded() => self.sleep_for(TEST_SLEEP),
            _ => self.policy.give_way(),
        }
    }

    /// What is else done before sleeping: acknowledge what is owed and tell the counters.
    pub fn settle(&self) {
        self.engine.borrow_mut().idle();
    }

    /// Sleep until rung, and for so long at most.
    fn sleep_for(&self, longest: Duration) {
        let mut engine = self.engine.borrow_mut();
        engine.idle();
        let quiet = engine.busy.is_empty() && !engine.unrung;
        let mut limit = if quiet && !self.unrung.get() {
            LONG_SLEEP
        } else {
            SHORT_SLEEP
        };
        if self.relax.get().is_some() {
            limit = limit.min(Duration::from_millis(10));
        }
        let fabric = Rc::clone(&self.fabric);
        fabric.sleep(limit.min(longest), &mut || engine.progress_all());
    }

    /// The communicator behind a handle.
    #[inline]
    pub fn comm(&self, handle: usize) -> Option<Rc<Comm>> {
        if handle == self.predefined[0].get() {
            return Some(Rc::clone(&self.comm_world));
        }
        if handle == self.predefined[1].get() {
            return Some(Rc::clone(&self.comm_self));
        }
        self.comms.borrow().get(handle).cloned()
    }

    /// Whether the program may use MPI_COMM_WORLD and MPI_COMM_SELF: they are of the world model (MPI-5.0 section 11.2).
    pub fn show_predefined(&self, shown: bool) {
        for (known_as, handle) in self.predefined.iter().zip([COMM_WORLD, COMM_SELF]) {
            known_as.set(if shown { handle } else { HIDDEN });
        }
    }

    /// MPI_COMM_WORLD.
    #[inline]
    pub fn comm_world(&self) -> &Rc<Comm> {
        &self.comm_world
    }

    /// MPI_COMM_SELF.
    pub fn comm_self(&self) -> &Rc<Comm> {
        &self.comm_self
    }

    /// Whether a request waits for room at the receiver of a message: [`Engine::waits_for_space`].
    pub fn waits_for_space(&self, handle: usize) -> bool {
        self.engine.borrow().waits_for_space(handle)
    }

    /// Bytes of memory that messages take here which came before their receives: [`Engine::kept_bytes`].
    pub fn kept_bytes(&self) -> u64 {
        self.engine.borrow().kept_bytes()
    }

    /// Faults of the fabric that no request reported, as sentences.
    pub fn take_faults(&self) -> Vec<String> {
        let faults = self.engine.borrow_mut().take_faults();
        faults.into_iter().map(|fault| fault.error.to_string()).collect()
    }
}
