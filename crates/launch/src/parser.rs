//! The command line of `mpiexec`: options in Hydra's and Open MPI's spellings, with one dash or two, values
//! after a space or `=`. Everything is refused or understood here; nothing is guessed later.

use crate::cores::{Bind, Map};
use crate::environment::Base;
use crate::hosts;
use crate::option_names::{Key, Which, look_up};
use crate::options::{App, Files, Options, Stdin};
use crate::refusal::Refusal;
use crate::signals::NAMED;
use crate::{config_line, engine};
use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// What a command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Run a job.
    Run(Box<Options>),
    /// Print the help.
    Help,
    /// Print the version.
    Version,
}

fn refusal(text: impl Into<String>) -> Refusal {
    Refusal::usage(text)
}

fn shown(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// The arguments of one app that are not read yet.
struct Args {
    rest: VecDeque<OsString>,
    /// The option being read, as written, and its `=value` if it had one.
    option: String,
    attached: Option<OsString>,
}

impl Args {
    fn value(&mut self, what: &str) -> Result<OsString, Refusal> {
        let value = self.attached.take().or_else(|| self.rest.pop_front());
        value.ok_or_else(|| refusal!(usage: "{} needs a value: {what}", self.option))
    }

    fn text(&mut self, what: &str) -> Result<String, Refusal> {
        let value = self.value(what)?;
        value
            .into_string()
            .map_err(|v| refusal!(usage: "{} {}: {what}", self.option, shown(&v)))
    }

    fn number(&mut self, what: &str, min: u32, max: u32) -> Result<u32, Refusal> {
        let text = self.text(what)?;
        match text.trim().parse::<u32>() {
            Ok(n) if (min..=max).contains(&n) => Ok(n),
            _ => refuse!(usage: "{} {text}: {what} must be a number from {min} to {max}", self.option),
        }
    }

    fn list(&mut self, what: &str) -> Result<Vec<OsString>, Refusal> {
        let value = self.value(what)?;
        Ok(value
            .as_bytes()
            .split(|b| *b == b',')
            .filter(|n| !n.is_empty())
            .map(|n| OsStr::from_bytes(n).to_owned())
            .collect())
    }

    /// `NAME VALUE` or `NAME=VALUE`.
    fn pair(&mut self) -> Result<(OsString, OsString), Refusal> {
        let first = self.value("NAME VALUE")?;
        let (name, value) = match split_pair(&first) {
            Some(pair) => pair,
            None => {
                let value = self.value("NAME VALUE; the value is missing")?;
                (first, value)
            }
        };
        check_name(&self.option, &name)?;
        Ok((name, value))
    }
}

fn split_pair(text: &OsStr) -> Option<(OsString, OsString)> {
    let at = text.as_bytes().iter().position(|b| *b == b'=')?;
    let (name, value) = (&text.as_bytes()[..at], &text.as_bytes()[at + 1..]);
    Some((
        OsStr::from_bytes(name).to_owned(),
        OsStr::from_bytes(value).to_owned(),
    ))
}

fn check_name(option: &str, name: &OsStr) -> Result<(), Refusal> {
    if name.is_empty() {
        return refuse!(usage: "{option}: the name of a variable is empty");
    }
    Ok(())
}

/// Understand a command line (without the program's own name). `env` looks up a variable.
///
/// # Errors
/// One line that says which argument is wrong and what is allowed.
pub fn parse(args: Vec<OsString>, env: &impl Fn(&str) -> Option<OsString>) -> Result<Request, Refusal> {
    let mut parser = Parser {
        options: Options::default(),
        from_file: false,
    };
    let text = |name| env(name).map(|v| shown(&v)).filter(|v| !v.trim().is_empty());
    parser.options.far.launcher = text("FARPOST_LAUNCHER");
    parser.options.far.remote_shell = text("FARPOST_RSH");
    if let Some(text) = env("MPIEXEC_TIMEOUT") {
        parser.options.timeout = Some(seconds("MPIEXEC_TIMEOUT", &shown(&text))?);
    }
    if let Some(request) = parser.line(args, true)? {
        return Ok(request);
    }
    let mut options = parser.options;
    if options.apps.is_empty() {
        return refuse!(
            usage: "no program given; usage: mpiexec -n RANKS PROGRAM [ARGUMENTS...] (--help lists all options)"
        );
    }
    let per_host = options.far.per_host;
    let allocated = engine::allocated_hosts(env);
    let alone = options.apps.len() == 1;
    let default = |app: &App| match per_host {
        Some(ranks) if app.hosts.is_empty() => ranks.saturating_mul(allocated),
        // Twice the same host, or two names of this host, are one.
        Some(ranks) => {
            let hosts = app
                .hosts
                .iter()
                .map(|h| if hosts::is_here(&h.name) { "" } else { &h.name });
            ranks.saturating_mul(hosts.collect::<HashSet<_>>().len() as u32)
        }
        // One program and hosts: as many ranks as these have slots.
        None if alone && !app.hosts.is_empty() => {
            let slots = app.hosts.iter().map(|h| h.slots.unwrap_or(1));
            slots.fold(0, u32::saturating_add)
        }
        None => 1,
    };
    options
        .apps
        .iter_mut()
        .filter(|a| a.ranks.is_none())
        .for_each(|a| a.ranks = Some(default(a)));
    let total: u64 = options.apps.iter().map(|a| u64::from(a.ranks.unwrap_or(0))).sum();
    let max = farpost_job::layout::MAX_RANKS;
    if total > max.into() {
        return refuse!(usage: "{total} ranks in all; a job has 1 to {max} ranks");
    }
    if let Stdin::Rank(rank) = options.stdin
        && u64::from(rank) >= total
    {
        return refuse!(usage: "-stdin {rank}: the job has ranks 0 to {}", total - 1);
    }
    Ok(Request::Run(Box::new(options)))
}

fn seconds(option: &str, text: &str) -> Result<Duration, Refusal> {
    match text.trim().parse::<f64>() {
        Ok(s) if s > 0.0 && s <= 1e9 => Ok(Duration::from_secs_f64(s)),
        _ => refuse!(usage: "{option} {text}: must be a number of seconds above 0"),
    }
}

struct Parser {
    options: Options,
    from_file: bool,
}

impl Parser {
    /// Read the apps of one line: the command line, or a line of a configuration file.
    fn line(&mut self, args: Vec<OsString>, command_line: bool) -> Result<Option<Request>, Refusal> {
        let parts: Vec<Vec<OsString>> = args.split(|a| a == ":").map(<[OsString]>::to_vec).collect();
        let many = parts.len() > 1;
        for part in parts {
            if part.is_empty() && many {
                return refuse!(usage: "nothing on one side of ':'; each side needs a program");
            }
            if let Some(request) = self.app(part, many || !command_line)? {
                return Ok(Some(request));
            }
        }
        Ok(None)
    }

    fn app(&mut self, args: Vec<OsString>, program_needed: bool) -> Result<Option<Request>, Refusal> {
        let mut app = App::default();
        let mut args = Args {
            rest: args.into(),
            option: String::new(),
            attached: None,
        };
        let mut files_before = self.options.apps.len();
        while let Some(first) = args.rest.pop_front() {
            let text = first.as_bytes();
            if text.len() < 2 || text[0] != b'-' || text == b"--" {
                app.program = if text == b"--" {
                    args.value("the program")?
                } else {
                    first
                };
                app.args = std::mem::take(&mut args.rest).into();
                break;
            }
            let Some((key, attached)) = look_up(text) else {
                return refuse!(usage: "unknown option {}; --help lists the options", shown(&first));
            };
            args.option =
                String::from_utf8_lossy(text.split(|b| *b == b'=').next().unwrap_or(text)).into_owned();
            args.attached = attached;
            if let Some(request) = self.option(key, &mut app, &mut args)? {
                return Ok(Some(request));
            }
            if args.attached.is_some() {
                return refuse!(usage: "{}: takes no value", args.option);
            }
            if self.options.apps.len() != files_before && key == Key::ConfigFile {
                files_before = usize::MAX;
            }
        }
        if !app.program.is_empty() {
            self.options.apps.push(app);
        } else if files_before != usize::MAX && (program_needed || app.ranks.is_some()) {
            return refuse!(
                usage: "no program given; usage: mpiexec -n RANKS PROGRAM [ARGUMENTS...] (--help lists all options)"
            );
        }
        Ok(None)
    }

    fn option(&mut self, key: Key, app: &mut App, args: &mut Args) -> Result<Option<Request>, Refusal> {
        let o = &mut self.options;
        match key {
            Key::Ranks => {
                app.ranks = Some(args.number("the number of ranks", 1, farpost_job::layout::MAX_RANKS)?);
            }
            Key::PerNode => {
                o.far.per_host = Some(args.number("ranks per host", 1, farpost_job::layout::MAX_RANKS)?)
            }
            Key::ConfigFile => return self.config_file(args),
            Key::Host => {
                for host in args.list("names of hosts")? {
                    app.hosts.push(hosts::parse(&shown(&host), &args.option)?);
                }
                if app.hosts.is_empty() {
                    return refuse!(usage: "{}: the list of hosts is empty", args.option);
                }
            }
            Key::HostFile => {
                app.hosts
                    .extend(hosts::parse_file(&args.value("a file with names of hosts")?)?);
            }
            Key::Launcher => o.far.launcher = Some(args.text("a launcher or a path to one")?),
            Key::RemoteShell => o.far.remote_shell = Some(args.text("a command that is used like ssh")?),
            Key::RankInterface => {
                let text = args.text("interfaces or networks, such as eth0 or 10.1.0.0/16")?;
                if text.trim().is_empty() {
                    return refuse!(
                        usage: "{}: the value is empty; write interfaces or networks, such as eth0 or 10.1.0.0/16",
                        args.option
                    );
                }
                o.rules.set.push(("FARPOST_INTERFACE".into(), text.into()));
            }
            Key::Check => {
                // The words are the library's to know.
                let value = args.attached.take().unwrap_or_else(|| "1".into());
                o.rules.set.push(("FARPOST_CHECK".into(), value));
            }
            Key::Interface => o.far.interface = Some(args.text("a network interface")?),
            Key::Directory => app.directory = Some(args.value("a directory")?.into()),
            Key::Env => app.rules.set.push(args.pair()?),
            Key::Genv => o.rules.set.push(args.pair()?),
            Key::Export => {
                let value = args.value("NAME or NAME=VALUE")?;
                match split_pair(&value) {
                    Some(pair) => {
                        check_name(&args.option, &pair.0)?;
                        o.rules.set.push(pair);
                    }
                    None => o.rules.export.push(value),
                }
            }
            Key::EnvBase(base, global) => {
                let base = match base {
                    Which::All => Base::All,
                    Which::None => Base::Nothing,
                    Which::List => Base::List(args.list("names of variables, separated by commas")?),
                };
                let rules = if global { &mut o.rules } else { &mut app.rules };
                rules.base = Some(base);
            }
            Key::Path => app.path = Some(args.value("directories, separated by ':'")?),
            Key::BindTo => {
                o.bind_by_default = false;
                let text = args.text(Bind::ALLOWED)?;
                (o.bind, o.cores_per_rank) = Bind::parse(&text, o.cores_per_rank).ok_or_else(
                    || refusal!(usage: "{} {text}: must be one of {}", args.option, Bind::ALLOWED),
                )?;
            }
            Key::MapBy => {
                let text = args.text(Map::ALLOWED)?;
                let parsed = Map::parse(&text).ok_or_else(
                    || refusal!(usage: "{} {text}: must be one of {}", args.option, Map::ALLOWED),
                )?;
                o.map = parsed.map;
                o.cores_per_rank = parsed.cores_per_rank.unwrap_or(o.cores_per_rank);
                o.far.per_host = parsed.per_node.or(o.far.per_host);
                o.far.cyclic = parsed.cyclic;
            }
            Key::CoresPerRank => o.cores_per_rank = args.number("cores per rank", 1, 4096)?,
            Key::HwThreads => o.use_hwthreads = true,
            Key::ReportBindings => o.report_bindings = true,
            Key::Tag => o.marks.tag = true,
            Key::Time => o.marks.time = true,
            Key::PrependRank => o.marks.rank = true,
            Key::Output => {
                const ALLOWED: &str = "a list of tag, rank, timestamp, merge, file=DIR, dir=DIR";
                for word in args.list(ALLOWED)? {
                    match word.as_bytes() {
                        b"tag" | b"tag-detailed" => o.marks.tag = true,
                        b"rank" => o.marks.rank = true,
                        b"timestamp" => o.marks.time = true,
                        b"merge" => o.merge = true,
                        b => match split_pair(OsStr::from_bytes(b)) {
                            Some((n, v))
                                if (n == "file" || n == "dir" || n == "directory") && !v.is_empty() =>
                            {
                                o.files = Some(Files::Directory(v.into()));
                            }
                            _ => {
                                return refuse!(usage: "{} {}: must be {ALLOWED}", args.option, shown(&word));
                            }
                        },
                    }
                }
            }
            Key::OutputFilename => o.files = Some(Files::Directory(args.value("a directory")?.into())),
            Key::OutFile | Key::ErrFile => {
                let pattern = args.value("a file name, %r stands for the rank")?;
                let (mut out, mut err) = match o.files.take() {
                    Some(Files::Patterns(out, err)) => (out, err),
                    _ => (None, None),
                };
                *(if key == Key::OutFile { &mut out } else { &mut err }) = Some(pattern);
                o.files = Some(Files::Patterns(out, err));
            }
            Key::Merge => o.merge = true,
            Key::Timeout => {
                let text = args.text("seconds")?;
                o.timeout = Some(seconds(&args.option, &text)?);
            }
            Key::WaitsSignal => {
                let text = args.text("the name of a signal")?;
                let bare = text.strip_prefix("SIG").unwrap_or(&text);
                let named = NAMED.iter().find(|(name, _)| *name == bare);
                o.waits_signal = Some(named.map(|(_, signal)| *signal).ok_or_else(
                    || refusal!(usage: "{} {text}: must be USR1, USR2, HUP or QUIT", args.option),
                )?);
            }
            Key::OnFailure => {
                let text = args.text("continue or end")?;
                o.go_on = match text.as_str() {
                    "continue" => true,
                    "end" => false,
                    _ => {
                        return refuse!(usage: "{} {text}: must be continue or end", args.option);
                    }
                };
            }
            Key::GoOn => o.go_on = true,
            Key::Stdin => {
                const ALLOWED: &str = "a rank, all or none";
                let text = args.text(ALLOWED)?;
                o.stdin = match text.as_str() {
                    "all" => Stdin::All,
                    "none" => Stdin::Nobody,
                    rank => Stdin::Rank(
                        rank.parse()
                            .map_err(|_| refusal!(usage: "{} {rank}: must be {ALLOWED}", args.option))?,
                    ),
                };
            }
            Key::Verbose => o.verbose = true,
            Key::Quiet => o.quiet = true,
            Key::Help => return Ok(Some(Request::Help)),
            Key::Version => return Ok(Some(Request::Version)),
            Key::Ignored(values) | Key::NoEffect(values) => {
                for _ in 0..values {
                    args.value("one value")?;
                }
                if matches!(key, Key::NoEffect(_)) {
                    o.warnings.push(format!("{} has no effect here", args.option));
                }
            }
            Key::Mca => {
                let name = args.text("NAME VALUE")?;
                let value = args.text("NAME VALUE; the value is missing")?;
                let option = args.option.trim_start_matches('-').to_owned();
                // The one that people set in files and scripts whatever runs their jobs.
                if name.ends_with("plm_rsh_agent") || name.ends_with("plm_ssh_agent") {
                    o.far.remote_shell.get_or_insert(value);
                } else {
                    o.far.parameters.push([option, name, value]);
                }
            }
        }
        Ok(None)
    }

    fn config_file(&mut self, args: &mut Args) -> Result<Option<Request>, Refusal> {
        let name = args.value("a file with one program per line")?;
        if self.from_file {
            return refuse!(
                usage: "{} {}: a configuration file cannot name another", args.option, shown(&name)
            );
        }
        let text = std::fs::read(&name)
            .map_err(|e| refusal!(usage: "{} {}: cannot read the file: {e}", args.option, shown(&name)))?;
        self.from_file = true;
        for (number, line) in text.split(|b| *b == b'\n').enumerate() {
            let at = |e: Refusal| Refusal {
                text: format!("{} line {}: {}", shown(&name), number + 1, e.text),
                ..e
            };
            let words = config_line::split(line).map_err(|e| at(refusal(e)))?;
            if !words.is_empty()
                && let Some(request) = self.line(words, false).map_err(at)?
            {
                return Ok(Some(request));
            }
        }
        self.from_file = false;
        if self.options.apps.is_empty() {
            return refuse!(usage: "{} {}: the file names no program", args.option, shown(&name));
        }
        Ok(None)
    }
}

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
