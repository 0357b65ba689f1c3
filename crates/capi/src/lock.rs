//! One thread at a time: entering and leaving the library.
//!
//! Below `MPI_THREAD_MULTIPLE` the program sees to that, and a call marks itself with a few plain stores. At
//! `MPI_THREAD_MULTIPLE` the first thread owns the library without any atomic read-modify-write, until a second one comes
//! ([`Gate`]). Programs that ask for the level and use one thread pay nothing for it.
//!
//! The interfaces beside MPI may be called by any thread at any time: the first call of one makes it so
//! (`enter_threaded`), and from then on MPI's functions enter in the same way; a call of MPI's that is inside at that moment
//! is waited for, or lets the other in when it waits itself. Functions that any thread may call at any time, whatever the
//! program asked for, do not mark themselves. A thread that waits in one of them calls
//! [`relax`] between polls, outside of every borrow, since another thread or a handler may come in meanwhile.
//!
//! The thread that makes progress while the program computes (`progress`) comes in as the gate's guest.
//!
//! Requirements of MPI-5.0 section 11.6.

use core::ffi::c_int;
#[cfg(not(target_arch = "x86_64"))]
use std::cell::Cell;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering, compiler_fence};
use std::time::Duration;

use farpost_fabric::gate::{self, Gate, Platform, Waited};
use farpost_fabric::wait::Pause;
use farpost_shm::{futex_wait, futex_wake};
use farpost_simlink::shared_clock;

static GATE: Gate<System> = Gate::new(System);

/// Looks at the lock before a thread sleeps on it: the guest is inside for moments.
const LOOKS: u32 = 200;

pub(crate) struct System;

impl Platform for System {
    #[inline(always)]
    fn light(&self) {
        compiler_fence(Ordering::SeqCst);
    }

    fn heavy(&self) {
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    }

    fn wait(&self, word: &AtomicU32, expected: u32) {
        for _ in 0..LOOKS {
            if word.load(Ordering::Relaxed) != expected {
                return;
            }
            std::hint::spin_loop();
        }
        futex_wait(word, expected, Duration::from_secs(1));
    }

    fn wake(&self, word: &AtomicU32) {
        futex_wake(word);
    }

    fn nap(&self) {
        std::thread::sleep(Duration::from_micros(20));
    }

    fn pass(&self) {
        std::thread::yield_now();
    }

    fn tell(&self) {
        tell();
    }
}

/// The bell of the guest, an event descriptor; -1: there is none.
static BELL: AtomicI32 = AtomicI32::new(-1);

/// Whom calls that leave tell from now on, where the guest [watches](watch): an event descriptor, or -1 for nobody.
pub(crate) fn set_bell(bell: RawFd) {
    BELL.store(bell, Ordering::SeqCst);
}

#[cold]
fn tell() {
    let bell = BELL.load(Ordering::SeqCst);
    if bell >= 0 {
        ring(bell);
    }
}

/// Make an event descriptor readable.
pub(crate) fn ring(bell: RawFd) {
    let one = 1_u64;
    // SAFETY: eight bytes to be read. A number that is full wakes as well.
    unsafe { libc::write(bell, (&raw const one).cast(), 8) };
}

const MEMBARRIER_CMD_QUERY: c_int = 0;
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: c_int = 8;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: c_int = 16;

fn membarrier(command: c_int) -> bool {
    // SAFETY: orders memory accesses, changes no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// A number that no other live thread has.
#[inline(always)]
fn me() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let pointer: u64;
        // SAFETY: the thread control block begins with its own address (x86-64 ELF TLS).
        unsafe {
            core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
        }
        pointer
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        thread_local!(static MARK: Cell<u8> = const { Cell::new(0) });
        MARK.with(|mark| core::ptr::from_ref(mark).addr() as u64)
    }
}

/// From now on threads may come together. Another thread may be inside: who comes waits for it.
pub(crate) fn allow_threads() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
            GATE.always_lock();
        }
        GATE.count();
    });
}

