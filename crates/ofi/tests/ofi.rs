//! The libfabric fabric over loopback, with the providers and libraries that are there. Skips loudly without
//! the library.
#![cfg(not(loom))]

use farpost_fabric::conformance::run_all;
use farpost_fabric::{
    Access, BulkTransfer, Completion, Descriptor, Direction, ErrorStatus, Fabric, FabricError, LocalMemory,
    PacketQueue, Peer, Permission, Port, Priority, Remote, RemoteMemory, SegmentId, TrySend,
};
use farpost_net::NetConfig;
use farpost_net::conformance::SharedBook;
use farpost_ofi::conformance::OfiThreads;
use farpost_ofi::{Listening, Ofi};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The system's library, or those named in `FARPOST_TEST_OFI_LIBRARIES` (paths separated by colons).
fn libraries() -> Vec<Option<PathBuf>> {
    let more = std::env::var_os("FARPOST_TEST_OFI_LIBRARIES").unwrap_or_default();
    let more = std::env::split_paths(&more).filter(|p| !p.as_os_str().is_empty());
    let named: Vec<_> = more.map(Some).collect();
    if named.is_empty() { vec![None] } else { named }
}

/// Run `test` with every library that has `provider`.
fn with_each(provider: &str, test: impl Fn(&OfiThreads)) {
    let mut some = false;
    for library in libraries() {
        let name = library
            .as_ref()
            .map_or("the system's libfabric".into(), |p| p.display().to_string());
        let harness = OfiThreads::over_loopback(provider, library);
        match harness.endpoint((0, 1), &SharedBook::default()) {
            Ok(_) => {
                eprintln!("{provider} of {name}");
                some = true;
                test(&harness);
            }
            Err(error) => farpost_testing::not_here(&format!("{provider} of {name}: {error}")),
        }
    }
    // Which providers the libraries of other packages bring is not ours to say.
    let named = std::env::var_os("FARPOST_TEST_OFI_LIBRARIES").is_some();
    match (some, named) {
        (true, _) => (),
        (false, true) => farpost_testing::not_here(&format!("none of the libraries has provider {provider}")),
        (false, false) => farpost_testing::skipped(&format!(
            "nothing was tested with provider {provider}: install libfabric1"
        )),
    }
}

const NOT_SHARED: [&str; 3] = ["memory::mapped", "memory::common", "zcopy::follow_their_lines"];

#[test]
fn tcp() {
    with_each("tcp", |harness| run_all(harness, &NOT_SHARED));
}

#[test]
fn tcp_with_the_rxm_layer() {
    with_each("tcp;ofi_rxm", |harness| run_all(harness, &NOT_SHARED));
}

/// The provider that became `tcp` in later versions.
#[test]
fn net() {
    with_each("net", |harness| run_all(harness, &NOT_SHARED));
}

/// What providers on adapters ask for: buffers and user memory registered. And few small buffers.
#[test]
fn with_registered_memory() {
    with_each("tcp", |harness| {
        let mut harness = harness.clone();
        harness.tunables.register = 1;
        harness.tunables.message = 1024;
        harness.tunables.receives = 4;
        // Peers that merely wait are probed too, and live on.
        harness.tunables.probe = 10;
        run_all(&harness, &NOT_SHARED);
    });
}

/// Messages that `ofi_rxm` sends in several steps are overtaken by those that it buffers, and none of it is seen.
#[test]
fn messages_that_overtake_others() {
    const LEN: usize = 200_000;
    with_each("tcp;ofi_rxm", |harness| {
        let mut harness = harness.clone();
        harness.tunables.message = 256 << 10;
        let [a, b] = pair(&harness, [[7; 32]; 2]);
        let everyone = Access::Everyone(Permission::ReadWrite);
        let segment = b.export(SegmentId(1), 2 * LEN, everyone).unwrap();
        assert_eq!(
            b.try_send(Peer(0), Port::Fm, Priority::High, b"here I am"),
            TrySend::Sent
        );
        until([&a, &b], "a packet", || a.poll_packet(Port::Fm, |_, _, _| ()));
        let import = a
            .import(Peer(1), SegmentId(1), 2 * LEN, Permission::ReadWrite)
            .unwrap();
        for round in 1..=20u8 {
            import.put(64, &vec![round; LEN]).unwrap();
            import.put_word(0, round.into()).unwrap();
            until([&a, &b], "a word", || {
                assert!(!a.faulted() && !b.faulted());
                segment.load(0) == round.into()
            });
            let mut bytes = vec![0; LEN];
            segment.read(64, &mut bytes);
            assert!(bytes.iter().all(|byte| *byte == round), "round {round}");
        }
    });
}

