//! The shared object `libfabric.so.1`, looked for when it is first needed: the same binary runs where it is absent.
//!
//! Cost class: *set-up path*.

use super::ffi;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString, c_int};
use std::path::Path;
use std::sync::Mutex;

/// The oldest interface that has all that is used here (2019; memory registration modes and receive buffers as now).
const OLDEST: u32 = ffi::version(1, 9);
/// The newest interface that this code knows. A newer library behaves as this one when asked to.
const KNOWN: u32 = ffi::version(1, 17);
/// What is looked for unless `FARPOST_OFI_LIBRARY` names a file.
pub const DEFAULT_NAME: &str = "libfabric.so.1";

/// Why there is no libfabric fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfiError {
    /// No library.
    #[error(
        "libfabric is not available: {name} could not be loaded ({why}); install libfabric (Debian: libfabric1), or name its file with FARPOST_OFI_LIBRARY"
    )]
    Absent { name: String, why: String },
    /// A library that lacks what is needed.
    #[error(
        "{name} is libfabric with interface {major}.{minor}, which is too old: Farpost needs 1.9 or later; name a newer one with FARPOST_OFI_LIBRARY"
    )]
    TooOld { name: String, major: u32, minor: u32 },
    /// A file of that name that is something else.
    #[error("{name} is not libfabric: it has no {symbol}; name the right file with FARPOST_OFI_LIBRARY")]
    NotLibfabric { name: String, symbol: &'static str },
    /// The library has nothing for us.
    #[error("libfabric has no network that Farpost can use: {why}")]
    NoProvider { why: String },
    /// The configuration cannot be met.
    #[error("{0}")]
    Refused(String),
    /// A call failed.
    #[error("libfabric provider {provider}: {what} failed: {why}")]
    Call {
        provider: String,
        what: &'static str,
        why: String,
    },
}

/// The functions of the shared object. It is never unloaded: providers may have threads.
pub struct Library {
    name: String,
    version: u32,
    getinfo: ffi::GetInfo,
    freeinfo: ffi::FreeInfo,
    dupinfo: ffi::DupInfo,
    pub(super) fabric: ffi::OpenFabric,
    strerror: ffi::StrError,
    _object: libloading::Library,
}

