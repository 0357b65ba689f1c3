//! `farpost run`: the launcher beside this executable, in this process.

use crate::say;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

/// Become `mpiexec` with `arguments`.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    match farpost_bench::launch::mpiexec() {
        Ok(mpiexec) => {
            let cause = std::process::Command::new(&mpiexec).args(arguments).exec();
            say::fail(&format!("cannot run {}: {cause}", mpiexec.display()))
        }
        Err(e) => say::fail(&e.to_string()),
    }
}
