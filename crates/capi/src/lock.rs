//! One thread at a time: entering and leaving the library.
//!
//! Below `MPI_THREAD_MULTIPLE` the program sees to that and entering costs one predicted branch. At
//! `MPI_THREAD_MULTIPLE` the first thread owns the library without any atomic read-modify-write: it marks
//! itself inside with a plain store and looks whether somebody else wants in. Somebody else first raises
//! `shared`, then makes the owner's processor pass a barrier (`membarrier`), so that one of the two sees the
//! other; from then on all threads take an ordinary lock. Programs that ask for the level and use one thread
//! pay nothing for it.
//!
//! The interfaces beside MPI may be called by any thread at any time: the first call of one makes it so
//! (`enter_threaded`), and from then on MPI's functions enter in the same way. A thread that waits in one of them calls
//! [`relax`] between polls, outside of every borrow, since another thread or a handler may come in meanwhile.

use core::ffi::c_int;
#[cfg(not(target_arch = "x86_64"))]
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, compiler_fence};
use std::time::Duration;

use farpost_fabric::shm::{futex_wait, futex_wake};
use farpost_fabric::wait::Pause;

/// Whether threads may enter together.
static MULTIPLE: AtomicBool = AtomicBool::new(false);
/// The thread that owns the library while it is alone.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// How deep the owner is inside; 0: outside.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// A second thread has come: everybody takes the lock.
static SHARED: AtomicBool = AtomicBool::new(false);
/// The lock: 0 free, 1 taken, 2 taken and waited for.
static LOCK: AtomicU32 = AtomicU32::new(0);
/// Who has the lock, and how deep.
static HOLDER: AtomicUsize = AtomicUsize::new(0);
static DEPTH: AtomicU32 = AtomicU32::new(0);

const MEMBARRIER_CMD_PRIVATE_EXPEDITED: c_int = 8;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: c_int = 16;

fn membarrier(command: c_int) -> bool {
    // SAFETY: orders memory accesses, changes no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// A number that no other live thread has.
#[inline(always)]
fn me() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let pointer: usize;
        // SAFETY: the thread control block begins with its own address (x86-64 ELF TLS).
        unsafe {
            core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
        }
        pointer
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        thread_local!(static MARK: Cell<u8> = const { Cell::new(0) });
        MARK.with(|mark| core::ptr::from_ref(mark).addr())
    }
}

/// From now on threads may come together. Not to be called while another thread is inside.
pub(crate) fn allow_threads() {
    if !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
        SHARED.store(true, Ordering::SeqCst);
    }
    MULTIPLE.store(true, Ordering::SeqCst);
}

/// Come in, through an interface whose functions any thread may call. What runs inside may come in again.
#[inline(always)]
pub(crate) fn enter_threaded() -> Entered {
    if !MULTIPLE.load(Ordering::Relaxed) {
        first_thread();
    }
    enter_multiple();
    Entered(())
}

#[cold]
#[inline(never)]
fn first_thread() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(allow_threads);
}

/// Whether threads may come together.
pub(crate) fn threads_allowed() -> bool {
    MULTIPLE.load(Ordering::Relaxed)
}

/// Inside until dropped.
pub(crate) struct Entered(());

/// Come in; waits for others to leave.
#[inline(always)]
pub(crate) fn enter() -> Entered {
    if MULTIPLE.load(Ordering::Relaxed) {
        enter_multiple();
    }
    Entered(())
}

impl Drop for Entered {
    #[inline(always)]
    fn drop(&mut self) {
        if MULTIPLE.load(Ordering::Relaxed) {
            leave_multiple();
        }
    }
}

#[inline]
fn enter_multiple() {
    let me = me();
    if !SHARED.load(Ordering::Relaxed) && OWNER.load(Ordering::Relaxed) == me {
        INSIDE.store(INSIDE.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if !SHARED.load(Ordering::Relaxed) {
            return;
        }
        // Somebody came between; what we have just marked he will wait for.
        if INSIDE.load(Ordering::Relaxed) > 1 {
            return;
        }
        INSIDE.store(0, Ordering::Release);
    }
    enter_slow(me);
}

#[cold]
#[inline(never)]
fn enter_slow(me: usize) {
    if !SHARED.load(Ordering::Acquire) {
        if OWNER
            .compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
        {
            return enter_multiple();
        }
        SHARED.store(true, Ordering::SeqCst);
    }
    if HOLDER.load(Ordering::Relaxed) == me {
        DEPTH.store(DEPTH.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        return;
    }
    // Every newcomer waits for the former owner to be outside, or to have taken the lock himself.
    if OWNER.load(Ordering::SeqCst) != me {
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        while INSIDE.load(Ordering::Acquire) != 0 {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    lock(me, 1);
}

fn lock(me: usize, depth: u32) {
    if LOCK
        .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        while LOCK.swap(2, Ordering::Acquire) != 0 {
            futex_wait(&LOCK, 2, Duration::from_secs(1));
        }
    }
    HOLDER.store(me, Ordering::Relaxed);
    DEPTH.store(depth, Ordering::Relaxed);
}

fn unlock() {
    HOLDER.store(0, Ordering::Relaxed);
    if LOCK.swap(0, Ordering::Release) == 2 {
        futex_wake(&LOCK);
    }
}

#[inline]
fn leave_multiple() {
    let me = me();
    if HOLDER.load(Ordering::Relaxed) == me {
        let depth = DEPTH.load(Ordering::Relaxed) - 1;
        DEPTH.store(depth, Ordering::Relaxed);
        if depth == 0 {
            unlock();
        }
    } else if OWNER.load(Ordering::Relaxed) == me {
        let inside = INSIDE.load(Ordering::Relaxed);
        INSIDE.store(inside.saturating_sub(1), Ordering::Release);
    }
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

/// While a wait makes no headway: let other threads in. True: time has passed.
pub(crate) fn relax(pause: Pause) -> bool {
    if !SHARED.load(Ordering::Relaxed) {
        return false;
    }
    let me = me();
    let depth = if HOLDER.load(Ordering::Relaxed) == me {
        let depth = DEPTH.load(Ordering::Relaxed);
        unlock();
        depth
    } else {
        // The owner from before there were others: from here on it holds the lock like everybody.
        INSIDE.swap(0, Ordering::SeqCst)
    };
    match pause {
        Pause::Spin => std::hint::spin_loop(),
        Pause::Yield => std::thread::yield_now(),
        Pause::Sleep => std::thread::sleep(Duration::from_micros(50)),
    }
    lock(me, depth);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word that only the lock protects.
    struct Plain(std::cell::UnsafeCell<u64>);
    // SAFETY: reached from inside the library only.
    unsafe impl Sync for Plain {}

    static COUNT: Plain = Plain(std::cell::UnsafeCell::new(0));

    fn add() {
        // SAFETY: the caller is inside, so that no other thread is.
        unsafe { *COUNT.0.get() += 1 };
    }

    /// Threads that come from the start, into each other's first call too, that come in twice and let others in.
    #[test]
    fn one_thread_at_a_time_is_inside() {
        const THREADS: u64 = 4;
        const TURNS: u64 = 2000;
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
        let _inside = enter_threaded();
        // SAFETY: we are inside.
        assert_eq!(unsafe { *COUNT.0.get() }, THREADS * TURNS * 3);
    }
}
