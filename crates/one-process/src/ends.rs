//! The end of a process, which each rank has for itself, and what is to be done then.

use crate::host::host;
use crate::rank::{AtEnd, Plain, Rank, WithCode, running};
use crate::stand_ins::next_as;
use libc::{c_int, c_void};
use std::cell::RefCell;
use std::ffi::CStr;

fn end_by(name: &CStr, code: c_int) -> ! {
    // SAFETY: the C library's functions of these names have this type.
    match unsafe { next_as::<unsafe extern "C" fn(c_int) -> !>(name) } {
        // SAFETY: as above.
        Some(function) => unsafe { function(code) },
        None => std::process::abort(),
    }
}

/// The process ends, with what it has printed. What the program has for its end was each rank's.
pub fn end_process(code: c_int) -> ! {
    // SAFETY: null means all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    end_by(c"_exit", code)
}

/// Call what is left of those that are `wanted`, the last one first.
fn run(list: &RefCell<Vec<AtEnd>>, code: c_int, wanted: impl Fn(&AtEnd) -> bool) {
    loop {
        let last = list.borrow().iter().rposition(&wanted);
        let last = last.map(|nr| list.borrow_mut().remove(nr));
        match last {
            None => break,
            // SAFETY: the program's own, and its argument, as it was given for this.
            Some(AtEnd::Plain(function, argument, _)) => unsafe { function(argument) },
            // SAFETY: as above.
            Some(AtEnd::WithCode(function, argument)) => unsafe { function(code, argument) },
        }
    }
}

/// `rank`, which runs, does what it does at its end.
pub fn end_rank(rank: &Rank, code: c_int) -> ! {
    run(&rank.at_end_of_thread, code, |_| true);
    run(&rank.at_end, code, |_| true);
    if !rank.finished.replace(true)
        && let Some(host) = host()
    {
        host.program.destroy();
    }
    // SAFETY: null means all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    rank.end(code)
}

/// See `exit(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn exit(code: c_int) -> ! {
    match running() {
        Some(rank) => end_rank(rank, code),
        None => end_by(c"exit", code),
    }
}

/// See `_exit(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(code: c_int) -> ! {
    match running() {
        Some(rank) => {
            // Who aborts a job has the process ended in a second, should this not do it; reports may take longer.
            // SAFETY: takes an integer.
            unsafe { libc::alarm(0) };
            rank.end(code)
        }
        None => end_by(c"_exit", code),
    }
}

/// See `_Exit(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(code: c_int) -> ! {
    _exit(code)
}

/// See `quick_exit(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn quick_exit(code: c_int) -> ! {
    match running() {
        Some(rank) => {
            run(&rank.at_quick_end, code, |_| true);
            _exit(code)
        }
        None => end_by(c"quick_exit", code),
    }
}

/// See `pthread_exit(3)`: a rank's thread is its only one.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_exit(value: *mut c_void) -> ! {
    if let Some(rank) = running() {
        end_rank(rank, 0)
    }
    // SAFETY: the C library's function of this name has this type, and is given what was given here.
    match unsafe { next_as::<unsafe extern "C" fn(*mut c_void) -> !>(c"pthread_exit") } {
        // SAFETY: as above.
        Some(real) => unsafe { real(value) },
        None => std::process::abort(),
    }
}

type Registers = unsafe extern "C" fn(Plain, *mut c_void, *mut c_void) -> c_int;

/// A function is to be called at the end of the running rank, or else as the C library's function of this name has it.
unsafe fn register(
    name: &CStr,
    list: impl FnOnce(&Rank) -> &RefCell<Vec<AtEnd>>,
    (function, argument, module): (Plain, *mut c_void, *mut c_void),
) -> c_int {
    if let Some(rank) = running() {
        list(rank)
            .borrow_mut()
            .push(AtEnd::Plain(function, argument, module));
        return 0;
    }
    // SAFETY: the C library's function of one of these names has this type, and is given what was given here.
    unsafe { next_as::<Registers>(name).map_or(-1, |real| real(function, argument, module)) }
}

/// See the C++ ABI; `atexit` comes here too.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_atexit(function: Plain, argument: *mut c_void, module: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { register(c"__cxa_atexit", |rank| &rank.at_end, (function, argument, module)) }
}

/// See the C++ ABI: what belongs to a thread, and ends before all else.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_thread_atexit_impl(
    function: Plain,
    argument: *mut c_void,
    module: *mut c_void,
) -> c_int {
    let name = c"__cxa_thread_atexit_impl";
    // SAFETY: the caller's promise.
    unsafe { register(name, |rank| &rank.at_end_of_thread, (function, argument, module)) }
}

/// See the C++ ABI: what was registered for a module, or at all if it is null, is called now.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_finalize(module: *mut c_void) {
    if let Some(rank) = running() {
        let of_module =
            |it: &AtEnd| matches!(it, AtEnd::Plain(_, _, whose) if module.is_null() || *whose == module);
        return run(&rank.at_end, 0, of_module);
    }
    // SAFETY: as for `register`.
    if let Some(real) = unsafe { next_as::<unsafe extern "C" fn(*mut c_void)>(c"__cxa_finalize") } {
        // SAFETY: as above.
        unsafe { real(module) }
    }
}

/// See `at_quick_exit(3)`, which comes here.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_at_quick_exit(function: Plain, module: *mut c_void) -> c_int {
    if let Some(rank) = running() {
        rank.at_quick_end
            .borrow_mut()
            .push(AtEnd::Plain(function, std::ptr::null_mut(), module));
        return 0;
    }
    // SAFETY: as for `register`.
    unsafe {
        let real = next_as::<unsafe extern "C" fn(Plain, *mut c_void) -> c_int>(c"__cxa_at_quick_exit");
        real.map_or(-1, |real| real(function, module))
    }
}

/// See `on_exit(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn on_exit(function: WithCode, argument: *mut c_void) -> c_int {
    if let Some(rank) = running() {
        rank.at_end.borrow_mut().push(AtEnd::WithCode(function, argument));
        return 0;
    }
    // SAFETY: as for `register`.
    unsafe {
        let real = next_as::<unsafe extern "C" fn(WithCode, *mut c_void) -> c_int>(c"on_exit");
        real.map_or(-1, |real| real(function, argument))
    }
}
