//! Attribute caching (MPI-5.0 section 7.7).
//!
//! Callbacks are the user's and may call back into the library for the same object, so every function here
//! that runs one works on a copy of what it needs and holds no borrow meanwhile. An attribute stays visible
//! while its delete callback runs and goes when the callback succeeded.
//!
//! Cost: looking up an attribute is a scan of the few an object has; everything else is set-up path.

mod keyval;
mod predefined;
mod set;
#[cfg(test)]
mod tests;

pub use keyval::{CopyFn, DeleteFn, Keyval, Keyvals, ObjectKind};
pub use predefined::{CommAttributes, CommKey, KEYVAL_INVALID, WinKey};
pub use set::{AttrSet, Attribute};
