//! One thread at a time inside a library, when nearly always it is the same one, and a guest that comes in while nobody
//! else is there.
//!
//! The first thread is the *owner*: it marks itself inside with plain stores and looks whether somebody else wants in. A
//! second thread raises [`SHARED`] for good and has every processor pass a barrier, so that one of the two sees the other;
//! from then on all take an ordinary lock.
//!
//! The *guest*, a thread of the library's own, changes nothing for good: it holds the lock, raises [`GUEST`], has the
//! owner's processor pass a barrier, and goes away again if the owner is inside. So the owner pays nothing for a guest
//! that is outside. The guest can ask to be told when the next call leaves ([`Gate::watch`]), which costs leaving one look.
//!
//! Cost class: *fast path* for the owner.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Several threads come: everybody takes the lock.
pub const SHARED: u32 = 1;
/// The owner from before that was seen outside: whoever has the lock is alone.
const SETTLED: u32 = 2;
/// The guest is inside or about to be.
const GUEST: u32 = 4;

/// Of the owner's word: how deep it is inside. Above: calls that have left.
const DEPTH: u64 = 0xffff;
const LEFT: u64 = DEPTH + 1;

/// What the gate asks of the system.
pub trait Platform {
    /// Between a store and a load of the owner's: the compiler keeps their order.
    fn light(&self);
    /// Every thread of the process passes a full barrier.
    fn heavy(&self);
    /// Sleep while `*word == expected`; may return early.
    fn wait(&self, word: &AtomicU32, expected: u32);
    /// Wake who sleeps on `word`.
    fn wake(&self, word: &AtomicU32);
    /// Let a moment pass.
    fn nap(&self);
    /// Let other threads have the core.
    fn pass(&self);
    /// Tell the guest that a call has left.
    fn tell(&self);
}

/// See the [module](self). Threads are told apart by numbers other than 0.
#[repr(align(64))]
pub struct Gate<P> {
    state: AtomicU32,
    /// The guest wants to be told.
    watched: AtomicU32,
    owner: AtomicU64,
    /// Written by the owner only.
    inside: AtomicU64,
    /// 0 free, 1 taken, 2 taken and waited for.
    lock: AtomicU32,
    /// How deep who has the lock is inside.
    depth: AtomicU32,
    holder: AtomicU64,
    /// Times that the lock was taken, but for the guest.
    turns: AtomicU64,
    /// Who went out last while others waited for the lock; a hint.
    over: AtomicU64,
    platform: P,
}

impl<P: Platform> Gate<P> {
    /// With nobody inside.
    #[cfg(not(loom))]
    pub const fn new(platform: P) -> Self {
        Self {
            state: AtomicU32::new(0),
            watched: AtomicU32::new(0),
            owner: AtomicU64::new(0),
            inside: AtomicU64::new(0),
            lock: AtomicU32::new(0),
            depth: AtomicU32::new(0),
            holder: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            over: AtomicU64::new(0),
            platform,
        }
    }

    /// With nobody inside.
    #[cfg(loom)]
    pub fn new(platform: P) -> Self {
        Self {
            state: AtomicU32::new(0),
            watched: AtomicU32::new(0),
            owner: AtomicU64::new(0),
            inside: AtomicU64::new(0),
            lock: AtomicU32::new(0),
            depth: AtomicU32::new(0),
            holder: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            over: AtomicU64::new(0),
            platform,
        }
    }

    /// There is no barrier for all threads: everybody takes the lock from the start. Before anybody comes in.
    pub fn always_lock(&self) {
        self.state.fetch_or(SHARED | SETTLED, Ordering::SeqCst);
    }

    /// Come in, maybe deeper.
    #[inline(always)]
    pub fn enter(&self, me: u64) {
        if self.state.load(Ordering::Relaxed) == 0 && self.owner.load(Ordering::Relaxed) == me {
            let word = self.inside.load(Ordering::Relaxed);
            self.inside.store(word + 1, Ordering::Relaxed);
            self.platform.light();
            // Who came between waits for whom was inside before.
            if self.state.load(Ordering::Acquire) == 0 || word & DEPTH != 0 {
                return;
            }
            self.inside.store(word, Ordering::Release);
        }
        self.enter_slow(me);
    }

