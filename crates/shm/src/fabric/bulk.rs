//! Bulk transfer by cross-memory attach: the kernel copies between two processes of one user.
//!
//! Whether it may is the kernel's decision (Yama, seccomp, user namespaces), so each pair is probed once by
//! reading a word whose value the peer has published.

use super::{Shm, region};
use farpost_fabric::sync::{AtomicU64, Ordering};
use farpost_fabric::{
    BulkTransfer, Completion, Counter, Counters, Descriptor, Direction, FabricError, PIECES, Peer, Piece,
    Result, Ticket,
};
use std::cell::Cell;
use std::sync::Mutex;

/// Whether cross-memory attach reaches a peer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CmaAccess {
    Unknown,
    /// As this process.
    Yes(libc::pid_t),
    No,
}

/// An endpoint of this process.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LocalEndpoint {
    pid: u32,
    /// Device, inode and offset of the region.
    region: ((u64, u64), u64),
    index: u32,
}

/// The endpoints of this process. A peer that claims to be this process is believed only if it is among
/// them: otherwise a wrong process id would let a peer's addresses choose what is overwritten here.
static LOCAL_ENDPOINTS: Mutex<Vec<LocalEndpoint>> = Mutex::new(Vec::new());

fn local_endpoints() -> std::sync::MutexGuard<'static, Vec<LocalEndpoint>> {
    LOCAL_ENDPOINTS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Probed pairs and the word that peers probe.
pub struct Bulk {
    reach: Vec<Cell<CmaAccess>>,
    /// When the process was last found alive, in milliseconds.
    checked: Vec<Cell<u64>>,
    probe: Box<AtomicU64>,
    me: LocalEndpoint,
}

impl Bulk {
    pub fn new(index: u32, size: u32, enabled: bool, region: ((u64, u64), u64)) -> Self {
        let start = if enabled {
            CmaAccess::Unknown
        } else {
            CmaAccess::No
        };
        // Any value that a stranger's memory is unlikely to hold.
        let clock = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let value = clock.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40);
        let me = LocalEndpoint {
            pid: std::process::id(),
            region,
            index,
        };
        local_endpoints().push(me);
        Self {
            reach: vec![Cell::new(start); size as usize],
            checked: vec![Cell::new(0); size as usize],
            probe: Box::new(AtomicU64::new(value)),
            me,
        }
    }

    /// The endpoint goes.
    pub fn withdraw(&self) {
        let mut here = local_endpoints();
        if let Some(at) = here.iter().position(|h| *h == self.me) {
            here.swap_remove(at);
        }
    }

    /// Whether process `pid` can be peer `index` as far as this process knows.
    fn credible(&self, pid: u32, index: u32) -> bool {
        pid != self.me.pid || local_endpoints().contains(&LocalEndpoint { index, ..self.me })
    }

    pub fn publish_probe(&self, identity: &region::Identity) {
        let address = std::ptr::from_ref::<AtomicU64>(&self.probe).addr();
        identity
            .probe_value
            .store(self.probe.load(Ordering::Relaxed), Ordering::Relaxed);
        identity.probe_address.store(address as u64, Ordering::Relaxed);
    }
}

/// Milliseconds for which a process that was there is taken to be there.
const CHECK_INTERVAL: u64 = 50;

/// Milliseconds of a clock that costs next to nothing.
fn coarse_millis() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Move bytes; the number moved.
///
/// # Safety
/// `d.local` for `d.len` bytes is memory of this process that may be read (put) or written (get).
unsafe fn copy(pid: i32, d: &Descriptor) -> Result<usize, std::io::Error> {
    let piece = |address| Piece { address, len: d.len };
    // SAFETY: the caller vouches for the local range.
    unsafe { copy_pieces(pid, d.direction, &[piece(d.local)], &[piece(d.remote)]) }
}

/// As [`copy`], between lists of pieces.
///
/// # Safety
/// The pieces of `local` are memory of this process that may be read (put) or written (get).
unsafe fn copy_pieces(
    pid: i32,
    direction: Direction,
    local: &[Piece],
    remote: &[Piece],
) -> Result<usize, std::io::Error> {
    // A piece is laid out like an `iovec`: an address and a number of bytes.
    const { assert!(size_of::<Piece>() == size_of::<libc::iovec>()) };
    let (here, there) = (local.as_ptr().cast(), remote.as_ptr().cast());
    let (few, others) = (local.len() as libc::c_ulong, remote.len() as libc::c_ulong);
    // SAFETY: the caller vouches for the local ranges; the kernel checks the remote ones.
    let moved = unsafe {
        match direction {
            Direction::Get => libc::process_vm_readv(pid, here, few, there, others, 0),
            Direction::Put => libc::process_vm_writev(pid, here, few, there, others, 0),
        }
    };
    if moved < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(moved as usize)
    }
}

/// None: both sides copy a long message at once.
impl farpost_fabric::ZeroCopy for Shm {}

