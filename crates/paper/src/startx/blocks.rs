//! Blocks: RDMA by itself (section 6.1.2), JAM's remote procedures and MPI (section 6.2). One way is half a ping-pong.

use super::machine;
use farpost_fabric::{Fabric, Peer};
use farpost_jam::{Jam, JamTunables};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_sim::adapter::{Pair, StarTx};
use farpost_sim::core::Core;
use farpost_sim::fabric::SimFabric;
use farpost_sim::machine::Machine;
use farpost_sim::ranks;
use farpost_sim::time::Ps;
use std::cell::Cell;
use std::rc::Rc;

const TRIPS: u64 = 5;

fn pause(fabric: &SimFabric) {
    fabric.wait_for_something(fabric.time() + Ps::from_nanos(1_000_000));
}

fn run(core: Core, body: impl Fn(SimFabric) -> Ps) -> Ps {
    let (times, _) = ranks::run(core, body).expect("no rank hangs");
    times[0]
}

fn send_block(fabric: &SimFabric, bytes: usize) {
    let (from, to) = (fabric.me(), Peer(1 - fabric.me().0));
    fabric.with_core(|core| {
        let host = core.kernel.procs.host_of(from);
        let (adapter, kernel) = core.adapter_of(host);
        let adapter = adapter.as_any().downcast_mut::<StarTx>().expect("StarT-X");
        let time = adapter.send_block(kernel, Pair { from, to }, bytes);
        core.spend(from, time);
    });
}

/// A block has arrived: the engine's counter says so, which is read.
fn await_block(fabric: &SimFabric, read: Ps) {
    while !fabric.with_core(|core| core.kernel.procs.take_rung(fabric.me())) {
        pause(fabric);
    }
    fabric.compute(read);
}

/// One way, or both at once.
pub fn rdma(machine: &Machine, bytes: usize, exchange: bool) -> Ps {
    let read = machine.host.device_load.value;
    let whole = run(machine::pair(machine), move |fabric| {
        let begun = fabric.time();
        for _ in 0..TRIPS {
            if exchange || fabric.me() == Peer(0) {
                send_block(&fabric, bytes);
                await_block(&fabric, read);
            } else {
                await_block(&fabric, read);
                send_block(&fabric, bytes);
            }
        }
        fabric.time() - begun
    });
    Ps(whole.0 / if exchange { TRIPS } else { 2 * TRIPS })
}

/// A call of a procedure that calls back.
pub fn rpc(machine: &Machine, bytes: usize) -> Ps {
    let whole = run(machine::pair(machine), move |fabric| {
        let me = fabric.me();
        let jam = Jam::new(Rc::new(fabric), &JamTunables::default(), &Default::default());
        let came = Rc::new(Cell::new(0u64));
        let count = Rc::clone(&came);
        jam.register(0, Rc::new(move |_, _, _| count.set(count.get() + 1)))
            .expect("a number");
        let (other, argument) = (Peer(1 - me.0), vec![1u8; bytes]);
        let wait = |until: u64| {
            while came.get() < until {
                jam.poll();
                if came.get() < until {
                    pause(jam.fabric());
                }
            }
        };
        let begun = jam.fabric().time();
        for trip in 1..=TRIPS {
            if me == Peer(0) {
                jam.rpc(other, 0, &argument).expect("a call");
                wait(trip);
            } else {
                wait(trip);
                jam.rpc(other, 0, &argument).expect("a call");
            }
        }
        let time = jam.fabric().time() - begun;
        // What the other side waits for goes out.
        while jam.has_waiting() {
            jam.poll();
            pause(jam.fabric());
        }
        time
    });
    Ps(whole.0 / (2 * TRIPS))
}

/// A world over JAM; `blind`: its collectives do not look at who shares a host.
pub fn world(fabric: SimFabric, blind: bool) -> World<SimFabric> {
    let mut config = WorldConfig {
        device: DeviceConfig {
            device: Device::Jam,
            ..DeviceConfig::default()
        },
        ..WorldConfig::default()
    };
    config.tuning.bcast = u64::from(blind) as _;
    World::new(fabric, config)
}

pub fn byte() -> Datatype {
    Datatype::predefined(0x247).expect("a byte")
}

/// MPI between two ranks: of two SMPs, or of one.
pub fn mpi(machine: &Machine, bytes: usize, near: bool) -> Ps {
    let core = match near {
        true => machine::core(machine, &[2], 1),
        false => machine::pair(machine),
    };
    let whole = run(core, move |fabric| {
        let me = fabric.me();
        let world = world(fabric, false);
        let comm = world.comm_world();
        let (sent, mut got) = (vec![1u8; bytes], vec![0u8; bytes]);
        let other = 1 - me.0 as i32;
        let mut begun = Ps::ZERO;
        for trip in 0..=TRIPS {
            // The first one makes what is made once.
            if trip == 1 {
                begun = world.fabric().time();
            }
            // SAFETY: both buffers live until the calls have returned.
            let (send, recv) = unsafe {
                (
                    SendBuf::new(sent.as_ptr().cast(), bytes as u64, byte()),
                    RecvBuf::new(got.as_mut_ptr().cast(), bytes as u64, byte()),
                )
            };
            if me == Peer(0) {
                world.send(comm, &send, other, 7, Mode::Standard).expect("send");
                world.recv(comm, recv, other, 7).expect("receive");
            } else {
                world.recv(comm, recv, other, 7).expect("receive");
                world.send(comm, &send, other, 7, Mode::Standard).expect("send");
            }
        }
        let time = world.fabric().time() - begun;
        world.quiesce().expect("quiesce");
        world.drain_to_peers(|_| false).expect("drain");
        time
    });
    Ps(whole.0 / (2 * TRIPS))
}
