//! Making endpoints and running roles.

use super::namespaces::Namespaces;
use crate::inproc::{Config, InProc, Network};
use crate::net::interfaces::{Class, Subnet, Usable};
use crate::net::{AddressBook, NetConfig};
use crate::ofi::{Listening as OfiListening, Ofi, OfiError, OfiOptions, OfiTunables};
use crate::shm::{Shm, ShmConfig, ShmTunables, region_bytes, sealed_memory};
use crate::tcp::{Listening, Tcp, TcpSettings};
use crate::{Fabric, FabricError, Peer, Permission, RemoteMemory, SegmentId};
use std::cell::Cell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::AsyncFn;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A case that takes this long hangs. ThreadSanitizer on a busy machine takes more than a minute for the longest.
const PATIENCE: Duration = Duration::from_secs(300);

/// Words that ends tell each other past the fabric.
#[derive(Default)]
#[repr(C)]
pub struct Board {
    arrived: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) skipped: AtomicU64,
    words: [AtomicU64; 32],
}

/// How ends see the board.
#[derive(Clone)]
pub(super) enum BoardRef {
    Shared(Arc<Board>),
    /// Of a process that forked; never unmapped while it runs.
    Mapped(&'static Board),
}

impl std::ops::Deref for BoardRef {
    type Target = Board;
    fn deref(&self) -> &Board {
        match self {
            BoardRef::Shared(board) => board,
            BoardRef::Mapped(board) => board,
        }
    }
}

/// One end of a case: its endpoint, and the means to keep in step with the others.
pub struct End<F> {
    /// The endpoint.
    pub fabric: Rc<F>,
    board: BoardRef,
    barriers: Cell<u64>,
    settle: fn(&F),
    started: Instant,
}

impl<F: Fabric> End<F> {
    pub(super) fn new(fabric: F, board: BoardRef, settle: fn(&F)) -> Self {
        Self {
            fabric: Rc::new(fabric),
            board,
            barriers: Cell::new(0),
            settle,
            started: Instant::now(),
        }
    }

    /// This end's number.
    pub fn me(&self) -> u32 {
        self.fabric.me().0
    }

    /// The end after this one, around.
    pub fn next(&self) -> Peer {
        Peer((self.me() + 1) % self.fabric.size())
    }

    /// Every end but this one.
    pub fn others(&self) -> impl Iterator<Item = Peer> + use<F> {
        let me = self.me();
        (0..self.fabric.size()).filter(move |&i| i != me).map(Peer)
    }

    /// Give the others a turn.
    pub async fn pause(&self) {
        assert_eq!(self.board.failed.load(Ordering::Relaxed), 0, "another end failed");
        self.fabric.progress();
        let mut paused = false;
        std::future::poll_fn(move |_| {
            if std::mem::replace(&mut paused, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Pause until `condition` holds.
    ///
    /// # Panics
    /// When it does not within five minutes.
    pub async fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        while !condition() {
            assert!(
                self.started.elapsed() < PATIENCE,
                "end {} waited too long for {what}",
                self.me()
            );
            self.pause().await;
        }
    }

    /// Wait for all ends.
    pub async fn barrier(&self) {
        self.barriers.set(self.barriers.get() + 1);
        let all = self.barriers.get() * u64::from(self.fabric.size());
        self.board.arrived.fetch_add(1, Ordering::AcqRel);
        self.until("a barrier", || self.board.arrived.load(Ordering::Acquire) >= all)
            .await;
    }

    /// Tell the others a word, past the fabric.
    pub fn post(&self, at: usize, value: u64) {
        self.board.words[at].store(value, Ordering::Release);
    }

    /// A word that was told.
    pub fn posted(&self, at: usize) -> u64 {
        self.board.words[at].load(Ordering::Acquire)
    }

    /// Say that this fabric cannot do what the case is about.
    pub fn skip(&self) {
        self.board.skipped.store(1, Ordering::Relaxed);
    }

    /// Let everything that is on its way arrive.
    pub fn settle(&self) {
        (self.settle)(&self.fabric);
    }

    /// Import, waiting until the segment is published.
    pub async fn import(&self, peer: Peer, id: SegmentId, len: usize) -> F::Import {
        loop {
            match self.fabric.import(peer, id, len, Permission::ReadWrite) {
                Ok(import) => return import,
                Err(FabricError::NotPublished { .. }) => self.pause().await,
                Err(error) => panic!("end {} imports {id:?} of {peer}: {error}", self.me()),
            }
            assert!(self.started.elapsed() < PATIENCE, "{peer} never published {id:?}");
        }
    }
}

/// Makes the endpoints of a job and runs a role on each.
pub trait Harness {
    /// The fabric under test.
    type Fabric: RemoteMemory + Fabric;
    /// Whether the ends run in parallel, so that one may sleep until another rings.
    const PARALLEL: bool;
    /// Run `role` on `size` ends at the same time and return when all have ended: whether one of them
    /// [skipped](End::skip).
    ///
    /// # Panics
    /// When one of them does.
    fn run(&self, size: u32, role: impl AsyncFn(&End<Self::Fabric>) + Sync) -> bool;
}

/// Run a role to its end in this thread while others run elsewhere.
pub(super) fn block_on<F: Fabric>(end: &End<F>, role: &impl AsyncFn(&End<F>)) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let whole = async {
            role(end).await;
            end.barrier().await;
        };
        let mut future = std::pin::pin!(whole);
        let mut context = Context::from_waker(Waker::noop());
        while future.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
    }));
    if let Err(panic) = outcome {
        end.board.failed.store(1, Ordering::Relaxed);
        resume_unwind(panic);
    }
}

