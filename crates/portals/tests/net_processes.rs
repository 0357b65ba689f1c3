//! The network layer between processes, on shared memory and beyond a wire: a soak with one slow receiver, and processes that are killed.
//! Not for the standard test harness, whose threads would not survive the forks.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes and threads of a test wait by the host's clock"
)]

mod common;
mod support;

use common::pattern;
use farpost_fabric::conformance::{End, Harness, child, kill, reap};
use farpost_fabric::{ErrorStatus, Fabric, Peer};
use farpost_mapped::sealed_memory;
use farpost_net::conformance::SharedBook;
use farpost_ofi::conformance::OfiThreads;
use farpost_portals::net::{Channel, NetTunables, Outcome};
use farpost_shm::conformance::{ShmProcesses, shm_end};
use farpost_shm::{Shm, ShmTunables, region_bytes};
use farpost_tcp::conformance::TcpThreads;
use std::rc::Rc;
use std::time::{Duration, Instant};
use support::{Process, Taking, header, number_of};

const FEW: NetTunables = NetTunables {
    sources: 2,
    tx_pendings: 4,
    rx_pendings: 3,
    window: 64,
    staged: 8192,
    staging: 4,
    chunk: 64 << 10,
    shared: 64 << 10,
    resend: 100,
    transmit: 0,
    check: 1,
};

fn length(number: u32) -> usize {
    match number % 50 {
        49 => 70_000,
        n if n % 7 == 0 => 3000,
        n => n as usize * 4,
    }
}

fn seed(from: u32, number: u32) -> u64 {
    u64::from(from) << 32 | u64::from(number)
}

/// Turns until `done`, giving others the core.
async fn until(
    end: &End<Shm>,
    process: &mut Process<Shm>,
    what: &str,
    mut done: impl FnMut(&Process<Shm>) -> bool,
) {
    end.until(what, || {
        for _ in 0..50 {
            process.turn();
        }
        done(process)
    })
    .await;
}

/// Senders that flood one receiver which looks up seldom and decides late, with fewer structures than senders.
fn one_slow_receiver(staged: u64, cma: bool) {
    const SENDERS: u32 = 4;
    const EACH: u32 = 100;
    let processes = ShmProcesses {
        tunables: ShmTunables {
            cma: u64::from(cma),
            ..ShmTunables::default()
        },
        ..ShmProcesses::default()
    };
    let config = NetTunables { staged, ..FEW };
    processes.run(SENDERS + 1, async |end| {
        let me = end.me();
        let way = if me == SENDERS {
            Taking::Later(2)
        } else {
            Taking::AtOnce
        };
        let mut process = Process::new(Rc::clone(&end.fabric), &config, way);
        end.barrier().await;
        if me < SENDERS {
            for number in 0..EACH {
                let body = pattern(seed(me, number), length(number));
                let header = header(me, SENDERS, Channel::Request, number);
                until(end, &mut process, "room", |_| true).await;
                while !process.send(SENDERS, Channel::Request, &header, &body) {
                    until(end, &mut process, "room", |_| true).await;
                }
            }
            until(end, &mut process, "the receiver", Process::settled).await;
        } else {
            let mut turns = 0;
            end.until("everything", || {
                turns += 1;
                if turns % 50 == 0 {
                    std::thread::sleep(Duration::from_micros(200));
                }
                process.turn();
                process.upper.came.len() == (SENDERS * EACH) as usize && process.settled()
            })
            .await;
            for from in 0..SENDERS {
                let mut expected = 0;
                for came in process.upper.came.iter().filter(|came| came.from == Peer(from)) {
                    assert_eq!(number_of(&came.header), expected, "the order of {from}");
                    assert!(
                        came.body == pattern(seed(from, expected), length(expected)),
                        "{expected} of {from}"
                    );
                    expected += 1;
                }
                assert_eq!(expected, EACH);
            }
            assert!(process.net.figures().exhausted > 0, "the pools were large enough");
        }
        end.post(me as usize, 1);
        until(end, &mut process, "the others", |_| {
            (0..=SENDERS as usize).all(|i| end.posted(i) == 1)
        })
        .await;
        let figures = process.net.figures();
        assert_eq!(
            (figures.faults, figures.failed, figures.mismatches),
            (0, 0, 0),
            "{figures:?}"
        );
        assert_eq!(end.fabric.take_faults(), (vec![], 0));
    });
}

