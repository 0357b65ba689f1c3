//! One switch, as Myrinet's with 8 ports. Its inside blocks nobody; packets to the same output wait for each other.
//!
//! `time = 2 latency + hop + bytes / rate`: behind the link up a packet passes the switch (`hop`), then it may wait for the link down.

use super::link::Cable;
use super::{By, Link, Node, Port, Shape, Topology, whole};
use crate::machine::{LinkSpec, SwitchSpec};
use crate::net::{Hop, HostId, Network, ResourceId};
use crate::time::Ps;

pub(super) struct Switch {
    /// By host: `a` is the host, `b` the switch.
    cables: Vec<Cable>,
}

impl Switch {
    pub fn new<L>(spec: &SwitchSpec, hosts: u32, net: &mut Network<L>) -> Self {
        Self::named("the switch", &spec.link, spec.hop.value, hosts, net)
    }

    /// With a name for people.
    pub fn named<L>(name: &str, link: &LinkSpec, hop: Ps, hosts: u32, net: &mut Network<L>) -> Self {
        let latency = link.latency.value;
        let cables = (0..hosts).map(|host| {
            let ends = (&format!("host {host}")[..], name);
            Cable::new(net, link, ends, (latency + hop, latency))
        });
        Self {
            cables: cables.collect(),
        }
    }

    /// Its links, it being the switch of this number.
    pub fn links_of(&self, number: u32) -> Vec<Link> {
        let switch = Node::Switch { level: 0, number };
        let hosts = (0..).map(|host| Node::Host(HostId(host)));
        let links = self
            .cables
            .iter()
            .zip(hosts)
            .flat_map(|(cable, host)| cable.links(host, switch, number));
        links.collect()
    }
}

impl Topology for Switch {
    fn rails(&self) -> u32 {
        1
    }

    fn shape(&self) -> Shape {
        Shape::Switches
    }

    fn links(&self) -> Vec<Link> {
        self.links_of(0)
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
        let before = path.len();
        self.cables[from.host.index()].push_to_b(lane, path);
        self.cables[to.host.index()].push_to_a(lane, path);
        whole(path, before, broken)
    }
}
