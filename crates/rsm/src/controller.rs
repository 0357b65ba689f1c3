//! Controllers and the topology: one controller for the memory of the host, one for each rail of the network, and the
//! loopback.

use crate::error::Result;
use crate::names::{Controller, NodeId};
use crate::state::{CONNECTIONS_MAX, Import, ImportState, Inner, Rsm};
use farpost_fabric::{Carried, Distance, Fabric, Peer, Remote};

/// What a controller can do (`rsmapi_controller_attr_t`). Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Sizes of loads and stores that work on mapped segments: bit 0 for 1 byte to bit 3 for 8. 0: nothing is mapped.
    pub direct_access_sizes: u32,
    /// Sizes of elements that are never torn.
    pub atomic_sizes: u32,
    /// Pages.
    pub page_size: usize,
    /// Largest segment; 0 for the loopback, whose segments have no limit of their own.
    pub max_export_segment_size: usize,
    /// Largest sum of all segments.
    pub tot_export_segment_size: usize,
    /// Most segments published at a time.
    pub max_export_segments: usize,
    /// Largest mapping.
    pub max_import_map_size: usize,
    /// Largest sum of all mappings.
    pub tot_import_map_size: usize,
    /// Most segments connected at a time.
    pub max_import_segments: usize,
}

/// Bytes of a page, to which exported memory is aligned.
pub const PAGE: usize = 4096;

/// Offsets on the wire and in files stay below this.
const SEGMENT_MAX: usize = 1 << 40;

/// Which nodes a controller of this process reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connections {
    /// The controller.
    pub controller: Controller,
    /// Its name.
    pub name: String,
    /// Its address on the interconnect.
    pub address: u64,
    /// Controllers that it is connected to.
    pub remotes: Vec<RemoteController>,
}

/// The other end of a connection of controllers; it has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteController {
    /// The node.
    pub node: NodeId,
    /// Its address on the interconnect.
    pub address: u64,
    /// Whether anything goes this way now. False: a rail that does not work; what is put through it goes by the others.
    pub active: bool,
}

/// A rail to a node: a stripe that puts and gets may be told to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailStatus {
    /// Its controller.
    pub controller: Controller,
    /// The controller's name.
    pub name: String,
    /// Whether anything goes this way now.
    pub works: bool,
    /// Bytes that it has carried between the two processes, with all that goes between them. The host's memory counts none.
    pub carried: Carried,
}

/// Over how many rails transfers to a node are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striping {
    /// Rails that work now: the degree of striping. Before the first message, all that there are. 0: none works.
    pub degree: u32,
    /// Rails that there are.
    pub rails: u32,
}

fn address(node: NodeId, controller: Controller) -> u64 {
    u64::from(controller.code()) << 32 | u64::from(node)
}

impl<F: Fabric> Rsm<F> {
    /// Rails to nodes on other hosts; 0 where there are none.
    fn rails(&self) -> u32 {
        self.far_peers()
            .map(|peer| self.inner.fabric.rails(peer))
            .max()
            .unwrap_or(0)
    }

    fn far_peers(&self) -> impl Iterator<Item = Peer> {
        let fabric = &self.inner.fabric;
        (0..fabric.size())
            .map(Peer)
            .filter(move |peer| fabric.distance(*peer) == Distance::Far)
    }

    /// The controllers of this process.
    pub fn controllers(&self) -> Vec<Controller> {
        [Controller::Loopback, Controller::Host]
            .into_iter()
            .chain((0..self.rails()).map(Controller::Rail))
            .collect()
    }

    /// What a controller is called.
    pub fn controller_name(&self, controller: Controller) -> String {
        self.inner.controller_name(controller)
    }

    /// The controller of that name (`rsm_get_controller`).
    ///
    /// # Errors
    /// `CTLR_NOT_PRESENT`.
    pub fn controller(&self, name: &str) -> Result<Controller> {
        let all = self.controllers();
        let found = all
            .iter()
            .find(|controller| self.controller_name(**controller) == name);
        found.copied().ok_or_else(|| {
            self.inner.refuse(|refused| &mut refused.controllers);
            let names: Vec<String> = all.iter().map(|c| self.controller_name(*c)).collect();
            error!(CTLR_NOT_PRESENT: "there is no controller {name:?}: here are {}", names.join(", "))
        })
    }

    /// What a controller can do (`rsm_get_controller_attr`).
    pub fn attributes(&self, controller: Controller) -> Attributes {
        let maps = match controller {
            Controller::Loopback | Controller::Host => self.inner.fabric.maps(self.inner.fabric.me()),
            Controller::Rail(_) => false,
        };
        let mapped = if maps { SEGMENT_MAX } else { 0 };
        let most = if controller == Controller::Loopback {
            0
        } else {
            SEGMENT_MAX
        };
        Attributes {
            direct_access_sizes: if maps { 0xf } else { 0 },
            atomic_sizes: 0xf,
            page_size: PAGE,
            max_export_segment_size: most,
            tot_export_segment_size: most,
            max_export_segments: self.inner.shape.slots,
            max_import_map_size: mapped,
            tot_import_map_size: mapped,
            max_import_segments: CONNECTIONS_MAX,
        }
    }

    /// Whether `controller` is connected to one at `node`.
    pub fn reaches(&self, controller: Controller, node: NodeId) -> bool {
        let fabric = &self.inner.fabric;
        let peer = Peer(node);
        node < fabric.size()
            && match controller {
                Controller::Loopback => peer == fabric.me(),
                Controller::Host => fabric.distance(peer) != Distance::Far,
                Controller::Rail(rail) => fabric.distance(peer) == Distance::Far && rail < fabric.rails(peer),
            }
    }

