//! Shared memory as this process sees it: mapped anonymous files, touched only by atomics and copies.

use farpost_fabric::sync::{AtomicU32, AtomicU64, Ordering};
use farpost_fabric::{
    FabricError, LINE_BYTES, Line, Lines, LocalMemory, Peer, Permission, Remote, Result, SegmentId,
};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, ProtFlags};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::rc::Rc;

/// What memory that is written is mapped for.
pub(crate) const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Where something was mapped.
fn mapped_at(at: Result<*mut c_void, Errno>, what: &'static str) -> Result<NonNull<u8>> {
    let at = at.map_err(|error| FabricError::os_error(what, &error.into()))?;
    Ok(NonNull::new(at.cast()).expect("mmap never returns null"))
}

/// The pages; unmapped when the last view goes.
struct Pages {
    base: NonNull<u8>,
    len: usize,
    /// Whose segment this is and which, for error messages.
    owner: (Peer, SegmentId),
    /// The file behind it, where others may be given it.
    file: RefCell<Option<OwnedFd>>,
    /// Whether others may have been given the file.
    given: Cell<bool>,
    /// Where else in this process the file is mapped: a range of the program's own.
    covers: Cell<Option<usize>>,
}

impl Pages {
    fn new(base: NonNull<u8>, len: usize, owner: (Peer, SegmentId)) -> Rc<Self> {
        Rc::new(Self {
            base,
            len,
            owner,
            file: RefCell::new(None),
            given: Cell::new(false),
            covers: Cell::new(None),
        })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are what mmap returned and was given; no view outlives its `Rc<Pages>`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A view of shared memory. Clones share the pages.
///
/// Invariant: `base..base + len` is mapped shared memory for as long as `pages` lives, and the file behind
/// it is sealed against shrinking (or is ours), so that no access faults. It is never seen through a
/// reference to plain data.
#[derive(Clone)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    writable: bool,
    pages: Rc<Pages>,
}

impl Mapping {
    /// Map `len` bytes of `file` from `offset` (a multiple of the page size).
    pub fn new(file: BorrowedFd<'_>, offset: u64, len: usize, permission: Permission) -> Result<Self> {
        Self::of_segment(file, offset, len, permission, (Peer(u32::MAX), SegmentId(0)))
    }

    /// Map `len` bytes of a segment's `file`; errors will name its `owner`.
    pub fn of_segment(
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        permission: Permission,
        owner: (Peer, SegmentId),
    ) -> Result<Self> {
        let writable = permission == Permission::ReadWrite;
        let protection = if writable { READ_WRITE } else { ProtFlags::READ };
        // SAFETY: a fresh shared mapping at an address the kernel chooses touches no existing memory.
        let at = unsafe {
            mm::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                file,
                offset,
            )
        };
        let base = mapped_at(at, "map shared memory")?;
        let pages = Pages::new(base, len, owner);
        Ok(Self {
            base,
            len,
            writable,
            pages,
        })
    }

