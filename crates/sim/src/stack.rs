//! Stacks of ranks: all in one mapping, with a guard below each.
//!
//! A process may have some 65,000 mappings (`vm.max_map_count`), and a guard that is a page without access makes two of a stack. So guards are regions of the
//! page tables (`MADV_GUARD_INSTALL`, since Linux 6.13) where there are such, which take no mapping: 100,000 ranks fit. Elsewhere they are pages without access,
//! for half as many ranks as there may be mappings.

use corosensei::stack::valgrind::ValgrindStackRegistration;
use corosensei::stack::{Stack, StackPointer};
use std::io;
use std::ops::Range;
use std::rc::Rc;

/// Bytes of a stack, of ranks that are Rust. Only what is used takes memory.
pub const BYTES: usize = 1 << 20;

/// Bytes at its lower end where nothing may be; of longer stacks, as many as the system keeps below that of a process.
const GUARD: usize = 1 << 16;
const LONG_GUARD: usize = 1 << 20;

/// Bytes of the guard of a stack of so many bytes, both together.
pub fn guard_of(bytes: usize) -> usize {
    if bytes > BYTES { LONG_GUARD } else { GUARD }
}

/// `MADV_GUARD_INSTALL`
const GUARD_INSTALL: i32 = 102;

/// Address space, given back at the end.
struct Mapping {
    start: usize,
    len: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is this mapping, made in `Stacks::new`, and nobody has a stack in it any more: each holds it.
        unsafe { libc::munmap(self.start as *mut _, self.len) };
    }
}

/// A rank's stack.
pub struct RankStack {
    /// The lowest address, that of the guard.
    limit: usize,
    bytes: usize,
    _mapping: Rc<Mapping>,
    _valgrind: ValgrindStackRegistration,
}

/// `count` stacks of so many bytes, their guards included, of which they are multiples.
///
/// # Errors
/// There is no address space for them, or no guards.
pub fn stacks(count: usize, bytes: usize) -> io::Result<impl Iterator<Item = io::Result<RankStack>>> {
    let len = count * bytes;
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    );
    // SAFETY: a new mapping at an address that the system chooses; nothing else is touched.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len.max(bytes), access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Pages of 2 MiB would be used by one rank as a whole.
    // SAFETY: advice for the mapping made above, which changes no contents.
    unsafe { libc::madvise(start, len, libc::MADV_NOHUGEPAGE) };
    let start = start as usize;
    let mapping = Rc::new(Mapping {
        start,
        len: len.max(bytes),
    });
    Ok((0..count).map(move |number| {
        let limit = start + number * bytes;
        guard(limit, guard_of(bytes))?;
        Ok(RankStack {
            limit,
            bytes,
            _mapping: Rc::clone(&mapping),
            _valgrind: ValgrindStackRegistration::new(limit as *mut u8, bytes),
        })
    }))
}

/// From now on whoever touches the lowest bytes of a stack ends by a signal.
fn guard(limit: usize, len: usize) -> io::Result<()> {
    // SAFETY: these pages are the lowest of a stack that nobody uses yet.
    let installed = unsafe { libc::madvise(limit as *mut _, len, GUARD_INSTALL) == 0 };
    // SAFETY: as above.
    if installed || unsafe { libc::mprotect(limit as *mut _, len, libc::PROT_NONE) == 0 } {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

impl RankStack {
    /// Whoever touches these addresses has used it up.
    pub fn guard(&self) -> Range<usize> {
        self.limit..self.limit + guard_of(self.bytes)
    }
}

impl Drop for RankStack {
    /// What it used is free for others.
    fn drop(&mut self) {
        // SAFETY: the stack's own pages, above its guard; no coroutine is on it any more.
        unsafe {
            libc::madvise(
                self.guard().end as *mut _,
                self.bytes - self.guard().len(),
                libc::MADV_DONTNEED,
            )
        };
    }
}

// SAFETY: the pages from the limit on are this stack's alone and live as long as it, by the mapping that it holds; the lowest of them are its guard, and what
// is above them is more than the least that a stack has.
unsafe impl Stack for RankStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.limit + self.bytes).expect("the system maps nothing at 0")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.limit).expect("the system maps nothing at 0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_apart_and_writable_above_their_guards() {
        let all: Vec<RankStack> = stacks(50, BYTES).unwrap().collect::<io::Result<_>>().unwrap();
        for (number, stack) in all.iter().enumerate() {
            let (base, limit) = (stack.base().get(), stack.limit().get());
            assert_eq!(base - limit, BYTES);
            for at in [base - 8, limit + GUARD] {
                // SAFETY: above the guard of a stack that no coroutine uses.
                unsafe { (at as *mut u64).write(number as u64) };
            }
        }
        for (number, stack) in all.iter().enumerate() {
            for at in [stack.base().get() - 8, stack.limit().get() + GUARD] {
                // SAFETY: written above.
                assert_eq!(unsafe { (at as *const u64).read() }, number as u64);
            }
        }
    }

    /// A system call that would write below the guard's end is refused, as a store would be.
    #[test]
    fn a_guard_is_not_written() {
        let stack = stacks(1, BYTES).unwrap().next().unwrap().unwrap();
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let try_at = |at: usize| {
            // SAFETY: one byte into the pipe and one out of it; the system checks the address and refuses the guard's.
            unsafe {
                assert_eq!(libc::write(ends[1], b"x".as_ptr().cast(), 1), 1);
                libc::read(ends[0], at as *mut _, 1)
            }
        };
        let limit = stack.limit().get();
        assert_eq!(try_at(limit + GUARD), 1);
        assert_eq!((try_at(limit), try_at(limit + GUARD - 1)), (-1, -1));
        // SAFETY: this test's own descriptors.
        unsafe { (libc::close(ends[0]), libc::close(ends[1])) };
    }
}
