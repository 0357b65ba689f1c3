//! Functions of the library under test, looked up by their C names.

use crate::abi::{BenchError, Result, find_library};
use std::ffi::{CStr, c_char, c_int};

/// The library, loaded for good: handlers of ours are known to it.
pub fn open() -> Result<&'static libloading::Library> {
    let path = find_library();
    // SAFETY: loading runs the library's initialisers; it is a library that the user named or installed.
    let lib = unsafe { libloading::os::unix::Library::open(Some(&path), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    match lib {
        Ok(lib) => Ok(Box::leak(Box::new(lib.into()))),
        Err(e) => Err(BenchError::Load {
            path: path.display().to_string(),
            cause: e.to_string(),
        }),
    }
}

/// What [`functions`] says when a name is not there.
pub fn missing(name: &[u8]) -> BenchError {
    BenchError::Load {
        path: find_library().display().to_string(),
        cause: format!(
            "it has no {}",
            String::from_utf8_lossy(name.strip_suffix(b"\0").unwrap_or(name))
        ),
    }
}

/// What a function that failed says, by its interface's function for the latest error.
#[cold]
pub fn failed(
    call: &'static str,
    code: Option<c_int>,
    error: unsafe extern "C" fn() -> *const c_char,
) -> BenchError {
    // SAFETY: these functions return a string that stays until the next error.
    let message = unsafe { CStr::from_ptr(error()) }.to_string_lossy();
    let code = code.map_or(String::new(), |code| format!(" (code {code})"));
    let message = format!("{message}{code}");
    BenchError::Mpi { call, message }
}

/// A structure of function pointers with `load`, from C names and types.
macro_rules! functions {
    ($name:ident { $($field:ident: $symbol:literal ($($arg:ty),*) $(-> $result:ty)?;)* }) => {
        struct $name { $($field: unsafe extern "C" fn($($arg),*) $(-> $result)?,)* }
        impl $name {
            fn load(lib: &'static libloading::Library) -> crate::abi::Result<Self> {
                Ok(Self { $($field: {
                    // SAFETY: the type is the one that the interface's header declares under this name.
                    *unsafe { lib.get::<unsafe extern "C" fn($($arg),*) $(-> $result)?>($symbol) }
                        .map_err(|_| crate::link::library::missing($symbol))?
                },)* })
            }
        }
    };
}
pub(super) use functions;
