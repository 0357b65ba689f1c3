//! Harnesses of the conformance suites: an endpoint per thread, or per process.

use crate::{Listening, Ofi, OfiError, OfiOptions, OfiTunables};
use farpost_fabric::Peer;
use farpost_fabric::conformance::{BoardRef, End, Harness, block_on, fork_all};
use farpost_net::conformance::{MappedBook, Namespaces, SharedBook, settle_slowly};
use farpost_net::{AddressBook, NetConfig};
use std::ops::AsyncFn;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The libfabric fabric, an endpoint per thread, each as on a host of its own: over loopback, or between network
/// namespaces.
#[derive(Clone, Default)]
pub struct OfiThreads {
    /// Library and provider.
    pub options: OfiOptions,
    /// Tunables of the endpoints.
    pub tunables: OfiTunables,
    /// Where the endpoints live, in turns; none: where they are.
    pub namespaces: Namespaces,
}

impl OfiThreads {
    /// With libfabric's `provider` over loopback, from the library at `path` (none: the system's).
    pub fn over_loopback(provider: &str, path: Option<std::path::PathBuf>) -> Self {
        Self {
            options: OfiOptions {
                library: path,
                provider: Some(provider.into()),
                source: Some("127.0.0.1".into()),
                loopback: true,
                ..OfiOptions::default()
            },
            tunables: OfiTunables::default(),
            namespaces: Namespaces::default(),
        }
    }

    /// With libfabric's `provider` between `namespaces`, from the library at `path` (none: the system's).
    pub fn between(namespaces: Namespaces, provider: &str, path: Option<std::path::PathBuf>) -> Self {
        Self {
            options: OfiOptions {
                library: path,
                provider: Some(provider.into()),
                ..OfiOptions::default()
            },
            tunables: OfiTunables::default(),
            namespaces,
        }
    }

    /// Endpoint `index` of `size`, which finds and is found through `book`.
    pub fn endpoint(&self, (index, size): (u32, u32), book: &SharedBook) -> Result<Ofi, OfiError> {
        let publish = |card: &[u8]| book.publish(Peer(index), card.to_vec());
        self.open((index, size), publish, Box::new(book.clone()))
    }

    /// Endpoint `index` of `size`, whose card is for `publish`.
    fn open(
        &self,
        (index, size): (u32, u32),
        publish: impl FnOnce(&[u8]),
        book: Box<dyn AddressBook>,
    ) -> Result<Ofi, OfiError> {
        let net = NetConfig {
            me: Peer(index),
            size,
            host_of: (0..size).collect(),
            cores: 1,
            processes: 1,
            secret: [7; 32],
            book,
        };
        let listening = Listening::open(&self.options, self.tunables.clone())?;
        publish(listening.card());
        listening.start(net)
    }
}

impl Harness for OfiThreads {
    type Fabric = Ofi;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<Ofi>) + Sync) -> bool {
        let board = BoardRef::shared();
        let book = SharedBook::default();
        let missing = AtomicU32::new(0);
        let all_listen = Barrier::new(size as usize);
        std::thread::scope(|scope| {
            for index in 0..size {
                let (board, role, book, all_listen) = (board.clone(), &role, &book, &all_listen);
                let missing = &missing;
                scope.spawn(move || {
                    self.namespaces.enter(index);
                    let ofi = self.endpoint((index, size), book);
                    missing.fetch_add(ofi.is_err().into(), Ordering::Relaxed);
                    // The others would wait for one that has none.
                    all_listen.wait();
                    if missing.load(Ordering::Relaxed) == 0 || ofi.is_err() {
                        block_on(&End::new(ofi.expect("an endpoint"), board, settle_slowly), role);
                    }
                });
            }
        });
        board.is_skipped()
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
        let book = MappedBook::new();
        let opens = |_, board: BoardRef| {
            self.like.namespaces.enter(0);
            let publish = |card: &[u8]| book.publish(Peer(0), card);
            if let Err(error) = self.like.open((0, 1), publish, Box::new(book)) {
                farpost_testing::skipped(&format!("no endpoint of libfabric: {error}"));
                board.skip();
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
        let book = MappedBook::new();
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
