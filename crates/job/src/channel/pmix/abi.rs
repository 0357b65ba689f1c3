//! The few declarations of the PMIx standard (version 4 and later; `pmix.h`, `pmix_common.h`) that are needed, and the
//! library that has the functions. Names, layouts and numbers are those of the headers; a test compares them with headers that
//! are installed.

use crate::error::JobError;
use crate::error::clip;
use core::ffi::{CStr, c_char, c_int, c_void};
use libloading::os::unix::{Library as Object, RTLD_GLOBAL, RTLD_NOW};
use std::error::Error;
use std::path::{Path, PathBuf};

pub(super) const SPEAKS: &str = "PMIx";
/// Variable: the library to load instead of the one that is found.
pub const PMIX_LIBRARY: &str = "FARPOST_PMIX_LIBRARY";
const SONAME: &str = "libpmix.so.2";

pub(super) const NSPACE_LEN: usize = 256;
pub(super) const KEY_LEN: usize = 512;
pub(super) const RANK_WILDCARD: u32 = u32::MAX - 1;
pub(super) const SUCCESS: c_int = 0;
pub(super) const ERR_TIMEOUT: c_int = -24;
pub(super) const ERR_NOT_FOUND: c_int = -46;
pub(super) const OPERATION_SUCCEEDED: c_int = -157;
pub(super) const GLOBAL: u8 = 3;
pub(super) const BOOL: u16 = 1;
pub(super) const STRING: u16 = 3;
pub(super) const INT: u16 = 6;
pub(super) const UINT32: u16 = 14;
pub(super) const BYTE_OBJECT: u16 = 27;
pub(super) const PROC_RANK: u16 = 40;

pub(super) const JOB_SIZE: &CStr = c"pmix.job.size";
pub(super) const UNIV_SIZE: &CStr = c"pmix.univ.size";
pub(super) const APPNUM: &CStr = c"pmix.appnum";
pub(super) const ANL_MAP: &CStr = c"pmix.anlmap";
pub(super) const NODEID: &CStr = c"pmix.nodeid";
pub(super) const HOSTNAME: &CStr = c"pmix.hname";
pub(super) const TIMEOUT: &CStr = c"pmix.timeout";
pub(super) const OPTIONAL: &CStr = c"pmix.optional";
pub(super) const COLLECT_DATA: &CStr = c"pmix.collect";

/// `pmix_proc_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Proc {
    pub nspace: [c_char; NSPACE_LEN],
    pub rank: u32,
}

/// `pmix_byte_object_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ByteObject {
    pub bytes: *mut c_char,
    pub size: usize,
}

/// The union in `pmix_value_t`; `envar` is its largest member.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Data {
    pub flag: bool,
    pub string: *mut c_char,
    pub integer: c_int,
    pub uint32: u32,
    pub bo: ByteObject,
    envar: (*mut c_char, *mut c_char, c_char),
}

/// `pmix_value_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub kind: u16,
    pub data: Data,
}

/// `pmix_info_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Info {
    pub key: [c_char; KEY_LEN],
    pub flags: u32,
    pub value: Value,
}

impl Info {
    pub fn new(key: &CStr, kind: u16, data: Data) -> Info {
        Info {
            key: chars(key.to_bytes()),
            flags: 0,
            value: Value { kind, data },
        }
    }
}

/// A C string in an array; what does not fit is an error of the caller's.
pub(super) fn chars<const N: usize>(text: &[u8]) -> [c_char; N] {
    assert!(text.len() < N);
    let mut array = [0; N];
    for (to, from) in array.iter_mut().zip(text) {
        *to = *from as c_char;
    }
    array
}

pub(super) type OpCallback = unsafe extern "C" fn(c_int, *mut c_void);
pub(super) type ValueCallback = unsafe extern "C" fn(c_int, *mut Value, *mut c_void);

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions, as loaded. The library stays loaded for the life of the process: it has threads.
        #[derive(Clone, Copy)]
        pub(super) struct Library { $(pub $field: unsafe extern "C" fn($($argument),*) -> $result,)* }

        impl Library {
            /// # Safety
            /// `object` stays loaded, and its functions of these names have the types that the PMIx standard gives them.
            unsafe fn look_up(object: &Object) -> Result<Library, &'static str> {
                // SAFETY: as the caller says.
                Ok(Library { $($field: unsafe { object.get($name) }.ok().and_then(|found| *found).ok_or($name)?,)* })
            }
        }
    };
}

functions! {
    init = "PMIx_Init": fn(*mut Proc, *const Info, usize) -> c_int;
    finalize = "PMIx_Finalize": fn(*const Info, usize) -> c_int;
    abort = "PMIx_Abort": fn(c_int, *const c_char, *const Proc, usize) -> c_int;
    put = "PMIx_Put": fn(u8, *const c_char, *mut Value) -> c_int;
    commit = "PMIx_Commit": fn() -> c_int;
    fence_nb = "PMIx_Fence_nb": fn(*const Proc, usize, *const Info, usize, OpCallback, *mut c_void) -> c_int;
    get_nb = "PMIx_Get_nb": fn(*const Proc, *const c_char, *const Info, usize, ValueCallback, *mut c_void) -> c_int;
    error_string = "PMIx_Error_string": fn(c_int) -> *const c_char;
    version = "PMIx_Get_version": fn() -> *const c_char;
}

