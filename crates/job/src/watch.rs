//! Finding jobs that run, from outside.

use crate::error::JobError;
use crate::memory::JobMemory;
use crate::peer_fd;

/// The job memory that process `pid` (a launcher or a rank) has open, for looking at.
///
/// # Errors
/// There is no such process, it is another user's, or it is not part of a job.
pub fn job_of(pid: u32) -> Result<JobMemory, JobError> {
    let directory = format!("/proc/{pid}/fd");
    let entries = std::fs::read_dir(&directory)
        .map_err(|source| JobError::system(format!("looking at process {pid}"), source))?;
    let is_job = |path: &std::path::Path| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("/memfd:farpost-job"))
    };
    let fd = entries
        .flatten()
        .filter(|entry| is_job(&entry.path()))
        .find_map(|entry| entry.file_name().to_str()?.parse().ok());
    match fd {
        Some(fd) => JobMemory::open(peer_fd::open(pid, fd)?, None),
        None => Err(JobError::Memory(format!(
            "process {pid} has none; a launcher (mpiexec) or a rank is needed"
        ))),
    }
}

/// Processes of this user that were started with variable `name` set to `value`.
pub fn started_with(name: &str, value: &str) -> Vec<u32> {
    let wanted = format!("{name}={value}");
    let has = |pid: &u32| {
        let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        variables
            .split(|byte| *byte == 0)
            .any(|pair| pair == wanted.as_bytes())
    };
    processes().filter(has).collect()
}

/// All processes that can be seen.
pub fn processes() -> impl Iterator<Item = u32> {
    let table = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    table.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The launchers of this user that have a job running, ascending by process id.
pub fn launchers() -> Vec<u32> {
    let mut found: Vec<u32> = processes()
        .filter(|pid| job_of(*pid).is_ok_and(|job| job.launcher() == *pid))
        .collect();
    found.sort_unstable();
    found
}
