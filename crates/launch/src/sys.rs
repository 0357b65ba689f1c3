//! Thin wrappers around the system calls the launcher needs; everything unsafe about them stays here.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

fn check(result: libc::c_int) -> Result<libc::c_int> {
    if result < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A pipe, reading end first, both closed on exec.
pub fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two descriptors into the array.
    check(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both were just made and belong to nobody else.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Let reads or writes return instead of waiting. Affects all who share the open file.
pub fn set_nonblocking(fd: &OwnedFd) -> Result<()> {
    // SAFETY: flags of a descriptor we own.
    unsafe {
        let flags = check(libc::fcntl(fd.as_raw_fd(), libc::F_GETFL))?;
        check(libc::fcntl(
            fd.as_raw_fd(),
            libc::F_SETFL,
            flags | libc::O_NONBLOCK,
        ))?;
    }
    Ok(())
}

/// Do not let programs started later inherit `fd`, if it is open.
pub fn close_on_exec(fd: RawFd) {
    // SAFETY: a flag of a descriptor number, which need not be open.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
}

/// How many bytes a call has moved.
fn bytes(n: isize) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::last_os_error())
}

/// Read what there is, at most the buffer.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most the length of the buffer.
    let n = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    bytes(n)
}

/// Write what fits.
pub fn write(fd: RawFd, from: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads the bytes given.
    let n = unsafe { libc::write(fd, from.as_ptr().cast(), from.len()) };
    bytes(n)
}

/// Write to a socket what fits.
pub fn send(fd: RawFd, from: &[u8]) -> Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the bytes given.
    let n = unsafe { libc::send(fd, from.as_ptr().cast(), from.len(), flags) };
    bytes(n)
}

/// What the system knows about an open file.
pub fn stat(fd: RawFd) -> Result<libc::stat> {
    // SAFETY: zeroes are a value of the structure, which the kernel fills in.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        check(libc::fstat(fd, &mut stat))?;
        Ok(stat)
    }
}

/// Is it a terminal?
pub fn is_terminal(fd: RawFd) -> bool {
    // SAFETY: asks about a descriptor number.
    unsafe { libc::isatty(fd) == 1 }
}

/// Is this process in the foreground of the terminal at `fd`?
pub fn in_foreground(fd: RawFd) -> bool {
    // SAFETY: asks about a descriptor number and ourselves.
    unsafe { libc::tcgetpgrp(fd) == libc::getpgrp() }
}

/// A set of signals.
pub fn signal_set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigemptyset makes a valid set of the zeroes; sigaddset takes any signal number.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        signals.iter().for_each(|s| {
            libc::sigaddset(&mut set, *s);
        });
        set
    }
}

/// Replace the set of blocked signals; the former set is returned.
pub fn set_mask(set: &libc::sigset_t) -> libc::sigset_t {
    let mut former = signal_set(&[]);
    // SAFETY: both are valid sets.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set, &mut former) };
    former
}

/// Block these signals as well; the former set is returned.
pub fn block(signals: &[i32]) -> libc::sigset_t {
    let mut former = signal_set(&[]);
    // SAFETY: both are valid sets.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signal_set(signals), &mut former) };
    former
}

