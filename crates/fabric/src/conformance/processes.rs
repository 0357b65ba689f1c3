//! Ends that are processes. The calling process must have one thread only.

use super::children::{child, reap};
use super::harness::{Board, BoardRef};

/// Memory of zeroes that this process and those it forks share, never unmapped.
///
/// # Safety
/// Zeroes are a valid `T`, which other processes may change at any time.
pub unsafe fn shared<T>() -> &'static T {
    // SAFETY: a fresh anonymous mapping, aligned to pages; of the rest the caller is sure.
    unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            size_of::<T>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(at, libc::MAP_FAILED);
        &*at.cast::<T>()
    }
}

/// Run `one` in `size` processes, told apart by a number, and wait for all: whether an end skipped.
pub fn fork_all(size: u32, one: impl Fn(u32, BoardRef)) -> bool {
    // SAFETY: a board is of atomics.
    let board: &'static Board = unsafe { shared() };
    let children: Vec<libc::pid_t> = (0..size)
        .map(|index| child(|| one(index, BoardRef::Mapped(board))))
        .collect();
    let mut failed = Vec::new();
    for (index, child) in children.into_iter().enumerate() {
        let status = reap(child);
        if status != 0 {
            board.fail();
            failed.push((index, status));
        }
    }
    assert!(failed.is_empty(), "ends and their wait status: {failed:?}");
    board.is_skipped()
}
