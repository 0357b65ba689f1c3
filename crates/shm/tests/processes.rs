//! Every conformance case on the shared-memory fabric with an endpoint per process: segments pass through
//! `/proc/<pid>/fd`, and bulk transfers between address spaces. Not run by the standard test harness, whose
//! threads would not survive the forks.

use farpost_fabric::conformance::{Harness, run_all};
use farpost_fabric::{
    Access, BulkTransfer, Completion, Descriptor, Direction, FabricError, LocalMemory, PacketQueue, Peer,
    Permission, Port, Priority, RemoteMemory, SegmentId, TrySend,
};
use farpost_mapped::sealed_memory;
use farpost_shm::conformance::{ShmProcesses, shm_end};
use farpost_shm::{ShmTunables, region_bytes};
use std::time::{Duration, Instant};

fn main() {
    let with = |cores, cma| ShmProcesses {
        cores,
        tunables: ShmTunables {
            cma,
            ..ShmTunables::default()
        },
    };
    // Yama or a sandbox may forbid brothers to read each other.
    let forbidden = with(0, 1).run(2, async |end| {
        end.barrier().await;
        if !end.fabric.can_transfer(end.next()) {
            end.skip();
        }
        end.barrier().await;
    });
    let bulk = [
        "zcopy::follow_their_lines",
        "bulk::get_and_put",
        "bulk::bad_address_is_an_error",
    ];
    let skipped: &[&str] = if forbidden { &bulk } else { &bulk[..1] };
    // More processes than cores, or not: the sender or the sleeper passes the barrier.
    run_all(&with(0, 1), skipped);
    run_all(&with(64, 1), skipped);
    run_all(&with(0, 0), &bulk);
    dead_peer();
    println!("an endpoint per process: all cases hold, and the dead are told from the living");
}

/// A process that was killed: what is asked of it fails with its name, at once; what it shared stays.
fn dead_peer() {
    const PEER: Peer = Peer(1);
    let file = sealed_memory(c"farpost-test", region_bytes(2)).unwrap();
    let attach = |index| shm_end(&file, (index, 2), 2, ShmTunables::default());
    // SAFETY: this process has one thread, so that the child may do anything.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        // SAFETY: no memory is involved; the child ends with its parent.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let shm = attach(1);
        let word = Box::new(0x1234u64);
        let everyone = Access::Everyone(Permission::ReadWrite);
        let segment = shm.export(SegmentId(1), 64, everyone).unwrap();
        segment.store(8, 77);
        segment.store(0, std::ptr::from_ref(&*word).expose_provenance() as u64);
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    let shm = attach(0);
    let import = || shm.import(PEER, SegmentId(1), 64, Permission::ReadWrite);
    let segment = loop {
        match import() {
            Ok(segment) if segment.load(0) != 0 => break segment,
            Ok(_) | Err(FabricError::NotPublished { .. }) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    };
    let mut word = 0u64;
    let mut read = || {
        let descriptor = Descriptor {
            peer: PEER,
            direction: Direction::Get,
            local: (&raw mut word).expose_provenance(),
            remote: segment.load(0) as usize,
            len: 8,
            key: 0,
        };
        // SAFETY: `word` is eight writable bytes of ours.
        unsafe { shm.submit(&descriptor) }
    };
    let reachable = shm.can_transfer(PEER);
    if reachable {
        assert_eq!(read(), Ok(Completion::Done));
    }
    // SAFETY: a child of ours that was not waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let is_dead = |error: Option<FabricError>| {
        assert!(
            matches!(error, Some(FabricError::PeerDead { peer: PEER, .. })),
            "{error:?}"
        );
    };
    // Before it is waited for it is a corpse with a name; SIGKILL takes a moment.
    let started = Instant::now();
    while import().is_ok() {
        assert!(started.elapsed() < Duration::from_secs(20));
    }
    is_dead(import().err());
    // SAFETY: waits for that child.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    is_dead(import().err());
    if reachable {
        is_dead(read().err());
        assert_eq!(std::hint::black_box(word), 0x1234);
    }
    assert_eq!(segment.load(8), 77);
    segment.store(8, 78);
    assert_eq!(
        shm.try_send(PEER, Port::Fm, Priority::High, b"into the void"),
        TrySend::Sent
    );
}
