//! Remote memory: export a segment, import a peer's, put, get, fence; plain access where the fabric maps.

use crate::{Completion, FabricError, Peer, Result, SegmentId, Ticket, TransferMemory};

/// Bytes in a cache line, the unit that [`Remote::put_line`] delivers whole.
pub const LINE_BYTES: usize = 64;

/// Bytes of [`RemoteMemory::common`] memory per process.
pub const COMMON_BYTES: usize = 8192;

/// One cache line.
pub type Line = [u64; 8];

/// A line of these bytes.
pub fn line_of(bytes: &[u8; LINE_BYTES]) -> Line {
    let mut line = [0; 8];
    for (word, at) in line.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(at.try_into().expect("eight bytes"));
    }
    line
}

/// The bytes of a line.
pub fn bytes_of(line: &Line) -> [u8; LINE_BYTES] {
    let mut bytes = [0; LINE_BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(line) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

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
    /// A hint that `len` bytes from `offset` on will be read soon.
    fn prefetch(&self, _offset: usize, _len: usize) {}
    /// A hint that `len` bytes from `offset` on will be written soon.
    fn prefetch_write(&self, _offset: usize, _len: usize) {}
    /// Copy out.
    fn read(&self, offset: usize, to: &mut [u8]);
    /// Copy in.
    fn write(&self, offset: usize, from: &[u8]);
    /// Where it lies in this process, if it is plain memory here.
    fn address(&self) -> Option<usize> {
        None
    }
    /// Put its pages in the place of the caller's own at `address`, with the caller's contents: from now on the range
    /// shows what peers put. Only ordinary private memory (of `malloc` and its like) can be replaced; that is checked.
    /// Where this memory covered another range before, that range keeps a private copy.
    ///
    /// # Errors
    /// [`FabricError::Unsupported`] where memory is no mapping.
    ///
    /// # Safety
    /// `address`, a multiple of the page size, for as many bytes as there are here is memory that nobody else uses
    /// during the call, and that is not unmapped before [`uncover`](Self::uncover).
    unsafe fn overlay(&self, _address: usize) -> Result<()> {
        Err(FabricError::unsupported(
            Peer(0),
            "exporting memory of the caller's own",
            "this fabric has no mappings",
        ))
    }
    /// The end of what [`overlay`](Self::overlay) began: the range becomes private memory again, with the contents it
    /// shows. Nothing happens when no range is covered.
    ///
    /// # Safety
    /// The range is still mapped and nobody else uses it during the call.
    unsafe fn uncover(&self) -> Result<()> {
        Ok(())
    }
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
    /// Store the first word of a line alone, after everything written before.
    fn put_first(&self, number: u32, word: u64);
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

    fn put_first(&self, number: u32, word: u64) {
        self.memory.store(self.at(number), word);
    }
}

/// A peer's segment as imported.
///
/// Puts may be delayed and overtake each other until a [`fence`](Remote::fence) or [`order`](Remote::order),
/// except that a line arrives whole. They do not wait for room: what the way there does not take at once is kept
/// and goes out with a later call, [`Fabric::progress`](crate::Fabric::progress) at the latest; a line is not kept
/// longer than it must. Errors of puts may surface at the next fence only.
#[ambassador::delegatable_trait]
pub trait Remote {
    /// Bytes.
    fn len(&self) -> usize;
    /// Whether the segment has no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Write `from` at `offset`.
    fn put(&self, offset: usize, from: &[u8]) -> Result<()>;
    /// Write one aligned word, whole.
    fn put_word(&self, offset: usize, value: u64) -> Result<()>;
    /// Write one aligned line, whole: who sees its first word sees the rest.
    fn put_line(&self, offset: usize, line: &Line) -> Result<()>;
    /// As [`put_line`](Remote::put_line) where only the first `words` words (1 to 8) count: the others may or may not be
    /// written.
    #[inline(always)]
    fn put_line_words(&self, offset: usize, line: &Line, _words: usize) -> Result<()> {
        self.put_line(offset, line)
    }
    /// As [`put_line`](Remote::put_line), ahead of another line to the same memory that follows at once: it may wait for that.
    #[inline]
    fn put_line_ahead(&self, offset: usize, line: &Line) -> Result<()> {
        self.put_line(offset, line)
    }
    /// Write whole lines, `from` and `offset` multiples of 64. Each line arrives whole where there is one line, or where
    /// the fabric maps; more lines may arrive in any order.
    fn put_lines(&self, offset: usize, from: &[u8]) -> Result<()> {
        match from.try_into() {
            Ok(bytes) => self.put_line(offset, &line_of(bytes)),
            Err(_) => self.put(offset, from),
        }
    }
    /// Write elements of `size` bytes (1, 2, 4 or 8), aligned to it, none of which is ever seen in part.
    fn put_elements(&self, offset: usize, from: &[u8], size: usize) -> Result<()> {
        if size == 8 {
            for (i, word) in from.chunks_exact(8).enumerate() {
                let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
                self.put_word(offset + 8 * i, word)?;
            }
            return Ok(());
        }
        // Smaller ones share a word with what is not ours to write, so they travel as bytes: few enough at a time to
        // stay together.
        for (i, part) in from.chunks(LINE_BYTES).enumerate() {
            self.put(offset + LINE_BYTES * i, part)?;
        }
        Ok(())
    }
    /// Read into `to`. Returns when the bytes are here.
    fn get(&self, offset: usize, to: &mut [u8]) -> Result<()>;
    /// Read elements of `size` bytes (1, 2, 4 or 8), aligned to it, none of them torn.
    fn get_elements(&self, offset: usize, to: &mut [u8], _size: usize) -> Result<()> {
        self.get(offset, to)
    }
    /// Everything put so far has arrived, or here is the error.
    fn fence(&self) -> Result<()>;
    /// What was put to this peer so far, in whatever segment, arrives before what is put from now on. Where
    /// the way there keeps the order this costs nothing; elsewhere it is a fence.
    fn order(&self) -> Result<()> {
        self.fence()
    }
    /// As [`order`](Self::order), for a word or line that is put again: the older ones of the same line arrive before. Ways that differ for
    /// different lines may keep that order by themselves.
    fn order_line(&self) -> Result<()> {
        self.order()
    }
    /// For a user whose long puts are worth several rails: from now on they, and long gets, are striped over those of `rails` (bit 0 for
    /// the first) that work, or over any when none of these does. Short puts go as ever. Such puts may cost a copy, and a round trip before
    /// they begin; [`fence`](Remote::fence) waits for them, and so does [`order`](Remote::order) of this import.
    /// Where there is one way only this changes nothing.
    fn stripe(&self, _rails: u32) {}
    /// Begin to write all of `from` at `offset`; it is complete when every byte has arrived. Any number may be under way at once, in both
    /// directions, and end in any order: neither `fence` nor `order` waits for them. An error at the end: the bytes have not all
    /// arrived, because the segment was withdrawn or the peer is gone. Where there is no way to leave it to the network (mapped memory),
    /// it is complete when this returns.
    fn start_put(&self, offset: usize, from: &TransferMemory) -> Result<Completion> {
        // SAFETY: memory is for one transfer at a time, and this one only reads it.
        self.put(offset, unsafe { from.bytes() })?;
        self.fence()?;
        Ok(Completion::Done)
    }
    /// Begin to read into all of `to` from `offset`, as [`start_put`](Self::start_put).
    fn start_get(&self, offset: usize, to: &TransferMemory) -> Result<Completion> {
        // SAFETY: memory is for one transfer at a time, and this is it.
        self.get(offset, unsafe { to.bytes_mut() })?;
        Ok(Completion::Done)
    }
    /// Whether what [`start_put`](Self::start_put) or [`start_get`](Self::start_get) began has ended; after `true` or an error the ticket is
    /// used up, and the memory not touched any more.
    fn poll_started(&self, _ticket: Ticket) -> Result<bool> {
        Ok(true)
    }
    /// Give up what was begun. When it returns, the memory is not touched any more; whether bytes of a put arrive, nobody knows.
    fn cancel_started(&self, _ticket: Ticket) {}
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
    fn export(&self, id: SegmentId, len: usize, access: Access) -> Result<Self::Export> {
        self.export_with(id, len, access, |_| ())
    }
    /// As [`export`](Self::export), for memory that is not to be found as zeroes: `begin` writes what everybody finds there.
    fn export_with(
        &self,
        id: SegmentId,
        len: usize,
        access: Access,
        begin: impl FnOnce(&Self::Export),
    ) -> Result<Self::Export> {
        let memory = self.allocate(len)?;
        begin(&memory);
        self.publish(id, &memory, access)?;
        Ok(memory)
    }
    /// Withdraw `id`. Importers' later accesses do no harm; whether they fail is the fabric's affair.
    fn unpublish(&self, id: SegmentId) -> Result<()>;
    /// `len` zeroed bytes, whole pages, that [`publish`](Self::publish) can show to peers, now or later and as often
    /// as wanted.
    fn allocate(&self, len: usize) -> Result<Self::Export>;
    /// Let peers import `memory` as segment `id`, as if it had been exported under it. Ended by
    /// [`unpublish`](Self::unpublish).
    fn publish(&self, id: SegmentId, memory: &Self::Export, access: Access) -> Result<()>;
    /// A new access list for `id`, which shows `memory`. It decides about later imports; what is imported stays so only
    /// for those that the new list admits as well.
    fn republish(&self, id: SegmentId, memory: &Self::Export, access: Access) -> Result<()>;
    /// From now on, what peers that have imported `memory` do with it is not seen here any more: where they map it, they
    /// keep the old pages and this process gets others with the same contents. For memory that is not published.
    /// What other threads of this process store meanwhile may be lost.
    fn detach(&self, _memory: &Self::Export) -> Result<()> {
        Ok(())
    }
    /// Whether [`give_back`](Self::give_back) frees memory that `peer` reaches.
    fn gives_back(&self, _peer: Peer) -> bool {
        false
    }
    /// Give the pages that lie wholly in `range` back to the system: they cost no memory, and are zeroes, until they are
    /// written again. For the exporter of memory that only `peer` or those that are reached as it is may import, while nobody
    /// writes there and no put to there is on its way. Where [`gives_back`](Self::gives_back) is false (an adapter holds the
    /// pages, say) nothing happens.
    fn give_back(&self, _peer: Peer, _memory: &Self::Export, _range: std::ops::Range<usize>) {}
    /// Reach a peer's segment, which must have at least `len` bytes.
    fn import(&self, peer: Peer, id: SegmentId, len: usize, permission: Permission) -> Result<Self::Import>;
    /// A little memory of `peer`'s, [`COMMON_BYTES`], zeroed at the start, that every process of its host sees
    /// from the start without any import; `peer` writes it, others read. None where the fabric has no such thing.
    fn common(&self, _peer: Peer) -> Option<Self::Export> {
        None
    }
    /// Plain access to an imported segment where the fabric is load/store.
    #[inline(always)]
    fn mapped(_import: &Self::Import) -> Option<&Self::Export> {
        None
    }
}
