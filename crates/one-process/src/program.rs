//! What is run as each rank: the program's `main`, and what the C library calls before it.

use crate::segments::Segments;
use libc::{c_char, c_int, c_void};

/// A program's `main`, and what runs before it.
pub type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

/// What is run as each rank.
pub struct Program {
    pub main: Main,
    /// Of programs that bring their own, from before glibc 2.34.
    pub init: Option<Main>,
    /// Variables as they were before anything of the program ran.
    pub segments: Option<Segments>,
}

impl Program {
    /// Run it on this stack.
    ///
    /// # Safety
    /// `argv` and `environ` are as `main` expects them, for as long as the program runs. The variables are those of a program that has not begun.
    pub unsafe fn begin(&self, argc: c_int, argv: *mut *mut c_char, environ: *mut *mut c_char) -> c_int {
        match self.init {
            // SAFETY: what the C library would call now.
            Some(init) => unsafe {
                init(argc, argv, environ);
            },
            None => {
                for function in constructors() {
                    // SAFETY: as above: the program's own functions, in their order.
                    unsafe { function(argc, argv, environ) };
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { (self.main)(argc, argv, environ) }
    }
}

/// What the program, not its libraries, has to be run before `main`.
fn constructors() -> Vec<Main> {
    let mut found: Vec<Main> = Vec::new();
    // SAFETY: the callback takes what is documented, and the vector outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first_module), (&raw mut found).cast()) };
    found
}

/// The first module is the program.
unsafe extern "C" fn first_module(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    const DT_INIT: i64 = 12;
    const DT_INIT_ARRAY: i64 = 25;
    const DT_INIT_ARRAYSZ: i64 = 27;
    // SAFETY: as `dl_iterate_phdr` promises, and what the caller above passes.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Main>>()) };
    let base = info.dlpi_addr as usize;
    // SAFETY: so many headers are there.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let Some(dynamic) = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC) else {
        return 1;
    };
    let (mut init, mut array, mut bytes) = (0, 0, 0);
    let mut entry = (base + dynamic.p_vaddr as usize) as *const [i64; 2];
    loop {
        // SAFETY: the section has pairs up to one with tag 0.
        let [tag, value] = unsafe { entry.read() };
        match tag {
            0 => break,
            DT_INIT => init = value as usize,
            DT_INIT_ARRAY => array = value as usize,
            DT_INIT_ARRAYSZ => bytes = value as usize,
            _ => {}
        }
        // SAFETY: not the last one.
        entry = unsafe { entry.add(1) };
    }
    let mut add = |address: usize| {
        if address != 0 && address != usize::MAX {
            // SAFETY: the linker's word that functions of this type are there; null and -1 are none.
            found.push(unsafe { std::mem::transmute::<usize, Main>(address) });
        }
    };
    if init != 0 {
        add(base + init);
    }
    for number in 0..bytes / size_of::<usize>() {
        // SAFETY: the array that the section names; it has been relocated.
        add(unsafe { ((base + array) as *const usize).add(number).read() });
    }
    1
}
