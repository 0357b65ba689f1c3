//! A process's place in its job: joined once, shared by all interfaces. Settings from file and environment, the job, and
//! the one fabric on which every messaging layer of the process stands.
//!
//! The C interfaces come here through `capi`; a Rust program begins with [`Node::join`] and makes its layers on
//! [`Node::fabric`].
//!
//! Cost class: set-up path.
//!
//! One process may have several interfaces open, which share the `Node`. The first one that is opened joins the job, in any order. The launcher
//! hears *finalised* when all that have a closing call are closed; of a process that ends before, it hears which call was missing. An interface
//! without a closing call (RSMAPI) is closed by the end of the process.

mod credentials;
mod ends;
mod fence;
mod host;
mod layer;
mod memory;
mod network;
mod node;
mod place;
mod portals;
mod portals_agent;
mod roll;
mod settings;

pub use credentials::Credentials;
pub use fence::Fence;
pub use host::{HostAgent, HostRefusal, host_agent, start_host_agent};
pub use layer::{Layer, MPI_VARIABLES, Same};
pub use network::Network;
pub use node::{Interface, Node, NodeFabric};
pub use place::{PORTALS, PortalsPlace};
pub use portals::{MOST_PID, PidChoice, credentials};
pub use portals_agent::serve_portals;
pub use roll::Roll;
#[cfg(fuzzing)]
#[doc(hidden)]
pub use roll::fuzzing;
pub use settings::{Settings, tunables};
