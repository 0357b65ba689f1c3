//! Beginning and end of MPI: the bodies of `MPI_Init`, `MPI_Init_thread`, `MPI_Finalize`, `MPI_Session_init` and `MPI_Session_finalize`.
//! What begins first, the world model or a session, begins everything, and what ends last ends it.
//!
//! Requirements of MPI-5.0 sections 11.2.4, 11.3.1.

use core::ffi::c_int;
use std::rc::Rc;
use std::time::Duration;

use farpost_fabric::Interrupt;
use farpost_job::RankState;
use farpost_mpi::attr::{CommAttributes, CommKey};
use farpost_mpi::errhandler::HandlerKind;
use farpost_mpi::info::Info;
use farpost_mpi::session::Session;
use farpost_mpi::world::WorldConfig;
use farpost_mpi::{Error, ErrorClass, Result, fail};
use farpost_node::{Interface, Node};

use crate::abi;
use crate::calls::{arg, tools};
use crate::check;
use crate::cx::{Cx, World};
use crate::fast;
use crate::forked;
use crate::lock;
use crate::node;
use crate::process::{Stage, WorldModel, say};
use crate::progress::{self, Reason};
use crate::roll;
use crate::settings::MpiSettings;

/// Longest time for which ranks that are ready wait for others of their host, so that all set out together.
const TOGETHER: Duration = Duration::from_millis(20);

pub(crate) fn mpi_init(cx: &'static Cx, _: arg::Init) -> Result<()> {
    initialise(cx, abi::MPI_THREAD_SINGLE)
}

pub(crate) fn mpi_init_thread(cx: &'static Cx, a: arg::InitThread) -> Result<c_int> {
    let required = a.required;
    let levels = [
        abi::MPI_THREAD_SINGLE,
        abi::MPI_THREAD_FUNNELED,
        abi::MPI_THREAD_SERIALIZED,
        abi::MPI_THREAD_MULTIPLE,
    ];
    if !levels.contains(&required) {
        return fail!(
            ERR_ARG: "required={required}: allowed are MPI_THREAD_SINGLE, _FUNNELED, _SERIALIZED, _MULTIPLE"
        );
    }
    initialise(cx, required)?;
    if required == abi::MPI_THREAD_MULTIPLE {
        // Others may come in from the moment this returns, not before.
        lock::allow_threads();
    }
    Ok(cx.life.provided.get())
}

/// `MPI_Init` and `MPI_Init_thread`.
fn initialise(cx: &'static Cx, required: c_int) -> Result<()> {
    // Another thread may be about to open another interface.
    lock::begin();
    let _inside = lock::enter();
    match (cx.life.stage.get(), cx.life.world_model.get()) {
        (Stage::Forked, _) => return Err(Error::new(ErrorClass::ERR_OTHER, forked::sentence())),
        (_, WorldModel::Initialised) => {
            return fail!(ERR_OTHER: "called twice: MPI is initialised already");
        }
        (_, WorldModel::Finalised) => {
            return fail!(ERR_OTHER: "called after MPI_Finalize: the world model cannot start again (sessions can)");
        }
        (_, WorldModel::Before) => {}
    }
    let provided = required.clamp(abi::MPI_THREAD_SINGLE, abi::MPI_THREAD_MULTIPLE);
    begin(cx, Interface::Mpi, provided)?;
    cx.world().show_predefined(true);
    cx.life.begin();
    Ok(())
}

/// The process opens `interface`, one of MPI's two: its job, fabric and world, unless the other is open.
fn begin(cx: &'static Cx, interface: Interface, provided: c_int) -> Result<()> {
    let failed = |why| Error::new(ErrorClass::ERR_OTHER, why);
    let joined = node::join(cx).map_err(failed)?;
    let settings = cx.settings.get_or_init(MpiSettings::default);
    let mut config = settings.world(joined).map_err(failed)?;
    tools::apply(cx, &mut config);
    let node = node::open(cx, interface).map_err(failed)?;
    // Threads that use another interface come in while this one waits: now and then, and the first of them as well.
    let relax = || {
        let threads = provided == abi::MPI_THREAD_MULTIPLE || lock::threads_allowed();
        threads && !settings.check.on
    };
    if cx.life.stage.get().is_active() {
        if relax() {
            cx.world().set_relax(Some(lock::relax));
        }
        cx.life.provided.set(provided.max(cx.life.provided.get()));
        return Ok(());
    }
    cx.life.provided.set(provided);
    let first = cx.world.get().is_none();
    if first {
        make_world(cx, node, config);
    }
    if relax() {
        cx.world().set_relax(Some(lock::relax));
    }
    if settings.check.on {
        // The lanes stay closed: every call is looked at.
        if first {
            check::begin(cx, settings.check);
        }
        cx.life.stage.set(Stage::Checked);
    } else if node.is_simulated() {
        cx.life.stage.set(Stage::Simulated);
    } else {
        cx.life.stage.set(Stage::Active);
        fast::open(cx.world());
    }
    // On a simulated machine the others do not run meanwhile.
    let together = if node.is_simulated() || !first {
        Duration::ZERO
    } else {
        TOGETHER
    };
    if let (Some(woken), Some(host)) = (node.job.ready(together), node.fabric.host()) {
        host.wake_cost().rung(woken.slept, woken.rung, woken.awake);
    }
    // An agent may need this process for what its peers send each other, while the program computes.
    if (node.settings.progress.mpi == 1 || cx.world().serves_agent())
        && let Err(why) = progress::start(cx, Reason::Mpi, true, progress::serve_mpi)
    {
        say(&why);
    }
    Ok(())
}

