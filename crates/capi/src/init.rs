//! Beginning and end of MPI: the bodies of `MPI_Init`, `MPI_Init_thread` and `MPI_Finalize`.
//!
//! Requirements of MPI-5.0 section 11.2.4.

use core::ffi::c_int;
use std::rc::Rc;
use std::time::Duration;

use farpost_fabric::Interrupt;
use farpost_job::RankState;
use farpost_mpi::attr::{CommAttributes, CommKey};
use farpost_mpi::{Error, ErrorClass, Result, fail};
use farpost_node::Interface;

use crate::abi;
use crate::calls::arg;
use crate::check;
use crate::cx::{Cx, World};
use crate::fast;
use crate::forked;
use crate::lock;
use crate::node;
use crate::process::{Stage, say};
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
    match cx.life.stage.get() {
        Stage::Before => {}
        Stage::Active | Stage::Checked | Stage::Watched => {
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
    world.set_teller(roll::teller(cx));
    world.set_let_in(lock::relax);
    let _ = cx.life.attributes.set(attributes);
    let _ = cx.world.set(world);
    cx.life.begin(provided);
    if settings.check.on {
        // The lanes stay closed: every call is looked at.
        check::begin(cx, settings.check);
        cx.life.stage.set(Stage::Checked);
    } else if node.watcher().is_some() {
        cx.life.stage.set(Stage::Watched);
    } else {
        cx.life.stage.set(Stage::Active);
        fast::open(cx.world());
    }
    // On a simulated machine the others do not run meanwhile.
    let together = if node.is_simulated() {
        Duration::ZERO
    } else {
        TOGETHER
    };
    if let (Some(woken), Some(host)) = (job.ready(together), node.fabric.host()) {
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

/// An error, unless it is that a process has ended.
fn but_for_the_lost(result: Result<()>) -> Result<()> {
    result.or_else(|error| match error.class {
        ErrorClass::ERR_PROC_ABORTED => Ok(()),
        _ => Err(error),
    })
}

/// `MPI_Finalize`: everybody's messages are delivered, then the job goes on without us.
pub(crate) fn mpi_finalize(cx: &'static Cx) -> Result<()> {
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
