//! The MPI library under test, loaded at run time through the standard ABI.
//!
//! Any `libmpi_abi.so.1` will do: Farpost's beside the executable, or another library's named by
//! `LD_LIBRARY_PATH`. Nothing of Farpost is linked in, so what is measured is what a C program sees: a call
//! through a function pointer into the shared object.
//!
//! It offers safe calls: each takes slices and returns when MPI is done with them. The other modules with unsafe code are
//! `link`, which calls the other interfaces, and `board`, memory that two ranks share.

mod vectors;

pub use vectors::Parts;

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};

/// A handle of the standard ABI: a pointer-sized value.
type Handle = *mut c_void;

const WORLD: Handle = handle(0x101);
const ERRORS_RETURN: Handle = handle(0x143);
const BYTE: Handle = handle(0x247);
const DOUBLE: Handle = handle(0x214);
const MAX: Handle = handle(0x23);
const SUM: Handle = handle(0x21);
/// `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
const NO_STATUS: *mut c_void = std::ptr::null_mut();
const MAX_LIBRARY_VERSION: usize = 8192;
const MAX_ERROR_STRING: usize = 512;

/// The name every library with the standard ABI carries.
pub const LIBRARY: &str = "libmpi_abi.so.1";
/// The environment variable that names another file to load.
pub const LIBRARY_VARIABLE: &str = "MPI_BENCH_LIBRARY";

/// A [`BenchError::Usage`] with its sentence, formatted as by [`format!`].
#[macro_export]
macro_rules! usage {
    ($($sentence:tt)+) => { $crate::BenchError::Usage(format!($($sentence)+)) };
}

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No usable library with the standard ABI.
    #[error(
        "cannot load the MPI library {path}: {cause}; LD_LIBRARY_PATH or {LIBRARY_VARIABLE} can name another"
    )]
    Load { path: String, cause: String },
    /// An MPI call failed.
    #[error("{call} failed: {message}")]
    Mpi { call: &'static str, message: String },
    /// Too few or too many ranks for this benchmark.
    #[error(
        "{benchmark} needs {needs}, and MPI_COMM_WORLD has {have}: start it with `mpiexec -n N farpost bench ...`"
    )]
    Ranks {
        benchmark: &'static str,
        needs: &'static str,
        have: usize,
    },
    /// Data arrived changed.
    #[error("{what}: byte {at} of {len} arrived as {got:#04x}, sent as {sent:#04x}")]
    Corrupt {
        what: String,
        at: usize,
        len: usize,
        got: u8,
        sent: u8,
    },
    /// A file or a process.
    #[error("{what}: {cause}")]
    Io { what: String, cause: std::io::Error },
    /// A chart could not be drawn.
    #[error("cannot draw {file}: {cause}")]
    Plot { file: String, cause: String },
    /// An option's value.
    #[error("{0}")]
    Usage(String),
}

impl BenchError {
    /// A file or a process failed while `what` was done.
    pub fn io(what: impl Into<String>) -> impl Fn(std::io::Error) -> Self {
        let what = what.into();
        move |cause| {
            let what = what.clone();
            BenchError::Io { what, cause }
        }
    }

    /// Whether there are as many ranks as `benchmark` needs.
    pub(crate) fn check_ranks(
        benchmark: &'static str,
        needs: &'static str,
        have: usize,
        enough: bool,
    ) -> Result<()> {
        if enough {
            Ok(())
        } else {
            Err(BenchError::Ranks {
                benchmark,
                needs,
                have,
            })
        }
    }
}

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, BenchError>;

/// The type of functions like `MPI_Allreduce`, like `MPI_Gather`, and like `MPI_Allgather`.
type AllreduceFn = unsafe extern "C" fn(*const c_void, *mut c_void, c_int, Handle, Handle, Handle) -> c_int;
type GatherFn =
    unsafe extern "C" fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, c_int, Handle) -> c_int;
type AllgatherFn =
    unsafe extern "C" fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle) -> c_int;

macro_rules! symbols {
    ($($field:ident: $name:literal ($($arg:ty),*);)*) => {
        /// The functions used, by their C names.
        struct Symbols { $($field: unsafe extern "C" fn($($arg),*) -> c_int,)* }
        impl Symbols {
            fn load(lib: &libloading::Library, path: &str) -> Result<Self> {
                Ok(Self { $($field: {
                    // SAFETY: the name and its type are the standard ABI's, which the library's name promises.
                    *unsafe { lib.get($name) }.map_err(|e| BenchError::Load {
                        path: path.to_owned(), cause: e.to_string(),
                    })?
                },)* })
            }
        }
    };
}

