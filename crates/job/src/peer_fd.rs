//! Getting at a descriptor of another process of the same user.

use crate::error::JobError;
use std::fs::{File, OpenOptions};
use std::os::fd::{FromRawFd, OwnedFd};

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
    // SAFETY: takes two integers, returns a new descriptor or an error.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if process < 0 {
        return None;
    }
    // SAFETY: the kernel just returned it; closed when dropped.
    let process = unsafe { File::from_raw_fd(process as i32) };
    // SAFETY: three integers; returns a new descriptor or an error.
    let got = unsafe {
        libc::syscall(
            libc::SYS_pidfd_getfd,
            std::os::fd::AsRawFd::as_raw_fd(&process),
            fd,
            0,
        )
    };
    // SAFETY: as above.
    (got >= 0).then(|| unsafe { OwnedFd::from_raw_fd(got as i32) })
}
