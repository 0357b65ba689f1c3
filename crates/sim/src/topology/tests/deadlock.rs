//! Small buffers, much traffic.

use super::*;

/// The buffers hold one or two packets, and everybody sends to everybody at once: all of it arrives.
#[test]
fn nothing_deadlocks() {
    for link in [TIGHT, TWO, TIGHT_BOTH] {
        for spec in all(link) {
            let hosts = spec.ports();
            let mut it = Trial::new(&spec, hosts, Some(1));
            let mut chance = fastrand::Rng::with_seed(7);
            let packets = 60 * hosts;
            for load in 0..packets {
                let from = load % hosts;
                let to = (from + chance.u32(1..hosts)) % hosts;
                let rail = chance.u32(0..it.topology.rails());
                let route = match chance.bool() {
                    true => fixed(chance.u32(..)),
                    false => random(chance.u32(..)),
                };
                it.send(load, (from, to, rail), chance.u8(0..2), route, chance.u32(8..200));
            }
            it.run();
            assert_eq!(it.arrived.len() as u32, packets, "{spec:?}");
            assert_eq!(it.net.under_way(), 0);
        }
    }
}

/// Everybody sends half a ring round, which fills every buffer of a ring; and round the other way, where a link is broken.
#[test]
fn full_rings_do_not_deadlock() {
    for broken in [false, true] {
        let mut it = Trial::new(&torus("8 8 1", "[true, true, true]", TIGHT), 64, Some(1));
        if broken {
            for row in 0..8 {
                it.broken
                    .insert(it.find(&format!("x+ link of node ({row},{row},0)")));
                it.broken
                    .insert(it.find(&format!("y- link of node ({row},{row},0)")));
            }
        }
        for load in 0..64 * 40 {
            let from = load % 64;
            let to = (from % 8 + 3 + load / 64 % 2) % 8 + 8 * ((from / 8 + 4) % 8);
            it.send(load, (from, to, 0), 0, fixed(0), 100);
        }
        it.run();
        assert_eq!(it.arrived.len(), 64 * 40);
    }
}

/// The circle of buffers that the second virtual channel opens: without it this traffic stands still, so the tests above can fail.
#[test]
fn rings_with_one_channel_would_deadlock() {
    let mut it = Trial::new(&torus("8 1 1", "[true, true, true]", TIGHT), 8, Some(1));
    for load in 0..8 * 20 {
        let from = load % 8;
        let path = it.path(from, (from + 3) % 8, 0, fixed(0)).expect("connected");
        let one = path.iter().map(|hop| Hop { lane: 0, ..*hop });
        let input = Hop {
            resource: it.inputs[from as usize],
            lane: 0,
        };
        let path: Path = std::iter::once(input).chain(one).collect();
        let ends = (HostId(from), HostId((from + 3) % 8));
        let packet = Packet::new(ends, 100, 0, path, (Ps::ZERO, Ps::ZERO), load);
        it.net.send(&mut it.queue, Ps::ZERO, packet);
    }
    it.run();
    assert!(it.net.under_way() > 0);
}
