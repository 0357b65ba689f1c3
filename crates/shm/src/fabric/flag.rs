//! The flag of a sleeper: the half of sleeping and waking that is memory only, so that it can be
//! model-checked.
//!
//! The sleeper raises its flag, passes a barrier, and looks once more for what it waits for; the sender makes
//! its message visible, passes a barrier, and looks at the flag. One of the two sees the other.
//!
//! Both ways of having the two barriers are modelled: each side executes its own, or the sleeper's `membarrier` has
//! the sender's processor execute one wherever the sender is. Of the second the model has what the kernel promises,
//! no more (see `Crossing`). It does not have processes whose `membarrier` the sleeper's does not reach because they
//! could not register; what they fail to wake sleeps until its time is up.

use farpost_fabric::sync::{AtomicU32, Ordering, fence};

/// A flag that is up, and what a sleeper's futex waits on.
pub const UP: u32 = 1;
/// The same of a sleeper that waits on descriptors instead.
pub const POLLING: u32 = 2;

/// Sleeper: from here on senders see that a wake-up is needed, in the way that `up` says. What arrived before must be
/// looked for after this.
#[inline]
pub fn raise(flag: &AtomicU32, up: u32) {
    flag.store(up, Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

/// Sleeper: awake.
#[inline]
pub fn lower(flag: &AtomicU32) {
    flag.store(0, Ordering::Relaxed);
}

/// Sender, after its message and a barrier: whether the owner of the flag is to be woken.
#[inline]
pub fn is_raised(flag: &AtomicU32) -> bool {
    flag.load(Ordering::Relaxed) != 0
}

/// Sender: whether it falls to us to wake the owner, and in which way; 0 if it does not. The flag is down afterwards,
/// so that the owner does not fall asleep after all.
#[inline]
pub fn claim(flag: &AtomicU32) -> u32 {
    flag.swap(0, Ordering::SeqCst)
}

/// Sender: the owner could not be woken after [`claim`]: it is as if it had not been tried, and the next sender tries.
#[inline]
pub fn unclaim(flag: &AtomicU32, up: u32) {
    let _ = flag.compare_exchange(0, up, Ordering::SeqCst, Ordering::Relaxed);
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;
    use std::mem::ManuallyDrop;

    /// What the kernel's futex does: compare and sleep as one, wake all.
    struct Futex {
        queue: Mutex<()>,
        woken: Condvar,
    }

    impl Futex {
        fn wait(&self, word: &AtomicU32, expected: u32) {
            let queue = self.queue.lock().unwrap();
            if word.load(Ordering::SeqCst) == expected {
                drop(self.woken.wait(queue).unwrap());
            }
        }

        fn wake(&self) {
            let queue = self.queue.lock().unwrap();
            self.woken.notify_all();
            drop(queue);
        }
    }

    /// Where `membarrier` meets one sender. It interrupts the sender at a point that nobody knows, has it pass a full
    /// barrier there, and returns afterwards. So for each point of the sender between two instructions that the
    /// compiler keeps in order: either the interrupt came later, and all that the sender did before that point is
    /// visible to the sleeper after `membarrier`; or it came earlier, and all that the sleeper did before
    /// `membarrier` is visible to the sender after that point. (The asymmetric fences of WG21 P1202 promise the same.)
    ///
    /// That is what a lock taken and released does, once at that point and once in `membarrier`: one comes first, and
    /// what was before it is visible after the other. Each sender has one of its own, so that they order nothing
    /// among each other.
    struct Crossing(Mutex<()>);

    impl Crossing {
        fn pass(&self) {
            drop(self.0.lock().unwrap());
        }
    }

    struct Shared {
        flag: AtomicU32,
        messages: AtomicU32,
        futex: Futex,
        /// Of each sender.
        crossings: [Crossing; 2],
    }

    fn shared() -> Arc<Shared> {
        Arc::new(Shared {
            flag: AtomicU32::new(0),
            messages: AtomicU32::new(0),
            futex: Futex {
                queue: Mutex::new(()),
                woken: Condvar::new(),
            },
            crossings: [0, 1].map(|_| Crossing(Mutex::new(()))),
        })
    }

    /// A message and a wake-up; `barrier` is what stands between them.
    fn send(s: &Shared, barrier: impl Fn()) {
        s.messages.fetch_add(1, Ordering::Release);
        barrier();
        if is_raised(&s.flag) && claim(&s.flag) == UP {
            s.futex.wake();
        }
    }

    /// Sleep until `wanted` messages are there. A lost wake-up is a deadlock, which loom reports.
    fn receive(s: &Shared, wanted: u32) {
        receive_with(s, wanted, &[]);
    }

    /// As `receive`, with a `membarrier` that reaches the senders of `crossings`.
    fn receive_with(s: &Shared, wanted: u32, crossings: &[Crossing]) {
        while s.messages.load(Ordering::Acquire) < wanted {
            raise(&s.flag, UP);
            crossings.iter().for_each(Crossing::pass);
            if s.messages.load(Ordering::Acquire) < wanted {
                s.futex.wait(&s.flag, UP);
            }
            lower(&s.flag);
        }
    }

    /// Who claims the flag and has no way to wake hands it back: the next who sends wakes for both.
    #[test]
    fn loom_who_cannot_wake_leaves_it_to_the_next() {
        loom::model(|| {
            let s = shared();
            let sender = {
                let s = Arc::clone(&s);
                thread::spawn(move || {
                    s.messages.fetch_add(1, Ordering::Release);
                    fence(Ordering::SeqCst);
                    if is_raised(&s.flag) && claim(&s.flag) == UP {
                        unclaim(&s.flag, UP);
                    }
                    send(&s, || fence(Ordering::SeqCst));
                })
            };
            receive(&s, 2);
            sender.join().unwrap();
        });
    }

    #[test]
    fn loom_no_wake_is_lost() {
        loom::model(|| {
            let s = shared();
            let sender = thread::spawn({
                let s = Arc::clone(&s);
                move || send(&s, || fence(Ordering::SeqCst))
            });
            receive(&s, 1);
            sender.join().unwrap();
        });
    }

    #[test]
    fn loom_no_wake_of_two_senders_is_lost() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let s = shared();
            let senders = [0, 1].map(|_| {
                let s = Arc::clone(&s);
                thread::spawn(move || send(&s, || fence(Ordering::SeqCst)))
            });
            receive(&s, 2);
            for sender in senders {
                sender.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_no_wake_of_two_senders_is_lost_with_membarrier() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let s = shared();
            let senders = [0, 1].map(|sender| {
                let s = Arc::clone(&s);
                thread::spawn(move || send(&s, || s.crossings[sender].pass()))
            });
            receive_with(&s, 2, &s.crossings);
            for sender in senders {
                sender.join().unwrap();
            }
        });
    }

    /// One message, with a `membarrier` that reaches the senders of `crossings`, and what the sender does.
    fn one_message(crossings: std::ops::Range<usize>, sender: fn(&Shared)) {
        loom::model(move || {
            // A deadlock is a panic here, in which loom's counted pointers may not be dropped.
            let s = ManuallyDrop::new(shared());
            let thread = thread::spawn({
                let s = Arc::clone(&s);
                move || sender(&s)
            });
            receive_with(&s, 1, &s.crossings[crossings.clone()]);
            thread.join().unwrap();
            drop(ManuallyDrop::into_inner(s));
        });
    }

    #[test]
    fn loom_no_wake_is_lost_with_membarrier() {
        one_message(0..1, |s| send(s, || s.crossings[0].pass()));
    }

    /// The model does not promise too much: a wake-up is lost when the compiler lets the look at the flag pass the
    /// message.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn loom_a_look_before_the_message_loses_a_wake_with_membarrier() {
        one_message(0..1, |s| {
            s.crossings[0].pass();
            send(s, || ());
        });
    }

    /// The same when it does not reach the sender.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn loom_a_membarrier_elsewhere_loses_a_wake() {
        one_message(1..2, |s| send(s, || s.crossings[0].pass()));
    }

    /// The model is able to find a lost wake-up: this is what happens without the sender's barrier.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn loom_without_the_barrier_a_wake_is_lost() {
        loom::model(|| {
            let s = shared();
            let sender = thread::spawn({
                let s = Arc::clone(&s);
                move || {
                    s.messages.store(1, Ordering::Release);
                    if is_raised(&s.flag) && claim(&s.flag) == UP {
                        s.futex.wake();
                    }
                }
            });
            receive(&s, 1);
            sender.join().unwrap();
        });
    }

    /// A thread that looks after the process has raised the flag and waits on a descriptor; then a call of the process
    /// sleeps as well, and its flag takes the place of the other's. It is in the library meanwhile, and tells the thread
    /// when it leaves, if `tells`.
    fn two_sleepers(tells: bool) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let s = ManuallyDrop::new(shared());
            let library = ManuallyDrop::new(Arc::new((Mutex::new(()), Mutex::new(0_u32), Condvar::new())));
            let ring = |library: &(Mutex<()>, Mutex<u32>, Condvar)| {
                *library.1.lock().unwrap() += 1;
                library.2.notify_all();
            };
            let watcher = thread::spawn({
                let (s, library) = (Arc::clone(&s), Arc::clone(&library));
                move || {
                    let mut rung = 0;
                    loop {
                        let inside = library.0.lock().unwrap();
                        raise(&s.flag, POLLING);
                        let come = s.messages.load(Ordering::Acquire) > 0;
                        drop(inside);
                        if come {
                            return;
                        }
                        let mut rings = library.1.lock().unwrap();
                        while *rings == rung {
                            rings = library.2.wait(rings).unwrap();
                        }
                        rung = *rings;
                    }
                }
            });
            let sender = thread::spawn({
                let (s, library) = (Arc::clone(&s), Arc::clone(&library));
                move || {
                    s.messages.fetch_add(1, Ordering::Release);
                    fence(Ordering::SeqCst);
                    if is_raised(&s.flag) {
                        match claim(&s.flag) {
                            POLLING => ring(&library),
                            UP => s.futex.wake(),
                            _ => {}
                        }
                    }
                }
            });
            let inside = library.0.lock().unwrap();
            raise(&s.flag, UP);
            if s.messages.load(Ordering::Acquire) == 0 {
                s.futex.wait(&s.flag, UP);
            }
            lower(&s.flag);
            drop(inside);
            if tells {
                ring(&library);
            }
            watcher.join().unwrap();
            sender.join().unwrap();
            drop((ManuallyDrop::into_inner(s), ManuallyDrop::into_inner(library)));
        });
    }

    #[test]
    fn loom_two_sleepers_of_a_process_share_its_flag() {
        two_sleepers(true);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn loom_without_telling_one_of_two_sleepers_is_forgotten() {
        two_sleepers(false);
    }
}
