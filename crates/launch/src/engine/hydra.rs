//! A job in the words of MPICH's `mpiexec.hydra`.

use super::job::{Command, Engine, EngineKind, Job};
use crate::cores::{Bind, Map};
use crate::options::{Files, Stdin};
use crate::refusal::Refusal;
use std::ffi::OsString;

pub fn command(engine: &Engine, job: &Job<'_>) -> Result<Command, Refusal> {
    let options = job.options;
    let mut command = Command::new(engine, job.environment.clone());
    let blocks: Vec<_> = job.parts.iter().flat_map(|p| &p.blocks).collect();
    if !blocks.is_empty() {
        // Hydra fills the list in order: with as many places as ranks, each rank has its own.
        let list: Vec<_> = blocks.iter().map(|b| format!("{}:{}", b.host, b.ranks)).collect();
        command.add(["-hosts", &list.join(",")]);
    }
    if let Some(shell) = &options.far.remote_shell {
        let (program, rest) = shell.trim().split_once(' ').unwrap_or((shell.trim(), ""));
        command.add(["-launcher", "ssh", "-launcher-exec", program]);
        if !rest.trim().is_empty() {
            command.set("HYDRA_LAUNCHER_EXTRA_ARGS", rest.trim());
        }
    }
    if let Some(interface) = &options.far.interface {
        command.add(["-iface", interface]);
    }
    if options.go_on {
        command.add(["-disable-auto-cleanup"]);
    }
    bind(&mut command, job);
    if !options.marks.none() {
        command.add(["-prepend-rank"]);
        if options.marks.time {
            command.warn(EngineKind::Hydra, "--timestamp-output");
        }
    }
    match &options.files {
        Some(Files::Directory(directory)) => {
            job.make_directories(directory)?;
            let file = |name| directory.join(format!("rank.%r/{name}"));
            command.add([OsString::from("-outfile-pattern"), file("stdout").into()]);
            command.add([OsString::from("-errfile-pattern"), file("stderr").into()]);
        }
        Some(Files::Patterns(out, err)) => {
            for (option, pattern) in [("-outfile-pattern", out), ("-errfile-pattern", err)] {
                if let Some(pattern) = pattern {
                    command.add([&OsString::from(option), pattern]);
                }
            }
        }
        None => {}
    }
    if options.stdin == Stdin::All || matches!(options.stdin, Stdin::Rank(r) if r > 0) {
        return refuse!(
            usage: "-stdin: mpiexec.hydra can give standard input to rank 0 only; 0 and none are allowed with it"
        );
    }
    if options.verbose {
        command.add(["-print-all-exitcodes"]);
    }
    if !options.far.parameters.is_empty() {
        command.warn(EngineKind::Hydra, "--mca");
    }
    for (number, part) in job.parts.iter().enumerate() {
        if number > 0 {
            command.add([":"]);
        }
        command.add(["-n", &part.ranks.to_string()]);
        if let Some(directory) = &part.app.directory {
            command.add([OsString::from("-wdir"), directory.clone().into()]);
        }
        match &part.inherited {
            None => {}
            Some(names) if names.is_empty() => command.add(["-envnone"]),
            Some(names) => {
                let names: Vec<OsString> = names.iter().cloned().collect();
                command.add([OsString::from("-envlist"), names.join(",".as_ref())]);
            }
        }
        for (name, value) in &part.set {
            command.add([&OsString::from("-env"), name, value]);
        }
        command.add([&part.program]);
        command.add(&part.app.args);
    }
    Ok(command)
}

fn bind(command: &mut Command, job: &Job<'_>) {
    let options = job.options;
    let cores = options.cores_per_rank;
    let several = |word: &str| match cores {
        1 => word.to_owned(),
        n => format!("{word}:{n}"),
    };
    let bind = match options.bind {
        Bind::None => "none".into(),
        Bind::Core if options.use_hwthreads => several("hwthread"),
        Bind::Core => several("core"),
        Bind::HwThread => several("hwthread"),
        Bind::Socket => "socket".into(),
        Bind::Numa => "numa".into(),
    };
    command.add(["-bind-to", &bind]);
    if options.bind != Bind::None {
        match options.map {
            Map::Core => {}
            Map::Socket => command.add(["-map-by", "socket"]),
            Map::Numa => command.add(["-map-by", "numa"]),
        }
    }
    if options.report_bindings {
        command.set("HYDRA_TOPO_DEBUG", "1");
    }
}
