//! The names of MPI's functions, and a function by its number among them.

include!(concat!(env!("OUT_DIR"), "/names.rs"));

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
