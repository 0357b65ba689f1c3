//! JAM's mechanisms on the in-process fabric, from seeds, and on shared memory.

use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{
    Counter, Counters, ErrorStatus, FabricError, PacketQueue, Peer, Port, Priority, Register, TrySend,
};
use farpost_jam::pio::{RECEIVE_COUNT, TRANSMIT};
use farpost_jam::vi::Batch;
use farpost_jam::{Header, Jam, JamError, JamTunables};
use farpost_shm::ShmTunables;
use farpost_shm::conformance::shm_ends;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

fn jams(size: u32, seed: u64, config: Config, tunables: &JamTunables) -> Vec<Jam<InProc>> {
    Network::new(size, seed, config)
        .into_iter()
        .map(|end| Jam::new(Rc::new(end), tunables, &WaitTunables::default()))
        .collect()
}

fn step(jams: &[Jam<InProc>]) {
    for jam in jams {
        jam.poll();
    }
    jams[0].fabric().network().step();
}

/// Step until `done`, at most so long that only a hang takes longer.
fn until(jams: &[Jam<InProc>], mut done: impl FnMut() -> bool) {
    for _ in 0..200_000 {
        if done() {
            return;
        }
        step(jams);
    }
    panic!("nothing moves any more");
}

#[test]
fn pio_keeps_order_and_counts() {
    for seed in 0..20 {
        let jams = jams(2, seed, Config::default(), &JamTunables::default());
        let (a, b) = (&jams[0], &jams[1]);
        let mut sent = [0u32; 2];
        let mut got = [0u32; 2];
        while got != [200, 200] {
            for priority in Priority::ALL {
                let n = &mut sent[priority as usize];
                let room = a.status().transmit(priority);
                for _ in 0..room {
                    if *n < 200 {
                        let words = vec![*n; 2 + *n as usize % 21];
                        a.send(&Header::new(Peer(1), priority, *n), &words).unwrap();
                        *n += 1;
                    }
                }
                let waiting = b.status().receive(priority);
                assert!(waiting <= RECEIVE_COUNT);
                for _ in 0..waiting {
                    let message = b.receive(priority).expect("the status word said so");
                    let n = &mut got[priority as usize];
                    assert_eq!((message.from, message.tag), (Peer(0), *n));
                    assert_eq!(message.words(), vec![*n; 2 + *n as usize % 21]);
                    *n += 1;
                }
            }
            step(&jams);
        }
        assert_eq!((a.refused(), b.refused()), (0, 0));
    }
}

#[test]
fn an_overflow_is_an_error_and_loses_nothing() {
    let jams = jams(2, 7, Config::default(), &JamTunables::default());
    let header = Header::new(Peer(1), Priority::Low, 0);
    let mut sent = 0;
    loop {
        match jams[0].send(&Header { tag: sent, ..header }, &[sent, 0]) {
            Ok(()) => sent += 1,
            Err(error) => {
                assert_eq!(error, JamError::TransmitFull(TRANSMIT));
                break;
            }
        }
    }
    assert_eq!(jams[0].status().transmit(Priority::Low), 0);
    // High goes where low is stuck.
    jams[0]
        .send(&Header::new(Peer(1), Priority::High, 99), &[1, 2])
        .unwrap();
    let mut got = 0;
    until(&jams, || {
        while let Some(message) = jams[1].receive(Priority::Low) {
            assert_eq!(message.tag, got);
            got += 1;
        }
        got == sent
    });
    assert_eq!(jams[1].receive(Priority::High).map(|m| m.tag), Some(99));
}

#[test]
fn messages_that_may_go_any_way_overtake() {
    // Process 1 never receives; what goes to process 2 by any way passes what waits for process 1.
    let jams = jams(3, 3, Config::default(), &JamTunables::default());
    let mut held = Header::new(Peer(1), Priority::Low, 0);
    while jams[0].status().transmit(Priority::Low) > 2 {
        jams[0].send(&held, &[0, 0]).unwrap();
    }
    held.to = Peer(2);
    jams[0].send(&held, &[1, 1]).unwrap();
    jams[0]
        .send(
            &Header {
                random: true,
                tag: 5,
                ..held
            },
            &[2, 2],
        )
        .unwrap();
    let mut first = None;
    until(&jams, || {
        first = jams[2].receive(Priority::Low);
        first.is_some()
    });
    assert_eq!(first.map(|message| message.tag), Some(5));
    for _ in 0..100 {
        step(&jams);
    }
    assert_eq!(
        jams[2].receive(Priority::Low),
        None,
        "the one in order still waits its turn"
    );
}

