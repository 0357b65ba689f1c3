//! The hand-written bodies of the entry points, a file a chapter of the standard.
//!
//! A body is a `pub(crate) fn mpi_x` at the start of a line; the build script finds it by that, and a function
//! without one raises `MPI_ERR_UNSUPPORTED_OPERATION`. What arguments it gets is documented in `args`.

pub(crate) mod env;
pub(crate) mod errors;
pub(crate) mod group;
pub(crate) mod handles;
pub(crate) mod info;
