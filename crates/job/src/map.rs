//! A mapping of shared memory, seen only through atomics: other processes write to it at any time.

use crate::error::JobError;
use memmap2::{MmapOptions, MmapRaw};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A shared mapping, unmapped when dropped.
pub(crate) struct Map(MmapRaw);

impl Map {
    /// Map the first `len` bytes of `fd`, which must be at least that long and sealed against shrinking.
    pub fn new(fd: BorrowedFd<'_>, len: usize) -> Result<Map, JobError> {
        let map = MmapOptions::new().len(len).map_raw(&fd);
        map.map(Map)
            .map_err(JobError::of(format!("mapping {len} bytes of job memory")))
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            offset.is_multiple_of(len) && offset + len <= self.0.len(),
            "offset {offset} is outside the job memory"
        );
        // SAFETY: offset + len lies inside the mapping (just checked).
        unsafe { self.0.as_mut_ptr().add(offset) }
    }

    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: in bounds and aligned (checked by `at`; the base is page-aligned), valid as long as self.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4).cast()) }
    }

    pub fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `u32`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8).cast()) }
    }

    /// `len` words.
    pub fn words(&self, offset: usize, len: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8) && len * 8 <= self.0.len() && offset <= self.0.len() - len * 8);
        // SAFETY: in bounds and aligned (just checked; the base is page-aligned), valid as long as self; atomics are shared memory's
        // own type.
        unsafe { std::slice::from_raw_parts(self.0.as_mut_ptr().add(offset).cast::<AtomicU64>(), len) }
    }

    fn u8(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: as in `u32`.
        unsafe { AtomicU8::from_ptr(self.at(offset, 1)) }
    }

    /// Copy out `len` bytes. What another process writes meanwhile may be torn, never undefined.
    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        (offset..offset + len)
            .map(|o| self.u8(o).load(Ordering::Relaxed))
            .collect()
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) {
        for (i, b) in bytes.iter().enumerate() {
            self.u8(offset + i).store(*b, Ordering::Relaxed);
        }
    }
}
