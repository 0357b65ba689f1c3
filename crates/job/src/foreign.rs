//! Evidence that some other launcher started this process as one of several, looked for when it left none of the ways to
//! join its job that Farpost knows (PMI on a descriptor, PMIx). Running such processes as jobs of one would give wrong results
//! without a word, so it is an error.

use crate::error::JobError;

/// A launcher that tells its processes the size of the job in a variable.
struct Known {
    launcher: &'static str,
    /// Holds the number of processes.
    size: &'static str,
    /// Must be set as well, since some launchers leave the size in the environment of interactive shells.
    with: Option<&'static str>,
}

const fn known(launcher: &'static str, size: &'static str, with: Option<&'static str>) -> Known {
    Known { launcher, size, with }
}

const KNOWN: &[Known] = &[
    known("Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", None),
    known("a PMI launcher", "PMI_SIZE", None),
    known("Slurm's srun", "SLURM_STEP_NUM_TASKS", Some("SLURM_PROCID")),
    known("PALS", "PALS_SIZE", Some("PALS_RANKID")),
    known("MVAPICH's mpirun_rsh", "MV2_COMM_WORLD_SIZE", None),
    known("Flux", "FLUX_JOB_SIZE", Some("FLUX_TASK_RANK")),
    known("LSF's jsrun", "JSM_NAMESPACE_SIZE", None),
];

/// A launcher that tells its processes only their rank: any rank but 0 shows that there are several.
const RANK_ONLY: &[(&str, &str)] = &[
    ("Slurm's srun", "SLURM_PROCID"),
    ("PALS", "PALS_RANKID"),
    ("Cray ALPS", "ALPS_APP_PE"),
    ("LSF's jsrun", "JSM_NAMESPACE_RANK"),
    ("a PMIx launcher", "PMIX_RANK"),
];

/// Refuse to be one of several under a launcher we do not speak with.
pub(crate) fn check(env: &impl Fn(&str) -> Option<String>) -> Result<(), JobError> {
    let number = |name: &str| env(name).and_then(|v| v.trim().parse::<u64>().ok());
    let refuse = |launcher, size: String, name: &str| {
        let evidence = format!("{name}={}", env(name).unwrap_or_default());
        Err(JobError::ForeignLauncher {
            launcher,
            size,
            evidence,
        })
    };
    let mut size_told = false;
    for known in KNOWN {
        if known.with.is_some_and(|with| env(with).is_none()) {
            continue;
        }
        match number(known.size) {
            Some(n) if n > 1 => return refuse(known.launcher, format!("{n} processes"), known.size),
            Some(_) => size_told = true,
            None => {}
        }
    }
    // In a Slurm step without the step's own count, the allocation's count is the step's. A batch script is
    // one process of the allocation's many; Slurm marks it.
    let batch_script =
        env("SLURM_STEP_ID").is_none() && env("ENVIRONMENT").is_some_and(|kind| kind == "BATCH");
    if env("SLURM_PROCID").is_some() && !batch_script && env("SLURM_STEP_NUM_TASKS").is_none() {
        match number("SLURM_NTASKS") {
            Some(n) if n > 1 => return refuse("Slurm's srun", format!("{n} processes"), "SLURM_NTASKS"),
            _ => {}
        }
    }
    for (launcher, rank) in RANK_ONLY {
        if number(rank).is_some_and(|r| r > 0) {
            return refuse(launcher, "several processes".into(), rank);
        }
    }
    if env("PMIX_RANK").is_some() && !size_told {
        return refuse(
            "a PMIx launcher",
            "an unknown number of processes".into(),
            "PMIX_RANK",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> Result<(), JobError> {
        check(&|name| vars.iter().find(|v| v.0 == name).map(|v| v.1.to_owned()))
    }

    #[test]
    fn several_processes_under_a_strange_launcher_are_refused_in_one_line() {
        for vars in [
            &[
                ("OMPI_COMM_WORLD_SIZE", "2"),
                ("PMIX_RANK", "0"),
                ("PMIX_NAMESPACE", "x"),
            ][..],
            &[("PMI_SIZE", "4"), ("PMI_RANK", "0")],
            &[
                ("SLURM_PROCID", "0"),
                ("SLURM_STEP_ID", "0"),
                ("SLURM_STEP_NUM_TASKS", "8"),
            ],
            &[
                ("SLURM_PROCID", "0"),
                ("SLURM_STEP_ID", "0"),
                ("SLURM_NTASKS", "8"),
            ],
            &[("SLURM_PROCID", "3")],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")],
            &[("PMIX_RANK", "0")],
            &[("PMIX_RANK", "2")],
            &[("PALS_RANKID", "1")],
            &[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "x")],
            &[("MV2_COMM_WORLD_SIZE", "3")],
        ] {
            let text = with(vars).unwrap_err().to_string();
            assert!(!text.contains('\n') && text.contains("mpiexec"), "{text}");
        }
    }

    #[test]
    fn one_process_is_a_job_of_one() {
        for vars in [
            &[][..],
            &[("SLURM_NTASKS", "16"), ("SLURM_JOB_ID", "1")], // a shell in an allocation
            &[
                ("SLURM_NTASKS", "16"),
                ("SLURM_PROCID", "0"),
                ("ENVIRONMENT", "BATCH"),
            ],
            &[
                ("SLURM_PROCID", "0"),
                ("SLURM_STEP_ID", "0"),
                ("SLURM_STEP_NUM_TASKS", "1"),
                ("SLURM_NTASKS", "4"),
            ],
            &[
                ("OMPI_COMM_WORLD_SIZE", "1"),
                ("PMIX_RANK", "0"),
                ("PMIX_NAMESPACE", "x"),
            ],
            &[("PMI_SIZE", "1"), ("PMI_RANK", "0")],
        ] {
            with(vars).unwrap();
        }
    }
}
