//! The papers' machines in virtual time.
//!
//! | Module | What |
//! |---|---|
//! | [`time`], [`queue`] | picoseconds; events in the order of their times |
//! | [`record`], [`trace`] | what happens, written down; traces, utilisation, critical paths and pictures of it |
//! | [`net`] | resources that packets pass: service times, queues, arbitration, faults |
//! | [`machine`] | files that say what a machine is |
//! | [`faults`] | what fails in a run, by whose word and when |
//! | [`topology`] | which resources lie between two hosts |
//! | [`schedule`] | whose turn it is: a clock for each rank |
//! | [`process`], [`costs`] | what the machine has for each process, and what work costs it |
//! | [`adapter`] | what carries out the fabric's operations: a file for each adapter |
//! | [`memory`] | segments, of this process or of another |
//! | [`core`] | a machine that runs, and what processes ask of it |
//! | [`coordinator`] | the run of processes of their own |
//! | [`plan`] | what a run is to be, as a user asks for it |
//! | [`fabric`], [`ranks`], [`stack`] | the end of a process that is a coroutine of this one, and the run of them all |

pub mod adapter;
mod assemble;
mod calls;
pub mod coordinator;
pub mod core;
pub mod fabric;
pub mod faults;
pub mod machine;
pub mod memory;
pub mod net;
pub mod plan;
pub mod process;
pub mod queue;
pub mod ranks;
pub mod record;
mod running;
pub mod schedule;
pub mod stack;
mod strikes;
pub mod topology;
pub mod trace;

pub use assemble::{assemble, assemble_with, costs_of, device, placement};
pub use farpost_simlink::{costs, time};
