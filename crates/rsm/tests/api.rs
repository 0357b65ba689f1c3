//! RSMAPI on every fabric that lives in one process: by function call on `inproc` from seeds, mapped on `shm`, over sockets on
//! `tcp`. (`processes.rs`: an end per process, on `shm` and over libfabric.)
#![cfg(not(loom))]

mod roles;

use farpost_fabric::conformance::InProcHarness;
use farpost_fabric::inproc::{Config, Costs, InProc, Network};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{
    Counter, Counters, LocalMemory, Moment, PacketQueue, Peer, Port, Priority, SegmentId, Time, TrySend,
};
use farpost_rsm::{Accumulate, Cause, Code, Identity, Mode, Perm, Rsm, RsmTunables};
use farpost_shm::conformance::ShmThreads;
use farpost_tcp::conformance::TcpThreads;
use roles::{ID, code, entry, main_controller, of, publish};
use std::time::Duration;

macro_rules! on_all {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            for seed in 0..30 {
                roles::play(&InProcHarness::new(seed), stringify!($name));
            }
            roles::play(&ShmThreads::default(), stringify!($name));
            roles::play(&TcpThreads::default(), stringify!($name));
        })*

        #[test]
        fn no_role_is_forgotten() {
            assert_eq!(roles::NAMES, [$(stringify!($name)),*]);
        }
    };
}

on_all! {
    names_and_places
    looked_for_from_the_start
    what_publishing_checks
    puts_and_gets_of_all_kinds
    who_may_connect
    lies_about_users
    withdrawn_while_connected
    another_list_for_those_who_come_later
    signals_are_counted
    strangers_are_refused
    lists_of_transfers
    mapping
    several_requests_at_once
    requests_that_do_not_arrive
}

/// A directory is found when its first line is written, not before: on mapped memory that takes no more than a look at the
/// wrong time.
#[test]
fn directories_are_found_whole() {
    for _ in 0..300 {
        roles::play(&ShmThreads::default(), "looked_for_from_the_start");
    }
}

/// All ends of a job in this thread, which steps them.
fn job(size: u32, seed: u64, config: Config) -> (Network, Vec<Rsm<InProc>>) {
    let ends = Network::new(size, seed, config);
    let network = ends[0].network().clone();
    let all = ends.into_iter().map(|end| of(end.into(), 0, 0, &[])).collect();
    (network, all)
}

/// Two runs of a seed are the same, to the byte and to the nanosecond; runs of different seeds differ.
#[test]
fn a_seed_replays_exactly() {
    let run = |seed| {
        let (network, all) = job(2, seed, Config::default());
        network.record();
        let controller = main_controller(&all[0]);
        let (memory, export) = publish(&all[0], 4096, &[]);
        let import = all[1].connect(controller, 0, ID, Perm::RDWR).unwrap();
        import.set_mode(Mode::Explicit);
        let mut barrier = import.init_barrier().unwrap();
        for round in 0..20u64 {
            import.open_barrier(&mut barrier).unwrap();
            import.put(640, &[round as u8; 128]).unwrap();
            import.order_barrier(&mut barrier).unwrap();
            import.close_barrier(&mut barrier).unwrap();
            let mut back = [0; 8];
            import.get(640, &mut back).unwrap();
            assert_eq!(back, [round as u8; 8]);
            import.post(Accumulate::Yes).unwrap();
            export.wait(None).unwrap();
        }
        // Nobody posts: the time of the network passes.
        assert_eq!(
            code(export.wait(Some(Duration::from_secs(20)))),
            Some(Code::TIMEOUT)
        );
        assert!(network.now() >= Moment::from_nanos(20_000_000_000));
        drop(memory);
        (network.now(), network.arrivals())
    };
    for seed in 0..5 {
        assert!(run(seed).1.len() > 100);
        assert!(run(seed) == run(seed), "seed {seed}");
        assert!(run(seed) != run(seed + 1), "seed {seed}");
    }
}

/// Puts and gets are counted by peer, by who makes them.
#[test]
fn traffic_is_counted_by_peer() {
    let (_network, all) = job(3, 1, Config::default());
    let controller = main_controller(&all[0]);
    let (_memory, _export) = publish(&all[0], 4096, &[]);
    let import = all[1].connect(controller, 0, ID, Perm::RDWR).unwrap();
    import.set_mode(Mode::Explicit);
    import.put(640, &[1; 128]).unwrap();
    import.put_elements(8, &[2; 16], 8).unwrap();
    import.get(640, &mut [0; 8]).unwrap();
    assert!(import.put(5000, &[1]).is_err(), "refused, and not counted");
    let count = |peer, counter| all[1].fabric().counter(Peer(1), Peer(peer), counter);
    assert_eq!((count(0, Counter::Sent), count(0, Counter::SentBytes)), (2, 144));
    assert_eq!(
        (count(0, Counter::Received), count(0, Counter::ReceivedBytes)),
        (1, 8)
    );
    assert_eq!(count(2, Counter::Sent), 0);
}