/// A process is killed while others send to it, receive from it and wait for a decision about what it sent: everything
/// ends, with that outcome.
fn a_process_is_killed() {
    let file = sealed_memory(c"farpost-test", region_bytes(2)).expect("a region");
    let attach = |index| {
        let tunables = ShmTunables {
            // So that bodies of several packets are on their way for long.
            cma: 0,
            ..ShmTunables::default()
        };
        Rc::new(shm_end(&file, (index, 2), 1, tunables))
    };
    let other = child(|| {
        // Decides about nothing, so that what is sent to it waits.
        let mut process = Process::new(attach(1), &FEW, Taking::Later(u32::MAX));
        let body = pattern(1, 20_000);
        for number in 0..2 {
            while !process.send(
                0,
                Channel::Request,
                &header(1, 0, Channel::Request, number),
                &body,
            ) {
                process.turn();
            }
        }
        loop {
            process.turn();
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    let mut process = Process::new(attach(0), &FEW, Taking::Later(u32::MAX));
    let body = pattern(2, 200_000);
    let start = Instant::now();
    let patient = |what: &str| {
        std::thread::sleep(Duration::from_micros(100));
        if start.elapsed() > Duration::from_secs(40) {
            kill(other);
            panic!("waited too long for {what}");
        }
    };
    while !process.send(1, Channel::Request, &header(0, 1, Channel::Request, 0), &body) {
        process.turn();
        patient("a pending");
    }
    while process.upper.came.is_empty() {
        process.turn();
        patient("a message");
    }
    kill(other);
    reap(other);
    while process.upper.sent.is_empty() {
        process.turn();
        patient("the end of what was sent");
    }
    assert_eq!(process.upper.sent[&0], Outcome::PeerEnded);
    // What waits for a decision ends when it is decided about; nothing comes after it.
    process.decide();
    while !process.settled() {
        process.turn();
        patient("the end of what came");
    }
    assert_eq!(process.upper.came.len(), 1);
    assert_eq!(process.upper.came[0].outcome, Some(Outcome::PeerEnded));
    // And what is sent now ends at once.
    assert!(process.send(1, Channel::Answer, &header(0, 1, Channel::Answer, 0), &body));
    while !process.settled() {
        process.turn();
        patient("what was sent to nobody");
    }
    assert_eq!(process.upper.sent[&1], Outcome::PeerEnded);
    assert_eq!(process.net.available(Channel::Request), FEW.tx_pendings as usize);
}

/// A process is killed while another one fetches from it, and while what it was sent waits for its decision, over a network:
/// both end with that outcome.
fn a_process_is_killed_beyond_a_wire<F: Fabric>(make: impl Fn(u32, &SharedBook) -> F) {
    const LENGTH: usize = 32 << 20;
    let cards = tempfile::tempdir().expect("a directory");
    let book = SharedBook::default();
    let other = child(|| {
        let mut process = Process::new(Rc::new(make(1, &book)), &FEW, Taking::Later(u32::MAX));
        book.meet(cards.path(), Peer(1), 2);
        let body = pattern(1, LENGTH);
        assert!(process.send(0, Channel::Request, &header(1, 0, Channel::Request, 0), &body));
        loop {
            process.turn();
        }
    });
    let mut process = Process::new(Rc::new(make(0, &book)), &FEW, Taking::Later(u32::MAX));
    book.meet(cards.path(), Peer(0), 2);
    let start = Instant::now();
    let patient = |what: &str| {
        if start.elapsed() > Duration::from_secs(60) {
            kill(other);
            panic!("waited too long for {what}");
        }
    };
    let body = pattern(2, LENGTH);
    assert!(process.send(1, Channel::Request, &header(0, 1, Channel::Request, 0), &body));
    while process.upper.came.is_empty() {
        process.turn();
        patient("a message");
    }
    process.decide();
    for _ in 0..3 {
        process.turn();
    }
    assert_eq!(
        process.upper.came[0].outcome, None,
        "long enough to be on its way"
    );
    kill(other);
    reap(other);
    while !process.settled() {
        process.turn();
        patient("the end of both");
    }
    assert_eq!(process.upper.sent[&0], Outcome::PeerEnded);
    assert_eq!(process.upper.came[0].outcome, Some(Outcome::PeerEnded));
    assert_eq!(process.net.available(Channel::Request), FEW.tx_pendings as usize);
}

fn main() {
    a_process_is_killed_beyond_a_wire(|me, book| TcpThreads::default().endpoint((me, 2), book));
    let libfabric = OfiThreads::over_loopback("tcp", None);
    // Asked in a child: this process forks, and the library may have threads.
    let asked = child(|| {
        let there = libfabric.endpoint((0, 1), &SharedBook::default());
        std::process::exit(there.is_err().into());
    });
    if reap(asked) == 0 {
        a_process_is_killed_beyond_a_wire(|me, book| {
            libfabric.endpoint((me, 2), book).expect("it was there")
        });
    } else {
        farpost_testing::skipped("nothing was tested over libfabric: install libfabric1");
    }
    one_slow_receiver(8192, true);
    one_slow_receiver(0, true);
    one_slow_receiver(0, false);
    a_process_is_killed();
    println!("processes: all done");
}
