//! Objects that exist without communication, by handle: they may be made before MPI_Init and freed after
//! MPI_Finalize.
//!
//! Requirements of MPI-5.0 section 7.3.3.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::OnceLock;

use farpost_mpi::attr::Keyvals;
use farpost_mpi::datatype::Types;
use farpost_mpi::errhandler::{ErrorHandler, UserHandler};
use farpost_mpi::errors::ErrorCodes;
use farpost_mpi::group::Group;
use farpost_mpi::handle::{HandleKind, HandleTable};
use farpost_mpi::info::Info;
use farpost_mpi::op::Ops;
use farpost_mpi::{Error, ErrorClass, Result, fail};

use crate::abi;

pub(crate) type InfoRef = Rc<RefCell<Info>>;

/// What is known of a handle that is dead, where somebody keeps account.
static HISTORY: OnceLock<fn(usize) -> String> = OnceLock::new();

/// From now on errors about dead handles tell what `history` knows of them.
pub(crate) fn tell_history(history: fn(usize) -> String) {
    let _ = HISTORY.set(history);
}

/// The tables. No borrow of one is held while a function of the program's runs.
pub(crate) struct Objects {
    /// Sentences behind error codes, and the program's own classes and codes.
    pub(crate) codes: ErrorCodes,
    infos: RefCell<HandleTable<InfoRef>>,
    /// MPI_INFO_ENV; empty until the world says how the program was started.
    pub(crate) environment: InfoRef,
    groups: RefCell<HandleTable<Group>>,
    pub(crate) types: RefCell<Types>,
    pub(crate) ops: RefCell<Ops>,
    pub(crate) keyvals: Keyvals,
    errhandlers: RefCell<HandleTable<Rc<UserHandler>>>,
    /// What MPI_Abi_set_fortran_info was told.
    pub(crate) fortran_info: RefCell<Option<Info>>,
    /// The bytes of .TRUE. and .FALSE., once MPI_Abi_set_fortran_booleans was told.
    pub(crate) fortran_booleans: RefCell<Option<(Vec<u8>, Vec<u8>)>>,
}

impl Objects {
    pub(crate) fn new() -> Self {
        Self {
            codes: ErrorCodes::new(),
            infos: RefCell::new(HandleTable::new(HandleKind::Info)),
            environment: Rc::new(RefCell::new(Info::new().into_read_only())),
            groups: RefCell::new(HandleTable::new(HandleKind::Group)),
            types: RefCell::new(Types::new()),
            ops: RefCell::new(Ops::new()),
            keyvals: Keyvals::new(),
            errhandlers: RefCell::new(HandleTable::new(HandleKind::Errhandler)),
            fortran_info: RefCell::new(None),
            fortran_booleans: RefCell::new(None),
        }
    }

    /// Gives an info object a handle.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when there are too many.
    pub(crate) fn new_info(&self, info: Info) -> Result<usize> {
        self.infos.borrow_mut().insert(Rc::new(RefCell::new(info)))
    }

    /// The info object of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_INFO`: null, freed or never one.
    pub(crate) fn info(&self, argument: &'static str, handle: usize) -> Result<InfoRef> {
        if handle == abi::MPI_INFO_ENV {
            return Ok(self.environment.clone());
        }
        let found = self.infos.borrow().get(handle).cloned();
        found.ok_or_else(|| no_object(argument, handle, ErrorClass::ERR_INFO))
    }

    /// As `info`, `None` for MPI_INFO_NULL.
    pub(crate) fn info_or_null(&self, argument: &'static str, handle: usize) -> Result<Option<InfoRef>> {
        let given = handle != abi::MPI_INFO_NULL;
        given.then(|| self.info(argument, handle)).transpose()
    }

    /// `MPI_Info_free`.
    ///
    /// # Errors
    /// `MPI_ERR_INFO`: MPI_INFO_ENV, or no info object.
    pub(crate) fn free_info(&self, handle: usize) -> Result<()> {
        if handle == abi::MPI_INFO_ENV {
            return fail!(ERR_INFO: "info=MPI_INFO_ENV: a predefined info object cannot be freed");
        }
        let found = self.infos.borrow_mut().remove(handle);
        found
            .map(drop)
            .ok_or_else(|| no_object("info", handle, ErrorClass::ERR_INFO))
    }

    /// Gives a group a handle; the empty one has its own.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when there are too many.
    pub(crate) fn new_group(&self, group: Group) -> Result<usize> {
        if group.is_empty() {
            Ok(abi::MPI_GROUP_EMPTY)
        } else {
            self.groups.borrow_mut().insert(group)
        }
    }

    /// The group of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`: null, freed or never one.
    pub(crate) fn group(&self, argument: &'static str, handle: usize) -> Result<Group> {
        if handle == abi::MPI_GROUP_EMPTY {
            return Ok(Group::empty());
        }
        let found = self.groups.borrow().get(handle).cloned();
        found.ok_or_else(|| no_object(argument, handle, ErrorClass::ERR_GROUP))
    }

