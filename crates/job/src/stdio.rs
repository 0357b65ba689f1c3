//! C's standard output, as far as belonging to a job concerns it.

use rustix::fs::{FileType, fstat};
use std::io::{stderr, stdout};
use std::os::fd::{AsFd, BorrowedFd};

unsafe extern "C" {
    /// The C library's standard output.
    #[link_name = "stdout"]
    static mut C_STDOUT: *mut libc::FILE;
}

/// Wait, for a fifth of a second at most, until what was written to standard output and error has been taken out of their
/// pipes: a launcher that is asked to end the job may do so before it reads why.
pub(crate) fn drain() {
    let holds = |fd: BorrowedFd<'_>| {
        kind(fd) == Some(FileType::Fifo) && rustix::io::ioctl_fionread(fd).is_ok_and(|bytes| bytes > 0)
    };
    for _ in 0..200 {
        if !holds(stdout().as_fd()) && !holds(stderr().as_fd()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn kind(fd: BorrowedFd<'_>) -> Option<FileType> {
    let mode = fstat(fd).ok()?.st_mode;
    Some(FileType::from_raw_mode(mode))
}

/// A rank's output goes to its launcher through a pipe, for which C would collect several thousand bytes before it
/// writes. People want to see a line when it is printed, and not lose it when the job is aborted.
pub(crate) fn buffer_by_line() {
    if let Some(FileType::Fifo | FileType::Socket) = kind(stdout().as_fd()) {
        // SAFETY: the C library's own stream, whose buffer it keeps; only when it is emptied changes.
        unsafe { libc::setvbuf(C_STDOUT, std::ptr::null_mut(), libc::_IOLBF, 0) };
    }
}
