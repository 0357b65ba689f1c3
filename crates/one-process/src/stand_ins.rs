//! Functions of the C library that this library stands in for, and small ones that keep something between calls, which each rank is to have for itself.

use crate::rank::running;
use libc::{FILE, c_char, c_int, c_void, time_t, tm};
use std::ffi::CStr;

/// The function of this name that this library stands in for.
pub fn next(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a plain question for a symbol.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The function of this name that this library stands in for, as a function of type `F`.
///
/// # Safety
/// It has that type.
pub unsafe fn next_as<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: as long as an address, and the caller's promise.
    next(name).map(|function| unsafe { std::mem::transmute_copy(&function) })
}

/// See `fclose(3)`. The standard streams are all ranks': they stay open, with what was written to them on its way.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fclose(stream: *mut FILE) -> c_int {
    unsafe extern "C" {
        static stdin: *mut FILE;
        static stdout: *mut FILE;
        static stderr: *mut FILE;
    }
    // SAFETY: variables of the C library's, which nobody changes meanwhile: the process has one thread.
    let standard = unsafe { [stdin, stdout, stderr] };
    if running().is_some() && standard.contains(&stream) {
        // SAFETY: an open stream.
        return unsafe { libc::fflush(stream) };
    }
    // SAFETY: the C library's function of this name has this type, and is given what was given here.
    unsafe {
        let real = next_as::<unsafe extern "C" fn(*mut FILE) -> c_int>(c"fclose");
        real.map_or(libc::EOF, |real| real(stream))
    }
}

/// See `strtok(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strtok(string: *mut c_char, separators: *const c_char) -> *mut c_char {
    thread_local!(static BESIDE: std::cell::Cell<*mut c_char> = const { std::cell::Cell::new(std::ptr::null_mut()) });
    let kept = running().map_or_else(
        || BESIDE.with(std::cell::Cell::as_ptr),
        |rank| rank.token.as_ptr(),
    );
    // SAFETY: the caller's promise, and room for where the next call goes on.
    unsafe { libc::strtok_r(string, separators, kept) }
}

type Split = unsafe extern "C" fn(*const time_t, *mut tm) -> *mut tm;

/// A function that gives the address of a `tm`, which is the running rank's.
unsafe fn split(name: &CStr, time: *const time_t, into: Split) -> *mut tm {
    let Some(rank) = running() else {
        // SAFETY: the C library's function of one of these names has this type, and is given what was given here.
        return unsafe {
            let real = next_as::<unsafe extern "C" fn(*const time_t) -> *mut tm>(name);
            real.map_or(std::ptr::null_mut(), |real| real(time))
        };
    };
    unsafe extern "C" {
        fn tzset();
    }
    // SAFETY: the caller's promise, and room for a `tm`.
    unsafe {
        tzset();
        into(time, rank.time.as_ptr())
    }
}

/// See `localtime(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn localtime(time: *const time_t) -> *mut tm {
    // SAFETY: the caller's promise.
    unsafe { split(c"localtime", time, libc::localtime_r) }
}

/// See `gmtime(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gmtime(time: *const time_t) -> *mut tm {
    // SAFETY: the caller's promise.
    unsafe { split(c"gmtime", time, libc::gmtime_r) }
}
