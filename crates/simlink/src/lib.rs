//! A simulated machine as a fabric: one process's end of it.
//!
//! | Module | What |
//! |---|---|
//! | [`time`], [`costs`] | virtual time; what work costs a host's processor |
//! | [`compute`] | what a program computes between calls, measured or counted |
//! | [`link`] | what a process asks of the machine |
//! | [`fabric`] | the fabric, over any link: how a process waits, and what the traits of the contract mean here |
//! | [`shared_clock`] | the virtual time of a process of its own |
//! | [`wire`], [`connection`], [`client`] | the link of a process of its own to the coordinator that owns the machine; what the program calls |
//!
//! The machine itself is the crate `farpost-sim`; processes that are coroutines of one thread have their link there. This crate is what libraries
//! of programs contain, and knows of no machine.

mod calls;
pub mod client;
pub mod compute;
pub mod connection;
pub mod costs;
pub mod fabric;
pub mod link;
pub mod shared_clock;
pub mod time;
pub mod wire;

pub use client::{Client, ProcessEnd};
pub use fabric::SimFabric;
pub use link::{Arrived, Link, OpId};
