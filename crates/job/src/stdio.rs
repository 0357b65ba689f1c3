//! C's standard output, as far as belonging to a job concerns it.

use std::os::fd::AsRawFd;

unsafe extern "C" {
    /// The C library's standard output.
    static mut stdout: *mut libc::FILE;
}

/// A rank's output goes to its launcher through a pipe, for which C would collect several thousand bytes before it
/// writes. People want to see a line when it is printed, and not lose it when the job is aborted.
pub(crate) fn buffer_by_line() {
    // SAFETY: stat is plain data that the kernel fills in.
    let mode = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(std::io::stdout().as_raw_fd(), &mut stat) != 0 {
            return;
        }
        stat.st_mode & libc::S_IFMT
    };
    if mode == libc::S_IFIFO || mode == libc::S_IFSOCK {
        // SAFETY: the C library's own stream, whose buffer it keeps; only when it is emptied changes.
        unsafe { libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IOLBF, 0) };
    }
}
