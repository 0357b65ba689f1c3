//! Error classes and the error value of the MPI layer (MPI-5.0 chapter 9.4).

/// An error of the named class with a sentence, formatted as by [`format!`]: `error!(ERR_ARG: "n={n}: too many")`.
#[macro_export]
macro_rules! error {
    ($class:ident: $($sentence:tt)+) => { $crate::Error::new($crate::ErrorClass::$class, format!($($sentence)+)) };
}

/// A result that is such an [`error!`].
#[macro_export]
macro_rules! fail {
    ($class:ident: $($sentence:tt)+) => { Err($crate::error!($class: $($sentence)+)) };
}

mod class;
mod codes;
#[cfg(test)]
mod tests;
mod text;
mod user;

pub use class::ErrorClass;
pub use codes::{ErrorCodes, LASTCODE, MAX_ERROR_STRING};

/// Result of an MPI operation.
pub type Result<T> = core::result::Result<T, Error>;

/// What went wrong: the standard's class, and one sentence with the argument, its value and what is
/// allowed. The C layer puts the function's name in front.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The standard's error class.
    pub class: ErrorClass,
    /// For example `dest=7: MPI_COMM_WORLD has ranks 0 to 1`.
    pub message: String,
}

impl Error {
    /// An error of `class` saying `message`.
    #[cold]
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
        }
    }
}
