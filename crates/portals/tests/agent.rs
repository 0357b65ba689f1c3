//! The agent bridge in one thread: clients of both kinds on the fabric without mapping, from seeds, and on shared memory.

mod bridge;
mod common;

use bridge::{Config, World, inproc, shm};
use common::pattern;
use farpost_fabric::{Fabric, Interrupt, Peer, Permission, Remote, RemoteMemory, SegmentId};
use farpost_portals::agent::Mode::{Accelerated, Generic};
use farpost_portals::{AckReq, Error, EventKind, NetworkInterface, NiFail, ProcessId, SR_DROP_COUNT, Target};

const SIZES: [usize; 10] = [0, 1, 8, 100, 128, 129, 4096, 10_000, 70_000, 300_000];

/// Puts, gets and get-puts of all lengths between every two of a world's processes, themselves included.
fn everything<F: Fabric + 'static>(world: &World<F>) {
    let seed = &mut fastrand::Rng::with_seed(5);
    for from in world.numbers() {
        for to in world.numbers() {
            for size in SIZES {
                let data = pattern(seed.u64(..), size);
                world.exchange(from, to, &data);
            }
        }
    }
}

#[test]
fn clients_of_one_agent_on_the_fabric_without_mapping() {
    for seed in 0..3 {
        let world = World::new(
            inproc(4, seed),
            &Config::default(),
            &[(0, &[(1, Generic), (2, Accelerated)])],
            &[],
        );
        everything(&world);
        world.settle();
    }
}

#[test]
fn clients_of_two_agents_on_the_fabric_without_mapping() {
    for seed in 0..3 {
        let clients: &[(u32, &[_])] = &[
            (0, &[(1, Generic), (2, Accelerated)]),
            (3, &[(4, Accelerated), (5, Generic)]),
        ];
        let world = World::new(inproc(6, seed), &Config::default(), clients, &[]);
        everything(&world);
        world.settle();
    }
}

#[test]
fn clients_of_two_agents_on_shared_memory() {
    let clients: &[(u32, &[_])] = &[
        (0, &[(1, Generic), (2, Accelerated)]),
        (3, &[(4, Accelerated), (5, Generic)]),
    ];
    let world = World::new(shm(6), &Config::default(), clients, &[]);
    everything(&world);
    world.settle();
}

/// All three kinds, each with each.
#[test]
fn clients_and_inline_interfaces_talk_to_each_other() {
    let clients: &[(u32, &[_])] = &[(0, &[(1, Generic), (2, Accelerated)])];
    for seed in 0..3 {
        let world = World::new(inproc(5, seed), &Config::default(), clients, &[3, 4]);
        everything(&world);
        world.flood(30);
        world.settle();
    }
    let world = World::new(shm(5), &Config::default(), clients, &[3, 4]);
    everything(&world);
    world.flood(30);
    world.settle();
}

/// Processes with two interfaces, one by way of their agent and one beside it: each with each, and with everybody else.
#[test]
fn interfaces_beside_agents_talk_to_all_others() {
    fn talk<F: Fabric + 'static>(fabrics: Vec<std::rc::Rc<F>>) {
        let clients: &[(u32, &[_])] = &[(0, &[(1, Generic), (2, Accelerated)]), (3, &[(4, Accelerated)])];
        let config = Config::default();
        let mut world = World::new(fabrics, &config, clients, &[5]);
        let beside: Vec<u32> = [1, 2, 4]
            .map(|client| world.open_beside(client, &config.net))
            .into();
        assert_eq!(beside, [6, 7, 8]);
        everything(&world);
        world.flood(12);
        // What one has the other has not.
        let (handle, other) = (world.client(1).handle(), world.client(6).handle());
        assert_ne!(handle, other);
        let eq = world.queue(1);
        assert_eq!(world.client(6).ni_handle(eq), Err(Error::HandleInvalid));
        assert_eq!(world.client(6).eq_free(eq), Err(Error::EqInvalid));
        assert_eq!(world.client(1).ni_dist(world.target(6).id), Ok(0));
        assert_eq!(world.client(6).ni_dist(world.target(1).id), Ok(0));
        world.settle();
    }
    talk(inproc(6, 1));
    talk(shm(6));
}

/// Sources, pendings, and both.
#[test]
fn pools_of_one_and_two() {
    let (sources, pendings) = (Config::with_sources, Config::with_pools);
    let both = |size: u64| {
        let mut config = pendings(size);
        config.net.sources = size;
        config
    };
    let clients: &[(u32, &[_])] = &[
        (0, &[(1, Generic), (2, Accelerated)]),
        (3, &[(4, Accelerated), (5, Generic)]),
    ];
    let configs = [1, 2].map(|size| [sources(size), pendings(size), both(size)]);
    for (seed, config) in configs.iter().flatten().enumerate() {
        let world = World::new(inproc(6, seed as u64), config, clients, &[]);
        everything(&world);
        world.flood(40);
        world.settle();
    }
    // Three agents and a process without one, which take turns.
    let clients: &[(u32, &[_])] = &[
        (0, &[(1, Generic)]),
        (3, &[(4, Accelerated)]),
        (5, &[(6, Generic)]),
    ];
    for (seed, config) in configs.iter().flatten().enumerate() {
        let world = World::new(inproc(7, seed as u64), config, clients, &[2]);
        everything(&world);
        world.flood(40);
        world.settle();
    }
}

