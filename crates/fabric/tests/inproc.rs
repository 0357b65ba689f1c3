//! What is particular to the in-process fabric: it replays, it really does reorder, and it breaks on demand.
#![cfg(not(loom))]

use farpost_fabric::inproc::{Config, InProc, Network};
use farpost_fabric::{
    Access, BulkTransfer, Completion, Descriptor, Direction, ErrorStatus, FabricError, Interrupt,
    LocalMemory, Moment, PacketQueue, Peer, Permission, Port, Priority, Remote, RemoteMemory, Route,
    SegmentId, TrySend, Wake,
};
use std::time::Duration;

const A: Peer = Peer(0);
const B: Peer = Peer(1);
const ID: SegmentId = SegmentId(1);
const EVERYONE: Access = Access::Everyone(Permission::ReadWrite);

fn pair(seed: u64, config: &Config) -> (InProc, InProc) {
    let mut ends = Network::new(2, seed, config.clone()).into_iter();
    (ends.next().unwrap(), ends.next().unwrap())
}

/// What B's memory looks like step by step while A's puts and packets arrive.
fn trace(seed: u64) -> Vec<(Moment, Vec<u8>, Option<Vec<u8>>)> {
    let (a, b) = pair(seed, &Config::default());
    let segment = b.export(ID, 256, EVERYONE).unwrap();
    let import = a.import(B, ID, 256, Permission::ReadWrite).unwrap();
    for i in 0..6u8 {
        import.put(usize::from(i) * 40, &[i + 1; 40]).unwrap();
        let _ = a.try_send(B, Port::Fm, Priority::Low, &[i]);
        a.wake(B);
    }
    let mut trace = Vec::new();
    let mut more = true;
    while more {
        more = a.network().step();
        let mut bytes = vec![0; 256];
        segment.read(0, &mut bytes);
        let mut packet = None;
        b.poll_packet(Port::Fm, |_, _, p| packet = Some(p.to_vec()));
        trace.push((a.network().now(), bytes, packet));
    }
    trace
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..20 {
        assert_eq!(trace(seed), trace(seed));
    }
    assert_ne!(trace(1), trace(2));
}

/// In how many of a hundred runs twenty packets, `route` says by which route each, arrive in another order than theirs.
fn overtaken(route: impl Fn(u8) -> Route) -> usize {
    let runs = (0..100).filter(|seed| {
        let config = Config {
            queue_packets: 32,
            full_every: 0,
            ..Config::default()
        };
        let (a, b) = pair(*seed, &config);
        for number in 0..20 {
            let sent = a.try_send_by(route(number), B, Port::Jam, Priority::Low, &[number]);
            assert_eq!(sent, TrySend::Sent);
        }
        a.network().settle();
        let mut order = Vec::new();
        while b.poll_packet(Port::Jam, |_, _, bytes| order.push(bytes[0])) {}
        let sorted = order.is_sorted();
        order.sort_unstable();
        assert!(order.into_iter().eq(0..20));
        !sorted
    });
    runs.count()
}

#[test]
fn packets_keep_the_order_of_their_route_only() {
    assert_eq!(overtaken(|_| Route::Fixed(5)), 0);
    let (random, two) = (
        overtaken(|_| Route::Random),
        overtaken(|number| Route::Fixed(number % 2)),
    );
    assert!(random > 90 && two > 90, "{random} and {two} of 100");
}

#[test]
fn puts_overtake_each_other_until_a_fence() {
    let (mut overtaken, mut torn, mut old_wins) = (0, 0, 0);
    for seed in 0..200 {
        let (a, b) = pair(seed, &Config::default());
        let segment = b.export(ID, 256, EVERYONE).unwrap();
        let import = a.import(B, ID, 256, Permission::ReadWrite).unwrap();
        import.put(64, &[7; 100]).unwrap();
        import.put_word(0, 1).unwrap();
        while segment.load(0) == 0 {
            a.network().step();
        }
        let mut bytes = [0; 100];
        segment.read(64, &mut bytes);
        let there = bytes.iter().filter(|b| **b == 7).count();
        overtaken += u32::from(there < 100);
        torn += u32::from((1..100).contains(&there));
        import.fence().unwrap();
        segment.read(64, &mut bytes);
        assert_eq!(bytes, [7; 100]);
        import.put_word(8, 1).unwrap();
        import.put_word(8, 2).unwrap();
        import.fence().unwrap();
        old_wins += u32::from(segment.load(8) == 1);
        // A fence in between keeps their order.
        import.put_word(16, 1).unwrap();
        import.fence().unwrap();
        import.put_word(16, 2).unwrap();
        import.fence().unwrap();
        assert_eq!(segment.load(16), 2);
    }
    assert!(
        overtaken > 20 && torn > 20 && old_wins > 20,
        "{overtaken} {torn} {old_wins}"
    );
}

