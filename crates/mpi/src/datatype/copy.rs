//! The sinks that move bytes between user memory and a packed stream.
//!
//! Cost class: fast path per block. Small blocks of the usual element sizes become direct loads and stores.
//!
//! Requirements of MPI-5.0 section 3.3.1.
#![allow(unsafe_code)]

use super::layout::Sink;
use std::ptr;

/// Copies `count` blocks of `N` bytes; compiles to plain moves.
///
/// # Safety
/// Each source and destination block is valid, and the two sides do not overlap.
#[inline]
unsafe fn fixed<const N: usize>(
    mut src: *const u8,
    src_step: isize,
    mut dst: *mut u8,
    dst_step: isize,
    count: u64,
) {
    for _ in 0..count {
        // SAFETY: the caller vouches for every block; the pointers are advanced with wrapping arithmetic,
        // so that stepping past the last block is harmless.
        unsafe { ptr::copy_nonoverlapping(src, dst, N) };
        src = src.wrapping_offset(src_step);
        dst = dst.wrapping_offset(dst_step);
    }
}

/// Copies `count` blocks of `block` bytes between two strided places.
///
/// # Safety
/// As [`fixed`].
#[inline]
unsafe fn copy_blocks(
    mut src: *const u8,
    src_step: isize,
    mut dst: *mut u8,
    dst_step: isize,
    block: usize,
    count: u64,
) {
    // SAFETY: the caller's promise is passed on unchanged.
    unsafe {
        match block {
            1 => fixed::<1>(src, src_step, dst, dst_step, count),
            2 => fixed::<2>(src, src_step, dst, dst_step, count),
            4 => fixed::<4>(src, src_step, dst, dst_step, count),
            8 => fixed::<8>(src, src_step, dst, dst_step, count),
            12 => fixed::<12>(src, src_step, dst, dst_step, count),
            16 => fixed::<16>(src, src_step, dst, dst_step, count),
            24 => fixed::<24>(src, src_step, dst, dst_step, count),
            32 => fixed::<32>(src, src_step, dst, dst_step, count),
            64 => fixed::<64>(src, src_step, dst, dst_step, count),
            _ => {
                for _ in 0..count {
                    ptr::copy_nonoverlapping(src, dst, block);
                    src = src.wrapping_offset(src_step);
                    dst = dst.wrapping_offset(dst_step);
                }
            }
        }
    }
}

/// Copies one run. Short ones without a call.
///
/// # Safety
/// `len` bytes are valid on both sides, which do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_run(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: every access below stays within `len` bytes, which the caller vouches for. Two words that
    // overlap cover any length between one and two words; both are read before either is written.
    unsafe {
        match len {
            8..=16 => {
                let (head, tail) = (src.cast::<u64>(), src.add(len - 8).cast::<u64>());
                let (head, tail) = (head.read_unaligned(), tail.read_unaligned());
                dst.cast::<u64>().write_unaligned(head);
                dst.add(len - 8).cast::<u64>().write_unaligned(tail);
            }
            4..8 => {
                let (head, tail) = (src.cast::<u32>(), src.add(len - 4).cast::<u32>());
                let (head, tail) = (head.read_unaligned(), tail.read_unaligned());
                dst.cast::<u32>().write_unaligned(head);
                dst.add(len - 4).cast::<u32>().write_unaligned(tail);
            }
            _ => ptr::copy_nonoverlapping(src, dst, len),
        }
    }
}

/// Calls `$copy(disp, length)` for each displacement, with the usual lengths as constants so that the copy
/// becomes moves.
macro_rules! by_length {
    ($disps:expr, $block:expr, $copy:expr) => {{
        let mut copy = $copy;
        match $block {
            4 => $disps.iter().for_each(|disp| copy(*disp as isize, 4)),
            8 => $disps.iter().for_each(|disp| copy(*disp as isize, 8)),
            16 => $disps.iter().for_each(|disp| copy(*disp as isize, 16)),
            block => $disps
                .iter()
                .for_each(|disp| copy(*disp as isize, block as usize)),
        }
    }};
}

/// User memory to stream.
pub(crate) struct Pack {
    src: *const u8,
    dst: *mut u8,
}

impl Pack {
    /// # Safety
    /// Every byte the walk touches relative to `src` is readable, `dst` has room for the range walked, and
    /// the two do not overlap.
    pub unsafe fn new(src: *const u8, dst: *mut u8) -> Self {
        Self { src, dst }
    }
}

