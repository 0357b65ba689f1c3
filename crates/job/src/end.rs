//! How processes end, for people.

use std::fmt;

/// How a process ended, as `waitpid` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this code.
    Exit(i32),
    /// A signal killed it.
    Signal(i32),
}

impl End {
    /// From a wait status.
    pub fn of(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Exit(libc::WEXITSTATUS(status))
        }
    }

    /// The wait status of a process that ends so.
    pub fn status(self) -> i32 {
        match self {
            Self::Exit(code) => (code & 0xff) << 8,
            Self::Signal(signal) => signal & 0x7f,
        }
    }
}

/// The end of a sentence about the process.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exited with code {code}"),
            Self::Signal(signal) => write!(f, "was killed by {}", signal_name(*signal)),
        }
    }
}

/// A signal as people know it.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL, illegal instruction",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT, aborted",
        libc::SIGBUS => "SIGBUS, bus error",
        libc::SIGFPE => "SIGFPE, arithmetic error",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV, segmentation fault",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE, broken pipe",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU, processor time limit",
        libc::SIGXFSZ => "SIGXFSZ, file size limit",
        libc::SIGSYS => "SIGSYS, bad system call",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told() {
        assert_eq!(End::of(3 << 8).to_string(), "exited with code 3");
        assert_eq!(End::of(9).to_string(), "was killed by signal 9 (SIGKILL)");
        // With a core dump.
        assert_eq!(End::of(11 | 0x80), End::Signal(11));
        for end in [End::Exit(0), End::Exit(255), End::Signal(9)] {
            assert_eq!(End::of(end.status()), end);
        }
    }
}
