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
        "started by {launcher} with {size} ({evidence}), which offers none of the ways to join a job that Farpost knows; start the program with Farpost's mpiexec, mpiexec.hydra (PMI-1), prterun or mpirun (PMIx), or srun --mpi=pmi2 or --mpi=pmix"
    )]
    ForeignLauncher {
        /// The launcher, as people call it.
        launcher: &'static str,
        /// How many processes, in words.
        size: String,
        /// The variable that shows it.
        evidence: String,
    },
    /// The launcher says that two ranks are on one host, but they cannot share its memory.
    #[error(
        "rank {rank} on {here} should share the memory of rank {with} on {there}, as its launcher says, but cannot: {why}"
    )]
    NotOneHost {
        /// This rank.
        rank: u32,
        /// This rank's host.
        here: String,
        /// The rank that made the memory.
        with: u32,
        /// That rank's host.
        there: String,
        /// What keeps them apart.
        why: &'static str,
    },
    /// Another rank runs another version of Farpost.
    #[error(
        "rank {rank} runs Farpost {there}, this is Farpost {here}; all ranks of a job need the same version"
    )]
    Versions {
        /// The other rank.
        rank: u32,
        /// Its version.
        there: String,
        /// This version.
        here: &'static str,
    },
    /// A step of start-up took too long.
    #[error(
        "start-up on host {host} has waited {limit} s, since {since} UTC, for {step}; FARPOST_START_TIMEOUT=seconds sets how long it may"
    )]
    Late {
        /// What was waited for.
        step: String,
        /// This host.
        host: String,
        /// Time of day when waiting began.
        since: String,
        /// Seconds it may take.
        limit: u64,
    },
    /// A tunable has a value it cannot have.
    #[error("{0}")]
    Tunable(String),
    /// The launcher said something its protocol does not have, refused, or went away.
    #[error("{speaks} launcher: {what}")]
    Launcher {
        /// The protocol.
        speaks: &'static str,
        /// What it did.
        what: String,
    },
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
    /// As [`system`](Self::system), of what the system will say.
    pub(crate) fn of<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        |source| JobError::system(what, source)
    }

    /// The variable `name` must not have this value: what is allowed.
    pub(crate) fn variable(name: &'static str, value: impl Into<String>, allowed: impl Into<String>) -> Self {
        let (value, allowed) = (value.into(), allowed.into());
        JobError::Variable { name, value, allowed }
    }

    /// What the system said while `what` was attempted.
    pub(crate) fn system(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        let (what, source) = (what.into(), source.into());
        JobError::System { what, source }
    }
}

/// The beginning of a text that came from elsewhere, fit to be shown.
pub(crate) fn clip(text: &str) -> String {
    let short: String = text
        .chars()
        .take(80)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if short.len() < text.len() {
        short + "..."
    } else {
        short
    }
}
