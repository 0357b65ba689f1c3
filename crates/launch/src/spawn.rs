//! Starting the process of a rank: fork, a few system calls, exec. Everything is prepared before the fork, since
//! the child may do nothing but system calls.

use std::ffi::{CStr, CString};
use std::io::{Error, Result};
use std::os::fd::RawFd;

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
    pub job_fd: RawFd,
    /// Where the job's lifeline is opened.
    pub lifeline: &'a CStr,
    pub cpus: Option<&'a libc::cpu_set_t>,
    /// The rank has cores of its own: it gets a session of its own too. Where the kernel shares out time by sessions
    /// (`sched_autogroup`), a rank then has as much of it as a stranger on its core; ranks that take turns on a core stay in one, in
    /// which a yield passes the core on.
    pub session: bool,
    /// Where to report that the program could not be started.
    pub errors: RawFd,
    /// Signals to reset to what they were when mpiexec was started.
    pub default_signals: &'a [i32],
    pub mask: &'a libc::sigset_t,
    pub file_limit: Option<&'a libc::rlimit>,
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
    let errno = word(8) as i32;
    let code = if errno == libc::ENOENT { 127 } else { 126 };
    (
        word(0),
        format!("could not {step}: {}", Error::from_raw_os_error(errno)),
        code,
    )
}

/// Start a process. It dies with this one, is in a process group of its own, and reports to `errors` if it
/// cannot become the program.
pub fn start(s: &Start<'_>) -> Result<i32> {
    // SAFETY: no arguments, cannot fail.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the child calls nothing but system calls and leaves through exec or _exit.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_os_error()),
        0 => {
            // SAFETY: this is the child.
            let step = unsafe { become_rank(s, parent) };
            // SAFETY: errno of this thread.
            let errno = unsafe { *libc::__errno_location() };
            let mut report = [0u8; REPORT_LEN];
            report[..4].copy_from_slice(&s.rank.to_ne_bytes());
            report[4..8].copy_from_slice(&step.to_ne_bytes());
            report[8..].copy_from_slice(&errno.to_ne_bytes());
            // SAFETY: writes the report; less than a pipe takes at once.
            unsafe {
                libc::write(s.errors, report.as_ptr().cast(), report.len());
                libc::_exit(127)
            }
        }
        pid => {
            if !s.session {
                // Also done by the child; whoever is first, the group exists when we go on.
                // SAFETY: takes integers.
                unsafe { libc::setpgid(pid, pid) };
            }
            Ok(pid)
        }
    }
}

/// The child's part. Returns only on failure: the step that failed, with errno set.
///
/// # Safety
/// Must run in a freshly forked child: it gives away descriptors and replaces the program.
unsafe fn become_rank(s: &Start<'_>, parent: libc::pid_t) -> u32 {
    // SAFETY: system calls only, on integers and on memory prepared before the fork.
    unsafe {
        if s.session {
            libc::setsid();
        } else {
            libc::setpgid(0, 0);
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if libc::getppid() != parent {
            // The guardian died before the line above.
            libc::_exit(127);
        }
        // Whatever stands between this process and the program: all that stays in this group ends with the launcher.
        let line = farpost_job::lifeline::arm(s.lifeline);
        if line >= 0 && libc::fcntl(line, libc::F_DUPFD, OUT_OF_THE_WAY) >= 0 {
            libc::close(line);
        }
        for signal in s.default_signals {
            libc::signal(*signal, libc::SIG_DFL);
        }
        libc::sigprocmask(libc::SIG_SETMASK, s.mask, std::ptr::null_mut());
        for (target, source) in s.stdio.iter().enumerate() {
            if let Some(source) = source
                && libc::dup2(*source, target as i32) < 0
            {
                return 0;
            }
        }
        libc::fcntl(s.job_fd, libc::F_SETFD, 0);
        if let Some(limit) = s.file_limit {
            libc::setrlimit(libc::RLIMIT_NOFILE, limit);
        }
        if let Some(cpus) = s.cpus {
            libc::sched_setaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), cpus);
        }
        if let Some(directory) = s.directory
            && libc::chdir(directory.as_ptr()) != 0
        {
            return 1;
        }
        libc::execve(s.file.as_ptr(), s.args.pointers.as_ptr(), s.env.pointers.as_ptr());
        if *libc::__errno_location() == libc::ENOEXEC {
            libc::execve(
                c"/bin/sh".as_ptr(),
                s.shell_args.pointers.as_ptr(),
                s.env.pointers.as_ptr(),
            );
        }
        2
    }
}
