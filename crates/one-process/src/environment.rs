//! Changes of the environment, which each rank has for itself. The C library's functions make room by moving what they made before, whosever it is by now; these
//! leave it as it is.

use libc::{c_char, c_int};
use std::ffi::CStr;
use std::ptr;

unsafe extern "C" {
    /// Null, or addresses of strings up to a null, while no other thread changes it: the process has one.
    static mut environ: *mut *mut c_char;
}

/// The strings of the environment.
fn all() -> Vec<*mut c_char> {
    let mut found = Vec::new();
    // SAFETY: as said at `environ`.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            found.push(*at);
            at = at.add(1);
        }
    }
    found
}

/// From now on it is these, for as long as the process lives: programs keep such addresses.
fn replace(mut strings: Vec<*mut c_char>) {
    strings.push(ptr::null_mut());
    // SAFETY: as said at `environ`.
    unsafe { environ = Box::leak(strings.into_boxed_slice()).as_mut_ptr() };
}

/// Whether `string` sets the variable `name`.
fn sets(string: *const c_char, name: &[u8]) -> bool {
    // SAFETY: a string of the environment.
    let bytes = unsafe { CStr::from_ptr(string) }.to_bytes();
    bytes
        .strip_prefix(name)
        .is_some_and(|rest| rest.first() == Some(&b'='))
}

/// The name that a function was given, if it can be one.
unsafe fn name_of<'a>(name: *const c_char) -> Option<&'a [u8]> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's string.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    (!bytes.is_empty() && !bytes.contains(&b'=')).then_some(bytes)
}

/// Null, or a name without one: as the C library says it.
fn invalid() -> c_int {
    // SAFETY: this thread's variable.
    unsafe { *libc::__errno_location() = libc::EINVAL };
    -1
}

fn put(name: &[u8], string: *mut c_char) {
    let mut strings = all();
    match strings.iter_mut().find(|it| sets(**it, name)) {
        Some(there) => *there = string,
        None => strings.push(string),
    }
    replace(strings);
}

/// See `setenv(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let Some(name) = (unsafe { name_of(name) }) else {
        return invalid();
    };
    if overwrite == 0 && all().iter().any(|it| sets(*it, name)) {
        return 0;
    }
    // SAFETY: as above.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes_with_nul();
    let string = [name, b"=", value].concat();
    put(name, Box::leak(string.into_boxed_slice()).as_mut_ptr().cast());
    0
}

/// See `putenv(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn putenv(string: *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(string) }.to_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(end) => put(&bytes[..end], string),
        // SAFETY: as above.
        None => return unsafe { unsetenv(string) },
    }
    0
}

/// See `unsetenv(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unsetenv(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let Some(name) = (unsafe { name_of(name) }) else {
        return invalid();
    };
    let mut strings = all();
    strings.retain(|it| !sets(*it, name));
    replace(strings);
    0
}

/// See `clearenv(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn clearenv() -> c_int {
    replace(Vec::new());
    0
}
