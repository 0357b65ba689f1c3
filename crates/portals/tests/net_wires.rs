//! The network layer over networks: TCP, and libfabric's provider on it, by loopback. Every message carries a CRC there; damage
//! to packets and to what is fetched is counted and made good, and the end of a peer ends what was under way in bounded time.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes and threads of a test wait by the host's clock"
)]

mod common;
mod support;

use common::{Memory, SMALL, interface, pattern};
use farpost_fabric::{Fabric, Peer};
use farpost_net::conformance::SharedBook;
use farpost_ofi::Ofi;
use farpost_ofi::conformance::OfiThreads;
use farpost_portals::net::{Channel, NetTunables, Outcome};
use farpost_portals::{
    AckReq, EventKind, Handle, Interface, NetworkInterface, NiFail, Position, ProcessId, Processes, Target,
    Unlink, option,
};
use farpost_tcp::Tcp;
use farpost_tcp::conformance::TcpThreads;
use std::rc::Rc;
use std::time::{Duration, Instant};
use support::unruly::{Chances, Unruly};
use support::{Process, Taking, everybody_to_everybody, header, in_pieces};

const WIRE: NetTunables = NetTunables {
    window: 16,
    resend: 20,
    ..SMALL
};
/// Everything that waits for the end of a peer has heard by then.
const PATIENCE: Duration = Duration::from_secs(60);

fn tcp(size: u32) -> Vec<Tcp> {
    let (harness, book) = (TcpThreads::default(), SharedBook::default());
    (0..size).map(|me| harness.endpoint((me, size), &book)).collect()
}

/// None, with a sentence, where there is no libfabric. It is not to be closed while transfers are under way: processes that end
/// in the middle of something are tested as processes, in `net_processes`.
fn libfabric(size: u32) -> Option<Vec<Ofi>> {
    let (harness, book) = (OfiThreads::over_loopback("tcp", None), SharedBook::default());
    let ends: Result<Vec<Ofi>, _> = (0..size).map(|me| harness.endpoint((me, size), &book)).collect();
    ends.inspect_err(|error| farpost_testing::skipped(&format!("libfabric's tcp: {error}")))
        .ok()
}

/// In a packet, in some, and fetched.
fn mixed(number: u32) -> usize {
    [8, 0, 300, 100, 20_000, 3000, 70_000, 1][number as usize % 8]
}

fn messages<F: Fabric>(make: impl Fn() -> Vec<F>) {
    for way in [Taking::AtOnce, Taking::Half, Taking::Later(5)] {
        let fabrics = make().into_iter().map(Rc::new).collect();
        for process in everybody_to_everybody(fabrics, &WIRE, way, 16, mixed) {
            let figures = process.net.figures();
            let bad = (figures.mismatches, figures.faults, figures.failed);
            assert_eq!(bad, (0, 0, 0), "{figures:?}");
        }
    }
    let fabrics = make().into_iter().map(Rc::new).collect();
    in_pieces(fabrics, &WIRE, (Taking::AtOnce, 700), 8, mixed);
}

fn damaged<F: Fabric>(make: impl Fn() -> Vec<F>) {
    let packets = Chances {
        lost: 40,
        repeated: 20,
        damaged: 15,
        ..Chances::default()
    };
    let bodies = Chances {
        fetched_wrong: 15,
        ..Chances::default()
    };
    for (chances, way) in [
        (packets, Taking::AtOnce),
        (bodies, Taking::AtOnce),
        (bodies, Taking::Half),
        (bodies, Taking::Later(5)),
    ] {
        let fabrics: Vec<_> = make()
            .into_iter()
            .map(|fabric| Rc::new(Unruly::new(fabric.into(), 3, chances)))
            .collect();
        let processes = everybody_to_everybody(fabrics.clone(), &WIRE, way, 80, mixed);
        let found: u64 = processes.iter().map(|p| p.net.figures().mismatches).sum();
        let resent: u64 = processes.iter().map(|p| p.net.figures().resent).sum();
        let wrong: u64 = fabrics.iter().map(|fabric| fabric.wrong.get()).sum();
        assert!(found > 0, "{wrong} fetched wrong");
        // What is not kept comes in several transfers, and one check is about them all.
        if wrong > 0 && way != Taking::Half {
            assert_eq!(found, wrong);
        }
        assert!(resent > 0 || chances.damaged == 0, "nothing was sent again");
    }
}

/// Turns until `done`, for as long as is bearable.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "waited too long for {what}");
    }
}

