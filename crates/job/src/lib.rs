//! The job: which processes exist, how to reach them, a key-value exchange, a fence. Knows no fabric and no MPI.
//!
//! A process finds its job in one of these ways, tried in this order:
//!
//! 1. Farpost's launcher left a memory file open ([`JOB_FD`]) that holds everything.
//! 2. A PMI-1 or PMI-2 server (MPICH's Hydra, Slurm and others) is on the other end of an inherited descriptor, `PMI_FD`,
//!    or of a connection to `PMI_PORT`.
//! 3. A PMIx server (PRRTE, Slurm) is told of by `PMIX_NAMESPACE` and `PMIX_RANK`; its library is loaded.
//! 4. None: a job of one, unless there is evidence of a launcher that started several; that is an error.
//!
//! In 2 and 3 the ranks of each host make a memory file of the same form among themselves, and ranks of several hosts exchange
//! what they publish through the launcher's key-value store. Joining costs one fence of the launcher's, and every step has
//! a deadline.
//!
//! Cost class: set-up path. Nothing here is called per message.
//!
//! **Joining** has two steps, [`Job::begin`] and [`Opening::finish`]. Between them a fabric publishes its addresses; the second costs one fence of the
//! launcher's. Afterwards what a rank published is fetched when it is first asked for. Every step has a deadline (`FARPOST_START_TIMEOUT`).
//!
//! **Hosts.** Which ranks share a host is the launcher's word (`PMI_process_mapping` and its like); it is checked against boot, name and namespaces
//! before memory is shared. Without that word these decide; also where Slurm placed ranks by a list of hosts, since its PMI-2 then says of each
//! rank that it is alone.
//!
//! **Job memory.** Farpost's launcher makes one memfd and leaves it open in every rank. Under other launchers the lowest rank of each host makes one
//! of the same form and publishes where it is; the other ranks of the host open it through `/proc/<pid>/fd`. It has room for all ranks of the job.
//! The job's secret is drawn with it and travels in the launcher's exchange only.

mod card;
mod channel;
mod deadline;
mod end;
mod error;
mod foreign;
mod futex;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod hosts;
mod job;
pub mod kvs;
pub mod layout;
mod leaving;
pub mod lifeline;
mod map;
mod meet;
mod memory;
mod opening;
mod peer_fd;
mod roles;
mod secret;
mod stdio;
mod system;
mod variables;
pub mod watch;

pub use channel::pmix::PMIX_LIBRARY;
pub use deadline::JobTunables;
pub use end::{End, signal_name};
pub use error::JobError;
pub use job::{HostMemory, Job, Origin, exit_status};
pub use leaving::abandon;
pub use memory::{JobMemory, NewJob, Placement, RankState, WakeUp};
pub use opening::Opening;
pub use peer_fd::close_on_exec;
pub use roles::Roles;
pub use secret::{SECRET_FD, SECRET_FILE, Secret};
pub use system::{allowed_cores, host_name};
pub use variables::{HANDED_BY, JOB_FD, JOB_ID, PROCESSES, RANK, SIZE};

/// All variables the launcher sets that begin with `FARPOST_`. None of them is a tunable.
pub const VARIABLES: &[&str] = &[
    JOB_FD,
    JOB_ID,
    RANK,
    SIZE,
    PROCESSES,
    HANDED_BY,
    SECRET_FD,
    SECRET_FILE,
    PMIX_LIBRARY,
];

#[cfg(test)]
mod tests;
