//! Sleeping on a futex and being rung.
//! A sleeper raises its flag, then polls once more; a sender makes its message visible, then reads the flag. One of the two must see the other, which takes a full barrier on both sides. Sleeping is rare and
//! sending is not, so where the kernel can, the sleeper executes both barriers: `membarrier` makes every running
//! process of the job pass a barrier, and a sender needs none. Where more processes than cores share the
//! host, sleeping is frequent and a sender's own barrier is the cheaper one.

use super::flag;
use farpost_fabric::Wake;
use farpost_fabric::sync::{AtomicU32, Ordering, fence};
use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, Timespec, futex, membarrier, membarrier_query};
use std::cell::Cell;
use std::time::Duration;

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
        let offered = membarrier_query();
        let wanted = [
            MembarrierCommand::GlobalExpedited,
            MembarrierCommand::RegisterGlobalExpedited,
        ];
        let registered = barrier == Barrier::Sleeper
            && wanted.iter().all(|command| offered.contains_command(*command))
            && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok();
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
            && !(self.registered && membarrier(MembarrierCommand::GlobalExpedited).is_ok())
        {
            timeout.min(SLEEP_WITHOUT_BARRIER)
        } else {
            timeout
        }
    }
}

/// Wait while `*word == expected`.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Duration) -> Wake {
    let limit = Timespec::try_from(timeout).ok();
    match futex::wait(word, futex::Flags::empty(), expected, limit.as_ref()) {
        Err(Errno::TIMEDOUT) => Wake::Timeout,
        Err(Errno::INTR) => Wake::Interrupted,
        _ => Wake::Rung,
    }
}

/// Wake whoever waits on `word`.
pub fn futex_wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}
