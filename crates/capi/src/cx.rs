//! The seam between the generated entry points and the library: entering and leaving, handles to objects, and
//! the way of an error to the program.
//!
//! Requirements of MPI-5.0 section 5.1.9.

use core::ffi::c_int;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::OnceLock;

use farpost_mpi::attr::CommAttributes;
use farpost_mpi::comm::Comm;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::errhandler::Outcome;
use farpost_mpi::group::Group;
use farpost_mpi::info::Info;
use farpost_mpi::op::Op;
use farpost_mpi::{Error, ErrorClass, Result, error};

use crate::abi;
use crate::check::Check;
use crate::entry::NAMES;
use crate::forked;
use crate::lock;
use crate::node::{NodeCell, NodeFabric};
use crate::objects::{Objects, no_object};
use crate::process::{self, Life, Stage};
use crate::settings::MpiSettings;

/// A function of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fun(pub(crate) u16);

impl Fun {
    /// Its C name.
    pub(crate) fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
    }

    /// Whether the number is a function's: for those that come from other processes.
    pub(crate) fn exists(self) -> bool {
        usize::from(self.0) < NAMES.len()
    }
}

/// When a function may be called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// At any time.
    Always,
    /// After MPI_Init (or with a session open) and before MPI_Finalize.
    Active,
}

/// Whose error handler hears of an error: the object of this handle, or, when there is none or the handle is
/// not valid, MPI_COMM_SELF's (or MPI_COMM_WORLD's: [`Life::world_hears_all`]).
#[derive(Clone, Copy)]
pub(crate) enum On {
    Nothing,
    Comm(usize),
    // Nothing has these handles yet.
    #[allow(dead_code)]
    Win(usize),
    #[allow(dead_code)]
    File(usize),
    #[allow(dead_code)]
    Session(usize),
    /// A request: its communicator's.
    Request,
}

/// The library, entered.
pub(crate) struct Cx {
    pub(crate) objects: Objects,
    /// The job, from the first opening of an interface on.
    pub(crate) node: NodeCell,
    /// MPI's settings, from then on too.
    pub(crate) settings: OnceCell<MpiSettings>,
    /// MPI's view of it, from MPI_Init on.
    pub(crate) world: OnceCell<World>,
    /// Where the process is in its life.
    pub(crate) life: Life,
    /// What looks for the program's mistakes, from MPI_Init on, if that was asked for.
    pub(crate) check: OnceCell<Check>,
}

/// The world of a process, on what carries everything of it.
pub(crate) type World = farpost_mpi::world::World<NodeFabric>;
pub(crate) type CommRef = Rc<Comm>;
pub(crate) type GroupRef = Group;
pub(crate) type InfoRef = Rc<RefCell<Info>>;
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
            node: NodeCell::new(),
            settings: OnceCell::new(),
            world: OnceCell::new(),
            life: Life::new(),
            check: OnceCell::new(),
        })
    });
    cx
}

/// Enters the library, runs the checks and the body, leaves, and turns an error into a code.
#[inline(always)]
pub(crate) fn call(fun: Fun, phase: Phase, on: On, body: impl FnOnce(&'static Cx) -> Result<()>) -> c_int {
    call_giving(fun, phase, on, body, || ())
}

/// As `call`, for a function that gives handles: they are null after an error, which `give_nulls` sees to before the error
/// handler is told.
#[inline(always)]
pub(crate) fn call_giving(
    fun: Fun,
    phase: Phase,
    on: On,
    body: impl FnOnce(&'static Cx) -> Result<()>,
    give_nulls: impl FnOnce(),
) -> c_int {
    if phase == Phase::Always {
        let _inside = lock::enter_any_time();
        crate::roll::called(fun.0);
        let cx = process();
        return ended(cx, fun, on, body(cx), give_nulls);
    }
    let _inside = lock::enter();
    crate::roll::called(fun.0);
    let cx = process();
    if cx.life.stage.get() != Stage::Active && !checked(cx, fun) {
        give_nulls();
        return not_now(cx, fun);
    }
    ended(cx, fun, on, body(cx), give_nulls)
}

/// What a function returns.
#[inline(always)]
fn ended(cx: &Cx, fun: Fun, on: On, result: Result<()>, give_nulls: impl FnOnce()) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            give_nulls();
            raise(cx, fun, on, &error)
        }
    }
}

