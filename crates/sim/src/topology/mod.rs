//! Which resources a packet passes from host to host: a file for each kind of network.
//!
//! Every direction of a link is a resource. It serves `bytes / rate`, and its `latency` is the time to what the link ends at: with the router or switch
//! there, where a packet may then wait for the next link. A packet that meets no other one takes `latencies of its links + bytes / slowest rate`.
//! Where both directions share something (Sun Fire Link: 1 GB/s in one, 1.6 GB/s in both), that is one more resource beside them.
//!
//! No network deadlocks, however small its buffers: the buffers that packets hold and wait for are never in a circle. Up and down a tree no packet turns back up;
//! in a torus dimensions are passed in order, and in a ring the second virtual channel begins behind the link that closes it (Dally and Seitz's dateline).

mod crossbar;
mod fat_tree;
mod link;
mod point;
mod switch;
mod torus;

use crate::machine::TopologySpec;
use crate::net::{Hop, HostId, Network, ResourceId};
use farpost_fabric::Route;

/// Where a host is attached: it may have several rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    pub host: HostId,
    pub rail: u32,
}

/// Which of several paths, where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By {
    pub route: Route,
    /// What decides where the route is [random](Route::Random).
    pub number: u32,
}

impl From<Route> for By {
    fn from(route: Route) -> Self {
        Self { route, number: 0 }
    }
}

/// What a link ends at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    Host(HostId),
    /// A switch or router of a level, counted from the hosts.
    Switch {
        level: u32,
        number: u32,
    },
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub resource: ResourceId,
    pub from: Node,
    pub to: Node,
    /// Of the hosts.
    pub rail: u32,
}

/// What a network looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing is known of it.
    Unknown,
    /// Hosts with cables between them.
    Cables,
    /// Switches beside each other, each with cables to hosts.
    Switches,
    /// Levels of so many routers, with so many links down each.
    Tree { levels: u32, routers: u32, arity: u32 },
    /// Nodes in x, y and z, in rings or lines.
    Grid { size: [u32; 3], rings: [bool; 3] },
}

/// How hosts are connected.
pub trait Topology {
    /// Rails of each host.
    fn rails(&self) -> u32;

    /// To draw it.
    fn shape(&self) -> Shape {
        Shape::Unknown
    }

    /// All directions of all links.
    fn links(&self) -> Vec<Link> {
        Vec::new()
    }

    /// Append what a packet of priority `lane` (0: high) passes from port to port, without the ports' own adapters: nothing, from a host to itself.
    /// False: no path is left that avoids what is `broken`, or the ports' rails are not connected; then `path` is as it was.
    fn path(
        &self,
        ends: (Port, Port),
        lane: u8,
        by: By,
        broken: &dyn Fn(ResourceId) -> bool,
        path: &mut Vec<Hop>,
    ) -> bool;
}

/// The network of a machine for its first `hosts`, whose links become resources of `net`.
///
/// # Errors
/// More hosts than ports, or none: one line.
pub fn build<L>(spec: &TopologySpec, hosts: u32, net: &mut Network<L>) -> Result<Box<dyn Topology>, String> {
    if hosts == 0 || hosts > spec.ports() {
        return Err(format!(
            "{hosts} hosts on topology.{}, allowed are 1 to {}",
            spec.kind(),
            spec.ports()
        ));
    }
    Ok(match spec {
        TopologySpec::Point(spec) => Box::new(point::Point::new(spec, hosts, net)),
        TopologySpec::Crossbar(spec) => Box::new(crossbar::Crossbar::new(spec, hosts, net)),
        TopologySpec::Switch(spec) => Box::new(switch::Switch::new(spec, hosts, net)),
        TopologySpec::FatTree(spec) => Box::new(fat_tree::FatTree::new(spec, hosts, net)),
        TopologySpec::Torus(spec) => Box::new(torus::Torus::new(spec, hosts, net)),
    })
}

/// Takes back what was appended if some of it is broken.
fn whole(path: &mut Vec<Hop>, before: usize, broken: &dyn Fn(ResourceId) -> bool) -> bool {
    let whole = !path[before..].iter().any(|hop| broken(hop.resource));
    if !whole {
        path.truncate(before);
    }
    whole
}

#[cfg(test)]
mod tests;
