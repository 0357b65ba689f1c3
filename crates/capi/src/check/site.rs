//! Call sites: where in the program a function was called.
//!
//! A site is one word that other processes of the job understand, because most run the same program: a hash of the name of
//! the object (program or library) and the place in it. Taking one walks the stack up to the first frame outside of this
//! library; what it is called is looked up when somebody wants to read it.

use core::ffi::{CStr, c_int, c_void};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use addr2line::Loader;

use crate::names::Fun;

/// Bits of a site that tell the place in its object.
const PLACE_BITS: u32 = 40;
/// Frames of this library between the program and a look at the stack, and some more.
const DEPTH: usize = 64;

/// Where a function was called; 0: nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Site(pub(crate) u64);

/// A call of the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) fun: Fun,
    pub(crate) site: Site,
}

/// An object in memory.
struct Object {
    hash: u64,
    /// What is added to the addresses of its file.
    bias: usize,
    path: PathBuf,
    /// From the first to one past the last byte.
    range: (usize, usize),
}

/// What is known of sites.
pub(crate) struct Sites {
    /// Where this library lies.
    own: (usize, usize),
    /// By return address.
    known: RefCell<HashMap<usize, Site>>,
    /// Debug information, by hash of the object's name.
    loaders: RefCell<HashMap<u64, Option<Loader>>>,
}

impl Sites {
    pub(crate) fn new() -> Self {
        let inside = Self::new as *const () as usize;
        let own = objects().into_iter().find(|object| object.has(inside));
        Self {
            own: own.map_or((0, 0), |object| object.range),
            known: RefCell::default(),
            loaders: RefCell::default(),
        }
    }

    /// Where the program called this library.
    pub(crate) fn here(&self) -> Site {
        let address = caller(self.own);
        if address == 0 {
            return Site::default();
        }
        if let Some(site) = self.known.borrow().get(&address) {
            return *site;
        }
        let object = objects().into_iter().find(|object| object.has(address));
        let site = object.map_or(Site::default(), |object| {
            let place = address.wrapping_sub(object.bias) as u64 & ((1 << PLACE_BITS) - 1);
            Site(object.hash << PLACE_BITS | place)
        });
        self.known.borrow_mut().insert(address, site);
        site
    }

    /// For people: `at file.c:12, in main`. Empty: nobody knows.
    pub(crate) fn describe(&self, site: Site) -> String {
        if site == Site::default() {
            return String::new();
        }
        let (hash, place) = (site.0 >> PLACE_BITS, site.0 & ((1 << PLACE_BITS) - 1));
        let Some(object) = objects().into_iter().find(|object| object.hash == hash) else {
            return format!("at +{place:#x} of a program or library that this process does not have");
        };
        // The return address is behind the call.
        let call = place.saturating_sub(1);
        let mut loaders = self.loaders.borrow_mut();
        let loader = loaders
            .entry(hash)
            .or_insert_with(|| Loader::new(&object.path).ok());
        if let Some(loader) = loader {
            let line = loader.find_location(call).ok().flatten();
            let function = function_at(loader, call);
            if let Some((file, line)) = line.and_then(|l| Some((l.file?.to_owned(), l.line?))) {
                return match function {
                    Some(function) => format!("at {file}:{line}, in {function}"),
                    None => format!("at {file}:{line}"),
                };
            }
            if let Some(function) = function {
                return format!("in {function}, at +{place:#x} of {}", object.path.display());
            }
        }
        match exported(object.bias.wrapping_add(call as usize)) {
            Some(function) => format!("in {function}, at +{place:#x} of {}", object.path.display()),
            None => format!("at +{place:#x} of {}", object.path.display()),
        }
    }

    /// For people: a function, and where it was called.
    pub(crate) fn call_text(&self, call: Call) -> String {
        match self.describe(call.site) {
            place if place.is_empty() => call.fun.name().into(),
            place => format!("{} ({place})", call.fun.name()),
        }
    }
}

/// The function around `place`, the innermost where several are inlined into each other.
fn function_at(loader: &Loader, place: u64) -> Option<String> {
    let by_frames = || {
        let mut frames = loader.find_frames(place).ok()?;
        let function = frames.next().ok()??.function?;
        Some(function.demangle().ok()?.into_owned())
    };
    by_frames().or_else(|| Some(loader.find_symbol(place)?.to_owned()))
}

