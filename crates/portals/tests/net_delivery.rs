//! The network layer on fabrics of one thread: order, pools of every size, and whatever a network does to packets.

mod common;
mod support;

use common::SMALL;
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_portals::net::{Channel, NetTunables};
use farpost_shm::{Shm, ShmTunables};
use std::rc::Rc;
use support::unruly::{Chances, Unruly};
use support::{Process, Taking, everybody_to_everybody, header, in_haste, in_pieces, stuck, with_pauses};

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
    common::shm(size, &ShmTunables::default())
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
        everybody_to_everybody(inproc(3, seed, true), &SMALL, Taking::AtOnce, 16, mixed);
        everybody_to_everybody(inproc(3, seed, false), &SMALL, Taking::AtOnce, 16, mixed);
    }
}

#[test]
fn on_shared_memory_too() {
    let processes = everybody_to_everybody(shm(3), &SMALL, Taking::AtOnce, 30, long);
    for process in &processes {
        let figures = process.net.figures();
        assert_eq!((figures.faults, figures.mismatches, figures.failed), (0, 0, 0));
    }
}

/// What leaves at once keeps its place among messages that do not, whatever becomes of it.
#[test]
fn messages_that_leave_at_once() {
    let unchecked = NetTunables { check: 0, ..SMALL };
    for way in [
        Taking::AtOnce,
        Taking::Later(3),
        Taking::Reluctant,
        Taking::Half,
        Taking::Discard,
    ] {
        let short = |number: u32| [0, 8, 100, 128, 1, 12][number as usize % 6];
        for processes in [
            in_haste(shm(3), &unchecked, way, 40, mixed),
            in_haste(shm(3), &unchecked, way, 40, short),
        ] {
            assert!(processes.iter().all(|p| p.hurried > 0), "{way:?}");
        }
        in_haste(inproc(3, 7, true), &unchecked, way, 16, mixed);
        in_haste(inproc(2, 8, false), &unchecked, way, 16, short);
    }
    // What is checked takes the ordinary way.
    let checked = NetTunables { check: 2, ..SMALL };
    let processes = in_haste(shm(2), &checked, Taking::AtOnce, 8, mixed);
    assert!(processes.iter().all(|p| p.hurried == 0));
}

/// With pools of one and two entries, and on a network that loses, repeats and reorders: what has left is sent again.
#[test]
fn messages_that_leave_at_once_are_kept_until_they_have_arrived() {
    let chances = Chances {
        lost: 12,
        repeated: 8,
        held_back: 6,
        ..Chances::default()
    };
    let mut hurried = 0;
    for entries in [1, 2, 16] {
        let config = NetTunables {
            sources: entries,
            tx_pendings: entries,
            rx_pendings: entries,
            window: 4,
            check: 0,
            ..SMALL
        };
        in_haste(shm(3), &config, Taking::AtOnce, 16, mixed);
        for seed in 0..2 {
            let processes = in_haste(
                unruly(2, 300 + seed, chances),
                &config,
                Taking::AtOnce,
                16,
                |number| [8, 0, 100, 3][number as usize % 4],
            );
            hurried += processes.iter().map(|p| p.hurried).sum::<u64>();
            in_haste(
                unruly(3, 400 + seed, chances),
                &config,
                Taking::Later(3),
                8,
                mixed,
            );
        }
    }
    assert!(hurried > 0);
}

#[test]
fn whatever_is_done_with_them() {
    for way in [
        Taking::Later(1),
        Taking::Later(40),
        Taking::Reluctant,
        Taking::Half,
        Taking::Discard,
    ] {
        everybody_to_everybody(inproc(3, 7, true), &SMALL, way, 16, mixed);
        everybody_to_everybody(inproc(2, 8, false), &SMALL, way, 16, mixed);
        everybody_to_everybody(shm(3), &SMALL, way, 12, long);
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
                ..SMALL
            };
            for way in [Taking::AtOnce, Taking::Later(3)] {
                everybody_to_everybody(shm(3), &config, way, 16, mixed);
                everybody_to_everybody(inproc(3, 3, true), &config, way, 8, mixed);
                everybody_to_everybody(inproc(3, 4, false), &config, way, 8, mixed);
            }
        }
    }
}

