//! Point-to-point communication (MPI-5.0 chapter 3): what is the same whatever carries messages.

pub(crate) mod bulk;
mod cancel;
mod probe;
mod receive;
mod self_send;
mod send;

pub use probe::Matched;
pub(crate) use receive::{fit, note_match};
pub use send::Mode;
