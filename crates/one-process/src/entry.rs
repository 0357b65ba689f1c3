//! Where the program starts: between the C library's start and `main`.

use crate::program::{Main, Program};
use crate::segments::Segments;
use crate::{run, stand_ins};
use farpost_sim::plan::VARIABLE;
use libc::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

type Start = unsafe extern "C" fn(
    Option<Main>,
    c_int,
    *mut *mut c_char,
    Option<Main>,
    *mut c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;

static PROGRAM: AtomicPtr<Program> = AtomicPtr::new(ptr::null_mut());

/// See glibc's `csu/libc-start.c`: what a program's first instruction calls.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main(
    main: Option<Main>,
    argc: c_int,
    argv: *mut *mut c_char,
    init: Option<Main>,
    fini: *mut c_void,
    rtld_fini: *mut c_void,
    stack_end: *mut c_void,
) -> c_int {
    let Some(start) = stand_ins::next(c"__libc_start_main") else {
        std::process::abort()
    };
    // SAFETY: the C library's function of this name has this type.
    let start = unsafe { std::mem::transmute::<*mut c_void, Start>(start) };
    let mut instead = main;
    if let (Some(main), true) = (main, std::env::var_os(VARIABLE).is_some()) {
        let segments = Some(Segments::find());
        let program = Program { main, init, segments };
        PROGRAM.store(Box::into_raw(Box::new(program)), Ordering::Relaxed);
        instead = Some(run_all);
    }
    // SAFETY: as it was called, but for another `main`.
    unsafe { start(instead, argc, argv, init, fini, rtld_fini, stack_end) }
}

/// Stands in for `main`.
extern "C" fn run_all(argc: c_int, argv: *mut *mut c_char, _: *mut *mut c_char) -> c_int {
    // SAFETY: stored above, and taken once: a program has one start.
    let program = unsafe { Box::from_raw(PROGRAM.load(Ordering::Relaxed)) };
    // SAFETY: what `main` is given: so many strings.
    let arguments =
        (0..argc as usize).map(|nr| unsafe { std::ffi::CStr::from_ptr(*argv.add(nr)) }.to_owned());
    let code = run::run(*program, arguments.collect());
    stand_ins::end_process(code)
}
