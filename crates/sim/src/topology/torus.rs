//! Three-dimensional tori and meshes: each dimension is a ring or a line (Red Storm: rings in z only).
//!
//! Host `h` is node `(h mod X, h / X mod Y, h / XY)`. A packet passes x first, then y, then z, in a ring the shorter way round; of two equal ways that of the
//! source's parity. `time = hops * hop + bytes / rate`. Where a link of the shorter way is broken the packet goes the other way round; in a line there is none.
//!
//! Each link has two virtual channels for each priority. A packet enters a ring on the first, and behind the link that closes the ring (from the last node to
//! the first, or back) it is on the second. Nobody goes round a whole ring, so the second never reaches that link, and no circle of buffers is left.
//! Links along dimensions that the hosts do not reach into are not made.

use super::link::{direction, lane_of};
use super::{By, Link, Node, Port, Shape, Topology, whole};
use crate::machine::TorusSpec;
use crate::net::{Hop, HostId, Network, ResourceId};

const NAMES: [&str; 6] = ["x+", "x-", "y+", "y-", "z+", "z-"];

pub(super) struct Torus {
    size: [u32; 3],
    rings: [bool; 3],
    priorities: u8,
    /// By node, dimension and direction (up, down).
    links: Vec<[Option<ResourceId>; 6]>,
}

impl Torus {
    pub fn new<L>(spec: &TorusSpec, hosts: u32, net: &mut Network<L>) -> Self {
        let size = [0, 1, 2].map(|dimension| spec.dimensions[dimension].0);
        let [x, y, z] = size;
        let used = [
            x,
            if hosts > x { y } else { 1 },
            if u64::from(hosts) > u64::from(x) * u64::from(y) {
                z
            } else {
                1
            },
        ];
        let nodes = used[0] * used[1] * used[2];
        let mut it = Self {
            size,
            rings: spec.rings,
            priorities: spec.link.priorities(),
            links: Vec::with_capacity(nodes as usize),
        };
        let latency = spec.hop.value + spec.link.latency.value;
        for node in 0..nodes {
            let place = it.place(node);
            let mut link = |which: usize| {
                let (dimension, down) = (which / 2, which % 2 == 1);
                let (at, end) = (place[dimension], if down { 0 } else { size[dimension] - 1 });
                let leads = used[dimension] > 1 && (it.rings[dimension] || at != end);
                let [x, y, z] = place;
                let name = || format!("{} link of node ({x},{y},{z})", NAMES[which]);
                leads.then(|| direction(net, &spec.link, name(), latency, 2))
            };
            let links = [0, 1, 2, 3, 4, 5].map(&mut link);
            it.links.push(links);
        }
        it
    }

    fn place(&self, node: u32) -> [u32; 3] {
        let [x, y, _] = self.size;
        [node % x, node / x % y, node / x / y]
    }

    fn node(&self, place: [u32; 3]) -> u32 {
        let [x, y, _] = self.size;
        place[0] + x * (place[1] + y * place[2])
    }

    /// Along one dimension in one direction. False: no link, in a line.
    fn push(
        &self,
        place: &mut [u32; 3],
        to: u32,
        (dimension, down): (usize, bool),
        lane: u8,
        path: &mut Vec<Hop>,
    ) -> bool {
        let size = self.size[dimension];
        let mut channel = 0;
        while place[dimension] != to {
            let node = self.node(*place) as usize;
            let Some(resource) = self.links[node][2 * dimension + usize::from(down)] else {
                return false;
            };
            let lane = 2 * lane + channel;
            path.push(Hop { resource, lane });
            let at = &mut place[dimension];
            let last = if down { 0 } else { size - 1 };
            if *at == last {
                channel = 1;
            }
            *at = (*at + if down { size - 1 } else { 1 }) % size;
        }
        true
    }

    /// Whether the shorter way from coordinate to coordinate leads down.
    fn leads_down(&self, dimension: usize, from: u32, to: u32) -> bool {
        if !self.rings[dimension] {
            return to < from;
        }
        let size = self.size[dimension];
        let up = (to + size - from) % size;
        match up.cmp(&(size - up)) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => from % 2 == 1,
            std::cmp::Ordering::Greater => true,
        }
    }
}

impl Topology for Torus {
    fn rails(&self) -> u32 {
        1
    }

    fn shape(&self) -> Shape {
        Shape::Grid {
            size: self.size,
            rings: self.rings,
        }
    }

    fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for (node, of_node) in (0..).zip(&self.links) {
            for (which, resource) in of_node.iter().enumerate() {
                let Some(resource) = *resource else { continue };
                let (dimension, down) = (which / 2, which % 2 == 1);
                let (mut place, size) = (self.place(node), self.size[which / 2]);
                place[dimension] = (place[dimension] + if down { size - 1 } else { 1 }) % size;
                let [from, to] = [node, self.node(place)].map(|node| Node::Host(HostId(node)));
                links.push(Link {
                    resource,
                    from,
                    to,
                    rail: 0,
                });
            }
        }
        links
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
        if from.rail != 0 || to.rail != 0 {
            return false;
        }
        let lane = lane_of(self.priorities, lane);
        let (mut place, to) = (self.place(from.host.0), self.place(to.host.0));
        let before = path.len();
        for dimension in 0..3 {
            let (at, begin) = (place[dimension], path.len());
            let down = self.leads_down(dimension, at, to[dimension]);
            let led = [down, !down].iter().any(|down| {
                place[dimension] = at;
                let led = self.push(&mut place, to[dimension], (dimension, *down), lane, path);
                if !led {
                    path.truncate(begin);
                }
                led && whole(path, begin, broken)
            });
            if !led {
                path.truncate(before);
                return false;
            }
        }
        true
    }
}
