//! The way through an entry point of MPI's: entering and leaving the library, and the way of an error to the program.
//!
//! Requirements of MPI-5.0 section 9.3.

use core::ffi::c_int;

use farpost_mpi::errhandler::{ErrorHandler, HandlerKind, Outcome};
use farpost_mpi::{Error, ErrorClass, Result};

use farpost_node::Node;

use crate::abi;
use crate::check::{self, Check};
use crate::cx::{CommRef, Cx, comm_name, process};
use crate::forked;
use crate::lock;
use crate::names::Fun;
use crate::process::{Stage, WorldModel};
use crate::roll;

/// When a function may be called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// At any time.
    Always,
    /// At any time, and by several threads at once before any of them has asked for that.
    Threaded,
    /// After MPI_Init (or with a session open) and before MPI_Finalize.
    Active,
}

/// Whose error handler hears of an error: the object of this handle, or, when there is none or the handle is
/// not valid, MPI_COMM_SELF's (or MPI_COMM_WORLD's: [`Life::world_hears_all`](crate::process::Life::world_hears_all)).
#[derive(Clone, Copy)]
pub(crate) enum On {
    Nothing,
    Comm(usize),
    Win(usize),
    // Nothing has these handles yet.
    #[allow(dead_code)]
    File(usize),
    Session(usize),
    /// Nothing yet: the error handler that the function is given, which what it makes will have.
    Errhandler(usize),
    /// A request: its communicator's.
    Request,
}

