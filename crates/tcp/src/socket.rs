//! Sockets, as plain calls: never blocking, never raising a signal.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A piece of memory for a scattered call.
pub type Part = libc::iovec;

/// `len` bytes at `at`.
pub fn part(at: *const u8, len: usize) -> Part {
    libc::iovec {
        iov_base: at.cast_mut().cast(),
        iov_len: len,
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn moved(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Whether a call would have had to wait.
pub fn would_block(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS)
    )
}

/// An address as the kernel takes it.
union Name {
    any: libc::sockaddr,
    four: libc::sockaddr_in,
    six: libc::sockaddr_in6,
}

fn name(address: SocketAddr) -> (Name, libc::socklen_t, libc::c_int) {
    match address {
        SocketAddr::V4(four) => {
            // SAFETY: plain numbers, of which zero is a value.
            let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
            raw.sin_family = libc::AF_INET as libc::sa_family_t;
            raw.sin_port = four.port().to_be();
            raw.sin_addr.s_addr = u32::from_ne_bytes(four.ip().octets());
            let len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            (Name { four: raw }, len, libc::AF_INET)
        }
        SocketAddr::V6(six) => {
            // SAFETY: plain numbers, of which zero is a value.
            let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
            raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            raw.sin6_port = six.port().to_be();
            raw.sin6_addr.s6_addr = six.ip().octets();
            raw.sin6_scope_id = six.scope_id();
            let len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            (Name { six: raw }, len, libc::AF_INET6)
        }
    }
}

fn stream(family: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: makes a descriptor, touches no memory; the descriptor is ours alone.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?)) }
}

fn set(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: `value` is a live integer of the length given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    check(result).map(drop)
}

/// How connections are made.
#[derive(Clone, Copy)]
pub struct Tuning {
    /// Bytes of the kernel's buffers; 0: its own choice.
    pub buffer: usize,
    /// Leave congestion control that paces as it is.
    pub paced: bool,
}

/// The name of a socket's congestion control.
fn congestion_control(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut name = [0u8; 16];
    let mut len = name.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `name`, and the number it wrote to `len`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    check(result)?;
    Ok(name.into_iter().take_while(|byte| *byte != 0).collect())
}

/// BBR sends at the rate it measured, with pauses: right for the Internet, but the bursts of a program that takes turns are
/// measured as slow, and then are (here 2 GB/s where the way takes 8). The others send what the window allows.
/// Reno before CUBIC, which takes a process that is not scheduled for a moment for a queue on the way, and then grows slowly.
fn unpace(socket: &OwnedFd) {
    if !congestion_control(socket).is_ok_and(|name| name.starts_with(b"bbr")) {
        return;
    }
    for name in [&b"reno"[..], b"cubic"] {
        // SAFETY: the kernel reads `name.len()` bytes from `name`.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                name.as_ptr().cast(),
                name.len() as libc::socklen_t,
            )
        };
        // Which of them a user may choose is the administrator's affair; without any it stays as it was.
        if result == 0 {
            return;
        }
    }
}

/// What every connection gets: small writes leave at once, large ones as fast as the window allows.
fn tune(socket: &OwnedFd, tuning: Tuning) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    if !tuning.paced {
        unpace(socket);
    }
    if tuning.buffer > 0 {
        let bytes = tuning.buffer.min(i32::MAX as usize) as libc::c_int;
        set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)?;
        set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)?;
    }
    Ok(())
}

/// Listen at `address`; the port, which the kernel chooses if 0 was asked for.
pub fn listen(address: SocketAddr, backlog: i32) -> io::Result<(OwnedFd, u16)> {
    let (mut raw, mut len, family) = name(address);
    let socket = stream(family)?;
    let fd = socket.as_raw_fd();
    if address.port() != 0 {
        // Connections of an earlier job may still be fading away.
        set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    }
    if address.is_ipv6() {
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    // SAFETY: `raw` is a socket address of `len` bytes, alive during the calls, and large enough for the one that is
    // read back, which is of the same family.
    unsafe {
        check(libc::bind(fd, &raw const raw.any, len))?;
        check(libc::listen(fd, backlog))?;
        check(libc::getsockname(fd, &raw mut raw.any, &raw mut len))?;
        let port = if family == libc::AF_INET {
            raw.four.sin_port
        } else {
            raw.six.sin6_port
        };
        Ok((socket, u16::from_be(port)))
    }
}

/// Take a connection that waits, and from where it comes. None: there is none, or it went away again.
pub fn accept(listener: &OwnedFd, tuning: Tuning) -> io::Result<Option<(OwnedFd, IpAddr)>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: plain numbers, of which zero is a value.
    let mut raw: Name = unsafe { std::mem::zeroed() };
    let mut len = size_of::<Name>() as libc::socklen_t;
    // SAFETY: `raw` has room for `len` bytes; the descriptor made is ours alone. The kernel says by the family which
    // kind of address it wrote.
    let (socket, from) = unsafe {
        let fd = libc::accept4(listener.as_raw_fd(), &raw mut raw.any, &raw mut len, flags);
        let socket = match check(fd) {
            Ok(fd) => OwnedFd::from_raw_fd(fd),
            Err(e) if would_block(&e) || e.raw_os_error() == Some(libc::ECONNABORTED) => return Ok(None),
            Err(e) => return Err(e),
        };
        let from = if libc::c_int::from(raw.any.sa_family) == libc::AF_INET6 {
            IpAddr::from(raw.six.sin6_addr.s6_addr)
        } else {
            IpAddr::from(raw.four.sin_addr.s_addr.to_ne_bytes())
        };
        (socket, from)
    };
    tune(&socket, tuning)?;
    Ok(Some((socket, from)))
}