    #[cold]
    #[inline(never)]
    fn enter_slow(&self, me: u64) {
        let word = self.inside.load(Ordering::Relaxed);
        if self.owner.load(Ordering::Relaxed) == me && word & DEPTH != 0 {
            self.inside.store(word + 1, Ordering::Relaxed);
            return;
        }
        if self.holder.load(Ordering::Relaxed) == me {
            let depth = self.depth.load(Ordering::Relaxed);
            self.depth.store(depth + 1, Ordering::Relaxed);
            return;
        }
        if self.state.load(Ordering::Acquire) & SHARED == 0 {
            let owner = match self
                .owner
                .compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst)
            {
                Ok(_) => return self.enter(me),
                Err(owner) => owner,
            };
            if owner != me {
                self.state.fetch_or(SHARED, Ordering::SeqCst);
            }
        }
        // Newcomers wait for the owner to be outside, or to have taken the lock itself.
        if self.owner.load(Ordering::SeqCst) != me && self.state.load(Ordering::Acquire) & SETTLED == 0 {
            self.platform.heavy();
            while self.inside.load(Ordering::Acquire) & DEPTH != 0 {
                self.platform.nap();
            }
            self.state.fetch_or(SETTLED, Ordering::SeqCst);
        }
        self.take(me, 1);
    }

    fn take(&self, me: u64, depth: u32) {
        if self.over.load(Ordering::Relaxed) == me {
            // It polls, and would have the lock again before who was woken can look.
            self.over.store(0, Ordering::Relaxed);
            self.platform.pass();
        }
        if self
            .lock
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            while self.lock.swap(2, Ordering::Acquire) != 0 {
                self.platform.wait(&self.lock, 2);
            }
        }
        self.holder.store(me, Ordering::Relaxed);
        self.depth.store(depth, Ordering::Relaxed);
        let turns = self.turns.load(Ordering::Relaxed);
        self.turns.store(turns.wrapping_add(1), Ordering::Relaxed);
    }

    fn unlock(&self) {
        let me = self.holder.load(Ordering::Relaxed);
        self.holder.store(0, Ordering::Relaxed);
        if self.lock.swap(0, Ordering::SeqCst) == 2 {
            self.over.store(me, Ordering::Relaxed);
            self.platform.wake(&self.lock);
        }
    }

    /// Leave one level.
    #[inline(always)]
    pub fn leave(&self, me: u64) {
        if self.holder.load(Ordering::Relaxed) == me {
            let depth = self.depth.load(Ordering::Relaxed) - 1;
            self.depth.store(depth, Ordering::Relaxed);
            if depth > 0 {
                return;
            }
            self.unlock();
        } else if self.owner.load(Ordering::Relaxed) == me {
            let word = self.inside.load(Ordering::Relaxed);
            if word & DEPTH == 0 {
                // It came in before threads were counted.
                return;
            }
            self.inside.store(word + (LEFT - 1), Ordering::Release);
            self.platform.light();
        }
        if self.watched.load(Ordering::SeqCst) != 0 {
            self.tell();
        }
    }

    #[cold]
    #[inline(never)]
    fn tell(&self) {
        if self.watched.swap(0, Ordering::SeqCst) != 0 {
            self.platform.tell();
        }
    }

    /// Whether several threads have come, so that one that waits must let others in.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.state.load(Ordering::Relaxed) & SHARED != 0
    }

    /// Whether this thread is inside and counted.
    pub fn is_inside(&self, me: u64) -> bool {
        self.holder.load(Ordering::Relaxed) == me
            || self.owner.load(Ordering::Relaxed) == me && self.inside.load(Ordering::Relaxed) & DEPTH != 0
    }

    /// A thread that is inside, in a gate that [is shared](Self::is_shared): go out for as long as `pause` takes.
    pub fn step_aside(&self, me: u64, pause: impl FnOnce()) {
        let mut depth = 0;
        if self.owner.load(Ordering::Relaxed) == me {
            // From here on it holds the lock like everybody.
            let word = self.inside.load(Ordering::Relaxed);
            depth += (word & DEPTH) as u32;
            if word & DEPTH != 0 {
                self.inside.store((word & !DEPTH) + LEFT, Ordering::SeqCst);
            }
        }
        if self.holder.load(Ordering::Relaxed) == me {
            depth += self.depth.load(Ordering::Relaxed);
            self.unlock();
        }
        pause();
        // At least the call that is made now, which may have come in before threads were counted.
        self.take(me, depth.max(1));
    }

    // ---- the guest ----

    /// Come in if nobody is inside.
    #[must_use]
    pub fn enter_as_guest(&self, me: u64) -> bool {
        if self
            .lock
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        if self.state.load(Ordering::SeqCst) & SETTLED == 0 {
            self.state.fetch_or(GUEST, Ordering::SeqCst);
            self.platform.heavy();
            if self.inside.load(Ordering::Acquire) & DEPTH != 0 {
                self.leave_as_guest();
                return false;
            }
        }
        self.holder.store(me, Ordering::Relaxed);
        self.depth.store(1, Ordering::Relaxed);
        true
    }

    /// The guest goes out.
    pub fn leave_as_guest(&self) {
        self.state.fetch_and(!GUEST, Ordering::SeqCst);
        self.unlock();
    }

    /// The guest is inside: somebody wants in.
    pub fn is_wanted(&self) -> bool {
        self.lock.load(Ordering::Relaxed) == 2
    }

    /// Whether a call is inside. Not for the guest while it is.
    pub fn is_busy(&self) -> bool {
        self.inside.load(Ordering::Acquire) & DEPTH != 0 || self.lock.load(Ordering::SeqCst) != 0
    }

    /// Changes with every call but the guest's.
    pub fn calls(&self) -> u64 {
        let left = self.inside.load(Ordering::Acquire) / LEFT;
        left.wrapping_add(self.turns.load(Ordering::Acquire))
    }

    /// The guest is told of the next call that leaves; who is inside already after this is seen by
    /// [`is_busy`](Self::is_busy), what has left before by [`calls`](Self::calls).
    pub fn watch(&self) {
        self.watched.store(1, Ordering::SeqCst);
        self.platform.heavy();
    }

    /// The guest need not be told any more.
    pub fn unwatch(&self) {
        self.watched.store(0, Ordering::SeqCst);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// Sleeping on a word, and the barrier: where `membarrier` meets the owner (see `shm/flag.rs`).
    struct Model {
        queue: Mutex<()>,
        woken: Condvar,
        crossing: Mutex<()>,
        told: (Mutex<bool>, Condvar),
    }

    impl Platform for Model {
        fn light(&self) {
            drop(self.crossing.lock().unwrap());
        }

        fn heavy(&self) {
            drop(self.crossing.lock().unwrap());
        }

        fn wait(&self, word: &AtomicU32, expected: u32) {
            let queue = self.queue.lock().unwrap();
            if word.load(Ordering::SeqCst) == expected {
                drop(self.woken.wait(queue).unwrap());
            }
        }

        fn wake(&self, _: &AtomicU32) {
            let queue = self.queue.lock().unwrap();
            self.woken.notify_all();
            drop(queue);
        }

        fn nap(&self) {
            thread::yield_now();
        }

        fn pass(&self) {
            loom::thread::yield_now();
        }

        fn tell(&self) {
            *self.told.0.lock().unwrap() = true;
            self.told.1.notify_all();
        }
    }

    const OWNER: u64 = 1;
    const OTHER: u64 = 2;
    const VISITOR: u64 = 3;

    struct Library {
        gate: Gate<Model>,
        inside: UnsafeCell<u32>,
    }

    impl Library {
        fn new() -> Arc<Self> {
            let library = Arc::new(Self {
                gate: Gate::new(Model {
                    queue: Mutex::new(()),
                    woken: Condvar::new(),
                    crossing: Mutex::new(()),
                    told: (Mutex::new(false), Condvar::new()),
                }),
                inside: UnsafeCell::new(0),
            });
            // The first call makes the owner.
            library.call(OWNER);
            library
        }

        /// Two at once are an error that loom reports.
        fn touch(&self) {
            // SAFETY: whoever is inside is alone: what is tested here.
            self.inside.with_mut(|count| unsafe { *count += 1 });
        }

        fn call(&self, me: u64) {
            self.gate.enter(me);
            self.touch();
            self.gate.leave(me);
        }

        fn visit(&self) {
            if self.gate.enter_as_guest(VISITOR) {
                self.touch();
                self.gate.leave_as_guest();
            }
        }
    }

    fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(model);
    }

    #[test]
    fn loom_owner_and_guest_are_never_inside_together() {
        check(2, || {
            let library = Library::new();
            let guest = thread::spawn({
                let library = Arc::clone(&library);
                move || {
                    library.visit();
                    library.visit();
                }
            });
            library.call(OWNER);
            library.gate.enter(OWNER);
            library.touch();
            library.call(OWNER);
            library.touch();
            library.gate.leave(OWNER);
            guest.join().unwrap();
            assert!(!library.gate.is_busy());
        });
    }

    #[test]
    fn loom_owner_guest_and_a_second_thread_are_never_inside_together() {
        check(1, || {
            let library = Library::new();
            let others = [false, true].map(|guest| {
                let library = Arc::clone(&library);
                thread::spawn(move || {
                    if guest {
                        library.visit();
                    } else {
                        library.call(OTHER);
                    }
                })
            });
            library.call(OWNER);
            for other in others {
                other.join().unwrap();
            }
            assert!(!library.gate.is_busy());
        });
    }

    #[test]
    fn loom_who_steps_aside_lets_the_second_thread_in() {
        check(2, || {
            let library = Library::new();
            let other = thread::spawn({
                let library = Arc::clone(&library);
                move || library.call(OTHER)
            });
            library.gate.enter(OWNER);
            library.touch();
            if library.gate.is_shared() {
                library.gate.step_aside(OWNER, || ());
                library.touch();
            }
            library.gate.leave(OWNER);
            other.join().unwrap();
            assert!(!library.gate.is_busy());
        });
    }

    /// The guest sleeps until it is told, and never for ever when a call was made that it does not know of.
    #[test]
    fn loom_the_guest_is_told_of_calls() {
        check(2, || {
            let library = Library::new();
            let guest = thread::spawn({
                let library = Arc::clone(&library);
                move || {
                    let gate = &library.gate;
                    if !gate.enter_as_guest(VISITOR) {
                        return;
                    }
                    gate.watch();
                    let calls = gate.calls();
                    gate.leave_as_guest();
                    // The owner makes one call more.
                    if calls == 2 || gate.calls() != calls || gate.is_busy() {
                        return;
                    }
                    let (told, bell) = &gate.platform.told;
                    let mut told = told.lock().unwrap();
                    while !*told {
                        told = bell.wait(told).unwrap();
                    }
                }
            });
            library.call(OWNER);
            guest.join().unwrap();
        });
    }
}