/// The shared-memory fabric, an endpoint per thread.
#[derive(Clone, Default)]
pub struct ShmThreads {
    /// Cores that the endpoints believe in. 0: one fewer than endpoints.
    pub cores: u32,
    /// Tunables of the endpoints.
    pub tunables: ShmTunables,
}

pub(super) fn attach(file: OwnedFd, (index, size): (u32, u32), (cores, tunables): (u32, ShmTunables)) -> Shm {
    Shm::attach(ShmConfig {
        file,
        offset: 0,
        len: region_bytes(size) as u64,
        index,
        size,
        processes: size,
        cores: if cores == 0 {
            size.saturating_sub(1).max(1)
        } else {
            cores
        },
        tunables,
    })
    .expect("attach to the region")
}

/// Endpoint `index` of `size` in the region that `file` is, which believes in `cores` (0: one fewer than endpoints): for tests
/// whose endpoints are processes.
pub fn shm_end(file: &OwnedFd, place: (u32, u32), cores: u32, tunables: ShmTunables) -> Shm {
    let file = file.try_clone().expect("a descriptor");
    attach(file, place, (cores, tunables))
}

/// The endpoints of a job on the shared-memory fabric, all of this thread: for tests that step them.
pub fn shm_ends(size: u32, tunables: &ShmTunables) -> Vec<Shm> {
    let file = sealed_memory(c"farpost-test", region_bytes(size)).expect("a region");
    let one = |index| shm_end(&file, (index, size), 0, tunables.clone());
    (0..size).map(one).collect()
}

impl Harness for ShmThreads {
    type Fabric = Shm;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<Shm>) + Sync) -> bool {
        let file = sealed_memory(c"farpost-test", region_bytes(size)).expect("a region");
        let board = BoardRef::Shared(Arc::<Board>::default());
        std::thread::scope(|scope| {
            for index in 0..size {
                let file = file.try_clone().expect("a descriptor");
                let (board, role) = (board.clone(), &role);
                let mine = (self.cores, self.tunables.clone());
                scope.spawn(move || {
                    let end = End::new(attach(file, (index, size), mine), board, |_| ());
                    block_on(&end, role);
                });
            }
        });
        board.skipped.load(Ordering::Relaxed) != 0
    }
}

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

/// The TCP fabric, an endpoint per thread, each as on a host of its own: over loopback, or between network namespaces.
#[derive(Clone)]
pub struct TcpThreads {
    /// Settings of the endpoints.
    pub settings: TcpSettings,
    /// Rails between any two; between namespaces, what their interfaces make.
    pub rails: u8,
    /// Hosts that they are told to be on, an endpoint each, and on the last one all others.
    pub hosts: u32,
    /// Where the endpoints live, in turns; none: over loopback, where they are.
    pub namespaces: Namespaces,
}

impl Default for TcpThreads {
    fn default() -> Self {
        Self {
            settings: TcpSettings::default(),
            rails: 1,
            hosts: u32::MAX,
            namespaces: Namespaces::default(),
        }
    }
}

