//! Who started this process: a launcher, or a person. A person's bare `farpost bench ...` is started again under the
//! `mpiexec` beside the executable.

use crate::abi::{BenchError, Result};
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in ranks that a bare start made.
const CHILD: &str = "MPI_BENCH_CHILD";
/// Names the terminal of the person, whose standard error a launcher's pipe hides from rank 0.
pub const TERMINAL: &str = "MPI_BENCH_TERMINAL";

/// Variables that launchers set in the processes they start (not those a shell inside a job allocation has too).
const LAUNCHED: [&str; 9] = [
    "FARPOST_RANK",
    "FARPOST_JOB_FD",
    "PMI_RANK",
    "PMI_FD",
    "PMI_SIZE",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_RANK",
    "MPI_LOCALRANKID",
    "FLUX_TASK_RANK",
];

/// Whether a launcher started this process.
pub fn is_launched() -> bool {
    std::env::var_os(CHILD).is_some() || LAUNCHED.iter().any(|name| std::env::var_os(name).is_some())
}

/// The `mpiexec` beside this executable.
pub fn mpiexec() -> Result<PathBuf> {
    let exe = std::env::current_exe().map_err(BenchError::io("finding this executable"))?;
    let path = exe.parent().unwrap_or(Path::new(".")).join("mpiexec");
    if path.exists() {
        return Ok(path);
    }
    let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
    Err(BenchError::Io {
        what: format!("looking for the launcher {}", path.display()),
        cause,
    })
}

/// Replace this process by `mpiexec -n ranks` of itself with the same arguments. Returns only on failure.
pub fn restart(ranks: usize) -> BenchError {
    let mpiexec = match mpiexec() {
        Ok(path) => path,
        Err(e) => return e,
    };
    let what = format!("starting {} -n {ranks}", mpiexec.display());
    let exe = match std::env::current_exe() {
        Ok(exe) => exe,
        Err(cause) => return BenchError::Io { what, cause },
    };
    let mut command = Command::new(mpiexec);
    command
        .arg("-n")
        .arg(ranks.to_string())
        .arg(exe)
        .args(std::env::args_os().skip(1))
        .env(CHILD, "1");
    if std::io::stderr().is_terminal()
        && let Ok(terminal) = std::fs::read_link("/proc/self/fd/2")
    {
        command.env(TERMINAL, terminal);
    }
    BenchError::Io {
        what,
        cause: command.exec(),
    }
}