/// Enters the library, runs the checks and the body, leaves, and turns an error into a code. The handles that a function gives are null
/// after an error, which `give_nulls` sees to before the error handler is told.
#[inline(always)]
pub(crate) fn call(
    fun: Fun,
    phase: Phase,
    on: On,
    body: impl FnOnce(&'static Cx) -> Result<()>,
    give_nulls: impl FnOnce(),
) -> c_int {
    if phase == Phase::Threaded {
        let _inside = lock::enter_threaded();
        roll::called(fun.0);
        let cx = process();
        return ended(cx, fun, on, body(cx), give_nulls);
    }
    if phase == Phase::Always {
        let _inside = lock::enter_any_time();
        roll::called(fun.0);
        let cx = process();
        return ended(cx, fun, on, body(cx), give_nulls);
    }
    let _inside = lock::enter();
    roll::called(fun.0);
    let cx = process();
    if cx.life.stage.get() != Stage::Active && !checked(cx, fun) && !simulated(cx, fun) {
        give_nulls();
        return not_now(cx, fun);
    }
    ended(cx, fun, on, body(cx), give_nulls)
}

/// As [`call`], of the tool information interface: at any time, and an error is what the function returns and nothing else.
pub(crate) fn tool(fun: Fun, body: impl FnOnce(&'static Cx) -> Result<()>) -> c_int {
    let _inside = lock::enter();
    roll::called(fun.0);
    match body(process()) {
        Ok(()) => 0,
        Err(error) => error.class.0,
    }
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

/// As [`call`], with a body of its own for a program that is checked.
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
        if cx.life.stage.get() != Stage::Active && !simulated(cx, fun) {
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
        roll::called(fun.0);
        return run(process());
    }
    let _inside = lock::enter();
    roll::called(fun.0);
    run(process())
}

/// Whether this is a call of a program that is checked, noted then.
#[cold]
#[inline(never)]
fn checked(cx: &'static Cx, fun: Fun) -> bool {
    let checked = cx.life.stage.get() == Stage::Checked;
    if checked && let Some(check) = check::of(cx) {
        check.enter(cx, fun);
        tell_machine(cx, fun);
    }
    checked
}

/// Whether this is a call of a simulated program, told to its machine then.
#[cold]
#[inline(never)]
fn simulated(cx: &'static Cx, fun: Fun) -> bool {
    let simulated = cx.life.stage.get() == Stage::Simulated;
    if simulated {
        tell_machine(cx, fun);
    }
    simulated
}

/// The program calls this function, if it is simulated.
fn tell_machine(cx: &'static Cx, fun: Fun) {
    if let Some(link) = cx.node.get().and_then(Node::simulated) {
        link.enter(fun.name());
    }
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
    let result = match check::of(cx) {
        Some(check) => body(cx, check),
        None => Ok(()),
    };
    ended(cx, fun, on, result, give_nulls)
}

#[cold]
#[inline(never)]
pub(crate) fn not_now(cx: &Cx, fun: Fun) -> c_int {
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
        Stage::After if cx.life.world_model.get() == WorldModel::Before => {
            "called after MPI_Session_finalize of the last session: nothing can be communicated before MPI_Init or a new one"
        }
        Stage::After => "called after MPI_Finalize: nothing can be communicated any more",
        _ => "called before MPI_Init (or MPI_Init_thread, MPI_Session_init)",
    };
    Error::new(ErrorClass::ERR_OTHER, message)
}

/// An error on its way to the program: through the error handler, then as a code.
#[cold]
#[inline(never)]
pub(crate) fn raise(cx: &Cx, fun: Fun, on: On, error: &Error) -> c_int {
    let placed;
    let error = match check::of(cx) {
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
    match on {
        On::Session(handle) => {
            if let Some(session) = cx.world.get().and_then(|world| world.session(handle)) {
                let handler = session.errhandler.borrow().clone();
                return tell(cx, fun, &handler, handle, "the session", code, error);
            }
        }
        On::Errhandler(handle) => {
            if let Ok(handler) = cx.objects.errhandler("errhandler", handle) {
                return tell(
                    cx,
                    fun,
                    &handler,
                    null_of(&handler),
                    "what it was to make",
                    code,
                    error,
                );
            }
        }
        _ => {}
    }
    if !cx.life.stage.get().is_active() {
        // Before and after there is no object that could have a handler: errors are fatal, as by default
        // (MPI-5.0 section 9.3), but for the functions that report on errors themselves.
        fatal(cx, fun, error, "errors are fatal while MPI is not initialised");
    }
    let world = cx.world();
    if let On::Win(handle) = on
        && let Some(win) = cx.windows.get().and_then(|windows| windows.get(handle))
    {
        let handler = win.errhandler.borrow().clone();
        return match handler.raise(handle, code) {
            Outcome::Return(code) => code,
            Outcome::AbortJob(_) | Outcome::AbortObject(_) => fatal(
                cx,
                fun,
                error,
                "errors on a window are fatal (MPI_ERRORS_ARE_FATAL) until MPI_Win_set_errhandler says otherwise",
            ),
        };
    }
    let comm = match on {
        On::Comm(handle) => world.comm(handle),
        On::Request => Some(
            world
                .take_failed_comm()
                .unwrap_or_else(|| world.comm_world().clone()),
        ),
        On::Nothing | On::Win(_) | On::File(_) | On::Session(_) | On::Errhandler(_) => None,
    };
    if comm.is_none() && cx.life.world_model.get() != WorldModel::Initialised {
        // MPI_COMM_SELF is of the world model: without it the initial error handler hears.
        fatal(
            cx,
            fun,
            error,
            "errors of no communicator and no session are fatal outside of MPI_Init and MPI_Finalize",
        );
    }
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
    tell(
        cx,
        fun,
        &handler,
        comm.handle.get(),
        &comm_name(comm),
        code,
        error,
    )
}

/// Runs an error handler of the object `handle`, which a sentence calls `name`.
fn tell(
    cx: &Cx,
    fun: Fun,
    handler: &ErrorHandler,
    handle: usize,
    name: &str,
    code: c_int,
    error: &Error,
) -> c_int {
    match handler.raise(handle, code) {
        Outcome::Return(code) => code,
        Outcome::AbortJob(_) | Outcome::AbortObject(_) => {
            let why = format!("errors on {name} are fatal (MPI_ERRORS_ARE_FATAL)");
            fatal(cx, fun, error, &why)
        }
    }
}

/// The handle that is no object of those which `handler` is for.
fn null_of(handler: &ErrorHandler) -> usize {
    match handler {
        ErrorHandler::User(user) if user.kind() == HandlerKind::Session => abi::MPI_SESSION_NULL,
        _ => abi::MPI_COMM_NULL,
    }
}

/// Say what happened and end the job.
#[cold]
fn fatal(cx: &Cx, fun: Fun, error: &Error, why: &str) -> ! {
    let class = error.class.name().unwrap_or("an error class of the program");
    let message = format!("{}: {} ({class}); {why}", fun.name(), error.message);
    cx.abort(error.class.0.clamp(1, 255), &message)
}

/// A function without a body.
#[cold]
pub(crate) fn unsupported(fun: Fun, phase: Phase, on: On, give_nulls: impl FnOnce()) -> c_int {
    let message = "not in this version of Farpost (`farpost info --api` lists what is)";
    let refuse = |_: &'static Cx| Err(Error::new(ErrorClass::ERR_UNSUPPORTED_OPERATION, message));
    call(fun, phase, on, refuse, give_nulls)
}
