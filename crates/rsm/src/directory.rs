//! The directory: what a process has published, for all others to read.
//!
//! A segment of the fabric of its own, which everybody may import for reading: a line for each of the process's segments
//! (identifier, generation, length, owner) and a list of the nodes that may connect. So connecting asks nothing of the
//! exporter, which may be computing; and on fabrics that map memory an importer sees by one load that a segment is
//! withdrawn.
//!
//! ```text
//! line 0           magic, slots, nodes
//! line 1 + slot    word 0  even: stable; changes with everything else
//!                  word 1  segment identifier, controller << 32
//!                  word 2  generation; 0: nothing published here
//!                  word 3  bytes
//!                  word 4  user, group << 32
//!                  word 5  offered to everybody << 32, or LISTED
//! after the lines  by slot and node, 16 bits: permissions, and LISTED
//! ```
//! What is read here was written by another process: all of it is checked.

use crate::names::{Perm, SegId};
use farpost_fabric::{
    FabricError, LINE_BYTES, Line, LocalMemory, Peer, Permission, Remote, RemoteMemory, SegmentId,
};

/// "rsmapi" and the version of this layout.
const MAGIC: u64 = 0x0001_6970_616d_7372;

/// Names directories on the fabric, and after it come the segments by slot: in the range that RSMAPI sets aside for its
/// library, so that they meet no identifier of a program's or of MPI's.
const FIRST_ID: u32 = 0x20_0000;

/// The identifier of a process's directory.
pub const DIRECTORY: SegmentId = SegmentId(FIRST_ID);

/// Marks nodes that are on the list, and segments that have one.
const LISTED: u16 = 1 << 15;

/// Most slots that a directory may have.
pub const SLOTS_MAX: usize = 4096;

/// Reads of an entry that changes all the time.
const ATTEMPTS: usize = 1000;

/// The identifier on the fabric of what is published in `slot`.
pub fn segment_id(slot: usize) -> SegmentId {
    SegmentId(FIRST_ID + 1 + slot as u32)
}

/// Where things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub slots: usize,
    pub nodes: usize,
}

impl Shape {
    pub fn bytes(self) -> usize {
        self.list(self.slots)
    }

    fn entry(slot: usize) -> usize {
        (1 + slot) * LINE_BYTES
    }

    /// Where the generation of a slot is.
    pub fn generation(slot: usize) -> usize {
        Self::entry(slot) + 16
    }

    fn list(self, slot: usize) -> usize {
        Self::entry(self.slots) + slot * (2 * self.nodes).next_multiple_of(8)
    }
}

/// What the directory says of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: SegId,
    /// Code of the controller.
    pub controller: u32,
    pub generation: u64,
    pub len: usize,
    pub owner: (u32, u32),
    /// What every node may do; none: there is a list.
    pub everybody: Option<Perm>,
}

/// Write the first line of a directory.
pub fn begin<M: LocalMemory>(memory: &M, shape: Shape) {
    memory.store_line(0, &[MAGIC, shape.slots as u64, shape.nodes as u64, 0, 0, 0, 0, 0]);
}

/// Enter what is published in `slot`: for everybody, or for `list`.
pub fn enter<M: LocalMemory>(memory: &M, shape: Shape, slot: usize, entry: &Entry, list: &[(Peer, Perm)]) {
    let at = Shape::entry(slot);
    let version = memory.load(at) | 1;
    memory.store(at, version);
    // Ordered like a read-modify-write, so that nobody who sees what follows sees the version before.
    memory.fetch_add(at, 0);
    let mut words = vec![0; (2 * shape.nodes).next_multiple_of(8)];
    for (peer, perm) in list {
        let code = LISTED | perm.0 as u16;
        words[2 * peer.index()..][..2].copy_from_slice(&code.to_ne_bytes());
    }
    for (i, word) in words.chunks_exact(8).enumerate() {
        let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
        memory.store(shape.list(slot) + 8 * i, word);
    }
    let offered = entry
        .everybody
        .map_or(u64::from(LISTED), |perm| u64::from(perm.0) << 32);
    let words = [
        u64::from(entry.id) | u64::from(entry.controller) << 32,
        entry.generation,
        entry.len as u64,
        u64::from(entry.owner.0) | u64::from(entry.owner.1) << 32,
        offered,
    ];
    for (i, word) in words.into_iter().enumerate() {
        memory.store(at + 8 * (i + 1), word);
    }
    memory.store(at, version.wrapping_add(1));
}

/// Nothing is published in `slot` any more.
pub fn leave<M: LocalMemory>(memory: &M, slot: usize) {
    let at = Shape::entry(slot);
    let version = memory.load(at) | 1;
    memory.store(Shape::generation(slot), 0);
    memory.store(at, version.wrapping_add(1));
}

/// Another process's directory.
pub struct Directory<F: RemoteMemory> {
    peer: Peer,
    import: F::Import,
    shape: Shape,
}

/// A word of the 64 or fewer bytes at `bytes`.
fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_ne_bytes(bytes[8 * index..8 * index + 8].try_into().expect("eight bytes"))
}

