//! What must not happen: endpoints in one thread or few, over loopback, against peers and strangers that misbehave.

use super::{Listening, Tcp, TcpSettings};
use crate::conformance::TcpThreads;
use crate::trust::{Caller, Handshake, Progress, Secret};
use farpost_fabric::conformance::{End, Harness};
use farpost_fabric::{
    Access, BulkTransfer, Completion, Counter, Counters, Descriptor, Direction, ErrorStatus, Fabric,
    FabricError, LINE_BYTES, LocalMemory, PacketQueue, Peer, Permission, Port, Priority, RailFigures, Remote,
    RemoteMemory, SegmentId, Ticket, Topology, TrySend,
};
use farpost_net::conformance::SharedBook;
use farpost_net::interfaces::Card;
use farpost_net::{AddressBook, NetFabric};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const EVERYONE: Access = Access::Everyone(Permission::ReadWrite);

/// Nothing here takes so long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A job whose endpoints live in this thread.
struct Job {
    book: SharedBook,
    ends: Vec<Tcp>,
}

impl Job {
    fn new(harness: &TcpThreads, size: u32) -> Self {
        let book = SharedBook::default();
        let ends = (0..size)
            .map(|index| harness.endpoint((index, size), &book))
            .collect();
        Self { book, ends }
    }

    /// Let all of them turn until `done`.
    fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < PATIENCE, "waited too long for {what}");
            let mut any = false;
            for end in &self.ends {
                any |= end.progress();
            }
            if !any {
                std::thread::yield_now();
            }
        }
    }

    /// Import without waiting inside: who is asked turns in this same thread.
    fn import(&self, at: usize, of: u32, id: u32) -> <Tcp as RemoteMemory>::Import {
        let (end, of, id) = (&self.ends[at], Peer(of), SegmentId(id));
        // A packet makes the connection, which brings the news.
        assert_eq!(end.try_send(of, Port::Fm, Priority::Low, b"hello"), TrySend::Sent);
        self.until("a segment", || end.core.state.borrow().segments.knows(of, id));
        end.import(of, id, 1, Permission::ReadWrite).unwrap()
    }

    fn address(&self, of: u32) -> SocketAddr {
        let bytes = self.book.card(Peer(of)).unwrap();
        let card: Card = super::card::decode(&bytes).unwrap();
        SocketAddr::new(card.interfaces[0].addresses[0].ip, card.interfaces[0].port)
    }
}

fn with_bound(ms: u64) -> TcpThreads {
    let mut harness = TcpThreads::default();
    harness.settings.link.bound = ms;
    harness
}

impl Tcp {
    /// As if the network cut every connection to `peer`, or those of one rail.
    fn sever(&self, peer: Peer, rail: Option<usize>) {
        let state = self.core.state.borrow();
        let Some(remote) = state.peers.get(peer) else {
            return;
        };
        for (number, of) in remote.rails.iter().enumerate() {
            if of.fd >= 0 && rail.is_none_or(|rail| rail == number) {
                // SAFETY: no memory is involved.
                unsafe { libc::shutdown(of.fd, libc::SHUT_RDWR) };
            }
        }
    }

    /// End like a process that is killed.
    fn die(self) {
        self.core.state.borrow_mut().closing = true;
    }
}

/// A stranger who knows the secret: a connection to process `of` as process `me`, after the handshake.
fn proved(job: &Job, of: u32, me: u32) -> TcpStream {
    let mut socket = TcpStream::connect(job.address(of)).unwrap();
    let caller = Caller {
        job: [0; 16],
        me,
        peer: of,
        rail: 0,
        encrypt: false,
        note: 0,
    };
    let mut shake = Handshake::initiator(&Secret::new(&[7; 32]), caller);
    let mut came: Vec<u8> = Vec::new();
    socket.set_nonblocking(true).unwrap();
    let mut finished = false;
    job.until("the handshake", || {
        match shake.feed(&std::mem::take(&mut came)).1 {
            Progress::Send(flight) => socket.write_all(&flight).unwrap(),
            Progress::Done { send, .. } => {
                socket.write_all(&send).unwrap();
                finished = true;
            }
            Progress::NeedMore(len) => {
                let mut bytes = vec![0; len];
                if let Ok(len) = socket.read(&mut bytes) {
                    assert!(len > 0, "refused");
                    came = bytes[..len].to_vec();
                }
            }
            Progress::Refused { reason, .. } => panic!("{reason}"),
        }
        finished
    });
    socket
}

