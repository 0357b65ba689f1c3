//! What is said about ranks that failed, and the exit code that follows.

use farpost_job::RankState;
pub use farpost_job::{End, signal_name};

/// A rank that did not end as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub rank: u32,
    /// What happened, as the end of a sentence about the rank.
    pub what: String,
    /// mpiexec's exit code.
    pub code: i32,
    /// The other ranks must be ended.
    pub ends_job: bool,
    /// Of several failures seen together, the one of least weight is the cause.
    pub weight: u8,
}

/// Judge the end of a rank. `None`: all is well.
pub fn judge(
    rank: u32,
    end: End,
    state: RankState,
    abort: impl FnOnce() -> (i32, String),
) -> Option<Failure> {
    let failure = |what: String, code, ends_job, weight| {
        Some(Failure {
            rank,
            what,
            code,
            ends_job,
            weight,
        })
    };
    match (end, state) {
        (_, RankState::Aborted) => {
            let (code, message) = abort();
            let reason = if message.is_empty() {
                String::new()
            } else {
                format!(": {message}")
            };
            failure(
                format!("aborted with code {code}{reason}"),
                farpost_job::exit_status(code),
                true,
                1,
            )
        }
        (End::Signal(signal), _) => failure(
            format!("killed by {}", signal_name(signal)),
            128 + signal,
            true,
            0,
        ),
        (End::Exit(code), RankState::Initialised) => {
            let (_, functions) = abort();
            let functions = if functions.is_empty() {
                "MPI_Finalize"
            } else {
                &functions
            };
            let what = format!("exited with code {code} without {functions}");
            failure(what, if code == 0 { 1 } else { code }, true, 2)
        }
        (End::Exit(0), _) => None,
        // It has taken leave of the others: they may finish what they do.
        (End::Exit(code), RankState::Finalised) => {
            failure(format!("exited with code {code}"), code, false, 3)
        }
        (End::Exit(code), _) => failure(format!("exited with code {code}"), code, true, 2),
    }
}

/// Judge the end of another launcher, which tells itself how its ranks ended.
pub fn judge_engine(end: End) -> Option<Failure> {
    let (what, code) = match end {
        End::Exit(0) => return None,
        End::Exit(code) => (String::new(), code),
        End::Signal(signal) => (
            format!(
                "was killed by {}; ended what it left on this host",
                signal_name(signal)
            ),
            128 + signal,
        ),
    };
    Some(Failure {
        rank: 0,
        what,
        code,
        ends_job: true,
        weight: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_judged() {
        let j = |end, state| judge(3, end, state, || (0x100, "reason".into()));
        assert_eq!(j(End::Exit(0), RankState::Started), None);
        assert_eq!(j(End::Exit(0), RankState::Finalised), None);
        let f = j(End::Signal(11), RankState::Initialised).unwrap();
        assert_eq!((f.code, f.ends_job), (139, true));
        assert_eq!(f.what, "killed by signal 11 (SIGSEGV, segmentation fault)");
        assert_eq!(j(End::Exit(0), RankState::Initialised).unwrap().code, 1);
        assert_eq!(j(End::Exit(4), RankState::Initialised).unwrap().code, 4);
        let f = judge(0, End::Exit(0), RankState::Initialised, || {
            (0, "FM_finalize".into())
        })
        .unwrap();
        assert_eq!(f.what, "exited with code 0 without FM_finalize");
        let f = j(End::Exit(4), RankState::Finalised).unwrap();
        assert_eq!((f.code, f.ends_job), (4, false));
        let f = j(End::Exit(1), RankState::Aborted).unwrap();
        assert_eq!((f.code, f.what.as_str()), (1, "aborted with code 256: reason"));
    }
}
