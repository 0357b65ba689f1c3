//! What a process has once, and each rank is to have: its end and what it does then, and the C library's random numbers. And what ranks of one process cannot have:
//! threads and children. Changes of the environment are in [`crate::environment`].

use crate::generators::Random;
use crate::host::host;
use crate::rank::{AtEnd, Rank, running};
use libc::{c_double, c_int, c_long, c_uint, c_void};
use std::ffi::CStr;

/// The function of this name that this library stands in for.
pub fn next(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a plain question for a symbol.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

fn end_by(name: &CStr, code: c_int) -> ! {
    if let Some(function) = next(name) {
        // SAFETY: the C library's function of one of these names has this type.
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> !>(function)(code) }
    }
    std::process::abort()
}

/// The process ends, with what it has printed. What the program has for its end was each rank's.
pub fn end_process(code: c_int) -> ! {
    // SAFETY: null means all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    end_by(c"_exit", code)
}

/// `rank`, which runs, does what it does at its end.
pub fn end_rank(rank: &Rank, code: c_int) -> ! {
    loop {
        let last = rank.at_end.borrow_mut().pop();
        let Some((function, argument)) = last else { break };
        // SAFETY: the program's own, and its argument, as it was given for this.
        unsafe { function(argument) };
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

/// See the C++ ABI; `atexit` comes here too.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_atexit(function: AtEnd, argument: *mut c_void, module: *mut c_void) -> c_int {
    if let Some(rank) = running() {
        rank.at_end.borrow_mut().push((function, argument));
        return 0;
    }
    let Some(real) = next(c"__cxa_atexit") else {
        return -1;
    };
    type Real = unsafe extern "C" fn(AtEnd, *mut c_void, *mut c_void) -> c_int;
    // SAFETY: the C library's function of this name has this type, and is given what was given here.
    unsafe { std::mem::transmute::<*mut c_void, Real>(real)(function, argument, module) }
}

/// See `fclose(3)`. The standard streams are all ranks': they stay open, with what was written to them on its way.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fclose(stream: *mut libc::FILE) -> c_int {
    unsafe extern "C" {
        static stdin: *mut libc::FILE;
        static stdout: *mut libc::FILE;
        static stderr: *mut libc::FILE;
    }
    // SAFETY: variables of the C library's, which nobody changes meanwhile: the process has one thread.
    let standard = unsafe { [stdin, stdout, stderr] };
    if running().is_some() && standard.contains(&stream) {
        // SAFETY: an open stream.
        return unsafe { libc::fflush(stream) };
    }
    let Some(real) = next(c"fclose") else {
        return libc::EOF;
    };
    type Real = unsafe extern "C" fn(*mut libc::FILE) -> c_int;
    // SAFETY: as for `__cxa_atexit`.
    unsafe { std::mem::transmute::<*mut c_void, Real>(real)(stream) }
}

/// The program wants what ranks in one process cannot have.
fn refuse(rank: &Rank, what: &str) -> ! {
    eprintln!(
        "farpost sim: rank {} {what}, which ranks in one process cannot: run it without --one-process",
        rank.number
    );
    if let Some(host) = host() {
        host.memory.set_abort(rank.number, 1, what);
    }
    rank.end(1)
}

/// See `pthread_create(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut c_void,
    attributes: *const c_void,
    function: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    if let Some(rank) = running() {
        refuse(rank, "starts a thread");
    }
    let Some(real) = next(c"pthread_create") else {
        return libc::EAGAIN;
    };
    type Real = unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, *mut c_void) -> c_int;
    // SAFETY: as for `__cxa_atexit`.
    unsafe { std::mem::transmute::<*mut c_void, Real>(real)(thread, attributes, function, argument) }
}

/// See `fork(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn fork() -> libc::pid_t {
    if let Some(rank) = running() {
        refuse(rank, "calls fork");
    }
    match next(c"fork") {
        // SAFETY: as for `__cxa_atexit`.
        Some(real) => unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> libc::pid_t>(real)() },
        None => -1,
    }
}

/// Of the running rank, or of the process where none runs.
fn with_random<T>(body: impl FnOnce(&mut Random) -> T) -> T {
    thread_local!(static BESIDE: std::cell::RefCell<Box<Random>> = std::cell::RefCell::default());
    match running() {
        Some(rank) => body(&mut rank.random.borrow_mut()),
        None => BESIDE.with_borrow_mut(|random| body(random)),
    }
}

/// See `random(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn random() -> c_long {
    with_random(Random::draw).into()
}

/// See `random(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn srandom(seed: c_uint) {
    with_random(|random| random.seed(seed));
}

/// See `rand(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn rand() -> c_int {
    with_random(Random::draw)
}

/// See `rand(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn srand(seed: c_uint) {
    srandom(seed);
}

/// See `drand48(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn srand48(seed: c_long) {
    with_random(|random| random.seed_48(seed));
}

/// See `drand48(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn drand48() -> c_double {
    with_random(Random::real_48)
}

/// See `drand48(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn lrand48() -> c_long {
    with_random(|random| random.integer_48(false))
}

/// See `drand48(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn mrand48() -> c_long {
    with_random(|random| random.integer_48(true))
}
