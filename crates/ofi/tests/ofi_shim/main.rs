//! The libfabric fabric on providers of adapters, played by a library of our own (`shim.c`) over the real one's tcp provider. Skips
//! loudly without a compiler, the headers or the library.
//!
//! `shim.c` makes the demands and takes the liberties of verbs, efa (with and without its own protocols), cxi, psm3 and opx, as their sources
//! state them: local descriptors, registrations bound and enabled, keys chosen by the provider, virtual addresses, contexts, small limits,
//! refusals, completions that overtake each other, errors. What a caller may not do is counted and fails the test. Where a provider pins, a
//! registration holds on to its pages (in a pipe), so that one kept beyond its mapping is seen.
#![cfg(not(loom))]

mod build;

use build::{Shim, build, libraries};
use farpost_fabric::conformance::run_all;
use farpost_fabric::{
    BulkTransfer, Completion, Descriptor, Direction, ErrorStatus, Fabric, FabricError, PacketQueue, Peer,
    Port, Priority,
};
use farpost_net::conformance::SharedBook;
use farpost_ofi::Ofi;
use farpost_ofi::conformance::OfiThreads;
use std::time::{Duration, Instant};

const NOT_SHARED: [&str; 3] = ["memory::mapped", "memory::common", "zcopy::follow_their_lines"];

/// Run `test` with `provider` over every library there is. Nothing may be violated or left registered.
fn play(provider: &'static str, test: impl Fn(&OfiThreads, &Shim)) {
    for real in libraries() {
        let mut works = false;
        let shim = build(provider, &real, |path| {
            let harness = OfiThreads::over_loopback(provider, Some(path.clone()));
            match harness.endpoint((0, 1), &SharedBook::default()) {
                Ok(_) => works = true,
                Err(error) => {
                    farpost_testing::skipped(&format!("{provider} over {}: {error}", real.display()))
                }
            }
        });
        let Some(shim) = shim.filter(|_| works) else {
            continue;
        };
        let harness = OfiThreads::over_loopback(provider, Some(shim.path.clone()));
        test(&harness, &shim);
        let counts = shim.counts();
        eprintln!("{provider} over {}: {counts:?}", real.display());
        assert_eq!(counts.violations, 0, "{provider}");
        assert_eq!(counts.alive, 0, "{provider}: registrations are left");
    }
}

fn conforms(provider: &'static str) {
    play(provider, |harness, shim| {
        run_all(harness, &NOT_SHARED);
        assert!(shim.counts().transfers > 0);
    });
}

#[test]
fn verbs() {
    conforms("verbs;ofi_rxm");
}

#[test]
fn efa() {
    conforms("efa");
}

#[test]
fn efa_direct() {
    conforms("efa-direct");
}

#[test]
fn cxi() {
    conforms("cxi");
}

#[test]
fn psm3() {
    conforms("psm3");
}

#[test]
fn opx() {
    conforms("opx");
}

#[test]
fn narrow() {
    conforms("narrow");
}

