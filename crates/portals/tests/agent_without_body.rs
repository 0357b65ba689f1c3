//! Messages of agents' clients without their bodies: what is too long for an agent fails at both ends, in its turn; and puts of which
//! only the header goes.

mod bridge;
mod common;

use bridge::{Config, World, inproc};
use common::pattern;
use farpost_portals::agent::Mode::{Accelerated, Generic};
use farpost_portals::{AckReq, Error, Event, EventKind, Handle, NetworkInterface, NiFail, ProcessId, Target};

/// Bytes that an agent has for bodies.
const MEMORY: u64 = 64 << 10;
/// More than that.
const LENGTH: usize = 100_000;
/// A process without an agent.
const INLINE: u32 = 5;

type Worlds = World<farpost_fabric::inproc::InProc>;

/// Clients of both kinds of two agents, and a process that has none.
fn world(seed: u64) -> Worlds {
    let config = Config {
        memory: MEMORY,
        ..Config::default()
    };
    let clients: &[(u32, &[_])] = &[(0, &[(1, Generic), (2, Accelerated)]), (3, &[(4, Accelerated)])];
    World::new(inproc(6, seed), &config, clients, &[INLINE])
}

/// The next event of a kind, however it went.
fn next(world: &Worlds, number: u32, eq: Handle, kind: EventKind) -> Event {
    let mut found = None;
    world.until(&format!("{kind:?} at {number}"), || {
        let taken = world.client(number).eq_get(eq);
        found = taken
            .ok()
            .map(|taken| taken.event)
            .filter(|event| event.kind == kind);
        found.is_some()
    });
    found.expect("just found")
}

/// The ends of as many puts to a client's window, which begin in the order of their numbers and end in any, by these.
fn puts(world: &Worlds, number: u32, count: usize) -> Vec<Event> {
    let (mut begun, mut ended) = (0, Vec::new());
    world.until("the puts", || {
        if let Ok(taken) = world.client(number).eq_get(world.events_of(number)) {
            match taken.event.kind {
                EventKind::PutStart => {
                    begun += 1;
                    assert_eq!(taken.event.hdr_data, begun, "in order");
                }
                _ => ended.push(taken.event),
            }
        }
        ended.len() == count
    });
    ended.sort_unstable_by_key(|event| event.hdr_data);
    ended
}

/// Everybody with everybody who is a client, seeds changing with them.
fn pairs() -> impl Iterator<Item = (u32, u32, u64)> {
    let all = [1, 2, 4, INLINE];
    let pairs = all.into_iter().flat_map(move |from| all.map(|to| (from, to)));
    pairs.zip(0..).map(|((from, to), seed)| (from, to, seed))
}

#[test]
fn what_an_agent_cannot_hold_fails_at_both_ends_in_its_turn() {
    for (from, to, seed) in pairs().filter(|(_, to, _)| *to != INLINE) {
        let world = world(seed);
        let eq = world.queue(from);
        let (_long, md) = world.descriptor(from, LENGTH, Some(eq));
        let (_short, after) = world.descriptor(from, 100, None);
        for (md, data) in [(md, 1), (after, 2)] {
            let put = world.client(from).put(md, AckReq::NoAck, &world.target(to), data);
            put.expect("sent");
        }
        let sent = next(&world, from, eq, EventKind::SendEnd);
        assert_eq!(sent.ni_fail_type == NiFail::OK, from == INLINE, "{from} to {to}");
        let ends = puts(&world, to, 2);
        assert_eq!(ends[0].ni_fail_type, NiFail::FAIL, "{from} to {to}");
        assert_eq!((ends[1].ni_fail_type, ends[1].mlength), (NiFail::OK, 100));
        // What another one's agent cannot hold does not come from there either.
        world.client(from).get(md, &world.target(to)).expect("asked for");
        let reply = next(&world, from, eq, EventKind::ReplyEnd);
        assert_eq!(reply.ni_fail_type, NiFail::FAIL, "{from} from {to}");
        world.exchange(from, to, &pattern(seed, 60_000));
        world.settle();
    }
}

#[test]
fn a_header_goes_without_its_body_however_long_that_is() {
    for (from, to, seed) in pairs() {
        let world = world(seed);
        let (_short, md) = world.descriptor(from, 100, None);
        for data in [1, 2, 3] {
            let (client, target) = (world.client(from), world.target(to));
            match data {
                2 => client.put_header(LENGTH as u64, &target, data).expect("sent"),
                _ => client.put(md, AckReq::NoAck, &target, data).expect("sent"),
            }
        }
        for (end, (requested, stored)) in
            puts(&world, to, 3)
                .iter()
                .zip([(100, 100), (LENGTH as u64, 0), (100, 100)])
        {
            assert_eq!(end.ni_fail_type, NiFail::OK, "{from} to {to}");
            assert_eq!((end.rlength, end.mlength), (requested, stored));
        }
        let nobody = Target {
            id: ProcessId::new(0, 77),
            ..world.target(to)
        };
        let refused = world.client(from).put_header(1, &nobody, 0);
        assert_eq!(refused, Err(Error::ProcessInvalid));
        world.settle();
    }
}
