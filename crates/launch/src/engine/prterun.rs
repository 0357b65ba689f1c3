//! A job in the words of PRRTE's `prterun`.

use super::job::{Command, Engine, EngineKind, Job, Part};
use crate::cores::{Bind, Map};
use crate::options::{Files, Stdin};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

pub fn command(engine: &Engine, job: &Job<'_>) -> Command {
    let options = job.options;
    let mut command = Command::new(engine, job.environment.clone());
    prefix(&mut command, engine);
    if rustix::process::geteuid().is_root() {
        command.add(["--allow-run-as-root"]);
    }
    if let Some(shell) = &options.far.remote_shell {
        command.add(["--prtemca", "plm_ssh_agent", shell]);
    }
    if let Some(interface) = &options.far.interface {
        command.add(["--prtemca", "prte_if_include", interface]);
    }
    for [option, name, value] in &options.far.parameters {
        // Those of Open MPI's library are nobody's business here.
        match option.as_str() {
            "prtemca" | "pmixmca" => command.add([&format!("--{option}"), name, value]),
            _ => command.warn(EngineKind::Prterun, &format!("--{option} {name}")),
        }
    }
    bind(&mut command, job);
    output(&mut command, job);
    match options.stdin {
        Stdin::Rank(0) => {}
        Stdin::Rank(rank) => command.add(["--stdin", &rank.to_string()]),
        Stdin::All => command.add(["--stdin", "all"]),
        Stdin::Nobody => command.add(["--stdin", "none"]),
    }
    for (number, part) in job.parts.iter().enumerate() {
        if number > 0 {
            command.add([":"]);
        }
        command.add(["-n", &part.ranks.to_string()]);
        hosts(&mut command, part);
        if let Some(directory) = &part.app.directory {
            command.add([OsString::from("--wdir"), directory.clone().into()]);
        }
        if let [only] = job.parts.as_slice() {
            export(&mut command, job, only);
            shell(&mut command, job);
            command.add([&only.program]);
            command.add(&only.app.args);
            continue;
        }
        // What one program exports reaches those after it: with several, `env` sets them right.
        let kept = |name: &OsString| part.inherited.as_ref().is_none_or(|names| names.contains(name));
        let exported = job.environment.keys().filter(|n| plain(n));
        if number == 0 {
            exported.clone().for_each(|n| command.add([OsStr::new("-x"), n]));
        }
        let drop = exported.filter(|n| !kept(n) && !part.set.contains_key(*n));
        shell(&mut command, job);
        command.add(part.wrapped(false, drop.cloned()));
    }
    command
}

/// The daemons on other hosts are looked for where this one was found; it might have been moved since it was built.
fn prefix(command: &mut Command, engine: &Engine) {
    let real = std::fs::canonicalize(&engine.path).unwrap_or_else(|_| engine.path.clone());
    let Some(top) = real.parent().and_then(|bin| bin.parent()) else {
        return;
    };
    // What lies in the system's own places is found without help.
    if real.starts_with("/usr/bin") || real.starts_with("/bin") {
        return;
    }
    command.add([OsStr::new("--prefix"), top.as_os_str()]);
    // For its messages and plug-ins.
    for (name, part) in [("PRTE_PREFIX", "share/prte"), ("PMIX_PREFIX", "share/pmix")] {
        if top.join(part).is_dir() {
            command
                .environment
                .entry(name.into())
                .or_insert_with(|| top.into());
        }
    }
}

fn bind(command: &mut Command, job: &Job<'_>) {
    let options = job.options;
    let map = match options.map {
        _ if options.far.cyclic => "node",
        Map::Core => "slot",
        Map::Socket => "package",
        Map::Numa => "numa",
    };
    let cores = match options.cores_per_rank {
        1 => String::new(),
        n => format!(":PE={n}"),
    };
    let threads = match options.use_hwthreads {
        true => ":HWTCPUS",
        false => "",
    };
    // As many ranks as wanted, whatever the number of cores.
    command.add(["--map-by", &format!("{map}{cores}{threads}:OVERSUBSCRIBE")]);
    let bind = match options.bind {
        Bind::None => "none",
        Bind::Core => "core:overload-allowed",
        Bind::HwThread => "hwthread:overload-allowed",
        Bind::Socket => "package:overload-allowed",
        Bind::Numa => "numa:overload-allowed",
    };
    command.add(["--bind-to", bind]);
    if options.report_bindings {
        command.add(["--display", "bindings"]);
    }
}

