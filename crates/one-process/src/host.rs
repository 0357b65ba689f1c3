//! What there is once for all ranks.

use crate::modules::Module;
use crate::program::Program;
use crate::segments::Segments;
use crate::surroundings::Surroundings;
use farpost_job::{End, JobMemory};
use farpost_launch::report::{Failure, judge};
use farpost_simlink::compute::{Count, Instructions};
use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The process of all ranks. It has one thread.
pub struct Host {
    pub program: Program,
    /// Whether Farpost's library was there when the program began: then each rank has its variables.
    pub has_library: bool,
    pub segments: RefCell<Segments>,
    pub surroundings: Surroundings,
    pub memory: JobMemory,
    /// What the process executes, where that is to take virtual time.
    instructions: RefCell<Option<Instructions>>,
    /// The first rank that did not end as it should, and whether the run is over for it.
    failure: RefCell<Option<Failure>>,
}

static HOST: AtomicPtr<Host> = AtomicPtr::new(ptr::null_mut());

/// The host, once there is one.
pub fn host() -> Option<&'static Host> {
    // SAFETY: null, or stored by `Host::begin` and never freed; the process has one thread.
    unsafe { HOST.load(Ordering::Relaxed).as_ref() }
}

impl Host {
    /// Begin; there is one in the life of a process.
    pub fn begin(
        mut program: Program,
        surroundings: Surroundings,
        memory: JobMemory,
        instructions: Option<Instructions>,
    ) -> &'static Self {
        let segments = program.segments.take().expect("found at the start");
        let host = Box::leak(Box::new(Self {
            has_library: program.modules.iter().any(Module::is_farpost),
            program,
            segments: RefCell::new(segments),
            surroundings,
            memory,
            instructions: RefCell::new(instructions),
            failure: RefCell::new(None),
        }));
        HOST.store(host, Ordering::Relaxed);
        host
    }

    /// Instructions that the process has executed, if they are counted.
    pub fn instructions(&self) -> u64 {
        self.instructions.borrow_mut().as_mut().map_or(0, Count::count)
    }

    /// A rank has ended like this: others are told, and what was wrong with it is said.
    pub fn ended(&self, rank: u32, end: End) {
        self.memory.set_ended(rank, end.status());
        self.segments.borrow_mut().forget(rank);
        if self.is_over() {
            return;
        }
        let state = self.memory.state(rank);
        let failure = judge(rank, end, state, || self.memory.abort_reason(rank));
        if let Some(failure) = failure {
            eprintln!("farpost sim: rank {rank} {}", failure.what);
            let mut first = self.failure.borrow_mut();
            if failure.ends_job || first.is_none() {
                *first = Some(failure);
            }
        }
    }

    /// Whether a rank has failed so that the others are not to go on.
    pub fn is_over(&self) -> bool {
        self.failure
            .borrow()
            .as_ref()
            .is_some_and(|failure| failure.ends_job)
    }

    /// The code that a failure gives the run.
    pub fn code(&self) -> Option<i32> {
        self.failure.borrow().as_ref().map(|failure| failure.code)
    }
}
