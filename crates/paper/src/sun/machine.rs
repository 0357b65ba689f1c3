//! The cluster of the paper, put together from its file, and Sun MPI's settings on it.

use farpost_channel::ChannelTunables;
use farpost_fabric::{Cost, Fabric, Time, Work};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::coll::{self, Plan, Tuning};
use farpost_mpi::comm::Comm;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::engine::EngineTunables;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_sim::adapter::{Adapter, Kernel, Local, LocalParams, Rsm, RsmParams};
use farpost_sim::core::Core;
use farpost_sim::costs::Costs;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::{AdapterSpec, CopyLevel, Machine};
use farpost_sim::net::{HostId, Network};
use farpost_sim::process::Processes;
use farpost_sim::ranks;
use farpost_sim::time::{Ps, Rate};
use farpost_sim::topology;
use strum::EnumCount;

/// Bytes to which one postbox of Sun's refers: seven blocks of 4 KiB, whose places fill 56 bytes behind the flag. A postbox of Farpost's refers to one block, so that
/// a block here is that many; its parts, for shorter messages, have 3.5 KiB.
pub const POSTBOX: usize = 7 * 4096;

/// The machine of the paper.
pub fn machine() -> Machine {
    Machine::open("sun-fire-link").expect("it comes with Farpost")
}

/// What its processors cost.
fn costs(machine: &Machine) -> Costs {
    let (host, software) = (&machine.host, &machine.software);
    let mut work = [Ps::ZERO; Work::COUNT];
    work[Work::MpiSend as usize] = software.mpi_send.value;
    work[Work::MpiReceive as usize] = software.mpi_receive.value;
    let level = |level: &CopyLevel| {
        let most = level.up_to.as_ref().map_or(u64::MAX, |most| most.0);
        (most, level.rate.value)
    };
    Costs {
        copy: host.copy.iter().map(level).collect(),
        reduce: host.reduce.as_ref().map_or(Rate::INFINITE, |reduce| reduce.value),
        poll: host.poll.value,
        entry: host.match_entry.value,
        trap: host.trap.value,
        work,
        ..Costs::default()
    }
}

/// What all processors of a host copy together.
fn backplane(machine: &Machine) -> Rate {
    let backplane = machine.memory.backplane.as_ref();
    backplane.map_or(Rate::INFINITE, |it| it.value)
}

/// Ranks on these hosts of it.
pub fn core(machine: &Machine, ranks: &[HostId], seed: u64, change: impl Fn(&mut RsmParams)) -> Core {
    let hosts = ranks.iter().map(|host| host.0 + 1).max().unwrap_or(1);
    let AdapterSpec::Rsm(rsm) = &machine.adapter else {
        unreachable!("Sun Fire Link has RSM controllers")
    };
    let mut params = RsmParams::of(rsm, &machine.host, &machine.software);
    change(&mut params);
    let mut net = Network::new(hosts, &[None, None], seed);
    let topology = topology::build(&machine.topology, hosts, &mut net).expect("a port for each");
    let mut kernel = Kernel::new(net, topology, Processes::new(ranks), seed);
    let adapters = Rsm::of_hosts(&params, &mut kernel, hosts)
        .into_iter()
        .map(|adapter| Box::new(adapter) as Box<dyn Adapter>)
        .collect();
    let costs = costs(machine);
    let memory = LocalParams {
        latency: machine.memory.latency.value,
        // What a processor copies limits it, and what the backplane carries all of them.
        bus: backplane(machine),
        all_copies: machine.memory.backplane.is_some(),
        // Messages go through shared segments.
        transfers: false,
        ..LocalParams::default()
    };
    let local = Local::new(memory, costs.clone(), hosts);
    Core::new(kernel, adapters, local, costs)
}

/// So many ranks, the same number on each of the hosts.
pub fn spread(ranks: u32, hosts: u32) -> Vec<HostId> {
    (0..ranks).map(|rank| HostId(rank * hosts / ranks)).collect()
}

/// How MPI is set.
#[derive(Clone, Copy, Debug)]
pub struct Mpi {
    /// Of a block: what one postbox refers to.
    pub block: usize,
    pub blocks: usize,
    /// Messages through blocks that nobody asks for.
    pub eager: u64,
}

impl Default for Mpi {
    fn default() -> Self {
        Self {
            block: POSTBOX,
            blocks: 16,
            eager: POSTBOX as u64,
        }
    }
}