/// When MPI begins. Where the kernel has no barrier for all threads, nobody could see an early call: then calls are counted
/// from the start.
pub(crate) fn begin() {
    // SAFETY: a question that changes nothing.
    let known = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) };
    if known < 0 || known & libc::c_long::from(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0 {
        allow_threads();
    }
}

/// Come in, through an interface whose functions any thread may call. What runs inside may come in again.
#[inline(always)]
pub(crate) fn enter_threaded() -> Entered {
    if !GATE.is_counted() {
        allow_threads_first();
    }
    enter_multiple();
    Entered(true)
}

#[cold]
#[inline(never)]
fn allow_threads_first() {
    allow_threads();
}

/// Whether threads may come together.
pub(crate) fn threads_allowed() -> bool {
    GATE.is_counted()
}

/// In a child after a fork there are no other threads, and no call of theirs is inside.
pub(crate) fn forget_threads() {
    GATE.forget();
}

/// Inside until dropped; counted or not.
pub(crate) struct Entered(bool);

/// Come in by a function that any thread may call at any time; waits for others to leave, where threads are counted.
#[inline(always)]
pub(crate) fn enter_any_time() -> Entered {
    let counted = GATE.is_counted();
    if counted {
        enter_multiple();
    }
    Entered(counted)
}

impl Drop for Entered {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 {
            leave_multiple();
        }
    }
}

/// Inside until dropped, and marked.
pub(crate) struct Marked(());

/// Come in by a function of MPI's, of which the program lets no two meet below `MPI_THREAD_MULTIPLE`; waits for others to
/// leave, where threads are counted.
#[inline(always)]
pub(crate) fn enter() -> Marked {
    if GATE.is_counted() || !GATE.enter_early(me()) {
        enter_multiple();
    }
    Marked(())
}

impl Drop for Marked {
    #[inline(always)]
    fn drop(&mut self) {
        if !GATE.leave_early() {
            leave_multiple();
        }
    }
}

#[inline(always)]
fn enter_multiple() {
    GATE.enter(me());
}

#[inline(always)]
fn leave_multiple() {
    GATE.leave(me());
}

/// For a call that is inside, and may have come in before threads were counted: from here on it is seen by all.
pub(crate) fn count_in() {
    allow_threads();
    debug_assert!(is_inside());
}

/// The guest inside, until dropped.
pub(crate) type Guest = gate::Guest<'static, System>;

/// Come in as the guest, if nobody is inside.
pub(crate) fn enter_as_guest() -> Option<Guest> {
    GATE.enter_as_guest(me())
}

/// Whether this thread is inside.
pub(crate) fn is_inside() -> bool {
    GATE.is_inside(me())
}

/// Whether somebody is inside; not for the guest while it is.
pub(crate) fn is_busy() -> bool {
    GATE.is_busy()
}

/// Changes with every call of the program's.
pub(crate) fn calls() -> u64 {
    GATE.calls()
}

/// The guest is told ([`set_bell`]) of the next call that leaves.
pub(crate) fn watch() {
    GATE.watch();
}

/// The guest need not be told any more.
pub(crate) fn unwatch() {
    GATE.unwatch();
}

/// Leave one level, while a call is suspended whose stack others will not unwind; [`step_in`] undoes it, maybe in another
/// thread. The thread stays inside by the call that runs this one.
pub(crate) fn step_out() {
    leave_multiple();
}

/// See [`step_out`].
pub(crate) fn step_in() {
    enter_multiple();
}

/// What is done for other interfaces by whoever waits. Some: look again after this, and nobody announces it.
pub(crate) type Chore = fn() -> Option<Duration>;

static CHORE: OnceLock<Chore> = OnceLock::new();

/// Waits that are about to sleep do this before, from now on.
pub(crate) fn set_chore(chore: Chore) {
    CHORE.get_or_init(|| chore);
}