impl Library {
    /// What the library calls a status.
    pub fn say(&self, status: c_int) -> String {
        // SAFETY: returns a constant string, or null.
        let text = unsafe { (self.error_string)(status) };
        if text.is_null() {
            return status.to_string();
        }
        // SAFETY: a C string of the library's, constant.
        clip(&unsafe { CStr::from_ptr(text) }.to_string_lossy())
    }

    /// Find and load the library.
    pub fn load(env: &impl Fn(&str) -> Option<String>) -> Result<Library, JobError> {
        if let Some(path) = env(PMIX_LIBRARY) {
            return Self::open(Path::new(&path)).map_err(|why| {
                JobError::variable(PMIX_LIBRARY, path, format!("must be a usable {SONAME}: {why}"))
            });
        }
        let mut tried = Vec::new();
        for path in candidates(env) {
            match Self::open(&path) {
                Ok(library) => return Ok(library),
                Err(why) => tried.push(why),
            }
        }
        Err(broken!(
            SPEAKS,
            "cannot be spoken with, since {SONAME} cannot be used ({}); install it (Debian: libpmix2) or set {PMIX_LIBRARY} to its path",
            tried.join("; ")
        ))
    }

    fn open(path: &Path) -> Result<Library, String> {
        // The library's own plug-ins need its symbols.
        // SAFETY: runs the initialisers of a library that a PMIx launcher or the user points at, as linking with it would.
        let object = unsafe { Object::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
        // What the dynamic loader says names the file.
        let object = object.map_err(|e| e.source().map_or_else(|| e.to_string(), ToString::to_string))?;
        // It has threads, and stays.
        let object = std::mem::ManuallyDrop::new(object);
        // SAFETY: it is not closed, and is a PMIx library by its name or by what the user says.
        let library = unsafe { Library::look_up(&object) };
        let library = library.map_err(|name| format!("{}: has no {name}", path.display()))?;
        // SAFETY: returns a constant string, or null; needs no initialisation.
        let version = unsafe {
            let text = (library.version)();
            if text.is_null() {
                String::new()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        match major(&version) {
            Some(4..) => Ok(library),
            _ => Err(format!(
                "{}: is '{}', version 4 or later is needed",
                path.display(),
                clip(&version)
            )),
        }
    }
}

/// The first number of a version such as `OpenPMIx 4.2.2rc2 (PMIx Standard: ...)`.
fn major(version: &str) -> Option<u32> {
    let from = version.find(|c: char| c.is_ascii_digit())?;
    version[from..]
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Where the library may be: beside the launcher as its variables say, the launcher's own, the system's.
fn candidates(env: &impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for prefix in ["PMIX_PREFIX", "PRTE_PREFIX", "OPAL_PREFIX"]
        .iter()
        .filter_map(|name| env(name))
    {
        for lib in ["lib", "lib64", "lib/openmpi"] {
            found.push(Path::new(&prefix).join(lib).join(SONAME));
        }
    }
    let launcher = std::os::unix::process::parent_id();
    if let Ok(maps) = std::fs::read_to_string(format!("/proc/{launcher}/maps")) {
        let of_library = |line: &str| {
            let path = line.splitn(6, ' ').nth(5)?.trim();
            let name = path.rsplit('/').next()?;
            name.starts_with(SONAME).then(|| PathBuf::from(path))
        };
        found.extend(maps.lines().find_map(of_library));
    }
    found.retain(|path| path.exists());
    found.dedup();
    found.push(SONAME.into());
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};
    use std::process::Command;

    /// Flags for a C compiler to find the headers with; `None` where they are not installed.
    fn headers() -> Option<Vec<String>> {
        let asked = Command::new("pkg-config").args(["--cflags", "pmix"]).output();
        if let Ok(output) = asked
            && output.status.success()
        {
            let flags = String::from_utf8_lossy(&output.stdout).into_owned();
            return Some(flags.split_whitespace().map(str::to_owned).collect());
        }
        ["/usr/include", "/usr/local/include"]
            .iter()
            .find(|dir| Path::new(dir).join("pmix.h").exists())
            .map(|dir| vec![format!("-I{dir}")])
    }

    #[test]
    fn declarations_are_those_of_the_headers() {
        let Some(flags) = headers() else {
            farpost_testing::skipped(
                "no PMIx headers here (Debian: libpmix-dev); its declarations were not compared",
            );
            return;
        };
        let numbers = [
            ("sizeof(pmix_proc_t)", size_of::<Proc>() as i64),
            ("offsetof(pmix_proc_t, rank)", offset_of!(Proc, rank) as i64),
            ("sizeof(pmix_byte_object_t)", size_of::<ByteObject>() as i64),
            (
                "offsetof(pmix_byte_object_t, size)",
                offset_of!(ByteObject, size) as i64,
            ),
            ("sizeof(pmix_value_t)", size_of::<Value>() as i64),
            ("offsetof(pmix_value_t, data)", offset_of!(Value, data) as i64),
            ("sizeof(pmix_info_t)", size_of::<Info>() as i64),
            ("offsetof(pmix_info_t, flags)", offset_of!(Info, flags) as i64),
            ("offsetof(pmix_info_t, value)", offset_of!(Info, value) as i64),
            ("sizeof(pmix_scope_t)", 1),
            ("sizeof(pmix_status_t)", 4),
            ("PMIX_RANK_WILDCARD", RANK_WILDCARD.into()),
            ("PMIX_SUCCESS", SUCCESS.into()),
            ("PMIX_ERR_TIMEOUT", ERR_TIMEOUT.into()),
            ("PMIX_ERR_NOT_FOUND", ERR_NOT_FOUND.into()),
            ("PMIX_OPERATION_SUCCEEDED", OPERATION_SUCCEEDED.into()),
            ("PMIX_GLOBAL", GLOBAL.into()),
            ("PMIX_BOOL", BOOL.into()),
            ("PMIX_STRING", STRING.into()),
            ("PMIX_INT", INT.into()),
            ("PMIX_UINT32", UINT32.into()),
            ("PMIX_BYTE_OBJECT", BYTE_OBJECT.into()),
            ("PMIX_PROC_RANK", PROC_RANK.into()),
        ];
        let keys = [
            ("PMIX_JOB_SIZE", JOB_SIZE),
            ("PMIX_UNIV_SIZE", UNIV_SIZE),
            ("PMIX_APPNUM", APPNUM),
            ("PMIX_ANL_MAP", ANL_MAP),
            ("PMIX_NODEID", NODEID),
            ("PMIX_HOSTNAME", HOSTNAME),
            ("PMIX_TIMEOUT", TIMEOUT),
            ("PMIX_OPTIONAL", OPTIONAL),
            ("PMIX_COLLECT_DATA", COLLECT_DATA),
        ];
        let mut program =
            "#include <pmix.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n".to_owned();
        for (name, _) in numbers {
            program += &format!("printf(\"%s=%lld\\n\", \"{name}\", (long long)(unsigned)({name}));\n");
        }
        for (name, _) in keys {
            program += &format!("printf(\"%s=%s\\n\", \"{name}\", {name});\n");
        }
        // The types of the functions: assigning a function to a pointer of another type is an error.
        program += "pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t) = PMIx_Init; (void)init;
            pmix_status_t (*finalize)(const pmix_info_t *, size_t) = PMIx_Finalize; (void)finalize;
            pmix_status_t (*abort_)(int, const char *, pmix_proc_t *, size_t) = PMIx_Abort; (void)abort_;
            pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *) = PMIx_Put; (void)put;
            pmix_status_t (*commit)(void) = PMIx_Commit; (void)commit;
            pmix_status_t (*fence)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t,
                void (*)(pmix_status_t, void *), void *) = PMIx_Fence_nb; (void)fence;
            pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,
                void (*)(pmix_status_t, pmix_value_t *, void *), void *) = PMIx_Get_nb; (void)get;
            return 0;\n}\n";
        let dir = std::env::temp_dir().join(format!("farpost-pmix-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let (source, binary) = (dir.join("abi.c"), dir.join("abi"));
        std::fs::write(&source, program).unwrap();
        let built = Command::new("cc")
            .args([
                "-Werror=incompatible-pointer-types",
                "-Wl,--unresolved-symbols=ignore-all",
            ])
            .args(&flags)
            .arg("-o")
            .arg(&binary)
            .arg(&source)
            .output();
        let ran = built.map(|built| (built, Command::new(&binary).output()));
        std::fs::remove_dir_all(&dir).unwrap();
        let (built, ran) = ran.expect("cc runs");
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        let text = String::from_utf8(ran.unwrap().stdout).unwrap();
        let mut lines = text.lines();
        for (name, ours) in numbers {
            assert_eq!(lines.next(), Some(&*format!("{name}={}", ours as u32)));
        }
        for (name, ours) in keys {
            assert_eq!(lines.next(), Some(&*format!("{name}={}", ours.to_str().unwrap())));
        }
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(major("OpenPMIx 4.2.2rc2 (PMIx Standard: 4.1)"), Some(4));
        assert_eq!(major("5.0.11"), Some(5));
        assert_eq!(major("PMIx"), None);
    }

    #[test]
    fn a_library_that_is_none_is_refused_by_name() {
        for path in ["/nonexistent/libpmix.so.2", "libc.so.6", "/dev/null"] {
            let error = Library::load(&|name: &str| (name == PMIX_LIBRARY).then(|| path.to_owned()));
            let text = error.map(|_| ()).unwrap_err().to_string();
            assert!(text.contains(&format!("{PMIX_LIBRARY}={path}")), "{text}");
        }
    }
}