/// A peer ends while it fetches a body, and one that was fetched from; and one that has not decided yet.
fn peers_end<F: Fabric>(make: impl Fn() -> Vec<F>) {
    for way in [Taking::AtOnce, Taking::Later(u32::MAX)] {
        let mut ends: Vec<_> = make()
            .into_iter()
            .map(|fabric| Process::new(Rc::new(fabric), &WIRE, way))
            .collect();
        let body = pattern(1, 4 << 20);
        for (from, to) in [(0, 1), (1, 0)] {
            let header = header(from, to, Channel::Request, 0);
            assert!(ends[from as usize].send(to, Channel::Request, &header, &body));
        }
        until("the messages", || {
            ends.iter_mut().for_each(|end| _ = end.turn());
            ends.iter().all(|end| end.upper.came.len() == 1)
        });
        for end in &ends {
            assert_eq!(end.upper.came[0].outcome, None, "long enough to be on its way");
        }
        drop(ends.pop());
        let mut left = ends.pop().expect("two");
        left.decide();
        until("the end", || {
            left.turn();
            left.settled()
        });
        assert_eq!(left.upper.sent[&0], Outcome::PeerEnded);
        assert_eq!(left.upper.came[0].outcome, Some(Outcome::PeerEnded));
        assert!(left.send(1, Channel::Answer, &header(0, 1, Channel::Answer, 0), &body));
        until("what was sent to nobody", || {
            left.turn();
            left.settled()
        });
        assert_eq!(left.upper.sent[&1], Outcome::PeerEnded);
        assert_eq!(left.net.available(Channel::Request), WIRE.tx_pendings as usize);
    }
}

fn bind<F: Fabric>(end: &Interface<F>, memory: &Memory, eq: Handle) -> Handle {
    // SAFETY: the memory outlives the interface's use of it.
    unsafe { end.md_bind(memory.md(0, eq), None, Unlink::Retain) }.expect("a descriptor")
}

/// The initiator of a put and of a get hears that the target has ended, though it did in mid-message.
fn initiators_hear_of_it<F: Fabric>(make: impl Fn() -> Vec<F>) {
    let processes = Rc::new(Processes::on_one_host(2, 1000, 1));
    let mut ends: Vec<Interface<F>> = make()
        .into_iter()
        .map(|fabric| interface(Rc::new(fabric), &WIRE, &processes))
        .collect();
    let (here, there) = (Memory::zeros(4 << 20), Memory::zeros(4 << 20));
    let target = Target {
        id: ProcessId::new(0, 1),
        pt_index: 3,
        ac_index: 0,
        match_bits: 7,
        offset: 0,
    };
    let begun = ends[1].eq_alloc(16, None).expect("a queue");
    let me = ends[1]
        .me_attach(3, ProcessId::ANY, (7, 0), Unlink::Retain, Position::After)
        .expect("an entry");
    let options = option::OP_PUT | option::OP_GET | option::MANAGE_REMOTE;
    // SAFETY: the memory outlives the interface's use of it.
    unsafe { ends[1].md_attach(me, there.md(options, begun), None, Unlink::Retain) }.expect("a descriptor");
    let eq = ends[0].eq_alloc(16, None).expect("a queue");
    let md = bind(&ends[0], &here, eq);
    ends[0].put(md, AckReq::Ack, &target, 0).expect("started");
    until("the put to begin", || {
        ends[0].progress();
        ends[1].progress();
        ends[1].eq_get(begun).is_ok()
    });
    ends[0].get(md, &target).expect("started");
    drop(ends.pop());
    let mut told = vec![];
    until("the ends of both", || {
        ends[0].progress();
        if let Ok(taken) = ends[0].eq_get(eq) {
            told.push(taken.event);
        }
        let ended = |kind| told.iter().any(|event| event.kind == kind);
        ended(EventKind::SendEnd) && ended(EventKind::ReplyEnd)
    });
    for event in told {
        let end = matches!(event.kind, EventKind::SendEnd | EventKind::ReplyEnd);
        assert!(!end || event.ni_fail_type == NiFail::UNDELIVERABLE, "{event:?}");
    }
    assert_eq!(ends[0].fabric().me(), Peer(0));
}

#[test]
fn messages_over_tcp() {
    messages(|| tcp(3));
}

#[test]
fn damage_over_tcp() {
    damaged(|| tcp(2));
}

#[test]
fn peers_that_end_over_tcp() {
    peers_end(|| tcp(2));
}

#[test]
fn initiators_hear_of_it_over_tcp() {
    initiators_hear_of_it(|| tcp(2));
}

#[test]
fn over_libfabric() {
    if libfabric(1).is_none() {
        return;
    }
    let make = |size| libfabric(size).expect("it was there");
    messages(|| make(3));
    damaged(|| make(2));
}
