//! The seam between the generated entry points and the library: entering and leaving, handles to objects, and
//! the way of an error to the program.

#![allow(dead_code)]

use core::ffi::c_int;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::OnceLock;

use farpost_mpi::datatype::Datatype;
use farpost_mpi::group::Group;
use farpost_mpi::info::Info;
use farpost_mpi::op::Op;
use farpost_mpi::{Error, ErrorClass, Result};

use crate::abi;
use crate::entry::NAMES;
use crate::objects::{Objects, no_object};

/// A function of the interface.
#[derive(Clone, Copy)]
pub(crate) struct Fun(pub(crate) u16);

impl Fun {
    /// Its C name.
    pub(crate) fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
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
/// not valid, MPI_COMM_SELF's.
#[derive(Clone, Copy)]
pub(crate) enum On {
    Nothing,
    Comm(usize),
    Win(usize),
    File(usize),
    Session(usize),
}

/// The library, entered.
pub(crate) struct Cx {
    pub(crate) objects: Objects,
}

pub(crate) type CommRef = ();
pub(crate) type GroupRef = Group;
pub(crate) type InfoRef = Rc<RefCell<Info>>;
pub(crate) type OpRef = Op;
pub(crate) type TypeRef = Datatype;

struct Process(Cx);

// SAFETY: reached through `call` only, which lets one thread in at a time.
unsafe impl Send for Process {}
// SAFETY: as above.
unsafe impl Sync for Process {}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// Enters the library, runs the checks and the body, leaves, and turns an error into a code.
#[inline(always)]
pub(crate) fn call(fun: Fun, phase: Phase, on: On, body: impl FnOnce(&Cx) -> Result<()>) -> c_int {
    let _ = phase;
    let Process(cx) = PROCESS.get_or_init(|| {
        Process(Cx {
            objects: Objects::new(),
        })
    });
    match body(cx) {
        Ok(()) => 0,
        Err(error) => raise(cx, fun, on, &error),
    }
}

/// An error on its way to the program: through the error handler, then as a code.
#[cold]
#[inline(never)]
pub(crate) fn raise(cx: &Cx, fun: Fun, on: On, error: &Error) -> c_int {
    let (On::Nothing | On::Comm(_) | On::Win(_) | On::File(_) | On::Session(_)) = on;
    cx.objects.codes.code(fun.name(), error)
}

/// A function without a body.
#[cold]
pub(crate) fn unsupported(fun: Fun, phase: Phase, on: On) -> c_int {
    let message = "not in this version of Farpost (`farpost info --api` lists what is)";
    call(fun, phase, on, |_| {
        Err(Error::new(ErrorClass::ERR_UNSUPPORTED_OPERATION, message))
    })
}

/// Processes a message on `comm` can go to: those of its group, or of the remote group.
#[inline(always)]
pub(crate) fn peers(_comm: &CommRef) -> c_int {
    0
}

/// Is it an intercommunicator?
pub(crate) fn is_inter(_comm: &CommRef) -> bool {
    false
}

/// What to call `comm` in a message.
pub(crate) fn comm_name(_comm: &CommRef) -> String {
    "the communicator".into()
}

/// May elements of this type lie at absolute addresses, so that a null buffer makes sense?
pub(crate) fn may_be_absolute(datatype: &Datatype) -> bool {
    // No program has data in the lowest page.
    !(0..4096).contains(&datatype.true_lb())
}

#[cold]
#[inline(never)]
fn uncommitted(argument: &str, datatype: &Datatype) -> Error {
    let message = format!(
        "{argument}={}: must be committed first (MPI_Type_commit)",
        datatype.describe()
    );
    Error::new(ErrorClass::ERR_TYPE, message)
}

impl Cx {
    /// The communicator of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: null, freed or never one.
    #[inline(always)]
    pub(crate) fn comm(&self, _argument: &'static str, _handle: usize) -> Result<CommRef> {
        Ok(())
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
        Ok(0)
    }
}
