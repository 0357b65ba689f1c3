//! What the process keeps ([`Cx`]), for who is inside the library: objects by handle, its job, MPI's view of it. Nothing here knows an
//! interface or a body.
//!
//! Requirements of MPI-5.0 section 5.1.9.

use core::ffi::c_int;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::OnceLock;

use farpost_mpi::attr::CommAttributes;
use farpost_mpi::comm::Comm;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::group::Group;
use farpost_mpi::op::Op;
use farpost_mpi::session::Session;
use farpost_mpi::{Error, ErrorClass, Result, error};
use farpost_node::{Node, NodeFabric};

use crate::abi;
use crate::forked;
use crate::lock;
use crate::objects::{Objects, no_object};
use crate::process::{Life, Stage, say};
use crate::settings::MpiSettings;

/// The library, entered.
pub(crate) struct Cx {
    pub(crate) objects: Objects,
    /// The job, from the first opening of an interface on.
    pub(crate) node: OnceCell<Node>,
    /// MPI's settings, from then on too.
    pub(crate) settings: OnceCell<MpiSettings>,
    /// MPI's view of it, from MPI_Init or the first session on.
    pub(crate) world: OnceCell<World>,
    /// Its windows, from the first one on.
    pub(crate) windows: OnceCell<Rc<Windows>>,
    /// How many requests of the world are the check's, where the program is checked.
    pub(crate) check_requests: Cell<Option<CountRequests>>,
    /// Where the process is in its life.
    pub(crate) life: Life,
}

pub(crate) type CountRequests = fn(&Cx) -> usize;
pub(crate) type Windows = farpost_rma::Windows<NodeFabric>;
pub(crate) type WinRef = Rc<farpost_rma::Win<NodeFabric>>;

/// The world of a process, on what carries everything of it.
pub(crate) type World = farpost_mpi::world::World<NodeFabric>;
pub(crate) type CommRef = Rc<Comm>;
pub(crate) type SessionRef = Rc<Session>;
pub(crate) type GroupRef = Group;
pub(crate) type OpRef = Op;
pub(crate) type TypeRef = Datatype;

struct Process(Cx);

// SAFETY: reached from inside the library only (`lock`), where one thread is at a time.
unsafe impl Send for Process {}
// SAFETY: as above.
unsafe impl Sync for Process {}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// What an interface keeps for the process. Reached from inside the library only: who has the [`Cx`].
pub(crate) struct ProcessCell<T>(OnceCell<T>);

// SAFETY: the methods ask for the `Cx`, which only who is inside the library has, where one thread is at a time.
unsafe impl<T> Sync for ProcessCell<T> {}

#[allow(dead_code)]
impl<T> ProcessCell<T> {
    pub(crate) const fn new() -> Self {
        Self(OnceCell::new())
    }

