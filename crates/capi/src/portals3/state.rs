//! What Portals keeps for the process: whether it is initialised, the open interfaces, and who everybody is.

use core::ffi::c_int;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use farpost_job::Job;
use farpost_node::NodeFabric;
use farpost_portals::host::INTERFACE as HOST;
use farpost_portals::interface::BESIDE;
use farpost_portals::{AnyInterface, Error, Handle, Limits, NetworkInterface, ProcessId};

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
    /// Of each rank, the number among the interface's processes of its interface of the same kind, or of its only one.
    pub numbers: Rc<[u32]>,
    pub handlers: Handlers,
}

impl Ni {
    /// What rank `rank` is called here.
    pub fn id(&self, rank: u32) -> Option<ProcessId> {
        let number = *self.numbers.get(rank as usize)?;
        Some(self.interface.processes().identity(number)?.id)
    }
}

/// One of the job's interfaces in this process.
#[derive(Default)]
pub(super) struct OfJob {
    pub open: RefCell<Option<Rc<Ni>>>,
    /// What is opened and closed: there is one, since it has the fabric's packets or the agent's mailbox.
    pub interface: RefCell<Option<Rc<AnyInterface<NodeFabric>>>>,
    /// How often it was opened: handles of former times are stale.
    pub opened: Cell<u32>,
}

/// See the [module](self).
pub(super) struct PortalsState {
    /// Between PtlInit and PtlFini.
    pub initialised: Cell<bool>,
    /// The interface by way of an agent where mpiexec has started the process for one, otherwise the inline one.
    pub job: OfJob,
    /// The inline interface of a process that mpiexec has started for an agent.
    pub beside: OfJob,
    /// The interface of this host, beside the job's, while it is open.
    pub host: RefCell<Option<Rc<Ni>>>,
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
            job: OfJob::default(),
            beside: OfJob::default(),
            host: RefCell::new(None),
        },
    )
}

impl PortalsState {
    /// Where the interface is kept that an object's handle names: the one beside an agent's, the host's, or else the job's.
    #[inline(always)]
    fn of(&self, handle: u32) -> &RefCell<Option<Rc<Ni>>> {
        match Handle(handle).interface() {
            HOST => &self.host,
            BESIDE => &self.beside.open,
            _ => &self.job.open,
        }
    }

    /// Whether an interface beside an agent's has been open.
    #[inline(always)]
    pub fn has_beside(&self) -> bool {
        self.beside.interface.borrow().is_some()
    }

    /// All that are open.
    pub fn all(&self) -> impl Iterator<Item = Rc<Ni>> + '_ {
        let open = [&self.job.open, &self.beside.open, &self.host];
        open.into_iter().filter_map(|open| open.borrow().clone())
    }

    /// The interfaces of the job that have been open: what still comes for those that are closed is to be dropped.
    pub fn of_job(&self) -> [Option<Rc<AnyInterface<NodeFabric>>>; 2] {
        [&self.job, &self.beside].map(|it| it.interface.borrow().clone())
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
        let any = self.all().next();
        match any {
            Some(_) if matches!(Handle(handle).interface(), HOST | BESIDE) => Err(without.into()),
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
    let alone = state(cx).all().any(|ni| ni.interface.agent_has_ended());
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
