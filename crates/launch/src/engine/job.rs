//! A job that is handed to a launcher, and what is executed for it.

use crate::options::{App, Options};
use crate::place::{Block, place};
use crate::refusal::Refusal;
use crate::{agents, environment, program};
use farpost_job::Roles;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};

/// A launcher's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Slurm's `srun`.
    Srun,
    /// PRRTE's `prterun`.
    Prterun,
    /// MPICH's `mpiexec.hydra`.
    Hydra,
}

impl EngineKind {
    /// The program's name.
    pub fn program(self) -> &'static str {
        match self {
            EngineKind::Srun => "srun",
            EngineKind::Prterun => "prterun",
            EngineKind::Hydra => "mpiexec.hydra",
        }
    }
}

/// A launcher that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    pub kind: EngineKind,
    pub path: PathBuf,
}

/// Variables by name.
pub type Variables = BTreeMap<OsString, OsString>;

/// One program of the job, ready to be put into a launcher's words.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) app: &'a App,
    pub(super) ranks: u32,
    /// Absolute, or as the user gave it if it is not on this host.
    pub(super) program: OsString,
    /// Variables of the launcher's own environment that its ranks get; `None`: all of them.
    pub(super) inherited: Option<BTreeSet<OsString>>,
    /// Variables that its ranks get beyond those.
    pub(super) set: Variables,
    pub(super) blocks: Vec<Block>,
}

/// The whole job.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) options: &'a Options,
    pub(super) parts: Vec<Part<'a>>,
    /// The last part is Portals agents and no program of the job.
    pub(super) agents: bool,
    /// The launcher's own environment.
    pub(super) environment: Variables,
}

/// Portals agents: what they run, and where.
#[derive(Clone, Debug)]
pub struct Agents {
    pub(super) app: App,
    pub(super) blocks: Vec<Block>,
    /// What every process of the job is told.
    pub(super) roles: String,
}

impl Agents {
    /// One on each host that has a program which asks for it; `None`: no program does.
    ///
    /// # Errors
    /// A program asks for what there is not, hosts are not named, or there is nothing to run.
    pub fn wanted(
        options: &Options,
        own: impl Iterator<Item = (OsString, OsString)> + Clone,
        app: impl FnOnce(&App) -> Result<App, Refusal>,
    ) -> Result<Option<Agents>, Refusal> {
        let variables = |app: &App| environment::for_app(own.clone(), &options.rules, &app.rules);
        let places = options.apps.iter().map(|app| agents::place(&variables(app)));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        let Some(first) = places.iter().position(|place| agents::needs_one(place)) else {
            return Ok(None);
        };
        let mut hosts: Vec<Block> = Vec::new();
        for (blocks, place) in place(options).iter().zip(&places) {
            if blocks.is_empty() {
                return Err(agents::no_hosts());
            }
            for block in blocks.iter().filter(|_| agents::needs_one(place)) {
                if !hosts.iter().any(|known| known.host == block.host) {
                    hosts.push(Block {
                        host: block.host.clone(),
                        ranks: 1,
                    });
                }
            }
        }
        let mut app = app(&options.apps[first])?;
        app.ranks = Some(hosts.len() as u32);
        let ranks = options.apps.iter().map(|app| app.ranks.unwrap_or(1));
        Ok(Some(Agents {
            app,
            roles: Roles::new(places.iter().copied().zip(ranks), hosts.len() as u32).to_string(),
            blocks: hosts,
        }))
    }
}

/// What to execute.
#[derive(Debug)]
pub(super) struct Command {
    /// Arguments, the program's name first.
    pub(super) args: Vec<OsString>,
    /// The launcher's environment.
    pub(super) environment: Variables,
    /// Files without names that the arguments or variables refer to by descriptor.
    pub(super) files: Vec<File>,
    /// What the launcher cannot do, a line each.
    pub(super) warnings: Vec<String>,
}

