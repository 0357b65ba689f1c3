//! Whose message leaves next: fair, nobody is held up by a process that takes nothing; with one FIFO for all, everybody is.

mod common;
mod support;

use common::{SMALL, pattern};
use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{Fabric, Peer};
use farpost_portals::net::{Channel, NetTunables, Outcome, TransmitPolicy};
use farpost_shm::{Shm, ShmTunables};
use std::rc::Rc;
use support::unruly::{Chances, Unruly};
use support::{Process, Taking, everybody_to_everybody, header, in_haste, in_pieces, number_of};

const FAIR: NetTunables = NetTunables {
    tx_pendings: 64,
    transmit: TransmitPolicy::Fair as u64,
    ..SMALL
};
const FIFO: NetTunables = NetTunables {
    transmit: TransmitPolicy::OneFifo as u64,
    ..FAIR
};
/// More messages than there is room for on the way to a process.
const MANY: u32 = 24;

fn inproc(size: u32, bulk: bool) -> Vec<Rc<InProc>> {
    let config = Config {
        bulk,
        ..Config::default()
    };
    Network::new(size, 5, config).into_iter().map(Rc::new).collect()
}

fn shm(size: u32) -> Vec<Rc<Shm>> {
    common::shm(size, &ShmTunables::default())
}

fn processes<F: Fabric>(fabrics: Vec<Rc<F>>, config: &NetTunables, way: Taking) -> Vec<Process<F>> {
    let each = fabrics.into_iter();
    each.map(|fabric| Process::new(fabric, config, way)).collect()
}

/// So many turns of these processes.
fn turns<F: Fabric>(processes: &mut [Process<F>], who: &[usize], turns: u32) {
    for _ in 0..turns {
        for &one in who {
            processes[one].turn();
        }
    }
}

fn send<F: Fabric>(from: &mut Process<F>, to: u32, channel: Channel, number: u32, length: usize) {
    let body = pattern(u64::from(number), length);
    let header = header(0, to, channel, number);
    assert!(
        from.send(to, channel, &header, &body),
        "no room for message {number}"
    );
}

fn numbers<F: Fabric>(process: &Process<F>) -> Vec<u32> {
    process
        .upper
        .came
        .iter()
        .map(|came| number_of(&came.header))
        .collect()
}

/// Process 1 takes nothing of what it is sent, for long, and what is for process 2 stands behind that. How many of it arrive meanwhile?
fn arrive_behind<F: Fabric>(fabrics: Vec<Rc<F>>, config: &NetTunables, met: bool, hasty: bool) -> usize {
    let mut all = processes(fabrics, config, Taking::AtOnce);
    all[0].hasty = hasty;
    let mut before = vec![];
    if met {
        for to in [1, 2] {
            send(&mut all[0], to, Channel::Request, 1000, 100);
        }
        turns(&mut all, &[0, 1, 2], 300);
        before = vec![1000];
        assert_eq!(
            (numbers(&all[1]), numbers(&all[2])),
            (before.clone(), before.clone())
        );
    }
    for number in 0..MANY {
        send(&mut all[0], 1, Channel::Request, number, 100);
    }
    for number in 0..3 {
        send(&mut all[0], 2, Channel::Request, number, 8);
        turns(&mut all, &[0, 2], 500);
    }
    let arrived = all[2].upper.came.len() - before.len();
    // An answer stands behind no request.
    send(&mut all[0], 2, Channel::Answer, 77, 8);
    turns(&mut all, &[0, 2], 500);
    assert!(numbers(&all[2]).contains(&77), "{config:?}");
    turns(&mut all, &[0, 1, 2], 3000);
    let all_of = |count: u32| before.iter().copied().chain(0..count).collect::<Vec<_>>();
    assert_eq!(numbers(&all[1]), all_of(MANY));
    let mut requests = numbers(&all[2]);
    requests.retain(|number| *number != 77);
    assert_eq!(requests, all_of(3));
    assert!(all.iter().all(Process::settled) && all[0].net.is_idle());
    arrived
}

#[test]
fn a_process_that_takes_nothing_holds_up_others_in_one_fifo_and_nobody_else_when_fair() {
    for met in [false, true] {
        for hasty in [false, true] {
            let arrived = |config: &NetTunables| {
                [
                    arrive_behind(inproc(3, true), config, met, hasty),
                    arrive_behind(inproc(3, false), config, met, hasty),
                    arrive_behind(shm(3), config, met, hasty),
                ]
            };
            assert_eq!(arrived(&FAIR), [3; 3], "met: {met}, hasty: {hasty}");
            assert_eq!(arrived(&FIFO), [0; 3], "met: {met}, hasty: {hasty}");
        }
    }
}

/// A body that is fetched leaves when it has been fetched: process 1 puts its decision off, and a message for process 2 stands behind it.
#[test]
fn a_body_that_nobody_fetches_holds_up_others_in_one_fifo() {
    for (config, arrived) in [(&FAIR, 1), (&FIFO, 0)] {
        let mut all = processes(shm(3), config, Taking::AtOnce);
        all[1].upper.way = Taking::Later(u32::MAX);
        send(&mut all[0], 1, Channel::Request, 0, 100_000);
        send(&mut all[0], 2, Channel::Request, 1, 8);
        turns(&mut all, &[0, 1, 2], 500);
        assert_eq!(all[1].upper.came.len(), 1, "its header is there");
        assert_eq!(all[2].upper.came.len(), arrived);
        all[1].decide();
        turns(&mut all, &[0, 1, 2], 500);
        assert_eq!(all[1].upper.came[0].outcome, Some(Outcome::Done));
        assert_eq!(numbers(&all[2]), [1]);
        assert!(all.iter().all(Process::settled));
    }
}

