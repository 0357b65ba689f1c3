//! The machine of the paper, put together: a LANai in each host, one switch.

use farpost_sim::core::Core;
use farpost_sim::machine::{AdapterSpec, Lanai as LanaiSpec, Machine};
use farpost_sim::net::HostId;
use farpost_sim::time::Ps;
use farpost_sim::{assemble_with, costs_of};

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
    let processes: Vec<HostId> = (0..hosts).map(HostId).collect();
    let mut costs = costs_of(machine);
    costs.copy.clear();
    costs.entry = Ps::ZERO;
    assemble_with(machine, hosts, &processes, SEED, costs).expect("so many hosts")
}
