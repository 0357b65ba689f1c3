//! Meeting others in the job memory: the fence, and the wait of ranks that are ready. On words that are slept on; a model checker
//! puts its own in their place.
//!
//! What ends a wait is in the word that is slept on, an abort too: seen in another word only, it could come between the look
//! at that word and the sleep, and wake nobody.

use crate::error::JobError;
use crate::futex;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// A word that several processes share and sleep on.
pub(crate) trait Word {
    fn load(&self, order: Ordering) -> u32;
    fn store(&self, value: u32, order: Ordering);
    fn fetch_add(&self, amount: u32, order: Ordering) -> u32;
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32;
    /// Sleep until somebody wakes, the word no longer holds `expected`, the time is over, or for no reason.
    fn wait(&self, expected: u32, time: Duration);
    fn wake_all(&self);
}

impl Word for AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        AtomicU32::load(self, order)
    }
    fn store(&self, value: u32, order: Ordering) {
        AtomicU32::store(self, value, order);
    }
    fn fetch_add(&self, amount: u32, order: Ordering) -> u32 {
        AtomicU32::fetch_add(self, amount, order)
    }
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        AtomicU32::fetch_or(self, bits, order)
    }
    fn wait(&self, expected: u32, time: Duration) {
        futex::wait(self, expected, time);
    }
    fn wake_all(&self) {
        futex::wake_all(self);
    }
}

/// Of `done`: a rank has aborted.
const ABORTED: u32 = 1;
/// Of `done`: a fence is completed. They may wrap.
pub(crate) const ROUND: u32 = 2;
/// What an abort adds to the ranks that are ready: more than there can be.
const ALL: u32 = 1 << 31;

/// The words of the fence.
pub(crate) struct Fence<'a, W> {
    /// Ranks that have come to this one.
    pub arrived: &'a W,
    /// How many there were, and [`ABORTED`].
    pub done: &'a W,
}

impl<W: Word> Fence<'_, W> {
    /// Wait until all of `size` ranks have called this as often as this one.
    pub fn pass(&self, size: u32) -> Result<(), JobError> {
        let round = self.done.load(Acquire) & !ABORTED;
        let before = self.arrived.fetch_add(1, AcqRel);
        if before >= size {
            return Err(JobError::Fence(format!(
                "{before} ranks have arrived, the job has {size}"
            )));
        }
        if before + 1 == size {
            // Before anybody can come to the next one.
            self.arrived.store(0, Relaxed);
            self.done.fetch_add(ROUND, Release);
            self.done.wake_all();
            return Ok(());
        }
        loop {
            let seen = self.done.load(Acquire);
            if seen & !ABORTED != round {
                return Ok(());
            }
            if seen & ABORTED != 0 {
                return Err(JobError::Fence("another rank aborted the job".into()));
            }
            self.done.wait(seen, Duration::from_secs(1));
        }
    }

    /// Nobody need wait here any more.
    pub fn abort(&self) {
        self.done.fetch_or(ABORTED, Release);
        self.done.wake_all();
    }
}

/// One more is ready: wait until `ranks` are, or for `limit`, the first `spin` of it without sleeping. The last one does `last` and
/// wakes the others; who sleeps does `sleeps` before. True: it has waited, and all have come.
pub(crate) fn ready(
    word: &impl Word,
    ranks: u32,
    (spin, limit): (Duration, Duration),
    last: impl FnOnce(),
    mut sleeps: impl FnMut(),
) -> bool {
    if word.fetch_add(1, AcqRel) + 1 >= ranks {
        last();
        word.wake_all();
        return false;
    }
    let began = Instant::now();
    loop {
        let (seen, waited) = (word.load(Acquire), began.elapsed());
        if seen >= ranks {
            return seen & ALL == 0;
        }
        if waited >= limit {
            return false;
        }
        if waited < spin {
            std::hint::spin_loop();
        } else {
            sleeps();
            // Only the last one wakes anybody.
            word.wait(seen, limit - waited);
        }
    }
}