#[test]
fn bad_messages_are_counted_and_the_next_good_one_arrives() {
    let jams = jams(
        2,
        1,
        Config {
            full_every: 0,
            ..Config::default()
        },
        &JamTunables::default(),
    );
    let (a, b) = (&jams[0], &jams[1]);
    for garbage in [&[][..], &[1, 2, 3], &[0xff; 40], &[0; 170]] {
        for port in [Port::Jam, Port::JamService] {
            assert_eq!(
                a.fabric().try_send(Peer(1), port, Priority::Low, garbage),
                TrySend::Sent
            );
        }
        for _ in 0..50 {
            step(&jams);
            assert_eq!(b.receive(Priority::Low), None);
        }
    }
    assert_eq!(b.refused(), 8);
    let (faults, _) = b.fabric().take_faults();
    assert!(
        faults
            .iter()
            .all(|f| matches!(f.error, FabricError::Corrupt { peer: Peer(0), .. }))
    );
    a.rpc(Peer(1), 77, b"nobody").unwrap();
    until(&jams, || b.refused() == 9);
    // Who watches the process sees as many.
    assert_eq!(b.fabric().register(Peer(1), Register::JamRefused), 9);
    assert_eq!(b.fabric().register(Peer(0), Register::JamRefused), 0);
    // Who and what, to this interface's user too, and counted once each.
    let told: Vec<_> = std::iter::from_fn(|| b.next_fault()).collect();
    assert_eq!(told.len(), 9);
    assert!(told.iter().all(|fault| fault.peer == Peer(0)));
    let last = told[8].error.to_string();
    assert!(
        last.contains("process 0") && last.contains("0x4d") && last.contains("procedure"),
        "{last}"
    );
    assert_eq!(b.fabric().counter(Peer(1), Peer(0), Counter::Faults), 9);
    a.send(&Header::new(Peer(1), Priority::Low, 3), &[1, 2]).unwrap();
    until(&jams, || b.receive(Priority::Low).is_some());
    assert!(matches!(
        a.rpc(Peer(1), 1 << 16, b""),
        Err(JamError::NoSuchProcedure(65536))
    ));
    assert!(matches!(a.rpc(Peer(2), 1, b""), Err(JamError::NoSuchPeer { .. })));
    assert!(matches!(
        a.send(&Header::new(Peer(9), Priority::Low, 3), &[1, 2]),
        Err(JamError::NoSuchPeer { .. })
    ));
}

type Log = Rc<RefCell<BTreeMap<(u32, u32, u32), u32>>>;

fn pattern(from: u32, n: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32 * 31 + from * 7 + n) as u8).collect()
}

#[test]
fn every_call_runs_once_whatever_its_size() {
    for (seed, bulk) in (0..12).map(|seed| (seed, seed % 2 == 0)) {
        let config = Config {
            bulk,
            ..Config::default()
        };
        let jams = jams(4, seed, config, &JamTunables::default());
        let log: Log = Rc::default();
        for jam in &jams {
            let log = Rc::clone(&log);
            let run = move |jam: &Jam<InProc>, from: Peer, argument: &[u8]| {
                let n = u32::from_le_bytes(argument[..4].try_into().unwrap());
                assert!(argument[4..] == pattern(from.0, n, argument.len() - 4));
                *log.borrow_mut().entry((from.0, jam.me().0, n)).or_default() += 1;
            };
            jam.register(3, Rc::new(run)).unwrap();
        }
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut wanted = 0;
        for n in 0..40 {
            for jam in &jams {
                let to = rng.u32(..4);
                let len = *rng
                    .choice([0, 3, 79, 80, 81, 200, 1900, 5000, 60_000].iter())
                    .unwrap();
                let mut argument = n.to_string().into_bytes();
                argument.clear();
                argument.extend_from_slice(&u32::to_le_bytes(n));
                argument.extend(pattern(jam.me().0, n, len));
                jam.rpc(Peer(to), 3, &argument).unwrap();
                wanted += 1;
            }
            step(&jams);
        }
        until(&jams, || log.borrow().values().sum::<u32>() == wanted);
        assert!(log.borrow().values().all(|times| *times == 1));
        assert!(jams.iter().all(|jam| jam.refused() == 0));
    }
}

#[test]
fn a_procedure_may_call_back() {
    let jams = jams(2, 5, Config::default(), &JamTunables::default());
    let back = |jam: &Jam<InProc>, from: Peer, argument: &[u8]| jam.rpc(from, 2, argument).unwrap();
    jams[1].register(1, Rc::new(back)).unwrap();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&seen);
    jams[0]
        .register(
            2,
            Rc::new(move |_, _, argument| log.borrow_mut().push(argument.to_vec())),
        )
        .unwrap();
    for n in 0..100u8 {
        jams[0].rpc(Peer(1), 1, &[n; 16]).unwrap();
    }
    until(&jams, || seen.borrow().len() == 100);
    assert!(
        seen.borrow()
            .iter()
            .enumerate()
            .all(|(n, bytes)| *bytes == [n as u8; 16])
    );
}

