//! The ways to get a message from one rank to another that are measured side by side: each interface of the library as a C
//! program uses it, and below them the bare cache line and the least that a queue can be.

mod bare;
mod cilk;
mod ends;
mod fm;
mod jam;
mod layer;
mod library;
mod mpi;
mod portals;
mod rsm;
mod sink;

pub use bare::Bare;
pub use cilk::Cilk;
pub use ends::{Block, Ends, HUGE, LARGEST, Link, MOST_PERTURBED, REQUEST};
pub use fm::Fm;
pub use jam::Jam;
pub use layer::Layer;
pub(crate) use layer::UNSET;
pub use mpi::Mpi;
pub use portals::{AHEAD, Portals};
pub use rsm::Rsm;
