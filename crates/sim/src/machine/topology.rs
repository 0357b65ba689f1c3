//! How a machine's hosts are connected, as data. [`crate::topology`] builds it.

use super::Fault;
use super::quantity::{Count, Quantity};
use crate::time::{Ps, Rate};
use serde::Deserialize;

/// `[topology.KIND]`
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopologySpec {
    Point(PointSpec),
    Crossbar(CrossbarSpec),
    Switch(SwitchSpec),
    FatTree(FatTreeSpec),
    Torus(TorusSpec),
}

/// What all links of a machine are.
///
/// A packet of `b` bytes takes `b / rate` on each direction of a link. If `both` is given, the two directions together carry no more than that.
/// Before each direction is a buffer of `buffer` packets for each priority.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Of each direction.
    pub rate: Quantity<Rate>,
    /// Of both directions together. None: twice the rate.
    pub both: Option<Quantity<Rate>>,
    /// From a host to what its cable ends at, and back.
    #[serde(default)]
    pub latency: Quantity<Ps>,
    /// Packets of each lane that are before a direction of a link or on their way there. A stream needs 1 + (latency of the link before / service) of them.
    pub buffer: Quantity<Count>,
    /// Lanes by priority, 0 the high one. None: 1.
    pub priorities: Option<Quantity<Count>>,
}

impl LinkSpec {
    /// Lanes by priority.
    pub fn priorities(&self) -> u8 {
        self.priorities
            .as_ref()
            .map_or(1, |priorities| priorities.0 as u8)
    }

    fn check(&self) -> Result<(), Fault> {
        if let Some(both) = &self.both
            && !(self.rate.0..=2.0 * self.rate.0).contains(&both.0)
        {
            return Err(Fault::new(
                both.at,
                format!(
                    "topology link.both ({} B/s) contradicts link.rate ({} B/s), allowed is from the rate to twice the rate",
                    both.0, self.rate.0
                ),
            ));
        }
        match &self.priorities {
            Some(priorities) if priorities.0 > 2 => Err(Fault::new(
                priorities.at,
                format!("topology link.priorities is {}, allowed is 1 or 2", priorities.0),
            )),
            _ => Ok(()),
        }
    }
}

/// Two or three hosts, with cables from each to each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointSpec {
    /// Cables between each two hosts.
    pub rails: Quantity<Count>,
    pub link: LinkSpec,
}

/// A switch of its own for each rail.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossbarSpec {
    pub rails: Quantity<Count>,
    /// Of each switch.
    pub ports: Quantity<Count>,
    /// Through the switch.
    pub hop: Quantity<Ps>,
    pub link: LinkSpec,
}

/// One switch whose outputs are queued for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSpec {
    pub ports: Quantity<Count>,
    /// Through the switch.
    pub hop: Quantity<Ps>,
    pub link: LinkSpec,
}

/// A tree of equal routers, as many links up as down: (radix / 2)^levels hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FatTreeSpec {
    /// Ports of a router, half of them down.
    pub radix: Quantity<Count>,
    /// Routers one above the other.
    pub levels: Quantity<Count>,
    /// From router to router.
    pub hop: Quantity<Ps>,
    pub link: LinkSpec,
}

/// Nodes on a grid, each linked to its neighbours in three dimensions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TorusSpec {
    /// Nodes in x, y and z.
    pub dimensions: [Quantity<Count>; 3],
    /// Whether x, y and z are rings (torus) or lines (mesh).
    pub rings: [bool; 3],
    /// From node to node.
    pub hop: Quantity<Ps>,
    pub link: LinkSpec,
}

impl FatTreeSpec {
    /// Links of a router down, and up.
    pub fn arity(&self) -> u32 {
        self.radix.0 / 2
    }
}

/// More hosts than this nothing is made for.
pub const MOST_HOSTS: u32 = 1 << 20;

impl TopologySpec {
    /// As in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Point(_) => "point",
            Self::Crossbar(_) => "crossbar",
            Self::Switch(_) => "switch",
            Self::FatTree(_) => "fat_tree",
            Self::Torus(_) => "torus",
        }
    }

    /// Ports for hosts.
    pub fn ports(&self) -> u32 {
        let product = |mut all: &mut dyn Iterator<Item = u32>| {
            Iterator::by_ref(&mut all).fold(1u64, |product, each| {
                (product * u64::from(each)).min(u64::from(u32::MAX))
            }) as u32
        };
        match self {
            Self::Point(_) => 3,
            Self::Crossbar(spec) => spec.ports.0,
            Self::Switch(spec) => spec.ports.0,
            Self::FatTree(spec) => product(&mut (0..spec.levels.0.min(40)).map(|_| spec.arity())),
            Self::Torus(spec) => product(&mut spec.dimensions.iter().map(|each| each.0)),
        }
    }

    /// Ports of each host.
    pub fn rails(&self) -> u32 {
        match self {
            Self::Point(spec) => spec.rails.0,
            Self::Crossbar(spec) => spec.rails.0,
            _ => 1,
        }
    }

    /// The links'.
    pub fn link(&self) -> &LinkSpec {
        match self {
            Self::Point(spec) => &spec.link,
            Self::Crossbar(spec) => &spec.link,
            Self::Switch(spec) => &spec.link,
            Self::FatTree(spec) => &spec.link,
            Self::Torus(spec) => &spec.link,
        }
    }

    pub(super) fn check(&self, hosts: &Quantity<Count>) -> Result<(), Fault> {
        self.link().check()?;
        if let (Self::FatTree(_) | Self::Torus(_), Some(both)) = (self, &self.link().both) {
            return Err(Fault::new(
                both.at,
                format!(
                    "topology.{}.link.both ({} B/s) is not modelled, allowed is a rate of each direction",
                    self.kind(),
                    both.0
                ),
            ));
        }
        match self {
            Self::FatTree(spec) => {
                if spec.radix.0 < 4 || spec.radix.0 % 2 != 0 {
                    return Err(Fault::new(
                        spec.radix.at,
                        format!(
                            "topology.fat_tree.radix is {}, allowed is an even number from 4",
                            spec.radix.0
                        ),
                    ));
                }
                if self.ports() > MOST_HOSTS {
                    return Err(Fault::new(
                        spec.levels.at,
                        format!(
                            "topology.fat_tree.levels is {} of radix {}, allowed is what has at most {MOST_HOSTS} ports",
                            spec.levels.0, spec.radix.0
                        ),
                    ));
                }
            }
            Self::Torus(spec) if self.ports() > MOST_HOSTS => {
                return Err(Fault::new(
                    spec.dimensions[0].at,
                    format!(
                        "topology.torus.dimensions make more than {MOST_HOSTS} nodes, which is the most that is allowed"
                    ),
                ));
            }
            _ => {}
        }
        if hosts.0 > self.ports() {
            return Err(Fault::new(
                hosts.at,
                format!(
                    "host.hosts is {}, allowed is at most {}, the ports of topology.{}",
                    hosts.0,
                    self.ports(),
                    self.kind()
                ),
            ));
        }
        Ok(())
    }
}