/// A descriptor that becomes readable when one of the (blocked) signals arrives.
pub fn signal_fd(signals: &[i32]) -> Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: a valid set; the result is a new descriptor that nobody else owns.
    unsafe {
        let fd = check(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// The next signal from a [`signal_fd`].
pub fn next_signal(fd: &OwnedFd) -> Option<i32> {
    let mut info = [0u8; std::mem::size_of::<libc::signalfd_siginfo>()];
    match read(fd.as_raw_fd(), &mut info) {
        Ok(n) if n == info.len() => Some(i32::from_ne_bytes([info[0], info[1], info[2], info[3]])),
        _ => None,
    }
}

/// Is the signal ignored?
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: only asks; zeroes are a value of the structure.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Ignore a signal.
pub fn ignore(signal: i32) {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Send a signal to a process, or to a group if negative. An error means there is none.
pub fn kill(pid: i32, signal: i32) -> bool {
    // SAFETY: takes integers. 0 and -1 would reach far beyond the job.
    pid != 0 && pid != -1 && unsafe { libc::kill(pid, signal) } == 0
}

/// A child that has ended.
pub enum Waited {
    /// This one, with its status.
    Child(i32, i32),
    /// None has ended.
    NotYet,
    /// There are no children.
    None,
}

/// Look for a child that has ended, without waiting.
pub fn wait_any() -> Waited {
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes the status.
        match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
            0 => return Waited::NotYet,
            pid if pid > 0 => return Waited::Child(pid, status),
            _ if Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            _ => return Waited::None,
        }
    }
}

/// Orphans below this process become its children instead of init's.
pub fn adopt_orphans() {
    // SAFETY: takes integers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Name this process, up to 15 bytes, as `ps` shows it.
pub fn set_name(name: &std::ffi::CStr) {
    // SAFETY: a C string; the kernel copies at most 16 bytes of it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

/// A descriptor to [`poll`].
pub fn poll_fd(fd: RawFd, events: i16) -> libc::pollfd {
    let revents = 0;
    libc::pollfd { fd, events, revents }
}

/// Wait for descriptors; which events, and until when, is in the arguments. Interruption counts as nothing.
pub fn poll(fds: &mut [libc::pollfd], timeout_ms: i32) {
    // SAFETY: the kernel writes the results into the array given.
    let n = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) };
    if n < 0 {
        fds.iter_mut().for_each(|f| f.revents = 0);
    }
}

/// Watching many descriptors.
pub struct Epoll(OwnedFd);

impl Epoll {
    pub fn new() -> Result<Epoll> {
        // SAFETY: the result is a new descriptor that nobody else owns.
        unsafe {
            Ok(Epoll(OwnedFd::from_raw_fd(check(libc::epoll_create1(
                libc::EPOLL_CLOEXEC,
            ))?)))
        }
    }

    /// Watch `fd` for `events`, reported as `token`.
    pub fn add(&self, fd: BorrowedFd<'_>, events: i32, token: u64) -> Result<()> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: token,
        };
        // SAFETY: the kernel reads the event.
        check(unsafe {
            libc::epoll_ctl(
                self.0.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                fd.as_raw_fd(),
                &mut event,
            )
        })?;
        Ok(())
    }

    pub fn remove(&self, fd: BorrowedFd<'_>) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: the kernel ignores the event.
        unsafe {
            libc::epoll_ctl(
                self.0.as_raw_fd(),
                libc::EPOLL_CTL_DEL,
                fd.as_raw_fd(),
                &mut event,
            )
        };
    }

    /// Tokens of what is ready.
    pub fn wait(&self, timeout_ms: i32, ready: &mut Vec<u64>) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: the kernel writes at most 64 events.
        let n = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 64, timeout_ms) };
        ready.clear();
        ready.extend(events[..n.max(0) as usize].iter().map(|e| e.u64));
    }
}

/// Let this process open as many files as it may; the former limit is returned.
pub fn raise_file_limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes, then reads, the structure.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return None;
        }
        let raised = libc::rlimit {
            rlim_cur: limit.rlim_max,
            ..limit
        };
        (libc::setrlimit(libc::RLIMIT_NOFILE, &raised) == 0).then_some(limit)
    }
}

/// The kernel's form of a list of processors; `None` for an empty one.
pub fn cpu_set(cpus: &[usize]) -> Option<libc::cpu_set_t> {
    if cpus.is_empty() {
        return None;
    }
    // SAFETY: zeroes are an empty set; CPU_SET checks the index against the size of the set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter()
            .filter(|c| **c < libc::CPU_SETSIZE as usize)
            .for_each(|c| libc::CPU_SET(*c, &mut set));
        Some(set)
    }
}