impl Library {
    /// Load the library, or the one already loaded from the same `path`. None: [`DEFAULT_NAME`].
    pub fn load(path: Option<&Path>) -> Result<&'static Library, OfiError> {
        static LOADED: Mutex<BTreeMap<OsString, &'static Library>> = Mutex::new(BTreeMap::new());
        let name = path.map_or_else(|| OsString::from(DEFAULT_NAME), |p| p.as_os_str().to_owned());
        let mut loaded = LOADED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(library) = loaded.get(&name) {
            return Ok(library);
        }
        let library: &'static Library = Box::leak(Box::new(Self::open(&name)?));
        loaded.insert(name, library);
        Ok(library)
    }

    fn open(file: &OsString) -> Result<Self, OfiError> {
        let name = file.to_string_lossy().into_owned();
        // SAFETY: loading runs the initialisers of the file that the user or the system's administrator named.
        let object = unsafe { libloading::Library::new(file) }.map_err(|error| OfiError::Absent {
            name: name.clone(),
            // The linker's own words, where it has any.
            why: std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string),
        })?;
        /// A function of the object.
        ///
        /// # Safety
        /// `T` is the type of the function called `symbol`.
        unsafe fn find<T: Copy>(
            object: &libloading::Library,
            name: &str,
            symbol: &'static str,
        ) -> Result<T, OfiError> {
            // SAFETY: the caller vouches for the type.
            let found = unsafe { object.get::<T>(symbol.as_bytes()) };
            found.map(|f| *f).map_err(|_| OfiError::NotLibfabric {
                name: name.to_owned(),
                symbol,
            })
        }
        // SAFETY: the types are those that the headers declare; they are part of the interface of `libfabric.so.1`.
        let library = unsafe {
            let get_version: ffi::GetVersion = find(&object, &name, "fi_version")?;
            Self {
                version: get_version(),
                getinfo: find(&object, &name, "fi_getinfo")?,
                freeinfo: find(&object, &name, "fi_freeinfo")?,
                dupinfo: find(&object, &name, "fi_dupinfo")?,
                fabric: find(&object, &name, "fi_fabric")?,
                strerror: find(&object, &name, "fi_strerror")?,
                name: name.clone(),
                _object: object,
            }
        };
        let (major, minor) = library.version();
        if library.version < OLDEST {
            return Err(OfiError::TooOld { name, major, minor });
        }
        Ok(library)
    }

    /// The file's name as it was looked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Major and minor version of its interface.
    pub fn version(&self) -> (u32, u32) {
        (self.version >> 16, self.version & 0xffff)
    }

    /// What an error number of libfabric's means.
    pub fn explain(&self, error: c_int) -> String {
        // SAFETY: takes any number and returns a constant string.
        let text = unsafe { (self.strerror)(error.abs()) };
        if text.is_null() {
            return format!("error {error}");
        }
        // SAFETY: a C string that is never freed.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// An empty description to fill in as hints.
    pub fn hints(&'static self) -> Infos {
        // SAFETY: a null argument asks for a fresh, empty description.
        let first = unsafe { (self.dupinfo)(std::ptr::null()) };
        assert!(!first.is_null(), "libfabric has no memory for hints");
        Infos { first, library: self }
    }

    /// `fi_getinfo`: what fits `hints`; from the local address `source` if given (numeric). Empty when nothing does.
    pub fn getinfo(
        &'static self,
        source: Option<&str>,
        flags: u64,
        hints: Option<&Infos>,
    ) -> Result<Infos, c_int> {
        let node = source.map(|text| CString::new(text).unwrap_or_default());
        let node_at = node.as_ref().map_or(std::ptr::null(), |n| n.as_ptr());
        let flags = match node {
            Some(_) => flags | ffi::FI_SOURCE | ffi::FI_NUMERICHOST,
            None => flags,
        };
        let mut first = std::ptr::null_mut();
        let hints = hints.map_or(std::ptr::null(), |h| h.first.cast_const());
        // SAFETY: the strings and hints live until the call returns; the result is owned by `Infos`.
        let code = unsafe {
            (self.getinfo)(
                self.version.min(KNOWN),
                node_at,
                std::ptr::null(),
                flags,
                hints,
                &raw mut first,
            )
        };
        match code {
            0 => Ok(Infos { first, library: self }),
            // Nothing fits.
            code if code == -libc::ENODATA || code == -libc::ENOENT => Ok(Infos {
                first: std::ptr::null_mut(),
                library: self,
            }),
            code => Err(code),
        }
    }

    /// A copy of one description of a list.
    pub fn duplicate(&'static self, info: &ffi::Info) -> Infos {
        // SAFETY: `info` is a description that the library made; the copy belongs to `Infos`.
        let first = unsafe { (self.dupinfo)(info) };
        assert!(!first.is_null(), "libfabric has no memory for a description");
        Infos { first, library: self }
    }
}

/// A list of descriptions (`struct fi_info`), made by the library and given back to it.
pub struct Infos {
    first: *mut ffi::Info,
    library: &'static Library,
}

impl Infos {
    /// The descriptions in libfabric's order.
    pub fn iter(&self) -> impl Iterator<Item = &ffi::Info> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            // SAFETY: a list of the library's, which lives as long as `self`.
            let info = unsafe { next.as_ref() }?;
            next = info.next;
            Some(info)
        })
    }

    /// The first description, as the library wants it.
    pub fn as_ptr(&self) -> *mut ffi::Info {
        self.first
    }
}

impl Drop for Infos {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: made by the library, given back once.
            unsafe { (self.library.freeinfo)(self.first) };
        }
    }
}

/// A C string of the library's as text; empty where there is none.
pub fn text(at: *const std::ffi::c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: the library's strings end with a zero and live as long as the description they belong to, which
    // the callers hold.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}
