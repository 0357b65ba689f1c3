//! Signals, and what goes down the pipe from the front process to the guardian.

use rustix::process::Signal;
use std::io::{Error, Result};
use std::os::fd::{FromRawFd, OwnedFd};

/// On the control pipe: kill everything now. Other bytes are signals to forward.
pub const KILL_NOW: u8 = 0xff;

/// Signals forwarded to the ranks.
pub const FORWARDED: &[Signal] = &[
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
    Signal::CONT,
];

/// Those of them by which a user asks a job to end.
pub const ENDING: &[Signal] = &[Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Signals that `--waits-signal` may name.
pub const NAMED: &[(&str, Signal)] = &[
    ("HUP", Signal::HUP),
    ("QUIT", Signal::QUIT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

fn set(signals: &[Signal]) -> libc::sigset_t {
    // SAFETY: sigemptyset makes a valid set of the zeroes; sigaddset takes any signal number.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        signals.iter().for_each(|s| {
            libc::sigaddset(&mut set, s.as_raw());
        });
        set
    }
}

/// Block these signals as well (`libc::SIG_BLOCK`) or these alone (`libc::SIG_SETMASK`); the former set is returned.
pub fn block(how: i32, signals: &[Signal]) -> libc::sigset_t {
    let mut former = set(&[]);
    // SAFETY: both are valid sets.
    unsafe { libc::pthread_sigmask(how, &set(signals), &mut former) };
    former
}

/// A descriptor that becomes readable when one of the (blocked) signals arrives.
pub fn descriptor(signals: &[Signal]) -> Result<OwnedFd> {
    // SAFETY: a valid set; the result is a new descriptor that nobody else owns.
    match unsafe { libc::signalfd(-1, &set(signals), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) } {
        -1 => Err(Error::last_os_error()),
        // SAFETY: as above.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// The next signal from a [`descriptor`].
pub fn next(fd: &OwnedFd) -> Option<Signal> {
    let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(fd, &mut info).ok()?;
    let number = info.first_chunk().filter(|_| read == info.len())?;
    Signal::from_named_raw(i32::from_ne_bytes(*number))
}

/// Is the signal ignored?
pub fn is_ignored(signal: Signal) -> bool {
    // SAFETY: only asks; zeroes are a value of the structure.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal.as_raw(), std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Ignore a signal.
pub fn ignore(signal: Signal) {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) };
}
