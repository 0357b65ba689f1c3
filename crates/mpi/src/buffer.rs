//! Message buffers in user memory: address, count and datatype.
//!
//! The only place of this crate that touches user memory. The invariant is stated once, at the
//! constructors; everything else in the crate is safe code on top.
//!
//! The *stream* of a buffer is its data without gaps, in typemap order. It can be read or written from any
//! byte on, so that a protocol moves it in pieces of any size.
#![allow(unsafe_code)]

use crate::datatype::Datatype;
use crate::datatype::copy::{Pack, Segments, Unpack, copy_run};
use crate::datatype::layout::walk_many;
use farpost_fabric::{Cost, Time};

/// Data to be sent.
#[derive(Clone, Debug)]
pub struct SendBuf {
    ptr: *const u8,
    count: u64,
    ty: Datatype,
}

/// Room for data to be received.
#[derive(Clone, Debug)]
pub struct RecvBuf {
    ptr: *mut u8,
    count: u64,
    ty: Datatype,
    /// Bytes of room if they are one run from `ptr` on, else 0: what the fast path asks for.
    run: u64,
}

/// Room for data to be received that is one run of bytes, before a [`RecvBuf`] is made of it.
pub struct RecvRun<'a> {
    ptr: *mut u8,
    count: u64,
    ty: &'a Datatype,
    bytes: usize,
}

impl<'a> RecvRun<'a> {
    /// `count` elements of `ty` at `ptr`, which are `bytes` bytes without gaps from `ptr` on.
    ///
    /// # Safety
    /// As for [`RecvBuf::new`]; and `bytes` and the lack of gaps are as said.
    #[inline(always)]
    pub unsafe fn new(ptr: *mut u8, count: u64, ty: &'a Datatype, bytes: usize) -> Self {
        debug_assert!(ty.is_contiguous() && ty.true_lb() == 0 && count * ty.size() == bytes as u64);
        Self {
            ptr,
            count,
            ty,
            bytes,
        }
    }

    /// The room.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.bytes == 0 {
            return &mut [];
        }
        // SAFETY: `new`'s caller promised that these bytes are ours to write; the borrow of `self` keeps a second
        // slice away.
        unsafe { core::slice::from_raw_parts_mut(self.ptr, self.bytes) }
    }

    /// Class as [`RecvBuf::sig`].
    #[inline(always)]
    pub fn sig(&self) -> u8 {
        self.ty.sig()
    }

    /// The buffer.
    pub fn keep(self) -> RecvBuf {
        RecvBuf {
            ptr: self.ptr,
            count: self.count,
            ty: self.ty.clone(),
            run: self.bytes as u64,
        }
    }

    /// The buffer, where another one was. Most have the datatype of the one before, which then stays.
    #[inline(always)]
    pub fn replace(self, old: &mut RecvBuf) {
        if !old.ty.is_same_object(self.ty) {
            old.ty = self.ty.clone();
        }
        old.ptr = self.ptr;
        old.count = self.count;
        old.run = self.bytes as u64;
    }
}

/// The part of `from..from + len` that lies within `total`.
#[inline]
fn clip(from: u64, len: usize, total: u64) -> u64 {
    total.saturating_sub(from).min(len as u64)
}

macro_rules! common {
    () => {
        /// Bytes of data: `count` times the size of the datatype, at most 2^63-1.
        #[inline]
        pub fn bytes(&self) -> u64 {
            self.count
                .saturating_mul(self.ty.size())
                .min(i64::MAX as u64)
        }

        /// Number of elements.
        #[inline]
        pub fn count(&self) -> u64 {
            self.count
        }

        /// Class of the elements' basic type, for telling mismatches: 0 matches everything.
        #[inline]
        pub fn sig(&self) -> u8 {
            self.ty.sig()
        }

        /// Type of the elements.
        #[inline]
        pub fn datatype(&self) -> &Datatype {
            &self.ty
        }

        /// The address as a number.
        #[inline]
        pub fn address(&self) -> usize {
            self.ptr as usize
        }

        /// Address of the first byte of data, when all are one run.
        #[inline]
        pub fn contiguous_address(&self) -> Option<usize> {
            self.ty
                .is_contiguous()
                .then(|| (self.ptr as usize).wrapping_add(self.ty.true_lb() as usize))
        }

        /// Appends to `list` the address and length of at most `max` runs that hold the stream from byte
        /// `from` on; returns how many bytes they hold.
        pub fn segments(&self, from: u64, max: usize, list: &mut Vec<(usize, usize)>) -> u64 {
            let len = clip(from, usize::MAX, self.bytes());
            let mut sink = Segments::new(self.ptr as usize, max, list);
            walk_many(self.ty.layout(), self.ty.extent(), from, len, &mut sink);
            sink.bytes
        }
    };
}

