//! Programs with blocking calls, every rank a coroutine of one thread, over the in-process fabric: the same seed gives the same run.

mod common;

use common::{recv_buf, send_buf};
use farpost_fabric::inproc::{self, Config, Costs, InProc};
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

/// Nanoseconds that a list's entry costs, so many that nothing else that happens takes as long.
const ENTRY: u64 = 1_000_000_000;

/// Entries that rank 1 was charged for, when messages meet `ENTRIES` posted receives, the last of them first, and when receives meet
/// as many messages.
fn entries_searched(end: InProc) -> (u64, u64) {
    const ENTRIES: usize = 40;
    let me = end.me().0;
    let world = World::new(end, WorldConfig::default());
    let comm = world.comm_world();
    let tags = || (0..ENTRIES as i32).rev();
    let send = |to, tag| {
        let sent = [tag as u8; 8];
        world
            .send(comm, &send_buf(&sent), to, tag, Mode::Standard)
            .unwrap();
    };
    let receive = |from, tag| {
        let mut got = [0; 8];
        let receiving = world.irecv(comm, recv_buf(&mut got), from, tag).unwrap();
        world.wait(receiving).unwrap();
        assert_eq!(got, [tag as u8; 8]);
    };
    const GO: i32 = 1000;
    let now = || world.fabric().now().nanos();
    let mut charged = (0, 0);
    if me == 0 {
        receive(1, GO);
        tags().for_each(|tag| send(1, tag));
        receive(1, GO);
        (0..ENTRIES as i32).for_each(|tag| send(1, tag));
        send(1, GO);
    } else {
        let mut got = [[0; 8]; ENTRIES];
        let receiving: Vec<_> = (0..)
            .zip(&mut got)
            .map(|(tag, got)| world.irecv(comm, recv_buf(got), 0, tag).unwrap())
            .collect();
        let start = now();
        send(0, GO);
        for receiving in receiving {
            world.wait(receiving).unwrap();
        }
        charged.0 = (now() - start) / ENTRY;
        assert!((0..).zip(&got).all(|(tag, got)| *got == [tag; 8]));
        send(0, GO);
        receive(0, GO);
        let start = now();
        tags().for_each(|tag| receive(0, tag));
        charged.1 = (now() - start) / ENTRY;
    }
    world.quiesce().unwrap();
    let plan = coll::barrier(&world.site(comm)).unwrap();
    world.run_collective(comm, plan).unwrap();
    world.drain_to_peers(|_| false).unwrap();
    charged
}

#[test]
fn who_searches_a_list_is_charged_for_its_entries() {
    let mut config = Config::default();
    config.costs.entry = ENTRY;
    for seed in 0..3 {
        let charged = inproc::run(2, seed, config.clone(), entries_searched);
        let all = 40 * 41 / 2;
        // Before it sends, rank 0 finds the receive of the message that it waits for: rank 1 waits as long.
        assert_eq!(charged[1], (all + 1, all), "seed {seed}");
    }
}

/// When rank 0 begins to send `len` bytes to rank 1 and when it has sent them; of rank 1 the second is when it has them.
fn times_of_a_message(end: InProc, device: Device, len: usize) -> (u64, u64) {
    let me = end.me().0;
    let device = DeviceConfig {
        device,
        ..DeviceConfig::default()
    };
    let config = WorldConfig {
        device,
        ..WorldConfig::default()
    };
    let world = World::new(end, config);
    let comm = world.comm_world();
    let start = world.fabric().now().nanos();
    if me == 0 {
        let sent = vec![7; len];
        world.send(comm, &send_buf(&sent), 1, 3, Mode::Standard).unwrap();
    } else {
        let mut got = vec![0; len];
        let receiving = world.irecv(comm, recv_buf(&mut got), 0, 3).unwrap();
        world.wait(receiving).unwrap();
        assert_eq!(got, vec![7; len]);
    }
    let end = world.fabric().now().nanos();
    world.quiesce().unwrap();
    let plan = coll::barrier(&world.site(comm)).unwrap();
    world.run_collective(comm, plan).unwrap();
    world.drain_to_peers(|_| false).unwrap();
    (start, end)
}

#[test]
fn who_copies_a_message_is_charged_for_its_bytes() {
    let mut config = Config {
        full_every: 0,
        ..Config::default()
    };
    config.costs = Costs {
        byte: 1000 * ENTRY,
        poll: 0,
        store: 0,
        entry: 0,
        trap: 0,
        work: 0,
    };
    let charged = [Device::Postbox, Device::Fm, Device::Jam, Device::Portals].map(|device| {
        let times = inproc::run(2, 1, config.clone(), move |end| {
            times_of_a_message(end, device, 40)
        });
        let [(began, sent), (_, received)] = times[..] else {
            panic!("two ranks");
        };
        // Rank 1 waits for what rank 0 does first.
        ((sent - began) / ENTRY, (received - sent) / ENTRY)
    });
    let (body, words) = (40, 16);
    // Over Portals into memory that may be sent from, and into its packet; over the others in frames and packets with what says whose it is.
    let sent = charged.map(|(sent, _)| sent);
    assert_eq!(sent, [0, words + body, words + body, 2 * body]);
    // Over postboxes and Portals from the line or packet to its place. The other two copy out of the network and then to its place; but
    // rank 1 may see a packet early, before rank 0's clock is where it was charged for sending it (`fabric/src/inproc/ranks.rs`), so that
    // only bounds can be tested.
    let [postbox, fm, jam, portals] = charged.map(|(_, received)| received);
    assert_eq!([postbox, portals], [body, body]);
    assert!((body + 1..=16 + words + 2 * body).contains(&fm), "{fm}");
    assert!((body + 1..=words + 4 + 2 * body).contains(&jam), "{jam}");
}
