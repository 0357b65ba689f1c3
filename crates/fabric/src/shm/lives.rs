//! Whether processes live, asked often: a descriptor for each that was asked about, which becomes readable at its end.
//!
//! Cost class: *queued path*: a system call that only looks.

use super::segments;
use crate::Peer;
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Most descriptors kept; of more processes the kernel is asked by name.
const KEPT: usize = 64;

/// Descriptors of processes (pidfd_open(2)), with the number each was opened for.
#[derive(Default)]
pub struct Lives(RefCell<HashMap<Peer, (u32, OwnedFd)>>);

impl Lives {
    /// Whether the process `pid`, which is `peer`, has ended.
    pub fn has_ended(&self, peer: Peer, pid: u32) -> bool {
        let mut known = self.0.borrow_mut();
        if known.get(&peer).is_none_or(|(of, _)| *of != pid) {
            // Whoever has ended already is found out by name; afterwards the descriptor cannot mean another process.
            if known.len() >= KEPT || segments::has_ended(pid) {
                return segments::has_ended(pid);
            }
            // SAFETY: a plain call, which makes a descriptor or fails.
            let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
            if fd < 0 {
                return segments::has_ended(pid);
            }
            // SAFETY: just made, and nobody else's.
            known.insert(peer, (pid, unsafe { OwnedFd::from_raw_fd(fd as i32) }));
        }
        let mut entry = libc::pollfd {
            fd: known[&peer].1.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, writable.
        unsafe { libc::poll(&raw mut entry, 1, 0) > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_is_seen() {
        let lives = Lives::default();
        let me = std::process::id();
        assert!(!lives.has_ended(Peer(0), me) && !lives.has_ended(Peer(0), me));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!lives.has_ended(Peer(1), child.id()));
        child.kill().unwrap();
        // Dead before it is waited for.
        while !lives.has_ended(Peer(1), child.id()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(lives.has_ended(Peer(1), child.id()) && lives.has_ended(Peer(2), child.id()));
        assert!(!lives.has_ended(Peer(1), me));
    }
}
