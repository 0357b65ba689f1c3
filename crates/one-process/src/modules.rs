//! The program and its libraries, as they are loaded.

use crate::library_variables;
use libc::{Elf64_Phdr, c_char, c_int, c_void};
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::path::Path;

/// Libraries whose variables are not a rank's own, by what their names begin with.
const SHARED: [&str; 14] = [
    "libc.so",
    "libc-2",
    "ld-",
    "ld.so",
    "linux-vdso",
    "libm.so",
    "libmvec.so",
    "libdl.so",
    "libpthread.so",
    "librt.so",
    "libresolv.so",
    "libgcc_s.so",
    "libstdc++.so",
    "libgfortran.so",
];

/// A program's `main`, and what runs before it.
pub type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

/// What a function of the program's for its end is.
pub type Destructor = unsafe extern "C" fn();

/// A loaded file whose variables are a rank's own.
#[derive(Default)]
pub struct Module {
    /// The names that others have for it.
    names: Vec<String>,
    /// Those of others that it needs.
    needs: Vec<String>,
    /// Addresses and lengths of what it may write.
    pub variables: Vec<(usize, usize)>,
    /// Variables of others that the linker has placed in it: their names, addresses and lengths.
    copies: Vec<(CString, usize, usize)>,
    /// What is run before `main`, and at the end, both in their order.
    pub constructors: Vec<Main>,
    /// Whether memory of all this process comes from it.
    pub has_heap: bool,
    pub destructors: Vec<Destructor>,
}

/// This library's own variables are not those of ranks.
static HERE: u8 = 0;

/// Those of this process, each behind what it needs; the last one is the program.
pub fn own() -> Vec<Module> {
    let mut found: Vec<Module> = Vec::new();
    // SAFETY: the callback takes what is documented, and the vector outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut found).cast()) };
    in_order(found)
}

/// Whether a library whose variables are not a rank's own has one of this name.
fn is_shared(name: &CStr) -> bool {
    ["libstdc++.so.6", "libc.so.6", "libm.so.6", "libgfortran.so.5"]
        .iter()
        .any(|library| {
            let library = CString::new(*library).expect("no null in it");
            // SAFETY: nothing is loaded; a handle or null, which is given back, and a plain question for a symbol.
            unsafe {
                let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
                if handle.is_null() {
                    return false;
                }
                let found = libc::dlsym(handle, name.as_ptr());
                libc::dlclose(handle);
                !found.is_null()
            }
        })
}

/// Each behind what it needs, the first one last.
fn in_order(found: Vec<Module>) -> Vec<Module> {
    fn visit(nr: usize, all: &mut [Option<Module>], sorted: &mut Vec<Module>) {
        let Some(module) = all[nr].take() else { return };
        for need in &module.needs {
            let has = |other: &Option<Module>| other.as_ref().is_some_and(|it| it.names.contains(need));
            if let Some(other) = all.iter().position(has) {
                visit(other, all, sorted);
            }
        }
        sorted.push(module);
    }
    let mut all: Vec<Option<Module>> = found.into_iter().map(Some).collect();
    let mut sorted = Vec::new();
    // What is loaded last is needed by others or by nobody.
    for nr in (0..all.len()).rev() {
        visit(nr, &mut all, &mut sorted);
    }
    sorted
}

fn range(base: usize, header: &Elf64_Phdr) -> Range<usize> {
    let start = base + header.p_vaddr as usize;
    start..start + header.p_memsz as usize
}

/// Add a module, unless it is shared.
unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: as `dl_iterate_phdr` promises, and what the caller above passes.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Module>>()) };
    let name = if info.dlpi_name.is_null() {
        c""
    } else {
        // SAFETY: the module's name.
        unsafe { CStr::from_ptr(info.dlpi_name) }
    };
    let name = Path::new(&*name.to_string_lossy())
        .file_name()
        .map_or_else(String::new, |file| file.to_string_lossy().into_owned());
    let base = info.dlpi_addr as usize;
    // SAFETY: so many headers are there.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let here = (&raw const HERE).addr();
    let has = |address: usize| {
        let loads = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        loads.into_iter().any(|load| range(base, load).contains(&address))
    };
    // SAFETY: a plain question for a symbol.
    let has_heap = has(unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) }.addr());
    // A library that stands in for the C library's heap serves all ranks as that one does.
    let is_heap = has_heap && !found.is_empty();
    if SHARED.iter().any(|shared| name.starts_with(shared)) || has(here) || is_heap {
        return 0;
    }
    let mut module = Module {
        names: vec![name],
        variables: variables(info, base, headers),
        has_heap,
        ..Module::default()
    };
    if let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC) {
        // SAFETY: a loaded module's section of this kind.
        unsafe { module.read(base, range(base, header).start as *const [usize; 2]) };
    }
    found.push(module);
    0
}

