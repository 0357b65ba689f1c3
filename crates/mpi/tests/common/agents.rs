//! Worlds of MPI over Portals in one thread, each by itself or by way of an agent.
#![allow(dead_code)]

use farpost_fabric::Peer;
use farpost_mpi::carrier::Device;
use farpost_mpi::world::{World, WorldConfig};
use farpost_portals::agent::{Access, Agent, AgentTunables, Mode, Routes};
use farpost_portals::{Owner, Processes};
use farpost_routed::Routed;
use farpost_shm::conformance::shm_ends;
use farpost_shm::{Shm, ShmTunables};
use farpost_tcp::Tcp;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

pub type Near = Routed<Tcp>;
pub type Worlds = Vec<World<Near>>;

thread_local! {
    static AGENTS: RefCell<Vec<Agent<Near>>> = const { RefCell::new(Vec::new()) };
}

/// A turn of each agent of this thread.
pub fn step() {
    AGENTS.with_borrow_mut(|agents| {
        for agent in agents {
            agent.step();
        }
    });
}

/// Agents and their tunables.
#[derive(Clone)]
pub struct Agents {
    pub mode: Mode,
    /// As many, among which the ranks are shared out by halves.
    pub count: u32,
    pub tunables: AgentTunables,
    /// The memory that worlds are told they have, if that is not what they have.
    pub told: Option<u64>,
}

impl Agents {
    pub fn new(mode: Mode, count: u32) -> Self {
        let tunables = AgentTunables {
            objects: 1 << 30,
            // Whoever is not looked at for long is not given up.
            patience: 1 << 40,
            memory: 8 << 20,
            ..AgentTunables::default()
        };
        Self {
            mode,
            count,
            tunables,
            told: None,
        }
    }
}

/// `size` worlds on ends of shared memory.
pub fn worlds(size: u32, shm: &ShmTunables, config: &WorldConfig, agents: Option<&Agents>) -> Worlds {
    let count = agents.map_or(0, |agents| agents.count);
    on(shm_ends(size + count, shm), size, config, agents)
}

/// The same on ends that are there, the last of which are the agents'.
pub fn on(ends: Vec<Shm>, size: u32, config: &WorldConfig, agents: Option<&Agents>) -> Worlds {
    let (ends, config) = begin(ends, size, config, agents);
    ends.into_iter().map(|end| world(end, &config)).collect()
}

/// One of the worlds.
pub fn world(end: Rc<Near>, config: &WorldConfig) -> World<Near> {
    World::on(end, config.clone())
}

/// The agents of [`on`], the ends that are left for worlds, and the configuration of these.
pub fn begin(
    ends: Vec<Shm>,
    size: u32,
    config: &WorldConfig,
    agents: Option<&Agents>,
) -> (Vec<Rc<Near>>, WorldConfig) {
    let processes = ends.len() as u32;
    let hosts: Rc<[u32]> = vec![0; ends.len()].into();
    let near = |end| Routed::new(end, None::<Tcp>, Rc::clone(&hosts)).with_size(size);
    let mut ends: Vec<Rc<Near>> = ends.into_iter().map(near).map(Rc::new).collect();
    let mut config = config.clone();
    config.device.device = Device::Portals;
    AGENTS.take();
    if let Some(Agents {
        mode,
        count,
        tunables,
        told,
    }) = agents
    {
        let clients: Vec<_> = (0..size)
            .map(|rank| (rank, Peer(size + rank * count / size)))
            .collect();
        let routes = Routes::new(processes, &clients).of(Owner::Mpi);
        let all = Rc::new(Processes::by_rank((0..processes).map(|_| 0)));
        let agent = |end: Rc<Near>| {
            let (routes, all) = (Rc::new(routes.clone()), Rc::clone(&all));
            Agent::new(end, tunables, &config.device.portals, routes, all).expect("an agent")
        };
        AGENTS.set(ends.drain(size as usize..).map(agent).collect());
        config.device.agents = Some(Access {
            routes,
            mode: Some(*mode),
            patience: Duration::from_secs(60),
            memory: told.unwrap_or(tunables.memory),
            turn: Some(step),
        });
    }
    (ends, config)
}
