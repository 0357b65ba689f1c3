//! Small collectives on communicators of several hosts: boards on each, messages over TCP between them.

use farpost_fabric::net::interfaces::{Class, Subnet, Usable};
use farpost_fabric::net::{AddressBook, NetConfig};
use farpost_fabric::routed::Routed;
use farpost_fabric::shm::{Shm, ShmConfig, region_bytes, sealed_memory};
use farpost_fabric::tcp::{Listening, Tcp, TcpSettings};
use farpost_fabric::{Fabric, LocalMemory, Peer, RemoteMemory};
use farpost_mpi::group::Group;
use farpost_mpi::world::by_host::{Among, FAR_WORDS};
use farpost_mpi::world::{World, WorldConfig};
use farpost_mpi::{Error, ErrorClass};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type HostsWorld = World<Routed<Tcp>>;

struct Book(Vec<Vec<u8>>);

impl AddressBook for Book {
    fn card(&self, peer: Peer) -> Result<Vec<u8>, String> {
        Ok(self.0[peer.index()].clone())
    }
}

/// Run `body` as each process of `host_of`: hosts with a memory each, joined by TCP.
fn run(host_of: &[u32], body: impl Fn(&HostsWorld) + Sync) {
    let size = host_of.len() as u32;
    let len = region_bytes(size);
    let hosts = host_of.iter().max().unwrap() + 1;
    let memories: Vec<_> = (0..hosts).map(|_| sealed_memory(c"test", len).unwrap()).collect();
    let address = |index: u32| Usable {
        name: "lo".into(),
        class: Class::Network,
        speed: 0,
        addresses: vec![Subnet {
            ip: IpAddr::V4(Ipv4Addr::new(127, 77, 0, 1 + index as u8)),
            prefix: 24,
        }],
    };
    let listening: Vec<_> = (0..size)
        .map(|index| Listening::open_on(TcpSettings::default(), &[address(index)]).unwrap())
        .collect();
    let cards: Vec<Vec<u8>> = listening.iter().map(|one| one.card().to_vec()).collect();
    let end = Barrier::new(size as usize);
    std::thread::scope(|scope| {
        for (index, listening) in listening.into_iter().enumerate() {
            let (host, cards, body, end) = (host_of[index], &cards, &body, &end);
            let file = memories[host as usize].try_clone().unwrap();
            scope.spawn(move || {
                let processes = host_of.iter().filter(|other| **other == host).count() as u32;
                let near = Shm::attach(ShmConfig {
                    file,
                    offset: 0,
                    len: len as u64,
                    index: index as u32,
                    size,
                    processes,
                    cores: 1,
                    tunables: Default::default(),
                })
                .unwrap();
                let map: Rc<[u32]> = host_of.into();
                let far = listening
                    .start(NetConfig {
                        me: Peer(index as u32),
                        size,
                        host_of: Rc::clone(&map),
                        cores: 1,
                        processes,
                        secret: [7; 32],
                        book: Box::new(Book(cards.clone())),
                    })
                    .unwrap();
                let world = World::new(Routed::new(near, Some(far), map), WorldConfig::default());
                body(&world);
                world.quiesce().unwrap();
                // Others may still read from our memory, or wait for what we have queued.
                let comm = world.comm_world();
                let plan = farpost_mpi::coll::barrier(&world.site(comm)).unwrap();
                world.run_collective(comm, plan).unwrap();
                world.fabric().close(Duration::from_secs(5));
                end.wait();
            });
        }
    });
}

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
