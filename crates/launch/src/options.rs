//! What a command line of `mpiexec` says, once it is understood.

use crate::cores::{Bind, Map};
use crate::environment::Rules;
use crate::hosts::Host;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// One program of a job: what stands between two `:`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct App {
    /// Ranks that run it.
    pub ranks: Option<u32>,
    /// The program, as given.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its environment, beyond what the job says.
    pub rules: Rules,
    /// Where it runs; where mpiexec runs if not given.
    pub directory: Option<PathBuf>,
    /// Where to look for the program before `PATH`.
    pub path: Option<OsString>,
    /// Hosts named for it.
    pub hosts: Vec<Host>,
}

/// Who gets what comes in on mpiexec's standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// One rank; the others read nothing.
    Rank(u32),
    /// Every rank gets a copy.
    All,
    /// Nobody.
    Nobody,
}

/// Where the ranks' output goes instead of mpiexec's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// `DIR/rank.N/stdout` and `DIR/rank.N/stderr`.
    Directory(PathBuf),
    /// File names with `%r` for the rank; either may be absent.
    Patterns(Option<OsString>, Option<OsString>),
}

/// How lines are marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// `[rank] `
    pub rank: bool,
    /// `[job,rank]<stream>: `
    pub tag: bool,
    /// The time.
    pub time: bool,
}

impl Marks {
    /// Lines are passed on as they are.
    pub fn none(&self) -> bool {
        !(self.rank || self.tag || self.time)
    }
}

/// A whole command line, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The programs, at least one.
    pub apps: Vec<App>,
    /// Environment for all programs.
    pub rules: Rules,
    /// What each rank is bound to.
    pub bind: Bind,
    /// Nobody said what ranks are bound to, or in which order: domains, where nothing stands against it.
    pub bind_by_default: bool,
    /// Which cores come first.
    pub map: Map,
    /// Cores per rank when bound.
    pub cores_per_rank: u32,
    /// Hardware threads count as cores.
    pub use_hwthreads: bool,
    /// Say what is bound where.
    pub report_bindings: bool,
    /// How lines are marked.
    pub marks: Marks,
    /// Standard error goes where standard output goes.
    pub merge: bool,
    /// Output to files.
    pub files: Option<Files>,
    /// End the job after this time.
    pub timeout: Option<Duration>,
    /// When a rank fails, the others go on.
    pub go_on: bool,
    /// The signal that asks what the ranks wait for, in place of being passed on.
    pub waits_signal: Option<rustix::process::Signal>,
    /// Who reads standard input.
    pub stdin: Stdin,
    /// Say what is done.
    pub verbose: bool,
    /// Do not say how ranks failed.
    pub quiet: bool,
    /// What concerns jobs on several hosts only.
    pub far: Far,
    /// Things to tell the user that are no errors, a line each.
    pub warnings: Vec<String>,
}

/// What a command line says about jobs on several hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Far {
    /// Ranks per host.
    pub per_host: Option<u32>,
    /// Consecutive ranks are on different hosts.
    pub cyclic: bool,
    /// Which launcher starts them.
    pub launcher: Option<String>,
    /// What starts a command on another host, in place of ssh; with its own options after blanks.
    pub remote_shell: Option<String>,
    /// Network interface of the launcher's own connections.
    pub interface: Option<String>,
    /// Parameters for Open MPI's launcher: the option without dashes, name, value.
    pub parameters: Vec<[String; 3]>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            apps: Vec::new(),
            rules: Rules::default(),
            bind: Bind::None,
            bind_by_default: true,
            map: Map::Core,
            cores_per_rank: 1,
            use_hwthreads: false,
            report_bindings: false,
            marks: Marks::default(),
            merge: false,
            files: None,
            timeout: None,
            go_on: false,
            waits_signal: None,
            stdin: Stdin::Rank(0),
            verbose: false,
            quiet: false,
            far: Far::default(),
            warnings: Vec::new(),
        }
    }
}

impl Options {
    /// A parameter of Open MPI's that the user may expect something of, where none has an effect.
    pub fn idle_parameter(&self) -> Option<String> {
        let harmless = [
            "warn",
            "oversubscribe",
            "help_aggregate",
            "single_copy",
            "verbose",
        ];
        let mut parameters = self.far.parameters.iter();
        let idle = parameters.find(|[_, name, _]| !harmless.iter().any(|h| name.contains(h)))?;
        Some(format!("--{} {}", idle[0], idle[1]))
    }
}

/// A file name with `%r` replaced by the rank, `%h` by the host, `%%` by `%`.
pub fn expand_pattern(pattern: &OsStr, rank: u32, host: &str) -> PathBuf {
    let mut name = Vec::new();
    let mut bytes = pattern.as_bytes().iter().copied();
    while let Some(b) = bytes.next() {
        match b {
            b'%' => match bytes.next() {
                Some(b'r') => name.extend(rank.to_string().bytes()),
                Some(b'h') => name.extend(host.bytes()),
                Some(b'%') | None => name.push(b'%'),
                Some(other) => name.extend([b'%', other]),
            },
            b => name.push(b),
        }
    }
    OsString::from_vec(name).into()
}
