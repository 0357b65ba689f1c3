//! Portals 3.3 (Brightwell, Riesen, Lawry, Maccabe; Cray XT3: Brightwell, Hudson, Pedretti, Riesen, Underwood, 2005),
//! on any fabric.
//!
//! | Module | What |
//! |---|---|
//! | [`library`] | objects and address translation: portal table, match lists, descriptors, event queues, access control; no input or output, no fabric, no address space |
//! | [`NetworkInterface`] | the calls of an interface: of an [`Interface`], an agent's [`Client`](agent::Client), or whichever was chosen, [`AnyInterface`] |
//! | [`agent`] | a network interface by way of a separate process, the agent, that serves several |
//! | [`host`] | a network interface of processes that need not be of one job, by way of an agent of their host's |
//! | [`net`] | the network layer: moves a header and a body between processes; preallocated structures, go-back-n |
//! | [`interface`] | a network interface with both in the application's address space |
//! | [`memory`] | the program's memory: lists of segments and the copies from and to them |
//!
//! Sections are those of the Portals 3.3 document; where it leaves a point open, the item says what was chosen and why.
//! Deviations are listed in `docs/portals-deviations.md`.
#![cfg_attr(
    test,
    allow(clippy::disallowed_types, reason = "unit tests may hash as they like")
)]
#![deny(unsafe_code)]

pub mod agent;
mod any;
mod backend;
mod bridge;
pub mod error;
mod handlers;
pub mod host;
pub mod interface;
pub mod library;
mod malformed;
#[allow(unsafe_code)]
pub mod memory;
pub mod net;
mod network_interface;
mod owner;
mod swap;
mod translate;
pub mod types;

pub use any::AnyInterface;
pub use error::Error;
pub use handlers::Handler;
pub use interface::Interface;
pub use library::{AccessEntry, DropReason, Library, Processes, Target};
pub use memory::{Segment, Segments, field};
pub use network_interface::NetworkInterface;
pub use owner::Owner;
pub use types::*;