/// The exported function before an address of this process.
fn exported(address: usize) -> Option<String> {
    // SAFETY: a Dl_info is plain data, for which zeros are valid.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: looks the address up and reads nothing there; fills what it is given.
    let found = unsafe { libc::dladdr(address as *const c_void, &mut info) };
    if found == 0 || info.dli_sname.is_null() {
        return None;
    }
    // SAFETY: the name is a string of the object, which is in memory.
    Some(
        unsafe { CStr::from_ptr(info.dli_sname) }
            .to_string_lossy()
            .into_owned(),
    )
}

impl Object {
    fn has(&self, address: usize) -> bool {
        (self.range.0..self.range.1).contains(&address)
    }
}

/// 24 bits of a name: FNV-1a, folded.
fn hash_of(name: &[u8]) -> u64 {
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    (hash ^ hash >> 24 ^ hash >> 48) & 0xff_ffff
}

/// All objects in memory.
fn objects() -> Vec<Object> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, list: *mut c_void) -> c_int {
        // SAFETY: the dynamic linker gives a description, and `list` is the vector below, which nobody else uses meanwhile.
        let (info, list) = unsafe { (&*info, &mut *list.cast::<Vec<Object>>()) };
        let headers = if info.dlpi_phdr.is_null() {
            &[]
        } else {
            // SAFETY: as many headers as it says.
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
        };
        let bias = info.dlpi_addr as usize;
        let mut range = (usize::MAX, 0);
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            let from = bias.wrapping_add(header.p_vaddr as usize);
            range = (
                range.0.min(from),
                range.1.max(from.wrapping_add(header.p_memsz as usize)),
            );
        }
        let name = if info.dlpi_name.is_null() {
            &[]
        } else {
            // SAFETY: a string of the dynamic linker's.
            unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()
        };
        // The program itself has no name here.
        let path = if name.is_empty() {
            std::fs::read_link("/proc/self/exe").unwrap_or_default()
        } else {
            PathBuf::from(OsStr::from_bytes(name))
        };
        let hash = hash_of(Path::file_name(&path).unwrap_or_default().as_bytes());
        list.push(Object {
            hash,
            bias,
            path,
            range,
        });
        0
    }
    let mut list: Vec<Object> = Vec::new();
    // SAFETY: `note` is called with the vector, before this returns.
    unsafe { libc::dl_iterate_phdr(Some(note), core::ptr::from_mut(&mut list).cast()) };
    list
}

unsafe extern "C" {
    // Of the unwinder that the language's runtime is linked with (Itanium C++ ABI, level I).
    fn _Unwind_Backtrace(
        visit: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// The first return address on the stack that is outside of `own`; 0: none.
fn caller(own: (usize, usize)) -> usize {
    struct Search {
        own: (usize, usize),
        left: usize,
        found: usize,
    }
    unsafe extern "C" fn visit(frame: *mut c_void, search: *mut c_void) -> c_int {
        const GO_ON: c_int = 0;
        const STOP: c_int = 4;
        // SAFETY: `search` is the one below, which nobody else uses meanwhile.
        let search = unsafe { &mut *search.cast::<Search>() };
        // SAFETY: the unwinder's own frame.
        let address = unsafe { _Unwind_GetIP(frame) };
        if search.left == 0 || address == 0 {
            return STOP;
        }
        search.left -= 1;
        if (search.own.0..search.own.1).contains(&address) {
            return GO_ON;
        }
        search.found = address;
        STOP
    }
    let mut search = Search {
        own,
        left: DEPTH,
        found: 0,
    };
    // SAFETY: `visit` is called with `search`, before this returns.
    unsafe { _Unwind_Backtrace(visit, core::ptr::from_mut(&mut search).cast()) };
    search.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_tells_function_and_line() {
        let sites = Sites {
            own: (0, 0),
            ..Sites::new()
        };
        // Nothing counts as this library, so that the innermost frame is the caller.
        let text = sites.describe(sites.here());
        assert!(text.contains("site"), "{text}");
    }

    #[test]
    fn a_site_of_another_program_is_told_as_such() {
        let text = Sites::new().describe(Site(0x12_3456 << PLACE_BITS | 0x42));
        assert!(text.contains("+0x42") && text.contains("does not have"), "{text}");
        assert_eq!(Sites::new().describe(Site::default()), "");
    }
}
