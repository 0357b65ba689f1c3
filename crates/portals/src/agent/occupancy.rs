//! What an agent's structures take: the formula of section 4.2 of the paper.

use super::pieces::LIST_BYTES;
use super::state::{Item, Job, Lower, Order};
use super::structures::Slab;
use super::tunables::{AgentTunables, Sizes};
use crate::bridge::mailbox::{AGENT_BYTES, CLIENT_BYTES};
use crate::net::{NetTunables, Occupancy, Placement, RxId};
use farpost_fabric::Fabric;

/// What an agent's structures take: the formula of section 4.2, with the clients' pendings as further pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentOccupancy {
    /// The network layer's.
    pub net: Occupancy,
    /// Clients.
    pub clients: u64,
    /// Pendings of one: what it sends, of both channels, and what it is shown. And bytes of all of them.
    pub pendings: (u64, u64),
    /// Messages with bytes to be moved, and bytes of one.
    pub jobs: (u64, u64),
    /// Lists of segments, and bytes of one. Only those that are used are ever touched.
    pub lists: (u64, u64),
    /// Mailbox memory of one client, both sides, its windows included, bytes.
    pub mailbox: u64,
    /// Memory for bodies, bytes: three times the setting.
    pub memory: u64,
    /// What the match entries, descriptors and queues of an accelerated client take at most, bytes.
    pub objects: u64,
}

/// The formula, and what it comes to: two lines.
impl std::fmt::Display for AgentOccupancy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let net = &self.net;
        write!(
            f,
            "M = S Ssize + sum of Pi Psize = {} x {} + {} x {} + {} x {} = {} bytes for sources and pendings\n\
             of an agent with {} clients: {} bytes in all, with {} more pendings for each; mailboxes of {} and memory for \
             bodies of {} beside it; objects of a client take at most {}",
            net.sources,
            net.source_bytes,
            net.tx_pendings.0,
            net.tx_pendings.1,
            net.rx_pendings.0,
            net.rx_pendings.1,
            net.bytes(),
            self.clients,
            self.bytes(),
            self.pendings.0,
            self.clients * self.mailbox,
            self.memory,
            self.objects,
        )
    }
}

impl AgentOccupancy {
    /// With these settings on fabric `F`.
    pub fn of<F: Fabric>(config: &AgentTunables, net: &NetTunables, clients: u64) -> Self {
        let sizes = Sizes::of(config, net, clients);
        let bytes = |count: usize, each: usize| (count * each) as u64;
        Self {
            net: Occupancy::of::<F>(net),
            clients,
            pendings: (
                (2 * sizes.items + sizes.pendings) as u64,
                bytes(2 * sizes.items, size_of::<Item>())
                    + bytes(sizes.pendings, size_of::<Lower>() + size_of::<Order>()),
            ),
            jobs: (
                sizes.jobs as u64,
                // The job, its number among the free ones, its name among those that move.
                (Slab::<Job>::PLACE + size_of::<u64>()) as u64,
            ),
            lists: (sizes.lists as u64, LIST_BYTES as u64),
            mailbox: (AGENT_BYTES + CLIENT_BYTES) as u64,
            memory: 3 * config.memory,
            objects: config.objects,
        }
    }

    /// *M* = *S Ssize* + sum of *Pi Psize*, bytes. Mailboxes, lists and memory for bodies, of which only what is used is touched, are
    /// beside it, and objects of accelerated clients, which are made by their calls.
    pub fn bytes(&self) -> u64 {
        self.net.bytes()
            + self.clients * self.pendings.1
            + self.jobs.0 * self.jobs.1
            + (self.net.rx_pendings.0 + self.clients * self.pendings.0)
                * size_of::<(RxId, Placement)>() as u64
    }
}
