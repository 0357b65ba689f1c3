//! What is copied, searched and called is charged, once and to whoever does it: by the exact clock of the in-process fabric, on which nothing else costs as much.

mod common;

use common::*;
use farpost_fabric::inproc::{Config, Costs, InProc, Network};
use farpost_portals::net::NetTunables;
use farpost_portals::option::*;
use farpost_portals::*;

fn ends(bulk: bool, costs: Costs) -> Vec<Interface<InProc>> {
    let config = Config {
        bulk,
        ..Config::counting(costs)
    };
    // Time that passes by what is charged is no silence.
    let tunables = NetTunables {
        resend: 60_000,
        window: 1024,
        check: 0,
        ..NetTunables::default()
    };
    interfaces(Network::new(2, 5, config), &tunables)
}

/// What is charged while `work` is done and everything on its way arrives.
fn charged(ends: &[Interface<InProc>], work: impl FnOnce()) -> u64 {
    let all = || {
        work();
        settle(ends);
    };
    ends[0].fabric().network().charged(all).0
}

/// Bytes copied for a put of `len` bytes, when processes know each other.
fn copied_for(len: usize, bulk: bool) -> u64 {
    let ends = ends(bulk, Costs::COPIES);
    let there = Memory::zeros(len);
    post(
        &ends[1],
        (7, 0),
        there.md(OP_PUT | MANAGE_REMOTE, Handle::EQ_NONE),
        None,
    );
    let here = Memory::new(&pattern(3, len));
    let md = bind(&ends[0], here.md(0, Handle::EQ_NONE));
    let put = || ends[0].put(md, AckReq::NoAck, &target(1, 7), 0).unwrap();
    charged(&ends, put);
    let copied = charged(&ends, put);
    assert_eq!(there.bytes(), pattern(3, len));
    copied
}

#[test]
fn a_short_body_is_copied_into_its_packet_and_to_its_place() {
    assert_eq!(copied_for(48, true), 2 * 48);
}

#[test]
fn a_long_body_is_copied_only_where_the_network_does_not_move_it() {
    assert_eq!(copied_for(5000, true), 0);
    assert_eq!(copied_for(5000, false), 2 * 5000);
}

#[test]
fn a_list_is_charged_for_the_entries_that_a_put_looks_at() {
    const ENTRIES: u64 = 40;
    let costs = Costs {
        entry: Costs::UNIT,
        ..Costs::NOTHING
    };
    let ends = ends(true, costs);
    let there = Memory::zeros(8);
    for bits in 0..ENTRIES {
        post(
            &ends[1],
            (bits, 0),
            there.md(OP_PUT | MANAGE_REMOTE, Handle::EQ_NONE),
            None,
        );
    }
    let here = Memory::zeros(8);
    let md = bind(&ends[0], here.md(0, Handle::EQ_NONE));
    let put = |bits| {
        charged(&ends, || {
            ends[0].put(md, AckReq::NoAck, &target(1, bits), 0).unwrap()
        })
    };
    for bits in [0, 17, ENTRIES - 1] {
        assert_eq!(put(bits), bits + 1);
        // What was found last is looked at first.
        assert_eq!(put(bits), 1);
    }
    assert_eq!(put(1000), ENTRIES, "nobody wants it");
}
