//! A rank, as it is known to what it calls.

use crate::generators::Random;
use corosensei::Yielder;
use libc::{c_char, c_int, c_void};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Why a rank stops.
pub enum Stop {
    /// It has asked something.
    Asked,
    /// It has ended with this code.
    Ended(c_int),
}

/// Of a rank, what it keeps while others run.
pub struct Rank {
    pub number: u32,
    /// By which it stops, while it runs.
    yielder: Cell<*const Yielder<(), Stop>>,
    pub question: RefCell<Vec<u8>>,
    pub answer: RefCell<Vec<u8>>,
    /// What is to be called at its end, the last one first; and before that for what belongs to its thread; and by `quick_exit` instead.
    pub at_end: RefCell<Vec<AtEnd>>,
    pub at_end_of_thread: RefCell<Vec<AtEnd>>,
    pub at_quick_end: RefCell<Vec<AtEnd>>,
    /// Whether the program's own functions for the end were called.
    pub finished: Cell<bool>,
    pub random: RefCell<Box<Random>>,
    /// Of its thread, by key.
    pub values: RefCell<Vec<*const c_void>>,
    /// Where `strtok` goes on.
    pub token: Cell<*mut c_char>,
    /// What `localtime` and `gmtime` point at.
    pub time: Cell<libc::tm>,
    /// The argument before the first one that `getopt` knows.
    pub options_from: Cell<c_int>,
    /// Where nothing of its stack may be: whoever comes there has used it up.
    pub guard: Range<usize>,
}

/// See `__cxa_atexit`.
pub type Plain = unsafe extern "C" fn(*mut c_void);

/// See `on_exit`.
pub type WithCode = unsafe extern "C" fn(c_int, *mut c_void);

/// A function that is called at the end of a rank, and its argument; and whose it is.
pub enum AtEnd {
    Plain(Plain, *mut c_void, *mut c_void),
    WithCode(WithCode, *mut c_void),
}

/// The one that runs.
static RUNNING: AtomicPtr<Rank> = AtomicPtr::new(ptr::null_mut());

/// The rank that runs, if one does.
pub fn running() -> Option<&'static Rank> {
    // SAFETY: null, or a rank that lives as long as the process, which has one thread.
    unsafe { RUNNING.load(Ordering::Relaxed).as_ref() }
}

/// From now on `rank` runs, or none.
pub fn set_running(rank: Option<&'static Rank>) {
    let rank = rank.map_or(ptr::null(), ptr::from_ref).cast_mut();
    RUNNING.store(rank, Ordering::Relaxed);
}

impl Rank {
    /// One that has not begun.
    pub fn new(number: u32, guard: Range<usize>) -> &'static Self {
        Box::leak(Box::new(Self {
            number,
            yielder: Cell::new(ptr::null()),
            question: RefCell::default(),
            answer: RefCell::default(),
            at_end: RefCell::default(),
            at_end_of_thread: RefCell::default(),
            at_quick_end: RefCell::default(),
            finished: Cell::new(false),
            random: RefCell::default(),
            values: RefCell::default(),
            token: Cell::new(ptr::null_mut()),
            // SAFETY: numbers and an address, which may be null.
            time: Cell::new(unsafe { std::mem::zeroed() }),
            options_from: Cell::new(0),
            guard,
        }))
    }

    /// Its stack begins, on which it stops by this.
    pub fn begin(&self, yielder: &Yielder<(), Stop>) {
        self.yielder.set(yielder);
    }

    /// Stop until there is another turn. Called on the rank's own stack.
    pub fn stop(&self, why: Stop) {
        // SAFETY: this is the running rank's, set where its stack begins, on which this is called; the yielder lies there too.
        unsafe { &*self.yielder.get() }.suspend(why);
    }

    /// This rank, which runs, has ended. What is on its stack is left as it is.
    pub fn end(&self, code: c_int) -> ! {
        self.stop(Stop::Ended(code));
        unreachable!("a rank that has ended has no turn")
    }
}
