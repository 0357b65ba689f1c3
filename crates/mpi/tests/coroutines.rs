//! Programs with blocking calls, every rank a coroutine of one thread, over the in-process fabric: the same seed gives the same run.

mod common;

use common::{recv_buf, send_buf};
use farpost_fabric::inproc::{self, Config, InProc};
use farpost_fabric::{Fabric, Time};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::carrier::{Device, DeviceConfig};
use farpost_mpi::coll;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::op::Op;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};

/// Rings of short and long messages, then a reduction of them all. What it gave, and when it was over.
fn program(end: InProc, device: Device) -> (i64, u64) {
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
    for len in [8, 300, 40_000] {
        let sent = vec![me as u8; len];
        let mut got = vec![0; len];
        let receiving = world.irecv(comm, recv_buf(&mut got), before, 7).unwrap();
        world
            .send(comm, &send_buf(&sent), next, 7, Mode::Standard)
            .unwrap();
        world.wait(receiving).unwrap();
        assert!(
            got.iter().all(|byte| *byte == before as u8),
            "rank {me}, {len} bytes"
        );
    }
    let word = || Datatype::predefined(0x258).unwrap();
    let (mine, mut sum) = ([me as i64], [0i64]);
    // SAFETY: the collective is waited for before the data goes.
    let (send, recv) = unsafe {
        (
            SendBuf::new(mine.as_ptr().cast(), 1, word()),
            RecvBuf::new(sum.as_mut_ptr().cast(), 1, word()),
        )
    };
    let op = Op::predefined(0x21).unwrap();
    let plan = coll::allreduce(&world.site(comm), Some(send.into()), recv.into(), &op).unwrap();
    world.run_collective(comm, plan).unwrap();
    world.quiesce().unwrap();
    let plan = coll::barrier(&world.site(comm)).unwrap();
    world.run_collective(comm, plan).unwrap();
    // As MPI_Finalize does: who is gone takes nothing in any more.
    world.drain_to_peers(|_| false).unwrap();
    assert_eq!(world.take_faults(), Vec::<String>::new());
    assert_eq!(world.take_faults(), Vec::<String>::new());
    (sum[0], world.fabric().now().nanos())
}

fn runs(device: Device) {
    let ranks = 12;
    for seed in 0..4 {
        let run = || inproc::run(ranks, seed, Config::default(), move |end| program(end, device));
        let first = run();
        let all = i64::from(ranks * (ranks - 1) / 2);
        assert!(first.iter().all(|(sum, _)| *sum == all), "seed {seed}: {first:?}");
        assert_eq!(first, run(), "seed {seed}");
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