#[test]
fn many_messages_at_once_arrive_in_order() {
    for seed in 0..3 {
        let clients: &[(u32, &[_])] = &[
            (0, &[(1, Generic), (2, Accelerated)]),
            (3, &[(4, Accelerated), (5, Generic)]),
        ];
        let world = World::new(inproc(6, seed), &Config::default(), clients, &[]);
        world.flood(100);
        world.settle();
        let world = World::new(shm(6), &Config::default(), clients, &[]);
        world.flood(100);
        world.settle();
    }
}

fn target(number: u32) -> Target {
    Target {
        id: ProcessId::new(0, number),
        pt_index: 4,
        ac_index: 0,
        match_bits: 0,
        offset: 0,
    }
}

#[test]
fn each_client_sees_only_its_own_objects() {
    let world = World::new(
        inproc(4, 1),
        &Config::default(),
        &[(0, &[(1, Accelerated), (2, Accelerated), (3, Generic)])],
        &[],
    );
    let (one, two) = (world.client(1), world.client(2));
    let eq = one.eq_alloc(8, None).expect("a queue");
    let eqs: Vec<_> = (0..3).map(|_| one.eq_alloc(8, None).expect("a queue")).collect();
    assert_eq!(two.eq_get(eqs[2]), Err(Error::EqInvalid));
    assert_eq!(two.eq_free(eqs[2]), Err(Error::EqInvalid));
    assert_eq!(one.eq_get(eq), Err(Error::EqEmpty));
    let me = one
        .me_attach(
            4,
            ProcessId::ANY,
            (0, 0),
            farpost_portals::Unlink::Retain,
            farpost_portals::Position::After,
        )
        .expect("an entry");
    assert_eq!(two.me_unlink(me), Err(Error::MeInvalid));
    // What nobody's entry matches is dropped and counted where it was sent to.
    let before: Vec<u64> = [1, 2, 3]
        .map(|n| world.client(n).ni_status(SR_DROP_COUNT).expect("a count"))
        .into();
    let (_memory, md) = world.descriptor(3, 8, None);
    world
        .client(3)
        .put(md, AckReq::NoAck, &target(2), 0)
        .expect("sent");
    world.until("the drop", || {
        world.client(2).ni_status(SR_DROP_COUNT) == Ok(before[1] + 1)
    });
    assert_eq!(one.ni_status(SR_DROP_COUNT), Ok(before[0]));
    assert_eq!(one.me_unlink(me), Ok(()));
}

#[test]
fn a_client_that_ends_is_cleared_away_and_the_others_go_on() {
    for (seed, mode) in [(1, Generic), (2, Accelerated), (3, Generic), (4, Accelerated)] {
        let fabrics = inproc(4, seed);
        let network = fabrics[0].network().clone();
        let world = World::new(
            fabrics,
            &Config::default(),
            &[(0, &[(1, mode), (2, Generic), (3, Accelerated)])],
            &[],
        );
        world.exchange(2, 1, &pattern(1, 10_000));
        // In the middle of something.
        let data = pattern(2, 50_000);
        let (_memory, md) = world.descriptor(2, data.len(), None);
        let (_other, other) = world.descriptor(1, 50_000, None);
        world
            .client(1)
            .put(other, AckReq::NoAck, &world.target(2), 0)
            .expect("sent");
        world
            .client(2)
            .put(md, AckReq::NoAck, &world.target(1), 0)
            .expect("sent");
        world.steps(seed as usize * 3);
        network.kill(Peer(1));
        world.without(1);
        world.until("the end", || world.agent(0).client(1).expect("a client").ended);
        let before = world.agent(0).client(1).expect("a client").dropped;
        world
            .client(3)
            .put(world.descriptor(3, 8, None).1, AckReq::NoAck, &world.target(1), 0)
            .expect("sent");
        world.until("the drop", || {
            world.agent(0).client(1).expect("a client").dropped > before
        });
        for (from, to) in [(2, 3), (3, 2), (2, 2), (3, 3)] {
            for size in SIZES {
                world.exchange(from, to, &pattern(9, size));
            }
        }
        world.settle();
    }
}