    /// Who is reached through what (`rsm_get_interconnect_topology`).
    pub fn topology(&self) -> Vec<Connections> {
        let me = self.inner.fabric.me().0;
        self.controllers()
            .into_iter()
            .map(|controller| Connections {
                controller,
                name: self.controller_name(controller),
                address: address(me, controller),
                remotes: (0..self.inner.fabric.size())
                    .filter(|node| self.reaches(controller, *node))
                    .map(|node| RemoteController {
                        node,
                        address: address(node, controller),
                        active: match controller {
                            Controller::Rail(rail) => self.inner.fabric.rail_works(Peer(node), rail),
                            _ => true,
                        },
                    })
                    .collect(),
            })
            .collect()
    }

    /// Over how many rails transfers to `node` are split now: falls when one dies, and rises when it is back. To this host
    /// there is one way.
    ///
    /// # Errors
    /// `REMOTE_NODE_UNREACHABLE`: there is no such node.
    pub fn striping(&self, node: NodeId) -> Result<Striping> {
        let fabric = &self.inner.fabric;
        if node >= fabric.size() {
            self.inner.refuse(|refused| &mut refused.controllers);
            return fail!(
                REMOTE_NODE_UNREACHABLE: "there is no node {node}: there are nodes 0 to {}", self.nodes() - 1
            );
        }
        let rails = fabric.rails(Peer(node));
        let degree = (0..rails).filter(|rail| fabric.rail_works(Peer(node), *rail));
        Ok(Striping {
            degree: degree.count() as u32,
            rails,
        })
    }

    /// The rails to `node`: by one of these go puts and gets, by several the long ones. To this host there is one way, and it works.
    ///
    /// # Errors
    /// `REMOTE_NODE_UNREACHABLE`: there is no such node.
    pub fn rails_to(&self, node: NodeId) -> Result<Vec<RailStatus>> {
        let Striping { rails, .. } = self.striping(node)?;
        let (fabric, peer) = (&self.inner.fabric, Peer(node));
        let status = |rail| {
            let controller = match fabric.distance(peer) {
                Distance::Same => Controller::Loopback,
                Distance::Host => Controller::Host,
                Distance::Far => Controller::Rail(rail),
            };
            RailStatus {
                controller,
                name: self.controller_name(controller),
                works: fabric.rail_works(peer, rail),
                carried: fabric.carried(peer, rail),
            }
        };
        Ok((0..rails).map(status).collect())
    }

    /// This process as a node.
    pub fn node(&self) -> NodeId {
        self.inner.fabric.me().0
    }

    /// Nodes of the interconnect: processes of the job.
    pub fn nodes(&self) -> u32 {
        self.inner.fabric.size()
    }
}

impl<F: Fabric> Inner<F> {
    fn controller_name(&self, controller: Controller) -> String {
        match controller {
            Controller::Loopback => "loopback".into(),
            Controller::Host => "shm0".into(),
            Controller::Rail(rail) => format!("{}{rail}", self.fabric.name()),
        }
    }
}

impl<F: Fabric> ImportState<F> {
    /// Whether all of these rails, a bit each, work.
    #[cold]
    pub(crate) fn check_rails(&self, rails: u32) -> Result<()> {
        let fabric = &self.inner.fabric;
        let down = (0..u32::BITS).find(|rail| rails >> rail & 1 != 0 && !fabric.rail_works(self.peer, *rail));
        match down {
            None => Ok(()),
            Some(rail) => fail!(
                REMOTE_NODE_UNREACHABLE: "rail {} to node {}, which this connection was told to use, does not work now: name others",
                self.inner.controller_name(Controller::Rail(rail)), self.peer.0
            ),
        }
    }
}

impl<F: Fabric> Import<F> {
    /// From now on stripe over these rails only (`rsm_memseg_import_set_stripes`); over all for none. It concerns gets, requests, and puts of
    /// so many bytes that they are striped; shorter puts go the quickest way as ever. While one of the rails does not work, accesses are
    /// refused; what was on its way goes by the others.
    ///
    /// # Errors
    /// `REMOTE_NODE_UNREACHABLE`: one does not lead to the segment's node, or does not work; then nothing changes.
    pub fn stripe_over(&self, stripes: &[Controller]) -> Result<()> {
        let state = &*self.state;
        let fabric = &state.inner.fabric;
        let mut rails = 0;
        for stripe in stripes {
            let leads = match (stripe, fabric.distance(state.peer)) {
                (Controller::Loopback, Distance::Same)
                | (Controller::Host, Distance::Same | Distance::Host) => true,
                (Controller::Rail(rail), Distance::Far) if *rail < fabric.rails(state.peer).min(31) => {
                    rails |= 1 << rail;
                    true
                }
                _ => false,
            };
            if !leads {
                state.inner.faults.count(|refused| &mut refused.controllers);
                return fail!(
                    REMOTE_NODE_UNREACHABLE: "controller {} does not lead to node {}",
                    state.inner.controller_name(*stripe), state.peer.0
                );
            }
        }
        state.check_rails(rails)?;
        state.rails.set(rails);
        if let Some(memory) = &state.memory {
            memory.stripe(if rails == 0 { u32::MAX } else { rails });
        }
        Ok(())
    }

    /// The rails that it was told to use; none: all (`rsm_memseg_import_get_stripes`).
    pub fn stripes(&self) -> Vec<Controller> {
        let rails = self.state.rails.get();
        let told = (0..u32::BITS).filter(|rail| rails >> rail & 1 != 0);
        told.map(Controller::Rail).collect()
    }
}
