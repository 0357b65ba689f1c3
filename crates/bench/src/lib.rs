//! Measurements of an MPI library through its standard C ABI: ping-pong, NetPIPE, message rate, collectives and
//! start-up; as text, JSON and plots.
//!
//! The crate knows nothing of Farpost's internals: it loads `libmpi_abi.so.1` at run time, so the same executable
//! measures any library with the standard ABI, under any launcher. Every benchmark sends real, distinct data and
//! checks it outside the timed loops; nothing is skipped that a program would have to do.

#[macro_use]
pub mod abi;
pub mod board;
pub mod chart;
pub mod fit;
pub mod launch;
pub mod link;
pub mod measure;
pub mod netpipe;
pub mod progress;
pub mod report;
pub mod sizes;
pub mod stats;

pub use abi::{BenchError, Mpi, Result};
