//! Bulk transfer by cross-memory attach: the kernel copies between two processes of one user.
//!
//! Whether it may is the kernel's decision (Yama, seccomp, user namespaces), so each pair is probed once by
//! reading a word whose value the peer has published.

use super::{Shm, region};
use crate::sync::{AtomicU64, Ordering};
use crate::{BulkTransfer, Completion, Counter, Counters, Descriptor, Direction, FabricError, Peer, Ticket};
use std::cell::Cell;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Unknown,
    Yes,
    No,
}

/// Probed pairs and the word that peers probe.
pub struct Bulk {
    reach: Vec<Cell<Reach>>,
    probe: Box<AtomicU64>,
}

impl Bulk {
    pub fn new(size: u32, enabled: bool) -> Self {
        let start = if enabled { Reach::Unknown } else { Reach::No };
        // Any value that a stranger's memory is unlikely to hold.
        let clock = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let value = clock.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40);
        Self {
            reach: vec![Cell::new(start); size as usize],
            probe: Box::new(AtomicU64::new(value)),
        }
    }

    pub fn publish_probe(&self, identity: &region::Identity) {
        let address = std::ptr::from_ref::<AtomicU64>(&self.probe).addr();
        identity
            .probe_value
            .store(self.probe.load(Ordering::Relaxed), Ordering::Relaxed);
        identity.probe_address.store(address as u64, Ordering::Relaxed);
    }
}

/// Move bytes; the number moved.
///
/// # Safety
/// `d.local` for `d.len` bytes is memory of this process that may be read (put) or written (get).
unsafe fn copy(pid: i32, d: &Descriptor) -> Result<usize, std::io::Error> {
    let local = libc::iovec {
        iov_base: d.local as *mut libc::c_void,
        iov_len: d.len,
    };
    let remote = libc::iovec {
        iov_base: d.remote as *mut libc::c_void,
        iov_len: d.len,
    };
    // SAFETY: the caller vouches for the local range; the kernel checks the remote one.
    let moved = unsafe {
        match d.direction {
            Direction::Get => libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0),
            Direction::Put => libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0),
        }
    };
    if moved < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(moved as usize)
    }
}

impl BulkTransfer for Shm {
    #[inline]
    fn can_transfer(&self, peer: Peer) -> bool {
        let Some(reach) = self.bulk.reach.get(peer.index()) else {
            return false;
        };
        if reach.get() == Reach::Unknown {
            reach.set(if self.probe(peer) { Reach::Yes } else { Reach::No });
        }
        reach.get() == Reach::Yes
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion, FabricError> {
        let peer = descriptor.peer;
        self.check_peer(peer)?;
        let pid = self.process(peer).identity.pid.load(Ordering::Relaxed) as i32;
        let mut rest = *descriptor;
        while rest.len > 0 {
            // SAFETY: the caller vouches for the local range, of which this is a part.
            let moved = unsafe { copy(pid, &rest) }.map_err(|e| match e.raw_os_error() {
                Some(libc::ESRCH) => FabricError::PeerDead {
                    peer,
                    why: "its process has ended".into(),
                },
                Some(libc::EFAULT) => FabricError::Corrupt {
                    peer,
                    what: "a buffer address",
                    value: rest.remote as u64,
                },
                _ => FabricError::os_error("copy between processes", &e),
            })?;
            if moved == 0 {
                return Err(FabricError::Corrupt {
                    peer,
                    what: "a buffer address",
                    value: rest.remote as u64,
                });
            }
            rest.local += moved;
            rest.remote += moved;
            rest.len -= moved;
        }
        self.count(peer, Counter::BulkBytes, descriptor.len as u64);
        Ok(Completion::Done)
    }

    fn poll_transfer(&self, _ticket: Ticket) -> Result<bool, FabricError> {
        Ok(true)
    }
}

impl Shm {
    #[cold]
    fn probe(&self, peer: Peer) -> bool {
        let identity = &self.process(peer).identity;
        let pid = identity.pid.load(Ordering::Acquire) as i32;
        if pid == 0 {
            return false;
        }
        let mut found = 0u64;
        let d = Descriptor {
            peer,
            direction: Direction::Get,
            local: (&raw mut found).addr(),
            remote: identity.probe_address.load(Ordering::Relaxed) as usize,
            len: 8,
        };
        let wanted = identity.probe_value.load(Ordering::Relaxed);
        // SAFETY: `found` is eight writable bytes.
        let moved = unsafe {
            copy(
                pid,
                &Descriptor {
                    local: (&raw mut found).expose_provenance(),
                    ..d
                },
            )
        };
        matches!(moved, Ok(8)) && std::hint::black_box(found) == wanted
    }
}
