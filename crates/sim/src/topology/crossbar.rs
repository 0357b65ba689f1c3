//! Sun Fire Link's switches: each rail of the hosts has one of its own, and from rail to rail nothing leads.

use super::switch::Switch;
use super::{By, Link, Port, Shape, Topology};
use crate::machine::CrossbarSpec;
use crate::net::{Hop, Network, ResourceId};

pub(super) struct Crossbar {
    /// By rail.
    switches: Vec<Switch>,
}

impl Crossbar {
    pub fn new<L>(spec: &CrossbarSpec, hosts: u32, net: &mut Network<L>) -> Self {
        let switches = (0..spec.rails.0)
            .map(|rail| Switch::named(&format!("switch {rail}"), &spec.link, spec.hop.value, hosts, net));
        Self {
            switches: switches.collect(),
        }
    }
}

impl Topology for Crossbar {
    fn rails(&self) -> u32 {
        self.switches.len() as u32
    }

    fn shape(&self) -> Shape {
        Shape::Switches
    }

    fn links(&self) -> Vec<Link> {
        let switches = (0..).zip(&self.switches);
        switches
            .flat_map(|(number, switch)| switch.links_of(number))
            .collect()
    }

    fn path(
        &self,
        (from, to): (Port, Port),
        lane: u8,
        by: By,
        broken: &dyn Fn(ResourceId) -> bool,
        path: &mut Vec<Hop>,
    ) -> bool {
        if from.host == to.host {
            return true;
        }
        let on_first = |port: Port| Port { rail: 0, ..port };
        match self.switches.get(from.rail as usize) {
            Some(switch) if from.rail == to.rail => {
                switch.path((on_first(from), on_first(to)), lane, by, broken, path)
            }
            _ => false,
        }
    }
}
