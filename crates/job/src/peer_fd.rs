//! Getting at descriptors of another process of the same user, and at those that it left open for this one.

use crate::error::JobError;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs::OpenOptions;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// A copy of what was left open under this number, if anything was; the copy's number is at least `min`.
pub(crate) fn inherited(raw: RawFd, min: RawFd) -> Option<OwnedFd> {
    if raw < 0 {
        return None;
    }
    // SAFETY: the number goes no further than the kernel, which tells whether anything is open under it.
    let left = unsafe { BorrowedFd::borrow_raw(raw) };
    rustix::io::fcntl_dupfd_cloexec(left, min).ok()
}

/// Do not let programs started later inherit what is open under this number. `false`: nothing is.
pub fn close_on_exec(raw: RawFd) -> bool {
    // SAFETY: takes integers; any number may be asked about.
    unsafe { libc::fcntl(raw, libc::F_SETFD, libc::FD_CLOEXEC) >= 0 }
}

/// Open what process `pid` has open as `fd`. The caller checks what it got: the process may be another by now.
pub(crate) fn open(pid: u32, fd: u32) -> Result<OwnedFd, JobError> {
    let path = format!("/proc/{pid}/fd/{fd}");
    match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => Ok(file.into()),
        Err(error) => duplicate(pid, fd).ok_or_else(|| JobError::system(format!("opening the job memory at {path}, which ranks of one host must be able to do (/proc mounted with hidepid, or containers with processes of their own, forbid it)"), error)),
    }
}

/// The same without /proc, where ptrace rules allow it.
fn duplicate(pid: u32, fd: u32) -> Option<OwnedFd> {
    let process = pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, fd as RawFd, PidfdGetfdFlags::empty()).ok()
}