symbols! {
    init: b"MPI_Init\0" (*mut c_int, *mut *mut *mut c_char);
    finalize: b"MPI_Finalize\0" ();
    abort: b"MPI_Abort\0" (Handle, c_int);
    comm_rank: b"MPI_Comm_rank\0" (Handle, *mut c_int);
    comm_size: b"MPI_Comm_size\0" (Handle, *mut c_int);
    set_errhandler: b"MPI_Comm_set_errhandler\0" (Handle, Handle);
    error_string: b"MPI_Error_string\0" (c_int, *mut c_char, *mut c_int);
    library_version: b"MPI_Get_library_version\0" (*mut c_char, *mut c_int);
    version: b"MPI_Get_version\0" (*mut c_int, *mut c_int);
    send: b"MPI_Send\0" (*const c_void, c_int, Handle, c_int, c_int, Handle);
    recv: b"MPI_Recv\0" (*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut c_void);
    isend: b"MPI_Isend\0" (*const c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    irecv: b"MPI_Irecv\0" (*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    waitall: b"MPI_Waitall\0" (c_int, *mut Handle, *mut c_void);
    iprobe: b"MPI_Iprobe\0" (c_int, c_int, Handle, *mut c_int, *mut c_void);
    barrier: b"MPI_Barrier\0" (Handle);
    bcast: b"MPI_Bcast\0" (*mut c_void, c_int, Handle, c_int, Handle);
    reduce: b"MPI_Reduce\0" (*const c_void, *mut c_void, c_int, Handle, Handle, c_int, Handle);
    allreduce: b"MPI_Allreduce\0" (*const c_void, *mut c_void, c_int, Handle, Handle, Handle);
    scan: b"MPI_Scan\0" (*const c_void, *mut c_void, c_int, Handle, Handle, Handle);
    reduce_scatter_block: b"MPI_Reduce_scatter_block\0" (*const c_void, *mut c_void, c_int, Handle, Handle, Handle);
    gather: b"MPI_Gather\0" (*const c_void, c_int, Handle, *mut c_void, c_int, Handle, c_int, Handle);
    scatter: b"MPI_Scatter\0" (*const c_void, c_int, Handle, *mut c_void, c_int, Handle, c_int, Handle);
    allgather: b"MPI_Allgather\0" (*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle);
    gatherv: b"MPI_Gatherv\0" (*const c_void, c_int, Handle, *mut c_void, *const c_int, *const c_int, Handle, c_int, Handle);
    scatterv: b"MPI_Scatterv\0" (*const c_void, *const c_int, *const c_int, Handle, *mut c_void, c_int, Handle, c_int, Handle);
    allgatherv: b"MPI_Allgatherv\0" (*const c_void, c_int, Handle, *mut c_void, *const c_int, *const c_int, Handle, Handle);
    alltoallv: b"MPI_Alltoallv\0" (*const c_void, *const c_int, *const c_int, Handle, *mut c_void, *const c_int, *const c_int, Handle, Handle);
    reduce_scatter: b"MPI_Reduce_scatter\0" (*const c_void, *mut c_void, *const c_int, Handle, Handle, Handle);
    alltoall: b"MPI_Alltoall\0" (*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle);
}

/// An initialised MPI library; dropped without [`Mpi::finalize`] it leaves the process to end as MPI sees fit.
pub struct Mpi {
    f: Symbols,
    rank: usize,
    size: usize,
    path: PathBuf,
    /// Requests of one window, kept so that timed loops allocate nothing.
    requests: std::cell::RefCell<Vec<Handle>>,
    /// Keeps the code mapped; never unloaded, as libraries leave threads and exit handlers behind.
    _lib: std::mem::ManuallyDrop<libloading::Library>,
}

/// Where the library to measure lies: `MPI_BENCH_LIBRARY`, a directory of `LD_LIBRARY_PATH`, `../lib` beside
/// the executable, the executable's own directory (a build tree), or else the loader's choice.
pub fn find_library() -> PathBuf {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE) {
        return path.into();
    }
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut candidates: Vec<PathBuf> = std::env::split_paths(&listed)
        .filter(|d| !d.as_os_str().is_empty())
        .map(|d| d.join(LIBRARY))
        .collect();
    if let Some(dir) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
        candidates.push(dir.join("../lib").join(LIBRARY));
        candidates.push(dir.join("libmpi_abi.so"));
    }
    candidates
        .into_iter()
        .find(|p| p.exists())
        .unwrap_or_else(|| LIBRARY.into())
}

