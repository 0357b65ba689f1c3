//! What is to be started, once everything is decided.

use crate::agents;
use crate::options::Options;
use crate::spawn::Strings;
use farpost_job::{JobMemory, Roles};
use rustix::process::Signal;
use std::ffi::CString;
use std::os::fd::OwnedFd;

/// A program of the job, ready to be started.
pub struct PreparedApp {
    pub file: CString,
    pub args: Strings,
    pub shell_args: Strings,
    /// Variables that are the same for all its ranks.
    pub variables: Vec<CString>,
    pub directory: Option<CString>,
}

/// Which programs run where, and on which cores.
pub struct PlannedJob {
    pub apps: Vec<PreparedApp>,
    /// For each rank, and after them each service, which app.
    pub app_of: Vec<u32>,
    /// How many of them are services, and what the ranks are.
    pub roles: Roles,
    /// For each rank, the hardware threads it is bound to; empty: all.
    pub cpus: Vec<Vec<usize>>,
    /// Each rank has cores of its own.
    pub own_cores: bool,
    /// Nobody asked for that.
    pub bound_by_default: bool,
    pub host: String,
    /// The only "rank" is another launcher, of this name.
    pub engine: Option<&'static str>,
}

impl PlannedJob {
    /// How many of the processes are ranks of the program; the others are services.
    pub fn ranks(&self) -> usize {
        self.app_of.len() - self.roles.services() as usize
    }

    pub fn is_service(&self, number: u32) -> bool {
        number as usize >= self.ranks()
    }

    /// A process, for people.
    pub fn name(&self, number: u32) -> String {
        match self.engine {
            Some(engine) => engine.to_owned(),
            None if self.is_service(number) => format!("{} on host {}", agents::NAME, self.host),
            None => format!("rank {number} on host {}", self.host),
        }
    }
}

/// Everything the guardian needs; prepared by the front process.
pub struct Plan {
    pub options: Options,
    pub job: PlannedJob,
    pub memory: JobMemory,
    /// Standard input of each rank; `None`: mpiexec's own.
    pub stdin: Vec<Option<OwnedFd>>,
    /// Signals blocked when mpiexec was started.
    pub mask: libc::sigset_t,
    /// Signals that are to have their default effect in the ranks.
    pub default_signals: Vec<Signal>,
}
