//! Error handlers (MPI-5.0 section 9.3).
//!
//! Cost: nothing here is touched while there is no error.
//!
//! Requirements of MPI-5.0 section 9.3.4.

#[cfg(test)]
mod tests;

use crate::Result;
use std::cell::Cell;
use std::rc::Rc;

/// The kind of object an error handler is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerKind {
    Comm,
    Win,
    File,
    Session,
}

/// What to do about an error on an object. Cheap to clone.
#[derive(Clone, Debug)]
pub enum ErrorHandler {
    /// `MPI_ERRORS_ARE_FATAL`: end the whole job (all connected processes).
    AreFatal,
    /// `MPI_ERRORS_ABORT`: end the processes of the object.
    Abort,
    /// `MPI_ERRORS_RETURN`: return the error code.
    Return,
    /// The user's function, then return the error code.
    User(Rc<UserHandler>),
}

/// What is left to do for whoever raised an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Return this error code from the MPI function.
    Return(i32),
    /// Print the error and end all connected processes with this code.
    AbortJob(i32),
    /// Print the error and end the processes of the object with this code.
    AbortObject(i32),
}

/// An error handler made by `MPI_Comm_create_errhandler` and its kin.
///
/// It lives as long as the user's handle or an object has it. `MPI_Comm_get_errhandler` gives the user another
/// reference to the same handle, so the references behind the handle are counted apart.
pub struct UserHandler {
    kind: HandlerKind,
    call: Box<HandlerCall>,
    handle: Cell<usize>,
    references: Cell<u32>,
}

/// The user's function: (handle of the object, error code).
pub type HandlerCall = dyn Fn(usize, i32);

impl UserHandler {
    /// A handler for objects of `kind`, with one reference of the user's and no handle yet.
    pub fn new(kind: HandlerKind, call: impl Fn(usize, i32) + 'static) -> Rc<Self> {
        Rc::new(Self {
            kind,
            call: Box::new(call),
            handle: Cell::new(0),
            references: Cell::new(1),
        })
    }

    /// The kind of object it is for.
    pub fn kind(&self) -> HandlerKind {
        self.kind
    }

    /// The handle C knows it by; 0 when it has none.
    pub fn handle(&self) -> usize {
        self.handle.get()
    }

    /// Notes the handle it was given in a handle table.
    pub fn set_handle(&self, handle: usize) {
        self.handle.set(handle);
    }

    /// One more reference of the user's. True when the user had none before: it then needs a handle again.
    pub fn retain(&self) -> bool {
        let before = self.references.get();
        self.references.set(before + 1);
        before == 0
    }

    /// `MPI_Errhandler_free`. True when that was the last reference of the user's: the handle then leaves its table, and
    /// objects keep the handler itself.
    pub fn release(&self) -> bool {
        let left = self.references.get().saturating_sub(1);
        self.references.set(left);
        if left == 0 {
            self.handle.set(0);
        }
        left == 0
    }
}

impl core::fmt::Debug for UserHandler {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "UserHandler({:?}, {:#x})", self.kind, self.handle.get())
    }
}

impl ErrorHandler {
    /// The predefined handler with this ABI handle value.
    pub fn predefined(handle: usize) -> Option<Self> {
        match handle {
            0x141 => Some(Self::AreFatal),
            0x142 => Some(Self::Abort),
            0x143 => Some(Self::Return),
            _ => None,
        }
    }

    /// The handle value C sees; 0 for a user's handler without one (see [`UserHandler::retain`]).
    pub fn handle(&self) -> usize {
        match self {
            Self::AreFatal => 0x141,
            Self::Abort => 0x142,
            Self::Return => 0x143,
            Self::User(user) => user.handle(),
        }
    }

    /// The predefined handler with this value of the info key `mpi_initial_errhandler`.
    pub fn from_info_value(value: &str) -> Option<Self> {
        match value.trim() {
            "mpi_errors_are_fatal" => Some(Self::AreFatal),
            "mpi_errors_abort" => Some(Self::Abort),
            "mpi_errors_return" => Some(Self::Return),
            _ => None,
        }
    }

    /// Whether it may be set on an object of `kind`.
    ///
    /// # Errors
    /// `MPI_ERR_ERRHANDLER`: made for another kind of object.
    pub fn check_kind(&self, kind: HandlerKind) -> Result<()> {
        match self {
            Self::User(user) if user.kind != kind => {
                let (made, wanted) = (user.kind.name(), kind.name());
                let call = user.kind.create_call();
                fail!(ERR_ERRHANDLER: "errhandler: made by {call} for a {made}, not for a {wanted}")
            }
            _ => Ok(()),
        }
    }

    /// Handles the error `code` on the object with `handle`. Runs the user's function: no borrow may be held.
    pub fn raise(&self, handle: usize, code: i32) -> Outcome {
        match self {
            Self::AreFatal => Outcome::AbortJob(code),
            Self::Abort => Outcome::AbortObject(code),
            Self::Return => Outcome::Return(code),
            Self::User(user) => {
                (user.call)(handle, code);
                Outcome::Return(code)
            }
        }
    }
}

/// The same predefined handler, or the same one of the user's.
impl PartialEq for ErrorHandler {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::User(a), Self::User(b)) => Rc::ptr_eq(a, b),
            (a, b) => core::mem::discriminant(a) == core::mem::discriminant(b),
        }
    }
}

impl Eq for ErrorHandler {}

impl HandlerKind {
    fn name(self) -> &'static str {
        match self {
            Self::Comm => "communicator",
            Self::Win => "window",
            Self::File => "file",
            Self::Session => "session",
        }
    }

    fn create_call(self) -> &'static str {
        match self {
            Self::Comm => "MPI_Comm_create_errhandler",
            Self::Win => "MPI_Win_create_errhandler",
            Self::File => "MPI_File_create_errhandler",
            Self::Session => "MPI_Session_create_errhandler",
        }
    }
}
