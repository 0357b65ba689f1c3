//! Work stealing by JAM's functions, for pieces of work whose result is a number.

use super::library::{self, functions, open};
use crate::abi::Result;
use std::ffi::{c_char, c_int, c_void};

type Function = unsafe extern "C" fn(*const c_void, usize, *mut c_void, *mut usize, *mut c_void) -> c_int;

/// A piece of work: its argument in, a number out, or JAM's code.
pub type Work = fn(&Cilk, &[u32]) -> std::result::Result<u64, c_int>;

/// Words of an argument at most.
const WORDS: usize = 8;
/// `JAM_ELENGTH`.
const LENGTH: c_int = 5;

/// `JAM_counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub spawned: u64,
    pub stolen: u64,
    pub refused: u64,
    pub again: u64,
    pub dropped: u64,
}

functions! { Functions {
    initialize: b"JAM_initialize\0" ();
    finalize: b"JAM_finalize\0" ();
    error: b"JAM_error\0" () -> *const c_char;
    register: b"JAM_cilk_register\0" (u32, Function, *mut c_void) -> c_int;
    spawn: b"JAM_cilk_spawn\0" (u32, *const c_void, usize, *mut u64) -> c_int;
    sync: b"JAM_cilk_sync\0" (u64, *mut c_void, usize, *mut usize) -> c_int;
    run: b"JAM_cilk_run\0" (u32, *const c_void, usize, *mut c_void, usize, *mut usize) -> c_int;
    counts: b"JAM_cilk_counts\0" (*mut Counts) -> c_int;
} }

/// Work stealing between all processes of the job.
pub struct Cilk(Functions);

struct Registered {
    cilk: &'static Cilk,
    work: Work,
}

unsafe extern "C" fn piece(
    argument: *const c_void,
    size: usize,
    result: *mut c_void,
    length: *mut usize,
    context: *mut c_void,
) -> c_int {
    if size > 4 * WORDS || !size.is_multiple_of(4) {
        return LENGTH;
    }
    let mut words = [0u32; WORDS];
    // SAFETY: JAM hands over `size` bytes, which are not ours; it gives room for a result, and the context that was registered, which lives
    // for good.
    unsafe {
        std::ptr::copy_nonoverlapping(argument.cast::<u8>(), words.as_mut_ptr().cast(), size);
        let registered = &*context.cast::<Registered>();
        match (registered.work)(registered.cilk, &words[..size / 4]) {
            Ok(number) => {
                result.cast::<u64>().write_unaligned(number);
                *length = size_of::<u64>();
                0
            }
            Err(code) => code,
        }
    }
}

impl Cilk {
    /// Join, for good: the library knows the pieces of work.
    pub fn open(works: &[(u32, Work)]) -> Result<&'static Self> {
        let cilk: &'static Self = Box::leak(Box::new(Self(Functions::load(open()?)?)));
        // SAFETY: no argument.
        unsafe { (cilk.0.initialize)() };
        for &(number, work) in works {
            let context = Box::leak(Box::new(Registered { cilk, work }));
            // SAFETY: a function of the type that the header declares, with a context that lives for good.
            let code = unsafe { (cilk.0.register)(number, piece, std::ptr::from_mut(context).cast()) };
            cilk.check("JAM_cilk_register", code)?;
        }
        Ok(cilk)
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        match code {
            0 => Ok(()),
            code => Err(library::failed(call, Some(code), self.0.error)),
        }
    }

    /// Offer a piece to whoever is idle: its name.
    pub fn spawn(&self, work: u32, argument: &[u32]) -> std::result::Result<u64, c_int> {
        let mut child = 0;
        // SAFETY: the argument, which is copied, and room for the name.
        let code =
            unsafe { (self.0.spawn)(work, argument.as_ptr().cast(), size_of_val(argument), &mut child) };
        if code == 0 { Ok(child) } else { Err(code) }
    }

    /// The result of a piece.
    pub fn sync(&self, child: u64) -> std::result::Result<u64, c_int> {
        let mut number = 0u64;
        // SAFETY: room for a number; its length is not asked for.
        let code = unsafe {
            (self.0.sync)(
                child,
                (&raw mut number).cast(),
                size_of::<u64>(),
                std::ptr::null_mut(),
            )
        };
        if code == 0 { Ok(number) } else { Err(code) }
    }

    /// Take part in a computation, as all processes do: what it gives, at process 0.
    pub fn run(&self, work: u32, argument: &[u32]) -> Result<u64> {
        let mut number = 0u64;
        // SAFETY: the argument, and room for a number; its length is not asked for.
        let code = unsafe {
            (self.0.run)(
                work,
                argument.as_ptr().cast(),
                size_of_val(argument),
                (&raw mut number).cast(),
                size_of::<u64>(),
                std::ptr::null_mut(),
            )
        };
        self.check("JAM_cilk_run", code)?;
        Ok(number)
    }

    /// This process's counters.
    pub fn counts(&self) -> Result<Counts> {
        let mut counts = Counts::default();
        // SAFETY: room for the counters.
        let code = unsafe { (self.0.counts)(&mut counts) };
        self.check("JAM_cilk_counts", code)?;
        Ok(counts)
    }

    /// Take leave.
    pub fn close(&self) {
        // SAFETY: no argument.
        unsafe { (self.0.finalize)() };
    }
}
