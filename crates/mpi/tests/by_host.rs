//! Small collectives on communicators of several hosts: boards on each, messages over TCP between them.
#![allow(
    clippy::disallowed_methods,
    reason = "processes and threads of a test wait by the host's clock"
)]

#[path = "common/hosts.rs"]
mod hosts;

use farpost_fabric::{Counter, Counters, LocalMemory, Peer, RemoteMemory, Topology};
use farpost_mpi::buffer::RecvBuf;
use farpost_mpi::coll::{self, Root};
use farpost_mpi::comm::Comm;
use farpost_mpi::datatype::Datatype;
use farpost_mpi::group::Group;
use farpost_mpi::world::by_host::{Among, FAR_WORDS};
use farpost_mpi::{Error, ErrorClass};
use hosts::{HostsWorld, run};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Numbers in which the order of combining shows: as digits.
fn digits(low: &mut [u64; FAR_WORDS], high: &[u64; FAR_WORDS]) -> farpost_mpi::Result<()> {
    low[0] = low[0] * 10u64.pow(high[0].ilog10() + 1) + high[0];
    low[5] += high[5];
    Ok(())
}

fn words(first: u64, last: u64) -> [u64; FAR_WORDS] {
    let mut words = [0; FAR_WORDS];
    (words[0], words[5]) = (first, last);
    words
}

const COMMUTES: Among = Among::Reduce { ordered: false };
const ORDERED: Among = Among::Reduce { ordered: true };

#[test]
fn all_ranks_get_the_same_in_an_order_that_does_not_change() {
    run(&[0, 1, 0, 2, 1, 0], |world| {
        let comm = world.comm_world();
        let me = comm.rank as u64;
        for round in 0..100 {
            let all = world
                .by_host(comm, &words(me + 1, me * round), 6, COMMUTES, digits)
                .unwrap()
                .expect("some host has several ranks");
            // Ranks 0, 2, 5; then 1, 4; then 3, each told as its number and one.
            assert_eq!((all[0], all[5]), (136254, 15 * round));
            let root = round as usize % 6;
            let among = Among::Tell { rank: root };
            let told = world
                .by_host(comm, &words(me + round, me), 6, among, digits)
                .unwrap();
            assert_eq!(told, Some(words(root as u64 + round, root as u64)));
            assert!(
                world
                    .by_host(comm, &words(0, 0), 0, Among::Barrier, digits)
                    .unwrap()
                    .is_some()
            );
            // Messages between: their tags must be those of the others.
            if round % 10 == 0 {
                let plan = farpost_mpi::coll::barrier(&world.site(comm)).unwrap();
                world.run_collective(comm, plan).unwrap();
            }
        }
        // Ranks of a host do not follow each other: order cannot be kept.
        assert_eq!(
            world.by_host(comm, &words(1, 1), 6, ORDERED, digits).unwrap(),
            None
        );
        assert!(!world.show_all(comm, &[0; 7], 0, |_, _| Ok(())).unwrap());
    });
}

#[test]
fn other_communicators_have_their_own_hosts() {
    run(&[0, 0, 1, 1, 1], |world| {
        let comm = world.comm_world();
        let me = world.pid();
        // Reversed, without process 0: ranks are processes 4, 3, 2, 1.
        let group = Group::from_pids(&[4, 3, 2, 1]);
        for _ in 0..80 {
            let Some(sub) = world.comm_create(comm, &group).unwrap() else {
                assert_eq!(me, 0);
                continue;
            };
            let all = world
                .by_host(&sub, &words(u64::from(me), 1), 6, ORDERED, digits)
                .unwrap();
            assert_eq!(all.map(|all| (all[0], all[5])), Some((4321, 4)));
            world.remove_comm(&sub);
        }
        // One rank of each host: nothing to share.
        let group = Group::from_pids(&[1, 2]);
        if let Some(sub) = world.comm_create(comm, &group).unwrap() {
            assert_eq!(
                world.by_host(&sub, &words(1, 1), 6, COMMUTES, digits).unwrap(),
                None
            );
        }
    });
}