    /// `len` zeroed bytes of this process alone: a segment that peers reach through a network. Pages cost memory
    /// once they are touched.
    pub fn private(len: usize, owner: (Peer, SegmentId)) -> Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address the kernel chooses touches no existing memory.
        let at = unsafe { mm::mmap_anonymous(std::ptr::null_mut(), len, READ_WRITE, flags) };
        let base = mapped_at(at, "map memory for a segment")?;
        Ok(Self {
            base,
            len,
            writable: true,
            pages: Pages::new(base, len, owner),
        })
    }

    /// The file behind the whole mapping, which others may be given.
    pub(crate) fn set_file(&self, file: Option<OwnedFd>) {
        *self.pages.file.borrow_mut() = file;
    }

    /// Whether there is a file behind the mapping.
    pub(crate) fn has_file(&self) -> bool {
        self.pages.file.borrow().is_some()
    }

    /// A descriptor of the file behind the mapping.
    pub fn clone_file(&self) -> Result<OwnedFd> {
        match &*self.pages.file.borrow() {
            Some(file) => file
                .try_clone()
                .map_err(|e| FabricError::os_error("pass shared memory on", &e)),
            None => Err(FabricError::unsupported(
                self.pages.owner.0,
                "passing memory on",
                "it was not allocated for that",
            )),
        }
    }

    /// Whether others may have been given the file, and may be from now on.
    pub fn replace_given(&self, given: bool) -> bool {
        self.pages.given.replace(given)
    }

    /// Where else the file is mapped in this process.
    pub(crate) fn covered(&self) -> Option<usize> {
        self.pages.covers.get()
    }

    pub(crate) fn set_covered(&self, address: Option<usize>) {
        self.pages.covers.set(address);
    }

    pub(crate) fn owner(&self) -> (Peer, SegmentId) {
        self.pages.owner
    }

    pub fn address(&self) -> usize {
        self.base.as_ptr().addr()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The pages, which are nobody's to unmap from now on. For the only view of them.
    pub fn forget(self) -> *mut u8 {
        let base = self.base.as_ptr();
        std::mem::forget(self);
        base
    }

    /// Ask for huge pages; whether the kernel follows does not matter.
    pub fn prefer_huge_pages(&self) {
        // SAFETY: advice about a range that is mapped (invariant of the type) changes no contents.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_HUGEPAGE) };
    }

    /// Give the pages that lie wholly in `range` back to the system, for all who map them: they are zeroes when they are
    /// touched next. Nothing happens where the kernel knows no way.
    ///
    /// # Panics
    /// When the range leaves the view.
    pub fn give_back(&self, range: std::ops::Range<usize>) {
        // SAFETY: a plain question.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        assert!(
            range.start <= range.end && range.end <= self.len,
            "giving back what leaves the mapping"
        );
        let address = self.address();
        let first = (address + range.start).next_multiple_of(page);
        let end = (address + range.end) / page * page;
        if first >= end {
            return;
        }
        let how = if self.pages.file.borrow().is_some() {
            libc::MADV_REMOVE
        } else {
            libc::MADV_DONTNEED
        };
        // SAFETY: whole pages inside the mapped range (invariant of the type), which is shared, or private and anonymous: their
        // contents become zeroes, a value like any other of memory that is only seen through atomics and copies.
        unsafe { libc::madvise(self.base.as_ptr().add(first - address).cast(), end - first, how) };
    }

    /// Part of this view.
    ///
    /// # Panics
    /// When the part leaves the view, or does not start on a line: words and lines of the part are aligned
    /// because its start is.
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        assert!(
            offset.is_multiple_of(LINE_BYTES),
            "slice at {offset} does not start on a line"
        );
        assert!(
            offset <= self.len && len <= self.len - offset,
            "slice leaves the mapping"
        );
        // SAFETY: `offset <= self.len`, so the result is inside or one past the mapped range.
        let base = unsafe { self.base.add(offset) };
        Self {
            base,
            len,
            writable: self.writable,
            pages: Rc::clone(&self.pages),
        }
    }

    #[inline]
    fn at(&self, offset: usize, len: usize, align: usize) -> NonNull<u8> {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "access leaves the mapping"
        );
        debug_assert!(offset.is_multiple_of(align), "misaligned offset {offset:#x}");
        // SAFETY: just checked to be inside the mapped range.
        unsafe { self.base.add(offset) }
    }

    /// Where the `len` bytes at `offset` are, for a system call that moves bytes.
    ///
    /// # Panics
    /// When they leave the view.
    pub fn bytes(&self, offset: usize, len: usize) -> NonNull<u8> {
        self.at(offset, len, 1)
    }

    /// The word at `offset`, for algorithms that are written on atomics.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8));
        // SAFETY: in range and aligned (the mapping is page aligned, slices start on lines, `offset` was checked);
        // atomics may be shared with other processes; the borrow keeps the pages mapped.
        unsafe { self.at(offset, 8, 8).cast::<AtomicU64>().as_ref() }
    }

    /// The 32-bit word at `offset`.
    #[inline]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4));
        // SAFETY: as for `word`.
        unsafe { self.at(offset, 4, 4).cast::<AtomicU32>().as_ref() }
    }

    /// A table of atomics at `offset`. `T` must consist of atomics only.
    ///
    /// # Safety
    /// `T` has only atomic fields, so that any bit pattern is a value of it and other processes may write
    /// to it at any time.
    #[inline]
    pub unsafe fn table<T>(&self, offset: usize) -> &T {
        let at = self.at(offset, size_of::<T>(), align_of::<T>());
        assert!(at.as_ptr().addr().is_multiple_of(align_of::<T>()));
        // SAFETY: in range, aligned, and the caller vouches for `T`; the borrow keeps the pages mapped.
        unsafe { at.cast::<T>().as_ref() }
    }
}