impl SendBuf {
    /// `count` elements of `ty` at `ptr`.
    ///
    /// # Safety
    /// The bytes the datatype describes are readable, and nobody writes to them, until this value and its
    /// clones are no longer used: that is, until the operation completes. `ptr` may be null when there is no
    /// data, and with absolute displacements (`MPI_BOTTOM`).
    #[inline]
    pub unsafe fn new(ptr: *const u8, count: u64, ty: Datatype) -> Self {
        Self { ptr, count, ty }
    }

    common!();

    /// The address.
    #[inline]
    pub fn ptr(&self) -> *const u8 {
        self.ptr
    }

    /// The data, when they are one run.
    #[inline]
    pub fn contiguous(&self) -> Option<&[u8]> {
        let len = self.bytes() as usize;
        if len == 0 {
            return Some(&[]);
        }
        if !self.ty.is_contiguous() {
            return None;
        }
        let start = self.ptr.wrapping_offset(self.ty.true_lb() as isize);
        // SAFETY: `new`'s caller promised that the described bytes are readable and unchanging; they are one run.
        Some(unsafe { core::slice::from_raw_parts(start, len) })
    }

    /// Copies the stream from byte `from` on into `dst`; returns how many bytes there were to copy.
    #[inline]
    pub fn pack(&self, from: u64, dst: &mut [u8]) -> usize {
        let len = clip(from, dst.len(), self.bytes());
        if self.ty.is_contiguous() {
            let offset = (self.ty.true_lb() as isize).wrapping_add(from as isize);
            // SAFETY: `from..from + len` lies within the one run that `new`'s caller promised is readable;
            // `dst` is exclusive and has room.
            unsafe { copy_run(self.ptr.wrapping_offset(offset), dst.as_mut_ptr(), len as usize) };
            return len as usize;
        }
        // SAFETY: `len` bytes fit `dst`, which is exclusive, and `new`'s caller promised the rest.
        let mut sink = unsafe { Pack::new(self.ptr, dst.as_mut_ptr()) };
        walk_many(self.ty.layout(), self.ty.extent(), from, len, &mut sink);
        len as usize
    }
}

impl SendBuf {
    /// `count` of its elements from the one at `from` on.
    pub fn part(&self, from: u64, count: u64) -> Self {
        let offset = (from as i64).wrapping_mul(self.ty.extent());
        Self {
            ptr: self.ptr.wrapping_offset(offset as isize),
            count: count.min(self.count.saturating_sub(from)),
            ty: self.ty.clone(),
        }
    }

    /// As [`pack`](Self::pack), and charged to who copies.
    #[inline(always)]
    pub fn pack_on(&self, time: &impl Time, from: u64, dst: &mut [u8]) -> usize {
        let packed = self.pack(from, dst);
        time.charge(Cost::Copy(packed));
        packed
    }
}

impl RecvBuf {
    /// Room for `len` bytes of the stream from byte `at` on, which are in it. `None`: they are neither whole elements nor one run.
    pub fn stream_part(&self, at: u64, len: u64) -> Option<Self> {
        let size = self.ty.size();
        if at.saturating_add(len) > self.bytes() {
            return None;
        }
        if self.ty.is_contiguous() {
            let offset = (self.ty.true_lb() as isize).wrapping_add(at as isize);
            return Some(Self {
                ptr: self.ptr.wrapping_offset(offset),
                count: len,
                ty: Datatype::byte(),
                run: len,
            });
        }
        if !at.is_multiple_of(size) || !len.is_multiple_of(size) {
            return None;
        }
        let offset = ((at / size) as i64).wrapping_mul(self.ty.extent());
        Some(Self {
            ptr: self.ptr.wrapping_offset(offset as isize),
            count: len / size,
            ty: self.ty.clone(),
            run: 0,
        })
    }

