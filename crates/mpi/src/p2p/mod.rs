//! Point-to-point communication (MPI-5.0 chapter 3): one protocol event per file.

pub(crate) mod bulk;
mod burst;
mod cancel;
mod eager;
pub(crate) mod grant;
mod own;
mod probe;
mod receive;
mod remote;
mod rendezvous;
mod stream;
mod tail;

pub use eager::Mode;
pub(crate) use eager::bytes_in_pieces;
pub use probe::Matched;
pub use receive::Short;
pub(crate) use receive::{fit, note_match};
