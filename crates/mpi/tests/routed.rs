//! Messages and collectives where some peers share this host's memory and others are reached by TCP.
//!
//! Requirements of MPI-5.0 section 3.8.4.

#[path = "common/hosts.rs"]
mod hosts;

use farpost_fabric::{Counter, Counters, Fabric, Interrupt, Peer};
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::coll::{self, Block, Root};
use farpost_mpi::comm::{Comm, SplitType};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::group::Group;
use farpost_mpi::op::Op;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::World;
use farpost_tcp::TcpSettings;
use hosts::{listen, memory, run, run_some};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Barrier;
use std::time::Duration;

const ANY_SOURCE: i32 = -1;
const ANY_TAG: i32 = -2;

/// Around every place where a message changes its way.
const SIZES: [usize; 12] = [
    0,
    8,
    40,
    41,
    432,
    433,
    8 << 10,
    32 << 10,
    (32 << 10) + 1,
    128 << 10,
    (128 << 10) + 1,
    1 << 20,
];

/// Two hosts with two processes each; neighbours by number are neighbours, or are not.
const SHAPES: [[u32; 4]; 2] = [[0, 0, 1, 1], [0, 1, 0, 1]];

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed * 13 + (i >> 8)) as u8).collect()
}

fn send_buf(data: &[u8]) -> SendBuf {
    // SAFETY: tests wait for the operation before the data goes.
    unsafe { SendBuf::new(data.as_ptr(), data.len() as u64, Datatype::byte()) }
}

fn recv_buf(data: &mut [u8]) -> RecvBuf {
    // SAFETY: as above.
    unsafe { RecvBuf::new(data.as_mut_ptr(), data.len() as u64, Datatype::byte()) }
}

/// Everybody exchanges messages of every size with everybody else of `comm`, in both modes.
fn exchange<F: Fabric>(world: &World<F>, comm: &Comm) {
    let (me, ranks) = (comm.rank as usize, comm.peers() as usize);
    for mode in [Mode::Standard, Mode::Synchronous] {
        for len in SIZES {
            let others = || (0..ranks).filter(|other| *other != me);
            let mut got: Vec<Vec<u8>> = others().map(|_| vec![0xee; len]).collect();
            let data: Vec<Vec<u8>> = others().map(|to| pattern(me * ranks + to, len)).collect();
            let mut requests = Vec::new();
            for (from, buffer) in others().zip(&mut got) {
                requests.push(world.irecv(comm, recv_buf(buffer), from as i32, 9).unwrap());
            }
            for (to, data) in others().zip(&data) {
                requests.push(world.isend(comm, &send_buf(data), to as i32, 9, mode).unwrap());
            }
            for request in requests {
                assert_eq!(world.wait(request).unwrap().error, None);
            }
            for (from, got) in others().zip(&got) {
                assert!(*got == pattern(from * ranks + me, len), "{len} bytes from {from}");
            }
        }
    }
}

#[test]
fn everybody_with_everybody_in_every_size() {
    for shape in SHAPES {
        run(&shape, |world| {
            exchange(world, world.comm_world());
            assert_eq!(world.take_faults(), Vec::<String>::new());
        });
    }
}

/// What the network counts by itself is told to the host's memory before sleeping, and counts once.
#[test]
fn counters_of_the_network_are_told_once() {
    run(&SHAPES[0], |world| {
        exchange(world, world.comm_world());
        let (fabric, me) = (world.fabric(), Peer(world.pid()));
        let other = Peer((me.0 + 2) % 4);
        let moved = || fabric.counter(me, other, Counter::BulkBytes);
        // In each of two modes two sizes are too long to be sent unasked.
        let before = moved();
        assert!(before >= 2 * ((128 << 10) + 1 + (1 << 20)), "{before} bytes");
        for _ in 0..3 {
            fabric.sleep(Duration::from_millis(1), &mut || true);
            assert_eq!(moved(), before);
        }
    });
}