    /// The group that the program knows as this integer.
    pub(crate) fn group_from_int(&self, int: i32) -> Option<usize> {
        self.groups.borrow().from_int(int)
    }

    /// The info object that the program knows as this integer.
    pub(crate) fn info_from_int(&self, int: i32) -> Option<usize> {
        self.infos.borrow().from_int(int)
    }

    /// The error handler that the program knows as this integer.
    pub(crate) fn errhandler_from_int(&self, int: i32) -> Option<usize> {
        self.errhandlers.borrow().from_int(int)
    }

    /// `MPI_Group_free`. Freeing MPI_GROUP_EMPTY is allowed and does nothing.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`: no group.
    pub(crate) fn free_group(&self, handle: usize) -> Result<()> {
        if handle == abi::MPI_GROUP_EMPTY {
            return Ok(());
        }
        let found = self.groups.borrow_mut().remove(handle);
        found
            .map(drop)
            .ok_or_else(|| no_object("group", handle, ErrorClass::ERR_GROUP))
    }

    /// Gives an error handler of the program's a handle.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when there are too many.
    pub(crate) fn new_errhandler(&self, handler: Rc<UserHandler>) -> Result<usize> {
        let handle = self.errhandlers.borrow_mut().insert(handler.clone())?;
        handler.set_handle(handle);
        Ok(handle)
    }

    /// The error handler of a handle argument.
    ///
    /// # Errors
    /// `MPI_ERR_ERRHANDLER`: null, freed or never one.
    pub(crate) fn errhandler(&self, argument: &'static str, handle: usize) -> Result<ErrorHandler> {
        if let Some(predefined) = ErrorHandler::predefined(handle) {
            return Ok(predefined);
        }
        let found = self.errhandlers.borrow().get(handle).cloned();
        let found = found.map(ErrorHandler::User);
        found.ok_or_else(|| no_object(argument, handle, ErrorClass::ERR_ERRHANDLER))
    }

    /// The handle of an object's error handler for the program (`MPI_Comm_get_errhandler`), which frees it.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when there are too many.
    pub(crate) fn errhandler_handle(&self, handler: &ErrorHandler) -> Result<usize> {
        if let ErrorHandler::User(user) = handler
            && user.retain()
        {
            return self.new_errhandler(user.clone());
        }
        Ok(handler.handle())
    }

    /// `MPI_Errhandler_free`. Freeing a predefined one is allowed: MPI_Comm_get_errhandler gave it out.
    ///
    /// # Errors
    /// `MPI_ERR_ERRHANDLER`: no error handler.
    pub(crate) fn free_errhandler(&self, handle: usize) -> Result<()> {
        if let ErrorHandler::User(user) = self.errhandler("errhandler", handle)?
            && user.release()
        {
            self.errhandlers.borrow_mut().remove(handle);
        }
        Ok(())
    }
}

/// The error for a handle that is no live object of its kind. `class` tells which kind.
#[cold]
pub(crate) fn no_object(argument: &str, handle: usize, class: ErrorClass) -> Error {
    let (what, name, null) = match class {
        ErrorClass::ERR_COMM => ("a communicator", "MPI_COMM_NULL", abi::MPI_COMM_NULL),
        ErrorClass::ERR_GROUP => ("a group", "MPI_GROUP_NULL", abi::MPI_GROUP_NULL),
        ErrorClass::ERR_INFO => ("an info object", "MPI_INFO_NULL", abi::MPI_INFO_NULL),
        ErrorClass::ERR_TYPE => ("a datatype", "MPI_DATATYPE_NULL", abi::MPI_DATATYPE_NULL),
        ErrorClass::ERR_OP => ("an operation", "MPI_OP_NULL", abi::MPI_OP_NULL),
        ErrorClass::ERR_WIN => ("a window", "MPI_WIN_NULL", abi::MPI_WIN_NULL),
        ErrorClass::ERR_REQUEST => ("a request", "MPI_REQUEST_NULL", abi::MPI_REQUEST_NULL),
        ErrorClass::ERR_SESSION => ("a session", "MPI_SESSION_NULL", abi::MPI_SESSION_NULL),
        _ => (
            "an error handler",
            "MPI_ERRHANDLER_NULL",
            abi::MPI_ERRHANDLER_NULL,
        ),
    };
    if handle == null {
        return Error::new(class, format!("{argument}={name}: {what} is needed"));
    }
    let gone = if class == ErrorClass::ERR_SESSION {
        "finalised"
    } else {
        "freed"
    };
    let history = HISTORY.get().map_or_else(String::new, |of| of(handle));
    Error::new(
        class,
        format!("{argument}={handle:#x}: not {what}, or already {gone}{history}"),
    )
}
