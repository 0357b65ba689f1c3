//! The network layer on fabrics of one thread: order, pools of every size, and whatever a network does to packets.

mod support;

use farpost_fabric::conformance::shm_ends;
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::shm::{Shm, ShmTunables};
use farpost_portals::net::{Channel, NetTunables};
use std::rc::Rc;
use support::unruly::{Chances, Unruly};
use support::{Way, everybody_to_everybody};

const QUICK: NetTunables = NetTunables {
    sources: 8,
    tx_pendings: 16,
    rx_pendings: 16,
    window: 8,
    staged: 4096,
    staging: 4,
    chunk: 8192,
    shared: 32 << 10,
    resend: 0,
    check: 1,
};

/// Short, staged or streamed, and long.
fn mixed(number: u32) -> usize {
    [0, 8, 100, 130, 500, 3000, 9000, 1][number as usize % 8]
}

/// Also bodies that both sides copy.
fn long(number: u32) -> usize {
    [mixed(number), 100_000, 32 << 10][(number % 5 % 3) as usize]
}

fn inproc(size: u32, seed: u64, bulk: bool) -> Vec<Rc<InProc>> {
    let config = Config {
        bulk,
        ..Config::default()
    };
    Network::new(size, seed, config)
        .into_iter()
        .map(Rc::new)
        .collect()
}

fn shm(size: u32) -> Vec<Rc<Shm>> {
    shm_ends(size, &ShmTunables::default())
        .into_iter()
        .map(Rc::new)
        .collect()
}

fn unruly(size: u32, seed: u64, chances: Chances) -> Vec<Rc<Unruly<InProc>>> {
    inproc(size, seed, seed.is_multiple_of(2))
        .into_iter()
        .map(|fabric| Rc::new(Unruly::new(fabric, seed, chances)))
        .collect()
}

#[test]
fn messages_of_all_lengths_arrive_in_order() {
    for seed in 0..4 {
        everybody_to_everybody(inproc(3, seed, true), &QUICK, Way::AtOnce, 16, mixed);
        everybody_to_everybody(inproc(3, seed, false), &QUICK, Way::AtOnce, 16, mixed);
    }
}

#[test]
fn on_shared_memory_too() {
    let processes = everybody_to_everybody(shm(3), &QUICK, Way::AtOnce, 30, long);
    for process in &processes {
        let figures = process.net.figures();
        assert_eq!((figures.faults, figures.mismatches, figures.failed), (0, 0, 0));
    }
}

#[test]
fn whatever_is_done_with_them() {
    for way in [
        Way::Later(1),
        Way::Later(40),
        Way::Reluctant,
        Way::Half,
        Way::Discard,
    ] {
        everybody_to_everybody(inproc(3, 7, true), &QUICK, way, 16, mixed);
        everybody_to_everybody(inproc(2, 8, false), &QUICK, way, 16, mixed);
        everybody_to_everybody(shm(3), &QUICK, way, 12, long);
    }
}

/// Requirement: pools of one and two entries, with more senders than entries; nothing is lost and nobody panics.
#[test]
fn pools_of_one_and_two_entries() {
    for entries in [1, 2] {
        for (sources, tx_pendings, rx_pendings) in [
            (entries, entries, entries),
            (8, entries, 16),
            (8, 16, entries),
            (entries, 16, 16),
        ] {
            let config = NetTunables {
                sources,
                tx_pendings,
                rx_pendings,
                ..QUICK
            };
            for way in [Way::AtOnce, Way::Later(3)] {
                everybody_to_everybody(shm(3), &config, way, 16, mixed);
                everybody_to_everybody(inproc(3, 3, true), &config, way, 8, mixed);
                everybody_to_everybody(inproc(3, 4, false), &config, way, 8, mixed);
            }
        }
    }
}

#[test]
fn losses_repetitions_delays_and_damage_are_made_good() {
    let each = [
        Chances {
            lost: 10,
            ..Chances::default()
        },
        Chances {
            repeated: 4,
            ..Chances::default()
        },
        Chances {
            held_back: 4,
            ..Chances::default()
        },
        Chances {
            damaged: 10,
            ..Chances::default()
        },
        Chances {
            lost: 12,
            repeated: 8,
            held_back: 6,
            damaged: 12,
        },
    ];
    for (i, chances) in each.into_iter().enumerate() {
        for seed in 0..4 {
            let fabrics = unruly(2, 10 * i as u64 + seed, chances);
            let processes = everybody_to_everybody(fabrics, &QUICK, Way::AtOnce, 16, mixed);
            let damaged: u64 = processes.iter().map(|p| p.net.figures().mismatches).sum();
            assert_eq!(damaged > 0, chances.damaged > 0, "{chances:?}");
        }
    }
}

/// All of it at once, with one structure of each kind.
#[test]
fn an_unruly_network_with_pools_of_one_and_two_entries() {
    let chances = Chances {
        lost: 16,
        repeated: 8,
        held_back: 8,
        damaged: 16,
    };
    for entries in [1, 2] {
        let config = NetTunables {
            sources: entries,
            tx_pendings: entries,
            rx_pendings: entries,
            window: 4,
            ..QUICK
        };
        for seed in 0..1 {
            everybody_to_everybody(unruly(3, 100 + seed, chances), &config, Way::AtOnce, 8, mixed);
            everybody_to_everybody(unruly(3, 200 + seed, chances), &config, Way::Later(3), 8, mixed);
        }
    }
}

/// On memory that both sides map, no message costs an acknowledgement of its own.
#[test]
fn acknowledgements_travel_with_messages() {
    let fabrics = shm(2);
    let mut ends: Vec<_> = fabrics
        .into_iter()
        .map(|fabric| support::Process::new(fabric, &NetTunables::default(), Way::AtOnce))
        .collect();
    for round in 0..1000u32 {
        for me in 0..2 {
            let header = support::header(me, 1 - me, Channel::Request, round);
            assert!(ends[me as usize].send(1 - me, Channel::Request, &header, &[1; 8]));
            let wanted = round as usize + 1;
            for _ in 0..100 {
                ends[1 - me as usize].turn();
                ends[me as usize].turn();
                if ends[1 - me as usize].upper.came.len() == wanted {
                    break;
                }
            }
            assert_eq!(ends[1 - me as usize].upper.came.len(), wanted);
        }
    }
    for end in &ends {
        let figures = end.net.figures();
        assert!(figures.acks < 20, "{figures:?}");
        assert_eq!((figures.resent, figures.faults), (1, 0), "{figures:?}");
    }
}
