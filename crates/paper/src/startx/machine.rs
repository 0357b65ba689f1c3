//! The machine, put together from its file.

use farpost_sim::assemble;
use farpost_sim::core::Core;
use farpost_sim::machine::Machine;
use farpost_sim::net::HostId;

/// So many ranks on each SMP. SMPs of one are at hosts 0 and 2, whose paths pass two router stages.
pub fn core(machine: &Machine, per_smp: &[u32], seed: u64) -> Core {
    let place = |nr: u32| if per_smp.len() == 2 { 2 * nr } else { nr };
    let ranks: Vec<HostId> = (0..)
        .zip(per_smp)
        .flat_map(|(nr, count)| (0..*count).map(move |_| HostId(place(nr))))
        .collect();
    assemble(machine, machine.host.hosts.0, &ranks, seed).expect("so many hosts")
}

/// One rank on each of two SMPs.
pub fn pair(machine: &Machine) -> Core {
    core(machine, &[1, 1], 1)
}
