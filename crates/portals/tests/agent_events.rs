//! Events of accelerated clients: what an agent logs for them in one turn, for queues that are shorter than that, and for handlers,
//! which see every event (section 3.11.6 of the document).

mod bridge;
mod common;

use bridge::{Config, World, inproc, shm};
use farpost_fabric::Fabric;
use farpost_portals::agent::Mode::{Accelerated, Generic};
use farpost_portals::{
    AckReq, Error, Event, EventKind, Handle, Handler, Md, NetworkInterface, Position, ProcessId,
    THRESHOLD_INFINITE, Target, Unlink, option,
};
use std::cell::RefCell;
use std::rc::Rc;

const PORTAL: u32 = 4;

type Seen = Rc<RefCell<Vec<Event>>>;

fn recorder() -> (Seen, Handler) {
    let seen = Seen::default();
    let into = Rc::clone(&seen);
    (seen, Rc::new(move |event: &Event| into.borrow_mut().push(*event)))
}

fn target(number: u32, bits: u64) -> Target {
    Target {
        id: ProcessId::new(0, number),
        pt_index: PORTAL,
        ac_index: 0,
        match_bits: bits,
        offset: 0,
    }
}

/// A word of process `number` that others put to, with these bits. Its memory is never given back.
fn word<F: Fabric + 'static>(world: &World<F>, number: u32, bits: u64, eq: Handle) {
    let client = world.client(number);
    let me = client
        .me_attach(PORTAL, ProcessId::ANY, (bits, 0), Unlink::Retain, Position::After)
        .expect("an entry");
    let memory = Box::leak(Box::new([0u8; 8]));
    let md = Md {
        start: memory.as_mut_ptr().expose_provenance(),
        length: 8,
        threshold: THRESHOLD_INFINITE,
        max_size: 0,
        options: option::OP_PUT | option::MANAGE_REMOTE,
        user_ptr: 0,
        eq_handle: eq,
    };
    // SAFETY: the memory stays.
    unsafe { client.md_attach(me, md, None, Unlink::Retain) }.expect("a descriptor");
}

/// START and END of all messages so far, each once, STARTs in the order of the messages, none lost.
fn in_order(seen: &[Event]) {
    let sequence = seen.iter().map(|event| event.sequence);
    assert!(sequence.eq(0..seen.len() as u32));
    for kind in [EventKind::PutStart, EventKind::PutEnd] {
        let of_kind = seen.iter().filter(|event| event.kind == kind);
        let mut numbers: Vec<u64> = of_kind.map(|event| event.hdr_data).collect();
        if kind == EventKind::PutEnd {
            numbers.sort_unstable();
        }
        assert!(numbers.into_iter().eq(0..seen.len() as u64 / 2));
    }
}

/// More messages than a queue holds, within one turn of the agent; then more than the agent keeps for a client that takes
/// nothing: they wait.
fn handlers_see_all<F: Fabric + 'static>(fabrics: Vec<Rc<F>>, at_once: bool) {
    const FEW: usize = 6;
    const MANY: usize = 1500;
    let world = World::new(fabrics, &Config::default(), &[(0, &[(1, Accelerated)])], &[2]);
    let (client, sender) = (world.client(1), world.client(2));
    let (seen, handler) = recorder();
    let eq = client.eq_alloc(1, Some(handler)).expect("a queue");
    word(&world, 1, 7, eq);
    let (_memory, md) = world.descriptor(2, 8, None);
    let put = |number| sender.put(md, AckReq::NoAck, &target(1, 7), number as u64);
    // The two have met: what follows arrives at once where the fabric has no delay.
    put(0).expect("sent");
    world.until("the first", || seen.borrow().len() == 2);
    world.without(1);
    (1..FEW).for_each(|number| put(number).expect("sent"));
    if at_once {
        world.step();
        client.progress();
        assert!(seen.borrow().len() > 4, "several messages in a turn");
    }
    world.with(1);
    world.until("all of them", || seen.borrow().len() == 2 * FEW);
    in_order(&seen.borrow());
    // Whoever reads the queue is told what it has lost.
    let taken = client.eq_get(eq).expect("an event");
    assert!(taken.dropped && taken.event.sequence as usize == 2 * FEW - 2);
    assert!(!client.eq_get(eq).expect("another").dropped);
    assert_eq!(client.eq_get(eq).expect_err("no more"), Error::EqEmpty);
    world.without(1);
    (FEW..MANY).for_each(|number| put(number).expect("sent"));
    let figures = || world.agent(0).client(1).expect("a client");
    world.until("a refusal", || figures().refused > 0);
    world.steps(200);
    assert!(!sender.is_idle() && figures().dropped == 0 && !figures().wedged);
    world.with(1);
    world.until("the rest", || seen.borrow().len() == 2 * MANY);
    in_order(&seen.borrow());
    client.eq_free(eq).expect("freed");
    world.settle();
}

