//! Refusals: why a job is not started.

/// A refusal with its sentence, formatted as by [`format!`]: `refusal!(usage: "-n {text}: must be a number")`.
macro_rules! refusal {
    ($why:ident: $($sentence:tt)+) => { $crate::refusal::Refusal::$why(format!($($sentence)+)) };
}

/// A result that is such a [`refusal!`].
macro_rules! refuse {
    ($why:ident: $($sentence:tt)+) => { Err(refusal!($why: $($sentence)+)) };
}

/// Why a job was not started: one line, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong and what is allowed.
    pub text: String,
    /// mpiexec's exit code.
    pub code: i32,
}

impl Refusal {
    /// The command line is wrong.
    pub(crate) fn usage(text: impl Into<String>) -> Refusal {
        Refusal {
            text: text.into(),
            code: 2,
        }
    }

    /// The system does not let us.
    pub(crate) fn system(text: impl Into<String>) -> Refusal {
        Refusal {
            text: text.into(),
            code: 1,
        }
    }
}
