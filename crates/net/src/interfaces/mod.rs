//! Where a process is reached and how: this host's interfaces, what is published of them, and which of them reaches
//! which of a peer's.
//!
//! 1. [`interfaces`] lists what there is; [`Choice`] (`FARPOST_INTERFACE`) says what to use.
//! 2. The process listens, on ports of [`PortRange`] (`FARPOST_TCP_PORTS`), and publishes a [`Card`].
//! 3. At the first message to a peer its card is looked up, and [`plan`] says which rails there are and which
//!    addresses to try for each.
//! 4. The fabric tries them. What is reachable is proved by a connection that has proved itself
//!    ([`trust`](super::trust)), by nothing less.
//!
//! Each decision leaves a sentence for `farpost doctor --hosts`. Cost class: *set-up path*.

mod card;
mod choose;
mod ports;
mod rails;
mod subnet;
mod system;

pub use card::{Card, CardError, Listed, MAX_ADDRESSES, MAX_INTERFACES};
pub use choose::{Choice, ChoiceError, Chosen, INTERFACE_VARIABLE, Usable, list};
pub use ports::{PORTS_VARIABLE, PortRange, PortsError};
pub use rails::{Candidate, End, Plan, Rail, Route, kernel_route, plan};
pub use subnet::Subnet;
pub use system::{Class, Interface, interfaces, network_namespace};

/// Variables that are text and so not among the tunables.
pub const TEXT_VARIABLES: &[&str] = &[INTERFACE_VARIABLE, PORTS_VARIABLE];

farpost_tunables::tunables! {
    /// Connecting to other hosts.
    pub struct ConnectTunables {
        /// After this long without answer from one address of a peer, its next one is tried; longer when all were tried.
        stagger: "FARPOST_CONNECT_STAGGER_MS" = 250, 1..=60_000, "milliseconds";
        /// A peer whose host answers on none of its addresses for this long is given up. The host's kernel answers, whatever the process does, so that ten attempts, one a second, are plenty.
        total: "FARPOST_CONNECT_MS" = 10_000, 10..=3_600_000, "milliseconds";
    }
}

#[cfg(test)]
mod tests;
