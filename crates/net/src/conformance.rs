//! What tests of networks need: cards without a launcher, namespaces for threads, and patience for what is on its way.

use crate::AddressBook;
use farpost_fabric::conformance::{PATIENCE, shared};
use farpost_fabric::{Fabric, Peer};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Cards of processes of one job that live in one process of the system.
#[derive(Clone, Default)]
pub struct SharedBook(Arc<Mutex<HashMap<u32, Vec<u8>>>>);

impl SharedBook {
    /// Publish a card.
    pub fn publish(&self, peer: Peer, card: Vec<u8>) {
        self.0
            .lock()
            .expect("no end panicked in here")
            .insert(peer.0, card);
    }

    /// Exchange cards with processes that do not share this book: each leaves its own in `directory` and waits for the others'.
    ///
    /// # Panics
    /// When one of the `size` leaves none.
    pub fn meet(&self, directory: &Path, me: Peer, size: u32) {
        let place = |peer: Peer| directory.join(peer.0.to_string());
        let card = self.card(me).expect("published before");
        let part = place(me).with_extension("part");
        std::fs::write(&part, card).expect("a card is written");
        std::fs::rename(part, place(me)).expect("a card is left");
        let began = Instant::now();
        for other in (0..size).map(Peer).filter(|other| *other != me) {
            let card = loop {
                if let Ok(card) = std::fs::read(place(other)) {
                    break card;
                }
                assert!(began.elapsed() < PATIENCE, "{other} left no card");
                std::thread::sleep(Duration::from_millis(1));
            };
            self.publish(other, card);
        }
    }
}

impl AddressBook for SharedBook {
    fn card(&self, peer: Peer) -> Result<Vec<u8>, String> {
        let cards = self.0.lock().expect("no end panicked in here");
        cards
            .get(&peer.0)
            .cloned()
            .ok_or("it has published no card".into())
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

/// Cards of processes that one process has forked.
#[derive(Clone, Copy)]
pub struct MappedBook(&'static Cards);

impl MappedBook {
    /// A book in memory of its own.
    #[expect(clippy::new_without_default, reason = "the memory is never given back")]
    pub fn new() -> Self {
        // SAFETY: cards are of atomics.
        Self(unsafe { shared() })
    }

    /// Publish a card.
    pub fn publish(self, peer: Peer, card: &[u8]) {
        assert!(peer.index() < CARDS && card.len() <= CARD && !card.is_empty());
        for (to, from) in self.0.bytes[peer.index()].iter().zip(card) {
            to.store(*from, Ordering::Relaxed);
        }
        self.0.lens[peer.index()].store(card.len() as u64, Ordering::Release);
    }

    /// Whether `peer` has published one.
    pub fn has(self, peer: Peer) -> bool {
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

/// Network namespaces by their files, such as `/proc/PID/ns/net`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(Vec<PathBuf>);

impl Namespaces {
    /// Those of a list of paths separated by colons.
    pub fn parse(list: &OsStr) -> Self {
        Self(
            std::env::split_paths(list)
                .filter(|path| !path.as_os_str().is_empty())
                .collect(),
        )
    }

    /// Those that `FARPOST_TEST_NAMESPACES` names, if somebody made some; says so if not.
    pub fn of_environment() -> Option<Self> {
        const VARIABLE: &str = "FARPOST_TEST_NAMESPACES";
        let found = Self::parse(&std::env::var_os(VARIABLE).unwrap_or_default());
        if found.is_empty() {
            farpost_testing::not_here(&format!(
                "{VARIABLE} names no network namespaces; scripts/test-net.sh conformance makes some and runs this"
            ));
            return None;
        }
        Some(found)
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Move the calling thread to the namespace of endpoint `index`: the namespaces have endpoints in turns. Nothing
    /// where there are none. The thread never returns, so it should be the endpoint's own.
    ///
    /// # Panics
    /// When a file is missing or the system refuses.
    pub fn enter(&self, index: u32) {
        if self.is_empty() {
            return;
        }
        let path = &self.0[index as usize % self.0.len()];
        let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // SAFETY: no memory is involved; the kernel checks that the file is a network namespace.
        let code = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(
            code,
            0,
            "entering the network namespace {}: {}",
            path.display(),
            std::io::Error::last_os_error()
        );
    }
}

/// Nothing arrives for a while.
pub fn settle_sockets<F: Fabric>(fabric: &F) {
    while fabric.sleep(Duration::from_millis(60), &mut || false) != farpost_fabric::Wake::Timeout {}
}

/// As [`settle_sockets`]; libfabric's layered providers take their time to connect, with turns of both sides.
pub fn settle_slowly<F: Fabric>(fabric: &F) {
    while fabric.sleep(Duration::from_millis(500), &mut || false) != farpost_fabric::Wake::Timeout {}
}
