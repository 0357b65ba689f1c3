//! MPI semantics in Rust. No globals: a [`world::World`] value owns everything, so that a test or a
//! simulation can hold many. Knows nothing of C or of environment variables.
//!
//! A folder a chapter of the standard: `p2p`, `datatype`, `op`, `coll`, `comm`, `group`, `topo`, `info`,
//! `attr`, `errors`, and `engine` (progress, requests, matching) and `carrier` (a folder per way to
//! carry MPI messages) below them.
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
pub mod group;
pub mod handle;
pub mod info;
mod long;
pub mod op;
pub mod p2p;
pub mod pack;
pub mod topo;
pub mod world;

pub use errors::{Error, ErrorClass, Result};

/// A rank in a communicator's group. Negative values are the ABI's sentinels.
pub type Rank = i32;