#[test]
fn from_any_source_near_and_far() {
    const ROUNDS: usize = 20;
    run(&SHAPES[0], |world| {
        let (comm, me) = (world.comm_world(), world.pid() as usize);
        for root in 0..4 {
            if me != root {
                for round in 0..ROUNDS {
                    let data = pattern(me * 100 + round, SIZES[round % SIZES.len()]);
                    let mode = [Mode::Standard, Mode::Synchronous][round % 2];
                    world
                        .send(comm, &send_buf(&data), root as i32, round as i32, mode)
                        .unwrap();
                }
                continue;
            }
            // What comes from one source comes in order, whatever comes between.
            let mut next = [0; 4];
            for turn in 0..3 * ROUNDS {
                let mut got = vec![0; SIZES[SIZES.len() - 1]];
                let status = match turn % 3 {
                    0 => world.recv(comm, recv_buf(&mut got), ANY_SOURCE, ANY_TAG).unwrap(),
                    1 => {
                        let seen = world.probe(comm, ANY_SOURCE, ANY_TAG).unwrap();
                        let (len, source) = (seen.bytes as usize, seen.source);
                        let status = world
                            .recv(comm, recv_buf(&mut got[..len]), source, seen.tag)
                            .unwrap();
                        assert_eq!((status.bytes, status.source), (len as u64, source));
                        status
                    }
                    _ => {
                        let (message, _) = world.mprobe(comm, ANY_SOURCE, ANY_TAG).unwrap();
                        let request = world.imrecv(message, recv_buf(&mut got)).unwrap();
                        world.wait(request).unwrap()
                    }
                };
                assert_eq!(status.error, None);
                let source = status.source as usize;
                let round = next[source];
                next[source] += 1;
                let expected = pattern(source * 100 + round, SIZES[round % SIZES.len()]);
                assert_eq!((status.tag, status.bytes), (round as i32, expected.len() as u64));
                assert!(got[..expected.len()] == expected, "round {round} from {source}");
            }
        }
    });
}

fn words(data: &mut [i64]) -> Block {
    let int64 = Datatype::predefined(0x258).unwrap();
    // SAFETY: tests wait for the collective before the data goes.
    unsafe { RecvBuf::new(data.as_mut_ptr().cast(), data.len() as u64, int64) }.into()
}

/// Collectives over `comm`, short and long.
fn collectives<F: Fabric>(world: &World<F>, comm: &Rc<Comm>) {
    let (me, ranks) = (comm.rank as usize, comm.peers() as usize);
    let go = |plan: farpost_mpi::Result<coll::Plan>| world.run_collective(comm, plan.unwrap()).unwrap();
    let value = |rank: usize, i: usize| (rank * 1_000_003 + i * 7) as i64;
    let sum = |ranks: usize, i: usize| (0..ranks).map(|rank| value(rank, i)).sum::<i64>();
    for n in [1, 700, 30_000] {
        let site = world.site(comm);
        let mut mine: Vec<i64> = (0..n).map(|i| value(me, i)).collect();
        for root in 0..ranks {
            let mut data = if me == root { mine.clone() } else { vec![-1; n] };
            go(coll::bcast(&site, words(&mut data), Root::Rank(root)));
            assert!((0..n).all(|i| data[i] == value(root, i)), "bcast of {n}");
            data.fill(-1);
            let from = Some(words(&mut mine));
            go(coll::reduce(
                &site,
                from,
                words(&mut data),
                &Op::SUM,
                Root::Rank(root),
            ));
            assert!(
                me != root || (0..n).all(|i| data[i] == sum(ranks, i)),
                "reduce of {n}"
            );
        }
        go(coll::barrier(&site));
        let mut got = vec![-1; n];
        go(coll::allreduce(
            &site,
            Some(words(&mut mine)),
            words(&mut got),
            &Op::SUM,
        ));
        assert!((0..n).all(|i| got[i] == sum(ranks, i)), "allreduce of {n}");
        go(coll::scan(
            &site,
            Some(words(&mut mine)),
            words(&mut got),
            &Op::SUM,
        ));
        assert!((0..n).all(|i| got[i] == sum(me + 1, i)), "scan of {n}");
        let mut all = vec![-1; n * ranks];
        let room = words(&mut all).with_count(n as u64);
        go(coll::allgather(&site, Some(words(&mut mine)), room.clone()));
        assert!(
            (0..n * ranks).all(|i| all[i] == value(i / n, i % n)),
            "allgather of {n}"
        );
        let mut out: Vec<i64> = (0..n * ranks).map(|i| value(me, i)).collect();
        let out = words(&mut out).with_count(n as u64);
        go(coll::alltoall(&site, Some(out), room));
        assert!(
            (0..n * ranks).all(|i| all[i] == value(i / n, me * n + i % n)),
            "alltoall of {n}"
        );
    }
}

#[test]
fn communicators_of_a_host_across_hosts_and_of_all() {
    for shape in SHAPES {
        run(&shape, |world| {
            let all = world.comm_world();
            let near = world
                .comm_split_type(all, Some(SplitType::Shared), 0, None)
                .unwrap()
                .unwrap();
            assert_eq!(near.peers(), 2);
            let across = world.comm_split(all, near.rank, 0).unwrap().unwrap();
            let backwards = world.comm_split(all, 0, -all.rank).unwrap().unwrap();
            let three = world.comm_create(all, &Group::from_pids(&[3, 1, 0])).unwrap();
            for comm in [all, &near, &across, &backwards].into_iter().chain(&three) {
                collectives(world, comm);
            }
            exchange(world, &across);
            assert_eq!(world.take_faults(), Vec::<String>::new());
        });
    }
}

