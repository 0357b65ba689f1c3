//! Which resources a packet passes from host to host.

use crate::net::{Hop, HostId, ResourceId};

/// Where a host is attached: it may have several rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    pub host: HostId,
    pub rail: u32,
}

/// Which of several ways, where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// Always the same one of this number, so that packets keep their order.
    Fixed(u32),
    /// As this random number says.
    Random(u32),
}

/// How hosts are connected.
pub trait Topology {
    /// Rails of each host.
    fn rails(&self) -> u32;

    /// Append what a packet of priority `lane` (0: high) passes from port to port, without the ports' own adapters. False: no way is left that avoids what is
    /// `broken`; then `path` is as it was.
    fn path(
        &self,
        ends: (Port, Port),
        lane: u8,
        route: Route,
        broken: &dyn Fn(ResourceId) -> bool,
        path: &mut Vec<Hop>,
    ) -> bool;
}
