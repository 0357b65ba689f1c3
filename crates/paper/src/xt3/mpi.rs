//! NetPIPE's tests with its MPI module: blocking calls over Portals, which matches.

use super::machine;
use super::netpipe::{EXCHANGES, Test, messages, tunables};
use farpost_fabric::Fabric;
use farpost_mpi::Rank;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::Machine;
use farpost_sim::ranks;
use farpost_sim::time::Ps;

/// `MPI_BYTE`.
const BYTE: usize = 0x247;

struct End {
    world: World<SimFabric>,
    other: Rank,
    out: Vec<u8>,
    inward: Vec<u8>,
}

impl End {
    fn new(fabric: SimFabric, len: usize) -> Self {
        let other = 1 - fabric.me().0 as Rank;
        let config = WorldConfig {
            device: DeviceConfig {
                device: Device::Portals,
                portals: tunables(),
                ..DeviceConfig::default()
            },
            ..WorldConfig::default()
        };
        Self {
            world: World::new(fabric, config),
            other,
            out: vec![1; len],
            inward: vec![0; len],
        }
    }

    fn now(&self) -> Ps {
        self.world.fabric().time()
    }

    fn buffers(&mut self) -> (SendBuf, RecvBuf) {
        let byte = || Datatype::predefined(BYTE).expect("a byte");
        let (to, len) = (self.inward.as_mut_ptr().cast(), self.inward.len() as u64);
        // SAFETY: the memory is this structure's, and lives until its calls have returned.
        unsafe {
            (
                SendBuf::new(self.out.as_ptr().cast(), len, byte()),
                RecvBuf::new(to, len, byte()),
            )
        }
    }

    fn send(&mut self) {
        let (out, _) = self.buffers();
        let comm = self.world.comm_world();
        self.world
            .send(comm, &out, self.other, 1, Mode::Standard)
            .expect("a send");
    }

    fn receive(&mut self) {
        let (_, inward) = self.buffers();
        let comm = self.world.comm_world();
        self.world.recv(comm, inward, self.other, 1).expect("a receive");
    }

    /// Both ways at once.
    fn exchange(&mut self) {
        let (out, inward) = self.buffers();
        let comm = self.world.comm_world();
        let receiving = self.world.irecv(comm, inward, self.other, 1).expect("a receive");
        self.world
            .send(comm, &out, self.other, 1, Mode::Standard)
            .expect("a send");
        self.world.wait(receiving).expect("a message");
    }

    fn close(self) {
        self.world.quiesce().expect("nothing is under way");
        self.world.drain_to_peers(|_| false).expect("nothing is left");
    }
}

/// The time of a message of `len` bytes, as [`netpipe::time`](super::netpipe::time).
pub fn time(machine: &Machine, test: Test, len: usize) -> Ps {
    let body = |fabric: SimFabric| {
        let first = fabric.me().0 == 0;
        let mut end = End::new(fabric, len);
        let time = match test {
            Test::Stream => stream(&mut end, first, messages(len)),
            Test::Bidirectional => both(&mut end),
            _ => ping_pong(&mut end, first),
        };
        end.close();
        time
    };
    let (times, _) = ranks::run(machine::pair(machine), body).expect("no rank hangs");
    times[usize::from(test == Test::Stream)]
}

fn ping_pong(end: &mut End, first: bool) -> Ps {
    let mut begun = Ps::ZERO;
    for exchange in 0..=EXCHANGES {
        if exchange == 1 {
            begun = end.now();
        }
        if first {
            end.send();
        }
        end.receive();
        if !first {
            end.send();
        }
    }
    Ps((end.now() - begun).0 / u64::from(2 * EXCHANGES))
}

fn stream(end: &mut End, first: bool, messages: u32) -> Ps {
    if first {
        end.receive();
        end.send();
    } else {
        end.send();
        end.receive();
    }
    let begun = end.now();
    for _ in 0..messages {
        match first {
            true => end.send(),
            false => end.receive(),
        }
    }
    Ps((end.now() - begun).0 / u64::from(messages))
}

fn both(end: &mut End) -> Ps {
    let mut begun = Ps::ZERO;
    for exchange in 0..=EXCHANGES {
        if exchange == 1 {
            begun = end.now();
        }
        end.exchange();
    }
    Ps((end.now() - begun).0 / u64::from(2 * EXCHANGES))
}
