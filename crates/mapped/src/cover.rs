//! Memory that is a file's, so that it can be shown to others, taken from them again, and put in the place of a
//! program's own pages.
//!
//! Cost class: *set-up path*.

use super::mapping::{Mapping, READ_WRITE, sealed_memory};
use farpost_fabric::{FabricError, LocalMemory, Peer, Permission, Result, SegmentId, check_range};
use rustix::mm::{self, MapFlags};
use std::os::fd::{AsFd, BorrowedFd};

/// Segments are whole pages.
const PAGE: usize = 4096;

impl Mapping {
    /// `len` zeroed bytes, whole pages, with a file behind them that others may be given.
    pub fn shared(len: usize) -> Result<Self> {
        // Rounding up past the end of the address space leaves a size that the system refuses.
        let len = len
            .max(1)
            .checked_next_multiple_of(PAGE)
            .unwrap_or(usize::MAX & !(PAGE - 1));
        let file = sealed_memory(c"farpost-segment", len)?;
        let nobody = (Peer(u32::MAX), SegmentId(0));
        let mapping = Self::of_segment(file.as_fd(), 0, len, Permission::ReadWrite, nobody)?;
        mapping.set_file(Some(file));
        Ok(mapping)
    }

    /// As [`detach`](farpost_fabric::RemoteMemory::detach).
    pub fn renew(&self) -> Result<()> {
        if !self.replace_given(false) {
            return Ok(());
        }
        let len = LocalMemory::len(self);
        let file = sealed_memory(c"farpost-segment", len)?;
        let fresh = Self::of_segment(file.as_fd(), 0, len, Permission::ReadWrite, self.owner())?;
        // Pages that were never touched stay that way: a hole is read as zeroes.
        self.copy_pages(&fresh);
        if let Some(address) = self.covered() {
            // SAFETY: `overlay`'s caller promised that the range is there until `uncover`, and `address` for `len` bytes
            // is what `overlay` mapped; the new pages hold the same bytes.
            unsafe { map_over(address, len, file.as_fd())? };
        }
        // SAFETY: the range is this mapping's own; views of it are atomics and copies, to which other pages with the same
        // contents are the same memory.
        unsafe { map_over(self.address(), len, file.as_fd())? };
        self.set_file(Some(file));
        Ok(())
    }

    /// Copy what is not zero.
    fn copy_pages(&self, to: &Mapping) {
        let mut page = [0; PAGE];
        for offset in (0..LocalMemory::len(self)).step_by(PAGE) {
            self.read(offset, &mut page);
            if page.iter().any(|byte| *byte != 0) {
                to.write(offset, &page);
            }
        }
    }

    /// As [`overlay`](LocalMemory::overlay).
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn cover(&self, address: usize) -> Result<()> {
        let len = LocalMemory::len(self);
        check_private(address, len)?;
        if !self.has_file() {
            // Two places can have the same pages of a file only.
            self.replace_given(true);
            self.renew()?;
        }
        let file = self.clone_file()?;
        // SAFETY: the caller vouches for the range that is covered so far.
        unsafe { self.end_cover()? };
        for offset in (0..len).step_by(PAGE) {
            // SAFETY: the caller vouches for the range, which was just seen to be mapped and readable; nobody else uses it
            // during the call.
            let page = unsafe { std::slice::from_raw_parts((address + offset) as *const u8, PAGE) };
            self.write(offset, page);
        }
        // SAFETY: the caller gives the range away until `uncover`; the pages that come in hold its bytes.
        unsafe { map_over(address, len, file.as_fd())? };
        self.set_covered(Some(address));
        Ok(())
    }

    /// As [`uncover`](LocalMemory::uncover).
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn end_cover(&self) -> Result<()> {
        let Some(address) = self.covered() else {
            return Ok(());
        };
        let len = LocalMemory::len(self);
        let copy = Self::private(len, self.owner())?;
        self.copy_pages(&copy);
        // SAFETY: the range is one that `overlay` mapped and nobody else uses during the call; the copy's pages move there,
        // and the copy forgets them.
        let moved = unsafe {
            libc::mremap(
                copy.forget().cast(),
                len,
                len,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                address as *mut libc::c_void,
            )
        };
        if moved == libc::MAP_FAILED {
            return Err(FabricError::os("give a program its own memory back"));
        }
        self.set_covered(None);
        Ok(())
    }

