//! Routes to other hosts, which links to the processes of one host share: one ping tells all of them that the host lives.
//! Else idle links of a job with many ranks would spend their time with pings.
//!
//! Cost class: *queued path*.

use super::state::TcpState;
use crate::link::{HostRoute, Link, RailNumber};
use farpost_fabric::Peer;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// What is known of routes, by host and rail.
pub type HostRoutes = HashMap<(u32, usize), HostRoute>;

impl TcpState {
    /// What the links know together of the routes to each host. Empty if no host has several processes.
    pub fn host_routes(&self) -> HostRoutes {
        let mut routes = HostRoutes::new();
        let mut shared = false;
        for (of, remote) in self.peers.numbered() {
            let Some(&host) = self.net.host_of.get(of.index()) else {
                continue;
            };
            for rail in 0..remote.rails.len() {
                if let Some(route) = remote.link.route(rail) {
                    let joined = routes.entry((host, rail));
                    shared |= matches!(joined, Entry::Occupied(_));
                    joined.or_default().join(&route);
                }
            }
        }
        if !shared {
            routes.clear();
        }
        routes
    }

    /// Let the link to `peer` use what all links to its host know.
    pub fn use_host_routes(&mut self, peer: Peer, routes: &mut HostRoutes, now: u64) {
        self.for_routes(peer, routes, |link, rail, route| link.on_route(rail, route, now));
    }

    /// Add what the link to `peer` knows now: one ping is enough for all.
    pub fn add_host_routes(&mut self, peer: Peer, routes: &mut HostRoutes) {
        self.for_routes(peer, routes, |link, rail, route| {
            if let Some(known) = link.route(rail) {
                route.join(&known);
            }
        });
    }

    fn for_routes(
        &mut self,
        peer: Peer,
        routes: &mut HostRoutes,
        mut with: impl FnMut(&mut Link, RailNumber, &mut HostRoute),
    ) {
        let host = self.net.host_of.get(peer.index());
        if let (Some(&host), Some(remote)) = (host, self.peers.at(peer)) {
            for rail in 0..remote.rails.len() {
                if let Some(route) = routes.get_mut(&(host, rail)) {
                    with(&mut remote.link, rail, route);
                }
            }
        }
    }
}
