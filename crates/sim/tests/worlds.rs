//! MPI's worlds with blocking calls on a simulated machine, every rank a coroutine: the same seed gives the same run, to the picosecond.

mod support;

use farpost_fabric::Fabric;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig};
use farpost_mpi::coll;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_sim::fabric::SimFabric;
use farpost_sim::ranks;
use farpost_sim::time::Ps;

fn word() -> Datatype {
    Datatype::predefined(0x258).expect("int64_t")
}

fn byte() -> Datatype {
    Datatype::predefined(0x247).expect("a byte")
}

/// Rings of short and long messages, then a reduction of them all. What it gave, and when it was over.
fn program(end: SimFabric, device: Device) -> (i64, Ps) {
    let config = WorldConfig {
        device: DeviceConfig {
            device,
            ..DeviceConfig::default()
        },
        ..WorldConfig::default()
    };
    let (me, size) = (end.me().0 as usize, end.size() as usize);
    let world = World::new(end, config);
    let comm = world.comm_world();
    let (next, before) = (((me + 1) % size) as i32, ((me + size - 1) % size) as i32);
    for len in [8, 300, 40_000, 400_000] {
        let sent = vec![me as u8; len];
        let mut got = vec![0u8; len];
        // SAFETY: both buffers live until the requests have ended.
        let (send, recv) = unsafe {
            (
                SendBuf::new(sent.as_ptr().cast(), len as u64, byte()),
                RecvBuf::new(got.as_mut_ptr().cast(), len as u64, byte()),
            )
        };
        let receiving = world.irecv(comm, recv, before, 7).expect("receive");
        world.send(comm, &send, next, 7, Mode::Standard).expect("send");
        world.wait(receiving).expect("wait");
        assert!(
            got.iter().all(|byte| *byte == before as u8),
            "rank {me}, {len} bytes"
        );
    }
    let (mine, mut sum) = ([me as i64], [0i64]);
    // SAFETY: the collective is waited for before the data goes.
    let (send, recv) = unsafe {
        (
            SendBuf::new(mine.as_ptr().cast(), 1, word()),
            RecvBuf::new(sum.as_mut_ptr().cast(), 1, word()),
        )
    };
    let op = Op::predefined(0x21).expect("MPI_SUM");
    let plan = coll::allreduce(&world.site(comm), Some(send.into()), recv.into(), &op).expect("a plan");
    world.run_collective(comm, plan).expect("allreduce");
    world.quiesce().expect("quiesce");
    let plan = coll::barrier(&world.site(comm)).expect("a plan");
    world.run_collective(comm, plan).expect("barrier");
    world.drain_to_peers(|_| false).expect("drain");
    assert_eq!(world.take_faults(), Vec::<String>::new());
    (sum[0], world.fabric().time())
}

fn runs(device: Device) {
    let ranks = 12;
    for on_host in [1, 4] {
        let run = || {
            let (results, core) = ranks::run(support::cluster(ranks, on_host, 5), |end| program(end, device))
                .expect("no rank hangs");
            (results, core.kernel.queue.made())
        };
        let first = run();
        let all = i64::from(ranks * (ranks - 1) / 2);
        println!("{device:?}: {} events, over at {}", first.1, first.0[0].1);
        assert!(first.0.iter().all(|(sum, _)| *sum == all), "{first:?}");
        assert_eq!(first, run());
    }
}

#[test]
fn over_postboxes() {
    runs(Device::Postbox);
}

#[test]
fn over_fast_messages() {
    runs(Device::Fm);
}

#[test]
fn over_jam() {
    runs(Device::Jam);
}

#[test]
fn over_portals() {
    runs(Device::Portals);
}
