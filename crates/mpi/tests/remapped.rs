//! Messages from and into memory that is unmapped and mapped again at the same address: within a host, over TCP, and over libfabric,
//! the last also with providers of adapters (a library of the fabric's tests plays them), where a registration is the pages
//! of its moment. And messages of every size over those providers.

#[path = "../../ofi/tests/ofi_shim/build.rs"]
mod build;
#[path = "common/hosts.rs"]
mod hosts;

use farpost_fabric::Fabric;
use farpost_mpi::buffer::{RecvBuf, SendBuf};
use farpost_mpi::datatype::Datatype;
use farpost_mpi::p2p::Mode;
use farpost_mpi::world::{World, WorldConfig};
use farpost_net::conformance::SharedBook;
use farpost_ofi::Ofi;
use farpost_ofi::conformance::OfiThreads;
use std::sync::Barrier;
use std::time::Duration;

/// What hardware and kernel may keep of a mapping is kept by pages.
const LEN: usize = 1 << 20;
const ROUNDS: u8 = 6;

/// Fresh pages, at `address` if it is not null and nobody else has taken the place.
fn map(address: *mut u8) -> *mut u8 {
    let fixed = if address.is_null() {
        0
    } else {
        libc::MAP_FIXED_NOREPLACE
    };
    // SAFETY: a fresh mapping; with an address, only where nothing is mapped.
    let at = unsafe {
        libc::mmap(
            address.cast(),
            LEN,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED && !address.is_null() {
        return map(std::ptr::null_mut());
    }
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

/// Rank 0 sends, rank 1 receives, each from memory mapped anew for the message at the address of the one before. Other threads
/// may take the place in between; then the round is at another address.
fn remapped<F: Fabric>(world: &World<F>) {
    let comm = world.comm_world();
    let mut at: *mut u8 = std::ptr::null_mut();
    let mut anew = 0;
    for round in 1..=ROUNDS {
        let before = at;
        at = map(before);
        anew += u8::from(at == before);
        if comm.rank == 0 {
            // SAFETY: mapped above, `LEN` bytes.
            unsafe { at.write_bytes(round, LEN) };
            // SAFETY: mapped until after the send.
            let buf = unsafe { SendBuf::new(at, LEN as u64, Datatype::byte()) };
            world.send(comm, &buf, 1, 1, Mode::Standard).unwrap();
        } else {
            // SAFETY: mapped until after the receive.
            let buf = unsafe { RecvBuf::new(at, LEN as u64, Datatype::byte()) };
            assert_eq!(world.recv(comm, buf, 0, 1).unwrap().error, None);
            // SAFETY: mapped above, `LEN` bytes, and nobody writes to them any more.
            let bytes = unsafe { std::slice::from_raw_parts(at, LEN) };
            assert!(bytes.iter().all(|byte| *byte == round), "round {round}");
        }
        // SAFETY: mapped above; nothing refers to it any more.
        unsafe { libc::munmap(at.cast(), LEN) };
    }
    assert!(anew > 0, "no place was used again");
}

#[test]
fn within_a_host() {
    hosts::run(&[0, 0], remapped);
}

#[test]
fn over_tcp() {
    hosts::run(&[0, 1], remapped);
}

/// Run `body` as each of two processes that libfabric joins.
fn over(harness: &OfiThreads, body: impl Fn(&World<Ofi>) + Sync) {
    let (book, both) = (SharedBook::default(), Barrier::new(2));
    std::thread::scope(|scope| {
        for index in 0..2 {
            let (book, both, body) = (&book, &both, &body);
            scope.spawn(move || {
                let ofi = harness.endpoint((index, 2), book).unwrap();
                both.wait();
                let world = World::new(ofi, WorldConfig::default());
                body(&world);
                world.quiesce().unwrap();
                let comm = world.comm_world();
                let plan = farpost_mpi::coll::barrier(&world.site(comm)).unwrap();
                world.run_collective(comm, plan).unwrap();
                assert_eq!(world.take_faults(), Vec::<String>::new());
                world.fabric().close(Duration::from_secs(5));
            });
        }
    });
}

/// Whether an endpoint can be had; says why not.
fn works(harness: &OfiThreads) -> bool {
    let endpoint = harness.endpoint((0, 1), &SharedBook::default());
    endpoint
        .inspect_err(|error| farpost_testing::skipped(&error.to_string()))
        .is_ok()
}

#[test]
fn over_libfabric() {
    for provider in ["tcp", "tcp;ofi_rxm"] {
        let harness = OfiThreads::over_loopback(provider, None);
        if works(&harness) {
            over(&harness, remapped);
        }
    }
}

/// Messages of many sizes in both directions at once.
fn exchange(world: &World<Ofi>) {
    let comm = world.comm_world();
    let (me, other) = (comm.rank as usize, 1 - comm.rank);
    let pattern = |from: usize, len: usize| -> Vec<u8> {
        (0..len).map(|i| (i * 7 + from * 13 + (i >> 8)) as u8).collect()
    };
    for len in [0, 8, 40, 41, 432, 433, 5000, 32 << 10, (32 << 10) + 1, 300_001] {
        for mode in [Mode::Standard, Mode::Synchronous] {
            let (data, mut got) = (pattern(me, len), vec![0xee; len]);
            // SAFETY: both buffers live until the operations have been waited for.
            let (from, to) = unsafe {
                (
                    SendBuf::new(data.as_ptr(), len as u64, Datatype::byte()),
                    RecvBuf::new(got.as_mut_ptr(), len as u64, Datatype::byte()),
                )
            };
            let receive = world.irecv(comm, to, other, 9).unwrap();
            let send = world.isend(comm, &from, other, 9, mode).unwrap();
            for request in [send, receive] {
                assert_eq!(world.wait(request).unwrap().error, None);
            }
            assert!(
                std::hint::black_box(&got) == &pattern(1 - me, len),
                "{len} bytes {mode:?}"
            );
        }
    }
}

/// Every provider that is played: messages of every size, and memory mapped anew.
#[test]
fn over_providers_of_adapters() {
    for real in build::libraries() {
        for provider in [
            "verbs;ofi_rxm",
            "efa",
            "efa-direct",
            "cxi",
            "psm3",
            "opx",
            "narrow",
        ] {
            let harness = |path: &std::path::PathBuf| OfiThreads::over_loopback(provider, Some(path.clone()));
            let mut loaded = false;
            let shim = build::build(provider, &real, |path| loaded = works(&harness(path)));
            let Some(shim) = shim.filter(|_| loaded) else {
                continue;
            };
            let harness = harness(&shim.path);
            over(&harness, exchange);
            let before = shim.counts();
            over(&harness, remapped);
            let after = shim.counts();
            // Two endpoints register their pools when they begin.
            eprintln!(
                "{provider}: {} registrations for {ROUNDS} long messages between two new endpoints",
                after.registrations - before.registrations
            );
            assert_eq!((after.violations, after.alive), (0, 0), "{provider}");
        }
    }
}