#[test]
fn blocks_have_one_owner_at_a_time_and_go_to_posted_memory() {
    for (seed, bulk) in (0..10).map(|seed| (seed, seed % 2 == 0)) {
        let config = Config {
            bulk,
            ..Config::default()
        };
        let jams = jams(4, seed, config, &JamTunables::default());
        let len = |from: u32| 3000 + 1000 * from as usize;
        let mut transfers = Vec::new();
        for from in 1..4 {
            for n in 0..3 {
                let bytes = pattern(from, n, len(from));
                transfers.push((from, jams[from as usize].rdma().send(Peer(0), n, bytes).unwrap()));
            }
        }
        let mut next = [0; 4];
        for _ in 0..9 {
            jams[0].rdma().post(vec![0; 8192]);
            let mut block = None;
            until(&jams, || {
                block = jams[0].rdma().arrived();
                block.is_some()
            });
            let block = block.unwrap();
            let from = block.from.0;
            assert_eq!((block.tag, block.len), (next[from as usize], len(from)));
            assert!(block.bytes() == pattern(from, block.tag, block.len));
            next[from as usize] += 1;
        }
        let mut ended = 0;
        until(&jams, || {
            for (from, transfer) in &transfers {
                if let Some(result) = jams[*from as usize].rdma().ended(*transfer) {
                    assert_eq!(result, Ok(()));
                    ended += 1;
                }
            }
            ended == 9
        });
        // Too long for what is posted: the sender hears it, the memory stays for the next.
        jams[0].rdma().post(vec![0; 100]);
        let long = jams[1].rdma().send(Peer(0), 0, vec![1; 101]).unwrap();
        let mut result = None;
        until(&jams, || {
            result = jams[1].rdma().ended(long);
            result.is_some()
        });
        assert!(
            matches!(result, Some(Err(JamError::TooLong { bytes: 101, .. }))),
            "{result:?}"
        );
        jams[2].rdma().send(Peer(0), 4, vec![2; 100]).unwrap();
        until(&jams, || {
            jams[0]
                .rdma()
                .arrived()
                .is_some_and(|block| block.bytes() == [2; 100])
        });
    }
}

#[test]
fn an_owner_that_ends_loses_its_right() {
    for seed in 0..10 {
        let config = Config {
            bulk: false,
            ..Config::default()
        };
        let jams = jams(3, seed, config, &JamTunables::default());
        jams[0].rdma().post(vec![0; 1 << 20]);
        jams[1].rdma().send(Peer(0), 1, vec![1; 1 << 20]).unwrap();
        for _ in 0..200 {
            step(&jams);
        }
        jams[2].rdma().send(Peer(0), 2, vec![2; 5000]).unwrap();
        jams[0].fabric().network().kill(Peer(1));
        let alive = [&jams[0], &jams[2]];
        let mut block = None;
        for _ in 0..200_000 {
            alive.iter().for_each(|jam| {
                jam.poll();
            });
            jams[0].fabric().network().step();
            block = jams[0].rdma().arrived();
            if block.is_some() {
                break;
            }
        }
        let block = block.expect("the second sender's turn comes");
        assert_eq!((block.from, block.tag, block.len), (Peer(2), 2, 5000));
    }
}

#[test]
fn batches_arrive_in_order_through_a_ring_that_wraps() {
    let tunables = JamTunables {
        vi_ring: 4096,
        ..JamTunables::default()
    };
    for seed in 0..10 {
        let jams = jams(3, seed, Config::default(), &tunables);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut sent = [0u32; 2];
        let mut got = [0u32; 2];
        let mut batches = [Batch::new(Peer(2)), Batch::new(Peer(2))];
        while got != [500, 500] {
            for (index, batch) in batches.iter_mut().enumerate() {
                let n = &mut sent[index];
                if batch.is_empty() {
                    for _ in 0..rng.usize(1..20) {
                        if *n < 500 {
                            batch.push(*n, &vec![*n; 2 + *n as usize % 21]).unwrap();
                            *n += 1;
                        }
                    }
                }
                jams[index].doorbell(batch).unwrap();
            }
            jams[2].receive_batches(rng.usize(1..40), |from, tag, words| {
                let n = &mut got[from.index()];
                assert_eq!(tag, *n);
                assert_eq!(words, vec![*n; 2 + *n as usize % 21]);
                *n += 1;
            });
            step(&jams);
        }
        assert!(jams.iter().all(|jam| jam.refused() == 0));
    }
    let jams = jams(2, 0, Config::default(), &tunables);
    let mut long = Batch::new(Peer(1));
    for _ in 0..40 {
        long.push(0, &[0; 22]).unwrap();
    }
    let mut refused = None;
    until(&jams, || {
        refused = jams[0].doorbell(&mut long).err();
        refused.is_some()
    });
    assert!(matches!(refused, Some(JamError::TooLong { .. })));
}