/// Nobody need wait for others to be ready.
pub(crate) fn let_go(word: &impl Word) {
    word.fetch_or(ALL, Release);
    word.wake_all();
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicU32;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// A futex word: the kernel compares and goes to sleep in one step, seen from those who wake. Sleeps have no end, so that
    /// nothing but a wake-up helps.
    struct Futex {
        word: AtomicU32,
        queue: Mutex<()>,
        woken: Condvar,
    }

    impl Futex {
        fn new() -> Self {
            Self {
                word: AtomicU32::new(0),
                queue: Mutex::new(()),
                woken: Condvar::new(),
            }
        }
    }

    impl Word for Futex {
        fn load(&self, order: Ordering) -> u32 {
            self.word.load(order)
        }
        fn store(&self, value: u32, order: Ordering) {
            self.word.store(value, order);
        }
        fn fetch_add(&self, amount: u32, order: Ordering) -> u32 {
            self.word.fetch_add(amount, order)
        }
        fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
            self.word.fetch_or(bits, order)
        }
        fn wait(&self, expected: u32, _: Duration) {
            let queue = self.queue.lock().unwrap();
            if self.word.load(Ordering::SeqCst) == expected {
                drop(self.woken.wait(queue).unwrap());
            }
        }
        fn wake_all(&self) {
            let queue = self.queue.lock().unwrap();
            self.woken.notify_all();
            drop(queue);
        }
    }

    /// A job's words, and what each rank writes without any atomics.
    struct Job {
        arrived: Futex,
        done: Futex,
        ready: Futex,
        written: Vec<UnsafeCell<u32>>,
    }

    impl Job {
        fn new(ranks: usize) -> Arc<Self> {
            Arc::new(Self {
                arrived: Futex::new(),
                done: Futex::new(),
                ready: Futex::new(),
                written: (0..ranks).map(|_| UnsafeCell::new(0)).collect(),
            })
        }

        fn fence(&self) -> Fence<'_, Futex> {
            Fence {
                arrived: &self.arrived,
                done: &self.done,
            }
        }

        fn pass(&self) -> bool {
            self.fence().pass(self.written.len() as u32).is_ok()
        }

        fn ready(&self) {
            let ranks = self.written.len() as u32;
            let times = (Duration::ZERO, Duration::MAX);
            ready(&self.ready, ranks, times, || (), || ());
        }

        fn write(&self, rank: usize, value: u32) {
            // SAFETY: nobody else reads or writes it now: what is tested here, by loom's cells.
            self.written[rank].with_mut(|word| unsafe { *word = value });
        }

        fn read(&self, rank: usize) -> u32 {
            // SAFETY: nobody writes it now: what is tested here, by loom's cells.
            self.written[rank].with(|word| unsafe { *word })
        }
    }

    /// `rank` in a thread for each but 0, which is this one.
    fn check(ranks: usize, preemptions: usize, rank: fn(&Job, usize)) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let job = Job::new(ranks);
            let others: Vec<_> = (1..ranks)
                .map(|number| {
                    let job = Arc::clone(&job);
                    thread::spawn(move || rank(&job, number))
                })
                .collect();
            rank(&job, 0);
            for other in others {
                other.join().unwrap();
            }
        });
    }

    /// Each round all write, and after the fence read what all have written in this round: nobody passes early. Two fences a
    /// round, since the next write would meet the reads of those who are slow.
    fn rounds(job: &Job, me: usize) {
        for round in 1..=2 {
            job.write(me, round);
            assert!(job.pass());
            for rank in 0..job.written.len() {
                assert_eq!(job.read(rank), round);
            }
            assert!(job.pass());
        }
    }

    #[test]
    fn loom_a_fence_of_two_orders_all_before_and_after() {
        check(2, 3, rounds);
    }

    #[test]
    fn loom_a_fence_of_three_orders_all_before_and_after() {
        check(3, 2, |job, me| {
            job.write(me, 1);
            assert!(job.pass());
            for rank in 0..3 {
                assert_eq!(job.read(rank), 1);
            }
            assert!(job.pass());
            job.write(me, 2);
        });
    }

    /// The last rank never comes but aborts: the others are let go, at the first fence and every later one.
    #[test]
    fn loom_an_abort_lets_all_go() {
        check(3, 2, |job, me| {
            if me == 2 {
                job.fence().abort();
                let_go(&job.ready);
            } else {
                assert!(!job.pass());
                job.ready();
            }
        });
    }

    /// An abort that comes while all come: nobody is left in this fence or the next.
    #[test]
    fn loom_an_abort_beside_a_fence_leaves_nobody() {
        check(2, 3, |job, me| {
            if job.pass() {
                // Who has passed may abort before the other has seen that it has too; it has.
                if me == 1 {
                    job.fence().abort();
                } else {
                    assert!(!job.pass());
                }
            } else {
                unreachable!("nobody aborts before all have come");
            }
        });
    }

    #[test]
    fn loom_two_that_are_ready_find_each_other() {
        check(2, 3, |job, me| {
            job.write(me, 1);
            job.ready();
            assert_eq!(job.read(1 - me), 1);
        });
    }

    #[test]
    fn loom_three_that_are_ready_find_each_other() {
        check(3, 2, |job, me| {
            job.write(me, 1);
            job.ready();
            for rank in 0..3 {
                assert_eq!(job.read(rank), 1);
            }
        });
    }
}