/// Puts that get lost, and an owner that dies: told by the next barrier, each process its own.
#[test]
fn transport_errors_and_death() {
    for seed in 0..40 {
        let config = Config {
            put_error_every: 3,
            ..Config::default()
        };
        let (network, all) = job(3, seed, config);
        let controller = main_controller(&all[0]);
        let (memory, _export) = publish(&all[0], 4096, &[]);
        let import = all[1].connect(controller, 0, ID, Perm::RDWR).unwrap();
        let other = all[2].connect(controller, 0, ID, Perm::RDWR).unwrap();
        import.set_mode(Mode::Explicit);
        let mut barrier = import.init_barrier().unwrap();
        let (mut failed, mut fine) = (0, 0);
        for round in 0..30u64 {
            import.open_barrier(&mut barrier).unwrap();
            let word = round.to_ne_bytes();
            import.put(8, &word).unwrap();
            import.put(640, &[round as u8; 128]).unwrap();
            let ordered = code(import.order_barrier(&mut barrier));
            let closed = code(import.close_barrier(&mut barrier));
            match (ordered, closed) {
                (None, None) => {
                    fine += 1;
                    assert_eq!(memory.local().load(8), round);
                }
                (Some(Code::BARRIER_FAILURE), Some(Code::BARRIER_FAILURE)) => failed += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(failed > 0 && fine > 0, "seed {seed}");
        let report = all[1].take_error_status().unwrap();
        assert_eq!(
            (report.cause, report.node, report.count),
            (Cause::WriteTimeOut, 0, failed)
        );
        assert_eq!(all[2].take_error_status(), None);
        network.settle();
        network.kill(Peer(0));
        import.open_barrier(&mut barrier).unwrap();
        import.put(0, &[1; 64]).unwrap();
        assert_eq!(code(import.close_barrier(&mut barrier)), Some(Code::CONN_ABORTED));
        assert_eq!(code(import.post(Accumulate::Yes)), Some(Code::CONN_ABORTED));
        let waited = import.wait(Some(Duration::from_secs(20)));
        assert_eq!(code(waited), Some(Code::CONN_ABORTED));
        other.init_barrier().unwrap();
        assert_eq!(code(other.get(0, &mut [0])), Some(Code::CONN_ABORTED));
        let late = all[2].connect(controller, 0, ID, Perm::READ);
        assert_eq!(code(late), Some(Code::REMOTE_NODE_UNREACHABLE));
    }
}

/// Whatever a process writes to its directory, who reads it is not harmed.
#[test]
fn directories_may_hold_anything() {
    const DIRECTORY: SegmentId = SegmentId(0x20_0000);
    let mut rng = fastrand::Rng::with_seed(11);
    let mut refused = 0;
    for seed in 0..300 {
        let (network, all) = job(2, seed, Config::default());
        let controller = main_controller(&all[0]);
        let list = [entry(1, 0o600)];
        let (_memory, export) = publish(&all[0], 4096, if seed % 2 == 0 { &[] } else { &list });
        let directory = network.segment(Peer(0), DIRECTORY).unwrap();
        let at = *rng.choice(&[0, 8, 16, 64, 72, 80, 88, 96, 104, 65 * 64]).unwrap();
        let value = match rng.u32(0..4) {
            0 => 0,
            1 => rng.u64(..),
            2 => directory.load(at) ^ 1 << rng.u32(0..64),
            _ => u64::from(rng.u32(0..5000)),
        };
        directory.store(at, value);
        match all[1].connect(controller, 0, ID, Perm::RDWR) {
            Ok(import) => {
                import.init_barrier().unwrap();
                let _ = import.put(0, &[1; 64]);
                let _ = import.put(4000, &[1; 64]);
            }
            Err(_) => refused += 1,
        }
        network.settle();
        // The exporter is still of one mind about what is its own.
        all[0].progress();
        export.unpublish().unwrap();
    }
    assert!(refused > 50);
}

/// A signal that was on its way when its segment was withdrawn is refused and nobody's fault; of many faults the oldest are
/// told, and all are counted.
#[test]
fn late_signals_and_many_faults() {
    let mut late = 0;
    for seed in 0..20 {
        let (network, all) = job(2, seed, Config::default());
        let (_memory, export) = publish(&all[0], 4096, &[]);
        let import = all[1]
            .connect(main_controller(&all[1]), 0, ID, Perm::RDWR)
            .unwrap();
        network.settle();
        assert_eq!(export.importers(), [1]);
        import.post(Accumulate::Yes).unwrap();
        export.unpublish().unwrap();
        network.settle();
        all[0].progress();
        let taken = u64::from(export.try_wait().unwrap());
        late += all[0].refused().late;
        assert_eq!(
            (all[0].refused().late, all[0].refused().strangers),
            (1 - taken, 0)
        );
        assert_eq!(all[0].next_fault(), None);
        for number in 0..100u8 {
            let malformed = [number, 9, 9];
            while all[1]
                .fabric()
                .try_send(Peer(0), Port::Rsm, Priority::High, &malformed)
                != TrySend::Sent
            {
                network.settle();
                all[0].progress();
            }
        }
        network.settle();
        all[0].progress();
        assert_eq!(all[0].refused().malformed, 100);
        let told: Vec<String> = std::iter::from_fn(|| all[0].next_fault())
            .map(|fault| fault.error.to_string())
            .collect();
        assert_eq!(told.len(), 64);
        for (number, sentence) in told.iter().enumerate() {
            let wanted = format!("process 1 wrote {:#x} ", 0x09_0900 + number);
            assert!(sentence.contains(&wanted), "{sentence}: {wanted}");
        }
    }
    assert!(late > 0);
}

/// As many connections as are promised, to one segment and of one process, are all in the exporter's table; one more is refused, and there is room
/// for as many as were ended.
#[test]
fn as_many_connections_as_promised() {
    const MOST: usize = 65535;
    let ends = Network::new(3, 3, Config::default());
    let network = ends[0].network().clone();
    // A short directory: each connection reads all of it.
    let tunables = RsmTunables { segments: 1 };
    let all: Vec<_> = (ends.into_iter())
        .map(|end| {
            Rsm::new(
                end.into(),
                Identity::default(),
                &tunables,
                &WaitTunables::default(),
            )
        })
        .collect();
    let controller = main_controller(&all[0]);
    assert_eq!(all[1].attributes(controller).max_import_segments, MOST);
    let (memory, export) = publish(&all[0], 4096, &[]);
    let connect = |node: usize| all[node].connect(controller, 0, ID, Perm::RDWR);
    let settle = || {
        network.settle();
        all[0].progress();
    };
    let connect_and_look = |number: usize| {
        // Before the exporter's queue is full.
        if number.is_multiple_of(8) {
            settle();
        }
        connect(1).unwrap()
    };
    let mut imports: Vec<_> = (0..MOST).map(connect_and_look).collect();
    settle();
    assert_eq!(export.importers().len(), MOST);
    let refused = connect(1).err().unwrap();
    assert_eq!(refused.code, Code::INSUFFICIENT_RESOURCES);
    assert!(refused.message.contains("65535"), "{}", refused.message);
    let other = connect(2).unwrap();
    // The last one is as good as the first.
    imports[MOST - 1].set_mode(Mode::Explicit);
    imports[MOST - 1].put(8, &7u64.to_ne_bytes()).unwrap();
    imports[MOST - 1].post(Accumulate::Yes).unwrap();
    network.settle();
    assert!(export.try_wait().unwrap());
    assert_eq!(memory.local().load(8), 7);
    imports.swap_remove(MOST / 2).disconnect().unwrap();
    imports.push(connect(1).unwrap());
    settle();
    assert_eq!(
        (export.importers().len(), all[0].refused().strangers),
        (MOST + 1, 0)
    );
    // Each learns of the end by itself.
    export.unpublish().unwrap();
    for node in [1, 2] {
        while {
            network.settle();
            all[node].progress() | all[0].progress() | all[0].owes()
        } {}
    }
    assert!(imports.iter().all(|import| import.is_aborted()) && other.is_aborted());
}

/// What is got is copied by who asks for it, and charged once: by the exact clock of the in-process fabric, on which nothing else costs as much.
#[test]
fn who_gets_is_charged_for_the_bytes() {
    const UNIT: u64 = 1_000_000_000;
    let config = Config {
        costs: Costs {
            byte: 1000 * UNIT,
            poll: 0,
            store: 0,
            entry: 0,
            trap: 0,
            work: 0,
        },
        ..Config::default()
    };
    let (_, all) = job(2, 7, config);
    let controller = main_controller(&all[0]);
    let (_memory, _export) = publish(&all[0], 4096, &[]);
    let import = all[1].connect(controller, 0, ID, Perm::RDWR).unwrap();
    import.set_mode(Mode::Explicit);
    let charged = |work: &mut dyn FnMut()| {
        let start = all[1].fabric().now();
        work();
        (all[1].fabric().now() - start).as_nanos() as u64 / UNIT
    };
    let mut got = [0; 1000];
    assert_eq!(charged(&mut || import.get(64, &mut got).unwrap()), 1000);
    assert_eq!(
        charged(&mut || import.get_elements(64, &mut [0; 16], 8).unwrap()),
        16
    );
    // The fabric is called for the stores of a put, and charges them itself.
    assert_eq!(charged(&mut || import.put(64, &[1; 1000]).unwrap()), 0);
}
