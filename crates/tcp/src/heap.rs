//! When the C library's allocator is asked to give free pages back to the system.
//!
//! The areas of peers are mappings of their own, which go back page by page. Logs, spare buffers and buffers for reading are in the
//! heap: there they are found by whoever needs memory next, and cost no system call. What is freed of them after a rest lies below
//! memory in use, where the allocator keeps it, until `malloc_trim` is called.
//!
//! That looks through the whole heap, the program's as well, and a page of the program's that was free costs it a fault when it is
//! used again. So it is called only when this library itself has freed [`WORTHWHILE`] since the last time: never in a program that
//! has nothing of ours to give back, and once for each rest after traffic in one that has.
//!
//! Cost class: *queued path*, for the idle moment.

/// So many bytes freed are worth looking through the heap.
pub const WORTHWHILE: usize = 64 << 10;

/// Nanoseconds without use after which spare buffers are freed.
pub const REST: u64 = 500_000_000;

/// Bytes of buffers that were freed since the heap was last trimmed.
#[derive(Default)]
pub struct FreedBytes(usize);

impl FreedBytes {
    /// So many more were freed.
    pub fn add(&mut self, bytes: usize) {
        self.0 += bytes;
    }

    /// Whether the heap is to be trimmed now; the count begins anew.
    pub fn is_worthwhile(&mut self) -> bool {
        let much = self.0 >= WORTHWHILE;
        if much {
            self.0 = 0;
        }
        much
    }
}

/// When memory that is kept for the next use goes back: when none came for [`REST`].
#[derive(Default)]
pub struct Rest {
    pub used: bool,
    /// When it is looked whether it was used.
    look_at: u64,
}

impl Rest {
    /// True: it was not used for a while. When to look again otherwise.
    pub fn is_over(&mut self, now: u64) -> bool {
        if now < self.look_at {
            return false;
        }
        self.look_at = now + REST;
        !std::mem::take(&mut self.used)
    }

    pub fn look_at(&self) -> u64 {
        self.look_at
    }
}

/// Ask for it.
pub fn trim() {
    // SAFETY: a plain call.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heap_is_trimmed_once_for_what_is_worth_it() {
        let mut freed = FreedBytes::default();
        assert!(!freed.is_worthwhile(), "nothing was freed");
        for _ in 0..3 {
            freed.add(WORTHWHILE - 1);
            assert!(!freed.is_worthwhile(), "too little");
            freed.add(1);
            assert!(freed.is_worthwhile());
            assert!(!freed.is_worthwhile(), "nothing since");
        }
    }
}
