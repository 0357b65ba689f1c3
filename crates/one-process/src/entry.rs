//! Where the program starts: between the C library's start and `main`.

use crate::modules::{Main, Module};
use crate::program::Program;
use crate::segments::Segments;
use crate::{ends, modules, run, stand_ins};
use farpost_sim::plan::VARIABLE;
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
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

/// What there was before anything ran.
struct Loaded {
    modules: Vec<Module>,
    segments: Segments,
}

static LOADED: AtomicPtr<Loaded> = AtomicPtr::new(ptr::null_mut());

/// What the loader calls before all else (`initfirst`, see `build.rs`), libraries' constructors too. There is no environment yet but what it is given.
unsafe extern "C" fn first(_: c_int, _: *mut *mut c_char, mut environ: *mut *mut c_char) {
    let mut wanted = false;
    // SAFETY: strings up to a null.
    unsafe {
        while !environ.is_null() && !(*environ).is_null() {
            let variable = CStr::from_ptr(*environ).to_bytes();
            wanted |= variable
                .strip_prefix(VARIABLE.as_bytes())
                .is_some_and(|rest| rest.first() == Some(&b'='));
            environ = environ.add(1);
        }
    }
    if wanted {
        let modules = modules::own();
        let segments = Segments::find(&modules);
        LOADED.store(
            Box::into_raw(Box::new(Loaded { modules, segments })),
            Ordering::Relaxed,
        );
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static FIRST: unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = first;

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
    let (mut instead, mut before) = (main, init);
    if let (Some(main), false) = (main, LOADED.load(Ordering::Relaxed).is_null()) {
        // SAFETY: stored by `first`, and taken once: a program has one start.
        let Loaded {
            modules,
            mut segments,
        } = *unsafe { Box::from_raw(LOADED.load(Ordering::Relaxed)) };
        for (start, len) in modules.iter().flat_map(Module::shared_variables) {
            segments.leave_out(start, len);
        }
        let program = Program {
            main,
            init,
            modules,
            segments: Some(segments),
        };
        PROGRAM.store(Box::into_raw(Box::new(program)), Ordering::Relaxed);
        // The program's constructors are for ranks too, and are not called where there is a function for that.
        instead = Some(run_all);
        before = Some(nothing);
    }
    // SAFETY: as it was called, but for another `main` and another function before it.
    unsafe { start(instead, argc, argv, before, fini, rtld_fini, stack_end) }
}

extern "C" fn nothing(_: c_int, _: *mut *mut c_char, _: *mut *mut c_char) -> c_int {
    0
}

/// Stands in for `main`.
extern "C" fn run_all(argc: c_int, argv: *mut *mut c_char, _: *mut *mut c_char) -> c_int {
    // SAFETY: stored above, and taken once: a program has one start.
    let program = unsafe { Box::from_raw(PROGRAM.load(Ordering::Relaxed)) };
    // SAFETY: what `main` is given: so many strings.
    let arguments =
        (0..argc as usize).map(|nr| unsafe { std::ffi::CStr::from_ptr(*argv.add(nr)) }.to_owned());
    let code = run::run(*program, arguments.collect());
    ends::end_process(code)
}