#[test]
fn data_with_gaps_goes_and_comes() {
    // Blocks of 24 bytes every 40.
    const BLOCK: usize = 24;
    const STRIDE: usize = 40;
    run(&SHAPES[0], |world| {
        let (comm, me) = (world.comm_world(), world.pid() as usize);
        for blocks in [1, 2, 18, 400, 6_000, 50_000] {
            let len = blocks * BLOCK;
            let gapped =
                Datatype::vector(blocks as i64, BLOCK as i64, STRIDE as i64, &Datatype::byte()).unwrap();
            gapped.commit();
            let spread = |data: &[u8]| {
                let mut wide = vec![0xdd; blocks * STRIDE];
                for (to, from) in wide.chunks_mut(STRIDE).zip(data.chunks(BLOCK)) {
                    to[..BLOCK].copy_from_slice(from);
                }
                wide
            };
            // SAFETY: tests wait for the operation before the data goes.
            let wide_send = |data: &[u8]| unsafe { SendBuf::new(data.as_ptr(), 1, gapped.clone()) };
            // SAFETY: as above.
            let wide_recv = |data: &mut [u8]| unsafe { RecvBuf::new(data.as_mut_ptr(), 1, gapped.clone()) };
            for distance in 1..4 {
                let (to, from) = ((me + distance) % 4, (me + 4 - distance) % 4);
                let (mine, theirs) = (pattern(me, len), pattern(from, len));
                // With gaps at the sender, at the receiver, at both.
                for kind in 1..4 {
                    let out = if kind & 1 != 0 {
                        spread(&mine)
                    } else {
                        mine.clone()
                    };
                    let wide = kind & 2 != 0;
                    let mut got = vec![0xdd; if wide { blocks * STRIDE } else { len }];
                    let room = if wide {
                        wide_recv(&mut got)
                    } else {
                        recv_buf(&mut got)
                    };
                    let receive = world.irecv(comm, room, from as i32, kind).unwrap();
                    let buffer = if kind & 1 != 0 {
                        wide_send(&out)
                    } else {
                        send_buf(&out)
                    };
                    world
                        .send(comm, &buffer, to as i32, kind, Mode::Standard)
                        .unwrap();
                    let status = world.wait(receive).unwrap();
                    assert_eq!((status.error, status.bytes), (None, len as u64));
                    let expected = if wide { spread(&theirs) } else { theirs.clone() };
                    assert!(got == expected, "{blocks} blocks from {from}, kind {kind}");
                }
            }
        }
        assert_eq!(world.take_faults(), Vec::<String>::new());
    });
}

#[test]
fn cancelled_receives_take_nothing() {
    run(&SHAPES[0], |world| {
        let (comm, me) = (world.comm_world(), world.pid() as usize);
        for len in SIZES {
            let mut never = vec![0xcc; len.max(1)];
            for source in [
                ANY_SOURCE,
                (me as i32 + 1) % 4,
                (me as i32 + 2) % 4,
                (me as i32 + 3) % 4,
            ] {
                let request = world.irecv(comm, recv_buf(&mut never), source, 5).unwrap();
                world.cancel(request).unwrap();
                assert!(world.wait(request).unwrap().cancelled);
            }
            world
                .run_collective(comm, coll::barrier(&world.site(comm)).unwrap())
                .unwrap();
            let data = pattern(me, len);
            let sends: Vec<usize> = (1..4)
                .map(|d| {
                    world
                        .isend(comm, &send_buf(&data), ((me + d) % 4) as i32, 5, Mode::Standard)
                        .unwrap()
                })
                .collect();
            for distance in 1..4 {
                let from = (me + distance) % 4;
                let mut got = vec![0; len];
                let status = world.recv(comm, recv_buf(&mut got), from as i32, 5).unwrap();
                assert_eq!((status.error, status.cancelled), (None, false));
                assert!(got == pattern(from, len), "{len} bytes from {from}");
            }
            for send in sends {
                assert_eq!(world.wait(send).unwrap().error, None);
            }
            assert!(never.iter().all(|byte| *byte == 0xcc));
        }
    });
}

/// Two hosts with two processes each, and one that has a host for itself and is killed.
const WITH_VICTIM: [u32; 5] = [0, 0, 1, 1, 2];
const VICTIM: i32 = 4;
const CARDS: &str = "FARPOST_TEST_CARDS";

