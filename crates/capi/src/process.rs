//! The process's life in the job: initialisation, finalisation, abort.
//!
//! Requirements of MPI-5.0 section 11.2.4.

use core::ffi::c_int;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

use farpost_fabric::Interrupt;
use farpost_job::RankState;
use farpost_mpi::attr::{CommAttributes, CommKey};
use farpost_mpi::{Error, ErrorClass, Result, fail};

use crate::abi;
use crate::check;
use crate::cx::{Cx, World};
use crate::fast;
use crate::forked;
use crate::lock;
use crate::node::{self, Interface};
use crate::progress::{self, Reason, Served};
use crate::settings::MpiSettings;

/// Longest time for which ranks that are ready wait for others of their host, so that all set out together.
const TOGETHER: Duration = Duration::from_millis(20);

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Before,
    Active,
    /// As `Active`, in a program that is checked.
    Checked,
    After,
    /// In a child that the process forked while it was active.
    Forked,
}

impl Stage {
    /// Between MPI_Init and MPI_Finalize.
    pub(crate) fn is_active(self) -> bool {
        matches!(self, Self::Active | Self::Checked)
    }
}

/// What the process knows of itself.
pub(crate) struct Life {
    pub(crate) stage: Cell<Stage>,
    pub(crate) provided: Cell<c_int>,
    main_thread: Cell<Option<std::thread::ThreadId>>,
    /// The program has set the error handler of MPI_COMM_WORLD, of MPI_COMM_SELF.
    errhandlers_set: Cell<(bool, bool)>,
    /// Values of the predefined attributes; C gets their addresses.
    pub(crate) attributes: OnceCell<Box<CommAttributes>>,
}

impl Life {
    pub(crate) const fn new() -> Self {
        Self {
            stage: Cell::new(Stage::Before),
            provided: Cell::new(abi::MPI_THREAD_SINGLE),
            main_thread: Cell::new(None),
            errhandlers_set: Cell::new((false, false)),
            attributes: OnceCell::new(),
        }
    }

    /// The program sets the error handler of a communicator.
    pub(crate) fn note_errhandler(&self, comm: usize) {
        let (world, own) = self.errhandlers_set.get();
        let (world, own) = (
            world || comm == abi::MPI_COMM_WORLD,
            own || comm == abi::MPI_COMM_SELF,
        );
        self.errhandlers_set.set((world, own));
    }

    /// Whether errors that belong to no object go to MPI_COMM_WORLD's handler. By MPI-5.0 section 9.3 they go to
    /// MPI_COMM_SELF's, since MPI-4.0; programs written before set MPI_COMM_WORLD's alone and mean these, too.
    pub(crate) fn world_hears_all(&self) -> bool {
        self.errhandlers_set.get() == (true, false)
    }

    /// Whether this is the thread that initialised.
    pub(crate) fn is_main_thread(&self) -> bool {
        self.main_thread.get() == Some(std::thread::current().id())
    }
}

/// `MPI_Init` and `MPI_Init_thread`.
pub(crate) fn initialise(cx: &'static Cx, required: c_int) -> Result<()> {
    // Another thread may be about to open another interface.
    lock::begin();
    let _inside = lock::enter();
    match cx.life.stage.get() {
        Stage::Before => {}
        Stage::Active | Stage::Checked => {
            return fail!(ERR_OTHER: "called twice: MPI is initialised already");
        }
        Stage::Forked => return Err(Error::new(ErrorClass::ERR_OTHER, forked::sentence())),
        Stage::After => {
            return fail!(ERR_OTHER: "called after MPI_Finalize: MPI cannot start again");
        }
    }
    let failed = |why| Error::new(ErrorClass::ERR_OTHER, why);
    let joined = node::join(cx).map_err(failed)?;
    let settings = cx.settings.get_or_init(MpiSettings::default);
    let config = settings.world(joined).map_err(failed)?;
    let node = node::open(cx, Interface::Mpi).map_err(failed)?;
    let job = &node.job;
    let world = World::on(Rc::clone(&node.fabric), config);
    let attributes = Box::new(CommAttributes::default());
    attributes.set(CommKey::TagUb, Some(world.tag_ub()));
    attributes.set(CommKey::Io, Some(abi::MPI_ANY_SOURCE));
    attributes.set(CommKey::Host, Some(abi::MPI_PROC_NULL));
    attributes.set(CommKey::WtimeIsGlobal, Some(c_int::from(job.hosts() == 1)));
    attributes.set(CommKey::Appnum, Some(job.appnum() as c_int));
    attributes.set(CommKey::LastUsedCode, Some(cx.objects.codes.last_used()));
    attributes.set(CommKey::UniverseSize, Some(job.universe_size() as c_int));
    let provided = required.clamp(abi::MPI_THREAD_SINGLE, abi::MPI_THREAD_MULTIPLE);
    // Threads that use another interface come in while this one waits: now and then, and the first of them as well.
    if provided == abi::MPI_THREAD_MULTIPLE || lock::threads_allowed() {
        world.set_relax(Some(lock::relax));
    }
    world.set_teller(crate::roll::teller(cx));
    world.set_let_in(lock::relax);
    let _ = cx.life.attributes.set(attributes);
    let _ = cx.world.set(world);
    cx.life.provided.set(provided);
    cx.life.main_thread.set(Some(std::thread::current().id()));
    match check::begin(cx.world(), settings.check) {
        // The lanes stay closed: every call is looked at.
        Some(check) => {
            let _ = cx.check.set(check);
            cx.world().set_relax(Some(check::relax));
            cx.life.stage.set(Stage::Checked);
        }
        None => {
            cx.life.stage.set(Stage::Active);
            fast::open(cx.world());
        }
    }
    if let (Some(woken), Some(host)) = (job.ready(TOGETHER), node.fabric.host()) {
        host.wake_cost().rung(woken.slept, woken.rung, woken.awake);
    }
    // An agent may need this process for what its peers send each other, while the program computes.
    if (node.settings.progress.mpi != 0 || cx.world().serves_agent())
        && let Err(why) = progress::start(cx, Reason::Mpi, true, serve)
    {
        say(&why);
    }
    Ok(())
}