impl TcpThreads {
    /// Endpoint `index` of `size`, which finds and is found through `book`.
    pub fn endpoint(&self, (index, size): (u32, u32), book: &SharedBook) -> Tcp {
        let net = NetConfig {
            me: Peer(index),
            size,
            host_of: (0..size).map(|of| of.min(self.hosts - 1)).collect(),
            cores: 1,
            processes: 1,
            secret: [7; 32],
            book: Box::new(book.clone()),
        };
        // Each rail a network of its own, in what belongs to loopback.
        let interface = |rail: u8| Usable {
            name: format!("rail{rail}"),
            class: Class::Network,
            speed: 0,
            addresses: vec![Subnet {
                ip: IpAddr::V4(Ipv4Addr::new(127, 77, rail, 1 + index as u8)),
                prefix: 24,
            }],
        };
        let on: Vec<Usable> = (0..self.rails).map(interface).collect();
        let listening = if self.namespaces.is_empty() {
            Listening::open_on(self.settings.clone(), &on).expect("listen on loopback")
        } else {
            Listening::open(self.settings.clone()).expect("listen in the namespace")
        };
        book.publish(Peer(index), listening.card().to_vec());
        listening.start(net).expect("an endpoint")
    }
}

impl Harness for TcpThreads {
    type Fabric = Tcp;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<Tcp>) + Sync) -> bool {
        let board = BoardRef::Shared(Arc::<Board>::default());
        let book = SharedBook::default();
        let all_listen = Barrier::new(size as usize);
        std::thread::scope(|scope| {
            for index in 0..size {
                let (board, role, book, all_listen) = (board.clone(), &role, &book, &all_listen);
                scope.spawn(move || {
                    self.namespaces.enter(index);
                    let tcp = self.endpoint((index, size), book);
                    all_listen.wait();
                    block_on(&End::new(tcp, board, settle_sockets), role);
                });
            }
        });
        board.skipped.load(Ordering::Relaxed) != 0
    }
}

/// Nothing arrives for a while.
fn settle_sockets<F: Fabric>(fabric: &F) {
    while fabric.sleep(Duration::from_millis(60), &mut || false) != crate::Wake::Timeout {}
}

/// As [`settle_sockets`]; libfabric's layered providers take their time to connect, with turns of both sides.
pub(super) fn settle_slowly<F: Fabric>(fabric: &F) {
    while fabric.sleep(Duration::from_millis(500), &mut || false) != crate::Wake::Timeout {}
}

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
    pub(super) fn open(
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
        let listening = OfiListening::open(&self.options, self.tunables.clone())?;
        publish(listening.card());
        listening.start(net)
    }
}

impl Harness for OfiThreads {
    type Fabric = Ofi;
    const PARALLEL: bool = true;

    fn run(&self, size: u32, role: impl AsyncFn(&End<Ofi>) + Sync) -> bool {
        let board = BoardRef::Shared(Arc::<Board>::default());
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
        board.skipped.load(Ordering::Relaxed) != 0
    }
}

/// The in-process fabric, all endpoints in one thread; a seed decides who runs next and what arrives.
#[derive(Clone)]
pub struct InProcHarness {
    /// Of the schedule and of the network.
    pub seed: u64,
    /// What the network is like.
    pub config: Config,
}

impl InProcHarness {
    /// Default configuration.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            config: Config::default(),
        }
    }
}

impl Harness for InProcHarness {
    type Fabric = InProc;
    const PARALLEL: bool = false;

    fn run(&self, size: u32, role: impl AsyncFn(&End<InProc>) + Sync) -> bool {
        let mut schedule = fastrand::Rng::with_seed(self.seed ^ 0x5eed);
        let board = BoardRef::Shared(Arc::default());
        let ends: Vec<_> = Network::new(size, self.seed, self.config.clone())
            .into_iter()
            .map(|fabric| End::new(fabric, board.clone(), |f| f.network().settle()))
            .collect();
        let network = ends[0].fabric.network().clone();
        let mut running: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        for end in &ends {
            running.push(Box::pin(role(end)));
        }
        let mut context = Context::from_waker(Waker::noop());
        while !running.is_empty() {
            let chosen = schedule.usize(0..running.len());
            if running[chosen].as_mut().poll(&mut context).is_ready() {
                drop(running.swap_remove(chosen));
            }
            for _ in 0..schedule.u32(0..4) {
                network.step();
            }
        }
        board.skipped.load(Ordering::Relaxed) != 0
    }
}
