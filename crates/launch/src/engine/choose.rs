//! Which launcher starts a job.

use super::job::{Engine, EngineKind};
use crate::hosts;
use crate::options::Options;
use crate::refusal::Refusal;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Who starts a job.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    /// Farpost itself: all ranks run on this host.
    Ourselves,
    /// Another launcher.
    Engine(Engine),
}

const ALLOWED: &str = "srun, prterun, hydra, local, or a path to one of srun, prterun, mpiexec.hydra";

/// Decide who starts the job. `env` looks up a variable; `find` looks for a program along PATH.
///
/// # Errors
/// The launcher asked for is unknown or not there; other hosts are named and there is none.
pub fn choose(
    options: &Options,
    env: &impl Fn(&str) -> Option<OsString>,
    find: &impl Fn(&OsStr) -> Option<PathBuf>,
) -> Result<Choice, Refusal> {
    let elsewhere = options
        .apps
        .iter()
        .flat_map(|a| &a.hosts)
        .find(|h| !hosts::is_here(&h.name));
    if let Some(asked) = options.far.launcher.as_deref() {
        match asked {
            "local" | "fork" | "farpost" => {
                return match elsewhere {
                    None => Ok(Choice::Ourselves),
                    Some(host) => refuse!(
                        usage: "--launcher {asked} starts ranks on this host only, and host {} is another", host.name
                    ),
                };
            }
            // What these mean to Hydra: how it reaches other hosts. Its own business, and the default.
            "ssh" | "rsh" => {}
            _ => return asked_for(asked, find).map(Choice::Engine),
        }
    }
    let found = |kind: EngineKind| {
        let path = find(kind.program().as_ref())?;
        Some(Choice::Engine(Engine { kind, path }))
    };
    let slurm = env("SLURM_JOB_ID").is_some();
    if elsewhere.is_none() {
        let named = options.apps.iter().any(|a| !a.hosts.is_empty());
        // An allocation of several hosts and no word about hosts: all of it is meant.
        let many = allocated_hosts(env) > 1;
        return Ok(match found(EngineKind::Srun) {
            Some(srun) if slurm && many && !named => srun,
            _ => Choice::Ourselves,
        });
    }
    let kinds = [EngineKind::Srun, EngineKind::Prterun, EngineKind::Hydra];
    let usable = kinds.into_iter().filter(|k| *k != EngineKind::Srun || slurm);
    usable.into_iter().find_map(found).ok_or_else(|| {
        refusal!(
            system: "host {} is another host, and starting ranks there takes a launcher, of which none is on PATH: install PRRTE \
             (prterun, part of Open MPI 5) or MPICH's Hydra (mpiexec.hydra; on Debian and Ubuntu: apt-get install mpich), \
             or run inside a Slurm allocation",
            elsewhere.map_or("", |h| h.name.as_str())
        )
    })
}

/// Hosts of the Slurm allocation that this process is in; 1 if it is in none.
pub fn allocated_hosts(env: &impl Fn(&str) -> Option<OsString>) -> u32 {
    let nodes = ["SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"];
    let nodes = nodes.into_iter().find_map(env).unwrap_or_default();
    nodes.to_str().and_then(|n| n.parse().ok()).unwrap_or(1).max(1)
}

fn asked_for(asked: &str, find: &impl Fn(&OsStr) -> Option<PathBuf>) -> Result<Engine, Refusal> {
    let name = Path::new(asked)
        .file_name()
        .map(OsStr::as_bytes)
        .unwrap_or_default();
    let kind = match name {
        b"srun" | b"slurm" => EngineKind::Srun,
        b"prterun" | b"prte" => EngineKind::Prterun,
        b"hydra" | b"mpiexec.hydra" => EngineKind::Hydra,
        _ => return refuse!(usage: "--launcher {asked}: must be {ALLOWED}"),
    };
    if asked.contains('/') {
        let path = PathBuf::from(asked);
        return match std::path::absolute(&path) {
            Ok(path) if path.is_file() => Ok(Engine { kind, path }),
            _ => refuse!(usage: "--launcher {asked}: no such file"),
        };
    }
    match find(kind.program().as_ref()) {
        Some(path) => Ok(Engine { kind, path }),
        None => refuse!(
            system: "--launcher {asked}: there is no {} on PATH; install it or give its path", kind.program()
        ),
    }
}
