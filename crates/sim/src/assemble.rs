//! A machine put together from its file, with processes on its hosts.

use crate::adapter::{
    Adapter, Kernel, Lanai, Local, LocalParams, Rdma, RdmaParams, Rsm, RsmParams, SeaStar, SeaStarParams,
    StarTx, StarTxParams,
};
use crate::core::Core;
use crate::costs::Costs;
use crate::machine::{AdapterSpec, CopyLevel, Machine, MachineError, Software, TopologySpec};
use crate::net::{HostId, Network};
use crate::process::Processes;
use crate::time::{Ps, Rate};
use crate::topology;
use farpost_fabric::Work;
use strum::EnumCount;

/// What a machine's processors cost.
pub fn costs_of(machine: &Machine) -> Costs {
    let level = |level: &CopyLevel| {
        let most = level.up_to.as_ref().map_or(u64::MAX, |most| most.0);
        (most, level.rate.value)
    };
    let host = &machine.host;
    // There the firmware matches.
    let matches_elsewhere = SeaStarParams::of(machine).is_some_and(|params| params.accelerated);
    Costs {
        copy: host.copy.iter().map(level).collect(),
        reduce: host.reduce.as_ref().map_or(Rate::INFINITE, |reduce| reduce.value),
        poll: host.poll.value,
        store: host.device_store.value,
        entry: if matches_elsewhere {
            Ps::ZERO
        } else {
            host.match_entry.value
        },
        trap: host.trap.value,
        work: work(&machine.software),
        ..Costs::default()
    }
}

/// What the layers' code costs.
fn work(software: &Software) -> [Ps; Work::COUNT] {
    let mut work = [Ps::ZERO; Work::COUNT];
    let costs = [
        (Work::MpiSend, &software.mpi_send),
        (Work::MpiReceive, &software.mpi_receive),
        (Work::FmSend, &software.fm_send),
        (Work::FmExtract, &software.fm_extract),
        (Work::JamSend, &software.jam_send),
        (Work::JamReceive, &software.jam_receive),
        (Work::JamRpcCall, &software.jam_rpc_call),
        (Work::JamRpcServe, &software.jam_rpc_serve),
        (Work::PortalsCall, &software.portals_call),
        (Work::PortalsReceive, &software.portals_receive),
        (Work::PortalsEvent, &software.portals_event),
    ];
    for (of, cost) in costs {
        work[of as usize] = cost.value;
    }
    work
}

/// Which of MPI's devices goes with a machine's adapter: the interface that its paper has. Empty: the default one, over remote memory.
pub fn device(machine: &Machine) -> &'static str {
    match machine.adapter {
        AdapterSpec::Rsm(_) | AdapterSpec::Rdma(_) => "",
        AdapterSpec::Lanai(_) => "fm",
        AdapterSpec::StarTX(_) => "jam",
        AdapterSpec::SeaStar(_) => "portals",
    }
}

/// The first `hosts` of a machine's hosts, with a process on each of `ranks`.
///
/// # Errors
/// There are not so many hosts, or the parts of the machine do not fit together.
///
/// # Panics
/// When a process is on a host that is none of them.
pub fn assemble(machine: &Machine, hosts: u32, ranks: &[HostId], seed: u64) -> Result<Core, MachineError> {
    assemble_with(machine, hosts, ranks, seed, costs_of(machine))
}

/// As [`assemble`], with processors that cost something else than the file says.
///
/// # Errors
/// As [`assemble`].
///
/// # Panics
/// As [`assemble`].
pub fn assemble_with(
    machine: &Machine,
    hosts: u32,
    ranks: &[HostId],
    seed: u64,
    costs: Costs,
) -> Result<Core, MachineError> {
    fn boxed<A: Adapter + 'static>(adapters: Vec<A>) -> Vec<Box<dyn Adapter>> {
        let boxed = |adapter| Box::new(adapter) as Box<dyn Adapter>;
        adapters.into_iter().map(boxed).collect()
    }
    assert!(
        ranks.iter().all(|rank| rank.0 < hosts),
        "a process on a host that does not exist"
    );
    let wrong = |what: String| MachineError(format!("{}: {what}", machine.name));
    // Places of each priority that a receiver has for packets; none: as many as there are.
    let queues = match &machine.adapter {
        AdapterSpec::StarTX(spec) => vec![Some(StarTxParams::of(machine, spec).queue); 2],
        // The channel's one place at each LANai.
        AdapterSpec::Lanai(_) => vec![Some(1)],
        _ => vec![None, None],
    };
    let mut net = Network::new(hosts, &queues, seed);
    if matches!(&machine.adapter, AdapterSpec::SeaStar(_) | AdapterSpec::Rdma(_)) {
        net.set_link_retries();
    }
    let topology = topology::build(&machine.topology, hosts, &mut net).map_err(wrong)?;
    let mut kernel = Kernel::new(net, topology, Processes::new(ranks), seed);
    let (host, memory) = (&machine.host, &machine.memory);
    let mut local = LocalParams {
        latency: memory.latency.value,
        bus: memory.rate.value,
        ..LocalParams::default()
    };
    let adapters = match &machine.adapter {
        AdapterSpec::Rsm(spec) => {
            // What a processor copies limits it, or the backplane; and messages go through shared segments.
            let backplane = memory.backplane.as_ref();
            local.bus = backplane.map_or(Rate::INFINITE, |it| it.value);
            (local.all_copies, local.transfers) = (backplane.is_some(), false);
            let params = RsmParams::of(spec, host, &machine.software);
            boxed(Rsm::of_hosts(&params, &mut kernel, hosts))
        }
        AdapterSpec::Rdma(spec) => {
            let params = RdmaParams {
                post: spec.doorbell.value,
                fetch: spec.fetch.value,
                process: spec.process.value,
                inline: spec.inline.0 as u32,
                store: spec.write.value + spec.process.value,
                poll: host.poll.value,
                bus: spec.dma.value,
                mtu: spec.packet.0 as u32,
                header: spec.header.0 as u32,
                queue: spec.queue_depth.0,
            };
            boxed(Rdma::of_hosts(&params, &mut kernel, hosts))
        }
        AdapterSpec::Lanai(spec) => {
            let TopologySpec::Switch(switch) = &machine.topology else {
                return Err(wrong("LANai interfaces need topology.switch".into()));
            };
            boxed(Lanai::of_hosts(spec, host, switch.link.rate.value, hosts))
        }
        AdapterSpec::StarTX(spec) => {
            let params = StarTxParams::of(machine, spec);
            boxed(StarTx::of_hosts(&params, &mut kernel, hosts))
        }
        AdapterSpec::SeaStar(_) => {
            let params = SeaStarParams::of(machine).expect("its adapter is one");
            boxed(SeaStar::of_hosts(&params, &mut kernel, hosts))
        }
    };
    let local = Local::new(local, costs.clone(), hosts);
    let mut core = Core::new(kernel, adapters, local, costs);
    core.add_faults(&machine.faults, seed).map_err(wrong)?;
    Ok(core)
}

/// So many processes on each host, neighbours by number.
pub fn placement(ranks: u32, per_host: u32) -> Vec<HostId> {
    (0..ranks).map(|rank| HostId(rank / per_host.max(1))).collect()
}
