//! The lifeline of a job: when the last process of its launcher is gone, the kernel kills what is left of the job.
//!
//! A launcher's processes end each other's ranks when one of them dies. When both are killed at once nobody is left to do that, and the
//! signal that a parent's death can send reaches the parent's child only, which may be a shell around the program. So
//! the launcher's processes hold the writing end of a pipe that nobody writes to. A reading end can be told to announce what
//! happens to it by a signal of one's choice (fcntl(2), `O_ASYNC`, `F_SETSIG`) to a process or a group (`F_SETOWN`): each rank is
//! started with one that has SIGKILL sent to its process group, and each process that joins the job opens one for itself, which
//! reaches it in whatever group it is. The kernel sends the signal when the last writing end is closed, whoever closes it.
//!
//! Where the kernel does not do that, the parent's death is all there is.

use crate::error::JobError;
use crate::memory::JobMemory;
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::process::{getpgrp, getpid};
use std::ffi::{CStr, CString};
use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Both ends, as the launcher's processes hold them until they end.
pub struct Lifeline {
    read: PipeReader,
    _write: PipeWriter,
}

impl Lifeline {
    /// Make one, and say in the job's memory where it is.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn of(memory: &JobMemory) -> Result<Self, JobError> {
        let (read, write) = std::io::pipe().map_err(JobError::of("making the job's lifeline"))?;
        let about = fstat(&read).map_err(JobError::of("looking at the job's lifeline"))?;
        memory.set_lifeline(read.as_raw_fd(), about.st_ino);
        Ok(Self { read, _write: write })
    }

    /// Where a child of the launcher opens it, for [`arm`].
    pub fn path(&self) -> CString {
        path("self", self.read.as_raw_fd())
    }
}

fn path(process: &str, fd: RawFd) -> CString {
    CString::new(format!("/proc/{process}/fd/{fd}")).unwrap_or_default()
}

fn open(path: &CStr) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

/// What happens to the file of `fd` kills `owner`: a process, or a group (negative).
fn bind(fd: &OwnedFd, owner: i32) {
    let fd = fd.as_raw_fd();
    // SAFETY: integers; a kernel that refuses leaves the descriptor as it was.
    unsafe {
        if libc::fcntl(fd, libc::F_SETOWN, owner) == 0 && libc::fcntl(fd, F_SETSIG, libc::SIGKILL) == 0 {
            libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK);
        }
    }
}

/// In a child of the launcher's before it becomes a rank: the process and all that stays in its group are killed when the pipe
/// at `path` has no writer any more. The descriptor, which has to stay open, also beyond exec; `None`: it cannot be done. System calls only.
pub fn arm(path: &CStr) -> Option<OwnedFd> {
    let fd = open(path)?;
    bind(&fd, -getpgrp().as_raw_nonzero().get());
    Some(fd)
}

/// Linux's, of fcntl(2).
const F_SETSIG: libc::c_int = 10;

impl JobMemory {
    /// Be killed with the launcher's last process.
    pub(crate) fn hold_lifeline(&mut self) {
        self.lifeline = hold(self);
    }
}

/// For a process that joins the job: it ends with the launcher's last process, whoever started it and whatever group it is
/// in. To be kept; `None`: it cannot be done.
fn hold(memory: &JobMemory) -> Option<OwnedFd> {
    let (fd, inode) = memory.lifeline()?;
    let opened = open(&path(&memory.launcher().to_string(), fd))?;
    // The launcher's number may be another process's by now.
    let about = fstat(&opened).ok()?;
    if FileType::from_raw_mode(about.st_mode) != FileType::Fifo || about.st_ino != inode {
        return None;
    }
    bind(&opened, getpid().as_raw_nonzero().get());
    Some(opened)
}
