//! `C = A B` of single-precision square matrices whose columns are spread over the ranks (section 6.3): each rank broadcasts its columns of A, and all
//! multiply them with their columns of B. The rate of computing is what Table 2 gives for one SMP.

use super::{blocks, machine};
use farpost_fabric::Fabric;
use farpost_mpi::buffer::RecvBuf;
use farpost_mpi::coll::{self, Root};
use farpost_sim::machine::Machine;
use farpost_sim::ranks;
use farpost_sim::time::Ps;

/// Floating-point operations a second of a processor.
pub fn rate(n: u64) -> f64 {
    match n {
        1024 => 114.2e6,
        2048 => 125.8e6,
        _ => 85.6e6,
    }
}

/// On so many processors of each SMP, `blind`: by a broadcast that does not look at who shares an SMP.
pub fn time(machine: &Machine, per_smp: &[u32], n: u64, blind: bool) -> Ps {
    let core = machine::core(machine, per_smp, 1);
    let run = move |fabric: farpost_sim::fabric::SimFabric| {
        let size = fabric.size();
        let world = blocks::world(fabric, blind);
        let comm = world.comm_world();
        let bytes = 4 * n * n / u64::from(size);
        let flops = 2.0 * (n as f64).powi(3) / f64::from(size) / f64::from(size);
        let mut columns = vec![0u8; bytes as usize];
        let begun = world.fabric().time();
        for root in 0..size {
            // SAFETY: the buffer lives until the collective has ended.
            let block = unsafe { RecvBuf::new(columns.as_mut_ptr().cast(), bytes, blocks::byte()) };
            let plan =
                coll::bcast(&world.site(comm), block.into(), Root::Rank(root as usize)).expect("a plan");
            world.run_collective(comm, plan).expect("bcast");
            world.fabric().compute(Ps::from_secs(flops / rate(n)));
        }
        let plan = coll::barrier(&world.site(comm)).expect("a plan");
        world.run_collective(comm, plan).expect("barrier");
        let time = world.fabric().time() - begun;
        world.quiesce().expect("quiesce");
        world.drain_to_peers(|_| false).expect("drain");
        time
    };
    let (times, _) = ranks::run(core, run).expect("no rank hangs");
    times[0]
}
