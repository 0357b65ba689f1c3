//! Sockets, as plain calls: never blocking, never raising a signal.

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Of every socket.
const FRESH: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// A piece of memory for a scattered call.
pub type Part = libc::iovec;

/// `len` bytes at `at`.
pub fn part(at: *const u8, len: usize) -> Part {
    libc::iovec {
        iov_base: at.cast_mut().cast(),
        iov_len: len,
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
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

/// A new one, of the family of `address`.
fn stream(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    Ok(net::socket_with(family, SocketType::STREAM, FRESH, None)?)
}

/// How connections are made.
#[derive(Clone, Copy)]
pub struct Tuning {
    /// Bytes of the kernel's buffers; 0: its own choice.
    pub buffer: usize,
    /// Leave congestion control that paces as it is.
    pub paced: bool,
}

/// BBR sends at the rate it measured, with pauses: right for the Internet, but the bursts of a program that takes turns are
/// measured as slow, and then are (here 2 GB/s where the way takes 8). The others send what the window allows.
/// Reno before CUBIC, which takes a process that is not scheduled for a moment for a queue on the way, and then grows slowly.
fn unpace(socket: &OwnedFd) {
    if sockopt::tcp_congestion(socket).is_ok_and(|name| name.starts_with("bbr")) {
        // Which of them a user may choose is the administrator's affair; without any it stays as it was.
        let _ = ["reno", "cubic"]
            .iter()
            .any(|name| sockopt::set_tcp_congestion(socket, name).is_ok());
    }
}

/// What every connection gets: small writes leave at once, large ones as fast as the window allows.
fn tune(socket: &OwnedFd, tuning: Tuning) -> io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    if !tuning.paced {
        unpace(socket);
    }
    if tuning.buffer > 0 {
        let bytes = tuning.buffer.min(i32::MAX as usize);
        sockopt::set_socket_send_buffer_size(socket, bytes)?;
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    Ok(())
}

/// Listen at `address`; the port, which the kernel chooses if 0 was asked for.
pub fn listen(address: SocketAddr, backlog: i32) -> io::Result<(OwnedFd, u16)> {
    let socket = stream(address)?;
    if address.port() != 0 {
        // Connections of an earlier job may still be fading away.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    net::bind(&socket, &address)?;
    net::listen(&socket, backlog)?;
    let port = SocketAddr::try_from(net::getsockname(&socket)?)?.port();
    Ok((socket, port))
}

/// Take a connection that waits, and from where it comes. None: there is none, or it went away again.
pub fn accept(listener: &OwnedFd, tuning: Tuning) -> io::Result<Option<(OwnedFd, IpAddr)>> {
    let (socket, from) = match net::acceptfrom_with(listener, FRESH) {
        Ok((socket, from)) => (socket, from.and_then(|from| SocketAddr::try_from(from).ok())),
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::CONNABORTED) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    tune(&socket, tuning)?;
    Ok(from.map(|from| (socket, from.ip())))
}

/// Begin to connect, from an address of this host if one is given. The socket becomes writable when it is decided.
pub fn connect(to: SocketAddr, from: Option<IpAddr>, tuning: Tuning) -> io::Result<OwnedFd> {
    let socket = stream(to)?;
    tune(&socket, tuning)?;
    if let Some(from) = from.filter(|from| from.is_ipv4() == to.is_ipv4()) {
        choose_port_late(&socket)?;
        net::bind(&socket, &SocketAddr::new(from, 0))?;
    }
    match net::connect(&socket, &to) {
        Err(error) if error != Errno::INPROGRESS => Err(error.into()),
        _ => Ok(socket),
    }
}

/// The port is chosen when the destination is known, so that they do not run out.
fn choose_port_late(socket: &OwnedFd) -> io::Result<()> {
    let (on, len): (libc::c_int, _) = (1, size_of::<libc::c_int>() as libc::socklen_t);
    let (level, option) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
    // SAFETY: `on` is a live integer of the length given.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), len) })
}

/// How an attempt to connect ended.
pub fn outcome(socket: &OwnedFd) -> io::Result<()> {
    Ok(sockopt::socket_error(socket)??)
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
    let at = info.as_mut_ptr().cast();
    // SAFETY: `info` is writable for `len` bytes.
    check(unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut len) })?;
    let unacked = u32::from_ne_bytes(*info[UNACKED..].first_chunk().expect("four bytes"));
    let acked = u64::from_ne_bytes(*info[BYTES_ACKED..].first_chunk().expect("eight bytes"));
    Ok((acked, unacked != 0 || info[PROBES] > 1))
}
