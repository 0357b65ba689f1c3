//! The papers' machines in virtual time.
//!
//! | Module | What |
//! |---|---|
//! | [`time`], [`queue`] | picoseconds; events in the order of their times |
//! | [`net`] | resources that packets pass: service times, queues, arbitration, faults |
//! | [`machine`] | files that say what a machine is |
//! | [`topology`] | which resources lie between two hosts |
//! | [`schedule`] | whose turn it is: a clock for each rank |
//! | [`process`], [`costs`] | what the machine has for each process, and what work costs it |
//! | [`adapter`] | what carries out the fabric's operations: a file for each adapter |
//! | [`core`] | a machine that runs |
//! | [`fabric`], [`ranks`] | one process's end of it, and processes as coroutines |

pub mod adapter;
pub mod core;
pub mod costs;
pub mod fabric;
pub mod machine;
pub mod net;
pub mod process;
pub mod queue;
pub mod ranks;
mod running;
pub mod schedule;
mod stack;
pub mod time;
pub mod topology;