/// Begin to connect, from an address of this host if one is given. The socket becomes writable when it is decided.
pub fn connect(to: SocketAddr, from: Option<IpAddr>, tuning: Tuning) -> io::Result<OwnedFd> {
    let (raw, len, family) = name(to);
    let socket = stream(family)?;
    let fd = socket.as_raw_fd();
    tune(&socket, tuning)?;
    if let Some(from) = from.filter(|from| from.is_ipv4() == to.is_ipv4()) {
        // The port is chosen when the destination is known, so that they do not run out.
        set(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        let (raw, len, _) = name(SocketAddr::new(from, 0));
        // SAFETY: `raw` is a socket address of `len` bytes, alive during the call.
        check(unsafe { libc::bind(fd, &raw const raw.any, len) })?;
    }
    // SAFETY: as above.
    match check(unsafe { libc::connect(fd, &raw const raw.any, len) }) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(socket),
    }
}

/// How an attempt to connect ended.
pub fn outcome(fd: RawFd) -> io::Result<()> {
    let mut error: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `error` is a live integer of `len` bytes.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut error).cast(),
            &raw mut len,
        )
    };
    check(result)?;
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Send bytes; how many were taken.
#[inline]
pub fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the slice is readable for its length.
    moved(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), FLAGS) })
}

/// Send from several places; how many bytes were taken.
///
/// # Safety
/// Each part is readable memory.
pub unsafe fn send_parts(fd: RawFd, parts: &[Part]) -> io::Result<usize> {
    // SAFETY: plain numbers and pointers, of which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut();
    message.msg_iovlen = parts.len() as _;
    // SAFETY: the caller vouches for the parts, which the call only reads.
    moved(unsafe { libc::sendmsg(fd, &raw const message, FLAGS) })
}

/// Receive into several places, filled in order; how many bytes came. 0: the peer has closed.
///
/// # Safety
/// Each part is writable memory that nobody else uses meanwhile.
#[inline]
pub unsafe fn receive(fd: RawFd, parts: &[Part]) -> io::Result<usize> {
    // SAFETY: the caller vouches for the parts.
    moved(unsafe {
        match parts {
            [one] => libc::recv(fd, one.iov_base, one.iov_len, libc::MSG_DONTWAIT),
            // Sockets made here do not block anyhow.
            many => libc::readv(fd, many.as_ptr(), many.len() as libc::c_int),
        }
    })
}

/// Nothing more will be sent.
pub fn finish(fd: RawFd) {
    // SAFETY: no memory is involved.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

/// Descriptors that are waited for together.
pub struct Poll(OwnedFd);

/// Readable, or ended.
pub const IN: u32 = libc::EPOLLIN as u32 | libc::EPOLLRDHUP as u32;
/// Room to write.
pub const OUT: u32 = libc::EPOLLOUT as u32;

impl Poll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: makes a descriptor, touches no memory; the descriptor is ours alone.
        unsafe {
            Ok(Self(OwnedFd::from_raw_fd(check(libc::epoll_create1(
                libc::EPOLL_CLOEXEC,
            ))?)))
        }
    }

    fn control(&self, what: libc::c_int, fd: RawFd, interest: u32, key: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: interest,
            u64: key,
        };
        // SAFETY: `event` is alive during the call.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd, &raw mut event) }).map(drop)
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

    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// An event that is none yet.
pub const NO_EVENT: libc::epoll_event = libc::epoll_event { events: 0, u64: 0 };

/// Bytes sent that the peer's kernel has not confirmed.
pub fn unconfirmed(fd: RawFd) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: `bytes` is a live integer, which is what this request writes.
    let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 { 0 } else { bytes.max(0) as usize }
}

/// What the kernel knows of the other side: bytes that it has confirmed, and whether something is on its way that it
/// has not.
pub fn confirmed(fd: RawFd) -> io::Result<(u64, bool)> {
    // `struct tcp_info` of linux/tcp.h as far as it is needed; its beginning never changes.
    const PROBES: usize = 3;
    const UNACKED: usize = 24;
    const BYTES_ACKED: usize = 120;
    let mut info = [0u8; 128];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: `info` is writable for `len` bytes.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    check(result)?;
    let unacked = u32::from_ne_bytes(info[UNACKED..UNACKED + 4].try_into().expect("four bytes"));
    let acked = u64::from_ne_bytes(
        info[BYTES_ACKED..BYTES_ACKED + 8]
            .try_into()
            .expect("eight bytes"),
    );
    Ok((acked, unacked != 0 || info[PROBES] > 1))
}

/// A clock that makes a poll set readable at a time.
pub struct Alarm(OwnedFd);

impl Alarm {
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: makes a descriptor, touches no memory; the descriptor is ours alone.
        unsafe {
            Ok(Self(OwnedFd::from_raw_fd(check(libc::timerfd_create(
                libc::CLOCK_MONOTONIC,
                flags,
            ))?)))
        }
    }

    /// Ring after so many nanoseconds, at least one; what was set before is forgotten.
    pub fn set(&self, after: u64) {
        let after = after.max(1);
        let at = libc::timespec {
            tv_sec: (after / 1_000_000_000) as libc::time_t,
            tv_nsec: (after % 1_000_000_000) as libc::c_long,
        };
        let once = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: at,
        };
        // SAFETY: `once` is alive during the call. It can fail for no value that is made here.
        unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const once, std::ptr::null_mut()) };
    }

    /// Stop ringing.
    pub fn quiet(&self) {
        let mut count = 0u64;
        // SAFETY: `count` is eight writable bytes.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
