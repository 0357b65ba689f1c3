//! Many ranks of MPI's worlds on large machines.

use farpost_fabric::Fabric;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig};
use farpost_mpi::coll;
use farpost_mpi::comm::Comm;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_sim::adapter::{Adapter, Kernel, Local, LocalParams, Rdma, SeaStar, SeaStarParams};
use farpost_sim::core::Core;
use farpost_sim::costs::Costs;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::Machine;
use farpost_sim::net::{HostId, Network};
use farpost_sim::process::Processes;
use farpost_sim::topology;

/// What ranks run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Today's adapters around a switch.
    Star,
    /// Today's adapters on the torus of the XT3, made as large as it has to be.
    Torus,
    /// The XT3: its torus and its SeaStars.
    Xt3,
}

impl On {
    /// Its name on the command line.
    pub fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "star" => Self::Star,
            "torus" => Self::Torus,
            "xt3" => Self::Xt3,
            _ => return Err(format!("machine {name}: allowed are star, torus, xt3")),
        })
    }

    /// Such a machine for so many ranks, one on each host.
    pub fn core(self, ranks: u32, seed: u64) -> Result<Core, String> {
        if self == Self::Star {
            return Ok(super::cluster(ranks, 1, seed));
        }
        let machine = xt3_for(ranks)?;
        let hosts: Vec<HostId> = (0..ranks).map(HostId).collect();
        let mut net = Network::new(ranks, &[None, None], seed);
        let topology = topology::build(&machine.topology, ranks, &mut net)?;
        let mut kernel = Kernel::new(net, topology, Processes::new(&hosts), seed);
        let boxed = |it: Vec<Box<dyn Adapter>>| it;
        let adapters = if self == Self::Torus {
            let all = Rdma::of_hosts(&super::rdma(), &mut kernel, ranks);
            boxed(all.into_iter().map(|it| Box::new(it) as _).collect())
        } else {
            let params = SeaStarParams::of(&machine).ok_or("no SeaStars")?;
            let all = SeaStar::of_hosts(&params, &mut kernel, ranks);
            boxed(all.into_iter().map(|it| Box::new(it) as _).collect())
        };
        let local = Local::new(LocalParams::default(), Costs::default(), ranks);
        Ok(Core::new(kernel, adapters, local, super::costs()))
    }

    /// What MPI's messages go by there. SeaStars have no remote memory.
    pub fn device(self) -> Device {
        match self {
            Self::Star | Self::Torus => Device::Postbox,
            Self::Xt3 => Device::Portals,
        }
    }
}

/// The XT3 with its torus longer in x where there are more ranks than nodes.
fn xt3_for(ranks: u32) -> Result<Machine, String> {
    let machine = Machine::open("xt3").map_err(|error| error.to_string())?;
    if ranks <= machine.host.hosts.0 {
        return Ok(machine);
    }
    let length = i64::from(ranks.div_ceil(16 * 24));
    let hosts = i64::from(ranks.div_ceil(16 * 24) * 16 * 24);
    let longer = machine.with("topology.torus.dimensions.0", length);
    let more = longer.and_then(|machine| machine.with("host.hosts", hosts));
    more.map_err(|error| error.to_string())
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
