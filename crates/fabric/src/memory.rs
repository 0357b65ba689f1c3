//! Remote memory: export a segment, import a peer's, put, get, fence; plain access where the fabric maps.

use crate::{FabricError, Peer};

/// Bytes in a cache line, the unit that [`Remote::put_line`] delivers whole.
pub const LINE_BYTES: usize = 64;

/// Bytes of [`RemoteMemory::common`] memory per process.
pub const COMMON_BYTES: usize = 8192;

/// One cache line.
pub type Line = [u64; 8];

/// Names a segment among those of its exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

/// What an importer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Get, or load from the mapping.
    Read,
    /// Also put, or store to the mapping.
    ReadWrite,
}

/// Who may import a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every process of the job.
    Everyone(Permission),
    /// Those listed.
    Only(Vec<(Peer, Permission)>),
}

impl Access {
    /// What `peer` may do, if anything.
    pub fn of(&self, peer: Peer) -> Option<Permission> {
        match self {
            Access::Everyone(permission) => Some(*permission),
            Access::Only(list) => list.iter().find(|(who, _)| *who == peer).map(|(_, p)| *p),
        }
    }
}

/// Memory of this process (or of this host) that peers write to or read from while we do.
///
/// Offsets of words and lines must be multiples of 8 and 64. Every access is bounds checked: an offset that
/// leaves the segment panics, since offsets are computed here; values that come from a peer are checked by
/// the protocol before they become offsets.
pub trait LocalMemory {
    /// A queue of lines in this memory.
    type Lines: Lines;
    /// The `count` lines (a power of two) from `offset` on as a queue, checked here once and not at every
    /// access.
    fn lines(&self, offset: usize, count: u32) -> Self::Lines;
    /// Bytes.
    fn len(&self) -> usize;
    /// Whether the segment has no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Load a word; everything its writer wrote before it is visible after.
    fn load(&self, offset: usize) -> u64;
    /// Store a word after everything written before.
    fn store(&self, offset: usize, value: u64);
    /// Add to a word, whole, ordered like both a load and a store; the value before.
    fn fetch_add(&self, offset: usize, amount: u64) -> u64;
    /// Load a line. Its first word is loaded first, with acquire ordering.
    fn load_line(&self, offset: usize) -> Line;
    /// Store a line, its first word last.
    fn store_line(&self, offset: usize, line: &Line);
    /// A hint that `len` bytes from `offset` on will be written soon.
    fn prefetch_write(&self, _offset: usize, _len: usize) {}
    /// Copy out.
    fn read(&self, offset: usize, to: &mut [u8]);
    /// Copy in.
    fn write(&self, offset: usize, from: &[u8]);
}

/// Lines used as a queue, by running number: line `number` lies at `number` modulo their count.
pub trait Lines {
    /// The first word of a line; what its writer wrote before it is visible after.
    fn first(&self, number: u32) -> u64;
    /// Word `index` (0 to 7) of a line whose first word was loaded before.
    fn word(&self, number: u32, index: usize) -> u64;
    /// A whole line, its first word loaded first.
    fn line(&self, number: u32) -> Line;
    /// Store the first `words` words of a line (1 to 8), the first one last.
    fn put(&self, number: u32, line: &Line, words: usize);
    /// A hint that a line will be read soon.
    fn prefetch(&self, _number: u32) {}
    /// A hint that a line will be written soon.
    fn prefetch_write(&self, _number: u32) {}
}

/// [`Lines`] of a memory that has no better way.
#[derive(Clone)]
pub struct PlainLines<M> {
    memory: M,
    offset: usize,
    mask: u32,
}

impl<M: LocalMemory> PlainLines<M> {
    /// The `count` lines (a power of two) from `offset` on.
    ///
    /// # Panics
    /// When they leave the memory.
    pub fn new(memory: M, offset: usize, count: u32) -> Self {
        assert!(count.is_power_of_two() && offset + count as usize * LINE_BYTES <= memory.len());
        Self {
            memory,
            offset,
            mask: count - 1,
        }
    }