#[test]
fn a_lost_put_is_reported_by_the_next_fence_of_its_import() {
    let config = Config {
        put_error_every: 1,
        ..Config::default()
    };
    let (a, b) = pair(3, &config);
    let _segment = b.export(ID, 256, EVERYONE).unwrap();
    let first = a.import(B, ID, 256, Permission::ReadWrite).unwrap();
    let second = a.import(B, ID, 256, Permission::ReadWrite).unwrap();
    first.put(0, &[1; 200]).unwrap();
    assert_eq!(second.fence(), Ok(()));
    let error = first.fence().unwrap_err();
    assert!(matches!(error, FabricError::PutFailed { peer: B, .. }), "{error}");
    assert_eq!(first.fence(), Ok(()));
}

#[test]
fn the_dead_do_not_answer() {
    let (a, b) = pair(4, &Config::default());
    let segment = b.export(ID, 256, EVERYONE).unwrap();
    let import = a.import(B, ID, 256, Permission::ReadWrite).unwrap();
    let mut bytes = [0u8; 8];
    let descriptor = Descriptor {
        peer: B,
        direction: Direction::Get,
        local: bytes.as_mut_ptr().expose_provenance(),
        remote: bytes.as_mut_ptr().expose_provenance(),
        len: 8,
        key: 0,
    };
    // SAFETY: `bytes` outlives the transfer.
    let Ok(Completion::Pending(ticket)) = (unsafe { a.submit(&descriptor) }) else {
        panic!("no transfer");
    };
    import.put(0, &[1; 200]).unwrap();
    a.network().kill(B);
    let mut before = [0; 200];
    segment.read(0, &mut before);
    let dead = |error: Option<FabricError>| {
        assert!(
            matches!(error, Some(FabricError::PeerDead { peer: B, .. })),
            "{error:?}"
        );
    };
    dead(a.poll_transfer(ticket).err());
    dead(import.fence().err());
    dead(import.get(0, &mut [0; 8]).err());
    dead(a.import(B, ID, 8, Permission::Read).err());
    // SAFETY: as above.
    dead(unsafe { a.submit(&descriptor) }.err());
    import.put(0, &[2; 200]).unwrap();
    for _ in 0..50 {
        assert_eq!(a.try_send(B, Port::Fm, Priority::High, b"x"), TrySend::Sent);
    }
    a.wake(B);
    a.network().settle();
    assert!(!b.poll_packet(Port::Fm, |_, _, _| ()));
    let mut after = [0; 200];
    segment.read(0, &mut after);
    assert_eq!(before, after);
    let (faults, _) = a.take_faults();
    assert_eq!(faults.len(), 50);
    dead(Some(faults[0].error.clone()));
}

#[test]
fn an_interrupt_comes_after_what_was_put() {
    for seed in 0..100 {
        let (a, b) = pair(seed, &Config::default());
        let segment = b.export(ID, 256, EVERYONE).unwrap();
        let import = a.import(B, ID, 256, Permission::ReadWrite).unwrap();
        import.put(0, &[9; 200]).unwrap();
        a.wake(B);
        // Already arrived, or on its way: never lost, never early.
        let wake = b.sleep(Duration::from_secs(1), &mut || {
            let mut bytes = [0; 200];
            segment.read(0, &mut bytes);
            bytes == [9; 200]
        });
        let mut bytes = [0; 200];
        segment.read(0, &mut bytes);
        assert_eq!(bytes, [9; 200], "{wake:?}");
        // Nobody rings any more: this ends at once.
        let idle = b.sleep(Duration::from_secs(1000), &mut || false);
        assert_ne!(idle, Wake::Ready);
    }
}

#[test]
fn segments_are_found_from_outside() {
    let (a, b) = pair(1, &Config::default());
    let segment = b.export(ID, 64, EVERYONE).unwrap();
    assert_eq!(a.network().published(B), [ID]);
    assert_eq!(a.network().published(A), []);
    assert!(a.network().segment(A, ID).is_none());
    a.network().segment(B, ID).unwrap().store(0, 5);
    assert_eq!(segment.load(0), 5);
}
