//! Deadlines of start-up: nothing is waited for longer than a set time, and who waits too long says for what,
//! where, and since when.

use crate::error::JobError;
use crate::system::host_name;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

farpost_tunables::tunables! {
    /// How a process joins its job.
    pub struct JobTunables {
        /// How long a step of start-up may take: an answer of the launcher, another rank that has not come yet. Programs whose ranks call MPI_Init very far apart need more.
        start_timeout: "FARPOST_START_TIMEOUT" = 60, 1..=86_400, "seconds";
        /// The version of PMI to speak on PMI_FD: 1, 2, or 0 for what the launcher's variables suggest.
        pmi_version: "FARPOST_PMI_VERSION" = 0, 0..=2, "version";
    }
}

impl JobTunables {
    /// The tunables as the environment has them.
    pub(crate) fn read(env: &impl Fn(&str) -> Option<String>) -> Result<JobTunables, JobError> {
        let mut tunables = JobTunables::default();
        for tunable in Self::TABLE {
            if let Some(value) = env(tunable.name) {
                tunables
                    .set(tunable.name, &value)
                    .map_err(|e| JobError::Tunable(e.to_string()))?;
            }
        }
        Ok(tunables)
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.start_timeout)
    }
}

/// Something that is waited for.
pub(crate) struct Step {
    what: String,
    begun: Instant,
    clock: SystemTime,
    limit: Duration,
}

impl Step {
    /// Begin to wait for `what`, at most for `limit`.
    pub fn begin(what: impl Into<String>, limit: Duration) -> Step {
        Step {
            what: what.into(),
            begun: Instant::now(),
            clock: SystemTime::now(),
            limit,
        }
    }

    /// What is left of the time.
    ///
    /// # Errors
    /// It is over.
    pub fn left(&self) -> Result<Duration, JobError> {
        match self.limit.checked_sub(self.begun.elapsed()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(self.late()),
        }
    }

    /// The error to report when the time is over.
    pub fn late(&self) -> JobError {
        let day = self
            .clock
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs() % 86_400);
        JobError::Late {
            step: self.what.clone(),
            host: host_name(),
            since: format!("{:02}:{:02}:{:02}", day / 3600, day / 60 % 60, day % 60),
            limit: self.limit.as_secs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_late_says_what_where_and_since_when() {
        let step = Step::begin("an answer", Duration::ZERO);
        let text = step.left().unwrap_err().to_string();
        assert!(
            text.contains("an answer")
                && text.contains(&host_name())
                && text.contains("FARPOST_START_TIMEOUT"),
            "{text}"
        );
        assert!(Step::begin("x", Duration::from_secs(1000)).left().is_ok());
    }

    #[test]
    fn tunables_come_from_the_environment() {
        let read = |value: &'static str| {
            JobTunables::read(&|name: &str| (name == "FARPOST_START_TIMEOUT").then(|| value.to_owned()))
        };
        assert_eq!(read("5").unwrap().limit(), Duration::from_secs(5));
        assert!(
            read("0")
                .unwrap_err()
                .to_string()
                .contains("FARPOST_START_TIMEOUT=0")
        );
    }
}