impl BulkTransfer for Shm {
    #[inline]
    fn can_transfer(&self, peer: Peer) -> bool {
        matches!(self.reach(peer), CmaAccess::Yes(_))
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion> {
        let peer = descriptor.peer;
        self.check_peer(peer)?;
        let CmaAccess::Yes(pid) = self.reach(peer) else {
            return Err(unreachable(peer));
        };
        self.check_alive(peer)?;
        let mut rest = *descriptor;
        while rest.len > 0 {
            // SAFETY: the caller vouches for the local range, of which this is a part.
            let moved = unsafe { copy(pid, &rest) }.map_err(|e| self.refusal(peer, rest.remote, &e))?;
            if moved == 0 {
                return Err(bad_address(peer, rest.remote));
            }
            rest.local += moved;
            rest.remote += moved;
            rest.len -= moved;
        }
        self.count(peer, Counter::BulkBytes, descriptor.len as u64);
        Ok(Completion::Done)
    }

    #[inline]
    fn can_transfer_pieces(&self, peer: Peer) -> bool {
        self.can_transfer(peer)
    }

    unsafe fn transfer_pieces(
        &self,
        peer: Peer,
        direction: Direction,
        local: &[Piece],
        remote: &[Piece],
    ) -> Result<()> {
        self.check_peer(peer)?;
        assert!(
            local.len() <= PIECES && remote.len() <= PIECES,
            "at most {PIECES} pieces at a time"
        );
        let CmaAccess::Yes(pid) = self.reach(peer) else {
            return Err(unreachable(peer));
        };
        self.check_alive(peer)?;
        let bytes: usize = local.iter().map(|piece| piece.len).sum();
        let first = remote.first().map_or(0, |piece| piece.address);
        // SAFETY: the caller vouches for the local pieces.
        let moved = unsafe { copy_pieces(pid, direction, local, remote) }
            .map_err(|e| self.refusal(peer, first, &e))?;
        if moved < bytes {
            return Err(bad_address(peer, first));
        }
        self.count(peer, Counter::BulkBytes, bytes as u64);
        Ok(())
    }

    fn poll_transfer(&self, _ticket: Ticket) -> Result<bool> {
        Ok(true)
    }
}

fn unreachable(peer: Peer) -> FabricError {
    FabricError::unsupported(
        peer,
        "cross-memory attach",
        "FARPOST_SHM_CMA is 0, or the system or the peer does not let us",
    )
}

fn bad_address(peer: Peer, remote: usize) -> FabricError {
    FabricError::corrupt(peer, "a buffer address", remote as u64)
}

impl Shm {
    /// What the kernel's refusal means.
    #[cold]
    fn refusal(&self, peer: Peer, remote: usize, error: &std::io::Error) -> FabricError {
        match error.raw_os_error() {
            Some(libc::ESRCH) => self.dead(peer),
            Some(libc::EFAULT) => bad_address(peer, remote),
            _ => FabricError::os_error("copy between processes", error),
        }
    }

    /// The kernel gives numbers of processes out again: whose number is used here was there moments ago. Looked up so
    /// often that no other process can have the number yet.
    fn check_alive(&self, peer: Peer) -> Result<()> {
        let now = coarse_millis();
        let checked = &self.bulk.checked[peer.index()];
        if now.wrapping_sub(checked.get()) < CHECK_INTERVAL {
            return Ok(());
        }
        if peer.0 != self.index && self.ended(peer).is_some() {
            return Err(self.dead(peer));
        }
        checked.set(now);
        Ok(())
    }

    #[inline]
    fn reach(&self, peer: Peer) -> CmaAccess {
        let Some(reach) = self.bulk.reach.get(peer.index()) else {
            return CmaAccess::No;
        };
        if reach.get() == CmaAccess::Unknown {
            reach.set(self.probe(peer));
        }
        reach.get()
    }

    #[cold]
    fn probe(&self, peer: Peer) -> CmaAccess {
        let identity = &self.process(peer).identity;
        let published = identity.pid.load(Ordering::Acquire);
        if published == 0 {
            return CmaAccess::Unknown;
        }
        let pid = published as libc::pid_t;
        if pid <= 0 || !self.bulk.credible(published, peer.0) {
            return CmaAccess::No;
        }
        let found = AtomicU64::new(0);
        let d = Descriptor {
            peer,
            direction: Direction::Get,
            local: found.as_ptr().expose_provenance(),
            remote: identity.probe_address.load(Ordering::Relaxed) as usize,
            len: 8,
            key: 0,
        };
        let wanted = identity.probe_value.load(Ordering::Relaxed);
        // SAFETY: `found` is eight writable bytes.
        let moved = unsafe { copy(pid, &d) };
        if matches!(moved, Ok(8)) && found.load(Ordering::Relaxed) == wanted {
            CmaAccess::Yes(pid)
        } else {
            CmaAccess::No
        }
    }
}