fn hasty() -> TcpSettings {
    let mut settings = TcpSettings::default();
    settings.link.bound = 300;
    settings
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

/// What the process that will go does: greet everybody, then wait to be killed or to be told to go, without goodbye.
fn victim(cards: &str) {
    let listening = listen(&hasty());
    let mut cards: Vec<Vec<u8>> = cards.split(' ').map(from_hex).collect();
    println!("\ncard {}", to_hex(listening.card()));
    cards.push(listening.card().to_vec());
    let world = hosts::world(
        listening,
        VICTIM as usize,
        &WITH_VICTIM,
        memory(WITH_VICTIM.len()),
        &cards,
    );
    let comm = world.comm_world();
    for to in 0..VICTIM {
        world
            .send(comm, &send_buf(b"hello"), to, 1, Mode::Standard)
            .unwrap();
        let mut got = [0; 5];
        world.recv(comm, recv_buf(&mut got), to, 1).unwrap();
    }
    let _ = world.recv(comm, recv_buf(&mut [0]), 0, 99);
}

#[test]
fn a_killed_peer_is_an_error_and_the_others_go_on() {
    a_peer_goes("a_killed_peer_is_an_error_and_the_others_go_on", true);
}

#[test]
fn a_peer_that_drops_its_endpoint_is_an_error_and_the_others_go_on() {
    a_peer_goes(
        "a_peer_that_drops_its_endpoint_is_an_error_and_the_others_go_on",
        false,
    );
}

/// The test called `name`: a process ends in the middle of everything, `killed` or by itself.
fn a_peer_goes(name: &str, killed: bool) {
    if let Ok(cards) = std::env::var(CARDS) {
        return victim(&cards);
    }
    let listening: Vec<_> = (0..VICTIM).map(|_| listen(&hasty())).collect();
    let mut cards: Vec<Vec<u8>> = listening.iter().map(|one| one.card().to_vec()).collect();
    let text: Vec<String> = cards.iter().map(|card| to_hex(card)).collect();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CARDS, text.join(" "))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Killed(child);
    let mut said = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let card = said.find_map(|line| line.unwrap().strip_prefix("card ").map(from_hex));
    cards.push(card.expect("the other process tells its card"));
    let child = std::sync::Mutex::new(child);
    let met = Barrier::new(VICTIM as usize);
    let listening = listening.into_iter().map(Some).chain([None]).collect();
    run_some(&WITH_VICTIM, listening, &cards, |world| {
        let (comm, me) = (world.comm_world(), world.pid());
        let mut got = [0; 5];
        world.recv(comm, recv_buf(&mut got), VICTIM, 1).unwrap();
        world
            .send(comm, &send_buf(b"hello"), VICTIM, 1, Mode::Standard)
            .unwrap();
        let before = world
            .comm_create_group(comm, &Group::from_pids(&[0, 1, 2, 3]), 3)
            .unwrap()
            .unwrap();
        exchange(world, &before);
        // Each waits for something else of the victim's.
        let large = pattern(1, 4 << 20);
        let mut room = vec![0; 8];
        let waiting = match me {
            0 => world.isend(comm, &send_buf(&large), VICTIM, 2, Mode::Standard),
            1 => world.irecv(comm, recv_buf(&mut room), VICTIM, 2),
            2 => world.irecv(comm, recv_buf(&mut room), ANY_SOURCE, 2),
            _ => world.isend(comm, &send_buf(&large[..8]), VICTIM, 2, Mode::Synchronous),
        };
        let waiting = waiting.unwrap();
        met.wait();
        if me == 0 && killed {
            child.lock().unwrap().kill();
        } else if me == 0 {
            world
                .send(comm, &send_buf(b"!"), VICTIM, 99, Mode::Standard)
                .unwrap();
        }
        let error = world.wait(waiting).unwrap().error.expect("an error").to_string();
        assert!(error.contains("process 4") || error.contains("rank 4"), "{error}");
        assert_eq!(world.take_faults().len(), 1);
        // From now on at once, in both directions.
        for mode in [Mode::Standard, Mode::Synchronous] {
            let send = world.isend(comm, &send_buf(&large), VICTIM, 2, mode);
            assert!(send.is_err() || world.wait(send.unwrap()).unwrap().error.is_some());
        }
        let receive = world.recv(comm, recv_buf(&mut room), VICTIM, 2);
        assert!(receive.is_err() || receive.unwrap().error.is_some());
        // The others are there, on communicators of before and of now.
        exchange(world, &before);
        collectives(world, &before);
        let after = world
            .comm_create_group(comm, &Group::from_pids(&[3, 2, 1, 0]), 4)
            .unwrap()
            .unwrap();
        exchange(world, &after);
        collectives(world, &after);
        world.quiesce().unwrap();
        world.fabric().close(Duration::from_secs(5));
    });
}

/// A process that does not outlive the test.
struct Killed(std::process::Child);

impl Killed {
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill();
    }
}
