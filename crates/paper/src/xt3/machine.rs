//! The machine, put together from its file.

use farpost_sim::assemble;
use farpost_sim::core::Core;
use farpost_sim::machine::Machine;
use farpost_sim::net::HostId;

/// Ranks on these nodes of it, of which it has `nodes` in all.
///
/// # Panics
/// When it has fewer nodes.
pub fn core(machine: &Machine, nodes: u32, ranks: &[HostId], seed: u64) -> Core {
    assemble(machine, nodes, ranks, seed).expect("so many nodes")
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
