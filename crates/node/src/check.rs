//! Whether a program's mistakes are looked for (`FARPOST_CHECK`). That changes what messages carry, so it must be the same
//! for all ranks: as with devices, who does not check says nothing and asks nobody; each other rank looks at the next one.

use farpost_job::{Job, JobError, Opening};

/// What says so.
pub const VARIABLE: &str = "FARPOST_CHECK";
/// Key under which a rank publishes that it checks.
const KEY: &str = "farpost-check";

/// What is looked for, and what is done about it. All false: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckMode {
    /// Mistakes are looked for.
    pub on: bool,
    /// Every finding is told in full, not only the first of each kind.
    pub all: bool,
    /// A finding ends the job with an exit code that is not zero.
    pub error: bool,
}

impl CheckMode {
    /// From the variable's value: `0`, `1`, or any of `all` and `error`.
    pub(crate) fn parse(value: &str) -> Result<Self, String> {
        let mut mode = Self::default();
        for word in value.split(',') {
            match word.trim() {
                "" | "0" => continue,
                "1" => {}
                "all" => mode.all = true,
                "error" => mode.error = true,
                _ => {
                    return Err(format!(
                        "{VARIABLE}={value}: allowed are 0, 1, all, error, and all,error"
                    ));
                }
            }
            mode.on = true;
        }
        Ok(mode)
    }
}

/// Say that this process checks.
pub(crate) fn publish(opening: &mut Opening, mode: CheckMode) -> Result<(), JobError> {
    if !mode.on {
        return Ok(());
    }
    opening.put(KEY, b"1")
}

/// Look whether the next rank checks too.
pub(crate) fn compare(job: &Job, mode: CheckMode) -> Result<(), String> {
    if !mode.on || job.size() == 1 || job.rank() >= job.size() {
        return Ok(());
    }
    let (rank, next) = (job.rank(), (job.rank() + 1) % job.size());
    match job.get_from(next, KEY).map_err(|error| error.to_string())? {
        Some(_) => Ok(()),
        None => Err(format!(
            "rank {rank} has {VARIABLE} set and rank {next} has not: set it for all ranks, as mpiexec --check does"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_says_what_is_looked_for() {
        let mode = |on, all, error| Ok(CheckMode { on, all, error });
        assert_eq!(CheckMode::parse("0"), mode(false, false, false));
        assert_eq!(CheckMode::parse(""), mode(false, false, false));
        assert_eq!(CheckMode::parse("1"), mode(true, false, false));
        assert_eq!(CheckMode::parse("error, all"), mode(true, true, true));
        assert!(CheckMode::parse("yes").is_err());
    }
}
