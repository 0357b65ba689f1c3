//! `libmpi_abi.so.1`: the C entry points of MPI, their argument checks and handles. The only place with
//! process-global state.
//!
//! The entry points are generated (`entry`); each checks its arguments (`args`), enters the library (`cx`) and
//! calls a hand-written body in `imp`, a file a chapter of the standard.

pub mod abi;
pub mod api_status;
mod args;
mod cx;
mod entry;
mod fast;
mod imp;
mod lock;
mod network;
mod objects;
mod process;
mod settings;
