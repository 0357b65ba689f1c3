//! Processes of a job that are no ranks of its program: *services*, which run beside it for its sake. They come after the ranks,
//! in numbers of their own, and everybody is told by [`PROCESSES`]: what each rank is, and how many services there are.
//!
//! The names of roles are for those who use them. A variable of `inline:4,generic:2+2` tells of four ranks of role
//! *inline*, two of role *generic*, and two services.

use crate::error::JobError;
use crate::layout::MAX_RANKS;
use crate::variables::PROCESSES;

/// What the processes of a job are for. Without the variable all are ranks, of no role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// Roles of consecutive ranks.
    runs: Vec<(String, u32)>,
    services: u32,
}

impl Roles {
    /// Ranks with these roles, in order, and after them `services` services.
    pub fn new<'a>(ranks: impl IntoIterator<Item = (&'a str, u32)>, services: u32) -> Self {
        let mut runs: Vec<(String, u32)> = Vec::new();
        for (role, count) in ranks {
            match runs.last_mut() {
                Some(last) if last.0 == role => last.1 += count,
                _ => runs.push((role.to_owned(), count)),
            }
        }
        Self { runs, services }
    }

    /// What [`PROCESSES`] says; `None`: it is no such text.
    pub fn parse(text: &str) -> Option<Self> {
        let (ranks, services) = text.split_once('+')?;
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            text.parse()
                .ok()
                .filter(|n| digits && (1..=MAX_RANKS).contains(n))
        };
        let run = |text: &str| {
            let (role, count) = text.split_once(':')?;
            let word = !role.is_empty() && role.bytes().all(|b| b.is_ascii_lowercase());
            word.then_some((role.to_owned(), number(count)?))
        };
        let runs = ranks.split(',').map(run).collect::<Option<Vec<_>>>()?;
        Some(Self {
            runs,
            services: number(services)?,
        })
    }

    /// What the variable says about a job of `processes`.
    pub(crate) fn told(env: &impl Fn(&str) -> Option<String>, processes: u32) -> Result<Self, JobError> {
        let Some(text) = env(PROCESSES) else {
            return Ok(Self::default());
        };
        let refused = |allowed: String| JobError::variable(PROCESSES, text.clone(), allowed);
        let roles = Self::parse(&text)
            .ok_or_else(|| refused("must be 'role:ranks,role:ranks+services', as mpiexec sets it".into()))?;
        let told = u64::from(roles.services) + roles.runs.iter().map(|run| u64::from(run.1)).sum::<u64>();
        if told != u64::from(processes) {
            return Err(refused(format!(
                "these are {told} processes, and the job has {processes}; mpiexec sets it for the processes that it starts and for no others"
            )));
        }
        Ok(roles)
    }

    /// Services.
    pub fn services(&self) -> u32 {
        self.services
    }

    /// The role of a rank; `None` for services, and where nothing is said.
    pub fn of(&self, rank: u32) -> Option<&str> {
        let mut before = 0;
        let run = self.runs.iter().find(|run| {
            before += run.1;
            rank < before
        });
        run.map(|run| run.0.as_str())
    }
}

impl std::fmt::Display for Roles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (role, count)) in self.runs.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{role}:{count}")?;
        }
        write!(f, "+{}", self.services)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn roles_come_back() {
        let roles = Roles::new([("inline", 1), ("inline", 3), ("generic", 2)], 2);
        assert_eq!(roles.to_string(), "inline:4,generic:2+2");
        assert_eq!(Roles::parse("inline:4,generic:2+2"), Some(roles.clone()));
        let of: Vec<_> = (0..8).map(|rank| roles.of(rank).unwrap_or("-")).collect();
        let wanted = ["inline"; 4].into_iter().chain(["generic"; 2]).chain(["-"; 2]);
        assert!(of.into_iter().eq(wanted));
        assert_eq!(Roles::default().of(0), None);
    }

    #[test]
    fn what_does_not_fit_the_job_is_refused() {
        let told = |text: &str| Roles::told(&|_| Some(text.to_owned()), 6);
        assert_eq!(told("a:4+2").unwrap().services(), 2);
        for text in [
            "",
            "4",
            "a:4",
            "a:4+",
            "a:6+0",
            "a:4+2+1",
            "a:4,+2",
            "A:4+2",
            "a:+4+2",
            "a:0+6",
            "a:99999999999+2",
        ] {
            let error = told(text).unwrap_err().to_string();
            assert!(error.contains("as mpiexec sets it"), "{text}: {error}");
        }
        let error = told("a:4+3").unwrap_err().to_string();
        assert!(error.contains("7 processes, and the job has 6"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[a-c0-9:,+]{0,20}") {
            if let Some(roles) = Roles::parse(&text) {
                prop_assert_eq!(Roles::parse(&roles.to_string()).map(|r| r.to_string()), Some(roles.to_string()));
            }
        }
    }
}
