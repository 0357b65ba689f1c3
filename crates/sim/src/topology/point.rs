//! Two or three hosts with cables from each to each, one for each rail.

use super::link::Cable;
use super::{By, Link, Node, Port, Shape, Topology, whole};
use crate::machine::PointSpec;
use crate::net::{Hop, HostId, Network, ResourceId};

pub(super) struct Point {
    hosts: u32,
    rails: u32,
    /// By lower host, higher host and rail.
    cables: Vec<Cable>,
}

impl Point {
    pub fn new<L>(spec: &PointSpec, hosts: u32, net: &mut Network<L>) -> Self {
        let (rails, latency) = (spec.rails.0, spec.link.latency.value);
        let pairs = (0..hosts).flat_map(|low| (low + 1..hosts).map(move |high| (low, high)));
        let cables = pairs.flat_map(|pair| (0..rails).map(move |rail| (pair, rail)));
        let cables = cables.map(|((low, high), rail)| {
            let ends = [low, high].map(|host| format!("host {host}, rail {rail}"));
            Cable::new(net, &spec.link, (&ends[0], &ends[1]), (latency, latency))
        });
        Self {
            hosts,
            rails,
            cables: cables.collect(),
        }
    }

    fn cable(&self, low: u32, high: u32, rail: u32) -> &Cable {
        // Pairs in the order (0, 1), (0, 2), (1, 2).
        let pair = low * (2 * self.hosts - low - 1) / 2 + (high - low - 1);
        &self.cables[(pair * self.rails + rail) as usize]
    }
}

impl Topology for Point {
    fn rails(&self) -> u32 {
        self.rails
    }

    fn shape(&self) -> Shape {
        Shape::Cables
    }

    fn links(&self) -> Vec<Link> {
        let pairs = (0..self.hosts).flat_map(|low| (low + 1..self.hosts).map(move |high| (low, high)));
        let pairs = pairs.flat_map(|pair| (0..self.rails).map(move |_| pair));
        let ends = pairs.map(|(low, high)| [low, high].map(|host| Node::Host(HostId(host))));
        let links = self
            .cables
            .iter()
            .zip(ends)
            .zip((0..self.rails).cycle())
            .flat_map(|((cable, [a, b]), rail)| cable.links(a, b, rail));
        links.collect()
    }

    fn path(
        &self,
        (from, to): (Port, Port),
        lane: u8,
        _: By,
        broken: &dyn Fn(ResourceId) -> bool,
        path: &mut Vec<Hop>,
    ) -> bool {
        if from.host == to.host {
            return true;
        }
        if from.rail != to.rail || from.rail >= self.rails {
            return false;
        }
        let before = path.len();
        let (from, to, rail) = (from.host.0, to.host.0, from.rail);
        if from < to {
            self.cable(from, to, rail).push_to_b(lane, path);
        } else {
            self.cable(to, from, rail).push_to_a(lane, path);
        }
        whole(path, before, broken)
    }
}