fn count(len: usize) -> c_int {
    c_int::try_from(len).expect("sizes are limited to 1 GiB when options are read")
}

/// What a call reads, and how many of them.
fn read<T>(data: &[T]) -> (*const c_void, c_int) {
    (data.as_ptr().cast(), count(data.len()))
}

/// What a call writes, and how many of them.
fn written<T>(data: &mut [T]) -> (*mut c_void, c_int) {
    (data.as_mut_ptr().cast(), count(data.len()))
}

const fn handle(value: usize) -> Handle {
    std::ptr::without_provenance_mut(value)
}

impl Mpi {
    /// Load the library and call `MPI_Init`. Errors of later calls are returned, not fatal.
    pub fn init() -> Result<Self> {
        let path = find_library();
        let shown = path.display().to_string();
        let refused = |e: libloading::Error| BenchError::Load {
            path: shown.clone(),
            cause: e.to_string(),
        };
        // SAFETY: loading runs the library's initialisers; it is an MPI library the user named or installed.
        let lib =
            unsafe { libloading::os::unix::Library::open(Some(&path), libc::RTLD_NOW | libc::RTLD_GLOBAL) }
                .map_err(refused)?;
        let lib = std::mem::ManuallyDrop::new(libloading::Library::from(lib));
        let f = Symbols::load(&lib, &shown)?;
        let mut mpi = Self {
            f,
            rank: 0,
            size: 1,
            path,
            requests: Default::default(),
            _lib: lib,
        };
        // SAFETY: null arguments are allowed by the standard (section 11.2.1).
        mpi.check("MPI_Init", unsafe {
            (mpi.f.init)(std::ptr::null_mut(), std::ptr::null_mut())
        })?;
        let (mut rank, mut size) = (0, 0);
        // SAFETY: both out pointers are valid for the calls.
        unsafe {
            mpi.check("MPI_Comm_rank", (mpi.f.comm_rank)(WORLD, &mut rank))?;
            mpi.check("MPI_Comm_size", (mpi.f.comm_size)(WORLD, &mut size))?;
            mpi.check(
                "MPI_Comm_set_errhandler",
                (mpi.f.set_errhandler)(WORLD, ERRORS_RETURN),
            )?;
        }
        (mpi.rank, mpi.size) = (rank.max(0) as usize, size.max(1) as usize);
        Ok(mpi)
    }