fn output(command: &mut Command, job: &Job<'_>) {
    let options = job.options;
    if options.go_on {
        command.add(["--runtime-options", "recoverable"]);
    }
    let mut words = Vec::new();
    if options.marks.tag || options.marks.rank {
        words.push("tag");
    }
    if options.marks.time {
        words.push("timestamp");
    }
    if !words.is_empty() {
        command.add(["--output", &words.join(",")]);
    }
}

/// What a rank does before it becomes the program. prterun waits for ever for some that end within a few milliseconds
/// unbound (PRRTE 3.0.14, `true` on two hosts); and a shell that is there hides from it that the program is not.
const PRELUDE: &str = "sleep 0.01; command -v \"$1\" >/dev/null || \
                       { echo \"mpiexec: $1: no such program on $(hostname)\" >&2; exit 127; }; ";

fn shell(command: &mut Command, job: &Job<'_>) {
    let mut script = OsString::from(PRELUDE);
    script.push(match &job.options.files {
        Some(files) => to_files(files),
        None => "exec \"$@\"".into(),
    });
    command.add([OsStr::new("/bin/sh"), "-c".as_ref(), &script, "sh".as_ref()]);
}

/// Its own way of writing output to files loses some of it (PRRTE 3.0.14): a shell opens them for each rank.
fn to_files(files: &Files) -> OsString {
    let quoted = |text: &[u8], into: &mut Vec<u8>| {
        into.push(b'\'');
        for b in text {
            match b {
                b'\'' => into.extend(b"'\\''"),
                b => into.push(*b),
            }
        }
        into.push(b'\'');
    };
    let mut script = Vec::new();
    match files {
        Files::Directory(directory) => {
            script.extend(b"d=");
            quoted(directory.as_os_str().as_bytes(), &mut script);
            script
                .extend(b"/rank.$PMIX_RANK && mkdir -p \"$d\" && exec \"$@\" >\"$d/stdout\" 2>\"$d/stderr\"");
        }
        Files::Patterns(out, err) => {
            script.extend(b"exec \"$@\"");
            for (mark, pattern) in [(&b" >>"[..], out), (b" 2>>", err)] {
                let Some(pattern) = pattern else { continue };
                script.extend(mark);
                let mut bytes = pattern.as_bytes().iter();
                while let Some(b) = bytes.next() {
                    match (b, if *b == b'%' { bytes.next() } else { None }) {
                        (b'%', Some(b'r')) => script.extend(b"\"$PMIX_RANK\""),
                        (b'%', Some(b'h')) => script.extend(b"\"$(hostname)\""),
                        (b'%', Some(other)) if *other != b'%' => quoted(&[b'%', *other], &mut script),
                        (b, _) => quoted(&[*b], &mut script),
                    }
                }
            }
        }
    }
    OsString::from_vec(script)
}

fn hosts(command: &mut Command, part: &Part<'_>) {
    // One entry a host; with several blocks on a host, prterun deals the ranks out in turn as we did.
    let mut list: Vec<(&str, u32)> = Vec::new();
    for block in &part.blocks {
        match list.iter_mut().find(|h| h.0 == block.host) {
            Some(known) => known.1 += block.ranks,
            None => list.push((&block.host, block.ranks)),
        }
    }
    if !list.is_empty() {
        let list: Vec<_> = list.iter().map(|(h, n)| format!("{h}:{n}")).collect();
        command.add(["--host", &list.join(",")]);
    }
}

/// Variables that prterun can hand over, and that are not its own settings.
fn plain(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    bytes.iter().all(word)
        && ![&b"PRTE_"[..], b"PMIX_", b"HYDRA_"]
            .iter()
            .any(|p| bytes.starts_with(p))
}

/// prterun hands over what it is told to, nothing else. Values that are in its own environment stay off its command line,
/// which all users of the host see.
fn export(command: &mut Command, job: &Job<'_>, part: &Part<'_>) {
    let kept = |name: &OsString| part.inherited.as_ref().is_none_or(|names| names.contains(name));
    let names = job.environment.keys();
    for name in names.filter(|n| plain(n) && kept(n) && !part.set.contains_key(*n)) {
        command.add([OsStr::new("-x"), name]);
    }
    for (name, value) in &part.set {
        let mut pair = name.clone();
        pair.push("=");
        pair.push(value);
        command.add([OsStr::new("-x"), &pair]);
    }
}
