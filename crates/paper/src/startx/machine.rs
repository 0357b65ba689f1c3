//! The machine, put together from its file.

use farpost_fabric::Work;
use farpost_sim::adapter::{Adapter, Kernel, Local, LocalParams, StarTx, StarTxParams};
use farpost_sim::core::Core;
use farpost_sim::costs::Costs;
use farpost_sim::machine::{AdapterSpec, Machine};
use farpost_sim::net::{HostId, Network};
use farpost_sim::process::Processes;
use farpost_sim::time::Ps;
use farpost_sim::topology;
use strum::EnumCount;

fn params(machine: &Machine) -> StarTxParams {
    match &machine.adapter {
        AdapterSpec::StarTX(spec) => StarTxParams::of(machine, spec),
        other => panic!("a machine with StarT-X, not {}", other.kind()),
    }
}

/// What the machine's processors cost.
fn costs(machine: &Machine) -> Costs {
    let (host, software) = (&machine.host, &machine.software);
    let mut work = [Ps::ZERO; Work::COUNT];
    work[Work::MpiSend as usize] = software.mpi_send.value;
    work[Work::MpiReceive as usize] = software.mpi_receive.value;
    work[Work::JamRpcCall as usize] = software.jam_rpc_call.value;
    work[Work::JamRpcServe as usize] = software.jam_rpc_serve.value;
    let level = |level: &farpost_sim::machine::CopyLevel| {
        let most = level.up_to.as_ref().map_or(u64::MAX, |most| most.0);
        (most, level.rate.value)
    };
    Costs {
        copy: host.copy.iter().map(level).collect(),
        poll: host.poll.value,
        store: host.device_store.value,
        entry: host.match_entry.value,
        trap: host.trap.value,
        work,
        ..Costs::default()
    }
}

/// So many ranks on each SMP. SMPs of one are at hosts 0 and 2, whose paths pass two router stages.
pub fn core(machine: &Machine, per_smp: &[u32], seed: u64) -> Core {
    let params = params(machine);
    let place = |nr: u32| if per_smp.len() == 2 { 2 * nr } else { nr };
    let ranks: Vec<HostId> = (0..)
        .zip(per_smp)
        .flat_map(|(nr, count)| (0..*count).map(move |_| HostId(place(nr))))
        .collect();
    let hosts = machine.host.hosts.0;
    let queues = [Some(params.queue); 2];
    let mut net = Network::new(hosts, &queues, seed);
    let topology = topology::build(&machine.topology, hosts, &mut net).expect("so many hosts");
    let mut kernel = Kernel::new(net, topology, Processes::new(&ranks), seed);
    let adapters = StarTx::of_hosts(&params, &mut kernel, hosts)
        .into_iter()
        .map(|adapter| Box::new(adapter) as Box<dyn Adapter>)
        .collect();
    let costs = costs(machine);
    let memory = LocalParams {
        latency: machine.memory.latency.value,
        bus: machine.memory.rate.value,
        ..LocalParams::default()
    };
    Core::new(kernel, adapters, Local::new(memory, costs.clone(), hosts), costs)
}

/// One rank on each of two SMPs.
pub fn pair(machine: &Machine) -> Core {
    core(machine, &[1, 1], 1)
}
