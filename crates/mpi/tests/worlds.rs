//! Point-to-point messages between worlds.
//!
//! Requirements of MPI-5.0 sections 3.2.4, 3.5.
#![allow(
    clippy::disallowed_methods,
    reason = "processes and threads of a test wait by the host's clock"
)]

mod common;

use common::{recv_buf, run, send_buf};
use farpost_mpi::ErrorClass;
use farpost_mpi::engine::EngineTunables;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::WorldConfig;

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed * 13 + (i >> 8)) as u8).collect()
}

const SIZES: &[usize] = &[
    0,
    1,
    8,
    39,
    40,
    41,
    96,
    97,
    431,
    432,
    433,
    4096,
    8192,
    8193,
    16384,
    16385,
    65536,
    100_001,
    1 << 20,
    (4 << 20) + 3,
];

#[test]
fn messages_of_every_size_go_there_and_back() {
    for both_copy in [0, 1] {
        run(
            2,
            WorldConfig {
                engine: EngineTunables {
                    both_copy,
                    ..Default::default()
                },
                ..Default::default()
            },
            |world| {
                let comm = world.comm_world();
                for mode in [Mode::Standard, Mode::Synchronous] {
                    for (seed, len) in SIZES.iter().enumerate() {
                        let data = pattern(seed, *len);
                        let mut got = vec![0; *len];
                        let other = 1 - world.pid() as i32;
                        if world.pid() == 0 {
                            world
                                .send(comm, &send_buf(&data), other, seed as i32, mode)
                                .unwrap();
                        }
                        let status = world.recv(comm, recv_buf(&mut got), other, seed as i32).unwrap();
                        assert_eq!((status.error, status.bytes), (None, *len as u64));
                        assert!(got == data, "{len} bytes");
                        if world.pid() == 1 {
                            world
                                .send(comm, &send_buf(&data), other, seed as i32, mode)
                                .unwrap();
                        }
                    }
                }
            },
        );
    }
}

#[test]
fn messages_that_come_before_their_receives_are_held_in_order() {
    run(2, WorldConfig::default(), |world| {
        let comm = world.comm_world();
        if world.pid() == 0 {
            let data: Vec<_> = SIZES
                .iter()
                .enumerate()
                .map(|(seed, len)| pattern(seed, *len))
                .collect();
            let sends: Vec<_> = data
                .iter()
                .enumerate()
                .map(|(tag, d)| {
                    world
                        .isend(comm, &send_buf(d), 1, tag as i32, Mode::Standard)
                        .unwrap()
                })
                .collect();
            for handle in sends {
                assert_eq!(world.wait(handle).unwrap().error, None);
            }
        } else {
            // Last to first: everything is unexpected by then.
            for (tag, len) in SIZES.iter().enumerate().rev() {
                let status = world.probe(comm, 0, tag as i32).unwrap();
                assert_eq!(status.bytes, *len as u64);
                let mut got = vec![0; *len];
                let status = world.recv(comm, recv_buf(&mut got), -1, tag as i32).unwrap();
                assert_eq!((status.source, status.error), (0, None));
                assert!(got == pattern(tag, *len), "{len} bytes");
            }
        }
    });
}

#[test]
fn a_long_message_is_cut_and_said_to_be() {
    run(2, WorldConfig::default(), |world| {
        let comm = world.comm_world();
        for len in [30, 200, 5000, 300_000usize] {
            if world.pid() == 0 {
                let data = pattern(1, len);
                world.send(comm, &send_buf(&data), 1, 5, Mode::Standard).unwrap();
            } else {
                let mut got = vec![0; len / 2];
                let status = world.recv(comm, recv_buf(&mut got), 0, -2).unwrap();
                assert_eq!(status.error.unwrap().class, ErrorClass::ERR_TRUNCATE);
                assert!(got == pattern(1, len)[..len / 2]);
            }
        }
    });
}

#[test]
fn a_flood_is_held_up_and_not_kept() {
    const COUNT: usize = 20_000;
    run(2, WorldConfig::default(), |world| {
        let comm = world.comm_world();
        if world.pid() == 0 {
            for i in 0..COUNT {
                world
                    .send(comm, &send_buf(&pattern(i, 1000)), 1, 3, Mode::Standard)
                    .unwrap();
            }
        } else {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let mut got = vec![0; 1000];
            for i in 0..COUNT {
                world.recv(comm, recv_buf(&mut got), 0, 3).unwrap();
                assert!(got == pattern(i, 1000));
            }
        }
    });
}

#[test]
fn a_process_can_write_to_itself() {
    run(1, WorldConfig::default(), |world| {
        let comm = world.comm_self();
        for len in SIZES {
            let data = pattern(3, *len);
            let send = world.isend(comm, &send_buf(&data), 0, 1, Mode::Standard).unwrap();
            let mut got = vec![0; *len];
            let status = world.recv(comm, recv_buf(&mut got), -1, -2).unwrap();
            assert_eq!(status.bytes, *len as u64);
            world.wait(send).unwrap();
            assert!(got == data);
        }
    });
}

#[test]
fn many_ranks_exchange_with_all() {
    run(7, WorldConfig::default(), |world| {
        let (comm, me, size) = (world.comm_world(), world.pid() as usize, world.size() as usize);
        for len in [8, 600, 40_000] {
            let mut got = vec![vec![0u8; len]; size];
            let data: Vec<_> = (0..size).map(|to| pattern(me * 100 + to, len)).collect();
            let mut all = Vec::new();
            for (from, buf) in got.iter_mut().enumerate() {
                all.push(world.irecv(comm, recv_buf(buf), from as i32, 9).unwrap());
            }
            for (to, d) in data.iter().enumerate() {
                all.push(
                    world
                        .isend(comm, &send_buf(d), to as i32, 9, Mode::Standard)
                        .unwrap(),
                );
            }
            for handle in all {
                assert_eq!(world.wait(handle).unwrap().error, None);
            }
            for (from, buf) in got.iter().enumerate() {
                assert!(*buf == pattern(from * 100 + me, len));
            }
        }
    });
}
