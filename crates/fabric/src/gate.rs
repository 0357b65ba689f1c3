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
//! Before several threads may come at all ([`Gate::count`]) the program sees to it that calls do not meet, and a call marks
//! itself as *early* with plain stores ([`Gate::enter_early`]). Who comes in after the change waits until the early call has
//! left, or steps aside because it waits itself; nobody else has to be asked.
//!
//! Cost class: *fast path* for the owner and for early calls.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Several threads come: everybody takes the lock.
pub const SHARED: u32 = 1;
/// The owner from before that was seen outside: whoever has the lock is alone.
const SETTLED: u32 = 2;
/// The guest is inside or about to be.
const GUEST: u32 = 4;
/// A call may be inside that came in before threads were counted.
const EARLY: u32 = 8;

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
    /// Several threads may come.
    counted: AtomicU32,
    /// How deep the early call is inside, and whose it is.
    early: AtomicU32,
    early_of: AtomicU64,
    platform: P,
}

/// Whether somebody waits for who is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    Not,
    ForLock,
    /// For a call that came in without the lock, which cannot see it.
    MaybeForCall,
}

/// The guest inside, which goes out when this is dropped: only who holds the lock has one.
#[must_use]
pub struct Guest<'a, P: Platform>(&'a Gate<P>);

impl<P: Platform> Guest<'_, P> {
    /// Somebody wants in.
    pub fn is_wanted(&self) -> bool {
        self.0.lock.load(Ordering::Relaxed) == 2
    }
}

impl<P: Platform> Drop for Guest<'_, P> {
    fn drop(&mut self) {
        self.0.state.fetch_and(!GUEST, Ordering::SeqCst);
        self.0.unlock();
    }
}

