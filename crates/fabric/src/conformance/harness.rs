//! Making endpoints and running roles; a fabric brings the harnesses that make its own.

use crate::ability::Ability;
use crate::inproc::{Config, InProc, Network};
use crate::{Fabric, FabricError, Peer, Permission, RemoteMemory, SegmentId};
use std::cell::Cell;
use std::ops::AsyncFn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A case that takes this long hangs. ThreadSanitizer on a busy machine takes more than a minute for the longest.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Words that ends tell each other past the fabric.
#[derive(Default)]
#[repr(C)]
pub struct Board {
    arrived: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    words: [AtomicU64; 32],
}

/// How ends see the board.
#[derive(Clone)]
pub enum BoardRef {
    Shared(Arc<Board>),
    /// Of a process that forked; never unmapped while it runs.
    Mapped(&'static Board),
}

impl BoardRef {
    /// A board for ends that are threads.
    pub fn shared() -> Self {
        BoardRef::Shared(Arc::default())
    }
}

impl Board {
    /// An end has failed: the others need not wait.
    pub fn fail(&self) {
        self.failed.store(1, Ordering::Relaxed);
    }

    /// An end cannot do what the case is about.
    pub fn skip(&self) {
        self.skipped.store(1, Ordering::Relaxed);
    }

    /// Whether one said so.
    pub fn is_skipped(&self) -> bool {
        self.skipped.load(Ordering::Relaxed) != 0
    }
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
    /// The end of `fabric`, with what lets everything arrive that is on its way.
    pub fn new(fabric: F, board: BoardRef, settle: fn(&F)) -> Self {
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
        self.board.skip();
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

    /// Whether the fabric has not got this, by its nature; cases that need it are left out.
    fn lacks(&self, _ability: Ability) -> bool {
        false
    }
}

/// Run a role to its end in this thread while others run elsewhere.
pub fn block_on<F: Fabric>(end: &End<F>, role: &impl AsyncFn(&End<F>)) {
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
        end.board.fail();
        resume_unwind(panic);
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
        let board = BoardRef::shared();
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
        board.is_skipped()
    }
}
