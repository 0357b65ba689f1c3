//! The machine of the paper, put together: a LANai in each host, one switch.

use farpost_fabric::Work;
use farpost_sim::adapter::{Adapter, Kernel, Lanai, Local, LocalParams};
use farpost_sim::core::Core;
use farpost_sim::costs::Costs;
use farpost_sim::machine::{AdapterSpec, Lanai as LanaiSpec, Machine, TopologySpec};
use farpost_sim::net::{HostId, Network};
use farpost_sim::process::Processes;
use farpost_sim::time::Ps;
use farpost_sim::topology;

/// What the experiments differ in is the machine; chance is not drawn.
const SEED: u64 = 1995;

/// The machine's interface.
///
/// # Panics
/// It has another one.
pub fn lanai(machine: &Machine) -> &LanaiSpec {
    match &machine.adapter {
        AdapterSpec::Lanai(spec) => spec,
        other => panic!("{} has an adapter of kind {}", machine.name, other.kind()),
    }
}

/// The same with something else at a path.
///
/// # Panics
/// There is no such thing.
pub fn with(machine: &Machine, path: &str, value: &str) -> Machine {
    let value: Result<bool, _> = value.parse().map_err(|_| value);
    let changed = match value {
        Ok(value) => machine.with(path, value),
        Err(value) => machine.with(path, value),
    };
    changed.expect("a path of the machine")
}

/// One process on each of so many hosts.
///
/// Copies of Fast Messages between its own structures cost nothing: in the paper's, its send queue is the LANai's memory, into which the processor
/// stores (the adapter charges that), and handlers find messages in the DMA region.
///
/// # Panics
/// The machine has not so many hosts, or another interface.
pub fn core(machine: &Machine, hosts: u32) -> Core {
    let spec = lanai(machine);
    let processes: Vec<HostId> = (0..hosts).map(HostId).collect();
    // The channel's one place at each LANai.
    let mut net = Network::new(hosts, &[Some(1)], SEED);
    let topology = topology::build(&machine.topology, hosts, &mut net).expect("so many hosts");
    let TopologySpec::Switch(switch) = &machine.topology else {
        panic!("{} has no switch", machine.name);
    };
    let link = switch.link.rate.value;
    let kernel = Kernel::new(net, topology, Processes::new(&processes), SEED);
    let mut work = [Ps::ZERO; _];
    work[Work::FmSend as usize] = machine.software.fm_send.value;
    work[Work::FmExtract as usize] = machine.software.fm_extract.value;
    let costs = Costs {
        poll: machine.host.poll.value,
        store: machine.host.device_store.value,
        trap: machine.host.trap.value,
        work,
        ..Costs::default()
    };
    let memory = LocalParams {
        latency: machine.memory.latency.value,
        bus: machine.memory.rate.value,
        ..LocalParams::default()
    };
    let adapters = Lanai::of_hosts(spec, &machine.host, link, hosts)
        .into_iter()
        .map(|adapter| Box::new(adapter) as Box<dyn Adapter>)
        .collect();
    let local = Local::new(memory, costs.clone(), hosts);
    Core::new(kernel, adapters, local, costs)
}