impl Sink for Pack {
    #[inline]
    fn blocks(&mut self, off: i64, stride: i64, block: u64, count: u64) -> bool {
        let src = self.src.wrapping_offset(off as isize);
        // SAFETY: promised at `new`: the walk stays inside both sides.
        unsafe {
            if count == 1 {
                copy_run(src, self.dst, block as usize);
            } else {
                copy_blocks(
                    src,
                    stride as isize,
                    self.dst,
                    block as isize,
                    block as usize,
                    count,
                );
            }
        }
        self.dst = self.dst.wrapping_add((block * count) as usize);
        true
    }

    #[inline]
    fn scattered(&mut self, base: i64, disps: &[i64], block: u64) -> bool {
        let src = self.src.wrapping_offset(base as isize);
        let mut dst = self.dst;
        by_length!(disps, block, |disp: isize, len: usize| {
            // SAFETY: promised at `new`: the walk stays inside both sides.
            unsafe { copy_run(src.wrapping_offset(disp), dst, len) };
            dst = dst.wrapping_add(len);
        });
        self.dst = dst;
        true
    }

    #[inline]
    fn ragged(&mut self, base: i64, disps: &[i64], starts: &[u64]) -> bool {
        let src = self.src.wrapping_offset(base as isize);
        for (disp, ends) in disps.iter().zip(starts.windows(2)) {
            let len = (ends[1] - ends[0]) as usize;
            // SAFETY: promised at `new`: the walk stays inside both sides.
            unsafe { copy_run(src.wrapping_offset(*disp as isize), self.dst, len) };
            self.dst = self.dst.wrapping_add(len);
        }
        true
    }
}

/// Stream to user memory.
pub(crate) struct Unpack {
    src: *const u8,
    dst: *mut u8,
}

impl Unpack {
    /// # Safety
    /// As [`Pack::new`] with the sides exchanged: `dst` is the user's buffer.
    pub unsafe fn new(src: *const u8, dst: *mut u8) -> Self {
        Self { src, dst }
    }
}

impl Sink for Unpack {
    #[inline]
    fn blocks(&mut self, off: i64, stride: i64, block: u64, count: u64) -> bool {
        let dst = self.dst.wrapping_offset(off as isize);
        // SAFETY: promised at `new`: the walk stays inside both sides.
        unsafe {
            if count == 1 {
                copy_run(self.src, dst, block as usize);
            } else {
                copy_blocks(
                    self.src,
                    block as isize,
                    dst,
                    stride as isize,
                    block as usize,
                    count,
                );
            }
        }
        self.src = self.src.wrapping_add((block * count) as usize);
        true
    }

    #[inline]
    fn scattered(&mut self, base: i64, disps: &[i64], block: u64) -> bool {
        let dst = self.dst.wrapping_offset(base as isize);
        let mut src = self.src;
        by_length!(disps, block, |disp: isize, len: usize| {
            // SAFETY: promised at `new`: the walk stays inside both sides.
            unsafe { copy_run(src, dst.wrapping_offset(disp), len) };
            src = src.wrapping_add(len);
        });
        self.src = src;
        true
    }

    #[inline]
    fn ragged(&mut self, base: i64, disps: &[i64], starts: &[u64]) -> bool {
        let dst = self.dst.wrapping_offset(base as isize);
        for (disp, ends) in disps.iter().zip(starts.windows(2)) {
            let len = (ends[1] - ends[0]) as usize;
            // SAFETY: promised at `new`: the walk stays inside both sides.
            unsafe { copy_run(self.src, dst.wrapping_offset(*disp as isize), len) };
            self.src = self.src.wrapping_add(len);
        }
        true
    }
}

/// Addresses and lengths of runs, for system calls that take a list of them.
pub(crate) struct Segments<'a> {
    base: usize,
    max: usize,
    list: &'a mut Vec<(usize, usize)>,
    pub bytes: u64,
}

impl<'a> Segments<'a> {
    /// Appends at most `max` runs to `list`.
    pub fn new(base: usize, max: usize, list: &'a mut Vec<(usize, usize)>) -> Self {
        let max = list.len().saturating_add(max);
        Self {
            base,
            max,
            list,
            bytes: 0,
        }
    }
}

impl Sink for Segments<'_> {
    fn blocks(&mut self, off: i64, stride: i64, block: u64, count: u64) -> bool {
        let mut address = self.base.wrapping_add(off as usize);
        for _ in 0..count {
            if self.list.len() == self.max {
                return false;
            }
            self.list.push((address, block as usize));
            self.bytes += block;
            address = address.wrapping_add(stride as usize);
        }
        true
    }
}
