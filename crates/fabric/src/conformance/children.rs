//! Processes of a test's own. Who forks must have one thread only.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Run `role` in a process of its own, which ends with this one. For programs of one thread. Its number.
pub fn child(role: impl FnOnce()) -> libc::pid_t {
    // SAFETY: this process has one thread, so that the child may do anything.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        // SAFETY: no memory is involved.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let done = catch_unwind(AssertUnwindSafe(role));
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    pid
}

/// Kill a child, which may have ended already.
pub fn kill(child: libc::pid_t) {
    // SAFETY: our own child, which has not been waited for; no memory is involved.
    unsafe { libc::kill(child, libc::SIGKILL) };
}

/// How a child ended, once it has.
pub fn reap(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}
