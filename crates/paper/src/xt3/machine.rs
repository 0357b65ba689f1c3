//! The machine, put together from its file.

use farpost_fabric::Work;
use farpost_sim::adapter::{Adapter, Kernel, Local, LocalParams, SeaStar, SeaStarParams};
use farpost_sim::core::Core;
use farpost_sim::costs::Costs;
use farpost_sim::machine::Machine;
use farpost_sim::net::{HostId, Network};
use farpost_sim::process::Processes;
use farpost_sim::time::{Ps, Rate};
use farpost_sim::topology;
use strum::EnumCount;

/// What the machine's processors cost.
pub fn costs(machine: &Machine, accelerated: bool) -> Costs {
    let (host, software) = (&machine.host, &machine.software);
    let mut work = [Ps::ZERO; Work::COUNT];
    work[Work::MpiSend as usize] = software.mpi_send.value;
    work[Work::MpiReceive as usize] = software.mpi_receive.value;
    work[Work::PortalsCall as usize] = software.portals_call.value;
    work[Work::PortalsReceive as usize] = software.portals_receive.value;
    work[Work::PortalsEvent as usize] = software.portals_event.value;
    let level = |level: &farpost_sim::machine::CopyLevel| {
        let most = level.up_to.as_ref().map_or(u64::MAX, |most| most.0);
        (most, level.rate.value)
    };
    Costs {
        copy: host.copy.iter().map(level).collect::<Vec<(u64, Rate)>>(),
        poll: host.poll.value,
        store: host.device_store.value,
        // The firmware matches there.
        entry: if accelerated {
            Ps::ZERO
        } else {
            host.match_entry.value
        },
        trap: host.trap.value,
        work,
        ..Costs::default()
    }
}

/// Ranks on these nodes of it, of which it has `nodes` in all.
///
/// # Panics
/// When it is no machine with SeaStars, or has fewer nodes.
pub fn core(machine: &Machine, nodes: u32, ranks: &[HostId], seed: u64) -> Core {
    let params = SeaStarParams::of(machine).expect("a machine with SeaStars");
    let mut net = Network::new(nodes, &[None, None], seed);
    let topology = topology::build(&machine.topology, nodes, &mut net).expect("so many nodes");
    let mut kernel = Kernel::new(net, topology, Processes::new(ranks), seed);
    let adapters = SeaStar::of_hosts(&params, &mut kernel, nodes)
        .into_iter()
        .map(|adapter| Box::new(adapter) as Box<dyn Adapter>)
        .collect();
    let costs = costs(machine, params.accelerated);
    let memory = LocalParams {
        latency: machine.memory.latency.value,
        bus: machine.memory.rate.value,
        ..LocalParams::default()
    };
    let local = Local::new(memory, costs.clone(), nodes);
    Core::new(kernel, adapters, local, costs)
}

/// Two neighbours.
pub fn pair(machine: &Machine) -> Core {
    core(machine, 2, &[HostId(0), HostId(1)], 1)
}

/// The same machine as its authors wanted it: processes reach the firmware without the kernel, and it matches.
///
/// # Panics
/// When it is no machine with SeaStars.
pub fn accelerated(machine: &Machine) -> Machine {
    machine
        .with("adapter.seastar.mode", "accelerated")
        .expect("a machine with SeaStars")
}
