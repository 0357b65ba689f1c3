//! The library of `shim.c`, compiled for a personality and a real library, loaded, and its counts.
#![allow(dead_code)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// What the library counted, of all endpoints of this process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// What a caller may not do. Each was told on standard error.
    pub violations: u64,
    /// Memory registered, ever.
    pub registrations: u64,
    /// Of these, not closed yet.
    pub alive: u64,
    pub transfers: u64,
    pub sends: u64,
    pub injects: u64,
    /// Operations told to come again.
    pub again: u64,
    /// Times that a completion was overtaken.
    pub delayed: u64,
    /// Completions made errors.
    pub failed: u64,
}

/// A library that behaves as a provider.
pub struct Shim {
    /// What the library was loaded as. The file is gone.
    pub path: PathBuf,
    count: unsafe extern "C" fn(*mut Counts),
}

impl Shim {
    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        // SAFETY: the library is never unloaded; the structure is declared alike on both sides.
        unsafe { (self.count)(&raw mut counts) };
        counts
    }
}

/// The real libraries: the system's, or those named in `FARPOST_TEST_OFI_LIBRARIES` (paths separated by colons).
pub fn libraries() -> Vec<OsString> {
    let more = std::env::var_os("FARPOST_TEST_OFI_LIBRARIES").unwrap_or_default();
    let more = std::env::split_paths(&more).map(PathBuf::into_os_string);
    let named: Vec<_> = more.filter(|p| !p.is_empty()).collect();
    if named.is_empty() {
        vec!["libfabric.so.1".into()]
    } else {
        named
    }
}

/// `provider` on `real`. `load` is called while the file is there, to load it by its path. None, said aloud: no compiler or no
/// headers.
pub fn build(provider: &'static str, real: &OsString, load: impl FnOnce(&PathBuf)) -> Option<Shim> {
    /// Compilers and loaded files one after the other.
    static ONE: Mutex<u32> = Mutex::new(0);
    let mut number = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    *number += 1;
    let place = std::env::temp_dir().join(format!("farpost-ofi-shim-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let path = place.join("libfabric.so.1");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../ofi/tests/ofi_shim/shim.c");
    let outcome = Command::new("cc")
        .args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Wno-missing-field-initializers",
            "-O1",
            "-g",
        ])
        .args(["-shared", "-fPIC", "-Wl,-Bsymbolic"])
        .arg(format!("-DPERSONALITY=\"{provider}\""))
        .arg(format!("-DREAL=\"{}\"", real.to_str().expect("a path in UTF-8")))
        .arg("-o")
        .args([path.as_os_str(), source.as_ref()])
        .arg("-ldl")
        .output();
    let why = match outcome {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(format!("no C compiler ({error})")),
    };
    if let Some(why) = why {
        std::fs::remove_dir_all(&place).unwrap();
        // Without the headers there is nothing to compile against; a compiler that finds them must take the library.
        assert!(
            !why.contains("shim.c") || why.contains("No such file"),
            "the library does not compile: {why}"
        );
        let first = why.lines().next().unwrap_or_default();
        farpost_testing::skipped(&format!(
            "{provider} was not played: install cc and libfabric-dev: {first}"
        ));
        return None;
    }
    // SAFETY: our own library, which only looks up functions when it is loaded.
    let library = unsafe { libloading::Library::new(&path) }.unwrap();
    // SAFETY: declared so in `shim.c`.
    let count = unsafe {
        *library
            .get::<unsafe extern "C" fn(*mut Counts)>(b"shim_counts")
            .unwrap()
    };
    std::mem::forget(library);
    load(&path);
    std::fs::remove_dir_all(&place).unwrap();
    Some(Shim { path, count })
}
