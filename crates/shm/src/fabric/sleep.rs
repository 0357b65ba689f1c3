//! Sleeping on a futex and being rung.
//! A sleeper raises its flag, then polls once more; a sender makes its message visible, then reads the flag. One of the two must see the other, which takes a full barrier on both sides. Sleeping is rare and
//! sending is not, so where the kernel can, the sleeper executes both barriers: `membarrier` makes every running
//! process of the job pass a barrier, and a sender needs none. Where more processes than cores share the
//! host, sleeping is frequent and a sender's own barrier is the cheaper one.

use super::flag;
use farpost_fabric::Wake;
use farpost_fabric::sync::{AtomicU32, Ordering, fence};
use std::cell::Cell;
use std::time::Duration;

const MEMBARRIER_CMD_QUERY: libc::c_int = 0;
const MEMBARRIER_CMD_GLOBAL_EXPEDITED: libc::c_int = 2;
const MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED: libc::c_int = 4;

/// Longest sleep where the kernel offers no barrier: a missed message is found after this.
const SLEEP_WITHOUT_BARRIER: Duration = Duration::from_micros(500);

/// Who executes the barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// The sender, after each message.
    Sender,
    /// The sleeper, for everybody.
    Sleeper,
}

fn membarrier(command: libc::c_int) -> libc::c_long {
    // SAFETY: the call orders memory accesses and changes no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// Where this process sleeps.
pub struct Sleeper {
    barrier: Barrier,
    registered: bool,
    /// Messages sent where senders execute the barrier.
    rings: Cell<u64>,
}

impl Sleeper {
    /// `barrier` must be the same choice in all processes of the job.
    pub fn new(barrier: Barrier) -> Self {
        let wanted = MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
        let registered = barrier == Barrier::Sleeper
            && membarrier(MEMBARRIER_CMD_QUERY) & libc::c_long::from(wanted) == libc::c_long::from(wanted)
            && membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
        Self {
            barrier,
            registered,
            rings: Cell::new(0),
        }
    }

    /// Changes with each message, where there are more processes than cores.
    pub fn rings(&self) -> u64 {
        self.rings.get()
    }

    /// Sender's half: after the message is visible, wake the owner of `flag` if it sleeps: by `ring`, which calls
    /// [`claim_and_wake`].
    #[inline(always)]
    pub fn wake(&self, flag: &AtomicU32, ring: impl FnOnce()) {
        match self.barrier {
            Barrier::Sender => {
                self.rings.set(self.rings.get().wrapping_add(1));
                fence(Ordering::SeqCst);
            }
            // The compiler must not move the load above the message's stores; the sleeper's membarrier does
            // the rest.
            Barrier::Sleeper => std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst),
        }
        if flag::is_raised(flag) {
            ring();
        }
    }

    /// Sleeper's half: sleep on `flag` until rung, at most `timeout`.
    pub fn sleep(&self, flag: &AtomicU32, timeout: Duration, ready: &mut dyn FnMut() -> bool) -> Wake {
        self.sleep_by(flag, flag::UP, timeout, ready, |timeout| {
            futex_wait(flag, flag::UP, timeout)
        })
    }

    /// As [`sleep`](Self::sleep), with the flag raised to `up` and sleeping done by `wait`.
    pub fn sleep_by(
        &self,
        flag: &AtomicU32,
        up: u32,
        timeout: Duration,
        ready: &mut dyn FnMut() -> bool,
        wait: impl FnOnce(Duration) -> Wake,
    ) -> Wake {
        let timeout = self.raise(flag, up, timeout);
        if ready() {
            flag::lower(flag);
            return Wake::Ready;
        }
        let wake = wait(timeout);
        flag::lower(flag);
        wake
    }
}

impl Sleeper {
    /// Raise `flag` to `up`. How long one may sleep then, of `timeout`.
    pub fn raise(&self, flag: &AtomicU32, up: u32, timeout: Duration) -> Duration {
        flag::raise(flag, up);
        if self.barrier == Barrier::Sleeper
            && !(self.registered && membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0)
        {
            timeout.min(SLEEP_WITHOUT_BARRIER)
        } else {
            timeout
        }
    }
}

/// Wait while `*word == expected`.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) -> Wake {
    let limit = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: `word` is a live 32-bit atomic, `limit` a valid timespec; the other arguments are unused.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            std::ptr::from_ref(word).cast::<u32>(),
            libc::FUTEX_WAIT,
            expected,
            &raw const limit,
            std::ptr::null::<u32>(),
            0,
        )
    };
    match result {
        0 => Wake::Rung,
        _ => match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::ETIMEDOUT) => Wake::Timeout,
            Some(libc::EINTR) => Wake::Interrupted,
            _ => Wake::Rung,
        },
    }
}

/// Wake whoever waits on `word`.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: `word` is a live 32-bit atomic; the other arguments are unused.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            std::ptr::from_ref(word).cast::<u32>(),
            libc::FUTEX_WAKE,
            i32::MAX,
        )
    };
}