#[test]
fn handlers_see_every_event_of_a_queue_of_one() {
    handlers_see_all(shm(3), true);
    for seed in 0..2 {
        handlers_see_all(inproc(3, seed), false);
    }
}

/// Two slots are enough for who takes both events of each message before the next one, whatever else comes in the same turns.
fn a_queue_of_one_is_enough<F: Fabric + 'static>(fabrics: Vec<Rc<F>>) {
    const EACH: u64 = 5;
    let world = World::new(fabrics, &Config::default(), &[(0, &[(1, Accelerated)])], &[2, 3]);
    let client = world.client(1);
    let short = client.eq_alloc(1, None).expect("a queue");
    let long = client.eq_alloc(1024, None).expect("a queue");
    word(&world, 1, 1, short);
    word(&world, 1, 2, long);
    let mds = [2, 3].map(|number| world.descriptor(number, 8, None));
    for round in 0..100 {
        let put = |number: u32, bits, data| {
            let md = mds[number as usize - 2].1;
            let put = world
                .client(number)
                .put(md, AckReq::NoAck, &target(1, bits), data);
            put.expect("sent");
        };
        (0..EACH).for_each(|at| put(3, 2, round * EACH + at));
        put(2, 1, round);
        let (mut ours, mut others) = (0, 0);
        world.until("the round", || {
            for (eq, count) in [(short, &mut ours), (long, &mut others)] {
                while let Ok(taken) = client.eq_get(eq) {
                    assert!(!taken.dropped, "{taken:?}");
                    *count += 1;
                }
            }
            ours == 2 && others == 2 * EACH
        });
    }
    world.settle();
}

#[test]
fn a_queue_of_one_loses_nothing_that_is_taken_in_time() {
    a_queue_of_one_is_enough(shm(4));
    for seed in 0..3 {
        a_queue_of_one_is_enough(inproc(4, seed));
    }
}

/// What a client begins waits when its events could not be kept for its handlers, and goes on when what came before has ended.
#[test]
fn operations_wait_while_their_events_cannot_be_kept() {
    const EACH: u64 = 58;
    let clients: &[(u32, &[_])] = &[
        (0, &[(1, Accelerated)]),
        (2, &[(3, Generic), (4, Generic), (5, Generic)]),
    ];
    let world = World::new(shm(6), &Config::default(), clients, &[]);
    let client = world.client(1);
    let (seen, handler) = recorder();
    let eq = client.eq_alloc(1, Some(handler)).expect("a queue");
    let (_memory, md) = world.descriptor(1, 8, Some(eq));
    // They match nothing meanwhile, and so do not answer.
    for number in 3..6 {
        word(&world, number, 9, Handle::EQ_NONE);
        world.without(number);
    }
    for number in 3..6 {
        for data in 0..EACH {
            client
                .put(md, AckReq::Ack, &target(number, 9), data)
                .expect("a put");
            world.steps(4);
        }
    }
    world.steps(100);
    let starts = |seen: &Seen| {
        let starts = |event: &&Event| event.kind == EventKind::SendStart;
        seen.borrow().iter().filter(starts).count() as u64
    };
    assert!(starts(&seen) < 3 * EACH, "the last ones wait");
    assert!(!world.agent(0).is_idle() && seen.borrow().iter().all(|event| event.kind != EventKind::Ack));
    (3..6).for_each(|number| world.with(number));
    world.until("all of them", || seen.borrow().len() as u64 == 9 * EACH);
    assert_eq!(starts(&seen), 3 * EACH);
    let sequence: Vec<u32> = seen.borrow().iter().map(|event| event.sequence).collect();
    assert!(sequence.iter().copied().eq(0..9 * EACH as u32));
    world.settle();
}

