//! Variables by which mpiexec tells its ranks of their job.

use crate::error::JobError;

/// Variable: the descriptor of the job memory.
pub const JOB_FD: &str = "FARPOST_JOB_FD";
/// Variable: launcher process, its descriptor of the job memory, and the job's nonce, for processes that were
/// started by something that closed the inherited descriptor.
pub const JOB_ID: &str = "FARPOST_JOB_ID";
/// Variable: the rank.
pub const RANK: &str = "FARPOST_RANK";
/// Variable: the number of ranks (for scripts; the job memory is what counts).
pub const SIZE: &str = "FARPOST_SIZE";
/// Variable: what the processes are for, where some are no ranks of the program ([`Roles`](crate::Roles)).
pub const PROCESSES: &str = "FARPOST_PROCESSES";
/// Variable: which mpiexec has handed the job to another launcher, by the name of its own job memory, so that it finds those ranks on its
/// host that are not below it.
pub const HANDED_BY: &str = "FARPOST_HANDED_BY";
/// The number in a variable.
pub(crate) fn number<T: std::str::FromStr>(
    name: &'static str,
    value: &str,
    allowed: &str,
) -> Result<T, JobError> {
    value
        .parse()
        .map_err(|_| JobError::variable(name, value, allowed))
}
