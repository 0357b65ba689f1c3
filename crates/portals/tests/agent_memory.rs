//! An agent allocates nothing for messages once its clients have made their objects (paper, section 4.2), whatever they send,
//! however often pools run out, and whoever closes. What the fabric takes for the moment of asking the system whether a
//! process has ended is given back in the same turn, and such turns are few.

mod bridge;
mod common;

use bridge::{Config, World, in_agent, shm, shm_apart, turns};
use farpost_portals::agent::Mode::{Accelerated, Generic};
use farpost_portals::agent::{AgentOccupancy, AgentTunables};
use farpost_portals::{AckReq, EventKind, Handle, Md, NetworkInterface, Segment, Unlink, option};
use farpost_shm::Shm;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

struct Counting;

thread_local! {
    /// Allocations in agents' turns, and what was given back there.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
    static GIVEN_BACK: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    if in_agent() {
        let _ = TAKEN.try_with(|count| count.set(count.get() + 1));
    }
    let _ = BYTES.try_with(|count| count.set(count.get() + bytes as u64));
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if in_agent() {
            let _ = GIVEN_BACK.try_with(|count| count.set(count.get() + 1));
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        if in_agent() {
            let _ = GIVEN_BACK.try_with(|count| count.set(count.get() + 1));
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LENGTHS: [usize; 5] = [0, 8, 129, 5000, 200_000];

/// What one client sends from, and its queue.
struct Own {
    number: u32,
    eq: Handle,
    mds: Vec<Handle>,
    few: (Handle, Handle),
    _memory: Vec<Vec<u8>>,
}

fn own(world: &World<Shm>, number: u32) -> Own {
    let client = world.client(number);
    let eq = client.eq_alloc(4096, None).expect("a queue");
    let (mut mds, mut memory) = (vec![], vec![]);
    for len in LENGTHS {
        let (bytes, md) = world.descriptor(number, len, Some(eq));
        mds.push(md);
        memory.push(bytes);
    }
    // In many segments.
    let mut bytes = vec![0u8; 50_000];
    let base = bytes.as_mut_ptr().expose_provenance();
    let list: Rc<[Segment]> = (0..50)
        .map(|n| Segment {
            address: base + n * 1000,
            len: 1000,
        })
        .collect();
    let md = Md::new(0, 50, option::IOVEC, eq);
    // SAFETY: the memory lives as long as the world.
    mds.push(unsafe { client.md_bind(md, Some(list), Unlink::Retain) }.expect("a descriptor"));
    memory.push(bytes);
    let (put, put_md) = world.descriptor(number, 60, Some(eq));
    let (get, get_md) = world.descriptor(number, 60, Some(eq));
    memory.extend([put, get]);
    Own {
        number,
        eq,
        mds,
        few: (get_md, put_md),
        _memory: memory,
    }
}

/// Everybody to everybody: puts that are acknowledged, gets, get-puts.
fn round(world: &World<Shm>, all: &[Own]) {
    for from in all {
        let client = world.client(from.number);
        for to in all {
            let target = world.target(to.number);
            for md in &from.mds {
                client.put(*md, AckReq::Ack, &target, 0).expect("a put");
                world.event(from.number, from.eq, EventKind::Ack);
                client.get(*md, &target).expect("a get");
                world.event(from.number, from.eq, EventKind::ReplyEnd);
            }
            client
                .get_put(from.few.0, from.few.1, &target, 0)
                .expect("a get-put");
            world.event(from.number, from.eq, EventKind::ReplyEnd);
            world.drain(to.number);
        }
    }
}

/// Nothing is taken meanwhile, and kept; and next to nothing is taken at all.
fn takes_nothing(what: impl FnOnce()) {
    let before = (TAKEN.get(), GIVEN_BACK.get(), turns());
    what();
    let (taken, given_back) = (TAKEN.get() - before.0, GIVEN_BACK.get() - before.1);
    let turns = turns() - before.2;
    assert_eq!(
        taken, given_back,
        "allocations and what was given back in {turns} turns"
    );
    assert!(taken * 20 < turns, "{taken} allocations in {turns} turns");
}

#[test]
fn messages_take_nothing_that_was_not_there_at_the_start() {
    let clients: &[(u32, &[_])] = &[
        (0, &[(1, Generic), (2, Accelerated)]),
        (3, &[(4, Accelerated), (5, Generic)]),
    ];
    for fabrics in [shm as fn(u32) -> Vec<Rc<Shm>>, shm_apart] {
        for mut config in [Config::default(), Config::with_pools(2)] {
            // Time counts, or the system would be asked all the time.
            config.net.resend = 1000;
            let mut world = World::new(fabrics(6), &config, clients, &[]);
            let all: Vec<Own> = world.numbers().into_iter().map(|n| own(&world, n)).collect();
            // Agents meet each other.
            round(&world, &all);
            takes_nothing(|| {
                for _ in 0..3 {
                    round(&world, &all);
                }
                world.flood_from(&[all[0].mds[1], all[1].mds[1], all[2].mds[1], all[3].mds[1]], 40);
            });
            // What is allocated when a client comes again does not add up.
            world.client(1).close(Duration::from_secs(60));
            world.reopen(1);
            let again = own(&world, 1);
            takes_nothing(|| {
                for _ in 0..20 {
                    let (to, number) = (world.target(2), again.number);
                    for md in &again.mds {
                        world.client(number).put(*md, AckReq::Ack, &to, 0).expect("a put");
                        world.event(number, again.eq, EventKind::Ack);
                    }
                    world.drain(2);
                }
            });
        }
    }
}

/// The formula says what is allocated for an agent: within a tenth, with the memory of the fabric's own left out.
#[test]
fn the_occupancy_formula_is_what_is_allocated() {
    let config = AgentTunables::default();
    let net = Config::default().net;
    let made = |clients: u32| {
        let pairs: Vec<_> = (1..=clients).map(|n| (n, farpost_fabric::Peer(0))).collect();
        let fabric = Rc::clone(&shm(9)[0]);
        let routes = Rc::new(farpost_portals::agent::Routes::new(9, &pairs));
        let processes = Rc::new(farpost_portals::Processes::on_one_host(9, 1, 1));
        let before = BYTES.get();
        let agent = farpost_portals::agent::Agent::new(fabric, &config, &net, routes, processes);
        let bytes = BYTES.get() - before;
        drop(agent.expect("an agent"));
        let formula = AgentOccupancy::of::<Shm>(&config, &net, u64::from(clients));
        let whole = formula.bytes() + formula.memory + formula.lists.0 * formula.lists.1;
        (bytes, whole)
    };
    for clients in [1, 8] {
        let (bytes, formula) = made(clients);
        assert!(
            bytes.abs_diff(formula) * 10 < formula,
            "{clients} clients: {bytes} bytes, by the formula {formula}"
        );
    }
    // What one client more takes is a part that counts: without the memory for bodies.
    let ((few, few_formula), (many, many_formula)) = (made(1), made(8));
    let (taken, formula) = ((many - few) / 7, (many_formula - few_formula) / 7);
    assert!(
        taken.abs_diff(formula) * 10 < formula,
        "a client takes {taken} bytes, by the formula {formula}"
    );
}