/// Two endpoints of this thread, with these tunables and secrets.
fn pair(harness: &OfiThreads, secrets: [[u8; 32]; 2]) -> [Ofi; 2] {
    let book = SharedBook::default();
    let listening = [0, 1].map(|index| {
        let one = Listening::open(&harness.options, harness.tunables.clone()).unwrap();
        book.publish(Peer(index), one.card().to_vec());
        one
    });
    let mut index = 0;
    listening.map(|one| {
        index += 1;
        one.start(NetConfig {
            me: Peer(index - 1),
            size: 2,
            host_of: [0, 1].into(),
            cores: 1,
            processes: 1,
            secret: secrets[index as usize - 1],
            book: Box::new(book.clone()),
        })
        .unwrap()
    })
}

/// Progress of both until `done`.
fn until(ends: [&Ofi; 2], what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        ends.iter().for_each(|end| {
            end.progress();
        });
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "waited too long for {what}"
        );
    }
}

/// Anonymous memory, at `address` if that is not null and nobody has taken it meanwhile, filled with `byte`.
fn map(address: *mut libc::c_void, len: usize, byte: u8) -> *mut libc::c_void {
    let fixed = if address.is_null() {
        0
    } else {
        libc::MAP_FIXED_NOREPLACE
    };
    // SAFETY: a fresh mapping; with an address, only where nothing is mapped.
    unsafe {
        let at = libc::mmap(
            address,
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed,
            -1,
            0,
        );
        if at == libc::MAP_FAILED && fixed != 0 {
            return map(std::ptr::null_mut(), len, byte);
        }
        assert_ne!(at, libc::MAP_FAILED);
        libc::memset(at, byte.into(), len);
        at
    }
}

/// Memory that is unmapped and mapped again at the same address is the new memory, at both ends of a transfer.
/// With offsets and with addresses (`shm`) as positions, and with local memory registered.
#[test]
fn remapped_memory_is_the_new_memory() {
    with_each("tcp", remapped);
    with_each("shm", remapped);
    with_each("tcp", |harness| {
        let mut harness = harness.clone();
        harness.tunables.register = 1;
        remapped(&harness);
    });
}

fn remapped(harness: &OfiThreads) {
    const LEN: usize = 1 << 20;
    let [a, b] = &pair(harness, [[7; 32]; 2]);
    let (mut places, mut again) = ([std::ptr::null_mut(); 2], false);
    // Tests beside this one may take a place between two rounds.
    for round in 1..=5u8 {
        let [source, target] = places.map(|at| map(at, LEN, 0));
        again |= [source, target] == places;
        places = [source, target];
        // SAFETY: mapped above, `LEN` bytes.
        unsafe { libc::memset(source, round.into(), LEN) };
        let address = source.expose_provenance();
        // SAFETY: mapped until after it is withdrawn.
        let key = unsafe { a.expose(Peer(1), address, LEN, true) }.unwrap();
        let what = Descriptor {
            peer: Peer(0),
            direction: if round % 2 == 1 {
                Direction::Get
            } else {
                Direction::Put
            },
            local: target.expose_provenance(),
            remote: a.exposed_base(Peer(1), address) as usize,
            key,
            len: LEN,
        };
        // SAFETY: mapped until after the completion.
        let Completion::Pending(ticket) = (unsafe { b.submit(&what) }).unwrap() else {
            panic!("too quick");
        };
        until([a, b], "a transfer", || b.poll_transfer(ticket).unwrap());
        a.withdraw(key);
        let moved = if round % 2 == 1 {
            (target, round)
        } else {
            (source, 0)
        };
        // SAFETY: mapped, `LEN` bytes, and nobody writes any more.
        let bytes = unsafe { std::slice::from_raw_parts(moved.0.cast::<u8>(), LEN) };
        assert!(bytes.iter().all(|byte| *byte == moved.1), "round {round}");
        for at in places {
            // SAFETY: mapped above; nothing refers to it any more.
            unsafe { libc::munmap(at, LEN) };
        }
    }
    assert!(again, "somebody takes the places every time");
}