/// While a wait makes no headway: let other threads in. True: time has passed.
pub(crate) fn relax(pause: Pause) -> bool {
    let me = me();
    let again = match CHORE.get() {
        Some(chore) if pause == Pause::Sleep => chore(),
        _ => None,
    };
    if !GATE.must_step_aside(me) {
        let Some(after) = again.filter(|_| !shared_clock::runs()) else {
            return false;
        };
        std::thread::sleep(after);
        return true;
    }
    if shared_clock::runs() {
        // Virtual time passes in the wait itself: without it, no other process would run.
        match GATE.waited_for(me) {
            Waited::ForLock => GATE.step_aside(me, || pass(pause)),
            // Who does looks now and then.
            Waited::MaybeForCall => GATE.step_aside(me, || std::thread::sleep(Duration::from_micros(50))),
            Waited::Not => {}
        }
        return false;
    }
    GATE.step_aside(me, || pass(pause));
    true
}

fn pass(pause: Pause) {
    match pause {
        Pause::Spin => std::hint::spin_loop(),
        Pause::Yield => std::thread::yield_now(),
        Pause::Sleep => std::thread::sleep(Duration::from_micros(50)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    /// A word that only the lock protects.
    struct Plain(std::cell::UnsafeCell<u64>);
    // SAFETY: reached from inside the library only.
    unsafe impl Sync for Plain {}

    static COUNT: Plain = Plain(std::cell::UnsafeCell::new(0));

    fn add() {
        static BUSY: AtomicU64 = AtomicU64::new(0);
        let others = BUSY.fetch_add(1, Ordering::Relaxed);
        assert_eq!(others, 0, "two threads are inside");
        (0..100).for_each(|_| std::hint::spin_loop());
        // SAFETY: the caller is inside, so that no other thread is.
        unsafe { *COUNT.0.get() += 1 };
        BUSY.fetch_sub(1, Ordering::Relaxed);
    }

    /// A call of MPI's is inside, below MPI_THREAD_MULTIPLE, when another thread calls another interface for the first time.
    #[test]
    fn the_first_of_another_thread_waits_for_an_early_call() {
        static OURS: Gate<System> = Gate::new(System);
        static INSIDE: AtomicBool = AtomicBool::new(false);
        static CAME: AtomicBool = AtomicBool::new(false);
        if membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
            assert!(OURS.enter_early(me()));
            // One deeper, as from a function of the program's that is called from inside.
            assert!(OURS.enter_early(me()));
            INSIDE.store(true, Ordering::SeqCst);
            let other = std::thread::spawn(|| {
                OURS.count();
                OURS.enter(me());
                CAME.store(true, Ordering::SeqCst);
                assert!(!INSIDE.load(Ordering::SeqCst));
                OURS.leave(me());
            });
            while !OURS.is_counted() {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            assert!(!OURS.leave_early() && !CAME.load(Ordering::SeqCst));
            OURS.leave(me());
            // What waits inside lets it in.
            assert!(OURS.must_step_aside(me()));
            INSIDE.store(false, Ordering::SeqCst);
            OURS.step_aside(me(), || {
                while !CAME.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            });
            other.join().unwrap();
            assert!(OURS.is_inside(me()));
            OURS.leave(me());
            assert!(!OURS.is_busy() && !OURS.is_inside(me()));
        }
    }

    /// Threads that come from the start, into each other's first call too, that come in twice and let others in; and a guest
    /// that looks in all the time and is refused most times.
    #[test]
    fn one_thread_at_a_time_is_inside() {
        const THREADS: u64 = 4;
        const TURNS: u64 = 2000;
        let (over, visits) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if let Some(_inside) = enter_as_guest() {
                        add();
                        visits.fetch_add(1, Ordering::Relaxed);
                    }
                    std::hint::spin_loop();
                }
            });
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        for turn in 0..TURNS {
                            let _inside = enter_threaded();
                            add();
                            let _deeper = enter_threaded();
                            add();
                            if turn % 16 == 0 {
                                relax(Pause::Yield);
                            }
                            add();
                        }
                    });
                }
            });
            over.store(true, Ordering::Relaxed);
        });
        let _inside = enter_threaded();
        // SAFETY: we are inside.
        let count = unsafe { *COUNT.0.get() };
        assert_eq!(count, THREADS * TURNS * 3 + visits.into_inner());
    }
}