impl Command {
    pub(super) fn new(engine: &Engine, environment: Variables) -> Command {
        Command {
            args: vec![engine.path.clone().into()],
            environment,
            files: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn add<I: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = I>) {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.environment.insert(name.into(), value.into());
    }

    pub(super) fn warn(&mut self, engine: EngineKind, what: &str) {
        self.warnings
            .push(format!("{what} has no effect with {}", engine.program()));
    }
}

impl<'a> Job<'a> {
    /// Prepare a job. `own`: this process's variables. `here`: this host takes part, so that programs can be checked.
    pub(super) fn new(
        options: &'a Options,
        agents: Option<&'a Agents>,
        own: impl Iterator<Item = (OsString, OsString)>,
        here: bool,
    ) -> Result<Self, Refusal> {
        let mut environment: Variables = own
            .filter(|(name, _)| environment::passes_to_engine(name))
            .collect();
        // Python's own buffer would hold output back.
        environment
            .entry("PYTHONUNBUFFERED".into())
            .or_insert_with(|| "1".into());
        let mut parts = Vec::new();
        let programs = options.apps.iter().zip(place(options));
        let last = agents.map(|agents| (&agents.app, agents.blocks.clone()));
        for (app, blocks) in programs.chain(last) {
            let variables = environment::for_app(environment.clone().into_iter(), &options.rules, &app.rules);
            let common = |name: &OsString| {
                variables.get(name) == environment.get(name) && !environment::is_from_a_launcher(name)
            };
            let (kept, dropped): (BTreeSet<_>, BTreeSet<_>) = environment
                .keys()
                .filter(|n| !environment::is_from_a_launcher(n))
                .cloned()
                .partition(|n| variables.contains_key(n));
            let inherited = (!dropped.is_empty()).then(|| kept.into_iter().filter(|n| common(n)).collect());
            let mut set: Variables = variables
                .iter()
                .filter(|(n, v)| environment.get(*n) != Some(v))
                .map(|(n, v)| (n.clone(), v.clone()))
                .collect();
            if let Some(agents) = agents {
                set.insert(farpost_job::PROCESSES.into(), agents.roles.clone().into());
            }
            let path = OsStr::new("PATH");
            let path = variables.get(path).or_else(|| environment.get(path));
            parts.push(Part {
                app,
                ranks: app.ranks.unwrap_or(1),
                program: locate(app, path, here)?,
                inherited,
                set,
                blocks,
            });
        }
        Ok(Job {
            options,
            parts,
            agents: agents.is_some(),
            environment,
        })
    }

    /// Make the directories of ranks' output.
    pub(super) fn make_directories(&self, of_job: &Path) -> Result<(), Refusal> {
        for rank in 0..self.ranks() {
            let directory = of_job.join(format!("rank.{rank}"));
            std::fs::create_dir_all(&directory)
                .map_err(|e| refusal!(system: "could not make directory {}: {e}", directory.display()))?;
        }
        Ok(())
    }

    /// Processes to be started.
    pub(super) fn ranks(&self) -> u32 {
        self.parts.iter().map(|p| p.ranks).sum()
    }

    /// The parts that are programs of the job.
    pub(super) fn programs(&self) -> &[Part<'a>] {
        &self.parts[..self.parts.len() - usize::from(self.agents)]
    }

    /// Names of hosts, each once, in the order of ranks.
    pub(super) fn hosts(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for block in self.parts.iter().flat_map(|p| &p.blocks) {
            if !names.contains(&block.host.as_str()) {
                names.push(&block.host);
            }
        }
        names
    }
}

impl Part<'_> {
    /// The program with its arguments, and before it `env` to change to its directory, to drop and to set variables,
    /// as far as there is anything to do.
    pub(super) fn wrapped(&self, directory: bool, drop: impl Iterator<Item = OsString>) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if directory && let Some(directory) = &self.app.directory {
            words.extend([OsString::from("-C"), directory.clone().into()]);
        }
        words.extend(drop.flat_map(|name| [OsString::from("-u"), name]));
        for (name, value) in &self.set {
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            words.push(pair);
        }
        if !words.is_empty() {
            words.insert(0, "/usr/bin/env".into());
        }
        words.push(self.program.clone());
        words.extend(self.app.args.iter().cloned());
        words
    }
}

/// Where an app's program is. If this host takes part, it must be there; else it may be on the others only.
pub(super) fn locate(app: &App, path: Option<&OsString>, here: bool) -> Result<OsString, Refusal> {
    use std::os::unix::ffi::OsStringExt;
    match program::find(app, path.map(|p| p.as_os_str())) {
        Ok(file) => Ok(OsString::from_vec(file.into_bytes())),
        Err(refusal) if here => Err(refusal),
        Err(_) => Ok(app.program.clone()),
    }
}