    fn at(&self, number: u32) -> usize {
        self.offset + (number & self.mask) as usize * LINE_BYTES
    }
}

impl<M: LocalMemory> Lines for PlainLines<M> {
    fn first(&self, number: u32) -> u64 {
        self.memory.load(self.at(number))
    }

    fn word(&self, number: u32, index: usize) -> u64 {
        self.memory.load(self.at(number) + 8 * index)
    }

    fn line(&self, number: u32) -> Line {
        self.memory.load_line(self.at(number))
    }

    fn put(&self, number: u32, line: &Line, _words: usize) {
        self.memory.store_line(self.at(number), line);
    }
}

/// A peer's segment as imported.
///
/// Puts may be delayed and overtake each other until a [`fence`](Remote::fence) or [`order`](Remote::order),
/// except that a line arrives whole. They do not wait for room: what the way there does not take at once is kept
/// and goes out with a later call, [`Fabric::progress`](crate::Fabric::progress) at the latest; a line is not kept
/// longer than it must. Errors of puts may surface at the next fence only.
pub trait Remote {
    /// Bytes.
    fn len(&self) -> usize;
    /// Whether the segment has no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Write `from` at `offset`.
    fn put(&self, offset: usize, from: &[u8]) -> Result<(), FabricError>;
    /// Write one aligned word, whole.
    fn put_word(&self, offset: usize, value: u64) -> Result<(), FabricError>;
    /// Write one aligned line, whole: who sees its first word sees the rest.
    fn put_line(&self, offset: usize, line: &Line) -> Result<(), FabricError>;
    /// Read into `to`. Returns when the bytes are here.
    fn get(&self, offset: usize, to: &mut [u8]) -> Result<(), FabricError>;
    /// Everything put so far has arrived, or here is the error.
    fn fence(&self) -> Result<(), FabricError>;
    /// What was put to this peer so far, in whatever segment, arrives before what is put from now on. Where
    /// the way there keeps the order this costs nothing; elsewhere it is a fence.
    fn order(&self) -> Result<(), FabricError> {
        self.fence()
    }
}

/// Export and import.
pub trait RemoteMemory {
    /// Whether every importer sees exporters' memory by plain loads and stores. Then [`RemoteMemory::mapped`]
    /// answers for every import, and protocols may keep shared structures at either end. Where it depends on the
    /// peer, this is false and [`RemoteMemory::maps`] tells.
    const MAPPED: bool;
    /// Whether this process and `peer` see each other's segments by plain loads and stores.
    #[inline(always)]
    fn maps(&self, _peer: Peer) -> bool {
        Self::MAPPED
    }
    /// A segment of mine.
    type Export: LocalMemory + Clone;
    /// A segment of a peer's.
    type Import: Remote + Clone;

    /// Make `len` zeroed bytes of memory and publish them as `id`.
    fn export(&self, id: SegmentId, len: usize, access: Access) -> Result<Self::Export, FabricError>;
    /// Withdraw `id`. Importers' later accesses do no harm; whether they fail is the fabric's affair.
    fn unpublish(&self, id: SegmentId) -> Result<(), FabricError>;
    /// Reach a peer's segment, which must have at least `len` bytes.
    fn import(
        &self,
        peer: Peer,
        id: SegmentId,
        len: usize,
        permission: Permission,
    ) -> Result<Self::Import, FabricError>;
    /// A little memory of `peer`'s, [`COMMON_BYTES`], zeroed at the start, that every process of its host sees
    /// from the start without any import; `peer` writes it, others read. None where the fabric has no such thing.
    fn common(&self, _peer: Peer) -> Option<Self::Export> {
        None
    }
    /// Plain access to an imported segment where the fabric is load/store.
    fn mapped(import: &Self::Import) -> Option<&Self::Export>;
}