impl<F: RemoteMemory> Directory<F> {
    /// Import the directory of `peer`, in a job of `nodes`.
    pub fn open(fabric: &F, peer: Peer, nodes: usize) -> Result<Self, FabricError> {
        let import = fabric.import(peer, DIRECTORY, LINE_BYTES, Permission::Read)?;
        let mut first = [0; LINE_BYTES];
        import.get(0, &mut first)?;
        let corrupt = |what, value| Err(FabricError::corrupt(peer, what, value));
        if word(&first, 0) != MAGIC {
            return corrupt("the magic of a directory", word(&first, 0));
        }
        let slots = word(&first, 1);
        if slots > SLOTS_MAX as u64 {
            return corrupt("the slots of a directory", slots);
        }
        if word(&first, 2) != nodes as u64 {
            return corrupt("the nodes of a directory", word(&first, 2));
        }
        let shape = Shape {
            slots: slots as usize,
            nodes,
        };
        if shape.bytes() > import.len() {
            return corrupt("the size of a directory", import.len() as u64);
        }
        Ok(Self { peer, import, shape })
    }

    /// Entry of `slot`, not older than this call; none when nothing is published there.
    pub fn entry(&self, slot: usize) -> Result<Option<Entry>, FabricError> {
        for _ in 0..ATTEMPTS {
            let line = self.line(slot)?;
            if line[0].is_multiple_of(2) && self.version(slot)? == line[0] {
                return self.parse(&line);
            }
            std::hint::spin_loop();
        }
        Err(FabricError::corrupt(
            self.peer,
            "an entry of a directory that is at rest",
            slot as u64,
        ))
    }

    fn line(&self, slot: usize) -> Result<Line, FabricError> {
        let at = Shape::entry(slot);
        if let Some(memory) = F::mapped(&self.import) {
            let mut line = [0; 8];
            for (i, word) in line.iter_mut().enumerate() {
                *word = memory.load(at + 8 * i);
            }
            return Ok(line);
        }
        let mut bytes = [0; LINE_BYTES];
        self.import.get(at, &mut bytes)?;
        Ok(farpost_fabric::line_of(&bytes))
    }

    fn version(&self, slot: usize) -> Result<u64, FabricError> {
        self.load(Shape::entry(slot))
    }

    fn load(&self, at: usize) -> Result<u64, FabricError> {
        if let Some(memory) = F::mapped(&self.import) {
            return Ok(memory.load(at));
        }
        let mut bytes = [0; 8];
        self.import.get(at, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn parse(&self, line: &Line) -> Result<Option<Entry>, FabricError> {
        if line[2] == 0 {
            return Ok(None);
        }
        let corrupt = |what, value| Err(FabricError::corrupt(self.peer, what, value));
        if line[3] == 0 || line[3] > isize::MAX as u64 {
            return corrupt("the length of a segment", line[3]);
        }
        let everybody = if line[5] == u64::from(LISTED) {
            None
        } else if line[5] & !(0o777 << 32) == 0 {
            Some(Perm((line[5] >> 32) as u32))
        } else {
            return corrupt("the permissions of a segment", line[5]);
        };
        Ok(Some(Entry {
            id: line[1] as u32,
            controller: (line[1] >> 32) as u32,
            generation: line[2],
            len: line[3] as usize,
            owner: (line[4] as u32, (line[4] >> 32) as u32),
            everybody,
        }))
    }

    /// Slot and entry of segment `id`.
    pub fn find(&self, id: SegId) -> Result<Option<(usize, Entry)>, FabricError> {
        let lines = if F::mapped(&self.import).is_some() {
            None
        } else {
            // One question for the whole table.
            let mut bytes = vec![0; self.shape.slots * LINE_BYTES];
            self.import.get(Shape::entry(0), &mut bytes)?;
            Some(bytes)
        };
        for slot in 0..self.shape.slots {
            let (named, generation) = match &lines {
                Some(bytes) => (word(bytes, 8 * slot + 1), word(bytes, 8 * slot + 2)),
                None => {
                    let at = Shape::entry(slot);
                    (self.load(at + 8)?, self.load(at + 16)?)
                }
            };
            if generation != 0
                && named as u32 == id
                && let Some(entry) = self.entry(slot)?
                && entry.id == id
            {
                return Ok(Some((slot, entry)));
            }
        }
        Ok(None)
    }

    /// What the list of `slot` says of `node`; none: it is not on it.
    pub fn listed(&self, slot: usize, node: Peer) -> Result<Option<Perm>, FabricError> {
        let at = self.shape.list(slot) + 2 * node.index();
        let whole = self.load(at & !7)?.to_ne_bytes();
        let code = u16::from_ne_bytes([whole[at & 7], whole[(at & 7) + 1]]);
        match code {
            0 => Ok(None),
            code if code & !(LISTED | 0o777) == 0 && code & LISTED != 0 => {
                Ok(Some(Perm(u32::from(code & 0o777))))
            }
            code => Err(FabricError::corrupt(
                self.peer,
                "an entry of an access list",
                code,
            )),
        }
    }

    /// The generation that is published in `slot` now; 0: none.
    #[inline]
    pub fn generation(&self, slot: usize) -> Result<u64, FabricError> {
        self.load(Shape::generation(slot))
    }
}