/// Memory in pieces on both sides: of few bytes and of many, cut in places that have nothing to do with each other's or with pages.
#[test]
fn from_and_to_memory_in_pieces() {
    // Many enough for several system calls; and longer than a list of pieces may be, so that packets take over.
    for (cut, length) in [(1000, 9_000), (700, 150_000), (64, 40_000), (50_000, 120_000)] {
        for way in [Taking::AtOnce, Taking::Half, Taking::Later(3)] {
            let lengths = |number: u32| [length, 3000, length / 3, 8][number as usize % 4];
            let processes = in_pieces(shm(3), &SMALL, (way, cut), 8, lengths);
            for process in &processes {
                let figures = process.net.figures();
                assert_eq!((figures.faults, figures.failed), (0, 0), "{figures:?}");
            }
            in_pieces(inproc(2, 1, true), &SMALL, (way, cut), 4, |number| {
                lengths(number).min(9000)
            });
        }
    }
}

/// A check is about all bytes of a body, those that are not kept among them: damage anywhere is found, counted and made good.
#[test]
fn bodies_fetched_wrong_are_fetched_again() {
    let chances = |fetched_wrong| Chances {
        fetched_wrong,
        ..Chances::default()
    };
    let config = NetTunables {
        check: 2,
        staged: 256,
        ..SMALL
    };
    for (seed, way) in [(0, Taking::AtOnce), (1, Taking::Half), (2, Taking::Later(2))] {
        for (cut, chances) in [(0, chances(7)), (900, chances(50))] {
            let fabrics = shm(2).into_iter();
            let fabrics: Vec<_> = fabrics
                .map(|fabric| Rc::new(Unruly::new(fabric, seed, chances)))
                .collect();
            let processes = in_pieces(fabrics.clone(), &config, (way, cut), 60, mixed);
            let wrong: u64 = fabrics.iter().map(|fabric| fabric.wrong.get()).sum();
            let found: u64 = processes.iter().map(|p| p.net.figures().mismatches).sum();
            assert!(wrong > 0 && found > 0 && found <= wrong, "{found} of {wrong}");
        }
        let fabrics = inproc(2, seed, true).into_iter();
        let fabrics: Vec<_> = fabrics
            .map(|fabric| Rc::new(Unruly::new(fabric, seed, chances(7))))
            .collect();
        let processes = everybody_to_everybody(fabrics.clone(), &config, way, 24, mixed);
        let wrong: u64 = fabrics.iter().map(|fabric| fabric.wrong.get()).sum();
        let found: u64 = processes.iter().map(|p| p.net.figures().mismatches).sum();
        assert_eq!(found, wrong, "one piece, one check");
        assert!(wrong > 0);
    }
}