/// Of a body in many packets all have left before the next message does, in one FIFO; when fair they take turns.
#[test]
fn a_long_message_leaves_whole_in_one_fifo_and_in_turns_when_fair() {
    for (config, whole) in [(&FAIR, false), (&FIFO, true)] {
        let mut all = processes(inproc(3, false), config, Taking::AtOnce);
        for to in [1, 2] {
            send(&mut all[0], to, Channel::Request, 1000, 8);
        }
        turns(&mut all, &[0, 1, 2], 100);
        send(&mut all[0], 1, Channel::Request, 0, 9000);
        send(&mut all[0], 2, Channel::Request, 1, 8);
        for _ in 0..3000 {
            turns(&mut all, &[2, 1, 0], 1);
            if all[2].upper.came.len() == 2 {
                break;
            }
        }
        assert_eq!(numbers(&all[2]), [1000, 1]);
        // What is on the way arrives without its sender.
        turns(&mut all, &[1], 100);
        let done = all[1].upper.came[1].outcome == Some(Outcome::Done);
        assert_eq!(done, whole, "{config:?}");
        turns(&mut all, &[0, 1, 2], 500);
        assert!(all.iter().all(Process::settled));
    }
}

/// Several long messages take turns when fair, whoever was first.
#[test]
fn fair_turns_go_round_where_all_share_a_fabrics_room() {
    let shared = Chances {
        at_a_time: 4,
        ..Chances::default()
    };
    for (config, together) in [(&FAIR, true), (&FIFO, false)] {
        let fabrics = inproc(4, false).into_iter();
        let fabrics = fabrics
            .map(|fabric| Rc::new(Unruly::new(fabric, 1, shared)))
            .collect();
        let mut all = processes(fabrics, config, Taking::AtOnce);
        for to in 1..4 {
            send(&mut all[0], to, Channel::Request, 1000, 8);
        }
        turns(&mut all, &[0, 1, 2, 3], 300);
        for to in 1..4 {
            send(&mut all[0], to, Channel::Request, 0, 30_000);
        }
        let mut ends = [None; 4];
        for turn in 0..20_000 {
            turns(&mut all, &[0, 1, 2, 3], 1);
            for to in 1..4 {
                let came = all[to].upper.came.get(1);
                if ends[to].is_none() && came.is_some_and(|came| came.outcome.is_some()) {
                    ends[to] = Some(turn);
                }
            }
        }
        let [first, second, third] = [1, 2, 3].map(|to| ends[to].expect("it arrived"));
        assert!(first <= second && second <= third, "{ends:?}");
        assert_eq!(third < first + first / 2, together, "{ends:?}");
    }
}

/// What is at the head of the FIFO for a process that has ended goes away, and what stands behind it leaves.
#[test]
fn a_process_that_has_ended_holds_up_nobody() {
    for length in [100, 3000] {
        let fabrics = inproc(3, true);
        let first = Rc::clone(&fabrics[0]);
        let mut all = processes(fabrics, &FIFO, Taking::AtOnce);
        for number in 0..MANY {
            send(&mut all[0], 1, Channel::Request, number, length);
        }
        send(&mut all[0], 2, Channel::Request, 0, 8);
        turns(&mut all, &[0, 2], 500);
        assert_eq!(all[2].upper.came.len(), 0);
        first.network().kill(Peer(1));
        turns(&mut all, &[0, 2], 3000);
        assert_eq!(numbers(&all[2]), [0]);
        assert!(all[0].net.is_idle() && all[0].settled());
    }
}

/// In one FIFO everything arrives too, whatever a network does and however small the pools are.
#[test]
fn everything_arrives_in_one_fifo() {
    let mixed = |number: u32| [0, 8, 100, 130, 500, 3000, 9000, 1][number as usize % 8];
    let long = |number: u32| [mixed(number), 100_000, 32 << 10][(number % 5 % 3) as usize];
    for way in [
        Taking::AtOnce,
        Taking::Later(3),
        Taking::Reluctant,
        Taking::Half,
        Taking::Discard,
    ] {
        everybody_to_everybody(inproc(3, true), &FIFO, way, 16, mixed);
        everybody_to_everybody(inproc(3, false), &FIFO, way, 16, mixed);
        everybody_to_everybody(shm(3), &FIFO, way, 16, long);
        in_haste(shm(3), &NetTunables { check: 0, ..FIFO }, way, 16, long);
        in_pieces(shm(3), &FIFO, (way, 700), 8, long);
    }
    for entries in [1, 2] {
        let few = NetTunables {
            sources: entries,
            tx_pendings: entries,
            rx_pendings: entries,
            window: 4,
            ..FIFO
        };
        everybody_to_everybody(shm(3), &few, Taking::Later(3), 12, mixed);
        everybody_to_everybody(inproc(4, true), &few, Taking::AtOnce, 8, mixed);
    }
    let chances = Chances {
        lost: 12,
        repeated: 8,
        held_back: 6,
        damaged: 20,
        ..Chances::default()
    };
    let checked = NetTunables { check: 2, ..FIFO };
    for seed in 0..3 {
        let fabrics = inproc(3, seed != 1).into_iter();
        let fabrics = fabrics.map(|fabric| Rc::new(Unruly::new(fabric, 70 + seed, chances)));
        everybody_to_everybody(fabrics.collect(), &checked, Taking::Later(2), 10, mixed);
    }
}
