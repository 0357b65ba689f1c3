//! Signals, and what goes down the pipe from the front process to the guardian.

/// On the control pipe: kill everything now. Other bytes are signals to forward.
pub const KILL_NOW: u8 = 0xff;

/// Signals forwarded to the ranks.
pub const FORWARDED: &[i32] = &[
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// Those of them by which a user asks a job to end.
pub const ENDING: &[i32] = &[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Signals that `--waits-signal` may name.
pub const NAMED: &[(&str, i32)] = &[
    ("HUP", libc::SIGHUP),
    ("QUIT", libc::SIGQUIT),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
];