/// Two processes with one structure for targets each talk to others and come back to each other, with any number of others in
/// between: an acknowledgement that travels with a packet names no packet of the time after.
#[test]
fn a_structure_that_changed_hands_is_not_taken_for_what_it_was() {
    let few = NetTunables { sources: 1, ..SMALL };
    for gap in 0..40 {
        let fabrics = inproc(4, gap, true).into_iter().enumerate();
        let mut ends: Vec<_> = fabrics
            .map(|(me, fabric)| Process::new(fabric, if me < 2 { &few } else { &SMALL }, Taking::AtOnce))
            .collect();
        let mut wanted = [0; 4];
        let mut exchange = |pairs: [(u32, u32); 2]| {
            for (from, to) in pairs {
                wanted[to as usize] += 1;
                let header = header(from, to, Channel::Request, wanted[to as usize] as u32);
                let sent = |ends: &mut Vec<Process<_>>| {
                    ends[from as usize].send(to, Channel::Request, &header, &[7; 8])
                };
                let mut turns = 0..10_000;
                while !sent(&mut ends) {
                    assert!(turns.next().is_some(), "no room, gap {gap}");
                    ends.iter_mut().for_each(|end| _ = end.turn());
                }
            }
            let mut turns = 0..10_000;
            while ends
                .iter()
                .zip(wanted)
                .any(|(end, wanted)| end.upper.came.len() < wanted)
            {
                assert!(
                    turns.next().is_some(),
                    "nothing moves any more, gap {gap}: {}",
                    stuck(&ends, &[])
                );
                ends.iter_mut().for_each(|end| _ = end.turn());
            }
        };
        for _ in 0..2 {
            exchange([(0, 1), (1, 0)]);
            for number in 0..gap as u32 {
                exchange([(0, 2 + number % 2), (1, 2 + number % 2)]);
            }
        }
        exchange([(0, 1), (1, 0)]);
        for end in &ends {
            assert_eq!(end.net.figures().faults, 0, "gap {gap}: {:?}", end.net.figures());
            assert_eq!(
                end.upper.came.iter().filter(|came| came.body != [7; 8]).count(),
                0
            );
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
            ..Chances::default()
        },
    ];
    for (i, chances) in each.into_iter().enumerate() {
        for seed in 0..4 {
            let fabrics = unruly(2, 10 * i as u64 + seed, chances);
            let processes = everybody_to_everybody(fabrics, &SMALL, Taking::AtOnce, 16, mixed);
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
        ..Chances::default()
    };
    for entries in [1, 2] {
        let config = NetTunables {
            sources: entries,
            tx_pendings: entries,
            rx_pendings: entries,
            window: 4,
            ..SMALL
        };
        for seed in 0..1 {
            everybody_to_everybody(unruly(3, 100 + seed, chances), &config, Taking::AtOnce, 8, mixed);
            everybody_to_everybody(
                unruly(3, 200 + seed, chances),
                &config,
                Taking::Later(3),
                8,
                mixed,
            );
        }
    }
}

/// Packets of connections that ended long ago come again while their senders have others, of data and of control: each message arrives
/// once and in order all the same, and a connection is not ended by what is said about one before it.
#[test]
fn packets_of_former_connections_harm_none_of_those_after() {
    for seed in 0..12 {
        let chances = Chances {
            late: 6,
            ..Chances::default()
        };
        let config = NetTunables {
            sources: 1 + seed / 8,
            window: 4,
            ..SMALL
        };
        // Three take turns for one place.
        let processes =
            everybody_to_everybody(unruly(4, 300 + seed, chances), &config, Taking::AtOnce, 12, mixed);
        for process in &processes {
            let figures = process.net.figures();
            assert_eq!((figures.failed, figures.mismatches), (0, 0), "{figures:?}");
        }
    }
}

/// Processes that have no core for a while are taken for lost, and meanwhile others have their places: what they sent, and what was
/// accepted of it, is known all the same.
#[test]
fn pauses_while_places_change_hands_double_nothing() {
    for seed in 0..120 {
        let config = NetTunables {
            sources: 1 + seed % 3,
            window: 1 << (seed % 4),
            tx_pendings: 2 + seed % 5,
            ..SMALL
        };
        let processes = with_pauses(inproc(4, seed, true), &config, seed, 40, mixed);
        for process in &processes {
            let figures = process.net.figures();
            assert_eq!((figures.failed, figures.faults), (0, 0), "{figures:?}");
        }
    }
}

/// On memory that both sides map, no message costs an acknowledgement of its own.
#[test]
fn acknowledgements_travel_with_messages() {
    let fabrics = shm(2);
    let mut ends: Vec<_> = fabrics
        .into_iter()
        .map(|fabric| support::Process::new(fabric, &NetTunables::default(), Taking::AtOnce))
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
        assert_eq!(
            (figures.acks, figures.resent, figures.faults),
            (0, 0, 0),
            "{figures:?}"
        );
    }
}

/// The sender of short messages may compute for as long as it likes, from the first one on, and a long one behind them keeps its place.
#[test]
fn the_first_messages_arrive_without_their_senders_further_work() {
    for fabrics in [shm(2), shm(3)] {
        let mut ends: Vec<Process<Shm>> = fabrics
            .into_iter()
            .map(|fabric| Process::new(fabric, &SMALL, Taking::AtOnce))
            .collect();
        let [sender, receiver] = &mut ends[..2] else {
            unreachable!("two processes at least");
        };
        for number in 0..3 {
            let head = header(0, 1, Channel::Request, number);
            assert!(sender.send(1, Channel::Request, &head, &[number as u8; 8]));
        }
        for _ in 0..1000 {
            receiver.turn();
        }
        assert_eq!(receiver.upper.came.len(), 3, "nobody else did anything");
        for (number, bytes) in [(3, 3000), (4, 8)] {
            let head = header(0, 1, Channel::Request, number);
            assert!(sender.send(1, Channel::Request, &head, &vec![number as u8; bytes]));
        }
        let mut turns = 0;
        while receiver.upper.came.len() < 5 || !sender.net.is_idle() {
            receiver.turn();
            sender.turn();
            turns += 1;
            assert!(turns < 100_000, "what was sent never ends");
        }
        let came = receiver.upper.came.iter().enumerate();
        for (number, came) in came {
            assert_eq!(came.header, header(0, 1, Channel::Request, number as u32));
            assert!(came.body.iter().all(|byte| usize::from(*byte) == number));
        }
        assert_eq!(receiver.upper.came.len(), 5);
    }
}
