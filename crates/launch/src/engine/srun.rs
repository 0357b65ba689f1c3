//! A job in the words of Slurm's `srun`, inside an allocation.

use super::job::{Command, Engine, EngineKind, Job, Part};
use crate::cores::Bind;
use crate::options::{Files, Stdin};
use crate::refusal::Refusal;
use rustix::fs::MemfdFlags;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

pub fn command(engine: &Engine, job: &Job<'_>) -> Result<Command, Refusal> {
    let options = job.options;
    let mut command = Command::new(engine, job.environment.clone());
    // Both of Slurm's plug-ins will do; pmi2 is part of every Slurm.
    let asked = command.environment.get(OsStr::new("SLURM_MPI_TYPE")).cloned();
    let mpi = asked.and_then(|a| a.into_string().ok());
    let mpi = mpi.filter(|m| m == "pmi2" || m.starts_with("pmix"));
    command.add([&format!("--mpi={}", mpi.as_deref().unwrap_or("pmi2"))]);
    command.add([&format!("--ntasks={}", job.ranks())]);
    let kill = if options.go_on { 0 } else { 1 };
    command.add([&format!("--kill-on-bad-exit={kill}"), "--overcommit"]);
    place(&mut command, job)?;
    bind(&mut command, job);
    if !options.marks.none() {
        command.add(["--label"]);
        if options.marks.time {
            command.warn(EngineKind::Srun, "--timestamp-output");
        }
    }
    output(&mut command, job)?;
    match options.stdin {
        Stdin::Rank(rank) => command.add([&format!("--input={rank}")]),
        Stdin::All => command.add(["--input=all"]),
        Stdin::Nobody => command.add(["--input=none"]),
    }
    if options.quiet {
        command.add(["--quiet"]);
    }
    let far = &options.far;
    let unused = [
        (far.interface.is_some(), "-iface"),
        (!far.parameters.is_empty(), "--mca"),
    ];
    for (_, what) in unused.iter().filter(|u| u.0) {
        command.warn(EngineKind::Srun, what);
    }
    programs(&mut command, job)?;
    Ok(command)
}

/// Each rank's host, in a file without a name.
fn place(command: &mut Command, job: &Job<'_>) -> Result<(), Refusal> {
    let hosts = job.hosts();
    if hosts.is_empty() {
        if let Some(ranks) = job.options.far.per_host {
            command.add([&format!("--ntasks-per-node={ranks}")]);
        }
        if job.options.far.cyclic {
            command.add(["--distribution=cyclic"]);
        }
        return Ok(());
    }
    let mut text = String::new();
    for block in job.parts.iter().flat_map(|p| &p.blocks) {
        for _ in 0..block.ranks {
            text.push_str(&block.host);
            text.push('\n');
        }
    }
    let path = file(command, c"farpost-hosts", text.as_bytes())?;
    command.set("SLURM_HOSTFILE", path);
    command.add(["--distribution=arbitrary", &format!("--nodes={}", hosts.len())]);
    Ok(())
}

fn bind(command: &mut Command, job: &Job<'_>) {
    let options = job.options;
    let bind = match options.bind {
        // Said aloud, some configurations complain.
        Bind::None if !options.report_bindings => return,
        Bind::None => "none",
        Bind::Core if options.use_hwthreads => "threads",
        Bind::Core => "cores",
        Bind::HwThread => "threads",
        Bind::Socket => "sockets",
        Bind::Numa => "ldoms",
    };
    let report = if options.report_bindings { "verbose," } else { "" };
    command.add([&format!("--cpu-bind={report}{bind}")]);
    if options.cores_per_rank > 1 {
        command.add([&format!("--cpus-per-task={}", options.cores_per_rank)]);
    }
}

fn output(command: &mut Command, job: &Job<'_>) -> Result<(), Refusal> {
    // Where a rank's number goes.
    let pattern = |text: &OsStr| {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes().iter();
        while let Some(b) = rest.next() {
            bytes.push(*b);
            if *b == b'%' {
                bytes.push(match rest.next() {
                    Some(b'r') => b't',
                    Some(b'h') => b'N',
                    Some(other) => *other,
                    None => b'%',
                });
            }
        }
        OsString::from_vec(bytes)
    };
    match &job.options.files {
        Some(Files::Directory(directory)) => {
            job.make_directories(directory)?;
            joined(command, "--output=", directory.join("rank.%t/stdout"));
            joined(command, "--error=", directory.join("rank.%t/stderr"));
        }
        Some(Files::Patterns(out, err)) => {
            if let Some(out) = out {
                joined(command, "--output=", pattern(out));
            }
            if let Some(err) = err {
                joined(command, "--error=", pattern(err));
            }
        }
        None => {}
    }
    Ok(())
}

/// An option and its value in one argument.
fn joined(command: &mut Command, option: &str, value: impl AsRef<OsStr>) {
    let mut arg = OsString::from(option);
    arg.push(value);
    command.add([arg]);
}

/// One program is given on the command line, several in a file.
fn programs(command: &mut Command, job: &Job<'_>) -> Result<(), Refusal> {
    if let [part] = job.parts.as_slice() {
        export(command, part);
        if let Some(directory) = &part.app.directory {
            joined(command, "--chdir=", directory);
        }
        command.add(part.wrapped(false, std::iter::empty()));
        return Ok(());
    }
    let mut text: Vec<u8> = Vec::new();
    let mut first = 0;
    for part in &job.parts {
        if part.inherited.is_some() {
            return refuse!(
                usage: "-envnone, -envlist, -genvnone, -genvlist: srun cannot do this for several programs"
            );
        }
        let last = first + part.ranks - 1;
        text.extend(format!("{first}-{last}").bytes());
        for word in part.wrapped(true, std::iter::empty()) {
            text.push(b' ');
            text.extend(quoted(&word)?);
        }
        text.push(b'\n');
        first = last + 1;
    }
    command.add(["--export=ALL"]);
    let path = file(command, c"farpost-programs", &text)?;
    command.add(["--multi-prog", &path]);
    Ok(())
}

fn export(command: &mut Command, part: &Part<'_>) {
    match &part.inherited {
        None => command.add(["--export=ALL"]),
        Some(names) if names.is_empty() => command.add(["--export=NONE"]),
        Some(names) => {
            let names: Vec<OsString> = names.iter().cloned().collect();
            joined(command, "--export=", names.join(",".as_ref()));
        }
    }
}

/// A word as srun's file of programs wants it: nothing between single quotes is interpreted.
fn quoted(word: &OsStr) -> Result<Vec<u8>, Refusal> {
    let bytes = word.as_bytes();
    if bytes.contains(&b'\n') {
        return refuse!(
            usage: "argument {}: with several programs, srun allows no line ends", word.to_string_lossy().escape_debug()
        );
    }
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./=:,+@".contains(b);
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return Ok(bytes.to_vec());
    }
    let parts: Vec<&[u8]> = bytes.split(|b| *b == b'\'').collect();
    Ok([b"'", parts.join(&b"'\\''"[..]).as_slice(), b"'"].concat())
}

/// A file without a name that the launcher can open; its path there.
fn file(command: &mut Command, name: &std::ffi::CStr, text: &[u8]) -> Result<String, Refusal> {
    let failed = |e: std::io::Error| refusal!(system: "cannot make a file in memory for srun: {e}");
    let made = rustix::fs::memfd_create(name, MemfdFlags::empty());
    let mut file = File::from(made.map_err(|e| failed(e.into()))?);
    file.write_all(text).map_err(failed)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    command.files.push(file);
    Ok(path)
}
