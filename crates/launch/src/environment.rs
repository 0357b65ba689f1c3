//! The environment of the ranks: what mpiexec's own lets through, what the command line sets, what the job says.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Which of mpiexec's own variables pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// All.
    All,
    /// None.
    Nothing,
    /// These.
    List(Vec<OsString>),
}

/// What a command line says about variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Which of mpiexec's own variables pass; not said: all.
    pub base: Option<Base>,
    /// Variables that pass whatever the base.
    pub export: Vec<OsString>,
    /// Variables set, later ones win.
    pub set: Vec<(OsString, OsString)>,
}

/// Variables by which launchers, ours included, tell a process its place in a job. A job inside a job must not
/// see the outer one's.
pub fn is_from_a_launcher(name: &OsStr) -> bool {
    let name = name.as_bytes();
    const NAMES: &[&[u8]] = &[
        b"MPI_LOCALRANKID",
        b"MPI_LOCALNRANKS",
        b"MPIRUN_RANK",
        b"MPIRUN_NPROCS",
    ];
    const PREFIXES: &[&[u8]] = &[
        b"PMI_",
        b"PMIX_",
        b"OMPI_COMM_WORLD_",
        b"HYDI_",
        b"HYDRA_",
        b"PALS_",
        b"MV2_COMM_WORLD_",
        b"FLUX_TASK_",
        b"FLUX_JOB_SIZE",
        b"JSM_NAMESPACE_",
    ];
    NAMES.contains(&name)
        || PREFIXES.iter().any(|p| name.starts_with(p))
        // The user's word, which holds for every job.
        || farpost_job::VARIABLES.iter().any(|v| v.as_bytes() == name && *v != farpost_job::SECRET_FILE)
}

/// May another launcher see this variable of ours? Its own settings, yes; an outer job's, no.
pub fn passes_to_engine(name: &OsStr) -> bool {
    const SETTINGS: &[&[u8]] = &[b"HYDRA_", b"PMIX_MCA_", b"PMIX_PREFIX"];
    !is_from_a_launcher(name) || SETTINGS.iter().any(|s| name.as_bytes().starts_with(s))
}

/// Variables that are the same for all ranks of an app.
pub fn for_app(
    own: impl Iterator<Item = (OsString, OsString)>,
    job: &Rules,
    app: &Rules,
) -> BTreeMap<OsString, OsString> {
    let base = app.base.as_ref().or(job.base.as_ref()).unwrap_or(&Base::All);
    let passes = |name: &OsStr| match base {
        _ if is_from_a_launcher(name) => false,
        Base::All => true,
        Base::Nothing => false,
        Base::List(names) => names.iter().any(|n| n == name),
    };
    let mut variables: BTreeMap<OsString, OsString> = own
        .filter(|(name, _)| passes(name) || job.export.contains(name) || app.export.contains(name))
        .collect();
    variables.extend(job.set.iter().chain(&app.set).cloned());
    variables
}

/// `NAME=VALUE` as `execve` wants it. A zero byte cannot be in an argument or variable of this process.
pub fn c_pair(name: &OsStr, value: &OsStr) -> CString {
    let mut bytes = name.to_owned().into_vec();
    bytes.push(b'=');
    bytes.extend_from_slice(value.as_bytes());
    bytes.retain(|b| *b != 0);
    CString::new(bytes).unwrap_or_default()
}

/// The variables that tell one rank its place: Farpost's own, and those that scripts look for. `PMI_*` are not
/// among them: there is no PMI server to go with them.
pub fn for_rank(rank: u32, size: u32, job_fd: i32, job_id: &str) -> Vec<(&'static str, String)> {
    vec![
        (farpost_job::JOB_FD, job_fd.to_string()),
        (farpost_job::JOB_ID, job_id.to_owned()),
        (farpost_job::RANK, rank.to_string()),
        (farpost_job::SIZE, size.to_string()),
        ("MPI_LOCALRANKID", rank.to_string()),
        ("MPI_LOCALNRANKS", size.to_string()),
        ("OMPI_COMM_WORLD_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_SIZE", size.to_string()),
        ("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string()),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", size.to_string()),
        ("OMPI_COMM_WORLD_NODE_RANK", rank.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> impl Iterator<Item = (OsString, OsString)> {
        [
            ("A", "1"),
            ("B", "2"),
            ("PMI_RANK", "3"),
            ("FARPOST_JOB_FD", "4"),
            ("FARPOST_SPIN", "5"),
            ("FARPOST_SECRET_FD", "6"),
            ("FARPOST_SECRET_FILE", "f"),
        ]
        .into_iter()
        .map(|(n, v)| (n.into(), v.into()))
    }

    fn names(job: &Rules, app: &Rules) -> String {
        let all = for_app(own(), job, app);
        all.iter()
            .map(|(n, v)| format!("{}={} ", n.to_str().unwrap(), v.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn rules_of_the_app_come_after_those_of_the_job() {
        let none = Rules::default();
        assert_eq!(
            names(&none, &none),
            "A=1 B=2 FARPOST_SECRET_FILE=f FARPOST_SPIN=5 "
        );
        let nothing = Rules {
            base: Some(Base::Nothing),
            ..Rules::default()
        };
        assert_eq!(names(&nothing, &none), "");
        let list = Rules {
            base: Some(Base::List(vec!["B".into()])),
            ..Rules::default()
        };
        assert_eq!(names(&nothing, &list), "B=2 ");
        let set = Rules {
            set: vec![("A".into(), "9".into()), ("N".into(), "x".into())],
            ..Rules::default()
        };
        assert_eq!(names(&set, &nothing), "A=9 N=x ");
        let export = Rules {
            base: Some(Base::Nothing),
            export: vec!["A".into()],
            ..Rules::default()
        };
        assert_eq!(names(&export, &none), "A=1 ");
    }
}