    /// Another view of `len` bytes from `offset` on (whole pages), read-only or writable, at an address that the kernel
    /// chooses or, for `at`, in the place of whatever is there. A writable view of a mapping that is not is refused.
    ///
    /// # Safety
    /// `at`, if given, is a multiple of the page size and starts a range of `len` bytes that nobody uses for anything
    /// else. Where the address is not given, there is nothing to promise.
    pub unsafe fn window(
        &self,
        offset: usize,
        len: usize,
        writable: bool,
        at: Option<usize>,
    ) -> Result<Window> {
        // A window of no bytes is none.
        check_range(offset, len.max(1), LocalMemory::len(self))?;
        if writable && !self.is_writable() {
            let (peer, id) = self.owner();
            return Err(FabricError::Denied { peer, id: id.0 });
        }
        let len = len.next_multiple_of(PAGE);
        let (flags, wanted) = match at {
            None => (libc::MREMAP_MAYMOVE, 0),
            Some(address) => (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, address),
        };
        // SAFETY: an old size of 0 makes another mapping of the same shared pages and leaves the old one (mremap(2)); the
        // new one is where the kernel chooses, or where the caller has given a range away.
        let address = unsafe {
            let from = (self.address() + offset) as *mut libc::c_void;
            libc::mremap(from, 0, len, flags, wanted as *mut libc::c_void)
        };
        if address == libc::MAP_FAILED {
            return Err(FabricError::os("map a segment once more"));
        }
        let window = Window {
            address: address as usize,
            len,
        };
        if !writable {
            // SAFETY: the range was mapped just now and nobody uses it yet.
            if unsafe { libc::mprotect(address, len, libc::PROT_READ) } != 0 {
                return Err(FabricError::os("make a mapping read-only"));
            }
        }
        Ok(window)
    }
}

/// Another view of a segment, unmapped when dropped.
#[derive(Debug)]
pub struct Window {
    address: usize,
    len: usize,
}

impl Window {
    /// Where it is.
    pub fn address(&self) -> usize {
        self.address
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the range is this value's own; who was given the address knows that it ends here.
        unsafe { libc::munmap(self.address as *mut libc::c_void, self.len) };
    }
}

/// Map `file` in the place of what is at `address`.
///
/// # Safety
/// The range may be replaced: nothing of this process relies on its pages being other than those of `file`.
unsafe fn map_over(address: usize, len: usize, file: BorrowedFd<'_>) -> Result<()> {
    let (at, flags) = (address as *mut libc::c_void, MapFlags::SHARED | MapFlags::FIXED);
    // SAFETY: the caller's promise.
    match unsafe { mm::mmap(at, len, READ_WRITE, flags, file, 0) } {
        Ok(_) => Ok(()),
        Err(error) => Err(FabricError::os_error(
            "map a segment over a program's memory",
            &error.into(),
        )),
    }
}

/// The range is ordinary memory of this process: private, anonymous, readable and writable.
fn check_private(address: usize, len: usize) -> Result<()> {
    let unsuitable = |why: String| FabricError::unsupported(Peer(0), "exporting this memory", why);
    if !address.is_multiple_of(PAGE) || address == 0 || address.checked_add(len).is_none() {
        return Err(unsuitable(format!("address {address:#x} is not that of a page")));
    }
    let maps = std::fs::read_to_string("/proc/self/maps")
        .map_err(|e| FabricError::os_error("read the list of this process's mappings", &e))?;
    let end = address + len;
    let mut at = address;
    for line in maps.lines() {
        let Some((from, to, private)) = parse(line) else {
            continue;
        };
        if to <= at {
            continue;
        }
        if from > at {
            break;
        }
        if !private {
            return Err(unsuitable(format!(
                "address {at:#x} is not in ordinary private memory (of malloc, posix_memalign or mmap)"
            )));
        }
        at = to;
        if at >= end {
            return Ok(());
        }
    }
    Err(unsuitable(format!("nothing is mapped at address {at:#x}")))
}

