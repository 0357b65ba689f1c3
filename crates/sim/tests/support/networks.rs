//! Machines of any topology, with adapters of today's.

use farpost_sim::adapter::{Adapter, Kernel, Local, LocalParams, Rdma, RdmaParams};
use farpost_sim::core::Core;
use farpost_sim::costs::Costs;
use farpost_sim::machine::TopologySpec;
use farpost_sim::net::{HostId, Network};
use farpost_sim::process::Processes;
use farpost_sim::time::{Ps, Rate};
use farpost_sim::topology;

/// `topology.KIND` as in a machine's file, its numbers without where they are from; links of 1 GB/s and 50 ns.
pub fn topology(kind: &str, numbers: &[(&str, &str)]) -> TopologySpec {
    let number = |value: &str| format!("{{ value = {value}, assumed = \"an example\" }}");
    let key = |(key, value): &(&str, &str)| match *key {
        "rings" => format!("{key} = {value}\n"),
        "dimensions" => {
            let all: Vec<_> = value.split(' ').map(number).collect();
            format!("{key} = [{}]\n", all.join(", "))
        }
        _ => format!("{key} = {}\n", number(value)),
    };
    let keys = |all: &[(&str, &str)]| all.iter().map(key).collect::<String>();
    let link = [("rate", "\"1 GB/s\""), ("buffer", "8"), ("latency", "\"50 ns\"")];
    let text = format!("[{kind}]\n{}[{kind}.link]\n{}", keys(numbers), keys(&link));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{text}{error}"))
}

/// A rank on each of so many hosts.
pub fn machine(spec: &TopologySpec, hosts: u32, seed: u64) -> Core {
    let mut net = Network::new(hosts, &[None, None], seed);
    let topology = topology::build(spec, hosts, &mut net).expect("so many hosts");
    let ranks: Vec<HostId> = (0..hosts).map(HostId).collect();
    let mut kernel = Kernel::new(net, topology, Processes::new(&ranks), seed);
    let ns = Ps::from_nanos;
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
    let adapters = Rdma::of_hosts(&params, &mut kernel, hosts);
    let adapters = adapters.into_iter().map(|it| Box::new(it) as Box<dyn Adapter>);
    let adapters = adapters.collect();
    let costs = Costs {
        copy: vec![(u64::MAX, Rate(5e9))],
        poll: ns(10),
        entry: ns(5),
        ..Costs::default()
    };
    let local = Local::new(LocalParams::default(), costs.clone(), hosts);
    Core::new(kernel, adapters, local, costs)
}
