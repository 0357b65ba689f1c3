//! What Portals keeps for the process: whether it is initialised, the open interface, and who everybody is.

use core::ffi::c_int;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use farpost_job::Job;
use farpost_node::NodeFabric;
use farpost_portals::host::INTERFACE as HOST;
use farpost_portals::{AnyInterface, Error, Handle, Limits, ProcessId};

use crate::cx::{Cx, ProcessCell};
use crate::interfaces::{self, Place, refuse};

use super::error_text::fail;
use super::handlers::Handlers;

pub(crate) type Failure = interfaces::Failure<Error>;

impl From<Error> for Failure {
    fn from(code: Error) -> Self {
        Self::new(code, "")
    }
}

/// What a body answers.
pub(crate) type Answer<T = ()> = Result<T, Failure>;

/// An open interface.
pub(super) struct Ni {
    pub interface: Rc<AnyInterface<NodeFabric>>,
    pub handle: Handle,
    pub limits: Limits,
    pub job: Rc<Job>,
    /// Process ids by rank.
    pub ids: Rc<[ProcessId]>,
    pub handlers: Handlers,
}

/// See the [module](self).
pub(super) struct PortalsState {
    /// Between PtlInit and PtlFini.
    pub initialised: Cell<bool>,
    pub open: RefCell<Option<Rc<Ni>>>,
    /// The interface of this host, beside the job's, while it is open.
    pub host: RefCell<Option<Rc<Ni>>>,
    /// What is opened and closed: one for the process, since it has the fabric's packets.
    pub interface: RefCell<Option<Rc<AnyInterface<NodeFabric>>>>,
    /// How often it was opened: handles of former times are stale.
    pub opened: Cell<u32>,
}

static STATE: ProcessCell<PortalsState> = ProcessCell::new();

/// The state, made when first asked for.
#[inline(always)]
pub(super) fn state(cx: &'static Cx) -> &'static PortalsState {
    match STATE.get(cx) {
        Some(state) => state,
        None => first(cx),
    }
}

#[cold]
fn first(cx: &'static Cx) -> &'static PortalsState {
    STATE.keep(
        cx,
        PortalsState {
            initialised: Cell::new(false),
            open: RefCell::new(None),
            host: RefCell::new(None),
            interface: RefCell::new(None),
            opened: Cell::new(0),
        },
    )
}

impl PortalsState {
    /// Where the interface is kept that an object's handle names: the host's, or else the job's.
    #[inline(always)]
    fn of(&self, handle: u32) -> &RefCell<Option<Rc<Ni>>> {
        if Handle(handle).interface() == HOST {
            &self.host
        } else {
            &self.open
        }
    }

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
    #[inline(always)]
    pub fn interface(&self, handle: u32) -> Answer<Rc<Ni>> {
        self.ready()?;
        match &*self.of(handle).borrow() {
            Some(ni) if ni.handle == Handle(handle) => Ok(Rc::clone(ni)),
            _ => refuse!(Error::NiInvalid: "ni_handle={handle:#x}: not the handle of an open interface"),
        }
    }

    /// The open interface, for a call that names an object of it.
    ///
    /// # Errors
    /// Not initialised; `without` if none is open.
    #[inline(always)]
    pub fn any(&self, handle: u32, without: Error) -> Answer<Rc<Ni>> {
        self.ready()?;
        match &*self.of(handle).borrow() {
            Some(ni) => Ok(Rc::clone(ni)),
            None => self.none(handle, without),
        }
    }

    #[cold]
    fn none(&self, handle: u32, without: Error) -> Answer<Rc<Ni>> {
        // What is open says what is wrong with a handle that is of neither.
        let any = self.open.borrow().clone().or_else(|| self.host.borrow().clone());
        match any {
            Some(_) if Handle(handle).interface() == HOST => Err(without.into()),
            Some(ni) => Ok(ni),
            None => refuse!(without: "no interface is open: call PtlNIInit first"),
        }
    }
}

/// `PTL_OK`, or the code of a failure, whose sentence is kept: function, arguments, what is wrong.
impl interfaces::Answer<c_int> for Answer {
    #[inline(always)]
    fn told(self, cx: &'static Cx, function: &'static str, arguments: impl FnOnce() -> String) -> c_int {
        match self {
            Ok(()) => 0,
            // The ordinary way of things, often in loops.
            Err(Failure {
                code: code @ (Error::EqEmpty | Error::EqDropped | Error::MdNoUpdate),
                ..
            }) => code.code(),
            Err(failure) => failed(cx, function, &failure, arguments()),
        }
    }
}

#[cold]
#[inline(never)]
fn failed(cx: &'static Cx, function: &str, failure: &Failure, arguments: String) -> c_int {
    let code = failure.code;
    let ended = |open: &RefCell<Option<Rc<Ni>>>| {
        open.borrow()
            .as_ref()
            .is_some_and(|ni| ni.interface.agent_has_ended())
    };
    let alone = ended(&state(cx).open) || ended(&state(cx).host);
    let sentence = if failure.why.is_empty() && code == Error::Fail && alone {
        format!(
            "{function}({arguments}): this host's Portals agent has ended, or does not serve this process any longer"
        )
    } else if failure.why.is_empty() {
        format!("{function}({arguments}): {code}")
    } else {
        format!("{function}: {}", failure.why)
    };
    fail(code.code(), &sentence)
}

/// # Errors
/// A pointer that may not be null is.
#[inline(always)]
pub(super) fn there<T>(name: &str, place: Place<T>) -> Answer {
    if place.is_null() {
        return null(name);
    }
    Ok(())
}

#[cold]
fn null(name: &str) -> Answer {
    refuse!(Error::Segv: "{name} is NULL")
}
