//! Many ranks of MPI's worlds on large machines.

use crate::machines::with_rdma;
use farpost_fabric::Fabric;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig};
use farpost_mpi::coll;
use farpost_mpi::comm::Comm;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_sim::core::Core;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::{Machine, MachineError};
use farpost_sim::{assemble, placement};

/// A machine that comes with Farpost by its name, or one of today's adapters as large as it has to be: `torus`, that of the XT3, or `tree`.
pub struct On(pub String);

impl On {
    /// Such a machine with so many ranks, one on each host; and which of MPI's devices goes with it.
    pub fn core(&self, ranks: u32, seed: u64) -> Result<(Core, Device), String> {
        let said = |error: MachineError| error.to_string();
        let machine = match self.0.as_str() {
            "torus" => longer(with_rdma("xt3").map_err(said)?, ranks),
            "tree" => taller(Machine::open("cluster-100g").map_err(said)?, ranks),
            name => Machine::open(name),
        };
        let machine = machine.map_err(said)?;
        let hosts = machine.hosts_for(ranks, Some(1)).map_err(said)?;
        let core = assemble(&machine, hosts, &placement(ranks, 1), seed).map_err(said)?;
        let device = match farpost_sim::device(&machine) {
            "fm" => Device::Fm,
            "jam" => Device::Jam,
            "portals" => Device::Portals,
            _ => Device::Postbox,
        };
        Ok((core, device))
    }
}

/// The machine with its torus longer in x where there are more ranks than nodes.
fn longer(machine: Machine, ranks: u32) -> Result<Machine, MachineError> {
    if ranks <= machine.host.hosts.0 {
        return Ok(machine);
    }
    let length = ranks.div_ceil(16 * 24);
    let longer = machine.with("topology.torus.dimensions.0", i64::from(length))?;
    longer.with("host.hosts", i64::from(length * 16 * 24))
}

/// The machine with a third level of routers where there are more ranks than hosts.
fn taller(machine: Machine, ranks: u32) -> Result<Machine, MachineError> {
    if ranks <= machine.host.hosts.0 {
        return Ok(machine);
    }
    let radix = (4..)
        .step_by(2)
        .find(|radix| (radix / 2_i64).pow(3) >= i64::from(ranks));
    let radix = radix.unwrap_or_default();
    let taller = machine.with("topology.fat_tree.levels", 3)?;
    taller
        .with("topology.fat_tree.radix", radix)?
        .with("host.hosts", (radix / 2).pow(3))
}

/// What ranks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Allreduce,
    Barrier,
    /// A word goes from rank to rank, all of them at once.
    Ring,
}

impl Pattern {
    /// Its name on the command line.
    pub fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "allreduce" => Self::Allreduce,
            "barrier" => Self::Barrier,
            "ring" => Self::Ring,
            _ => return Err(format!("pattern {name}: allowed are allreduce, barrier, ring")),
        })
    }

    /// What each of `size` ranks has to get.
    pub fn expected(self, rank: u32, size: u32) -> i64 {
        let (rank, size) = (i64::from(rank), i64::from(size));
        match self {
            Self::Allreduce => size * (size - 1) / 2,
            Self::Barrier => 0,
            Self::Ring => (rank + size - 1) % size,
        }
    }

    /// One rank's part; what it got.
    pub fn run(self, end: SimFabric, device: Device) -> i64 {
        let (me, size) = (i64::from(end.me().0), i64::from(end.size()));
        let config = WorldConfig {
            device: DeviceConfig {
                device,
                ..DeviceConfig::default()
            },
            ..WorldConfig::default()
        };
        let world = World::new(end, config);
        let comm = world.comm_world();
        let got = self.once(&world, comm, (me, size));
        world.quiesce().expect("quiesce");
        if device != Device::Postbox {
            // Nobody goes while others still hear from it.
            Self::Barrier.once(&world, comm, (me, size));
            world.drain_to_peers(|_| false).expect("drain");
        }
        got
    }

    fn once(self, world: &World<SimFabric>, comm: &Comm, (me, size): (i64, i64)) -> i64 {
        let word = || Datatype::predefined(0x258).expect("int64_t");
        let (mine, mut got) = ([me], [0i64]);
        // SAFETY: what uses them is waited for before they go.
        let (send, recv) = unsafe {
            (
                SendBuf::new(mine.as_ptr().cast(), 1, word()),
                RecvBuf::new(got.as_mut_ptr().cast(), 1, word()),
            )
        };
        match self {
            Self::Allreduce => {
                let op = Op::predefined(0x21).expect("MPI_SUM");
                let plan = coll::allreduce(&world.site(comm), Some(send.into()), recv.into(), &op);
                world
                    .run_collective(comm, plan.expect("a plan"))
                    .expect("allreduce");
            }
            Self::Barrier => {
                let plan = coll::barrier(&world.site(comm)).expect("a plan");
                world.run_collective(comm, plan).expect("barrier");
            }
            Self::Ring => {
                let (next, before) = ((me + 1) % size, (me + size - 1) % size);
                let receiving = world.irecv(comm, recv, before as i32, 7).expect("receive");
                world
                    .send(comm, &send, next as i32, 7, Mode::Standard)
                    .expect("send");
                world.wait(receiving).expect("wait");
            }
        }
        got[0]
    }
}
