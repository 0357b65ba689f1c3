//! Point-to-point communication (MPI-5.0 chapter 3): what is the same whatever carries messages.

mod cancel;
mod probe;
mod receive;
mod send;

pub use crate::engine::request::Mode;
pub use probe::Matched;
