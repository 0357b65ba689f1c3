//! Whether a peer that is silent is there at all.
//!
//! A peer that computes answers nothing, and may do so for hours; libfabric's providers on sockets keep trying to
//! reach a process that is gone and never say so, and what was injected leaves nothing to fail. So when a peer has been
//! silent for a while, its address is tried from outside, where it is that of a TCP listener: the kernel of a host that is up takes
//! or refuses a connection without the process. A refusal, or no answer for `FARPOST_OFI_PEER_TIMEOUT`, ends the peer.
//! Providers on adapters report a peer that is gone by themselves, as failed operations.
//!
//! Cost class: *set-up path*.

use super::ffi;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

/// A connection being tried.
pub struct Probe {
    socket: OwnedFd,
    /// When it was begun.
    pub began: Instant,
}

/// What a probe has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing yet.
    Nothing,
    /// The process listens: it is alive.
    Alive,
    /// It does not, for this reason.
    Gone(String),
}

impl Probe {
    /// Try `address`, in libfabric's `format`. None: it is no internet address, or no socket could be made.
    pub fn begin(format: u32, address: &[u8]) -> Option<Self> {
        let (family, len) = match format {
            ffi::FI_SOCKADDR_IN => (AddressFamily::INET, size_of::<libc::sockaddr_in>()),
            ffi::FI_SOCKADDR_IN6 => (AddressFamily::INET6, size_of::<libc::sockaddr_in6>()),
            _ => return None,
        };
        if address.len() < len {
            return None;
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None).ok()?;
        // SAFETY: the address has `len` bytes and the form of its family. What the call says comes again from `look`.
        unsafe {
            libc::connect(
                socket.as_raw_fd(),
                address.as_ptr().cast(),
                len as libc::socklen_t,
            )
        };
        let began = Instant::now();
        Some(Self { socket, began })
    }

    /// What has become of it.
    pub fn look(&self) -> Found {
        let mut polled = [PollFd::new(&self.socket, PollFlags::OUT)];
        if poll(&mut polled, Some(&Timespec::default())) != Ok(1) {
            return Found::Nothing;
        }
        match sockopt::socket_error(&self.socket) {
            Ok(Ok(())) => Found::Alive,
            Ok(Err(Errno::CONNREFUSED)) => {
                Found::Gone("its address refuses connections: the process has ended".into())
            }
            Ok(Err(error)) => Found::Gone(std::io::Error::from(error).to_string()),
            Err(_) => Found::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Duration;

    fn settled(probe: &Probe) -> Found {
        for _ in 0..2000 {
            match probe.look() {
                Found::Nothing => std::thread::sleep(Duration::from_millis(5)),
                found => return found,
            }
        }
        Found::Nothing
    }

    fn address(port: u16) -> Vec<u8> {
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: port.to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
            },
            sin_zero: [0; 8],
        };
        let at = (&raw const address).cast::<u8>();
        // SAFETY: a plain structure without padding.
        unsafe { std::slice::from_raw_parts(at, size_of_val(&address)) }.to_vec()
    }

    #[test]
    fn listeners_are_alive_and_others_are_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let probe = Probe::begin(ffi::FI_SOCKADDR_IN, &address(port)).unwrap();
        assert_eq!(settled(&probe), Found::Alive);
        drop(listener);
        let probe = Probe::begin(ffi::FI_SOCKADDR_IN, &address(port)).unwrap();
        assert!(matches!(settled(&probe), Found::Gone(_)));
        assert!(Probe::begin(ffi::FI_SOCKADDR_IN, &[0; 3]).is_none());
        assert!(Probe::begin(99, &address(port)).is_none());
    }
}
