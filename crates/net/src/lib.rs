//! What the fabrics between hosts have in common: whom to reach, where, and with which secret.
//!
//! Cost class: *set-up path*.

#![cfg(not(loom))]

#[cfg(feature = "conformance")]
pub mod conformance;
mod import;
pub mod interfaces;
pub mod poll;

pub use import::{Far, Imported};

use farpost_fabric::{Fabric, Peer, RailFigures};
use farpost_mapped::Mapping;
use std::rc::Rc;

/// Bytes that a process may publish about where it is reached.
pub const CARD_BYTES: usize = 700;

/// Bytes of a job's secret.
pub const SECRET_BYTES: usize = 32;

/// What processes of the job have published about where they are reached (their *cards*).
pub trait AddressBook {
    /// The card of `peer`, looked up when it is first needed. The error is a sentence for people.
    fn card(&self, peer: Peer) -> Result<Vec<u8>, String>;
    /// What people call the host of `peer`, for messages; `None` where nobody knows.
    fn host(&self, _peer: Peer) -> Option<String> {
        None
    }
}

/// What a process needs to become an endpoint of a fabric between hosts.
pub struct NetConfig {
    /// Which process of the job this is.
    pub me: Peer,
    /// Processes in the job.
    pub size: u32,
    /// By process: its host, from 0.
    pub host_of: Rc<[u32]>,
    /// Cores of this host that the job's processes may use.
    pub cores: u32,
    /// Processes of the job on this host.
    pub processes: u32,
    /// Known to the job's processes only.
    pub secret: [u8; SECRET_BYTES],
    /// Where the others are.
    pub book: Box<dyn AddressBook>,
}

/// A fabric between hosts, whose segments are memory of the exporter's like any other.
#[ambassador::delegatable_trait]
pub trait NetFabric: Fabric<Export = Mapping> {
    /// Connections and messages so far that did not prove to come from the job.
    fn strangers_turned_away(&self) -> u64 {
        0
    }

    /// What this process's rails carry, by interface of this host.
    fn rail_figures(&self) -> Vec<RailFigures> {
        Vec::new()
    }
}
