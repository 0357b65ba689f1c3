//! Descriptors that a process sleeps on together, and a clock among them.
//!
//! Cost class: *fast path*, but for the system calls.

use rustix::event::{PollFd, PollFlags, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Descriptors that are waited for together.
pub struct Poll(OwnedFd);

/// Readable, or ended.
pub const IN: u32 = libc::EPOLLIN as u32 | libc::EPOLLRDHUP as u32;
/// Room to write.
pub const OUT: u32 = libc::EPOLLOUT as u32;

/// An event that is none yet.
pub const NO_EVENT: libc::epoll_event = libc::epoll_event { events: 0, u64: 0 };

impl Poll {
    /// With none.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    fn control(&self, what: libc::c_int, fd: RawFd, interest: u32, key: u64) -> io::Result<()> {
        let mut event = NO_EVENT;
        (event.events, event.u64) = (interest, key);
        // SAFETY: `event` is alive during the call.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Watch `fd` from now on. Closing it ends that.
    pub fn add(&self, fd: RawFd, interest: u32, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, interest, key)
    }

    /// Watch for something else.
    pub fn change(&self, fd: RawFd, interest: u32, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, interest, key)
    }

    /// What is ready, after at most `timeout` milliseconds.
    pub fn wait<'a>(&self, events: &'a mut [libc::epoll_event], timeout: i32) -> &'a [libc::epoll_event] {
        let room = events.len() as libc::c_int;
        // SAFETY: `events` has room for that many.
        let found = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), room, timeout) };
        &events[..found.max(0) as usize]
    }

    /// Sleep until one is ready or `timeout` is over, and whether that was not all.
    pub fn sleep(&self, timeout: Duration) -> bool {
        let time = Timespec::try_from(timeout).ok();
        rustix::event::poll(&mut [PollFd::new(&self.0, PollFlags::IN)], time.as_ref()) != Ok(0)
    }

    /// Readable when one of them is ready.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A clock whose descriptor becomes readable at a time.
pub struct Alarm(OwnedFd);

impl Alarm {
    /// One that is quiet.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            flags,
        )?))
    }

    /// Ring after so long, at least a nanosecond, and once more after each `interval`, if it is not zero; what was set before is forgotten.
    pub fn set(&self, after: Duration, interval: Duration) {
        let time = |duration| {
            Timespec::try_from(duration).unwrap_or(Timespec {
                tv_sec: i64::MAX,
                tv_nsec: 0,
            })
        };
        let (it_value, it_interval) = (time(after.max(Duration::from_nanos(1))), time(interval));
        let setting = Itimerspec {
            it_interval,
            it_value,
        };
        // It can fail for no value that is made here.
        let _ = rustix::time::timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &setting);
    }

    /// Never ring again.
    pub fn stop(&self) {
        let never = Timespec::default();
        let setting = Itimerspec {
            it_interval: never,
            it_value: never,
        };
        let _ = rustix::time::timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &setting);
        self.quiet();
    }

    /// Stop ringing.
    pub fn quiet(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// Readable when it rings.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
