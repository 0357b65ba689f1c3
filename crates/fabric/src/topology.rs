//! Who is where, and how far.

use crate::Peer;

/// How far a peer is, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// This process itself.
    Same,
    /// Another process of this host.
    Host,
    /// Another host on this fabric.
    Far,
}

/// Bytes that a rail has carried since the job began, what goes again and what frames add included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// From here.
    pub sent: u64,
    /// To here.
    pub received: u64,
}

/// Hosts, rails, distances.
#[ambassador::delegatable_trait]
pub trait Topology {
    /// Number of hosts.
    fn hosts(&self) -> u32;
    /// The host a peer is on, from 0.
    fn host_of(&self, peer: Peer) -> u32;
    /// How far `peer` is.
    fn distance(&self, peer: Peer) -> Distance;
    /// Number of independent paths (rails) to `peer`.
    fn rails(&self, peer: Peer) -> u32;
    /// Whether messages to `peer` go over `rail` now: transfers are striped over those that say so. Before the first
    /// message all that there are.
    fn rail_works(&self, peer: Peer, rail: u32) -> bool {
        rail < self.rails(peer)
    }
    /// How often what was on its way to `peer` was taken from a rail that failed, to go again by another. Whoever compares two values learns
    /// that the route has changed between.
    fn reroutes(&self, _peer: Peer) -> u64 {
        0
    }
    /// Bytes that `rail` to `peer` has carried. Zeroes where nobody counts them, and before the first message.
    fn carried(&self, _peer: Peer, _rail: u32) -> Carried {
        Carried::default()
    }
    /// Cores of this host that this process may use, and processes of the job on this host.
    fn cores_and_processes(&self) -> (u32, u32);
}