/// A 32-bit word of shared memory, found once.
pub struct Word32 {
    at: NonNull<AtomicU32>,
    _pages: Rc<Pages>,
}

impl Word32 {
    /// The word.
    #[inline]
    pub fn get(&self) -> &AtomicU32 {
        // SAFETY: `at` was in range and aligned when this was made (`Mapping::keep_word32`), and the pages are
        // mapped for as long as `self` lives.
        unsafe { self.at.as_ref() }
    }
}

impl Mapping {
    /// The 32-bit word at `offset`, to be kept.
    pub fn keep_word32(&self, offset: usize) -> Word32 {
        Word32 {
            at: NonNull::from(self.word32(offset)),
            _pages: Rc::clone(&self.pages),
        }
    }
}

/// A queue of lines in shared memory.
///
/// Invariant: `mask + 1` lines from `base` on are in the mapped range, which lives as long as `_pages`.
#[derive(Clone)]
#[repr(C)]
pub struct MappedLines {
    base: NonNull<[AtomicU64; 8]>,
    mask: u32,
    _pages: Rc<Pages>,
}

impl MappedLines {
    #[inline(always)]
    fn at(&self, number: u32) -> &[AtomicU64; 8] {
        // SAFETY: the masked number is below the count that was checked at construction; the line consists
        // of atomics; the borrow of `self` keeps the pages mapped.
        unsafe { self.base.add((number & self.mask) as usize).as_ref() }
    }
}

impl Lines for MappedLines {
    #[inline(always)]
    fn first(&self, number: u32) -> u64 {
        self.at(number)[0].load(Ordering::Acquire)
    }

    #[inline(always)]
    fn word(&self, number: u32, index: usize) -> u64 {
        self.at(number)[index].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn line(&self, number: u32) -> Line {
        // Written out: a loop over atomics is not unrolled, and this is the fast path of every receive.
        let [a, b, c, d, e, f, g, h] = self.at(number);
        let first = a.load(Ordering::Acquire);
        let next = |word: &AtomicU64| word.load(Ordering::Relaxed);
        [
            first,
            next(b),
            next(c),
            next(d),
            next(e),
            next(f),
            next(g),
            next(h),
        ]
    }

    #[inline(always)]
    fn put(&self, number: u32, line: &Line, words: usize) {
        let [a, b, c, d, e, f, g, h] = self.at(number);
        b.store(line[1], Ordering::Relaxed);
        c.store(line[2], Ordering::Relaxed);
        d.store(line[3], Ordering::Relaxed);
        if words > 4 {
            e.store(line[4], Ordering::Relaxed);
            f.store(line[5], Ordering::Relaxed);
            g.store(line[6], Ordering::Relaxed);
            h.store(line[7], Ordering::Relaxed);
        }
        a.store(line[0], Ordering::Release);
    }

    #[inline(always)]
    fn put_first(&self, number: u32, word: u64) {
        self.at(number)[0].store(word, Ordering::Release);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn prefetch(&self, number: u32) {
        let line = std::ptr::from_ref(self.at(number)).cast::<i8>();
        // SAFETY: a hint; it changes nothing and cannot fault.
        unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line) };
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn prefetch_write(&self, number: u32) {
        let line = std::ptr::from_ref(self.at(number));
        // SAFETY: a hint; it changes nothing, cannot fault, and is a no-operation where it is not known.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
    }
}

impl LocalMemory for Mapping {
    type Lines = MappedLines;

    fn address(&self) -> Option<usize> {
        Some(self.base.as_ptr().addr())
    }