/// What moves MPI while the program computes.
fn serve(cx: &'static Cx) -> Served {
    match cx.world().serve() {
        (true, _) => Served::Moved,
        (false, longest) => Served::After(longest),
    }
}

/// `MPI_Finalize`: everybody's messages are delivered, then the job goes on without us.
pub(crate) fn finalise(cx: &'static Cx) -> Result<()> {
    let world = cx.world();
    let own = world.comm_self();
    own.attrs.delete_all(own.handle.get())?;
    if let Some(check) = cx.check.get() {
        match check.finish(cx) {
            // What the others have left is told by nobody then.
            Err(error) if error.class == ErrorClass::ERR_PROC_ABORTED => {}
            finished => finished?,
        }
    }
    world.flush_buffer(world.process_buffer())?;
    world.quiesce()?;
    let met = match cx.check.get() {
        // On the checks' communicator: the program's may be in disorder.
        Some(check) => check.meet_all(cx),
        None => {
            let plan = farpost_mpi::coll::barrier(&world.site(world.comm_world()))?;
            world.run_collective(world.comm_world(), plan)
        }
    };
    match met {
        // Nobody needs to wait for those who have ended, and who waits for those who know that learns of it as well.
        Err(error) if error.class == ErrorClass::ERR_PROC_ABORTED => {}
        met => met?,
    }
    let job = cx.node.get().map(|node| &node.job);
    let gone = |peer| {
        job.is_some_and(|job| matches!(job.state(peer), Some(RankState::Finalised | RankState::Aborted)))
    };
    world.drain_to_peers(gone)?;
    progress::stop(cx, Reason::Mpi);
    fast::close();
    cx.life.stage.set(Stage::After);
    if let Some(node) = cx.node.get() {
        node.close(Interface::Mpi);
    }
    Ok(())
}

/// Whether a rank has ended too early.
pub(crate) fn is_gone(cx: &Cx, rank: u32) -> bool {
    cx.node.get().is_some_and(|node| {
        node.job.ended(rank).is_some() || node.job.state(rank) == Some(RankState::Aborted)
    })
}

/// A line for people, in one piece however many processes write to the same place.
pub(crate) fn say(message: &str) {
    use std::io::Write;
    let line = format!("farpost: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// End the whole job.
pub(crate) fn abort(cx: &Cx, code: c_int, message: &str) -> ! {
    if forked::is_child() {
        say(message);
        // SAFETY: takes an integer and does not return. The exit handlers are the parent's.
        unsafe { libc::_exit(farpost_job::exit_status(code)) }
    }
    match cx.node.get().map(|node| &node.job) {
        Some(job) => job.abort(code, message),
        None => {
            say(message);
            // A launcher that is told may kill this process and its own forwarder before the line is out.
            std::thread::sleep(Duration::from_millis(100));
            farpost_job::abandon(farpost_job::exit_status(code));
            std::process::exit(farpost_job::exit_status(code))
        }
    }
}
