//! What a rank is given: its arguments and its environment, strings that it may change.

use farpost_job::JobMemory;
use farpost_launch::environment::{Rules, c_pair, for_app, for_rank};
use farpost_sim::plan::VARIABLE;
use libc::{c_char, c_int};
use std::ffi::{CString, OsStr};
use std::os::fd::IntoRawFd;

/// Those of all ranks.
pub struct Surroundings {
    arguments: Vec<CString>,
    /// Variables that are the same for all; they live as long as the process.
    common: Vec<*mut c_char>,
}

/// Strings and a null, for as long as the process lives: programs keep such addresses.
fn leak(strings: impl Iterator<Item = *mut c_char>) -> *mut *mut c_char {
    let all: Vec<*mut c_char> = strings.chain([std::ptr::null_mut()]).collect();
    Box::leak(all.into_boxed_slice()).as_mut_ptr()
}

impl Surroundings {
    /// With these arguments, and the variables that this process has now.
    pub fn new(arguments: Vec<CString>) -> Self {
        let mut variables = for_app(std::env::vars_os(), &Rules::default(), &Rules::default());
        variables.remove(OsStr::new(VARIABLE));
        let common = variables
            .iter()
            .map(|(name, value)| c_pair(name, value).into_raw());
        Self {
            common: common.collect(),
            arguments,
        }
    }

    /// The arguments of a rank.
    pub fn arguments(&self) -> (c_int, *mut *mut c_char) {
        let strings = self.arguments.iter().map(|argument| argument.clone().into_raw());
        (self.arguments.len() as c_int, leak(strings))
    }

    /// The environment of a rank. It has a descriptor of the job's memory of its own.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn environment(&self, rank: u32, memory: &JobMemory) -> Result<*mut *mut c_char, String> {
        let fd = memory
            .fd()
            .try_clone_to_owned()
            .map_err(|error| format!("a descriptor for rank {rank}: {error}"))?;
        let size = memory.layout().ranks;
        let own = for_rank(rank, size, fd.into_raw_fd(), &memory.id());
        let own = own
            .iter()
            .map(|(name, value)| c_pair(OsStr::new(name), OsStr::new(value)).into_raw());
        Ok(leak(self.common.iter().copied().chain(own)))
    }
}
