//! Variables that each rank has for itself: the writable segments of the program and its libraries, and their blocks of thread-local storage, of the one thread.
//!
//! They have one place in memory, which the code knows. There are the running rank's; those of the others are kept, each in a piece of memory as long as all
//! segments together. The C library's and the like are the process's: what they keep is made for many users (streams, the heap), and ranks share it.

use libc::{c_int, c_void};
use std::ffi::CStr;
use std::path::Path;

/// Libraries whose variables are not a rank's own, by what their names begin with.
const SHARED: [&str; 14] = [
    "libc.so",
    "libc-2",
    "ld-",
    "ld.so",
    "linux-vdso",
    "libm.so",
    "libmvec.so",
    "libdl.so",
    "libpthread.so",
    "librt.so",
    "libresolv.so",
    "libgcc_s.so",
    "libstdc++.so",
    "libgfortran.so",
];

/// Memory of a segment, and where its bytes are in what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    start: usize,
    len: usize,
    at: usize,
}

/// A rank's variables while others are in their place.
#[derive(Clone, Default)]
enum Kept {
    /// It has not run.
    #[default]
    Nothing,
    Bytes(Box<[u8]>),
    /// It has ended.
    Gone,
}

/// The variables of all ranks.
pub struct Segments {
    /// By their addresses.
    parts: Vec<Part>,
    bytes: usize,
    /// As they were at the start.
    first: Box<[u8]>,
    /// Those of ranks that have run.
    kept: Vec<Kept>,
    /// Whose are in their place.
    whose: Option<u32>,
}

impl Segments {
    /// Those of this process, as they are now.
    pub fn find() -> Self {
        let mut found: Vec<(usize, usize)> = Vec::new();
        // SAFETY: the callback takes what is documented, and the vector outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(add_module), (&raw mut found).cast()) };
        // SAFETY: segments of loaded modules that may be written, and so read.
        unsafe { Self::of(found) }
    }

    /// Of these addresses and lengths, as they are now.
    ///
    /// # Safety
    /// All of it may be read and written as long as this is there, is changed by nobody while a method runs, and no references to it are kept meanwhile.
    unsafe fn of(mut found: Vec<(usize, usize)>) -> Self {
        found.sort_unstable();
        let mut bytes = 0;
        let parts: Vec<Part> = found
            .into_iter()
            .filter(|(_, len)| *len > 0)
            .map(|(start, len)| {
                let at = bytes;
                bytes += len;
                Part { start, len, at }
            })
            .collect();
        let mut segments = Self {
            parts,
            bytes,
            first: vec![0; bytes].into_boxed_slice(),
            kept: Vec::new(),
            whose: None,
        };
        let mut first = std::mem::take(&mut segments.first);
        segments.keep(&mut first);
        segments.first = first;
        segments
    }

    fn keep(&self, to: &mut [u8]) {
        for part in &self.parts {
            let to = &mut to[part.at..part.at + part.len];
            // SAFETY: the promise of `of`: so much may be read there; `to` is somewhere else.
            unsafe { std::ptr::copy_nonoverlapping(part.start as *const u8, to.as_mut_ptr(), part.len) };
        }
    }

    fn put(&self, from: &[u8]) {
        for part in &self.parts {
            let from = &from[part.at..part.at + part.len];
            // SAFETY: the promise of `of`: so much may be written there; `from` is somewhere else.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), part.start as *mut u8, part.len) };
        }
    }

    /// From now on those of `rank` are in their place.
    pub fn enter(&mut self, rank: u32) {
        if self.whose == Some(rank) {
            return;
        }
        if let Some(last) = self.whose.take() {
            let last = last as usize;
            if self.kept.len() <= last {
                self.kept.resize(last + 1, Kept::Nothing);
            }
            let mut kept = match std::mem::take(&mut self.kept[last]) {
                Kept::Bytes(kept) => kept,
                _ => vec![0; self.bytes].into_boxed_slice(),
            };
            self.keep(&mut kept);
            self.kept[last] = Kept::Bytes(kept);
        }
        match self.kept.get(rank as usize) {
            Some(Kept::Bytes(kept)) => self.put(kept),
            _ => self.put(&self.first),
        }
        self.whose = Some(rank);
    }

    /// `rank` has ended: nothing of it is kept any more.
    pub fn forget(&mut self, rank: u32) {
        if self.whose == Some(rank) {
            self.whose = None;
        }
        if self.kept.len() <= rank as usize {
            self.kept.resize(rank as usize + 1, Kept::Nothing);
        }
        self.kept[rank as usize] = Kept::Gone;
    }