#[test]
fn an_error_of_the_leader_is_told_to_its_host_and_the_next_collective_works() {
    run(&[0, 0, 1, 1], |world| {
        let comm = world.comm_world();
        let me = comm.rank as u64;
        let fails = |low: &mut [u64; FAR_WORDS], high: &[u64; FAR_WORDS]| {
            if me == 2 {
                return Err(Error::new(ErrorClass::ERR_OP, "will not do it"));
            }
            digits(low, high)
        };
        let result = world.by_host(comm, &words(me + 1, 0), 6, COMMUTES, fails);
        match me {
            // Told what rank 2 had: its host's part is missing, and that is its host's error.
            0 | 1 => assert!(result.is_ok()),
            2 => assert!(result.unwrap_err().to_string().contains("will not do it")),
            _ => {
                let error = result.unwrap_err();
                assert_eq!(error.class, ErrorClass::ERR_OP);
                assert!(error.to_string().contains("rank 2"), "{error}");
            }
        }
        let all = world
            .by_host(comm, &words(me + 1, 1), 6, ORDERED, digits)
            .unwrap();
        assert_eq!(all, Some(words(1234, 4)));
    });
}

#[test]
fn a_damaged_line_is_an_error_and_not_waited_for() {
    let [seen, mended] = [const { AtomicBool::new(false) }; 2];
    let wait = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    run(&[0, 0, 1, 1], |world| {
        let comm = world.comm_world();
        let me = world.pid();
        let step = || world.by_host(comm, &words(1, 1), 6, COMMUTES, digits);
        assert!(step().unwrap().is_some());
        if me == 3 {
            // The third step of the board comes next, on the second of the two lines.
            let mine = world.fabric().common(Peer(3)).unwrap();
            mine.store(64, 77);
            wait(&seen);
            // It shows its line after all, and learns that this was too late.
            let error = step().unwrap_err().to_string();
            assert!(error.contains("rank 2"), "{error}");
            mended.store(true, Ordering::Release);
        } else if me == 2 {
            let error = step().unwrap_err().to_string();
            assert!(error.contains("rank 3") && error.contains("0x4d"), "{error}");
            assert_eq!(world.take_faults().len(), 1);
            seen.store(true, Ordering::Release);
            wait(&mended);
        } else {
            assert!(step().unwrap().is_some());
        }
        assert_eq!(step().unwrap().map(|all| all[5]), Some(4));
    });
}

/// Bytes that this process has sent to ranks of other hosts of `comm`.
fn told_far(world: &HostsWorld, comm: &Comm) -> u64 {
    world.settle();
    let (fabric, me) = (world.fabric(), Peer(world.pid()));
    let far = |peer: &Peer| fabric.host_of(*peer) != fabric.host_of(me);
    let sent = |peer: Peer| fabric.counter(me, peer, Counter::SentBytes);
    comm.local.iter().map(Peer).filter(far).map(sent).sum()
}

/// Whoever is the root, and whichever ranks a communicator has: each host is told once, whatever the length.
#[test]
fn a_broadcast_goes_to_each_host_once() {
    run(&[0, 1, 0, 1, 2, 1], |world| {
        let all = world.comm_world();
        let sub = world
            .comm_create(all, &Group::from_pids(&[5, 4, 3, 2, 1]))
            .unwrap();
        for comm in [Rc::clone(all)].iter().chain(&sub) {
            for len in [1usize, 48, 4 << 10, 1 << 20] {
                for root in 0..comm.size() as usize {
                    let settle = || {
                        world.quiesce().unwrap();
                        let plan = coll::barrier(&world.site(comm)).unwrap();
                        world.run_collective(comm, plan).unwrap();
                    };
                    settle();
                    let before = told_far(world, comm);
                    let seed = if comm.rank as usize == root { 3 } else { 0xee };
                    let mut data: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(seed)).collect();
                    // SAFETY: waited for before the data goes.
                    let buf = unsafe { RecvBuf::new(data.as_mut_ptr(), len as u64, Datatype::byte()) };
                    let plan = coll::bcast(&world.site(comm), buf.into(), Root::Rank(root)).unwrap();
                    world.run_collective(comm, plan).unwrap();
                    assert!((0..len).all(|i| data[i] == (i as u8).wrapping_mul(3)));
                    world.quiesce().unwrap();
                    let mut told = words(told_far(world, comm) - before, 0);
                    settle();
                    told = world
                        .by_host(comm, &told, 1, COMMUTES, |low, high| {
                            low[0] += high[0];
                            Ok(())
                        })
                        .unwrap()
                        .expect("some host has several ranks");
                    let hosts = 3;
                    let (least, most) = ((hosts - 1) * len as u64, (hosts - 1) * (len as u64 + 200));
                    assert!(
                        (least..=most).contains(&told[0]),
                        "{len} bytes from {root} of {}: {} bytes went to other hosts",
                        comm.size(),
                        told[0]
                    );
                }
            }
        }
    });
}