/// What may be written.
fn variables(info: &libc::dl_phdr_info, base: usize, headers: &[Elf64_Phdr]) -> Vec<(usize, usize)> {
    const PAGE: usize = 4096;
    let mut found = Vec::new();
    // The loader has made whole pages of these read-only.
    let constant = headers
        .iter()
        .find(|header| header.p_type == libc::PT_GNU_RELRO)
        .map(|header| (range(base, header).start & !(PAGE - 1))..(range(base, header).end & !(PAGE - 1)));
    let writable = |header: &&Elf64_Phdr| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W != 0;
    for load in headers.iter().filter(writable) {
        let all = range(base, load);
        match &constant {
            Some(constant) if constant.start < all.end && all.start < constant.end => {
                found.push((all.start, constant.start.saturating_sub(all.start)));
                found.push((constant.end, all.end.saturating_sub(constant.end)));
            }
            _ => found.push((all.start, all.len())),
        }
    }
    if let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_TLS)
        && !info.dlpi_tls_data.is_null()
    {
        found.push((info.dlpi_tls_data as usize, header.p_memsz as usize));
    }
    found
}

const DT_NEEDED: usize = 1;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_RELA: usize = 7;
const DT_RELASZ: usize = 8;
const DT_INIT: usize = 12;
const DT_FINI: usize = 13;
const DT_SONAME: usize = 14;
const DT_INIT_ARRAY: usize = 25;
const DT_FINI_ARRAY: usize = 26;
const DT_INIT_ARRAYSZ: usize = 27;
const DT_FINI_ARRAYSZ: usize = 28;

/// The kind of a relocation that places another module's variable here, and gives it its first value.
const COPY: u64 = if cfg!(target_arch = "aarch64") { 1024 } else { 5 };

impl Module {
    /// Whether it is Farpost's library.
    pub fn is_farpost(&self) -> bool {
        self.names.iter().any(|name| name.starts_with("libmpi_abi.so"))
    }

    /// Where it has variables of shared libraries', which stay one for all: a C++ program's `cout` is in the program. Only when all
    /// are initialised: the loader, which is asked, would do that at once.
    pub fn shared_variables(&self) -> impl Iterator<Item = (usize, usize)> {
        let shared = self
            .copies
            .iter()
            .filter(|(name, ..)| is_shared(name) && !library_variables::has(name));
        shared.map(|(_, start, len)| (*start, *len))
    }

