//! Random legal MPI programs, each from a seed.
//!
//! [`generate`] makes a [`Plan`]: events (messages, collectives, communicators made and freed) whose calls have places in one global
//! order. [`Plan::lower`] sorts them into a [`Program`], a list of instructions for each thread of each rank, which
//! `crates/mpi/tests/generated.rs` interprets over worlds in one process, and which [`c::write_file`] prints as C.
//!
//! **Why such a program ends**, however little an implementation buffers: every call has a [`Place`] in the order, and each thread
//! makes its calls in that order. A call that may block is placed where everything that it needs has an earlier place, or the same
//! event as it and then the event was explored in all its interleavings ([`pool::explore`]). So by induction along the order no call
//! waits for ever.
//!
//! **What may be received** is said by the explorer too, a model of matching of a few lines: of each receive, the messages that some
//! interleaving gives it. Among messages of one sender with one tag the order of sending decides, so that source and tag of a status
//! and what was received before tell which message a buffer must hold, byte by byte.
#![forbid(unsafe_code)]

pub mod c;
mod c_calls;
mod c_words;
mod choose;
pub mod comms;
pub mod events;
pub mod gen_coll;
pub mod gen_comm;
pub mod gen_more;
pub mod gen_p2p;
pub mod gen_roles;
pub mod lower;
pub mod pool;
pub mod program;
pub mod shrink;
pub mod types;
pub mod values;

pub use choose::generate;
pub use events::{Event, Limits, Place, Plan};
pub use program::{Actor, Instr, Program};