#[test]
fn the_end_of_an_agent_is_told_to_its_clients() {
    for (seed, mode) in [(1, Generic), (2, Accelerated)] {
        let fabrics = inproc(3, seed);
        let network = fabrics[0].network().clone();
        let world = World::new(fabrics, &Config::default(), &[(0, &[(1, mode), (2, mode)])], &[]);
        world.exchange(1, 2, &pattern(1, 5000));
        let eq = world.queue(1);
        let (_memory, md) = world.descriptor(1, 5000, Some(eq));
        network.kill(Peer(0));
        world.without_agent(0);
        let client = world.client(1);
        let started = client.put(md, AckReq::Ack, &world.target(2), 0);
        assert!(matches!(started, Ok(()) | Err(Error::Fail)));
        let mut told = vec![];
        let last = loop {
            match client.eq_wait(eq) {
                Ok(taken) => told.push(taken.event),
                Err(error) => break error,
            }
        };
        assert_eq!(last, Error::Fail, "the agent has ended");
        if mode == Generic {
            let end = told
                .iter()
                .find(|e| e.kind == EventKind::SendEnd)
                .expect("an end");
            assert_eq!(end.ni_fail_type, NiFail::UNDELIVERABLE);
        }
        assert_eq!(client.put(md, AckReq::Ack, &world.target(2), 0), Err(Error::Fail));
        assert!(
            client
                .me_attach(
                    1,
                    ProcessId::ANY,
                    (0, 0),
                    farpost_portals::Unlink::Retain,
                    farpost_portals::Position::After
                )
                .is_err()
                == (mode == Accelerated)
        );
    }
}

#[test]
fn garbage_in_a_mailbox_harms_nobody_else() {
    for seed in 0..60u64 {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let mode = if rng.bool() { Generic } else { Accelerated };
        let fabrics = inproc(4, seed);
        let network = fabrics[0].network().clone();
        let mut world = World::new(
            fabrics,
            &Config::default(),
            &[(0, &[(1, mode), (2, Generic), (3, Accelerated)])],
            &[],
        );
        world.exchange(1, 2, &pattern(1, 500));
        let id = SegmentId(0x5041_0001);
        let queue = network.segment(Peer(0), id).expect("a mailbox");
        let taken = world.agent(0).commands_taken(1);
        // Records that are well formed, with every kind, and anything in them; or anything at all.
        let import = world
            .fabric(1)
            .import(
                Peer(0),
                id,
                farpost_fabric::LocalMemory::len(&queue),
                Permission::ReadWrite,
            )
            .expect("imported");
        let mut number = taken;
        for _ in 0..20 {
            let lines = rng.u32(1..6);
            let kind = if rng.bool() { rng.u8(1..27) } else { rng.u8(..) };
            let wrong = rng.u8(..10) == 0;
            for line in 0..lines {
                let mut words = [0u64; 8];
                for word in &mut words {
                    *word = match rng.u8(..6) {
                        0 => 0,
                        1 => rng.u64(..4),
                        2 => rng.u64(..300),
                        3 => u64::MAX,
                        4 => rng.u64(..) & 0xffff_ffff,
                        _ => rng.u64(..),
                    };
                }
                words[0] = u64::from(number.wrapping_add(1));
                if line == 0 {
                    let count = if wrong { rng.u8(..) } else { lines as u8 };
                    words[0] |=
                        u64::from(kind) << 32 | u64::from(count) << 40 | u64::from(rng.u16(..3)) << 48;
                }
                let at = 128 + (number as usize % 512) * 64;
                import.put_line(at, &words).expect("put");
                number = number.wrapping_add(1);
            }
            if rng.u8(..4) == 0 {
                import.put_word(0, rng.u64(..)).expect("put");
            }
            world.fabric(1).wake(Peer(0));
            world.without(1);
            world.steps(rng.usize(..30));
        }
        world.steps(200);
        for (from, to) in [(2, 3), (3, 2), (2, 2)] {
            for size in [0, 8, 5000] {
                world.exchange(from, to, &pattern(3, size));
            }
        }
        world.forget_faults();
    }
}

#[test]
fn a_client_that_takes_nothing_loses_what_comes_for_it_only() {
    for (mode, len) in [
        (Generic, 100),
        (Accelerated, 100),
        (Generic, 3000),
        (Generic, 60_000),
    ] {
        let config = Config {
            patience: 1,
            ..Config::with_pools(2)
        };
        let world = World::new(
            inproc(4, 7),
            &config,
            &[(0, &[(1, mode), (2, Generic), (3, Accelerated)])],
            &[],
        );
        world.exchange(2, 1, &pattern(1, 500));
        world.without(1);
        let (_memory, md) = world.descriptor(2, len, None);
        // More than its queue holds.
        for number in 0..400 {
            world.until("room", || {
                world.client(2).progress();
                world.client(2).is_idle()
            });
            world
                .client(2)
                .put(md, AckReq::NoAck, &world.target(1), number)
                .expect("sent");
        }
        if mode == Generic {
            world.until("the mark", || world.agent(0).client(1).expect("a client").wedged);
            assert!(world.agent(0).client(1).expect("a client").dropped > 0);
        }
        for size in SIZES {
            world.exchange(2, 3, &pattern(3, size));
            world.exchange(3, 2, &pattern(4, size));
        }
        // It begins to take again, and is served again.
        world.with(1);
        world.until("the rest", || {
            world.drain(1);
            !world.agent(0).client(1).expect("a client").wedged || {
                world
                    .client(2)
                    .put(md, AckReq::NoAck, &world.target(1), 0)
                    .expect("sent");
                false
            }
        });
        world.steps(500);
        world.drain(1);
        world.exchange(2, 1, &pattern(5, 5000));
        world.exchange(1, 3, &pattern(5, 5000));
    }
}
