//! Windows: one-sided communication (MPI-5.0 chapter 12). Generic over the fabric; every carrier of MPI's messages carries it.
//!
//! An operation is a message to the target, which does it in any call of its own that makes progress, or by the library's thread
//! while it computes, and counts it. The messages travel on a communicator of the window's own, where those from one process come in
//! order; long contiguous data follow by a message from user memory to user memory. Requests are bounded: an origin has at most
//! [`peer::OUTSTANDING`] operations at a target that are not acknowledged, and waits, making progress, when it wants more.
//! Answers never wait. What a target serves needs no memory that depends on the origin's sizes.
//!
//! | Module | What |
//! |---|---|
//! | `message` | what travels |
//! | `memory` | the window's memory: pieces gathered, scattered, accumulated |
//! | `epoch` | which synchronisation is under way, and what it permits |
//! | `peer` | what an origin keeps for a target |
//! | `lock` | who holds a target's lock, and who waits |
//! | `flight`, `served` | messages under way; what a target keeps for an origin |
//! | `win`, `windows` | a window; how they are made and freed |
//! | `wire` | sending and receiving, waiting |
//! | `serve` | the target's side |
//! | `direct`, `lines` | what is done by loads and stores where all members share memory; locks there |
//! | `operate` | the origin's side: operations |
//! | `sync` | the origin's side: synchronisation |
//!
//! Where all members share memory and the library allocated the window, operations are loads and stores of the origin, and locks
//! lie in shared lines: no target is waited for, and what a member that has died held is free. Accumulate operations of a member's memory have a lock of their own there.
//! Elsewhere a target's memory is touched by its own process alone. So operations are atomic towards each other, whatever their type
//! and alignment.
//!
//! Cost class: *queued path*; making and freeing windows is *set-up path*.
//!
//! Requirements of MPI-5.0 chapter 12.
#![deny(unsafe_code)]

mod direct;
mod epoch;
mod flight;
mod lines;
mod lock;
mod memory;
mod message;
mod operate;
mod peer;
mod serve;
mod served;
mod sync;
mod win;
mod windows;
mod wire;

pub use epoch::LockKind;
pub use operate::{Place, What};
pub use win::{Flavor, MODEL_UNIFIED, New, PROC_NULL, Query, Win, WinCells};
pub use windows::Windows;