/// As [`call_giving`], with a body of its own for a program that is checked.
#[inline(always)]
pub(crate) fn call_or_check(
    fun: Fun,
    phase: Phase,
    on: On,
    body: impl FnOnce(&'static Cx) -> Result<()>,
    check: impl FnOnce(&'static Cx, &'static Check) -> Result<()>,
    give_nulls: impl FnOnce(),
) -> c_int {
    let run = |cx: &'static Cx| {
        if cx.life.stage.get() != Stage::Active {
            if checked(cx, fun) {
                return call_checked(cx, fun, on, check, give_nulls);
            }
            if phase == Phase::Active {
                give_nulls();
                return not_now(cx, fun);
            }
        }
        ended(cx, fun, on, body(cx), give_nulls)
    };
    if phase == Phase::Always {
        let _inside = lock::enter_any_time();
        crate::roll::called(fun.0);
        return run(process());
    }
    let _inside = lock::enter();
    crate::roll::called(fun.0);
    run(process())
}

/// Whether this is a call of a program that is checked, noted then.
#[cold]
#[inline(never)]
fn checked(cx: &'static Cx, fun: Fun) -> bool {
    let checked = cx.life.stage.get() == Stage::Checked;
    if checked && let Some(check) = cx.check.get() {
        check.enter(cx, fun);
    }
    checked
}

#[cold]
#[inline(never)]
fn call_checked(
    cx: &'static Cx,
    fun: Fun,
    on: On,
    body: impl FnOnce(&'static Cx, &'static Check) -> Result<()>,
    give_nulls: impl FnOnce(),
) -> c_int {
    let result = match cx.check.get() {
        Some(check) => body(cx, check),
        None => Ok(()),
    };
    ended(cx, fun, on, result, give_nulls)
}