impl Mpi {
    fn config(self) -> WorldConfig {
        WorldConfig {
            rsm: ChannelTunables {
                slots: 128,
                block: self.block as _,
                blocks: self.blocks as _,
            },
            engine: EngineTunables {
                eager_max: self.eager as _,
                eager_far: self.eager as _,
                // Section 4.2: the transition between the protocols.
                run_far: 2000,
                ..EngineTunables::default()
            },
            tuning: Tuning {
                // Slower than MPI_Gatherv, whose ranks do not know each other's counts and so have no tree.
                gather: 1,
                // Along chains a postbox's bytes at once.
                pipeline: POSTBOX as _,
                ..Tuning::default()
            },
            ..WorldConfig::default()
        }
    }
}

/// A rank of an MPI job on the machine.
pub struct Rank {
    pub world: World<SimFabric>,
    pub me: usize,
    pub size: usize,
}

/// One byte.
pub fn byte() -> Datatype {
    Datatype::predefined(0x247).expect("a byte")
}

/// Bytes to send. They live until the send has ended.
#[expect(unsafe_code, reason = "MPI's buffers are memory of the program's")]
pub fn send_buf(bytes: &[u8]) -> SendBuf {
    // SAFETY: callers keep the bytes until the operation has ended.
    unsafe { SendBuf::new(bytes.as_ptr().cast(), bytes.len() as u64, byte()) }
}

/// Room to receive into. It lives until the receive has ended.
#[expect(unsafe_code, reason = "MPI's buffers are memory of the program's")]
pub fn recv_buf(bytes: &mut [u8]) -> RecvBuf {
    // SAFETY: callers keep the bytes until the operation has ended, and look at none of them meanwhile.
    unsafe { RecvBuf::new(bytes.as_mut_ptr().cast(), bytes.len() as u64, byte()) }
}

impl Rank {
    pub fn comm(&self) -> &Comm {
        self.world.comm_world()
    }

    pub fn now(&self) -> Ps {
        self.world.fabric().time()
    }

    pub fn compute(&self, time: Ps) {
        self.world.fabric().compute(time);
    }

    pub fn send(&self, bytes: &[u8], to: usize) {
        self.world
            .send(self.comm(), &send_buf(bytes), to as i32, 1, Mode::Standard)
            .expect("send");
    }

    pub fn recv(&self, bytes: &mut [u8], from: usize) {
        self.world
            .recv(self.comm(), recv_buf(bytes), from as i32, 1)
            .expect("recv");
    }

    /// Begin to receive: a request to wait for.
    pub fn begin_recv(&self, bytes: &mut [u8], from: usize) -> usize {
        self.world
            .irecv(self.comm(), recv_buf(bytes), from as i32, 1)
            .expect("irecv")
    }

    /// Send to one and receive from another at the same time.
    pub fn exchange(&self, (sent, to): (&[u8], usize), (got, from): (&mut [u8], usize)) {
        let receiving = self.begin_recv(got, from);
        self.send(sent, to);
        self.world.wait(receiving).expect("wait");
    }

    /// What a reduction's step takes for so many bytes. Nobody looks at what comes out.
    pub fn combine(&self, bytes: usize) {
        self.world.fabric().charge(Cost::Reduce(bytes));
    }

    /// A collective of Farpost's.
    pub fn collective(&self, plan: Plan) {
        self.world
            .run_collective(self.comm(), plan)
            .expect("a collective");
    }

    pub fn barrier(&self) {
        self.collective(coll::barrier(&self.world.site(self.comm())).expect("a plan"));
    }
}

/// Run an MPI program on every rank; what it gave, and the machine.
pub fn run_on<T: 'static>(core: Core, mpi: Mpi, program: impl Fn(&Rank) -> T) -> (Vec<T>, Core) {
    ranks::run(core, |end: SimFabric| {
        let (me, size) = (end.me().0 as usize, end.size() as usize);
        let world = World::new(end, mpi.config());
        let rank = Rank { world, me, size };
        let result = program(&rank);
        rank.world.quiesce().expect("quiesce");
        rank.barrier();
        rank.world.drain_to_peers(|_| false).expect("drain");
        assert_eq!(rank.world.take_faults(), Vec::<String>::new());
        result
    })
    .expect("no rank hangs")
}

/// As [`run_on`], of so many ranks on so many hosts of an unchanged machine.
pub fn run<T: 'static>(
    machine: &Machine,
    (ranks, hosts): (u32, u32),
    program: impl Fn(&Rank) -> T,
) -> Vec<T> {
    let core = core(machine, &spread(ranks, hosts), 1, |_| ());
    run_on(core, Mpi::default(), program).0
}
