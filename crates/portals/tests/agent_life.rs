//! Clients of an agent that come, go and come again; handlers of their queues; bodies without cross-memory attach; what
//! messages cost.

mod bridge;
mod common;

use bridge::{Config, World, inproc, inproc_apart, shm, shm_apart};
use common::pattern;
use farpost_fabric::{Fabric, Peer, RemoteMemory};
use farpost_portals::agent::Mode::{self, Accelerated, Generic};
use farpost_portals::{
    AckReq, AnyInterface, Error, Event, EventKind, Handle, Md, NetworkInterface, Position, ProcessId, Target,
    Unlink, option,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
/// The last takes several windows.
const SIZES: [usize; 5] = [0, 8, 129, 4096, 140_000];

type Clients<'a> = &'a [(u32, &'a [(u32, Mode)])];

const ONE_AGENT: Clients = &[(0, &[(1, Generic), (2, Accelerated)])];
const TWO_AGENTS: Clients = &[
    (0, &[(1, Generic), (2, Accelerated)]),
    (3, &[(4, Accelerated), (5, Generic)]),
];

fn everything<F: Fabric + 'static>(world: &World<F>, sizes: &[usize]) {
    for from in world.numbers() {
        for to in world.numbers() {
            for size in sizes.iter().copied() {
                world.exchange(from, to, &pattern(size as u64 + u64::from(from), size));
            }
        }
    }
}

fn carried<F: Fabric + 'static>(world: &World<F>) -> bool {
    match world.client(1) {
        AnyInterface::Agent(client) => client.is_carried(),
        _ => false,
    }
}

/// A body leaves by the descriptor that it was sent from, whatever becomes of others that describe the same memory meanwhile.
#[test]
fn descriptors_of_the_same_memory_come_and_go() {
    for (mode, len) in [
        (Mode::Generic, 10_000),
        (Mode::Accelerated, 10_000),
        (Mode::Accelerated, 70_000),
    ] {
        let world = World::new(
            inproc_apart(4, 1),
            &Config::default(),
            &[(0, &[(1, mode), (2, mode)])],
            &[],
        );
        assert!(carried(&world));
        let (client, target) = (world.client(1), world.target(2));
        let eq = world.queue(1);
        let (mut memory, md) = world.descriptor(1, len, Some(eq));
        memory.copy_from_slice(&pattern(9, len));
        let (read, read_md) = world.descriptor(1, len, Some(eq));
        for _ in 0..3 {
            let another = Md::of(&mut memory, 0, Handle::EQ_NONE);
            // SAFETY: the memory outlives the world's use of it.
            let another = unsafe { client.md_bind(another, None, Unlink::Retain) }.expect("a descriptor");
            client.put(md, AckReq::Ack, &target, 42).expect("a put");
            assert_eq!(client.md_unlink(another), Ok(()));
            world.event(1, eq, EventKind::SendEnd);
            assert_eq!(world.event_of(2, EventKind::PutEnd).mlength, len as u64);
            world.event(1, eq, EventKind::Ack);
            client.get(read_md, &target).expect("a get");
            world.event(1, eq, EventKind::ReplyEnd);
            assert!(read == memory, "{mode:?}");
        }
    }
}

#[test]
fn bodies_go_through_windows_where_memory_cannot_be_reached() {
    let world = World::new(inproc_apart(6, 1), &Config::default(), TWO_AGENTS, &[]);
    assert!(carried(&world));
    everything(&world, &SIZES[..4]);
    world.exchange(1, 5, &pattern(1, 70_000));
    world.exchange(2, 4, &pattern(1, 70_000));
    world.flood(10);
    world.settle();
    let world = World::new(shm_apart(7), &Config::default(), TWO_AGENTS, &[6]);
    assert!(carried(&world));
    everything(&world, &SIZES);
    world.flood(30);
    world.settle();
    let world = World::new(shm(6), &Config::default(), TWO_AGENTS, &[]);
    assert!(!carried(&world));
}

#[test]
fn windows_and_pools_of_one() {
    let world = World::new(inproc_apart(6, 9), &Config::with_pools(1), TWO_AGENTS, &[]);
    everything(&world, &SIZES[1..3]);
    world.flood(10);
    world.settle();
}

/// Descriptors of many segments, some of them empty, through windows and without.
#[test]
fn lists_of_segments_arrive_in_order() {
    for fabrics in [inproc(3, 1), inproc_apart(3, 2)] {
        let world = World::new(fabrics, &Config::default(), ONE_AGENT, &[]);
        for (from, to) in [(1, 2), (2, 1), (1, 1), (2, 2)] {
            let client = world.client(from);
            let eq = world.queue(from);
            let data = pattern(u64::from(from), 50_000);
            let mut memory = data.clone();
            let base = memory.as_mut_ptr().expose_provenance();
            let lens = [0, 1, 700, 0, 30_000, 9, 40, 19_250];
            let mut at = base;
            let list: Rc<[farpost_portals::Segment]> = lens
                .into_iter()
                .map(|len| {
                    at += len;
                    farpost_portals::Segment {
                        address: at - len,
                        len,
                    }
                })
                .collect();
            let md = Md::new(0, list.len() as u64, option::IOVEC, eq);
            // SAFETY: the memory outlives the descriptor, which is unlinked below.
            let md = unsafe { client.md_bind(md, Some(list), Unlink::Retain) }.expect("a descriptor");
            client.put(md, AckReq::Ack, &world.target(to), 0).expect("a put");
            world.event(from, eq, EventKind::Ack);
            memory.fill(0);
            client.get(md, &world.target(to)).expect("a get");
            world.event(from, eq, EventKind::ReplyEnd);
            assert!(memory == data, "{from} got back what it put to {to}");
            assert_eq!(client.md_unlink(md), Ok(()));
            world.drain(to);
        }
        world.settle();
    }
}

#[test]
fn a_client_closes_and_opens_again() {
    for seed in 0..6 {
        let mut world = World::new(inproc(6, seed), &Config::default(), TWO_AGENTS, &[]);
        for round in 0..3 {
            for number in [1, 2] {
                let old = world.client(number).handle();
                let eq = world.queue(number);
                assert!(world.client(number).close(SOON));
                assert_eq!(world.client(number).eq_alloc(4, None).is_err(), number == 2);
                world.reopen(number);
                assert_ne!(world.client(number).handle(), old, "handles of before are stale");
                assert_eq!(world.client(number).eq_get(eq), Err(Error::EqInvalid));
                assert_eq!(world.client(number).ni_handle(eq), Err(Error::HandleInvalid));
                let agent = world.agent(0).client(number).expect("a client");
                assert_eq!((agent.open, agent.openings), (true, round + 2));
            }
            for (from, to) in [(1, 2), (2, 1), (4, 1), (2, 5), (1, 1), (2, 2)] {
                for size in [0, 8, 5000, 70_000] {
                    world.exchange(from, to, &pattern(seed, size));
                }
            }
        }
        world.settle();
    }
}

/// Messages are on the way to a client when it closes, or goes without closing, and when the next one opens: they are dropped or
/// they are in the new one's window, and nothing else happens to anybody.
#[test]
fn a_client_opens_again_while_messages_for_it_are_on_the_way() {
    for seed in 0..24u64 {
        let fabrics = if seed % 3 == 0 {
            inproc_apart(6, seed)
        } else {
            inproc(6, seed)
        };
        let mut world = World::new(fabrics, &Config::with_pools(1 + seed % 4), TWO_AGENTS, &[]);
        let sizes = [8usize, 129, 3000, 60_000];
        let mut kept = vec![];
        for from in [1, 2, 4, 5] {
            for size in sizes {
                let eq = world.queue(from);
                let (memory, md) = world.descriptor(from, size, Some(eq));
                kept.push((from, memory, md));
            }
        }
        for round in 0..4usize {
            for victim in [1, 2] {
                for (from, _, md) in &kept {
                    // The victims' own descriptors have gone with their first lives.
                    // Nobody else has a turn in a call that waits.
                    let client = world.client(*from);
                    if (*from > 2 || (round == 0 && *from != victim && victim == 1)) && client.is_idle() {
                        client
                            .put(*md, AckReq::Ack, &world.target(victim), 1)
                            .expect("a put");
                        world.steps(30);
                        if client.is_idle() {
                            client.get(*md, &world.target(victim)).expect("a get");
                        }
                    }
                }
                world.steps((seed as usize * 7 + round * 13) % 90);
                if (seed + round as u64).is_multiple_of(2) {
                    world.client(victim).close(Duration::from_millis(5));
                    world.steps(seed as usize % 40);
                    world.reopen(victim);
                } else {
                    world.replace(victim);
                }
            }
        }
        world.until("rest", || {
            world.agent(0).is_idle()
                && world.agent(3).is_idle()
                && [1, 2, 4, 5].iter().all(|n| world.client(*n).is_idle())
        });
        for number in [1, 2] {
            world.drain(number);
        }
        for (from, to) in [(1, 2), (2, 1), (4, 1), (4, 2), (5, 1), (5, 2), (1, 5), (2, 4)] {
            for size in [8, 5000] {
                world.exchange(from, to, &pattern(seed, size));
            }
        }
        world.settle();
    }
}

#[test]
fn who_is_attached_is_told_so() {
    let world = World::new(inproc(3, 1), &Config::default(), ONE_AGENT, &[]);
    let other = world.attach_another(1, Duration::ZERO);
    let error = other.err().expect("one at a time");
    assert_eq!(error, farpost_portals::agent::AttachError::InUse(Peer(0)));
    // The first is none the worse for it.
    world.exchange(1, 2, &pattern(1, 5000));
    world.settle();
}

/// Section 3.11.6: a handler sees every event of its queue, after it was logged, and may call anything.
#[test]
fn handlers_see_every_event_and_may_call_anything() {
    for fabrics in [inproc(3, 3), inproc(3, 4)] {
        let world = Rc::new(World::new(fabrics, &Config::default(), ONE_AGENT, &[]));
        for (here, there) in [(1, 2), (2, 1)] {
            let seen: Rc<RefCell<Vec<Event>>> = Rc::default();
            let client = world.client(here);
            let own = client.eq_alloc(64, None).expect("a queue");
            let (_memory, answer) = world.descriptor(here, 300, Some(own));
            let (noted, inner) = (Rc::clone(&seen), Rc::downgrade(&world));
            let handler = move |event: &Event| {
                noted.borrow_mut().push(*event);
                let world = inner.upgrade().expect("the world");
                if event.kind == EventKind::PutEnd {
                    // It sends, and looks at queues: its own has the event already.
                    let client = world.client(here);
                    let target = Target {
                        match_bits: event.hdr_data,
                        ..world.target(there)
                    };
                    client.put(answer, AckReq::NoAck, &target, 7).expect("a put");
                }
            };
            let handled = client.eq_alloc(64, Some(Rc::new(handler))).expect("a queue");
            let mut memory = vec![0u8; 400];
            let me = client
                .me_attach(5, ProcessId::ANY, (0, u64::MAX), Unlink::Retain, Position::After)
                .expect("an entry");
            let md = Md::of(&mut memory, option::OP_PUT | option::MANAGE_REMOTE, handled);
            // SAFETY: the memory outlives the world's use of it.
            unsafe { client.md_attach(me, md, None, Unlink::Retain) }.expect("a descriptor");
            let (_data, put) = world.descriptor(there, 400, None);
            let target = Target {
                pt_index: 5,
                ..world.target(here)
            };
            for number in 0..5 {
                world
                    .client(there)
                    .put(put, AckReq::NoAck, &target, number)
                    .expect("a put");
            }
            world.until("handlers", || seen.borrow().len() == 10);
            // The queue has them as well.
            for event in seen.borrow().iter() {
                let taken = world.client(here).eq_get(handled).expect("an event");
                assert_eq!((taken.event, taken.dropped), (*event, false));
            }
            assert_eq!(world.client(here).eq_get(handled), Err(Error::EqEmpty));
            // What handlers sent has gone, and arrived.
            for _ in 0..5 {
                let end = world.event_of(there, EventKind::PutEnd);
                assert_eq!((end.mlength, end.hdr_data), (300, 7));
                world.event(here, own, EventKind::SendEnd);
            }
            assert_eq!(world.client(here).eq_free(handled), Ok(()));
        }
        world.settle();
    }
}

/// Everybody asks everybody for more than can be answered at once, and only then takes anything: nobody waits in a circle.
#[test]
fn clients_that_all_ask_before_they_answer_do_not_wait_for_each_other() {
    for (seed, clients) in [
        (1, &[(0, &[(1, Generic), (2, Generic)][..])][..]),
        (2, &[(0, &[(1, Generic)][..]), (3, &[(2, Generic)][..])][..]),
        (3, &[(0, &[(1, Generic), (2, Accelerated)][..])][..]),
        (4, &[(0, &[(1, Accelerated), (2, Accelerated)][..])][..]),
    ] {
        for config in [Config::default(), Config::with_pools(2)] {
            let world = World::new(inproc(4, seed), &config, clients, &[]);
            const EACH: usize = 1500;
            let mut kept = vec![];
            for (from, to) in [(1, 2), (2, 1)] {
                let client = world.client(from);
                let eq = client.eq_alloc(8192, None).expect("a queue");
                let (memory, md) = world.descriptor(from, 100, Some(eq));
                kept.push((from, to, memory, md, eq));
                let asks = if matches!(client, AnyInterface::Agent(c) if c.mode() == Generic) {
                    EACH
                } else {
                    // An accelerated client's calls wait, and take what comes meanwhile.
                    8
                };
                for number in 0..asks {
                    let begun = match number % 3 {
                        0 => client.put(md, AckReq::Ack, &world.target(to), 0),
                        _ => client.get(md, &world.target(to)),
                    };
                    begun.expect("begun");
                }
                for number in asks..EACH {
                    world.steps(1);
                    let begun = match number % 3 {
                        0 => client.put(md, AckReq::Ack, &world.target(to), 0),
                        _ => client.get(md, &world.target(to)),
                    };
                    begun.expect("begun");
                }
            }
            let mut answered = [0; 2];
            world.until("all answers", || {
                for (at, (from, _, _, _, eq)) in kept.iter().enumerate() {
                    while let Ok(taken) = world.client(*from).eq_get(*eq) {
                        let kind = taken.event.kind;
                        answered[at] += usize::from(matches!(kind, EventKind::Ack | EventKind::ReplyEnd));
                    }
                    world.drain(*from);
                }
                answered == [EACH; 2]
            });
            world.settle();
        }
    }
}

/// A body that fits in the header's packet comes with it: one event for a generic client, and no word of the client's about
/// where it goes; a longer one takes two.
#[test]
fn short_bodies_cost_one_event() {
    let world = World::new(shm(3), &Config::default(), ONE_AGENT, &[]);
    let events = || world.agent(0).client(1).expect("a client").events;
    let commands = || world.agent(0).commands_taken(1);
    for (size, wanted) in [(0, 1), (8, 1), (64, 1), (129, 2), (5000, 2)] {
        let (_memory, md) = world.descriptor(2, size, None);
        let before = (events(), commands());
        for _ in 0..10 {
            world
                .client(2)
                .put(md, AckReq::NoAck, &world.target(1), 0)
                .expect("a put");
            world.event_of(1, EventKind::PutEnd);
        }
        world.steps(20);
        assert_eq!(events() - before.0, 10 * wanted, "{size} bytes");
        let commands = commands().wrapping_sub(before.1);
        assert_eq!(
            commands > 0,
            wanted > 1,
            "{size} bytes: {commands} lines of commands"
        );
    }
    world.settle();
}

#[test]
fn a_handle_of_another_client_is_none() {
    let world = World::new(inproc(3, 1), &Config::default(), ONE_AGENT, &[]);
    for number in [1, 2] {
        let client = world.client(number);
        let eq = world.queue(number);
        assert_eq!(client.ni_handle(eq), Ok(client.handle()));
        assert_eq!(client.ni_handle(client.handle()), Ok(client.handle()));
        assert_eq!(client.ni_handle(Handle::NONE), Err(Error::HandleInvalid));
        assert_eq!(client.dropped(farpost_portals::DropReason::NoMatch), 0);
        let (_memory, md) = world.descriptor(3 - number, 8, None);
        let target = Target {
            pt_index: 6,
            ..world.target(number)
        };
        world
            .client(3 - number)
            .put(md, AckReq::NoAck, &target, 0)
            .expect("a put");
        world.until("the drop", || {
            client.dropped(farpost_portals::DropReason::NoMatch) == 1
        });
    }
    world.settle();
}

/// An agent that writes anything at all to a client's mailbox: the client is told that it has none, or goes on, and touches no
/// memory that it did not lend.
#[test]
fn garbage_from_an_agent_does_a_client_no_harm() {
    for seed in 0..80u64 {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let fabrics = if seed % 4 < 2 {
            inproc_apart(3, seed)
        } else {
            inproc(3, seed)
        };
        let world = World::new(fabrics, &Config::default(), ONE_AGENT, &[]);
        let number = 1 + seed as u32 % 2;
        world.exchange(number, 3 - number, &pattern(1, 500));
        let eq = world.queue(number);
        let (memory, md) = world.descriptor(number, 5000, Some(eq));
        let client = world.client(number);
        client
            .put(md, AckReq::Ack, &world.target(3 - number), 0)
            .expect("a put");
        world.without_agent(0);
        let id = farpost_fabric::SegmentId(0x5043_0000);
        let write = farpost_fabric::Permission::ReadWrite;
        let mailbox = world
            .fabric(0)
            .import(Peer(number), id, 0, write)
            .expect("imported");
        use farpost_fabric::Remote;
        for _ in 0..4 {
            // The next number that the client looks for is among these.
            for line_number in 0..256u64 {
                let mut line = [0; 8].map(|_: u64| match rng.u8(..4) {
                    0 => rng.u64(..8),
                    1 => rng.u64(..40_000),
                    _ => rng.u64(..),
                });
                line[0] = (line_number + 1) | rng.u64(..8) << 32 | rng.u64(..5) << 40 | rng.u64(..4) << 48;
                let at = 128 + (line_number as usize % 1024) * 64;
                mailbox.put_line(at, &line).expect("put");
                if rng.u8(..20) == 0 {
                    mailbox
                        .put_line(0, &[0; 8].map(|_: u64| rng.u64(..1000)))
                        .expect("put");
                }
                if rng.u8(..8) == 0 {
                    let _ = mailbox.fence();
                    client.progress();
                    while client.eq_get(eq).is_ok() {}
                }
            }
        }
        drop(memory);
    }
}