/// Pings that process `at` has sent.
fn pings(job: &Job, at: usize) -> u64 {
    let state = job.ends[at].core.state.borrow();
    let links = state.peers.iter();
    links.map(|remote| remote.link.counters().pings).sum()
}

#[test]
fn one_ping_is_enough_for_the_processes_of_a_host() {
    let mut harness = TcpThreads::default();
    harness.settings.link.bound = 200;
    harness.settings.link.idle = 50;
    harness.hosts = 2;
    let job = Job::new(&harness, 5);
    for of in 1..5 {
        assert_eq!(
            job.ends[0].try_send(Peer(of), Port::Fm, Priority::Low, b"hello"),
            TrySend::Sent
        );
    }
    job.until("connections", || {
        let state = job.ends[0].core.state.borrow();
        state.peers.iter().filter(|o| o.link.drained()).count() == 4
    });
    // The others compute: only their host answers.
    let (started, before) = (Instant::now(), pings(&job, 0));
    while pings(&job, 0) < before + 40 {
        assert!(started.elapsed() < PATIENCE, "no pings");
        job.ends[0].progress();
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = pings(&job, 0) - before;
    // Each for itself would send four in that time; at the beginning they do.
    let idle_times = started.elapsed().as_millis() as u64 / 50;
    assert!(
        sent <= idle_times * 2 + 8,
        "{sent} pings in {idle_times} times of 50 ms"
    );
    assert!(!job.ends[0].faulted());
}

#[test]
fn who_answers_nowhere_is_named_with_all_that_was_tried() {
    let mut harness = TcpThreads::default();
    harness.settings.connect.total = 300;
    harness.rails = 2;
    // A card of a process that is not there any more.
    let card = {
        let gone = Job::new(&harness, 2);
        gone.book.card(Peer(1)).unwrap()
    };
    let book = SharedBook::default();
    let ends = vec![harness.endpoint((0, 2), &book)];
    book.publish(Peer(1), card);
    let job = Job { book, ends };
    assert_eq!(
        job.ends[0].try_send(Peer(1), Port::Fm, Priority::Low, b"hello"),
        TrySend::Sent
    );
    job.until("the verdict", || job.ends[0].faulted());
    let fault = job.ends[0].take_faults().0.remove(0).error.to_string();
    for part in [
        "host 1: connecting has waited 0.",
        " UTC, and no way led there: 127.77.0.2:",
        "via rail0: Connection refused",
        "127.77.1.2:",
        "FARPOST_CONNECT_MS",
    ] {
        assert!(fault.contains(part), "{part}: {fault}");
    }
}

#[test]
fn who_ended_before_it_was_connected_is_given_up_before_the_time_for_connecting_is_over() {
    let mut harness = with_bound(200);
    harness.settings.connect.total = 20 * PATIENCE.as_millis() as u64;
    harness.rails = 2;
    let mut job = Job::new(&harness, 2);
    drop(job.ends.pop());
    let sent = job.ends[0].try_send(Peer(1), Port::Fm, Priority::Low, b"hello");
    assert_eq!(sent, TrySend::Sent);
    job.until("the verdict", || job.ends[0].is_gone(Peer(1)));
    let fault = job.ends[0].take_faults().0.remove(0).error.to_string();
    assert!(fault.contains("Connection refused"), "{fault}");
}

#[test]
fn malformed_data_after_the_handshake_is_dropped_and_counted() {
    let mut rng = fastrand::Rng::with_seed(5);
    let job = Job::new(&TcpThreads::default(), 3);
    let mine = job.ends[0].export(SegmentId(1), 4096, EVERYONE).unwrap();
    let theirs = job.import(1, 0, 1);
    for round in 0..6u64 {
        // Process 2 has gone mad; what it says first is right as far as it goes, or not even that.
        let before = job.ends[0].counter(Peer(0), Peer(2), Counter::Faults);
        let counted = || job.ends[0].counter(Peer(0), Peer(2), Counter::Faults) > before;
        while !counted() {
            let mut socket = proved(&job, 0, 2);
            let mut bytes = vec![0; 100 + rng.usize(..100_000)];
            rng.fill(&mut bytes);
            let _ = socket.write_all(&bytes);
            // A call that crosses one to the true process 2 is dropped unheard, and made again.
            job.until("the end of the connection", || {
                let unheard = match socket.read(&mut [0; 4096]) {
                    Ok(len) => len == 0,
                    Err(e) => e.kind() != std::io::ErrorKind::WouldBlock,
                };
                counted() || unheard
            });
        }
        theirs.put_line(64, &[round + 1; 8]).unwrap();
        job.until("a line past the noise", || mine.load(64) == round + 1);
    }
    let mut all = vec![0; 4096];
    mine.read(0, &mut all);
    all[64..128].fill(0);
    assert!(all.iter().all(|byte| *byte == 0));
}

/// Two that call each other at once need one of the calls only: the other was nobody who had to be turned away.
#[test]
fn calls_that_cross_are_no_faults() {
    for round in 0..30 {
        let job = Job::new(&TcpThreads::default(), 2);
        for (end, other) in [(1, 0), (0, 1)] {
            let sent = job.ends[end].try_send(Peer(other), Port::Fm, Priority::Low, b"hello");
            assert_eq!(sent, TrySend::Sent);
        }
        // In different orders.
        for turn in 0..round % 6 {
            job.ends[(turn + round) % 2].progress();
        }
        job.until("packets both ways", || {
            let waits = |end: usize| job.ends[end].packets_waiting(Port::Fm, Priority::Low, 1) > 0;
            waits(0) && waits(1)
        });
        // Whoever closes a connection has done it by now; the other notices.
        for _ in 0..200 {
            job.ends.iter().for_each(|end| _ = end.progress());
            std::thread::sleep(Duration::from_micros(100));
        }
        let refused = (job.ends[0].refused(), job.ends[1].refused());
        assert_eq!(refused, (String::new(), String::new()), "round {round}");
    }
}

#[test]
fn strangers_and_half_open_connections_harm_nobody() {
    let mut harness = TcpThreads::default();
    harness.settings.trust.waiting = 8;
    harness.settings.trust.patience = 100;
    let mut rng = fastrand::Rng::with_seed(6);
    let job = Job::new(&harness, 2);
    let mut sockets = Vec::new();
    for i in 0..200 {
        let mut socket = TcpStream::connect(job.address(0)).unwrap();
        if i % 2 == 0 {
            let mut bytes = vec![0; rng.usize(..300)];
            rng.fill(&mut bytes);
            let _ = socket.write_all(&bytes);
        }
        sockets.push(socket);
        job.ends[0].progress();
        assert!(job.ends[0].core.state.borrow().conns.len() < 20);
    }
    let mine = job.ends[0].export(SegmentId(1), 4096, EVERYONE).unwrap();
    let theirs = job.import(1, 0, 1);
    theirs.put_line(0, &[9; 8]).unwrap();
    job.until("a line past the crowd", || mine.load(0) == 9);
    assert!(
        job.ends[0]
            .core
            .state
            .borrow()
            .acceptor
            .gate
            .tally()
            .all_refused()
            > 50
    );
    assert_eq!(job.ends[0].take_faults(), (vec![], 0));
}

/// Nothing else is there, so only a timer that was set when he was accepted can end his visit.
#[test]
fn a_silent_stranger_is_turned_away_in_time() {
    for patience in [3_600_000, 1] {
        let mut harness = TcpThreads::default();
        harness.settings.trust.patience = patience;
        let job = Job::new(&harness, 2);
        assert_eq!(job.ends[0].core.state.borrow().acceptor.deadline, u64::MAX);
        let mut socket = TcpStream::connect(job.address(0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        if patience == 1 {
            job.until("the end of the visit", || {
                matches!(socket.read(&mut [0; 64]), Ok(0))
            });
            let state = job.ends[0].core.state.borrow();
            assert_eq!(state.acceptor.gate.tally().all_refused(), 1);
            assert!(state.conns.iter().all(Option::is_none));
            continue;
        }
        job.until("the stranger", || {
            let state = job.ends[0].core.state.borrow();
            state.conns.iter().any(Option::is_some)
        });
        let state = job.ends[0].core.state.borrow();
        assert!(state.acceptor.deadline < u64::MAX, "his time is limited");
        assert!(state.deadline <= state.acceptor.deadline, "and looked at by then");
    }
}

#[test]
fn another_secret_is_refused() {
    let job = Job::new(&TcpThreads::default(), 2);
    let mut socket = TcpStream::connect(job.address(0)).unwrap();
    let caller = Caller {
        job: [0; 16],
        me: 1,
        peer: 0,
        rail: 0,
        encrypt: false,
        note: 0,
    };
    let mut shake = Handshake::initiator(&Secret::new(&[8; 32]), caller);
    let Progress::Send(hello) = shake.feed(&[]).1 else {
        panic!("a hello comes first")
    };
    socket.write_all(&hello).unwrap();
    socket.set_nonblocking(true).unwrap();
    job.until("the refusal", || matches!(socket.read(&mut [0; 64]), Ok(0)));
    assert!(
        job.ends[0].refused().starts_with("1 "),
        "{}",
        job.ends[0].refused()
    );
    assert_eq!(job.ends[1].refused(), "");
}

#[test]
fn a_killed_peer_is_a_fault_once_and_puts_to_it_fail() {
    let mut job = Job::new(&with_bound(300), 2);
    let _mine = job.ends[1].export(SegmentId(1), 4096, EVERYONE).unwrap();
    let theirs = job.import(0, 1, 1);
    theirs.put_line(0, &[1; 8]).unwrap();
    job.until("the line", || _mine.load(0) == 1);
    let _second = job.ends.pop().map(Tcp::die);
    job.until("the fault", || job.ends[0].faulted());
    let (faults, more) = job.ends[0].take_faults();
    assert!(
        matches!(&faults[..], [fault] if fault.peer == Peer(1)
            && matches!(&fault.error, FabricError::PeerDead { why, .. } if why.contains("rail"))),
        "{faults:?}"
    );
    assert_eq!(more, 0);
    for _ in 0..3 {
        let refused = theirs.put_line(0, &[2; 8]);
        assert!(
            matches!(refused, Err(FabricError::PeerDead { .. })),
            "{refused:?}"
        );
        assert!(matches!(theirs.fence(), Err(FabricError::PeerDead { .. })));
        job.ends[0].progress();
    }
    assert!(!job.ends[0].faulted());
}

#[test]
fn who_says_goodbye_is_no_fault_and_what_it_sent_arrives() {
    let mut job = Job::new(&with_bound(200), 2);
    let mine = job.ends[0].export(SegmentId(1), 1 << 20, EVERYONE).unwrap();
    let theirs = job.import(1, 0, 1);
    let bytes: Vec<u8> = (0..1 << 20).map(|i| (i % 251) as u8 + 1).collect();
    theirs.put(0, &bytes).unwrap();
    drop(theirs);
    let leaving = job.ends.pop().unwrap();
    // We do not turn meanwhile: what its kernel does not take stays with it.
    leaving.close(Duration::ZERO);
    job.ends.push(leaving);
    job.until("all bytes", || mine.load((1 << 20) - 8) != 0);
    drop(job.ends.pop());
    let mut got = vec![0; 1 << 20];
    mine.read(0, &mut got);
    assert!(got == bytes);
    let until = Instant::now() + Duration::from_millis(500);
    job.until("longer than the bound", || Instant::now() > until);
    assert_eq!(job.ends[0].take_faults(), (vec![], 0));
}

#[test]
fn who_computes_between_calls_lets_others_in_within_a_few() {
    let job = Job::new(&TcpThreads::default(), 3);
    let [busy, known, new] = &job.ends[..] else {
        panic!("three ends");
    };
    assert_eq!(
        known.try_send(Peer(0), Port::Fm, Priority::Low, b"known"),
        TrySend::Sent
    );
    let mut came = 0;
    let mut take = |end: &Tcp| end.poll_packet(Port::Fm, |_, _, _| came += 1);
    job.until("a packet", || take(busy));
    assert_eq!(
        new.try_send(Peer(0), Port::Fm, Priority::Low, b"new"),
        TrySend::Sent
    );
    let mut calls = 0;
    while !take(busy) {
        for _ in 0..100 {
            new.progress();
        }
        std::thread::sleep(Duration::from_millis(1));
        busy.progress();
        calls += 1;
        assert!(calls < 30, "connecting takes too many calls");
    }
}

/// Lines in order from 1 to 0, whatever happens to the rails meanwhile.
fn lines_survive(rails: u8, cut: impl Fn(&Job, u64)) {
    const COUNT: u64 = 3000;
    const LINES: u64 = 1024;
    let harness = TcpThreads {
        rails,
        ..TcpThreads::default()
    };
    let job = Job::new(&harness, 2);
    let mine = job.ends[0]
        .export(SegmentId(1), LINES as usize * LINE_BYTES, EVERYONE)
        .unwrap();
    let theirs = job.import(1, 0, 1);
    let (mut sent, mut got) = (0, 0);
    job.until("all lines", || {
        // So many ahead that none is overwritten.
        if sent < COUNT && sent < got + LINES / 2 {
            let at = (sent % LINES) as usize * LINE_BYTES;
            theirs.put_line(at, &[sent + 1; 8]).unwrap();
            sent += 1;
            cut(&job, sent);
        }
        while got < COUNT {
            let line = mine.load_line((got % LINES) as usize * LINE_BYTES);
            if line[0] != got + 1 {
                // Not yet, or that of a lap ago: nothing else.
                assert!(line[0] == 0 || line[0] + LINES == got + 1, "{line:?} at {got}");
                break;
            }
            assert_eq!(line, [got + 1; 8]);
            got += 1;
        }
        got == COUNT
    });
    let again = job.ends[0].counter(Peer(0), Peer(1), Counter::Retries)
        + job.ends[1].counter(Peer(1), Peer(0), Counter::Retries);
    assert!(again >= 5, "the cuts were felt");
    assert_eq!(job.ends[0].take_faults(), (vec![], 0));
    assert_eq!(job.ends[1].take_faults(), (vec![], 0));
}

#[test]
fn a_rail_that_is_cut_again_and_again_loses_nothing() {
    lines_survive(1, |job, sent| {
        if sent % 500 == 0 {
            job.ends[(sent / 500 % 2) as usize].sever(Peer((1 - sent / 500 % 2) as u32), None);
        }
    });
}

#[test]
fn one_of_two_rails_is_cut_and_nobody_notices() {
    lines_survive(2, |job, sent| {
        if sent % 300 == 0 {
            job.ends[1].sever(Peer(0), Some((sent / 300 % 2) as usize));
        }
    });
}

/// The degree of striping, as users see it: falls when a rail dies, rises when it is back, and no line is lost or doubled.
#[test]
fn the_degree_of_striping_falls_and_rises() {
    let degree = |job: &Job| {
        let works = |rail: &u32| job.ends[1].rail_works(Peer(0), *rail);
        assert_eq!(job.ends[1].rails(Peer(0)), 2);
        (0..4).filter(works).count()
    };
    lines_survive(2, |job, sent| {
        if sent % 300 == 0 {
            job.until("both rails", || degree(job) == 2);
            let cut = (sent / 300 % 2) as usize;
            job.ends[1].sever(Peer(0), Some(cut));
            job.until("one rail", || degree(job) == 1);
            assert!(!job.ends[1].rail_works(Peer(0), cut as u32));
        }
    });
    // Before anything was sent it is what there is.
    let harness = TcpThreads {
        rails: 2,
        ..TcpThreads::default()
    };
    assert_eq!(degree(&Job::new(&harness, 2)), 2);
}

#[test]
fn bulk_data_survives_cuts() {
    const LEN: usize = 8 << 20;
    for rails in [1, 2] {
        let harness = TcpThreads {
            rails,
            ..TcpThreads::default()
        };
        let job = Job::new(&harness, 2);
        let mut from: Vec<u8> = (0..LEN).map(|i| (i * 7 % 253) as u8).collect();
        let mut to = vec![0u8; LEN];
        let address = from.as_mut_ptr().expose_provenance();
        // SAFETY: alive until withdrawn.
        let key = unsafe { job.ends[1].expose(Peer(0), address, LEN, false) }.unwrap();
        let ticket = get(&job.ends[0], Peer(1), key, &mut to);
        let mut turns = 0;
        job.until("the transfer", || {
            turns += 1;
            if turns % 60 == 0 && turns < 400 {
                job.ends[turns / 60 % 2].sever(Peer((1 - turns / 60 % 2) as u32), Some(turns / 120 % 2));
            }
            job.ends[0].poll_transfer(ticket).unwrap()
        });
        job.ends[1].withdraw(key);
        assert!(std::hint::black_box(&to) == std::hint::black_box(&from));
        assert_eq!(job.ends[0].take_faults(), (vec![], 0));
    }
}

#[test]
fn a_put_longer_than_what_a_link_keeps_arrives() {
    let mut harness = TcpThreads::default();
    harness.settings.link.log = 256 << 10;
    let job = Job::new(&harness, 2);
    let mine = job.ends[1].export(SegmentId(1), 4 << 20, EVERYONE).unwrap();
    let theirs = job.import(0, 1, 1);
    let bytes: Vec<u8> = (0..4 << 20).map(|i| (i * 7 % 253) as u8).collect();
    theirs.put(0, &bytes).unwrap();
    job.until("the put", || mine.load((4 << 20) - 8) != 0);
    let mut got = vec![0; bytes.len()];
    mine.read(0, &mut got);
    assert!(got == bytes);
}

/// Bytes that each of the two rails from process 0 to process 1 has carried.
fn carried(job: &Job) -> [u64; 2] {
    [0, 1].map(|rail| job.ends[0].carried(Peer(1), rail).sent)
}

/// A job over two rails that both work, and a segment of process 1's as process 0 sees it.
fn over_two_rails(len: usize) -> (Job, farpost_mapped::Mapping, <Tcp as RemoteMemory>::Import) {
    let harness = TcpThreads {
        rails: 2,
        ..TcpThreads::default()
    };
    let job = Job::new(&harness, 2);
    let mine = job.ends[1].export(SegmentId(1), len, EVERYONE).unwrap();
    let theirs = job.import(0, 1, 1);
    job.until("both rails", || {
        (0..2).all(|rail| job.ends[0].rail_works(Peer(1), rail))
            && job.ends[0]
                .core
                .state
                .borrow()
                .peers
                .get(Peer(1))
                .unwrap()
                .link
                .was_up()
    });
    (job, mine, theirs)
}

#[test]
fn long_puts_go_over_every_rail_and_over_those_that_are_named() {
    const LEN: usize = 16 << 20;
    let (job, mine, theirs) = over_two_rails(LEN);
    let all_there = |job: &Job| {
        let state = job.ends[0].core.state.borrow();
        state.has_striped(Peer(1), u64::MAX)
    };
    for (rails, least) in [(u32::MAX, [0.1, 0.1]), (1, [0.9, 0.0]), (2, [0.0, 0.9])] {
        let theirs = theirs.clone();
        theirs.stripe(rails);
        let bytes: Vec<u8> = (0..LEN)
            .map(|i| (i as u64 * u64::from(rails) % 251) as u8)
            .collect();
        // On a busy host a rail may be silent for so long that it is taken for broken for a while, and others carry its share.
        let mut shares = [0.0; 2];
        let is_as_named = (0..20).any(|_| {
            let before = carried(&job);
            for (number, part) in bytes.chunks(256 << 10).enumerate() {
                theirs.put(number * (256 << 10), part).unwrap();
            }
            job.until("the puts", || all_there(&job) && mine.load(LEN - 8) != 0);
            let mut got = vec![0; LEN];
            mine.read(0, &mut got);
            assert!(got == bytes, "rails {rails:b}");
            let after = carried(&job);
            shares = [0, 1].map(|rail| (after[rail] - before[rail]) as f64 / LEN as f64);
            mine.write(0, &vec![0; LEN]);
            (0..2).all(|rail| shares[rail] >= least[rail])
        });
        assert!(is_as_named, "rails {rails:b}: {shares:?}");
    }
    // Where the named one does not work, by the other.
    job.ends[0].sever(Peer(1), Some(1));
    job.until("a rail less", || !job.ends[0].rail_works(Peer(1), 1));
    theirs.stripe(2);
    theirs.put(0, &vec![3; LEN]).unwrap();
    job.until("the put", || mine.load(LEN - 8) != 0);
    // Nothing is kept of any of them.
    job.until("an end", || all_there(&job));
    let state = job.ends[0].core.state.borrow();
    assert_eq!(
        (state.transfers.striped_bytes, state.transfers.ours.len()),
        (0, 0)
    );
}

#[test]
fn long_puts_survive_cuts_which_count_as_changes_of_route() {
    const LEN: usize = 16 << 20;
    let (job, mine, theirs) = over_two_rails(LEN);
    theirs.stripe(u32::MAX);
    let bytes: Vec<u8> = (0..LEN).map(|i| (i * 7 % 253) as u8).collect();
    for (number, part) in bytes.chunks(64 << 10).enumerate() {
        theirs.put(number * (64 << 10), part).unwrap();
    }
    assert_eq!(job.ends[0].reroutes(Peer(1)), 0);
    let mut cuts = 0;
    job.until("the puts", || {
        if cuts < 2 && carried(&job).iter().sum::<u64>() > (cuts as u64 + 1) * LEN as u64 / 4 {
            job.ends[cuts].sever(Peer(1 - cuts as u32), Some(cuts));
            cuts += 1;
        }
        job.ends[0].core.state.borrow().has_striped(Peer(1), u64::MAX)
    });
    let mut got = vec![0; LEN];
    mine.read(0, &mut got);
    assert!(got == bytes);
    assert!(job.ends[0].reroutes(Peer(1)) > 0);
    assert_eq!(job.ends[0].take_faults(), (vec![], 0));
}

#[test]
fn who_ends_first_sees_to_it_that_long_puts_arrive() {
    const LEN: usize = 4 << 20;
    let harness = TcpThreads {
        rails: 2,
        ..TcpThreads::default()
    };
    harness.run(2, async |end| {
        if end.me() == 1 {
            let mine = end.fabric.export(SegmentId(1), LEN, EVERYONE).unwrap();
            // Its parts come by several rails, in any order.
            let mut got = vec![0; LEN];
            end.until("the put", || {
                mine.read(0, &mut got);
                got.iter().all(|byte| *byte == 5)
            })
            .await;
            return;
        }
        let theirs = end.import(Peer(1), SegmentId(1), LEN).await;
        end.until("both rails", || {
            (0..2).all(|rail| end.fabric.rail_works(Peer(1), rail))
        })
        .await;
        theirs.stripe(u32::MAX);
        theirs.put(0, &vec![5; LEN]).unwrap();
        end.fabric.close(PATIENCE);
    });
}

fn get(end: &Tcp, peer: Peer, key: u64, to: &mut [u8]) -> Ticket {
    let descriptor = Descriptor {
        peer,
        direction: Direction::Get,
        local: to.as_mut_ptr().expose_provenance(),
        remote: 0,
        key,
        len: to.len(),
    };
    // SAFETY: the callers keep the memory until the transfer is over.
    match unsafe { end.submit(&descriptor) } {
        Ok(Completion::Pending(ticket)) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn memory_that_is_withdrawn_or_given_up_is_left_alone() {
    const LEN: usize = 4 << 20;
    let job = Job::new(&TcpThreads::default(), 2);
    let mut from = vec![1u8; LEN];
    let address = from.as_mut_ptr().expose_provenance();
    let expose = || {
        // SAFETY: alive until withdrawn.
        unsafe { job.ends[1].expose(Peer(0), address, LEN, true) }.unwrap()
    };
    // Withdrawn in the middle: the getter learns it.
    let key = expose();
    let mut to = vec![0u8; LEN];
    let ticket = get(&job.ends[0], Peer(1), key, &mut to);
    for _ in 0..40 {
        job.ends[1].progress();
        job.ends[0].progress();
    }
    job.ends[1].withdraw(key);
    std::hint::black_box(&mut from).fill(2);
    let mut outcome = Ok(false);
    job.until("the end of the transfer", || {
        outcome = job.ends[0].poll_transfer(ticket);
        outcome != Ok(false)
    });
    match outcome {
        Ok(_) => assert!(std::hint::black_box(&to).iter().all(|byte| *byte == 1)),
        Err(error) => {
            assert!(
                matches!(error, FabricError::Corrupt { peer: Peer(1), .. }),
                "{error}"
            );
            assert!(std::hint::black_box(&to).iter().all(|byte| *byte <= 1));
        }
    }
    // Given up in the middle: nothing is written after.
    let key = expose();
    let mut to = vec![0u8; LEN];
    let ticket = get(&job.ends[0], Peer(1), key, &mut to);
    for _ in 0..20 {
        job.ends[1].progress();
        job.ends[0].progress();
    }
    job.ends[0].cancel_transfer(ticket);
    std::hint::black_box(&mut to).fill(9);
    let mut last = vec![0u8; 100];
    let ticket = get(&job.ends[0], Peer(1), key, &mut last);
    job.until("a transfer after it", || {
        job.ends[0].poll_transfer(ticket).unwrap()
    });
    assert!(std::hint::black_box(&to).iter().all(|byte| *byte == 9));
    assert!(std::hint::black_box(&last).iter().all(|byte| *byte == 2));
    job.ends[1].withdraw(key);
}

#[test]
fn twenty_talk_to_each_other() {
    const SIZE: usize = 20;
    let job = Job::new(&TcpThreads::default(), SIZE as u32);
    let mine: Vec<_> = job
        .ends
        .iter()
        .map(|end| end.export(SegmentId(1), SIZE * LINE_BYTES, EVERYONE).unwrap())
        .collect();
    for from in 0..SIZE {
        for to in (0..SIZE).filter(|to| *to != from) {
            let theirs = job.import(from, to as u32, 1);
            theirs.put_line(from * LINE_BYTES, &[from as u64 + 1; 8]).unwrap();
        }
    }
    job.until("all lines", || {
        mine.iter().enumerate().all(|(to, memory)| {
            (0..SIZE).all(|from| from == to || memory.load_line(from * LINE_BYTES) == [from as u64 + 1; 8])
        })
    });
    let open: usize = job
        .ends
        .iter()
        .map(|end| end.core.state.borrow().conns.open)
        .sum();
    assert_eq!(open, SIZE * (SIZE - 1), "one connection a pair, which both count");
}

/// Both send far more than sockets and logs hold before either reads.
#[test]
fn both_may_send_much_at_once() {
    const LEN: usize = 1 << 20;
    const ROUNDS: usize = 100;
    TcpThreads::default().run(2, async |end: &End<Tcp>| {
        let mine = end.fabric.export(SegmentId(1), LEN, EVERYONE).unwrap();
        let theirs = end.import(end.next(), SegmentId(1), LEN).await;
        let bytes = vec![end.me() as u8 + 1; LEN];
        for _ in 0..ROUNDS {
            theirs.put(0, &bytes).unwrap();
        }
        theirs.fence().unwrap();
        end.barrier().await;
        let mut got = vec![0; LEN];
        mine.read(0, &mut got);
        assert!(got.iter().all(|byte| *byte == end.next().0 as u8 + 1));
    });
}

#[test]
fn a_peer_without_a_card_is_dead_at_once() {
    let harness = TcpThreads::default();
    let book = SharedBook::default();
    let end = harness.endpoint((0, 2), &book);
    let error = end.import(Peer(1), SegmentId(1), 64, Permission::Read).err();
    assert!(
        matches!(&error, Some(FabricError::PeerDead { why, .. }) if why.contains("card")),
        "{error:?}"
    );
    assert!(end.faulted());
}

#[test]
fn settings_are_known_by_their_variables() {
    let mut settings = TcpSettings::default();
    for (name, value) in [
        ("FARPOST_TCP_DIRECT", "8k"),
        ("FARPOST_RAIL_BOUND_MS", "500"),
        ("FARPOST_ENCRYPT", "1"),
        ("FARPOST_INTERFACE", "lo"),
        ("FARPOST_TCP_PORTS", "4000-4010"),
    ] {
        assert_eq!(settings.set(name, value), Ok(true), "{name}");
    }
    assert_eq!(settings.set("FARPOST_NOTHING", "1"), Ok(false));
    assert!(settings.set("FARPOST_TCP_PORTS", "x").is_err());
    assert!(Listening::open(TcpSettings::default()).is_ok());
}

#[test]
fn figures_of_rails_outlive_their_connections() {
    const LEN: usize = 1 << 20;
    let (job, mine, theirs) = over_two_rails(LEN);
    let all = |end: usize| job.ends[end].rail_figures();
    let names: Vec<_> = all(0).into_iter().map(|rail| rail.name).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        all(0)
            .iter()
            .all(|rail| (rail.up, rail.down, rail.state()) == (1, 0, "up"))
    );
    theirs.put(0, &vec![7; LEN]).unwrap();
    job.until("the put", || mine.load(LEN - 8) != 0);
    let sum = |end: usize, of: fn(&RailFigures) -> u64| all(end).iter().map(of).sum::<u64>();
    job.until("what came", || sum(1, |rail| rail.received_bytes) >= LEN as u64);
    assert!(sum(0, |rail| rail.sent_bytes) >= LEN as u64);
    assert!(sum(1, |rail| rail.received) > 0 && sum(0, |rail| rail.sent) > 0);
    let before = sum(0, |rail| rail.sent_bytes);
    job.ends[0].sever(Peer(1), Some(1));
    let down = || all(0).iter().filter(|rail| rail.state() == "down").count() == 1;
    job.until("the rail to be missed", down);
    assert!(sum(0, |rail| rail.sent_bytes) >= before);
    // Something has to be sent for the rail to be connected again.
    job.until("the rail", || {
        theirs.put(0, &[8; 64]).unwrap();
        all(0).iter().all(|rail| rail.state() == "up")
    });
    assert!(sum(0, |rail| rail.sent_bytes) >= before);
}
