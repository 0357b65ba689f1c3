//! How a world makes and frees communicators: one file per family of functions.
//!
//! Cost class: set-up path. A new communicator is numbered by one of its members (rank 0; of an intercommunicator rank 0 of the group
//! whose rank 0 has the lower process number), who tells the others; nobody outside of it takes part in that.

mod create;
mod dup;
mod free;
mod inter;
mod split;
mod talk;
mod topology;

pub(super) use dup::PendingDup;
