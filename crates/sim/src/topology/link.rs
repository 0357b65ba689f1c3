//! Links and what their directions share.

use super::{Link, Node};
use crate::machine::LinkSpec;
use crate::net::{Hop, Network, ResourceId, ResourceSpec};
use crate::time::{Ps, Rate};

/// A resource with lanes by priority, and so many beside each other for each priority.
fn resource<L>(
    net: &mut Network<L>,
    link: &LinkSpec,
    name: String,
    (rate, latency): (Rate, Ps),
    per_priority: u8,
) -> ResourceId {
    let priorities = link.priorities();
    net.add(ResourceSpec {
        room: Some(link.buffer.0),
        lanes: priorities * per_priority,
        priorities: priorities > 1,
        per_priority,
        ..ResourceSpec::new(name, rate, latency)
    })
}

/// One direction of a link, with so many virtual channels.
pub(super) fn direction<L>(
    net: &mut Network<L>,
    link: &LinkSpec,
    name: String,
    latency: Ps,
    channels: u8,
) -> ResourceId {
    let id = resource(net, link, name, (link.rate.value, latency), channels);
    net.is_link(id);
    id
}

/// The priority's own lane; what has fewer priorities has one for the rest.
pub(super) fn lane_of(link_priorities: u8, lane: u8) -> u8 {
    lane.min(link_priorities - 1)
}

/// Both directions of a cable between `a` and `b`. What they share has lanes for each direction, so that neither waits for the other's buffers.
pub(super) struct Cable {
    to_b: ResourceId,
    to_a: ResourceId,
    both: Option<ResourceId>,
    priorities: u8,
}

impl Cable {
    /// `latencies` to `b` and to `a`.
    pub fn new<L>(net: &mut Network<L>, link: &LinkSpec, (a, b): (&str, &str), latencies: (Ps, Ps)) -> Self {
        let to_b = direction(net, link, format!("link of {a} to {b}"), latencies.0, 1);
        let to_a = direction(net, link, format!("link of {b} to {a}"), latencies.1, 1);
        let both = link.both.as_ref().map(|rate| {
            let name = format!("both directions of the link of {a} and {b}");
            resource(net, link, name, (rate.value, Ps::ZERO), 2)
        });
        Self {
            to_b,
            to_a,
            both,
            priorities: link.priorities(),
        }
    }

    /// Both directions, between these.
    pub fn links(&self, a: Node, b: Node, rail: u32) -> [Link; 2] {
        let link = |resource, from, to| Link {
            resource,
            from,
            to,
            rail,
        };
        [link(self.to_b, a, b), link(self.to_a, b, a)]
    }

    /// From `a` to `b`.
    pub fn push_to_b(&self, lane: u8, path: &mut Vec<Hop>) {
        self.push(self.to_b, 0, lane, path);
    }

    /// From `b` to `a`.
    pub fn push_to_a(&self, lane: u8, path: &mut Vec<Hop>) {
        self.push(self.to_a, 1, lane, path);
    }

    fn push(&self, link: ResourceId, way: u8, lane: u8, path: &mut Vec<Hop>) {
        let lane = lane_of(self.priorities, lane);
        path.extend(self.both.map(|resource| Hop {
            resource,
            lane: 2 * lane + way,
        }));
        path.push(Hop { resource: link, lane });
    }
}