/// A process that goes is noticed by who has something for it, and later puts fail at once.
#[test]
fn a_peer_that_goes_is_given_up() {
    for provider in ["tcp", "tcp;ofi_rxm"] {
        with_each(provider, |harness| {
            let mut harness = harness.clone();
            harness.tunables.probe = 50;
            harness.tunables.gone = 2000;
            let [a, b] = pair(&harness, [[7; 32]; 2]);
            let everyone = Access::Everyone(Permission::ReadWrite);
            let segment = b.export(SegmentId(1), 4096, everyone).unwrap();
            // The segment is announced with the packet.
            assert_eq!(
                b.try_send(Peer(0), Port::Fm, Priority::High, b"here I am"),
                TrySend::Sent
            );
            until([&a, &b], "a packet", || a.poll_packet(Port::Fm, |_, _, _| ()));
            let import = a
                .import(Peer(1), SegmentId(1), 4096, Permission::ReadWrite)
                .unwrap();
            import.put_line(64, &[5; 8]).unwrap();
            until([&a, &b], "a line", || segment.load(64) == 5);
            drop(b);
            let began = Instant::now();
            let mut word = 0;
            while !a.faulted() {
                word += 1;
                let _ = import.put_word(128, word);
                a.progress();
                std::thread::sleep(Duration::from_millis(1));
                assert!(
                    began.elapsed() < Duration::from_secs(60),
                    "the peer's end was not noticed"
                );
            }
            let (faults, _) = a.take_faults();
            let is_dead = |error: &FabricError| matches!(error, FabricError::PeerDead { peer: Peer(1), .. });
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(is_dead(&faults[0].error), "{faults:?}");
            assert!(is_dead(&import.put_line(0, &[1; 8]).unwrap_err()));
            assert!(is_dead(&import.fence().unwrap_err()));
            assert!(!a.can_transfer(Peer(1)) && !a.faulted());
            assert_eq!(
                a.try_send(Peer(1), Port::Fm, Priority::Low, b"gone"),
                TrySend::Sent
            );
            eprintln!("{provider}: {}", faults[0].error);
        });
    }
}

/// A process with another secret changes nothing and learns nothing; the others are not disturbed.
#[test]
fn another_secret_is_a_stranger() {
    with_each("tcp", |harness| {
        let mut harness = harness.clone();
        harness.tunables.answer = 300;
        let [a, b] = pair(&harness, [[7; 32], [8; 32]]);
        let everyone = Access::Everyone(Permission::ReadWrite);
        let segment = a.export(SegmentId(1), 4096, everyone).unwrap();
        assert_eq!(
            b.try_send(Peer(0), Port::Fm, Priority::High, b"let me in"),
            TrySend::Sent
        );
        until([&a, &b], "the stranger", || a.strangers() > 0);
        assert!(!a.poll_packet(Port::Fm, |_, _, _| ()));
        // Its questions stay without answer too.
        let refused = b.import(Peer(0), SegmentId(1), 4096, Permission::ReadWrite);
        assert!(matches!(refused.err(), Some(FabricError::Unsupported { .. })));
        until([&a, &b], "the stranger's question", || a.strangers() > 1);
        assert_eq!(segment.load(0), 0);
        assert_eq!(a.take_faults(), (vec![], 0));
    });
}

/// Memory that peers have written to goes back to the system when its owner says so, and takes what is put there later.
#[test]
fn memory_of_a_segment_is_given_back() {
    with_each("tcp", |harness| {
        const LEN: usize = 64 << 10;
        let [a, b] = &pair(harness, [[7; 32]; 2]);
        let id = SegmentId(5);
        let segment = a
            .export(id, LEN, Access::Everyone(Permission::ReadWrite))
            .unwrap();
        assert_eq!(a.try_send(Peer(1), Port::Fm, Priority::Low, b"x"), TrySend::Sent);
        until([a, b], "a packet", || {
            b.poll_priority(Port::Fm, Priority::Low, |_, _| ())
        });
        let far = b.import(Peer(0), id, LEN, Permission::ReadWrite).unwrap();
        assert!(a.gives_back(Peer(1)));
        for round in 1..4u8 {
            (0..LEN)
                .step_by(4096)
                .for_each(|at| far.put(at, &[round; 4096]).unwrap());
            let mut bytes = vec![0; LEN];
            until([a, b], "puts", || {
                segment.read(0, &mut bytes);
                bytes.iter().all(|byte| *byte == round)
            });
            a.give_back(Peer(1), &segment, 0..LEN);
            segment.read(0, &mut bytes);
            assert!(bytes.iter().all(|byte| *byte == 0), "its pages are as new");
        }
    });
}
