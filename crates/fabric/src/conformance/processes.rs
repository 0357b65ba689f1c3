//! Harnesses with an endpoint per process. The calling process must have one thread only.

use super::children::{child, reap};
use super::harness::{Board, BoardRef, End, Harness, OfiThreads, attach, block_on, settle_slowly};
use crate::Peer;
use crate::net::AddressBook;
use crate::ofi::Ofi;
use crate::shm::{Shm, ShmTunables, region_bytes, sealed_memory};
use std::ops::AsyncFn;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Memory of zeroes that this process and those it forks share, never unmapped.
///
/// # Safety
/// Zeroes are a valid `T`, which other processes may change at any time.
unsafe fn shared<T>() -> &'static T {
    // SAFETY: a fresh anonymous mapping, aligned to pages; of the rest the caller is sure.
    unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            size_of::<T>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(at, libc::MAP_FAILED);
        &*at.cast::<T>()
    }
}

/// Run `one` in `size` processes, told apart by a number, and wait for all: whether an end skipped.
fn fork_all(size: u32, one: impl Fn(u32, BoardRef)) -> bool {
    // SAFETY: a board is of atomics.
    let board: &'static Board = unsafe { shared() };
    let children: Vec<libc::pid_t> = (0..size)
        .map(|index| child(|| one(index, BoardRef::Mapped(board))))
        .collect();
    let mut failed = Vec::new();
    for (index, child) in children.into_iter().enumerate() {
        let status = reap(child);
        if status != 0 {
            board.failed.store(1, Ordering::Relaxed);
            failed.push((index, status));
        }
    }
    assert!(failed.is_empty(), "ends and their wait status: {failed:?}");
    board.skipped.load(Ordering::Relaxed) != 0
}

/// The shared-memory fabric, an endpoint per process.
#[derive(Clone, Default)]
pub struct ShmProcesses {
    /// As for [`ShmThreads`](super::ShmThreads).
    pub cores: u32,
    /// Tunables of the endpoints.
    pub tunables: ShmTunables,
}

impl Harness for ShmProcesses {
    type Fabric = Shm;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<Shm>) + Sync) -> bool {
        let file = sealed_memory(c"farpost-test", region_bytes(size)).expect("a region");
        fork_all(size, |index, board| {
            let file = file.try_clone().expect("a descriptor");
            let mine = (self.cores, self.tunables.clone());
            let end = End::new(attach(file, (index, size), mine), board, |_| ());
            block_on(&end, &role);
        })
    }
}

/// Bytes that a card may have, and cards.
const CARD: usize = 4096;
const CARDS: usize = 16;

/// Cards in memory that processes share.
#[repr(C)]
struct Cards {
    lens: [AtomicU64; CARDS],
    bytes: [[AtomicU8; CARD]; CARDS],
}

#[derive(Clone, Copy)]
struct MappedBook(&'static Cards);

impl MappedBook {
    fn publish(self, peer: Peer, card: &[u8]) {
        assert!(peer.index() < CARDS && card.len() <= CARD && !card.is_empty());
        for (to, from) in self.0.bytes[peer.index()].iter().zip(card) {
            to.store(*from, Ordering::Relaxed);
        }
        self.0.lens[peer.index()].store(card.len() as u64, Ordering::Release);
    }

    fn has(self, peer: Peer) -> bool {
        self.0.lens[peer.index()].load(Ordering::Acquire) > 0
    }
}

impl AddressBook for MappedBook {
    fn card(&self, peer: Peer) -> Result<Vec<u8>, String> {
        if !self.has(peer) {
            return Err("it has published no card".into());
        }
        let len = self.0.lens[peer.index()].load(Ordering::Acquire) as usize;
        let bytes = &self.0.bytes[peer.index()][..len];
        Ok(bytes.iter().map(|byte| byte.load(Ordering::Relaxed)).collect())
    }
}

/// The libfabric fabric, an endpoint per process, each as on a host of its own.
#[derive(Clone, Default)]
pub struct OfiProcesses {
    /// Library, provider, tunables, and where the endpoints live.
    pub like: OfiThreads,
}

impl OfiProcesses {
    /// Whether an endpoint can be opened here; if not, says why on standard error. Tried in a process of its own: the library
    /// may start threads, which would not survive further forks.
    pub fn is_there(&self) -> bool {
        // SAFETY: cards are of atomics.
        let book = MappedBook(unsafe { shared() });
        let opens = |_, board: BoardRef| {
            self.like.namespaces.enter(0);
            let publish = |card: &[u8]| book.publish(Peer(0), card);
            if let Err(error) = self.like.open((0, 1), publish, Box::new(book)) {
                farpost_testing::skipped(&format!("no endpoint of libfabric: {error}"));
                board.skipped.store(1, Ordering::Relaxed);
            }
        };
        !fork_all(1, opens)
    }
}

/// A process without an endpoint is waited for no longer than this.
const START: Duration = Duration::from_secs(30);

impl Harness for OfiProcesses {
    type Fabric = Ofi;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<Ofi>) + Sync) -> bool {
        // SAFETY: cards are of atomics.
        let book = MappedBook(unsafe { shared() });
        fork_all(size, |index, board| {
            self.like.namespaces.enter(index);
            let publish = |card: &[u8]| book.publish(Peer(index), card);
            let ofi = self.like.open((index, size), publish, Box::new(book));
            let end = End::new(ofi.expect("an endpoint"), board, settle_slowly);
            let started = Instant::now();
            while !(0..size).all(|peer| book.has(Peer(peer))) {
                assert!(started.elapsed() < START, "another end has no endpoint");
                std::thread::sleep(Duration::from_millis(1));
            }
            block_on(&end, &role);
        })
    }
}