    /// Read what is in its dynamic section.
    ///
    /// # Safety
    /// There is the section of a module that is loaded at `base`.
    unsafe fn read(&mut self, base: usize, mut entry: *const [usize; 2]) {
        let mut table = [0; 32];
        let mut needs = Vec::new();
        loop {
            // SAFETY: the section has pairs up to one with tag 0.
            let [tag, value] = unsafe { entry.read() };
            match tag {
                0 => break,
                DT_NEEDED => needs.push(value),
                tag if tag < table.len() => table[tag] = value,
                _ => {}
            }
            // SAFETY: not the last one.
            entry = unsafe { entry.add(1) };
        }
        // The loader has written the address itself here, but not everywhere.
        let place = |at: usize| table[at] + if table[at] < base { base } else { 0 };
        let strings = place(DT_STRTAB);
        // SAFETY: strings of the module's table.
        let string = |at: usize| unsafe { CStr::from_ptr((strings + at) as *const _) };
        self.needs.extend(
            needs
                .into_iter()
                .map(|at| string(at).to_string_lossy().into_owned()),
        );
        if table[DT_SONAME] != 0 {
            self.names
                .push(string(table[DT_SONAME]).to_string_lossy().into_owned());
        }
        for nr in 0..table[DT_RELASZ] / size_of::<[u64; 3]>() {
            // SAFETY: the module's relocations, and the symbol that one names.
            let (at, symbol) = unsafe {
                let [at, info, _] = (place(DT_RELA) as *const [u64; 3]).add(nr).read();
                if info & 0xffff_ffff != COPY {
                    continue;
                }
                let symbols = place(DT_SYMTAB) as *const libc::Elf64_Sym;
                (at, symbols.add((info >> 32) as usize).read())
            };
            let name = string(symbol.st_name as usize).to_owned();
            self.copies
                .push((name, base + at as usize, symbol.st_size as usize));
        }
        let array = |at: usize, bytes: usize| {
            // SAFETY: the array that the section names; it has been relocated.
            let read = |nr| unsafe { ((base + table[at]) as *const usize).add(nr).read() };
            let all = (0..table[bytes] / size_of::<usize>()).map(read);
            all.filter(|address| *address != 0 && *address != usize::MAX)
                .collect::<Vec<_>>()
        };
        let single = |at: usize| (table[at] != 0).then(|| base + table[at]);
        let first = single(DT_INIT)
            .into_iter()
            .chain(array(DT_INIT_ARRAY, DT_INIT_ARRAYSZ));
        let last = array(DT_FINI_ARRAY, DT_FINI_ARRAYSZ)
            .into_iter()
            .rev()
            .chain(single(DT_FINI));
        // SAFETY: the linker's word that functions of these types are there.
        self.constructors = first
            .map(|at| unsafe { std::mem::transmute::<usize, Main>(at) })
            .collect();
        // SAFETY: as above.
        self.destructors = last
            .map(|at| unsafe { std::mem::transmute::<usize, Destructor>(at) })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, needs: &[&str]) -> Module {
        Module {
            names: vec![name.into()],
            needs: needs.iter().map(ToString::to_string).collect(),
            ..Module::default()
        }
    }

    #[test]
    fn variables_of_the_c_library_are_shared() {
        assert!(is_shared(c"stdout"));
        assert!(!is_shared(c"of_nobody"));
        assert!(library_variables::has(c"optind") && !library_variables::has(c"stdout"));
    }

    #[test]
    fn what_is_needed_comes_first() {
        // Loaded in this order, as each names what it needs; two need each other.
        let all = vec![
            module("", &["a", "b"]),
            module("preloaded", &[]),
            module("a", &["b", "c"]),
            module("b", &["d"]),
            module("c", &["b", "libc"]),
            module("d", &["c"]),
        ];
        let names: Vec<String> = in_order(all).into_iter().map(|it| it.names[0].clone()).collect();
        let place = |name: &str| names.iter().position(|it| it == name).unwrap();
        assert_eq!(names.len(), 6);
        assert_eq!(names.last().unwrap(), "");
        assert!(place("b") < place("a") && place("c") < place("a"), "{names:?}");
    }

    /// This test's program: it has variables and needs the C library, which is not among them.
    #[test]
    fn a_loaded_program_is_read() {
        static mut CHANGED: u64 = 1;
        // This library is a part of it here, whose variables are left out elsewhere.
        let here = (&raw mut CHANGED).addr();
        let mut all: Vec<Module> = Vec::new();
        // SAFETY: as above; the callback looks at one module.
        unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
            // SAFETY: as `dl_iterate_phdr` promises, and what the test passes.
            let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Module>>()) };
            // SAFETY: so many headers are there.
            let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
            let base = info.dlpi_addr as usize;
            let mut module = Module {
                variables: variables(info, base, headers),
                ..Module::default()
            };
            let dynamic = headers
                .iter()
                .find(|header| header.p_type == libc::PT_DYNAMIC)
                .unwrap();
            // SAFETY: its section.
            unsafe { module.read(base, range(base, dynamic).start as *const [usize; 2]) };
            found.push(module);
            1
        }
        // SAFETY: the vector outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut all).cast()) };
        let program = &all[0];
        assert!(
            program
                .variables
                .iter()
                .any(|(start, len)| (*start..start + len).contains(&here))
        );
        assert!(
            program.needs.iter().any(|name| name.starts_with("libc.so")),
            "{:?}",
            program.needs
        );
        assert!(!program.constructors.is_empty());
    }
}