    /// Where the byte is that `rank` has at `address`, and how many of `len` lie together from there on; at 0, where nothing is, if it has ended.
    pub fn find_of(&self, rank: u32, address: usize, len: usize) -> (usize, usize) {
        if self.whose == Some(rank) {
            return (address, len);
        }
        let before = self.parts.partition_point(|part| part.start <= address);
        if let Some(part) = before.checked_sub(1).map(|last| self.parts[last])
            && address - part.start < part.len
        {
            let offset = address - part.start;
            let now = match self.kept.get(rank as usize) {
                Some(Kept::Bytes(kept)) => kept[part.at..].as_ptr() as usize + offset,
                _ => 0,
            };
            return (now, len.min(part.len - offset));
        }
        match self.parts.get(before) {
            Some(next) => (address, len.min(next.start - address)),
            None => (address, len),
        }
    }
}

/// This library's own variables are not those of ranks.
static HERE: u8 = 0;

/// Add what is writable of a module, unless it is shared.
unsafe extern "C" fn add_module(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: as `dl_iterate_phdr` promises, and what the caller above passes.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<(usize, usize)>>()) };
    let name = if info.dlpi_name.is_null() {
        String::new()
    } else {
        // SAFETY: the module's name.
        unsafe { CStr::from_ptr(info.dlpi_name) }
            .to_string_lossy()
            .into_owned()
    };
    let file = Path::new(&name)
        .file_name()
        .map_or_else(String::new, |file| file.to_string_lossy().into_owned());
    let base = info.dlpi_addr as usize;
    // SAFETY: so many headers are there.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let range = |header: &libc::Elf64_Phdr| {
        let start = base + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    };
    let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let here = &raw const HERE as usize;
    if SHARED.iter().any(|shared| file.starts_with(shared)) || loads().any(|load| range(load).contains(&here))
    {
        return 0;
    }
    // The loader has made whole pages of these read-only.
    const PAGE: usize = 4096;
    let constant = headers
        .iter()
        .find(|header| header.p_type == libc::PT_GNU_RELRO)
        .map(|header| (range(header).start & !(PAGE - 1))..(range(header).end & !(PAGE - 1)));
    for load in loads().filter(|load| load.p_flags & libc::PF_W != 0) {
        let all = range(load);
        match &constant {
            Some(constant) if constant.start < all.end && all.start < constant.end => {
                found.push((all.start, constant.start.saturating_sub(all.start)));
                found.push((constant.end, all.end.saturating_sub(constant.end)));
            }
            _ => found.push((all.start, all.len())),
        }
    }
    if let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_TLS)
        && !info.dlpi_tls_data.is_null()
    {
        found.push((info.dlpi_tls_data as usize, header.p_memsz as usize));
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three variables in one piece of memory, of which the first and the last are a rank's own.
    #[test]
    fn each_rank_has_its_own_and_others_find_it() {
        let mut memory = [1_u64, 2, 3];
        let at = memory.as_mut_ptr() as usize;
        let read = |nr: usize| {
            // SAFETY: within `memory`, to which there is no reference.
            unsafe { ((at + 8 * nr) as *const u64).read_volatile() }
        };
        let write = |nr: usize, value: u64| {
            // SAFETY: as above.
            unsafe { ((at + 8 * nr) as *mut u64).write_volatile(value) };
        };
        // SAFETY: as above, and the segments do not outlive it.
        let mut segments = unsafe { Segments::of(vec![(at + 16, 8), (at, 8), (at + 8, 0)]) };
        assert_eq!(segments.bytes, 16);
        segments.enter(0);
        (0..3).for_each(|nr| write(nr, 10 + nr as u64));
        segments.enter(1);
        assert_eq!([read(0), read(1), read(2)], [1, 11, 3]);
        write(2, 33);
        // In place, kept, before and between the parts.
        assert_eq!(segments.find_of(1, at, 24), (at, 24));
        let (kept, together) = segments.find_of(0, at, 24);
        assert!(kept != at && together == 8);
        // SAFETY: a kept variable, as long as nobody enters.
        assert_eq!(unsafe { (kept as *const u64).read_unaligned() }, 10);
        assert_eq!(segments.find_of(0, at + 8, 16), (at + 8, 8));
        assert_eq!(segments.find_of(0, at - 8, 4), (at - 8, 4));
        assert_eq!(segments.find_of(0, at + 20, 8).1, 4);
        assert_eq!(segments.find_of(0, at + 24, 8), (at + 24, 8));
        segments.enter(0);
        assert_eq!([read(0), read(1), read(2)], [10, 11, 12]);
        segments.enter(1);
        assert_eq!([read(0), read(1), read(2)], [1, 11, 33]);
        segments.forget(1);
        assert_eq!(segments.find_of(1, at, 24), (0, 8));
        assert_eq!(segments.find_of(1, at + 8, 8), (at + 8, 8));
        segments.enter(0);
        assert_eq!([read(0), read(1), read(2)], [10, 11, 12]);
    }
}