/// Enters the library for a function that cannot fail.
pub(crate) fn inside<T>(body: impl FnOnce(&'static Cx) -> T) -> T {
    let _inside = lock::enter_any_time();
    body(process())
}

#[cold]
#[inline(never)]
fn not_now(cx: &Cx, fun: Fun) -> c_int {
    // Exit handlers call it, in a forked child too.
    if cx.life.stage.get() == Stage::Forked && fun.name() == "MPI_Finalize" {
        return 0;
    }
    raise(cx, fun, On::Nothing, &wrong_time(cx))
}

#[cold]
#[inline(never)]
fn wrong_time(cx: &Cx) -> Error {
    let message = match cx.life.stage.get() {
        Stage::Forked => return Error::new(ErrorClass::ERR_OTHER, forked::sentence()),
        Stage::After => "called after MPI_Finalize: nothing can be communicated any more",
        _ => "called before MPI_Init (or MPI_Init_thread)",
    };
    Error::new(ErrorClass::ERR_OTHER, message)
}

/// An error on its way to the program: through the error handler, then as a code.
#[cold]
#[inline(never)]
pub(crate) fn raise(cx: &Cx, fun: Fun, on: On, error: &Error) -> c_int {
    let placed;
    let error = match cx.check.get() {
        Some(check) => {
            placed = check.placed(error);
            &placed
        }
        None => error,
    };
    let code = cx.objects.codes.code(fun.name(), error);
    if cx.life.stage.get() == Stage::Forked {
        forked::end(fun.name(), error.class.0.clamp(1, 255));
    }
    if !cx.life.stage.get().is_active() {
        // Before and after there is no object that could have a handler: errors are fatal, as by default
        // (MPI-5.0 section 9.3), but for the functions that report on errors themselves.
        fatal(cx, fun, error, "errors are fatal while MPI is not initialised");
    }
    let world = cx.world();
    let comm = match on {
        On::Comm(handle) => world.comm(handle),
        On::Request => Some(
            world
                .take_failed_comm()
                .unwrap_or_else(|| world.comm_world().clone()),
        ),
        On::Nothing | On::Win(_) | On::File(_) | On::Session(_) => None,
    };
    let comm = comm.unwrap_or_else(|| {
        if cx.life.world_hears_all() {
            world.comm_world().clone()
        } else {
            world.comm_self().clone()
        }
    });
    handle(cx, fun, &comm, code, error)
}

/// Runs the error handler of `comm`.
pub(crate) fn handle(cx: &Cx, fun: Fun, comm: &CommRef, code: c_int, error: &Error) -> c_int {
    let handler = comm.errhandler.borrow().clone();
    match handler.raise(comm.handle.get(), code) {
        Outcome::Return(code) => code,
        Outcome::AbortJob(_) | Outcome::AbortObject(_) => {
            let name = comm_name(comm);
            fatal(
                cx,
                fun,
                error,
                &format!("errors on {name} are fatal (MPI_ERRORS_ARE_FATAL)"),
            )
        }
    }
}

/// Say what happened and end the job.
#[cold]
fn fatal(cx: &Cx, fun: Fun, error: &Error, why: &str) -> ! {
    let class = error.class.name().unwrap_or("an error class of the program");
    let message = format!("{}: {} ({class}); {why}", fun.name(), error.message);
    process::abort(cx, error.class.0.clamp(1, 255), &message)
}

/// A function without a body.
#[cold]
pub(crate) fn unsupported(fun: Fun, phase: Phase, on: On, give_nulls: impl FnOnce()) -> c_int {
    let message = "not in this version of Farpost (`farpost info --api` lists what is)";
    let refuse = |_: &'static Cx| Err(Error::new(ErrorClass::ERR_UNSUPPORTED_OPERATION, message));
    call_giving(fun, phase, on, refuse, give_nulls)
}

/// Processes a message on `comm` can go to: those of its group, or of the remote group.
#[inline(always)]
pub(crate) fn peers(comm: &CommRef) -> c_int {
    comm.peers() as c_int
}

/// Is it an intercommunicator?
pub(crate) fn is_inter(comm: &CommRef) -> bool {
    comm.is_inter()
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

/// May elements of this type lie at absolute addresses, so that a null buffer makes sense?
pub(crate) fn may_be_absolute(datatype: &Datatype) -> bool {
    // No program has data in the lowest page.
    !(0..4096).contains(&datatype.true_lb())
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
        match self.world().comm(handle) {
            Some(comm) => Ok(comm),
            None => Err(no_object(
                argument,
                handle,
                abi::MPI_COMM_NULL,
                ErrorClass::ERR_COMM,
            )),
        }
    }

    /// As `comm`, `None` for MPI_COMM_NULL.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: freed or never one.
    pub(crate) fn comm_or_null(&self, argument: &'static str, handle: usize) -> Result<Option<CommRef>> {
        if handle == abi::MPI_COMM_NULL {
            Ok(None)
        } else {
            self.comm(argument, handle).map(Some)
        }
    }

    /// The group of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`: null, freed or never one.
    pub(crate) fn group(&self, argument: &'static str, handle: usize) -> Result<GroupRef> {
        self.objects.group(argument, handle)
    }

    /// The info object of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_INFO`: null, freed or never one.
    pub(crate) fn info(&self, argument: &'static str, handle: usize) -> Result<InfoRef> {
        self.objects.info(argument, handle)
    }

    /// The datatype of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`: null, freed or never one.
    #[inline(always)]
    pub(crate) fn datatype(&self, argument: &'static str, handle: usize) -> Result<TypeRef> {
        match self.objects.types.borrow().get(handle) {
            Some(datatype) => Ok(datatype.clone()),
            None => Err(no_object(
                argument,
                handle,
                abi::MPI_DATATYPE_NULL,
                ErrorClass::ERR_TYPE,
            )),
        }
    }

    /// As `datatype`, `None` for MPI_DATATYPE_NULL.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`: freed or never one.
    pub(crate) fn datatype_or_null(&self, argument: &'static str, handle: usize) -> Result<Option<TypeRef>> {
        if handle == abi::MPI_DATATYPE_NULL {
            Ok(None)
        } else {
            self.datatype(argument, handle).map(Some)
        }
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

    /// The reduction operation of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_OP`: null, freed or never one.
    #[inline(always)]
    pub(crate) fn op(&self, argument: &'static str, handle: usize) -> Result<OpRef> {
        match self.objects.ops.borrow().get(handle) {
            Some(op) => Ok(op.clone()),
            None => Err(no_object(argument, handle, abi::MPI_OP_NULL, ErrorClass::ERR_OP)),
        }
    }

    /// As `info`, `None` for MPI_INFO_NULL.
    ///
    /// # Errors
    /// `MPI_ERR_INFO`: freed or never one.
    pub(crate) fn info_or_null(&self, argument: &'static str, handle: usize) -> Result<Option<InfoRef>> {
        if handle == abi::MPI_INFO_NULL {
            Ok(None)
        } else {
            self.info(argument, handle).map(Some)
        }
    }
}

impl Cx {
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