/// A `const fn`, but for loom, whose atomics are made at run time.
macro_rules! const_but_in_models {
    ($(#[$meta:meta])* pub const fn $($function:tt)*) => {
        #[cfg(not(loom))]
        $(#[$meta])*
        pub const fn $($function)*
        #[cfg(loom)]
        $(#[$meta])*
        pub fn $($function)*
    };
}

impl<P: Platform> Gate<P> {
    const_but_in_models! {
        /// With nobody inside.
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
                counted: AtomicU32::new(0),
                early: AtomicU32::new(0),
                early_of: AtomicU64::new(0),
                platform,
            }
        }
    }

    // ---- before threads are counted ----

    /// Whether several threads may come: then [`enter`](Self::enter) is the way in.
    #[inline(always)]
    pub fn is_counted(&self) -> bool {
        self.counted.load(Ordering::Relaxed) != 0
    }

    /// From now on several threads may come. Any thread may say so at any time, also while another is inside.
    pub fn count(&self) {
        self.state.fetch_or(EARLY, Ordering::SeqCst);
        self.counted.store(1, Ordering::SeqCst);
    }

    /// In a child after a fork, whose only thread this is: nobody is inside, and threads are not counted.
    pub fn forget(&self) {
        self.counted.store(0, Ordering::SeqCst);
        self.early.store(0, Ordering::SeqCst);
    }

    /// Come in, where the program lets no two calls meet. False: threads are counted now, [`enter`](Self::enter).
    #[inline(always)]
    #[must_use]
    pub fn enter_early(&self, me: u64) -> bool {
        let depth = self.early.load(Ordering::Relaxed);
        if depth == 0 {
            self.early_of.store(me, Ordering::Relaxed);
        }
        self.early.store(depth + 1, Ordering::Relaxed);
        self.platform.light();
        if self.counted.load(Ordering::Acquire) == 0 {
            return true;
        }
        self.early.store(depth, Ordering::Release);
        false
    }

    /// Leave one level, if threads are not counted yet; if they are, [`leave`](Self::leave).
    #[inline(always)]
    #[must_use]
    pub fn leave_early(&self) -> bool {
        if self.is_counted() {
            return false;
        }
        let depth = self.early.load(Ordering::Relaxed);
        self.early.store(depth.wrapping_sub(1), Ordering::Release);
        true
    }

    /// Whether this thread is inside by an early call.
    fn is_early(&self, me: u64) -> bool {
        self.early_of.load(Ordering::Relaxed) == me && self.early.load(Ordering::Relaxed) != 0
    }

    /// The early call, which is another thread's, has left or stepped aside.
    fn await_early(&self) {
        if self.state.load(Ordering::Acquire) & EARLY == 0 {
            return;
        }
        self.platform.heavy();
        while self.early.load(Ordering::Acquire) != 0 {
            self.platform.nap();
        }
        self.state.fetch_and(!EARLY, Ordering::SeqCst);
    }

    // ---- from then on ----

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
        if self.is_early(me) {
            let depth = self.early.load(Ordering::Relaxed);
            self.early.store(depth + 1, Ordering::Relaxed);
            return;
        }
        self.await_early();
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
        } else if self.is_early(me) {
            let depth = self.early.load(Ordering::Relaxed);
            self.early.store(depth - 1, Ordering::Release);
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

    /// Whether a thread that waits inside must let others in: several have come, or may come for the first time while its
    /// call is an early one.
    #[inline(always)]
    pub fn must_step_aside(&self, me: u64) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state & (SHARED | EARLY) != 0 && (state & SHARED != 0 || self.is_early(me))
    }

    /// Whether another thread waits for this one, which [must](Self::must_step_aside) let it in.
    pub fn waited_for(&self, me: u64) -> Waited {
        if self.holder.load(Ordering::Relaxed) != me {
            Waited::MaybeForCall
        } else if self.lock.load(Ordering::Relaxed) == 2 {
            Waited::ForLock
        } else {
            Waited::Not
        }
    }

    /// Whether this thread is inside and counted.
    pub fn is_inside(&self, me: u64) -> bool {
        self.holder.load(Ordering::Relaxed) == me
            || self.is_early(me)
            || self.owner.load(Ordering::Relaxed) == me && self.inside.load(Ordering::Relaxed) & DEPTH != 0
    }

    /// A thread that is inside, where it [must](Self::must_step_aside): go out for as long as `pause` takes.
    pub fn step_aside(&self, me: u64, pause: impl FnOnce()) {
        if self.is_early(me) {
            // From here on it is counted like everybody.
            let depth = self.early.load(Ordering::Relaxed);
            self.early.store(0, Ordering::Release);
            pause();
            (0..depth).for_each(|_| self.enter(me));
            return;
        }
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

    /// Come in if nobody is inside, until the value is dropped.
    pub fn enter_as_guest(&self, me: u64) -> Option<Guest<'_, P>> {
        if self
            .lock
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return None;
        }
        // From here on the lock is held, and dropping this gives it back.
        let guest = Guest(self);
        if self.state.load(Ordering::SeqCst) & (SETTLED | EARLY) != SETTLED {
            self.state.fetch_or(GUEST, Ordering::SeqCst);
            self.platform.heavy();
            let early = self.early.load(Ordering::Acquire) != 0;
            if early || self.inside.load(Ordering::Acquire) & DEPTH != 0 {
                return None;
            }
        }
        self.holder.store(me, Ordering::Relaxed);
        self.depth.store(1, Ordering::Relaxed);
        Some(guest)
    }

    /// Whether a call is inside. Not for the guest while it is.
    pub fn is_busy(&self) -> bool {
        self.inside.load(Ordering::Acquire) & DEPTH != 0
            || self.early.load(Ordering::Acquire) != 0
            || self.lock.load(Ordering::SeqCst) != 0
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
            let library = Self::early();
            library.gate.count();
            // The first call makes the owner.
            library.call(OWNER);
            library
        }

        /// Threads are not counted yet.
        fn early() -> Arc<Self> {
            Arc::new(Self {
                gate: Gate::new(Model {
                    queue: Mutex::new(()),
                    woken: Condvar::new(),
                    crossing: Mutex::new(()),
                    told: (Mutex::new(false), Condvar::new()),
                }),
                inside: UnsafeCell::new(0),
            })
        }

        /// As the library's functions come in and leave.
        fn enter(&self, me: u64) {
            if self.gate.is_counted() || !self.gate.enter_early(me) {
                self.gate.enter(me);
            }
        }

        fn leave(&self, me: u64) {
            if !self.gate.leave_early() {
                self.gate.leave(me);
            }
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
            if let Some(_inside) = self.gate.enter_as_guest(VISITOR) {
                self.touch();
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

    /// A call that came in while nobody else could, one deeper inside it, and the first of another thread.
    #[test]
    fn loom_an_early_call_and_the_first_of_another_thread_do_not_meet() {
        check(1, || {
            let library = Library::early();
            let other = thread::spawn({
                let library = Arc::clone(&library);
                move || {
                    library.gate.count();
                    library.call(OTHER);
                }
            });
            for _ in 0..2 {
                library.enter(OWNER);
                library.touch();
                library.enter(OWNER);
                library.touch();
                library.leave(OWNER);
                library.touch();
                library.leave(OWNER);
            }
            other.join().unwrap();
            assert!(!library.gate.is_busy());
        });
    }

    /// It waits for what only the other does, and lets it in; and a guest is there as well.
    #[test]
    fn loom_an_early_call_that_waits_lets_the_other_thread_in() {
        check(2, || {
            let library = Library::early();
            let done = Arc::new(AtomicU32::new(0));
            library.enter(OWNER);
            let other = thread::spawn({
                let (library, done) = (Arc::clone(&library), Arc::clone(&done));
                move || {
                    library.gate.count();
                    library.gate.enter(OTHER);
                    library.touch();
                    done.store(1, Ordering::Release);
                    library.gate.leave(OTHER);
                }
            });
            library.touch();
            while done.load(Ordering::Acquire) == 0 {
                if library.gate.must_step_aside(OWNER) {
                    library.gate.step_aside(OWNER, thread::yield_now);
                    library.touch();
                } else {
                    thread::yield_now();
                }
            }
            library.leave(OWNER);
            other.join().unwrap();
            library.call(OWNER);
            assert!(!library.gate.is_busy());
        });
    }

    #[test]
    fn loom_an_early_call_and_the_guest_are_never_inside_together() {
        check(2, || {
            let library = Library::early();
            library.enter(OWNER);
            // The guest is made in such a call.
            library.gate.count();
            let guest = thread::spawn({
                let library = Arc::clone(&library);
                move || {
                    library.visit();
                    library.visit();
                }
            });
            library.touch();
            library.leave(OWNER);
            library.enter(OWNER);
            library.touch();
            library.leave(OWNER);
            guest.join().unwrap();
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
                    let Some(guest) = gate.enter_as_guest(VISITOR) else {
                        return;
                    };
                    gate.watch();
                    let calls = gate.calls();
                    drop(guest);
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
