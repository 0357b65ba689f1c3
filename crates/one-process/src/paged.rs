//! Long variables that each rank has for itself: pages of a file, of which those of the rank that runs are mapped where the program's are. Changing them
//! takes as long for many bytes as for few, and only pages that a rank has written take memory.

use std::ops::Range;

pub const PAGE: usize = 4096;

/// Pages from `start` on, of each rank.
pub struct Paged {
    start: usize,
    len: usize,
    /// The file, for as long as the process lives.
    file: i32,
    /// Where all of it is mapped, rank by rank.
    all: usize,
}

/// The whole pages among these.
pub fn whole_pages(addresses: Range<usize>) -> Range<usize> {
    addresses.start.next_multiple_of(PAGE)..addresses.end / PAGE * PAGE
}

impl Paged {
    /// For so many ranks. None: the system has not so much, and nothing has changed.
    pub fn new(pages: &Range<usize>, ranks: usize) -> Option<Self> {
        let (access, len) = (libc::PROT_READ | libc::PROT_WRITE, pages.len());
        let bytes = len.checked_mul(ranks)?;
        // SAFETY: a file and a mapping of this function's own, at an address that the system chooses.
        unsafe {
            let file = libc::memfd_create(c"farpost-variables".as_ptr(), libc::MFD_CLOEXEC);
            if file < 0 {
                return None;
            }
            let kind = libc::MAP_SHARED | libc::MAP_NORESERVE;
            let all = match libc::ftruncate(file, bytes as libc::off_t) {
                0 => libc::mmap(std::ptr::null_mut(), bytes, access, kind, file, 0),
                _ => libc::MAP_FAILED,
            };
            if all == libc::MAP_FAILED {
                libc::close(file);
                return None;
            }
            Some(Self {
                start: pages.start,
                len,
                file,
                all: all.expose_provenance(),
            })
        }
    }

    /// Where they are while they are in their place.
    pub fn place(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// Where the byte of `rank` is, always, that is at `address` while it runs.
    pub fn find(&self, rank: u32, address: usize) -> usize {
        self.all + rank as usize * self.len + (address - self.start)
    }

    /// What `rank` begins with. Pages of zeroes are left as they are.
    pub fn begin(&self, rank: u32, first: &[u8]) {
        let to = self.find(rank, self.start);
        for (nr, page) in first.chunks_exact(PAGE).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                // SAFETY: the rank's page, which is not in its place: it has not begun.
                unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), (to + nr * PAGE) as *mut u8, PAGE) };
            }
        }
    }

    /// From now on those of `rank` are in their place.
    ///
    /// # Safety
    /// There are variables that nobody has a reference to, and that ranks have for themselves.
    pub unsafe fn enter(&self, rank: u32) {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
        );
        let offset = (rank as usize * self.len) as libc::off_t;
        // SAFETY: the caller's promise; the range is within the file.
        let at = unsafe { libc::mmap(self.start as *mut _, self.len, access, kind, self.file, offset) };
        assert!(
            at != libc::MAP_FAILED,
            "the system maps what it has mapped before"
        );
    }

    /// `rank` has ended.
    pub fn forget(&self, rank: u32) {
        // SAFETY: pages of this file, which nobody needs any more.
        unsafe { libc::madvise(self.find(rank, self.start) as *mut _, self.len, libc::MADV_REMOVE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_its_own_pages() {
        assert_eq!(whole_pages(10..3 * PAGE + 5), PAGE..3 * PAGE);
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a mapping of this test's own.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), 3 * PAGE, access, kind, -1, 0) }.expose_provenance();
        let pages = at..at + 3 * PAGE;
        let paged = Paged::new(&pages, 3).expect("memory");
        assert_eq!(paged.place(), pages);
        let mut first = vec![0; 3 * PAGE];
        first[PAGE + 1] = 7;
        // SAFETY: within the test's pages or the file's, to which there is no reference.
        let read = |at: usize| unsafe { (at as *const u8).read_volatile() };
        // SAFETY: as above.
        let write = |at: usize, value: u8| unsafe { (at as *mut u8).write_volatile(value) };
        for rank in 0..3 {
            paged.begin(rank, &first);
            // SAFETY: nobody else uses the pages.
            unsafe { paged.enter(rank) };
            assert_eq!([read(at), read(at + PAGE + 1)], [0, 7]);
            write(at + 2 * PAGE, 10 + rank as u8);
        }
        // SAFETY: as above.
        unsafe { paged.enter(1) };
        assert_eq!(read(at + 2 * PAGE), 11);
        assert_eq!(read(paged.find(0, at + 2 * PAGE)), 10);
        write(paged.find(1, at + 5), 99);
        assert_eq!(read(at + 5), 99);
        paged.forget(0);
        assert_eq!(
            [
                read(paged.find(0, at + 2 * PAGE)),
                read(paged.find(2, at + 2 * PAGE))
            ],
            [0, 12]
        );
    }
}