/// Start, end and whether it is ordinary memory, from a line of /proc/self/maps (proc(5)).
fn parse(line: &str) -> Option<(usize, usize, bool)> {
    let mut fields = line.split_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let (_offset, _device, inode) = (fields.next()?, fields.next()?, fields.next()?);
    let name = fields.next().unwrap_or_default();
    let ordinary =
        permissions == "rw-p" && inode == "0" && !(name.starts_with("[stack") || name.starts_with("[v"));
    Some((
        usize::from_str_radix(from, 16).ok()?,
        usize::from_str_radix(to, 16).ok()?,
        ordinary,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ordinary memory, as a program has it.
    struct Plain(usize, usize);

    impl Plain {
        fn new(pages: usize) -> Self {
            let memory = Mapping::private(pages * PAGE, (Peer(0), SegmentId(0))).unwrap();
            Self(memory.forget() as usize, pages * PAGE)
        }

        fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: mapped for as long as `self` lives, and the tests have one thread.
            unsafe { std::slice::from_raw_parts_mut(self.0 as *mut u8, self.1) }
        }
    }

    impl Drop for Plain {
        fn drop(&mut self) {
            // SAFETY: the range is this value's own.
            unsafe { libc::munmap(self.0 as *mut libc::c_void, self.1) };
        }
    }

    #[test]
    fn a_programs_memory_is_shown_and_given_back() {
        shows_and_gives_back(Mapping::shared(3 * PAGE).unwrap());
        // Such memory has a file only from then on.
        shows_and_gives_back(Mapping::private(3 * PAGE, (Peer(0), SegmentId(1))).unwrap());
    }

    fn shows_and_gives_back(memory: Mapping) {
        let (mut first, mut second) = (Plain::new(3), Plain::new(3));
        first.bytes()[100] = 1;
        second.bytes()[100] = 2;
        // SAFETY: nobody else uses the ranges.
        unsafe { memory.overlay(first.0).unwrap() };
        let mut byte = [0];
        memory.read(100, &mut byte);
        assert_eq!(byte, [1]);
        memory.write(8000, &[7]);
        assert_eq!(first.bytes()[8000], 7);
        first.bytes()[8001] = 8;
        memory.read(8001, &mut byte);
        assert_eq!(byte, [8]);
        // It is nobody's own any more.
        // SAFETY: as above.
        let again = unsafe { memory.overlay(first.0) };
        assert!(matches!(again, Err(FabricError::Unsupported { .. })), "{again:?}");
        // To another place: the first keeps what it shows, the memory shows the second.
        // SAFETY: as above.
        unsafe { memory.overlay(second.0).unwrap() };
        memory.read(100, &mut byte);
        assert_eq!((byte, first.bytes()[100], first.bytes()[8000]), ([2], 1, 7));
        memory.write(100, &[5]);
        assert_eq!((first.bytes()[100], second.bytes()[100]), (1, 5));
        // Whoever has the old pages sees nothing of the new, and the other way around.
        // SAFETY: the kernel chooses the address.
        let old = unsafe { memory.window(0, PAGE, true, None).unwrap() };
        memory.replace_given(true);
        memory.renew().unwrap();
        // SAFETY: a byte of the window.
        unsafe { std::ptr::write_volatile((old.address() + 100) as *mut u8, 99) };
        assert_eq!(second.bytes()[100], 5);
        memory.write(101, &[6]);
        assert_eq!(second.bytes()[101], 6);
        // SAFETY: nobody else uses the range.
        unsafe { memory.uncover().unwrap() };
        memory.write(100, &[1]);
        assert_eq!((second.bytes()[100], second.bytes()[101]), (5, 6));
        check_private(second.0, 3 * PAGE).unwrap();
    }

    #[test]
    fn only_ordinary_memory() {
        let shared = Mapping::shared(PAGE).unwrap();
        let code = (only_ordinary_memory as fn() as usize) & !(PAGE - 1);
        for bad in [0, 1, PAGE, shared.address(), code, usize::MAX & !(PAGE - 1)] {
            let refused = check_private(bad, PAGE);
            assert!(
                matches!(refused, Err(FabricError::Unsupported { .. })),
                "{bad:#x}"
            );
        }
        let plain = Plain::new(1);
        assert!(check_private(plain.0, 1 << 40).is_err());
    }

    #[test]
    fn windows() {
        let memory = Mapping::shared(2 * PAGE).unwrap();
        // SAFETY: the kernel chooses the addresses.
        let (writable, readable) = unsafe {
            let one = memory.window(PAGE, PAGE, true, None).unwrap();
            (one, memory.window(0, 2 * PAGE, false, None).unwrap())
        };
        // SAFETY: a byte of each.
        let seen = unsafe {
            std::ptr::write_volatile((writable.address() + 5) as *mut u8, 42);
            std::ptr::read_volatile((readable.address() + PAGE + 5) as *const u8)
        };
        assert_eq!(seen, 42);
        let mut byte = [0];
        memory.read(PAGE + 5, &mut byte);
        assert_eq!(byte, [42]);
        // SAFETY: refused.
        let outside = unsafe { memory.window(PAGE, 2 * PAGE, true, None) };
        assert!(matches!(outside, Err(FabricError::OutOfRange { .. })));
    }
}