/// Messages, batches and calls are counted by peer at both ends.
#[test]
fn traffic_is_counted_by_peer() {
    let jams = jams(3, 4, Config::default(), &JamTunables::default());
    let (a, b) = (&jams[0], &jams[1]);
    let called = Rc::new(Cell::new(0));
    let seen = Rc::clone(&called);
    b.register(7, Rc::new(move |_, _, bytes: &[u8]| seen.set(bytes.len())))
        .unwrap();
    a.send(&Header::new(Peer(1), Priority::Low, 3), &[1, 2, 3])
        .unwrap();
    until(&jams, || b.receive(Priority::Low).is_some());
    a.rpc(Peer(1), 7, &[0; 20]).unwrap();
    until(&jams, || called.get() == 20);
    let mut batch = Batch::new(Peer(1));
    batch.push(0, &[5; 4]).unwrap();
    until(&jams, || a.doorbell(&mut batch).unwrap() && batch.is_empty());
    let mut words = 0;
    until(&jams, || {
        b.receive_batches(9, |_, _, payload| words += payload.len());
        words == 4
    });
    let count = |of: &Jam<InProc>, peer, counter| of.fabric().counter(of.me(), Peer(peer), counter);
    assert_eq!(count(a, 1, Counter::Sent), 3);
    assert_eq!(count(b, 0, Counter::Received), 3);
    assert_eq!(count(b, 0, Counter::ReceivedBytes), 12 + 20 + 16);
    assert!(count(a, 1, Counter::SentBytes) >= 12 + 20 + 16);
    assert_eq!(count(a, 2, Counter::Sent), 0);
}

/// Two runs of a seed are the same, to the byte and to the nanosecond; runs of different seeds differ.
#[test]
fn a_seed_replays_exactly() {
    let run = |seed| {
        let jams = jams(3, seed, Config::default(), &JamTunables::default());
        let network = jams[0].fabric().network().clone();
        network.record();
        let mut batches = [Batch::new(Peer(2)), Batch::new(Peer(2))];
        let mut got = 0;
        for n in 0..100 {
            for (jam, batch) in jams.iter().zip(&mut batches) {
                if batch.is_empty() {
                    batch.push(n, &[n; 22]).unwrap();
                }
                jam.doorbell(batch).unwrap();
                let header = Header::new(Peer(2), Priority::Low, n);
                // Refused while too many wait.
                let _ = jam.send(&header, &[n; 10]);
            }
            while jams[2].receive(Priority::Low).is_some() {}
            jams[2].receive_batches(8, |_, _, _| got += 1);
            step(&jams);
        }
        assert!(got > 10, "{got} messages of batches");
        network.arrivals()
    };
    for seed in 0..5 {
        assert!(run(seed) == run(seed), "seed {seed}");
        assert!(run(seed) != run(seed + 1), "seed {seed}");
    }
}

#[test]
fn processes_on_shared_memory() {
    let jams: Vec<_> = shm_ends(2, &ShmTunables::default())
        .into_iter()
        .map(|end| Jam::new(Rc::new(end), &JamTunables::default(), &WaitTunables::default()))
        .collect();
    let back = |jam: &Jam<_>, from: Peer, argument: &[u8]| jam.rpc(from, 2, argument).unwrap();
    jams[1].register(1, Rc::new(back)).unwrap();
    let seen = Rc::new(RefCell::new(0u32));
    let count = Rc::clone(&seen);
    let check = move |_: &Jam<_>, _: Peer, argument: &[u8]| {
        assert!(argument.iter().all(|b| *b == argument[0]));
        *count.borrow_mut() += 1;
    };
    jams[0].register(2, Rc::new(check)).unwrap();
    let mut batch = Batch::new(Peer(1));
    let mut in_batches = 0;
    for n in 0..1000 {
        jams[0]
            .rpc(Peer(1), 1, &vec![n as u8; 1 + n * 13 % 9000])
            .unwrap();
        batch.push(n as u32, &[n as u32; 22]).unwrap();
        while !jams[0].doorbell(&mut batch).unwrap() {
            jams.iter().map(Jam::poll).sum::<usize>();
        }
        jams.iter().map(Jam::poll).sum::<usize>();
        in_batches += jams[1].receive_batches(100, |from, tag, words| {
            assert_eq!((from, words), (Peer(0), &[tag; 22][..]));
        });
    }
    for _ in 0..100_000 {
        jams.iter().map(Jam::poll).sum::<usize>();
    }
    assert_eq!((*seen.borrow(), in_batches), (1000, 1000));
    assert!(jams.iter().all(|jam| jam.refused() == 0 && !jam.has_waiting()));
}
