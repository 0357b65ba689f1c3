//! A mapping of shared memory, seen only through atomics: other processes write to it at any time.

use crate::error::JobError;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A shared mapping, unmapped when dropped.
pub(crate) struct Map {
    base: *mut u8,
    len: usize,
}

// SAFETY: the mapping is plain memory reached only through atomics, valid until drop from any thread.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Map the first `len` bytes of `fd`, which must be at least that long and sealed against shrinking.
    pub fn new(fd: BorrowedFd<'_>, len: usize) -> Result<Map, JobError> {
        // SAFETY: a fresh mapping at an address the kernel chooses; nothing else is touched.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(JobError::last(format!("mapping {len} bytes of job memory")));
        }
        Ok(Map {
            base: base.cast(),
            len,
        })
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            offset.is_multiple_of(len) && offset + len <= self.len,
            "offset {offset} is outside the job memory"
        );
        // SAFETY: offset + len lies inside the mapping (just checked).
        unsafe { self.base.add(offset) }
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
        assert!(offset.is_multiple_of(8) && len * 8 <= self.len && offset <= self.len - len * 8);
        // SAFETY: in bounds and aligned (just checked; the base is page-aligned), valid as long as self; atomics are shared memory's
        // own type.
        unsafe { std::slice::from_raw_parts(self.base.add(offset).cast::<AtomicU64>(), len) }
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

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: base and len are what mmap returned; no reference outlives self.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}
