//! The process's life in the job: initialisation, finalisation, abort.

use core::ffi::c_int;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

use farpost_job::RankState;
use farpost_mpi::attr::{CommAttributes, CommKey};
use farpost_mpi::device::{Carried, Device};
use farpost_mpi::{Error, ErrorClass, Result};

use crate::abi;
use crate::cx::{Cx, World};
use crate::fast;
use crate::lock;
use crate::node::{self, Interface, PortalsPlace};
use crate::progress::{self, Reason, Served};

/// Longest time that what a device still has to send may take when MPI ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Before,
    Active,
    After,
}

/// What the process knows of itself.
pub(crate) struct Life {
    pub(crate) stage: Cell<Stage>,
    pub(crate) provided: Cell<c_int>,
    main_thread: Cell<Option<std::thread::ThreadId>>,
    /// Values of the predefined attributes; C gets their addresses.
    pub(crate) attributes: OnceCell<Box<CommAttributes>>,
}

impl Life {
    pub(crate) const fn new() -> Self {
        Self {
            stage: Cell::new(Stage::Before),
            provided: Cell::new(abi::MPI_THREAD_SINGLE),
            main_thread: Cell::new(None),
            attributes: OnceCell::new(),
        }
    }

    /// Whether this is the thread that initialised.
    pub(crate) fn is_main_thread(&self) -> bool {
        self.main_thread.get() == Some(std::thread::current().id())
    }
}

/// `MPI_Init` and `MPI_Init_thread`.
pub(crate) fn initialise(cx: &'static Cx, required: c_int) -> Result<()> {
    match cx.life.stage.get() {
        Stage::Before => {}
        Stage::Active => {
            return Err(Error::new(
                ErrorClass::ERR_OTHER,
                "called twice: MPI is initialised already",
            ));
        }
        Stage::After => {
            return Err(Error::new(
                ErrorClass::ERR_OTHER,
                "called after MPI_Finalize: MPI cannot start again",
            ));
        }
    }
    let failed = |why| Error::new(ErrorClass::ERR_OTHER, why);
    let settings = &node::join(cx).map_err(failed)?.settings;
    let place = settings.portals_place;
    if settings.world.device.device == Device::Portals && place != PortalsPlace::Inline {
        return Err(failed(format!(
            "FARPOST_DEVICE=portals and FARPOST_PORTALS={}: MPI over Portals matches in each process itself and not by way of an \
             agent; leave one of the two out",
            place.name()
        )));
    }
    let node = node::open(cx, Interface::Mpi).map_err(failed)?;
    let job = &node.job;
    let mut config = node.settings.world.clone();
    config.device.fm = node.settings.fm.clone();
    config.device.portals = node.settings.portals.clone();
    config.device.adapt(&mut config.engine);
    let fabric = Carried::new(Rc::clone(&node.fabric), &config.device);
    let world = World::new(fabric, config);
    let attributes = Box::new(CommAttributes::default());
    attributes.set(CommKey::TagUb, Some(world.tag_ub()));
    attributes.set(CommKey::Io, Some(abi::MPI_ANY_SOURCE));
    attributes.set(CommKey::Host, Some(abi::MPI_PROC_NULL));
    attributes.set(CommKey::WtimeIsGlobal, Some(c_int::from(job.hosts() == 1)));
    attributes.set(CommKey::Appnum, Some(job.appnum() as c_int));
    attributes.set(CommKey::LastUsedCode, Some(cx.objects.codes.last_used()));
    attributes.set(CommKey::UniverseSize, Some(job.universe_size() as c_int));
    let provided = required.clamp(abi::MPI_THREAD_SINGLE, abi::MPI_THREAD_MULTIPLE);
    // Threads that use another interface come in while this one waits.
    if provided == abi::MPI_THREAD_MULTIPLE || lock::threads_allowed() {
        world.set_relax(Some(lock::relax));
    }
    let _ = cx.life.attributes.set(attributes);
    let _ = cx.world.set(world);
    cx.life.provided.set(provided);
    cx.life.main_thread.set(Some(std::thread::current().id()));
    cx.life.stage.set(Stage::Active);
    fast::open(cx.world());
    if node.settings.progress.mpi != 0
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
    world.flush_buffer(world.process_buffer())?;
    world.quiesce()?;
    let plan = farpost_mpi::coll::barrier(&world.site(world.comm_world()))?;
    world.run_collective(world.comm_world(), plan)?;
    let job = cx.node.get().map(|node| &node.job);
    let gone = |peer| {
        job.is_some_and(|job| matches!(job.state(peer), Some(RankState::Finalised | RankState::Aborted)))
    };
    world.drain_to_peers(gone)?;
    world.fabric().flush(FAREWELL, |peer| gone(peer.0));
    progress::stop(cx, Reason::Mpi);
    fast::close();
    cx.life.stage.set(Stage::After);
    if let Some(node) = cx.node.get() {
        node.close(Interface::Mpi);
    }
    Ok(())
}

/// A line for people, in one piece however many processes write to the same place.
pub(crate) fn say(message: &str) {
    use std::io::Write;
    let line = format!("farpost: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// End the whole job.
pub(crate) fn abort(cx: &Cx, code: c_int, message: &str) -> ! {
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