    /// As [`unpack`](Self::unpack), and charged to who copies.
    #[inline(always)]
    pub fn unpack_on(&self, time: &impl Time, at: u64, src: &[u8]) -> usize {
        let unpacked = self.unpack(at, src);
        time.charge(Cost::Copy(unpacked));
        unpacked
    }

    /// Room for `count` elements of `ty` at `ptr`.
    ///
    /// # Safety
    /// The bytes the datatype describes are writable, and nobody else uses them, until this value and its
    /// clones are no longer used: that is, until the operation completes. `ptr` as for [`SendBuf::new`].
    #[inline]
    pub unsafe fn new(ptr: *mut u8, count: u64, ty: Datatype) -> Self {
        let run = if ty.is_contiguous() && ty.true_lb() == 0 {
            count.saturating_mul(ty.size()).min(i64::MAX as u64)
        } else {
            0
        };
        Self { ptr, count, ty, run }
    }

    common!();

    /// Write the first `len` bytes (at most 40) of the words that `word` gives, if there is room for them in one
    /// run. False: there is not, and nothing was written. The fast path of short messages.
    #[inline(always)]
    pub fn put_short(&self, len: usize, word: impl Fn(usize) -> u64) -> bool {
        if len as u64 > self.run || len > 40 {
            return false;
        }
        if len == 8 {
            // SAFETY: `len <= run`, and `run` bytes from `ptr` on are ours to write, as `new`'s caller promised.
            unsafe { self.ptr.cast::<u64>().write_unaligned(word(0).to_le()) };
        } else if len > 0 {
            let mut bytes = [0; 40];
            for (index, to) in bytes.chunks_exact_mut(8).enumerate().take(len.div_ceil(8)) {
                to.copy_from_slice(&word(index).to_le_bytes());
            }
            // SAFETY: as above; `bytes` is ours and holds at least `len`.
            unsafe { copy_run(bytes.as_ptr(), self.ptr, len) };
        }
        true
    }

    /// The address.
    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// The room, when it is one run.
    #[inline]
    pub fn contiguous_mut(&mut self) -> Option<&mut [u8]> {
        let len = self.bytes() as usize;
        if len == 0 {
            return Some(&mut []);
        }
        if !self.ty.is_contiguous() {
            return None;
        }
        let start = self.ptr.wrapping_offset(self.ty.true_lb() as isize);
        // SAFETY: `new`'s caller promised that the described bytes are ours to write; they are one run, and the
        // borrow of `self` keeps a second slice away.
        Some(unsafe { core::slice::from_raw_parts_mut(start, len) })
    }

    /// Writes `src` to the stream from byte `at` on; returns how many bytes there was room for.
    #[inline]
    pub fn unpack(&self, at: u64, src: &[u8]) -> usize {
        let len = clip(at, src.len(), self.bytes());
        if self.ty.is_contiguous() {
            let offset = (self.ty.true_lb() as isize).wrapping_add(at as isize);
            // SAFETY: `at..at + len` lies within the one run that `new`'s caller promised is ours to write,
            // and so not part of `src`.
            unsafe { copy_run(src.as_ptr(), self.ptr.wrapping_offset(offset), len as usize) };
            return len as usize;
        }
        // SAFETY: `len` bytes are in `src`, and `new`'s caller promised that the described bytes are ours to
        // write and so not part of `src`.
        let mut sink = unsafe { Unpack::new(src.as_ptr(), self.ptr) };
        walk_many(self.ty.layout(), self.ty.extent(), at, len, &mut sink);
        len as usize
    }

    /// The same memory as data to be sent: for operations in place.
    #[inline]
    pub fn as_send(&self) -> SendBuf {
        SendBuf {
            ptr: self.ptr,
            count: self.count,
            ty: self.ty.clone(),
        }
    }
}
