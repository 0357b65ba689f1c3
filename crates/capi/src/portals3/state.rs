//! What Portals keeps for the process: whether it is initialised, the open interface, and who everybody is.

use core::ffi::c_int;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use farpost_job::Job;
use farpost_portals::{Error, Handle, Kind, ProcessId};

use crate::cx::{Cx, Kept};

use super::words::fail;

/// Why a call does not succeed: a code, and a sentence unless the code says everything.
pub(super) struct Failure {
    pub code: Error,
    pub why: String,
}

impl Failure {
    pub fn new(code: Error, why: impl Into<String>) -> Self {
        Self {
            code,
            why: why.into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(code: Error) -> Self {
        Self::new(code, "")
    }
}

/// What a body answers.
pub(super) type Answer<T = ()> = Result<T, Failure>;

/// An open interface.
pub(super) struct Ni {
    pub handle: Handle,
    pub job: Rc<Job>,
    /// Process ids by rank.
    pub ids: Rc<[ProcessId]>,
    pub uid: u32,
    pub jid: u32,
}

impl Ni {
    /// The rank of a process.
    pub fn rank_of(&self, id: ProcessId) -> Option<u32> {
        self.ids.iter().position(|known| *known == id).map(|at| at as u32)
    }
}

/// See the [module](self).
pub(super) struct State {
    /// Between PtlInit and PtlFini.
    pub initialised: Cell<bool>,
    pub open: RefCell<Option<Rc<Ni>>>,
    /// How often the interface was opened: handles of former times are stale.
    pub opened: Cell<u32>,
}

static STATE: Kept<State> = Kept::new();

/// The state, made when first asked for.
#[inline(always)]
pub(super) fn state(cx: &'static Cx) -> &'static State {
    match STATE.get(cx) {
        Some(state) => state,
        None => first(cx),
    }
}

#[cold]
fn first(cx: &'static Cx) -> &'static State {
    STATE.keep(
        cx,
        State {
            initialised: Cell::new(false),
            open: RefCell::new(None),
            opened: Cell::new(0),
        },
    )
}

impl State {
    /// # Errors
    /// Before PtlInit and after PtlFini.
    #[inline(always)]
    pub fn ready(&self) -> Answer {
        if self.initialised.get() {
            Ok(())
        } else {
            Err(Error::NoInit.into())
        }
    }

    /// The open interface that a handle of its own names.
    ///
    /// # Errors
    /// Not initialised, or not its handle.
    pub fn interface(&self, handle: u32) -> Answer<Rc<Ni>> {
        self.ready()?;
        match &*self.open.borrow() {
            Some(ni) if ni.handle == Handle(handle) => Ok(Rc::clone(ni)),
            _ => Err(Failure::new(
                Error::NiInvalid,
                format!("ni_handle={handle:#x}: not the handle of an open interface"),
            )),
        }
    }
}

/// The handle of an interface that is opened for the `opened`th time.
pub(super) fn ni_handle(opened: u32) -> Handle {
    Handle::new(Kind::Ni, 0, 0, opened)
}

/// `PTL_OK`, or the code of a failure, whose sentence is kept.
#[inline(always)]
pub(super) fn code(cx: &'static Cx, function: &str, answer: Answer) -> c_int {
    match answer {
        Ok(()) => 0,
        Err(failure) => failed(cx, function, &failure),
    }
}

#[cold]
fn failed(cx: &'static Cx, function: &str, failure: &Failure) -> c_int {
    let code = failure.code;
    if matches!(code, Error::EqEmpty | Error::EqDropped | Error::MdNoUpdate) {
        // The ordinary way of things, often in loops.
        return code.code();
    }
    let sentence = if failure.why.is_empty() {
        format!("{function}: {code}")
    } else {
        format!("{function}: {}", failure.why)
    };
    fail(cx, code.code(), &sentence)
}

/// # Errors
/// A pointer that may not be null is.
#[inline(always)]
pub(super) fn there<T>(name: &str, pointer: *const T) -> Answer {
    if pointer.is_null() {
        return Err(null(name));
    }
    Ok(())
}

#[cold]
fn null(name: &str) -> Failure {
    Failure::new(Error::Segv, format!("{name} is NULL"))
}