/// MPI's view of the job, which the process keeps.
fn make_world(cx: &'static Cx, node: &'static Node, config: WorldConfig) {
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
    world.set_teller(roll::teller(cx));
    world.set_let_in(lock::relax);
    world.show_predefined(false);
    let _ = cx.life.attributes.set(attributes);
    let _ = cx.world.set(world);
}

/// The levels of threads by their names, as info objects have them.
const LEVELS: [(&str, c_int); 4] = [
    ("MPI_THREAD_SINGLE", abi::MPI_THREAD_SINGLE),
    ("MPI_THREAD_FUNNELED", abi::MPI_THREAD_FUNNELED),
    ("MPI_THREAD_SERIALIZED", abi::MPI_THREAD_SERIALIZED),
    ("MPI_THREAD_MULTIPLE", abi::MPI_THREAD_MULTIPLE),
];

/// The key of that.
const THREAD_LEVEL: &str = "thread_level";

/// `MPI_Session_init`: any thread may call it at any time, and so calls are counted from here on whatever level is asked for.
pub(crate) fn mpi_session_init(cx: &'static Cx, a: arg::SessionInit) -> Result<usize> {
    if cx.life.stage.get() == Stage::Forked {
        return Err(Error::new(ErrorClass::ERR_OTHER, forked::sentence()));
    }
    let handler = cx.objects.errhandler("errhandler", a.errhandler)?;
    handler.check_kind(HandlerKind::Session)?;
    let asked = a.info.map(|info| info.borrow().clone());
    let asked = asked.as_ref().and_then(|info| info.get_str(THREAD_LEVEL));
    let (level, provided) = match asked {
        None => LEVELS[3],
        Some(name) => match LEVELS.iter().find(|(level, _)| *level == name) {
            Some(found) => *found,
            None => {
                let all = LEVELS.map(|(level, _)| level).join(", ");
                return fail!(ERR_INFO_VALUE: "info: {THREAD_LEVEL}={name}: allowed are {all}");
            }
        },
    };
    lock::begin();
    begin(cx, Interface::Sessions, provided)?;
    let mut info = Info::new();
    info.set(THREAD_LEVEL.as_bytes(), level.as_bytes())?;
    info.set(b"mpi_memory_alloc_kinds", b"mpi,system")?;
    cx.world().add_session(Session::new(handler, info))
}

/// `MPI_Session_finalize`: with the last session, and the world model not there, the process has finalised.
pub(crate) fn mpi_session_finalize(cx: &'static Cx, a: arg::SessionFinalize) -> Result<()> {
    if cx.life.stage.get() == Stage::Forked {
        return Ok(());
    }
    let session = cx.session("session", a.session)?;
    let world = cx.world();
    world.finalize_session(&session)?;
    if world.has_sessions() {
        return Ok(());
    }
    if cx.life.world_model.get() != WorldModel::Initialised {
        world.flush_buffer(world.process_buffer())?;
        world.quiesce()?;
        drain(cx)?;
    }
    end(cx, Interface::Sessions);
    Ok(())
}

/// Everything has been taken by those who are still there.
fn drain(cx: &'static Cx) -> Result<()> {
    let job = cx.node.get().map(|node| &node.job);
    let gone = |peer| {
        job.is_some_and(|job| matches!(job.state(peer), Some(RankState::Finalised | RankState::Aborted)))
    };
    cx.world().drain_to_peers(gone)
}

/// The process closes `interface`; MPI ends unless its other one is open.
fn end(cx: &'static Cx, interface: Interface) {
    let other = match interface {
        Interface::Mpi => cx.world().has_sessions(),
        _ => cx.life.world_model.get() == WorldModel::Initialised,
    };
    if !other {
        progress::stop(cx, Reason::Mpi);
        fast::close();
        cx.life.stage.set(Stage::After);
    }
    if let Some(node) = cx.node.get() {
        node.rest(interface);
    }
}

/// An error, unless it is that a process has ended, or that the program has given the communicator up for that.
fn but_for_the_lost(result: Result<()>) -> Result<()> {
    result.or_else(|error| match error.class {
        ErrorClass::ERR_PROC_ABORTED | ErrorClass::MPIX_ERR_REVOKED => Ok(()),
        _ => Err(error),
    })
}

/// `MPI_Finalize`: everybody's messages are delivered, then the job goes on without us.
pub(crate) fn mpi_finalize(cx: &'static Cx) -> Result<()> {
    match cx.life.world_model.get() {
        WorldModel::Initialised => {}
        WorldModel::Before => return fail!(ERR_OTHER: "called before MPI_Init (or MPI_Init_thread)"),
        WorldModel::Finalised => {
            return fail!(ERR_OTHER: "called twice: the world model is finalised already");
        }
    }
    let world = cx.world();
    let own = world.comm_self();
    own.attrs.delete_all(own.handle.get())?;
    if let Some(check) = check::of(cx) {
        // Where some have ended, what the others have left is told by nobody.
        but_for_the_lost(check.finish(cx))?;
    }
    world.flush_buffer(world.process_buffer())?;
    world.quiesce()?;
    let met = match check::of(cx) {
        // On the checks' communicator: the program's may be in disorder.
        Some(check) => check.meet_all(cx),
        None => {
            let plan = farpost_mpi::coll::barrier(&world.site(world.comm_world()))?;
            world.run_collective(world.comm_world(), plan)
        }
    };
    // Nobody needs to wait for those who have ended, and who waits for those who know that learns of it as well.
    but_for_the_lost(met)?;
    drain(cx)?;
    world.show_predefined(false);
    cx.life.world_model.set(WorldModel::Finalised);
    end(cx, Interface::Mpi);
    Ok(())
}
