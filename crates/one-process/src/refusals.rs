//! What ranks of one process cannot have: threads, children, other programs, waiting for what others do.

use crate::host::host;
use crate::rank::{Rank, running};
use crate::stand_ins::next_as;
use libc::{c_int, c_void, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

/// The program wants what ranks in one process cannot have.
pub fn refuse(rank: &Rank, what: &str) -> ! {
    eprintln!(
        "farpost sim: rank {} {what}, which ranks in one process cannot: run it without --one-process",
        rank.number
    );
    if let Some(host) = host() {
        host.memory.set_abort(rank.number, 1, what);
    }
    rank.end(1)
}

/// See `pthread_create(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    function: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    if let Some(rank) = running() {
        refuse(rank, "starts a thread");
    }
    type Real = unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, *mut c_void) -> c_int;
    // SAFETY: the C library's function of this name has this type, and is given what was given here.
    unsafe {
        next_as::<Real>(c"pthread_create")
            .map_or(libc::EAGAIN, |real| real(thread, attributes, function, argument))
    }
}

/// See `fork(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fork() -> libc::pid_t {
    if let Some(rank) = running() {
        refuse(rank, "calls fork");
    }
    // SAFETY: as for `pthread_create`.
    unsafe { next_as::<extern "C" fn() -> libc::pid_t>(c"fork").map_or(-1, |real| real()) }
}

/// Functions that put another program in the place of this one, which is that of all ranks.
macro_rules! replaces {
    ($($name:ident),*) => {$(
        /// See `exec(3)`. Whatever its arguments: a rank's are not looked at, and this library itself calls none of these.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            if let Some(rank) = running() {
                refuse(rank, concat!("calls ", stringify!($name)));
            }
            -1
        }
    )*};
}
replaces!(execv, execve, execvp, execvpe, execl, execle, execlp, fexecve);

/// Whether a rank that waits for this descriptor waits for ever: others say by it that something has come, which nobody does while it waits.
fn is_told_by_others(fd: c_int) -> bool {
    std::fs::read_link(format!("/proc/self/fd/{fd}"))
        .is_ok_and(|what| what.as_os_str() == "anon_inode:[eventfd]")
}

/// The running rank waits for these descriptors, if `waits`.
fn refuse_to_wait(waits: bool, mut descriptors: impl Iterator<Item = c_int>) {
    if let Some(rank) = running().filter(|_| waits)
        && descriptors.any(is_told_by_others)
    {
        refuse(rank, "waits for a descriptor that others make readable");
    }
}

/// See `poll(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poll(polled: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    type Real = unsafe extern "C" fn(*mut pollfd, nfds_t, c_int) -> c_int;
    // SAFETY: as for `pthread_create`; the caller's promise.
    unsafe {
        let Some(real) = next_as::<Real>(c"poll") else {
            return -1;
        };
        let ready = real(polled, count, 0);
        if ready != 0 || timeout == 0 {
            return ready;
        }
        refuse_to_wait(true, (0..count as usize).map(|nr| (*polled.add(nr)).fd));
        real(polled, count, timeout)
    }
}

/// What `poll` is called as by programs that are compiled with checks.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __poll_chk(polled: *mut pollfd, count: nfds_t, timeout: c_int, len: usize) -> c_int {
    if len / size_of::<pollfd>() < count as usize {
        std::process::abort()
    }
    // SAFETY: the caller's promise.
    unsafe { poll(polled, count, timeout) }
}

/// See `ppoll(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    polled: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    type Real = unsafe extern "C" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
    // SAFETY: as for `poll`.
    unsafe {
        let Some(real) = next_as::<Real>(c"ppoll") else {
            return -1;
        };
        let at_once = timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let ready = real(polled, count, &at_once, mask);
        if ready != 0 {
            return ready;
        }
        let waits = timeout.is_null() || (*timeout).tv_sec != 0 || (*timeout).tv_nsec != 0;
        refuse_to_wait(waits, (0..count as usize).map(|nr| (*polled.add(nr)).fd));
        real(polled, count, timeout, mask)
    }
}

/// See `select(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn select(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    other: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    type Real = unsafe extern "C" fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int;
    // SAFETY: as for `poll`.
    unsafe {
        let waits = timeout.is_null() || (*timeout).tv_sec != 0 || (*timeout).tv_usec != 0;
        // What is there already needs no wait, but a set is changed by looking.
        let is_there = |fd: c_int| {
            let mut one = pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            libc::poll(&mut one, 1, 0) != 0
        };
        let asked = |fd: &c_int| !readable.is_null() && libc::FD_ISSET(*fd, readable);
        if waits && !(0..count).filter(asked).any(is_there) {
            refuse_to_wait(true, (0..count).filter(asked));
        }
        next_as::<Real>(c"select").map_or(-1, |real| real(count, readable, writable, other, timeout))
    }
}

/// See `epoll_wait(2)`. Which descriptors it has, this library does not know: a rank that would wait is refused.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut c_void, most: c_int, timeout: c_int) -> c_int {
    type Real = unsafe extern "C" fn(c_int, *mut c_void, c_int, c_int) -> c_int;
    // SAFETY: as for `poll`.
    unsafe {
        let Some(real) = next_as::<Real>(c"epoll_wait") else {
            return -1;
        };
        let ready = real(epoll, events, most, 0);
        if ready != 0 || timeout == 0 {
            return ready;
        }
        if let Some(rank) = running() {
            refuse(rank, "waits in epoll_wait");
        }
        real(epoll, events, most, timeout)
    }
}
