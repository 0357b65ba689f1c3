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

/// A range of bytes in one segment, or in several taken together. Cloning costs a count at most.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    One(Segment),
    /// `len` bytes from byte `offset` of all segments in a row.
    Many {
        list: Rc<[Segment]>,
        offset: usize,
        len: usize,
    },
}

impl Default for Kind {
    fn default() -> Self {
        Kind::One(Segment::default())
    }
}

impl From<Segment> for Segments {
    #[inline]
    fn from(segment: Segment) -> Self {
        Self {
            kind: Kind::One(segment),
        }
    }
}

impl Segments {
    /// `len` bytes at `address`.
    #[inline]
    pub fn one(address: usize, len: usize) -> Self {
        Segment { address, len }.into()
    }

    /// All of `list`, in order. The caller has checked that the lengths add up without overflow.
    pub fn many(list: Rc<[Segment]>) -> Self {
        let len = list.iter().map(|s| s.len).sum();
        Self {
            kind: Kind::Many { list, offset: 0, len },
        }
    }

    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.kind {
            Kind::One(segment) => segment.len,
            Kind::Many { len, .. } => *len,
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
            Kind::One(segment) => Self::one(segment.address.wrapping_add(offset), len),
            Kind::Many {
                list, offset: before, ..
            } => Self {
                kind: Kind::Many {
                    list: Rc::clone(list),
                    offset: before + offset,
                    len,
                },
            },
        }
    }

    /// The one piece it is, when it lies in a row in memory.
    #[inline]
    pub fn as_one(&self) -> Option<Segment> {
        match &self.kind {
            Kind::One(segment) => Some(*segment),
            Kind::Many { .. } => {
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
            Kind::One(segment) => (std::slice::from_ref(segment), 0, segment.len),
            Kind::Many { list, offset, len } => (&list[..], *offset, *len),
        };
        list.iter().filter_map(move |segment| {
            let dropped = skip.min(segment.len);
            skip -= dropped;
            let len = (segment.len - dropped).min(left);
            left -= len;
            (len > 0).then(|| Segment {
                address: segment.address.wrapping_add(dropped),
                len,
            })
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
        if let Kind::One(segment) = &self.kind {
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
        if let Kind::One(segment) = &self.kind {
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

/// The program's memory as the interface uses it: what descriptors describe.
pub(crate) mod user {
    use super::Segments;

    /// Store the bytes of a message.
    #[inline]
    pub fn store(into: &Segments, bytes: &[u8]) {
        // SAFETY: the memory of a descriptor that accepted the message, or a part of it: whoever made the descriptor
        // vouches for it until the descriptor is gone, and the library keeps that until this operation has ended.
        unsafe { into.store(bytes) }
    }

    /// Exchange the bytes of a get-put with those that are there.
    pub fn swap(with: &Segments, bytes: &mut [u8]) {
        // SAFETY: as for `store`; `bytes` is the interface's own.
        unsafe { with.swap(bytes) }
    }
}
