//! The layout of the job's shared region: what every process can see of every other.
//!
//! ```text
//! page 0                 header: magic, processes
//! page 1 + i * stride    process i: identity, sleep word, published segments, packet rings, counters,
//!                        access lists
//! ```
//! The region is sparse and zeroed; a page costs memory once somebody touches it.

use super::ring::Ring;
use farpost_fabric::LANES;
use farpost_fabric::publish::Shown;
use farpost_fabric::sync::{AtomicU32, AtomicU64};
use farpost_fabric::{Counter, RAIL_WORDS, RAILS_SHOWN, Register};
use farpost_mapped::Mapping;

pub const PAGE: usize = 4096;
/// "farpost" and the version of this layout.
pub const MAGIC: u64 = 0x0574_736f_7072_6166;
/// Segments that a process can have published at a time.
pub const SEGMENTS: usize = 96;

/// Page 0.
#[repr(C)]
pub struct Header {
    pub magic: AtomicU64,
    pub size: AtomicU32,
}

/// Who a process is, on one line that changes once.
#[repr(C, align(64))]
pub struct Identity {
    /// Process id, 0 until attached, [`GONE`] once detached.
    pub pid: AtomicU32,
    pub uid: AtomicU32,
    /// When that process started, as the kernel counts (`process_handles::born`): a number used again is not the same process.
    pub started: AtomicU64,
    /// Not 0 once the process has closed all its interfaces and left the job.
    pub left: AtomicU32,
    /// Address and contents of a word of that process, for probing cross-memory attach.
    pub probe_address: AtomicU64,
    pub probe_value: AtomicU64,
}

/// Where a process sleeps. Senders load it after each message: it changes only around a sleep.
#[repr(C, align(64))]
pub struct Sleep {
    /// Not 0 while asleep or about to be (see `flag`); the futex.
    pub asleep: AtomicU32,
    /// Shows the descriptor number of the writing end of the process's pipe, once it has one.
    pub pipe: Shown,
    /// When it was last woken, by the host's monotonic clock in nanoseconds: of the one who did it. A hint about time.
    pub rung_at: AtomicU64,
}

/// The core that a process has named (`core_placement`).
#[repr(C, align(64))]
pub struct Place {
    /// The core it shares with somebody, plus 1; 0 while it knows of none. A hint.
    pub core_plus_one: AtomicU32,
}

/// The slot of another process's ring that this process is writing to (see `ring`): written for each packet, read rarely.
#[repr(C, align(128))]
pub struct Claim(pub AtomicU64);

/// A published segment.
#[repr(C, align(64))]
pub struct Published {
    /// Shows the identifier, and so the rest.
    pub shown: Shown,
    /// Descriptor number in the publishing process.
    pub fd: AtomicU32,
    pub len: AtomicU64,
    pub device: AtomicU64,
    pub inode: AtomicU64,
    /// One of [`access`]; all-zero memory admits nobody.
    pub access: AtomicU32,
}

/// Values of [`Published::access`], and of the two bits that a list has for each process.
pub mod access {
    pub const NOBODY: u32 = 0;
    pub const READ: u32 = 1;
    pub const READ_WRITE: u32 = 2;
    /// By the access list.
    pub const LISTED: u32 = 3;
}

/// Process id of a process that has left.
pub const GONE: u32 = u32::MAX;

/// Processes whose two bits share a word of an access list.
pub const LISTED_PER_WORD: u32 = 32;

/// Everything about one process but its counters and access lists, which follow.
#[repr(C, align(4096))]
pub struct Process {
    pub identity: Identity,
    pub sleep: Sleep,
    pub place: Place,
    pub claim: Claim,
    pub segments: [Published; SEGMENTS],
    /// By port and priority.
    pub rings: [Ring; LANES],
    pub common: Common,
    pub registers: Registers,
}

/// What a process shows of itself beside its traffic: [registers](Register), and its rails.
#[repr(C, align(4096))]
pub struct Registers {
    pub registers: [AtomicU64; REGISTERS],
    pub rails: [[AtomicU64; RAIL_WORDS]; RAILS_SHOWN],
}

/// Room for registers.
const REGISTERS: usize = 64;
const _: () = assert!(Register::COUNT <= REGISTERS);
const _: () = assert!(size_of::<Registers>() == PAGE);

/// What [`RemoteMemory::common`](farpost_fabric::RemoteMemory::common) gives out.
#[repr(C, align(4096))]
pub struct Common(pub [AtomicU64; farpost_fabric::COMMON_BYTES / 8]);

/// Counters of one process about one peer, one line.
#[repr(C, align(64))]
pub struct PeerCounters(pub [AtomicU64; Counter::COUNT]);

const _: () = assert!(size_of::<PeerCounters>() == 64);
const _: () = assert!(size_of::<Process>().is_multiple_of(PAGE));

/// Bytes from one process to the next when `size` processes exist.
pub const fn stride(size: u32) -> usize {
    (list_in_process(SEGMENTS, size)).next_multiple_of(PAGE)
}

/// Words of one access list.
pub const fn list_words(size: u32) -> usize {
    size.div_ceil(LISTED_PER_WORD) as usize
}

const fn list_in_process(slot: usize, size: u32) -> usize {
    size_of::<Process>() + size as usize * size_of::<PeerCounters>() + slot * list_words(size) * 8
}

/// Offset of the access list of segment `slot` of process `index`.
pub const fn list_offset(index: u32, slot: usize, size: u32) -> usize {
    process_offset(index, size) + list_in_process(slot, size)
}

/// Offset of process `index`.
pub const fn process_offset(index: u32, size: u32) -> usize {
    PAGE + index as usize * stride(size)
}

/// Offset of the counters that process `index` keeps about `peer`.
pub const fn counters_offset(index: u32, peer: u32, size: u32) -> usize {
    process_offset(index, size) + size_of::<Process>() + peer as usize * size_of::<PeerCounters>()
}

/// A counter that process `of` keeps about `peer`, in a region of `size` processes.
pub fn counter(region: &Mapping, of: u32, peer: u32, size: u32, counter: Counter) -> &AtomicU64 {
    // SAFETY: only atomic fields.
    let counters: &PeerCounters = unsafe { region.table(counters_offset(of, peer, size)) };
    &counters.0[counter as usize]
}

/// What process `of` shows of itself.
pub fn registers(region: &Mapping, of: u32, size: u32) -> &Registers {
    // SAFETY: only atomic fields.
    unsafe { region.table(process_offset(of, size) + std::mem::offset_of!(Process, registers)) }
}

/// Bytes needed for `size` processes.
pub const fn bytes(size: u32) -> usize {
    process_offset(size, size)
}
