//! The process that joined the job is remembered: a child that it forks has copies of everything (memory, descriptors,
//! exit handlers) and is no part of the job. In it what closes an interface does nothing, also when an exit handler calls it, and
//! any other call says so and ends the child alone. Nothing of the job's memory, sockets or descriptors is touched.
//!
//! `vfork`, `posix_spawn` and `system` go on as they are: their child runs another program or ends at once.
//!
//! Cost class: set-up path. The fast lanes are closed in a child, so that they need not ask.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::lock;
use crate::process::say;

/// The process that joined the job; 0 before.
static OF: AtomicU32 = AtomicU32::new(0);
/// This is a child that it forked.
static CHILD: AtomicBool = AtomicBool::new(false);

/// This process is joining the job. A child that it forks calls `in_child`.
pub(crate) fn remember(in_child: unsafe extern "C" fn()) {
    OF.store(std::process::id(), Ordering::SeqCst);
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function stays as long as the library, whose unloading takes it out of the list.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// In the child, by the thread that forked, which is its only one. Whether the parent had joined the job.
pub(crate) fn note_child() -> bool {
    let joined = OF.load(Ordering::SeqCst) != 0;
    CHILD.store(joined, Ordering::SeqCst);
    joined
}

/// Whether this is a child of the process that joined the job, however it was forked.
pub(crate) fn is_child() -> bool {
    let of = OF.load(Ordering::SeqCst);
    CHILD.load(Ordering::SeqCst) || of != 0 && of != std::process::id()
}

/// What is wrong with a call in a child.
pub(crate) fn sentence() -> String {
    format!(
        "called in process {}, which was forked from process {} after that had joined the job and is no part of it: a forked \
         child may run another program or end (what finalises or closes an interface does nothing there)",
        std::process::id(),
        OF.load(Ordering::SeqCst)
    )
}

/// End the child alone: its exit handlers are the parent's.
pub(crate) fn end(function: &str, code: i32) -> ! {
    if function.is_empty() {
        say(&sentence());
    } else {
        say(&format!("{function}: {}", sentence()));
    }
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// Whether a call that comes in threaded has to ask [`is_child`]: hardly ever, and always in a child.
#[inline(always)]
pub(crate) fn may_be_child() -> bool {
    !lock::threads_allowed() && CHILD.load(Ordering::Relaxed)
}
