//! Starting the process of a rank: fork, a few system calls, exec. Everything is prepared before the fork, since
//! the child may do nothing but system calls.

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, chdir, getpid, getppid, set_parent_process_death_signal, setpgid,
    setrlimit, setsid,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ffi::{CStr, CString};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{BorrowedFd, RawFd};

/// Arguments or variables as `execve` wants them.
pub struct Strings {
    /// Keeps the pointers valid.
    _owned: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Strings {
    pub fn new(owned: Vec<CString>) -> Strings {
        let mut pointers: Vec<_> = owned.iter().map(|s| s.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Strings {
            _owned: owned,
            pointers,
        }
    }
}

/// What a process needs to be a rank.
pub struct Start<'a> {
    pub rank: u32,
    pub file: &'a CStr,
    pub args: &'a Strings,
    /// The same for `/bin/sh`, for scripts without a first line that names an interpreter.
    pub shell_args: &'a Strings,
    pub env: &'a Strings,
    pub directory: Option<&'a CStr>,
    /// What becomes descriptors 0, 1 and 2; `None` leaves mpiexec's.
    pub stdio: [Option<RawFd>; 3],
    pub job_fd: Option<BorrowedFd<'a>>,
    /// Where the job's lifeline is opened.
    pub lifeline: &'a CStr,
    pub cpus: Option<&'a CpuSet>,
    /// The rank has cores of its own: it gets a session of its own too. Where the kernel shares out time by sessions
    /// (`sched_autogroup`), a rank then has as much of it as a stranger on its core; ranks that take turns on a core stay in one, in
    /// which a yield passes the core on.
    pub session: bool,
    /// Where to report that the program could not be started.
    pub errors: BorrowedFd<'a>,
    /// Signals to reset to what they were when mpiexec was started.
    pub default_signals: &'a [Signal],
    pub mask: &'a libc::sigset_t,
    pub file_limit: Option<&'a Rlimit>,
}

/// Scripts open files by small numbers.
const OUT_OF_THE_WAY: RawFd = 200;

/// What a child was doing when it failed.
const STEPS: [&str; 3] = [
    "set up its input and output",
    "change to its directory",
    "start the program",
];

/// Bytes of a failed child's report.
pub const REPORT_LEN: usize = 12;

/// Read a failed child's report: the rank, what happened, the exit code it stands for.
pub fn read_report(bytes: &[u8; REPORT_LEN]) -> (u32, String, i32) {
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let step = STEPS.get(word(4) as usize).copied().unwrap_or("start");
    let error = Error::from_raw_os_error(word(8) as i32);
    let code = if error.kind() == ErrorKind::NotFound {
        127
    } else {
        126
    };
    (word(0), format!("could not {step}: {error}"), code)
}

/// Make a second process of this one; `None` in the new one.
///
/// # Safety
/// That of fork(2): where other threads may hold locks, the new process makes system calls only.
pub unsafe fn fork() -> Result<Option<Pid>> {
    // SAFETY: as the caller says.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Start a process. It dies with this one, is in a process group of its own, and reports to `errors` if it
/// cannot become the program.
pub fn start(s: &Start<'_>) -> Result<Pid> {
    let parent = getpid();
    // SAFETY: the child calls nothing but system calls and leaves through exec or _exit.
    let Some(pid) = (unsafe { fork()? }) else {
        let (step, error) = become_rank(s, parent);
        let mut report = [0u8; REPORT_LEN];
        report[..4].copy_from_slice(&s.rank.to_ne_bytes());
        report[4..8].copy_from_slice(&step.to_ne_bytes());
        report[8..].copy_from_slice(&error.raw_os_error().to_ne_bytes());
        // Less than a pipe takes at once.
        let _ = rustix::io::write(s.errors, &report);
        exit();
    };
    if !s.session {
        // Also done by the child; whoever is first, the group exists when we go on.
        let _ = setpgid(Some(pid), Some(pid));
    }
    Ok(pid)
}

/// End a child that has not become a program.
fn exit() -> ! {
    // SAFETY: takes an integer, and runs nothing of this program's.
    unsafe { libc::_exit(127) }
}

/// The child's part, of system calls only: it gives away descriptors and replaces the program. Returns only on failure: the step
/// that failed, and why.
fn become_rank(s: &Start<'_>, parent: Pid) -> (u32, Errno) {
    let _ = if s.session {
        setsid().map(drop)
    } else {
        setpgid(None, None)
    };
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if getppid() != Some(parent) {
        // The guardian died before the line above.
        exit();
    }
    // Whatever stands between this process and the program: all that stays in this group ends with the launcher.
    if let Some(line) = farpost_job::lifeline::arm(s.lifeline) {
        let line = fcntl_dupfd_cloexec(&line, OUT_OF_THE_WAY).unwrap_or(line);
        let _ = fcntl_setfd(&line, FdFlags::empty());
        std::mem::forget(line);
    }
    for signal in s.default_signals {
        // SAFETY: takes integers, installs no handler.
        unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) };
    }
    // SAFETY: a valid set.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, s.mask, std::ptr::null_mut()) };
    for (target, source) in s.stdio.iter().enumerate() {
        let Some(source) = source else { continue };
        // SAFETY: takes integers; what was open under 0, 1 and 2 belongs to the program that ends here.
        if unsafe { libc::dup2(*source, target as i32) } < 0 {
            return (0, last());
        }
    }
    if let Some(memory) = s.job_fd {
        let _ = fcntl_setfd(memory, FdFlags::empty());
    }
    if let Some(limit) = s.file_limit {
        let _ = setrlimit(Resource::Nofile, *limit);
    }
    if let Some(cpus) = s.cpus {
        let _ = sched_setaffinity(None, cpus);
    }
    if let Some(Err(error)) = s.directory.map(chdir) {
        return (1, error);
    }
    let run = |file: &CStr, args: &Strings| {
        // SAFETY: a C string, and lists of them that end with a null pointer.
        unsafe { libc::execve(file.as_ptr(), args.pointers.as_ptr(), s.env.pointers.as_ptr()) };
        last()
    };
    match run(s.file, s.args) {
        Errno::NOEXEC => (2, run(c"/bin/sh", s.shell_args)),
        error => (2, error),
    }
}

/// Why the last call of the C library's has failed.
fn last() -> Errno {
    Errno::from_io_error(&Error::last_os_error()).unwrap_or(Errno::INVAL)
}
