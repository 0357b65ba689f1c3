//! Words that libraries of the process keep for their caller, not for themselves: each rank has its own.

use libc::c_void;
use std::ffi::CStr;

/// Variables by name, and their lengths.
const VARIABLES: [(&CStr, usize); 5] = [
    (c"optarg", size_of::<*mut u8>()),
    (c"optind", 4),
    (c"opterr", 4),
    (c"optopt", 4),
    (c"signgam", 4),
];

/// Functions that say where a variable of this thread's is, and the variables' lengths. The last one has a C++ program's exceptions that are caught, and how many are under way.
const FUNCTIONS: [(&CStr, usize); 3] = [
    (c"__errno_location", 4),
    (c"__h_errno_location", 4),
    (c"__cxa_get_globals", 2 * size_of::<usize>()),
];

/// Whether the variable of this name is one.
pub fn has(name: &CStr) -> bool {
    VARIABLES.iter().any(|(variable, _)| *variable == name)
}

fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a plain question for a symbol.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Where they are in this process, and how long.
pub fn all() -> Vec<(usize, usize)> {
    let variables = VARIABLES
        .iter()
        .filter_map(|(name, len)| Some((find(name)?.expose_provenance(), *len)));
    let functions = FUNCTIONS.iter().filter_map(|(name, len)| {
        let function = find(name)?;
        // SAFETY: a function of this name takes nothing and gives an address.
        let function =
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> *mut c_void>(function) };
        Some((function().expose_provenance(), *len))
    });
    variables.chain(functions).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_error_number_is_among_them() {
        // SAFETY: this thread's variable.
        let here = unsafe { libc::__errno_location() }.expose_provenance();
        let all = super::all();
        assert!(all.contains(&(here, 4)));
        assert!(all.len() >= 6, "{all:?}");
    }
}