    fn lines(&self, offset: usize, count: u32) -> MappedLines {
        assert!(count.is_power_of_two());
        let base = self
            .at(offset, count as usize * LINE_BYTES, LINE_BYTES)
            .cast::<[AtomicU64; 8]>();
        assert!(base.is_aligned());
        MappedLines {
            base,
            mask: count - 1,
            _pages: Rc::clone(&self.pages),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, offset: usize, value: u64) {
        debug_assert!(self.writable);
        self.word(offset).store(value, Ordering::Release);
    }

    #[inline]
    fn fetch_add(&self, offset: usize, amount: u64) -> u64 {
        debug_assert!(self.writable);
        self.word(offset).fetch_add(amount, Ordering::AcqRel)
    }

    #[inline]
    fn load_line(&self, offset: usize) -> Line {
        // SAFETY: eight atomics, nothing else.
        let words: &[AtomicU64; 8] = unsafe { self.table(offset) };
        let first = words[0].load(Ordering::Acquire);
        let mut line = [first; 8];
        for (to, from) in line.iter_mut().zip(words).skip(1) {
            *to = from.load(Ordering::Relaxed);
        }
        line
    }

    #[inline]
    fn store_line(&self, offset: usize, line: &Line) {
        debug_assert!(self.writable);
        // SAFETY: eight atomics, nothing else.
        let words: &[AtomicU64; 8] = unsafe { self.table(offset) };
        for (to, from) in words.iter().zip(line).skip(1) {
            to.store(*from, Ordering::Relaxed);
        }
        words[0].store(line[0], Ordering::Release);
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn prefetch(&self, offset: usize, len: usize) {
        let start = self.at(offset, len, 1).as_ptr();
        if super::streaming::COPY_POLICY.streams(len) {
            return;
        }
        for line in (0..len).step_by(LINE_BYTES) {
            let line = start.wrapping_add(line).cast::<i8>();
            // SAFETY: a hint; it changes nothing and cannot fault.
            unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line) };
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn prefetch_write(&self, offset: usize, len: usize) {
        let start = self.at(offset, len, 1).as_ptr();
        for line in (0..len).step_by(LINE_BYTES) {
            // SAFETY: a hint; it changes nothing, cannot fault, and is a no-operation where it is not known.
            unsafe {
                std::arch::asm!(
                    "prefetchw [{}]",
                    in(reg) start.wrapping_add(line),
                    options(nostack, preserves_flags, readonly)
                );
            }
        }
    }

    #[inline]
    fn read(&self, offset: usize, to: &mut [u8]) {
        let from = self.at(offset, to.len(), 1);
        // SAFETY: the source is in range of the mapping; a peer may write to it meanwhile, in which case the
        // bytes are any bytes, which is all `[u8]` asks. The destination is ours, so they do not overlap.
        unsafe { super::copy::from_other_core(from.as_ptr(), to.as_mut_ptr(), to.len()) };
    }

    #[inline]
    fn write(&self, offset: usize, from: &[u8]) {
        debug_assert!(self.writable);
        let to = self.at(offset, from.len(), 1);
        // SAFETY: the destination is in range of the mapping and seen by nobody as plain data; the source is
        // ours, so they do not overlap.
        unsafe { super::copy::to_other_core(from.as_ptr(), to.as_ptr(), from.len()) };
    }

    unsafe fn overlay(&self, address: usize) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.cover(address) }
    }

    unsafe fn uncover(&self) -> Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.end_cover() }
    }
}

impl Remote for Mapping {
    fn len(&self) -> usize {
        self.len
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.check(offset, from.len())?;
        self.write(offset, from);
        Ok(())
    }

    fn put_word(&self, offset: usize, value: u64) -> Result<()> {
        self.check(offset, 8)?;
        self.store(offset, value);
        Ok(())
    }

    fn put_line(&self, offset: usize, line: &Line) -> Result<()> {
        self.check(offset, LINE_BYTES)?;
        self.store_line(offset, line);
        Ok(())
    }

    fn get(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.check_range(offset, to.len())?;
        self.read(offset, to);
        Ok(())
    }

    fn put_lines(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.check(offset, from.len())?;
        assert!(offset.is_multiple_of(LINE_BYTES) && from.len().is_multiple_of(LINE_BYTES));
        let to = self.at(offset, from.len(), LINE_BYTES);
        // SAFETY: as for `write`; the destination is aligned to lines, as mappings and slices are.
        unsafe { super::copy::lines(from.as_ptr(), to.as_ptr(), from.len() / LINE_BYTES) };
        Ok(())
    }

