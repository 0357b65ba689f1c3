//! C's standard output, as far as belonging to a job concerns it.

use std::os::fd::AsRawFd;

unsafe extern "C" {
    /// The C library's standard output.
    static mut stdout: *mut libc::FILE;
}

/// Wait, for a fifth of a second at most, until what was written to standard output and error has been taken out of their
/// pipes: a launcher that is asked to end the job may do so before it reads why.
pub(crate) fn drain() {
    for _ in 0..200 {
        let waiting = [1, 2].iter().any(|fd| {
            let mut bytes: libc::c_int = 0;
            // SAFETY: asks how much a pipe holds, which is written to an integer; other files say that they cannot tell.
            is_pipe(*fd) && unsafe { libc::ioctl(*fd, libc::FIONREAD, &mut bytes) } == 0 && bytes > 0
        });
        if !waiting {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn is_pipe(fd: libc::c_int) -> bool {
    // SAFETY: stat is plain data that the kernel fills in; any number may be asked about.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFIFO
    }
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