/// Two endpoints of this thread.
fn pair(harness: &OfiThreads) -> [Ofi; 2] {
    let book = SharedBook::default();
    [0, 1].map(|index| harness.endpoint((index, 2), &book).unwrap())
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

/// Transfer `local` to or from `remote` of the other end, whose key and position are given, and its outcome.
fn transfer(
    ends: [&Ofi; 2],
    direction: Direction,
    (local, len): (*mut u8, usize),
    (remote, key): (u64, u64),
) -> Result<(), FabricError> {
    let what = Descriptor {
        peer: Peer(0),
        direction,
        local: local.expose_provenance(),
        remote: remote as usize,
        key,
        len,
    };
    // SAFETY: callers keep the memory until the completion, which is waited for.
    let Completion::Pending(ticket) = (unsafe { ends[1].submit(&what) })? else {
        panic!("too quick");
    };
    let mut outcome = Ok(false);
    until(ends, "a transfer", || {
        outcome = ends[1].poll_transfer(ticket);
        outcome != Ok(false)
    });
    outcome.map(|_| ())
}

/// Memory that is unmapped and mapped anew at the same address is the new memory at both ends of a transfer, where a registration
/// is the pages of its moment.
#[test]
fn remapped_memory_is_the_new_memory() {
    const LEN: usize = 1 << 18;
    for provider in ["verbs;ofi_rxm", "cxi", "narrow"] {
        play(provider, |harness, shim| {
            let [a, b] = &pair(harness);
            let mut places = [std::ptr::null_mut(); 2];
            let before = shim.counts().registrations;
            for round in 1..=5u8 {
                places = places.map(|at| map(at, LEN));
                let [source, target] = places;
                // SAFETY: mapped above, `LEN` bytes.
                unsafe { source.write_bytes(round, LEN) };
                let address = source.expose_provenance();
                // SAFETY: mapped until after it is withdrawn.
                let key = unsafe { a.expose(Peer(1), address, LEN, round == 5) }.unwrap();
                let there = (a.exposed_base(Peer(1), address), key);
                let direction = if round == 5 {
                    Direction::Put
                } else {
                    Direction::Get
                };
                transfer([a, b], direction, (target, LEN), there).unwrap();
                a.withdraw(key);
                let (moved, byte) = if round == 5 { (source, 0) } else { (target, round) };
                // SAFETY: mapped, `LEN` bytes, and nobody writes any more.
                let bytes = unsafe { std::slice::from_raw_parts(moved, LEN) };
                assert!(bytes.iter().all(|b| *b == byte), "round {round}");
                for at in places {
                    // SAFETY: mapped above; nothing refers to it any more.
                    unsafe { libc::munmap(at.cast(), LEN) };
                }
            }
            let each = (shim.counts().registrations - before) as f64 / 5.0;
            eprintln!("{provider}: {each} registrations per transfer");
        });
    }
}

/// Anonymous memory, at `address` if it is not null.
fn map(address: *mut u8, len: usize) -> *mut u8 {
    let fixed = if address.is_null() {
        0
    } else {
        libc::MAP_FIXED_NOREPLACE
    };
    // SAFETY: a fresh mapping; with an address, only where nothing is mapped.
    unsafe {
        let at = libc::mmap(
            address.cast(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed,
            -1,
            0,
        );
        assert_ne!(at, libc::MAP_FAILED);
        at.cast()
    }
}

/// The watch over stale registrations sees one: memory mapped anew under an exposure that was not withdrawn.
#[test]
fn a_stale_registration_is_seen() {
    const LEN: usize = 1 << 16;
    let real = &libraries()[0];
    let mut works = false;
    let Some(shim) = build("cxi", real, |path| {
        let harness = OfiThreads::over_loopback("cxi", Some(path.clone()));
        works = harness.endpoint((0, 1), &SharedBook::default()).is_ok();
    }) else {
        return;
    };
    if !works {
        return farpost_testing::skipped(&format!("cxi over {}", real.display()));
    }
    let [a, b] = &pair(&OfiThreads::over_loopback("cxi", Some(shim.path.clone())));
    let (source, target) = (map(std::ptr::null_mut(), LEN), map(std::ptr::null_mut(), LEN));
    // SAFETY: mapped above, `LEN` bytes.
    unsafe { source.write_bytes(1, LEN) };
    let address = source.expose_provenance();
    // SAFETY: it stays mapped, though with other pages, until it is withdrawn.
    let key = unsafe { a.expose(Peer(1), address, LEN, false) }.unwrap();
    let there = (a.exposed_base(Peer(1), address), key);
    transfer([a, b], Direction::Get, (target, LEN), there).unwrap();
    assert_eq!(shim.counts().violations, 0);
    // SAFETY: mapped above; nothing refers to it but the registration.
    unsafe { libc::munmap(source.cast(), LEN) };
    // SAFETY: mapped by this call.
    unsafe { map(source, LEN).write_bytes(2, LEN) };
    let _ = transfer([a, b], Direction::Get, (target, LEN), there);
    assert!(shim.counts().violations > 0);
    a.withdraw(key);
    for at in [source, target] {
        // SAFETY: mapped above; nothing refers to it any more.
        unsafe { libc::munmap(at.cast(), LEN) };
    }
}

/// Memory exposed to several peers at once is registered once, and withdrawn when the last is done with it.
#[test]
fn memory_exposed_twice_is_registered_once() {
    play("cxi", |harness, shim| {
        let [a, b] = &pair(harness);
        let mut memory = vec![3u8; 100_000];
        let mut here = vec![0u8; memory.len()];
        let (address, len) = (memory.as_mut_ptr().expose_provenance(), memory.len());
        let before = shim.counts().registrations;
        // SAFETY: the memory lives until it is withdrawn, for each of them, and is not written to meanwhile.
        let keys = [(); 3].map(|()| unsafe { a.expose(Peer(1), address, len, false) }.unwrap());
        assert_eq!(shim.counts().registrations - before, 1);
        let there = |key| (a.exposed_base(Peer(1), address), key);
        for (i, key) in keys.into_iter().enumerate() {
            here.fill(0);
            transfer([a, b], Direction::Get, (here.as_mut_ptr(), len), there(key)).unwrap();
            assert!(std::hint::black_box(&here) == &memory, "{i}");
            a.withdraw(key);
        }
        // Another length, another use: another registration, and nothing of the first is left.
        let before = shim.counts().registrations;
        // SAFETY: as above; written to by nobody.
        let keys = [(len, false), (len - 1, false), (len, true)]
            .map(|(len, writable)| unsafe { a.expose(Peer(1), address, len, writable) }.unwrap());
        assert_eq!(shim.counts().registrations - before, 3);
        keys.into_iter().for_each(|key| a.withdraw(key));
    });
}

/// Transfers whose completions are errors fail with the peer's number and the provider's words; the peer stays.
#[test]
fn a_transfer_that_fails_says_so() {
    play("failing", |harness, shim| {
        let [a, b] = &pair(harness);
        let mut memory = vec![3u8; 100_000];
        let (address, len) = (memory.as_mut_ptr().expose_provenance(), memory.len());
        // SAFETY: the memory lives until it is withdrawn.
        let key = unsafe { a.expose(Peer(1), address, len, false) }.unwrap();
        let there = (a.exposed_base(Peer(1), address), key);
        let mut here = vec![0u8; len];
        let mut failed = 0;
        for _ in 0..6 {
            match transfer([a, b], Direction::Get, (here.as_mut_ptr(), len), there) {
                Ok(()) => assert_eq!(failed, 0),
                Err(FabricError::PutFailed { peer: Peer(0), why }) => {
                    assert!(why.contains("failing"), "{why}");
                    failed += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!((failed, shim.counts().failed), (3, 3));
        assert!(b.can_transfer(Peer(0)) && !b.faulted());
        a.withdraw(key);
    });
}

/// A message that the provider could not deliver is the end of the peer: what was lost does not come again.
#[test]
fn a_message_that_fails_ends_the_peer() {
    play("losing", |harness, _| {
        let [a, b] = pair(harness);
        let began = Instant::now();
        while !a.faulted() {
            let _ = a.try_send(Peer(1), Port::Fm, Priority::Low, b"some packet");
            a.progress();
            while b.poll_packet(Port::Fm, |_, _, _| ()) {}
            b.progress();
            assert!(began.elapsed() < Duration::from_secs(60), "nothing was lost");
        }
        let (faults, _) = a.take_faults();
        let [fault] = &faults[..] else {
            panic!("{faults:?}")
        };
        let FabricError::PeerDead { peer: Peer(1), why } = &fault.error else {
            panic!("{}", fault.error)
        };
        assert!(why.contains("losing could not deliver"), "{why}");
        assert!(!a.can_transfer(Peer(1)));
    });
}
