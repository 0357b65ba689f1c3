//! What is run as each rank: the program's `main`, and what is run before and after it.

use crate::modules::{Main, Module};
use crate::segments::Segments;
use libc::{c_char, c_int};

/// What is run as each rank.
pub struct Program {
    pub main: Main,
    /// Of programs that bring their own, from before glibc 2.34, in place of the program's constructors.
    pub init: Option<Main>,
    /// The program, last, and its libraries.
    pub modules: Vec<Module>,
    /// Variables as they were before anything of the program or its libraries ran.
    pub segments: Option<Segments>,
}

impl Program {
    /// Run it on this stack.
    ///
    /// # Safety
    /// `argv` and `environ` are as `main` expects them, for as long as the program runs. The variables are those of a program that has not begun.
    pub unsafe fn begin(&self, argc: c_int, argv: *mut *mut c_char, environ: *mut *mut c_char) -> c_int {
        let Some((program, libraries)) = self.modules.split_last() else {
            return 1;
        };
        let of_libraries = libraries.iter().flat_map(|it| &it.constructors);
        let of_program = match &self.init {
            Some(init) => std::slice::from_ref(init),
            None => &program.constructors,
        };
        for function in of_libraries.chain(of_program) {
            // SAFETY: the caller's promise; what the loader and the C library would call now, in their order.
            unsafe { function(argc, argv, environ) };
        }
        // SAFETY: the caller's promise.
        unsafe { (self.main)(argc, argv, environ) }
    }

    /// What it and its libraries have for the end, after all else, is done for the rank that runs.
    pub fn destroy(&self) {
        for function in self.modules.iter().rev().flat_map(|it| &it.destructors) {
            // SAFETY: functions of the modules for this, in their order.
            unsafe { function() };
        }
    }
}