/// Both keep as much as they can for each other, and neither waits for ever.
#[test]
fn clients_with_handlers_do_not_wait_for_each_other() {
    const EACH: u64 = 1000;
    let clients: &[(u32, &[_])] = &[(0, &[(1, Accelerated)]), (2, &[(3, Accelerated)])];
    let world = World::new(shm(4), &Config::default(), clients, &[]);
    let numbers = [1, 3];
    let made = numbers.map(|number| {
        let (seen, handler) = recorder();
        let eq = world.client(number).eq_alloc(1, Some(handler)).expect("a queue");
        word(&world, number, 5, eq);
        (seen, world.descriptor(number, 8, Some(eq)))
    });
    let mut next = [0; 2];
    world.until("all of them", || {
        for (at, number) in numbers.into_iter().enumerate() {
            let client = world.client(number);
            if next[at] < EACH && client.is_idle() {
                let put = client.put(made[at].1.1, AckReq::Ack, &target(4 - number, 5), next[at]);
                put.expect("a put");
                next[at] += 1;
            }
        }
        made.iter()
            .all(|(seen, _)| seen.borrow().len() as u64 == 5 * EACH)
    });
    for (seen, _) in &made {
        let sequence: Vec<u32> = seen.borrow().iter().map(|event| event.sequence).collect();
        assert!(sequence.iter().copied().eq(0..5 * EACH as u32));
    }
    world.settle();
}

/// What an accelerated client's objects take in the agent is bounded, and what is released may be used again.
#[test]
fn objects_have_a_bound() {
    let config = Config {
        objects: 1 << 20,
        ..Config::default()
    };
    let world = World::new(
        shm(3),
        &config,
        &[(0, &[(1, Accelerated), (2, Accelerated)])],
        &[],
    );
    let client = world.client(1);
    let queues = |count| {
        let mut made = vec![];
        let refused = loop {
            match client.eq_alloc(count, None) {
                Ok(eq) => made.push(eq),
                Err(error) => break error,
            }
        };
        assert_eq!(refused, Error::NoSpace);
        made
    };
    let made = queues(1024);
    assert!((1..16).contains(&made.len()), "{} queues", made.len());
    // Little is left, and entries and descriptors have a part of it.
    let attach = || client.me_attach(PORTAL, ProcessId::ANY, (1, 0), Unlink::Retain, Position::After);
    let mut entries = vec![];
    let refused = loop {
        match attach() {
            Ok(me) => entries.push(me),
            Err(error) => break error,
        }
    };
    assert!(refused == Error::NoSpace && entries.len() < 20_000);
    let memory = [0u8; 8];
    let md = Md {
        start: memory.as_ptr().expose_provenance(),
        length: 8,
        threshold: 1,
        max_size: 0,
        options: 0,
        user_ptr: 0,
        eq_handle: Handle::EQ_NONE,
    };
    // SAFETY: nothing is done with it.
    let bound = || unsafe { client.md_bind(md, None, Unlink::Retain) };
    assert_eq!(bound(), Err(Error::NoSpace));
    // It is this client's affair.
    world.exchange(2, 1, &[5; 3000]);
    let count = made.len();
    for eq in made {
        client.eq_free(eq).expect("freed");
    }
    let md = bound().expect("a descriptor");
    client.md_unlink(md).expect("released");
    for me in entries {
        client.me_unlink(me).expect("released");
    }
    assert_eq!(queues(1024).len(), count);
    world.exchange(1, 2, &[6; 3000]);
}
