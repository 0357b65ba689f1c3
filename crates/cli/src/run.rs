//! `farpost run`: the launcher, in this process.

use std::ffi::OsString;
use std::process::ExitCode;

/// Be `mpiexec` with `arguments`. Nothing has started a thread yet, as the launcher requires.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    farpost_launch::main_with(arguments)
}
