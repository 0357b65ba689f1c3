//! The sinks that move bytes between user memory and a packed stream.
//!
//! Cost class: fast path per block. Small blocks of the usual element sizes become direct loads and stores.
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
                ptr::copy_nonoverlapping(src, self.dst, block as usize);
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
        for disp in disps {
            // SAFETY: promised at `new`: the walk stays inside both sides.
            unsafe {
                copy_blocks(
                    src.wrapping_offset(*disp as isize),
                    0,
                    self.dst,
                    0,
                    block as usize,
                    1,
                )
            };
            self.dst = self.dst.wrapping_add(block as usize);
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
                ptr::copy_nonoverlapping(self.src, dst, block as usize);
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
        for disp in disps {
            // SAFETY: promised at `new`: the walk stays inside both sides.
            unsafe {
                copy_blocks(
                    self.src,
                    0,
                    dst.wrapping_offset(*disp as isize),
                    0,
                    block as usize,
                    1,
                )
            };
            self.src = self.src.wrapping_add(block as usize);
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