    /// What was kept.
    #[inline(always)]
    pub(crate) fn get(&'static self, _inside: &Cx) -> Option<&'static T> {
        self.0.get()
    }

    /// Keep `value`, unless something was kept before; what is kept now.
    pub(crate) fn keep(&'static self, _inside: &Cx, value: T) -> &'static T {
        self.0.get_or_init(|| value)
    }
}

/// The library, for who is inside.
#[inline(always)]
pub(crate) fn process() -> &'static Cx {
    let Process(cx) = PROCESS.get_or_init(|| {
        Process(Cx {
            objects: Objects::new(),
            node: OnceCell::new(),
            settings: OnceCell::new(),
            world: OnceCell::new(),
            windows: OnceCell::new(),
            check_requests: Cell::new(None),
            life: Life::new(),
        })
    });
    cx
}

/// Enters the library for a function that cannot fail.
pub(crate) fn inside<T>(body: impl FnOnce(&'static Cx) -> T) -> T {
    let _inside = lock::enter_any_time();
    body(process())
}

/// Processes a message on `comm` can go to: those of its group, or of the remote group.
#[inline(always)]
pub(crate) fn peers(comm: &CommRef) -> c_int {
    comm.peers() as c_int
}

/// What to call `comm` in a message.
pub(crate) fn comm_name(comm: &CommRef) -> String {
    let name = comm.name.borrow();
    if name.is_empty() {
        "the communicator".into()
    } else {
        String::from_utf8_lossy(&name).into_owned()
    }
}

#[cold]
#[inline(never)]
fn uncommitted(argument: &str, datatype: &Datatype) -> Error {
    error!(ERR_TYPE: "{argument}={}: must be committed first (MPI_Type_commit)", datatype.describe())
}

impl Cx {
    /// The communicator of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: null, freed or never one.
    #[inline(always)]
    pub(crate) fn comm(&self, argument: &'static str, handle: usize) -> Result<CommRef> {
        let found = self.world().comm(handle);
        found.ok_or_else(|| no_object(argument, handle, ErrorClass::ERR_COMM))
    }

    /// As `comm`, `None` for MPI_COMM_NULL.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: freed or never one.
    pub(crate) fn comm_or_null(&self, argument: &'static str, handle: usize) -> Result<Option<CommRef>> {
        let given = handle != abi::MPI_COMM_NULL;
        given.then(|| self.comm(argument, handle)).transpose()
    }

    /// The session of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_SESSION`: null, finalised or never one.
    pub(crate) fn session(&self, argument: &'static str, handle: usize) -> Result<SessionRef> {
        if self.life.stage.get() == Stage::Forked {
            return Err(Error::new(ErrorClass::ERR_OTHER, forked::sentence()));
        }
        let found = self.world.get().and_then(|world| world.session(handle));
        found.ok_or_else(|| no_object(argument, handle, ErrorClass::ERR_SESSION))
    }

    /// The datatype of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`: null, freed or never one.
    #[inline(always)]
    pub(crate) fn datatype(&self, argument: &'static str, handle: usize) -> Result<TypeRef> {
        let found = self.objects.types.borrow().get(handle).cloned();
        found.ok_or_else(|| no_object(argument, handle, ErrorClass::ERR_TYPE))
    }

    /// As `datatype`, `None` for MPI_DATATYPE_NULL.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`: freed or never one.
    pub(crate) fn datatype_or_null(&self, argument: &'static str, handle: usize) -> Result<Option<TypeRef>> {
        let given = handle != abi::MPI_DATATYPE_NULL;
        given.then(|| self.datatype(argument, handle)).transpose()
    }

    /// As `datatype`, for communication.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`: null, freed, never one, or not committed.
    #[inline(always)]
    pub(crate) fn committed(&self, argument: &'static str, handle: usize) -> Result<TypeRef> {
        let datatype = self.datatype(argument, handle)?;
        if datatype.is_committed() {
            Ok(datatype)
        } else {
            Err(uncommitted(argument, &datatype))
        }
    }

    /// The window of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`: null, freed or never one.
    #[inline(always)]
    pub(crate) fn win(&self, argument: &'static str, handle: usize) -> Result<WinRef> {
        let found = self.windows.get().and_then(|windows| windows.get(handle));
        found.ok_or_else(|| no_object(argument, handle, ErrorClass::ERR_WIN))
    }

    /// As `win`, `None` for MPI_WIN_NULL.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`: freed or never one.
    pub(crate) fn win_or_null(&self, argument: &'static str, handle: usize) -> Result<Option<WinRef>> {
        let given = handle != abi::MPI_WIN_NULL;
        given.then(|| self.win(argument, handle)).transpose()
    }

    /// The reduction operation of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_OP`: null, freed or never one.
    #[inline(always)]
    pub(crate) fn op(&self, argument: &'static str, handle: usize) -> Result<OpRef> {
        let found = self.objects.ops.borrow().get(handle).cloned();
        found.ok_or_else(|| no_object(argument, handle, ErrorClass::ERR_OP))
    }
}

impl Cx {
    /// Whether a rank has ended too early.
    pub(crate) fn is_gone(&self, rank: u32) -> bool {
        self.node.get().is_some_and(|node| {
            node.job.ended(rank).is_some() || node.job.state(rank) == Some(farpost_job::RankState::Aborted)
        })
    }

    /// End the whole job.
    pub(crate) fn abort(&self, code: c_int, message: &str) -> ! {
        if forked::is_child() {
            say(message);
            // SAFETY: takes an integer and does not return. The exit handlers are the parent's.
            unsafe { libc::_exit(farpost_job::exit_status(code)) }
        }
        match self.node.get().map(|node| &node.job) {
            Some(job) => job.abort(code, message),
            None => {
                say(message);
                // A launcher that is told may kill this process and its own forwarder before the line is out.
                std::thread::sleep(std::time::Duration::from_millis(100));
                farpost_job::abandon(farpost_job::exit_status(code));
                std::process::exit(farpost_job::exit_status(code))
            }
        }
    }

    /// The process's number in the job.
    ///
    /// # Errors
    /// When there is no world.
    pub(crate) fn pid(&self) -> Result<u32> {
        Ok(self.world().pid())
    }

    /// The predefined attributes of communicators.
    pub(crate) fn attributes(&self) -> &CommAttributes {
        match self.life.attributes.get() {
            Some(attributes) => attributes,
            None => no_world(),
        }
    }

    /// The job. There is one in every function of phase `Active`.
    #[inline(always)]
    pub(crate) fn world(&self) -> &World {
        match self.world.get() {
            Some(world) => world,
            None => no_world(),
        }
    }
}

#[cold]
#[inline(never)]
fn no_world() -> ! {
    panic!("a function that needs MPI_Init was let in before it")
}

/// Dropped by a panic only: ends the job.
pub(crate) struct Guard(pub(crate) &'static str);

impl Drop for Guard {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        let message = format!(
            "{}: internal error of Farpost, see the lines above; please report it",
            self.0
        );
        process().abort(1, &message);
    }
}
