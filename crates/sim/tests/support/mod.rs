//! Small machines.

use farpost_sim::adapter::{Adapter, Kernel, Local, LocalParams, Rdma, RdmaParams};
use farpost_sim::core::Core;
use farpost_sim::costs::Costs;
use farpost_sim::net::{Hop, HostId, Network, ResourceId, ResourceSpec};
use farpost_sim::process::Processes;
use farpost_sim::time::{Ps, Rate};
use farpost_sim::topology::{By, Port, Topology};

pub fn ns(nanos: u64) -> Ps {
    Ps::from_nanos(nanos)
}

/// A link from each host to the middle, and one to each host.
struct Star {
    out: Vec<ResourceId>,
    inward: Vec<ResourceId>,
}

impl Topology for Star {
    fn rails(&self) -> u32 {
        1
    }

    fn path(
        &self,
        ends: (Port, Port),
        _lane: u8,
        _: By,
        broken: &dyn Fn(ResourceId) -> bool,
        path: &mut Vec<Hop>,
    ) -> bool {
        let way = [self.out[ends.0.host.index()], self.inward[ends.1.host.index()]];
        if way.into_iter().any(broken) {
            return false;
        }
        path.extend(way.map(|resource| Hop { resource, lane: 0 }));
        true
    }
}

pub fn costs() -> Costs {
    Costs {
        copy: vec![(u64::MAX, Rate(1e9))],
        poll: ns(10),
        entry: ns(5),
        ..Costs::default()
    }
}

/// `ranks` of them, so many on each host, with adapters of today's.
pub fn cluster(ranks: u32, on_host: u32, seed: u64) -> Core {
    let hosts: Vec<HostId> = (0..ranks).map(|rank| HostId(rank / on_host)).collect();
    let count = ranks.div_ceil(on_host);
    let mut net = Network::new(count, &[None, None], seed);
    let mut link = |name: String| net.add(ResourceSpec::new(name, Rate(1e9), ns(100)));
    let star = Star {
        out: (0..count).map(|host| link(format!("from host {host}"))).collect(),
        inward: (0..count).map(|host| link(format!("to host {host}"))).collect(),
    };
    let mut kernel = Kernel::new(net, Box::new(star), Processes::new(&hosts), seed);
    let params = RdmaParams {
        post: ns(50),
        fetch: ns(250),
        process: ns(50),
        inline: 0,
        store: ns(200),
        poll: ns(20),
        bus: Rate(4e9),
        mtu: 1024,
        header: 32,
        queue: 64,
    };
    let adapters = Rdma::of_hosts(&params, &mut kernel, count)
        .into_iter()
        .map(|adapter| Box::new(adapter) as Box<dyn Adapter>)
        .collect();
    let local = Local::new(LocalParams::default(), costs(), count);
    Core::new(kernel, adapters, local, costs())
}
