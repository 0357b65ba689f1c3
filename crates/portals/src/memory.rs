//! The program's memory: what descriptors describe and bodies of messages consist of. The only unsafe code of the
//! crate. Addresses are plain numbers of the owner's address space; only the copies here look behind them.

use std::rc::Rc;

/// A piece of the owner's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    /// First byte.
    pub address: usize,
    /// Bytes.
    pub len: usize,
}

/// A field of an [`Event`](crate::types::Event) or a descriptor that may have been written a moment ago, read as it was written: a processor makes a
/// read that spans two fresh writes, as compilers like to copy structures, wait until both have left it.
#[inline(always)]
pub fn field<T: Copy>(at: &T) -> T {
    // SAFETY: a reference; that the read is volatile only keeps it apart from its neighbours'.
    unsafe { std::ptr::read_volatile(at) }
}

impl Segment {
    /// `len` bytes at `address`.
    #[inline(always)]
    pub const fn new(address: usize, len: usize) -> Self {
        Self { address, len }
    }
}

/// A range of bytes in one segment, or in several taken together. Cloning costs a count at most.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    kind: SegmentsKind,
}

#[derive(Clone, Debug)]
enum SegmentsKind {
    One(Segment),
    /// `len` bytes from byte `offset` of all segments in a row.
    Many {
        list: Rc<[Segment]>,
        offset: usize,
        len: usize,
    },
}

impl Default for SegmentsKind {
    fn default() -> Self {
        SegmentsKind::One(Segment::default())
    }
}

impl From<Segment> for Segments {
    #[inline]
    fn from(segment: Segment) -> Self {
        Self {
            kind: SegmentsKind::One(segment),
        }
    }
}

impl Segments {
    /// `len` bytes at `address`.
    #[inline]
    pub fn one(address: usize, len: usize) -> Self {
        Segment::new(address, len).into()
    }

    /// All of `list`, in order. The caller has checked that the lengths add up without overflow.
    pub fn many(list: Rc<[Segment]>) -> Self {
        let len = list.iter().map(|s| s.len).sum();
        Self {
            kind: SegmentsKind::Many { list, offset: 0, len },
        }
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.kind {
            SegmentsKind::One(segment) => segment.len,
            SegmentsKind::Many { len, .. } => *len,
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes `offset` to `offset + len` of it.
    ///
    /// # Panics
    /// When they leave it.
    #[inline]
    pub fn region(&self, offset: usize, len: usize) -> Self {
        assert!(
            offset <= self.len() && len <= self.len() - offset,
            "a region leaves its segments"
        );
        match &self.kind {
            SegmentsKind::One(segment) => Self::one(segment.address.wrapping_add(offset), len),
            SegmentsKind::Many {
                list, offset: before, ..
            } => Self {
                kind: SegmentsKind::Many {
                    list: Rc::clone(list),
                    offset: before + offset,
                    len,
                },
            },
        }
    }

    /// The one piece that it was made of.
    #[inline(always)]
    pub fn single(&self) -> Option<Segment> {
        match &self.kind {
            SegmentsKind::One(segment) => Some(*segment),
            SegmentsKind::Many { .. } => None,
        }
    }

    /// The one piece it is, when it lies in a row in memory.
    #[inline]
    pub fn as_one(&self) -> Option<Segment> {
        match &self.kind {
            SegmentsKind::One(segment) => Some(*segment),
            SegmentsKind::Many { .. } => {
                let mut pieces = self.pieces();
                match (pieces.next(), pieces.next()) {
                    (None, _) => Some(Segment::default()),
                    (one, None) => one,
                    _ => None,
                }
            }
        }
    }

    /// The pieces in order, none of them empty.
    pub fn pieces(&self) -> impl Iterator<Item = Segment> + '_ {
        let (list, mut skip, mut left) = match &self.kind {
            SegmentsKind::One(segment) => (std::slice::from_ref(segment), 0, segment.len),
            SegmentsKind::Many { list, offset, len } => (&list[..], *offset, *len),
        };
        list.iter().filter_map(move |segment| {
            let dropped = skip.min(segment.len);
            skip -= dropped;
            let len = (segment.len - dropped).min(left);
            left -= len;
            (len > 0).then(|| Segment::new(segment.address.wrapping_add(dropped), len))
        })
    }

    /// Copy `bytes` to the front of it.
    ///
    /// # Safety
    /// It is memory of this process, valid for writing, that nobody else uses during the call.
    ///
    /// # Panics
    /// When it is shorter than `bytes`.
    #[inline]
    pub unsafe fn store(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len(), "more bytes than there is memory for");
        if let SegmentsKind::One(segment) = &self.kind {
            // SAFETY: the segment is valid for writing by the caller's promise and is as long as `bytes`, which cannot
            // overlap it: nobody else uses it.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), segment.address as *mut u8, bytes.len()) };
            return;
        }
        let mut rest = bytes;
        for piece in self.pieces() {
            let (now, later) = rest.split_at(piece.len.min(rest.len()));
            // SAFETY: as above, for each piece.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), piece.address as *mut u8, now.len()) };
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
    }

    /// Copy its first bytes to `into`.
    ///
    /// # Safety
    /// It is memory of this process, valid for reading, that nobody writes during the call.
    ///
    /// # Panics
    /// When it is shorter than `into`.
    #[inline]
    pub unsafe fn load(&self, into: &mut [u8]) {
        assert!(into.len() <= self.len(), "more bytes are wanted than there are");
        if let SegmentsKind::One(segment) = &self.kind {
            // SAFETY: the segment is valid for reading by the caller's promise and at least as long as `into`.
            unsafe {
                std::ptr::copy_nonoverlapping(segment.address as *const u8, into.as_mut_ptr(), into.len())
            };
            return;
        }
        let mut at = 0;
        for piece in self.pieces() {
            let len = piece.len.min(into.len() - at);
            // SAFETY: as above, for each piece; `at + len` stays within `into`.
            unsafe {
                std::ptr::copy_nonoverlapping(piece.address as *const u8, into.as_mut_ptr().add(at), len)
            };
            at += len;
            if at == into.len() {
                break;
            }
        }
    }

    /// Exchange its first bytes with `bytes`.
    ///
    /// # Safety
    /// It is memory of this process, valid for reading and writing, that nobody else uses during the call.
    ///
    /// # Panics
    /// When it is shorter than `bytes`.
    pub unsafe fn swap(&self, bytes: &mut [u8]) {
        let mut old = [0; SWAP_BYTES];
        let old = &mut old[..bytes.len()];
        // SAFETY: what the caller promises is what both ask for.
        unsafe {
            self.load(old);
            self.store(bytes);
        }
        bytes.copy_from_slice(old);
    }
}

/// Most bytes that [`Segments::swap`] exchanges.
pub const SWAP_BYTES: usize = 64;

/// The memory of messages as interfaces, agents and the network layer use it: what descriptors describe, and what was allocated for a
/// message on its way. Whoever made a descriptor vouches for its memory until the descriptor is gone, and the library keeps that until the
/// operation has ended; nobody else uses what is being written, nor writes what is being read.
pub(crate) mod user {
    use super::{Segment, Segments};
    use farpost_fabric::{Completion, Descriptor, Direction, Fabric, FabricError, Peer};

