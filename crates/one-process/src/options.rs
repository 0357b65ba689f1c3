//! `getopt` and its like, which keep in the C library where they are: with ranks one after another it begins anew for each.

use crate::rank::running;
use crate::stand_ins::next_as;
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering};

unsafe extern "C" {
    /// A rank's own, as it looks at it.
    static mut optind: c_int;
}

/// The rank that was the last one to call one of them.
static LAST: AtomicU32 = AtomicU32::new(u32::MAX);

type Arguments = *const *mut c_char;

/// Call with the arguments from where the rank begins on. Zero as the next one's number makes the C library begin anew, with the first one.
unsafe fn from_where_it_begins(
    argc: c_int,
    argv: Arguments,
    real: impl FnOnce(c_int, Arguments) -> c_int,
) -> c_int {
    let Some(rank) = running() else {
        return real(argc, argv);
    };
    // SAFETY: the C library's variable, of a process with one thread.
    let next = unsafe { optind };
    let others = LAST.swap(rank.number, Ordering::Relaxed) != rank.number;
    if others || next <= rank.options_from.get() {
        rank.options_from.set(next.max(1) - 1);
    }
    let from = rank.options_from.get();
    let begins = others || next <= from;
    // SAFETY: as above; so many arguments are there, and a null behind them.
    unsafe {
        optind = if begins { 0 } else { next - from };
        let from_there = argv.add(from.min(argc).max(0) as usize);
        let found = real(argc - from, from_there);
        optind += from;
        found
    }
}

type Short = unsafe extern "C" fn(c_int, Arguments, *const c_char) -> c_int;
type Long = unsafe extern "C" fn(c_int, Arguments, *const c_char, *const c_void, *mut c_int) -> c_int;

/// # Safety
/// As the function of this name.
unsafe fn short(name: &CStr, argc: c_int, argv: Arguments, letters: *const c_char) -> c_int {
    // SAFETY: the C library's functions of these names have this type, and are given what was given here.
    unsafe {
        from_where_it_begins(argc, argv, |argc, argv| {
            next_as::<Short>(name).map_or(-1, |real| real(argc, argv, letters))
        })
    }
}

/// # Safety
/// As the function of this name.
unsafe fn long(
    name: &CStr,
    (argc, argv): (c_int, Arguments),
    letters: *const c_char,
    (words, found): (*const c_void, *mut c_int),
) -> c_int {
    // SAFETY: as above.
    unsafe {
        from_where_it_begins(argc, argv, |argc, argv| {
            next_as::<Long>(name).map_or(-1, |real| real(argc, argv, letters, words, found))
        })
    }
}

/// See `getopt(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getopt(argc: c_int, argv: Arguments, letters: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { short(c"getopt", argc, argv, letters) }
}

/// See `getopt(3)`; programs that want no extensions come here.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __posix_getopt(argc: c_int, argv: Arguments, letters: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { short(c"__posix_getopt", argc, argv, letters) }
}

/// See `getopt_long(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getopt_long(
    argc: c_int,
    argv: Arguments,
    letters: *const c_char,
    words: *const c_void,
    found: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { long(c"getopt_long", (argc, argv), letters, (words, found)) }
}

/// See `getopt_long(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getopt_long_only(
    argc: c_int,
    argv: Arguments,
    letters: *const c_char,
    words: *const c_void,
    found: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { long(c"getopt_long_only", (argc, argv), letters, (words, found)) }
}
