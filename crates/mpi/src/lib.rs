//! MPI semantics in Rust. No globals: a [`world::World`] value owns everything, so that a test or a
//! simulation can hold many. Knows nothing of C or of environment variables.
//!
//! A folder a chapter of the standard: `p2p`, `datatype`, `pack`, `op`, `coll`, `comm`, `group`, `topo`, `info`, `attr`, `session`, `errors`; and a
//! folder a layer. Each imports only what stands below it (`crates/testing/tests/layers.rs`):
//!
//! ```text
//! world      a process's view of its job; what it does with communicators and collectives
//! partitioned  messages in parts
//! comm       communicators            p2p      requests of point-to-point messages
//! coll       schedules                carrier  a folder for each way to carry messages
//!                                     long     the protocol of long messages
//!                                     engine   requests, matching, progress; the trait of carriers
//! pack, buffer, op, datatype, group, topo, info, attr, errors; tools (what can be asked for and set)
//! ```
#![deny(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_types, reason = "unit tests may hash as they like")
)]

#[macro_use]
pub mod errors;

pub mod attr;
pub mod buffer;
pub mod carrier;
pub mod coll;
pub mod comm;
pub mod datatype;
pub mod engine;
pub mod errhandler;
mod failures;
pub mod group;
pub mod handle;
pub mod info;
mod long;
pub mod op;
pub mod p2p;
pub mod pack;
pub mod partitioned;
pub mod session;
pub mod tools;
pub mod topo;
pub mod world;

pub use errors::{Error, ErrorClass, Result};

/// A rank in a communicator's group. Negative values are the ABI's sentinels.
pub type Rank = i32;