    /// This process's rank in `MPI_COMM_WORLD`.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of processes in `MPI_COMM_WORLD`.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The file the library was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            Ok(())
        } else {
            Err(self.error(call, code))
        }
    }

    #[cold]
    fn error(&self, call: &'static str, code: c_int) -> BenchError {
        let mut text = [0u8; MAX_ERROR_STRING + 1];
        let mut len = 0;
        // SAFETY: the buffer holds MPI_MAX_ERROR_STRING characters, as the call requires.
        let told = unsafe { (self.f.error_string)(code, text.as_mut_ptr().cast(), &mut len) };
        let message = match told {
            0 => String::from_utf8_lossy(&text[..(len.max(0) as usize).min(MAX_ERROR_STRING)]).into_owned(),
            _ => format!("error code {code}"),
        };
        BenchError::Mpi { call, message }
    }

    /// The first line of `MPI_Get_library_version`, and the MPI version the library implements.
    pub fn version(&self) -> Result<(String, (i32, i32))> {
        let mut text = vec![0u8; MAX_LIBRARY_VERSION + 1];
        let (mut len, mut major, mut minor) = (0, 0, 0);
        // SAFETY: the buffer holds MPI_MAX_LIBRARY_VERSION_STRING characters; the others are valid integers.
        unsafe {
            self.check(
                "MPI_Get_library_version",
                (self.f.library_version)(text.as_mut_ptr().cast(), &mut len),
            )?;
            self.check("MPI_Get_version", (self.f.version)(&mut major, &mut minor))?;
        }
        text.truncate((len.max(0) as usize).min(MAX_LIBRARY_VERSION));
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().next().unwrap_or_default().trim_matches('\0');
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok((line.trim_end_matches(',').to_owned(), (major, minor)))
    }

    /// `MPI_Finalize`.
    pub fn finalize(self) -> Result<()> {
        // SAFETY: initialised by `init`, and `self` is gone afterwards.
        self.check("MPI_Finalize", unsafe { (self.f.finalize)() })
    }

    /// `MPI_Abort` with exit code `code`: ends the other ranks too.
    pub fn abort(&self, code: i32) -> ! {
        // SAFETY: initialised by `init`.
        unsafe { (self.f.abort)(WORLD, code) };
        std::process::exit(code)
    }

    /// `MPI_Send` of bytes.
    #[inline]
    pub fn send(&self, data: &[u8], dest: usize, tag: i32) -> Result<()> {
        let (at, len) = read(data);
        // SAFETY: `data` outlives the blocking call.
        let code = unsafe { (self.f.send)(at, len, BYTE, count(dest), tag, WORLD) };
        self.check("MPI_Send", code)
    }

    /// `MPI_Recv` of bytes.
    #[inline]
    pub fn recv(&self, data: &mut [u8], source: usize, tag: i32) -> Result<()> {
        let (at, len) = written(data);
        // SAFETY: `data` outlives the blocking call and is not aliased.
        let code = unsafe { (self.f.recv)(at, len, BYTE, count(source), tag, WORLD, NO_STATUS) };
        self.check("MPI_Recv", code)
    }

    /// Start sends of every chunk of `out` to `peer` and receives of every chunk of `into` from it, all with
    /// `tag`, and wait for them all (`MPI_Irecv`, `MPI_Isend`, `MPI_Waitall`). Chunk sizes are at least 1.
    pub fn window(&self, peer: usize, tag: i32, out: (&[u8], usize), into: (&mut [u8], usize)) -> Result<()> {
        let mut requests = self.requests.borrow_mut();
        requests.clear();
        let mut failed = Ok(());
        for chunk in into.0.chunks_exact_mut(into.1) {
            let mut request = std::ptr::null_mut();
            let (at, len) = written(chunk);
            // SAFETY: chunks are disjoint and live until the wait below, which always happens.
            let code = unsafe { (self.f.irecv)(at, len, BYTE, count(peer), tag, WORLD, &mut request) };
            failed = failed.and(self.check("MPI_Irecv", code));
            if code == 0 {
                requests.push(request);
            }
        }
        for chunk in out.0.chunks_exact(out.1) {
            let mut request = std::ptr::null_mut();
            let (at, len) = read(chunk);
            // SAFETY: the chunk is borrowed until the wait below, which always happens.
            let code = unsafe { (self.f.isend)(at, len, BYTE, count(peer), tag, WORLD, &mut request) };
            failed = failed.and(self.check("MPI_Isend", code));
            if code == 0 {
                requests.push(request);
            }
        }
        let (at, len) = (requests.as_mut_ptr(), count(requests.len()));
        // SAFETY: the array holds as many live requests as it is long.
        let code = unsafe { (self.f.waitall)(len, at, NO_STATUS) };
        failed.and(self.check("MPI_Waitall", code))
    }

    /// `MPI_Iprobe` for a message that nobody sends: what is under way gets on.
    pub fn progress(&self, peer: usize, tag: i32) -> Result<()> {
        self.probe(peer, tag).map(|_| ())
    }

    /// `MPI_Iprobe`: whether a message is there.
    #[inline]
    pub fn probe(&self, peer: usize, tag: i32) -> Result<bool> {
        let mut there = 0;
        // SAFETY: the flag is a local integer.
        let code = unsafe { (self.f.iprobe)(count(peer), tag, WORLD, &mut there, NO_STATUS) };
        self.check("MPI_Iprobe", code)?;
        Ok(there != 0)
    }

    /// `MPI_Barrier`.
    #[inline]
    pub fn barrier(&self) -> Result<()> {
        // SAFETY: no memory is passed.
        self.check("MPI_Barrier", unsafe { (self.f.barrier)(WORLD) })
    }

    /// `MPI_Bcast` of bytes from rank `root`.
    pub fn bcast(&self, data: &mut [u8], root: usize) -> Result<()> {
        let (at, len) = written(data);
        // SAFETY: `data` outlives the blocking call.
        let code = unsafe { (self.f.bcast)(at, len, BYTE, count(root), WORLD) };
        self.check("MPI_Bcast", code)
    }

    /// The largest of every rank's `value`.
    pub fn max(&self, value: f64) -> Result<f64> {
        let mut result = 0.0f64;
        let (from, to) = ((&raw const value).cast(), (&raw mut result).cast());
        // SAFETY: one double in and one out, both local.
        let code = unsafe { (self.f.allreduce)(from, to, 1, DOUBLE, MAX, WORLD) };
        self.check("MPI_Allreduce", code)?;
        Ok(result)
    }

    /// Rank 0's `value`, on every rank.
    pub fn share(&self, value: u64) -> Result<u64> {
        let mut bytes = value.to_ne_bytes();
        self.bcast(&mut bytes, 0)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// `MPI_Reduce` with `MPI_SUM` to rank 0.
    pub fn reduce(&self, input: &[f64], output: &mut [f64]) -> Result<()> {
        assert_eq!(input.len(), output.len());
        let ((from, len), (to, _)) = (read(input), written(output));
        // SAFETY: both slices hold `len` doubles and outlive the blocking call.
        let code = unsafe { (self.f.reduce)(from, to, len, DOUBLE, SUM, 0, WORLD) };
        self.check("MPI_Reduce", code)
    }

    /// `MPI_Allreduce` with `MPI_SUM`.
    pub fn allreduce(&self, input: &[f64], output: &mut [f64]) -> Result<()> {
        assert_eq!(input.len(), output.len());
        self.sums("MPI_Allreduce", self.f.allreduce, input, output)
    }

    /// `MPI_Scan` with `MPI_SUM`.
    pub fn scan(&self, input: &[f64], output: &mut [f64]) -> Result<()> {
        assert_eq!(input.len(), output.len());
        self.sums("MPI_Scan", self.f.scan, input, output)
    }

    /// `MPI_Reduce_scatter_block` with `MPI_SUM`: `output.len()` elements for each rank.
    pub fn reduce_scatter_block(&self, input: &[f64], output: &mut [f64]) -> Result<()> {
        assert_eq!(input.len(), output.len() * self.size);
        self.sums(
            "MPI_Reduce_scatter_block",
            self.f.reduce_scatter_block,
            input,
            output,
        )
    }

    fn sums(&self, call: &'static str, f: AllreduceFn, input: &[f64], output: &mut [f64]) -> Result<()> {
        let ((from, _), (to, len)) = (read(input), written(output));
        // SAFETY: the callers have seen to it that both slices are as long as the call requires; they outlive it.
        self.check(call, unsafe { f(from, to, len, DOUBLE, SUM, WORLD) })
    }

    /// `MPI_Gather` to rank 0: `all` holds `one.len()` bytes from each rank there.
    pub fn gather(&self, one: &[u8], all: &mut [u8]) -> Result<()> {
        assert_eq!(all.len(), one.len() * self.size);
        self.rooted("MPI_Gather", self.f.gather, one, all, one.len())
    }

    /// `MPI_Scatter` from rank 0: `one.len()` bytes of `all` for each rank.
    pub fn scatter(&self, all: &[u8], one: &mut [u8]) -> Result<()> {
        assert_eq!(all.len(), one.len() * self.size);
        let len = one.len();
        self.rooted("MPI_Scatter", self.f.scatter, all, one, len)
    }

    fn rooted(
        &self,
        call: &'static str,
        f: GatherFn,
        from: &[u8],
        into: &mut [u8],
        each: usize,
    ) -> Result<()> {
        let (n, from, to) = (count(each), read(from).0, written(into).0);
        // SAFETY: the callers have seen to it that the slices have `each` and `each * size` bytes; they outlive the call.
        self.check(call, unsafe { f(from, n, BYTE, to, n, BYTE, 0, WORLD) })
    }

    /// `MPI_Allgather`: `all` holds `one.len()` bytes from each rank.
    pub fn allgather(&self, one: &[u8], all: &mut [u8]) -> Result<()> {
        assert_eq!(all.len(), one.len() * self.size);
        self.exchange("MPI_Allgather", self.f.allgather, one, all, one.len())
    }

    /// `MPI_Alltoall`: equal parts of `out` to each rank, equal parts of `into` from each.
    pub fn alltoall(&self, out: &[u8], into: &mut [u8]) -> Result<()> {
        assert!(out.len() == into.len() && out.len().is_multiple_of(self.size));
        self.exchange("MPI_Alltoall", self.f.alltoall, out, into, out.len() / self.size)
    }

    fn exchange(
        &self,
        call: &'static str,
        f: AllgatherFn,
        from: &[u8],
        into: &mut [u8],
        each: usize,
    ) -> Result<()> {
        let (n, from, to) = (count(each), read(from).0, written(into).0);
        // SAFETY: the callers have seen to it that the slices have what the call requires; they outlive it.
        self.check(call, unsafe { f(from, n, BYTE, to, n, BYTE, WORLD) })
    }
}