    /// Copy the bytes of a short message.
    #[inline(always)]
    pub fn load(body: &Segments, into: &mut [u8]) {
        // SAFETY: the memory of a message that is being sent: readable, and nobody writes it before that is over.
        unsafe { body.load(into) }
    }

    /// Look at a piece of a message.
    pub fn read<T>(Segment { address, len }: Segment, look: impl FnOnce(&[u8]) -> T) -> T {
        if len == 0 {
            return look(&[]);
        }
        // SAFETY: as for `load`, and not empty.
        look(unsafe { std::slice::from_raw_parts(address as *const u8, len) })
    }

    /// Write a piece of a message.
    pub fn write<T>(Segment { address, len }: Segment, write: impl FnOnce(&mut [u8]) -> T) -> T {
        if len == 0 {
            return write(&mut []);
        }
        // SAFETY: memory that a message is kept in: writable, nobody else's until it is complete, and not empty.
        write(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, len) })
    }

    /// Let a peer reach a piece of a message: position and key.
    pub fn expose<F: Fabric>(
        fabric: &F,
        peer: Peer,
        piece: Segment,
        writable: bool,
    ) -> Result<(u64, u64), FabricError> {
        // SAFETY: the memory stays as it is until the message is over, and is withdrawn before that is said, or before its descriptor is
        // gone.
        let key = unsafe { fabric.expose(peer, piece.address, piece.len, writable) }?;
        Ok((fabric.exposed_base(peer, piece.address), key))
    }

    /// Begin to move `local` from or to `peer`.
    pub fn transfer<F: Fabric>(
        fabric: &F,
        (peer, direction): (Peer, Direction),
        local: Segment,
        (position, key): (u64, u64),
    ) -> Result<Completion, FabricError> {
        let descriptor = Descriptor {
            peer,
            direction,
            local: local.address,
            remote: position as usize,
            key,
            len: local.len,
        };
        // SAFETY: the memory is the message's, readable (put) or writable (get) and used by nobody else, until it is said that it is
        // over, which is after the end of the transfer or its cancellation. What the peer's side is, the fabric checks.
        unsafe { fabric.submit(&descriptor) }
    }

    /// Store the bytes of a message.
    #[inline]
    pub fn store(into: &Segments, bytes: &[u8]) {
        // SAFETY: the memory of a descriptor that accepted the message, or a part of it: whoever made the descriptor
        // vouches for it until the descriptor is gone, and the library keeps that until this operation has ended.
        unsafe { into.store(bytes) }
    }

    /// Store the bytes of a short message `offset` bytes behind the beginning. They were written word by word a moment ago, from a
    /// place that is four bytes behind such a word on.
    #[inline(always)]
    pub fn store_short(into: &Segments, offset: u64, bytes: &[u8]) {
        let offset = offset as usize;
        if let (Some(memory), Some((first, rest))) = (into.single(), bytes.split_first_chunk::<4>())
            && let Ok(rest) = <&[u8; 4]>::try_from(rest)
            && offset <= memory.len
            && memory.len - offset >= 8
        {
            let word = u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*rest)) << 32;
            let word = std::hint::black_box(word).to_le_bytes();
            // SAFETY: as for `store`; eight bytes from `offset` on lie within the segment.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    word.as_ptr(),
                    memory.address.wrapping_add(offset) as *mut u8,
                    word.len(),
                );
            }
            return;
        }
        store(&into.region(offset, bytes.len()), bytes);
    }

    /// Store `kept` bytes, at most [`BEHIND`], `offset` bytes behind the beginning: the upper half of `first`, and the words that
    /// `more` gives.
    #[inline(always)]
    pub fn store_behind(into: &Segments, offset: u64, kept: usize, first: u64, more: impl Fn(usize) -> u64) {
        let offset = offset as usize;
        if let Some(memory) = into.single()
            && kept == 8
            && offset <= memory.len
            && memory.len - offset >= 8
        {
            let word = (first >> 32 | more(0) << 32).to_le_bytes();
            // SAFETY: as for `store`; eight bytes from `offset` on lie within the segment.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    word.as_ptr(),
                    memory.address.wrapping_add(offset) as *mut u8,
                    word.len(),
                );
            }
            return;
        }
        let mut words = [[0; 8]; BEHIND.div_ceil(8)];
        let mut low = first >> 32;
        for (index, to) in words.iter_mut().enumerate().take(kept.div_ceil(8)) {
            // The upper half of the last is not part of any message.
            let next = if index < 2 { more(index) } else { 0 };
            *to = (low | next << 32).to_le_bytes();
            low = next >> 32;
        }
        store(&into.region(offset, kept), &words.as_flattened()[..kept]);
    }

    /// Bytes of a line behind a header of 36 bytes.
    pub const BEHIND: usize = 20;

    /// Write a header of 36 bytes, given in words and a half, and the body behind it, word by word: who sends the packet on reads it by
    /// these words, and a word that was written in two parts holds that up.
    #[inline(always)]
    pub fn compose(packet: &mut [[u8; 8]], header: &[u64; 4], half: u32, body: Segment) {
        let (first, rest) = packet.split_at_mut(header.len());
        for (to, word) in first.iter_mut().zip(header) {
            *to = word.to_le_bytes();
        }
        let half = u64::from(half);
        let at = body.address as *const u8;
        if body.len == 8 {
            // SAFETY: as for `Segments::load`: the memory of a descriptor, readable, and not written during the call; eight
            // bytes of it.
            let word = unsafe { at.cast::<u64>().read_unaligned() }.to_le();
            rest[0] = (half | word << 32).to_le_bytes();
            rest[1] = (word >> 32).to_le_bytes();
            return;
        }
        // SAFETY: as above, for `done` to `done + len` of it, which lie within.
        let load = |done: usize, len: usize| unsafe {
            let mut bytes = [0; 8];
            std::ptr::copy_nonoverlapping(at.wrapping_add(done), bytes.as_mut_ptr(), len);
            u64::from_le_bytes(bytes)
        };
        let mut done = body.len.min(4);
        rest[0] = (half | load(0, done) << 32).to_le_bytes();
        for to in &mut rest[1..] {
            let len = (body.len - done).min(8);
            if len == 0 {
                break;
            }
            *to = if len == 8 { load(done, 8) } else { load(done, len) }.to_le_bytes();
            done += len;
        }
    }

    /// Exchange the bytes of a get-put with those that are there.
    pub fn swap(with: &Segments, bytes: &mut [u8]) {
        // SAFETY: as for `store`; `bytes` is the interface's own.
        unsafe { with.swap(bytes) }
    }
}