    fn put_elements(&self, offset: usize, from: &[u8], size: usize) -> Result<()> {
        self.check(offset, from.len())?;
        assert!(offset.is_multiple_of(size) && from.len().is_multiple_of(size));
        let to = self.at(offset, from.len(), size);
        // SAFETY: as for `write`; aligned to the elements.
        unsafe { super::copy::store_elements(from.as_ptr(), to.as_ptr(), from.len(), size) };
        Ok(())
    }

    fn get_elements(&self, offset: usize, to: &mut [u8], size: usize) -> Result<()> {
        self.check_range(offset, to.len())?;
        assert!(offset.is_multiple_of(size) && to.len().is_multiple_of(size));
        let from = self.at(offset, to.len(), size);
        // SAFETY: as for `read`; aligned to the elements.
        unsafe { super::copy::load_elements(from.as_ptr(), to.as_mut_ptr(), to.len(), size) };
        Ok(())
    }

    fn fence(&self) -> Result<()> {
        farpost_fabric::sync::fence(Ordering::SeqCst);
        Ok(())
    }
}

impl Mapping {
    fn check_range(&self, offset: usize, len: usize) -> Result<()> {
        farpost_fabric::check_range(offset, len, self.len)
    }

    fn check(&self, offset: usize, len: usize) -> Result<()> {
        self.check_range(offset, len)?;
        if !self.writable {
            return Err(FabricError::Denied {
                peer: self.pages.owner.0,
                id: self.pages.owner.1.0,
            });
        }
        Ok(())
    }
}

/// An anonymous file of `len` zero bytes that can change its size no more, so that a peer cannot make our
/// accesses fault.
pub fn sealed_memory(name: &std::ffi::CStr, len: usize) -> Result<OwnedFd> {
    let failed = |what| move |error: rustix::io::Errno| FabricError::os_error(what, &error.into());
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(name, flags).map_err(failed("create shared memory"))?;
    rustix::fs::ftruncate(&file, len as u64).map_err(failed("size shared memory"))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals).map_err(failed("seal shared memory"))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn bytes_and_words_go_through_both_views() {
        let file = sealed_memory(c"test", 8192).unwrap();
        let a = Mapping::new(file.as_fd(), 0, 8192, Permission::ReadWrite).unwrap();
        let b = Mapping::new(file.as_fd(), 0, 8192, Permission::Read).unwrap();
        a.write(100, b"hello");
        let mut got = [0; 5];
        b.read(100, &mut got);
        assert_eq!(&got, b"hello");
        a.store_line(4096, &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(b.load_line(4096), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(matches!(b.put(0, &[1]), Err(FabricError::Denied { .. })));
        assert!(matches!(
            a.put(8190, &[1, 2, 3]),
            Err(FabricError::OutOfRange { .. })
        ));
        assert!(matches!(
            a.get(usize::MAX, &mut got),
            Err(FabricError::OutOfRange { .. })
        ));
    }

    #[test]
    fn whole_pages_are_given_back_and_nothing_beside_them() {
        let shared = Mapping::shared(5 * 4096).unwrap();
        let file = shared.clone_file().unwrap();
        let blocks = || {
            std::fs::File::from(file.try_clone().unwrap())
                .metadata()
                .unwrap()
                .blocks()
        };
        let private = Mapping::private(5 * 4096, (Peer(0), SegmentId(0))).unwrap();
        for memory in [&shared, &private] {
            memory.write(0, &[7; 5 * 4096]);
            memory.give_back(4000..4 * 4096 + 100);
            let mut bytes = vec![0; 5 * 4096];
            memory.read(0, &mut bytes);
            for (at, byte) in bytes.into_iter().enumerate() {
                let given = (4096..4 * 4096).contains(&at);
                assert_eq!(byte, if given { 0 } else { 7 }, "byte {at}");
            }
            memory.give_back(100..4095);
            assert_eq!(memory.load(96) as u8, 7);
        }
        shared.write(0, &[7; 5 * 4096]);
        assert_eq!(blocks(), 40);
        shared.give_back(0..5 * 4096);
        assert_eq!(blocks(), 0, "no page is left, in units of 512 bytes");
    }

    #[test]
    fn sealed_memory_keeps_its_size() {
        let file = sealed_memory(c"test", 4096).unwrap();
        // SAFETY: a plain call on a descriptor that we own.
        assert_ne!(unsafe { libc::ftruncate(file.as_raw_fd(), 0) }, 0);
    }
}
