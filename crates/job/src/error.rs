//! What can go wrong between a process and the job it belongs to. Every message is one line for a person.

/// Why a process could not join its job, or could not exchange data with it.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A variable that describes the job does not hold what it must.
    #[error("{name}={value}: {allowed}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        allowed: String,
    },
    /// A field of the job memory is not what a Farpost launcher of this version writes.
    #[error("job memory is not usable: {field} is {found}, must be {expected}")]
    Header {
        /// The field, by name.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What it must hold.
        expected: String,
    },
    /// The descriptor or file behind the job memory is not what it must be.
    #[error("job memory is not usable: {0}")]
    Memory(String),
    /// The rank already belongs to a process.
    #[error(
        "rank {rank} of this job already is process {owner}; a program that a rank starts needs a launcher of its own, as in 'mpiexec -n 1 program'"
    )]
    RankTaken {
        /// The rank.
        rank: u32,
        /// The process that is this rank.
        owner: u32,
    },
    /// A launcher Farpost does not speak with started more than one process.
    #[error(
        "started by {launcher} with {size} ({evidence}), which Farpost cannot join yet; start the program with Farpost's mpiexec, or with a launcher that serves PMI-1 (MPICH's mpiexec.hydra, srun --mpi=pmi2)"
    )]
    ForeignLauncher {
        /// The launcher, as people call it.
        launcher: &'static str,
        /// How many processes, in words.
        size: String,
        /// The variable that shows it.
        evidence: String,
    },
    /// The ranks are on several hosts.
    #[error(
        "rank {rank} runs on host {here}, rank 0 on host {there}; a Farpost job must be on one host for now"
    )]
    SeveralHosts {
        /// This rank.
        rank: u32,
        /// This rank's host.
        here: String,
        /// Rank 0's host.
        there: String,
    },
    /// The PMI-1 server said something that is not PMI-1, refused, or went away.
    #[error("PMI-1 launcher: {0}")]
    Pmi(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The key-value exchange was given something too long, or its log is full or damaged.
    #[error("key-value exchange: {0}")]
    Kvs(String),
    /// Another rank aborted or damaged the job while this one waited.
    #[error("fence: {0}")]
    Fence(String),
}

impl JobError {
    /// The last system error, with what was attempted.
    pub(crate) fn last(what: impl Into<String>) -> Self {
        JobError::System {
            what: what.into(),
            source: std::io::Error::last_os_error(),
        }
    }
}
