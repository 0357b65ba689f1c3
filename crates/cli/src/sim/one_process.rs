//! `farpost sim --one-process`: this process becomes the program, with a library loaded before it that runs its `main` as all ranks.

use super::{Options, before_others, clock, fix, installed, surroundings};
use farpost_sim::machine::Machine;
use farpost_sim::plan::{Plan, VARIABLE};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library that does it.
const LIBRARY: &str = "lib/libfarpost_ranks.so.1";

/// Become the program. Returns only with a sentence why not.
pub fn start(options: &Options, plan: &Plan, machine: &Machine) -> String {
    match command(options, plan, machine) {
        Ok(mut command) => {
            fix(options);
            let error = command.exec();
            format!("starting {}: {error}", Path::new(command.get_program()).display())
        }
        Err(why) => why,
    }
}

fn command(options: &Options, plan: &Plan, machine: &Machine) -> Result<Command, String> {
    let this = std::env::current_exe().map_err(|e| format!("finding this program: {e}"))?;
    let [program, arguments @ ..] = &options.program[..] else {
        return Err("no program is given".into());
    };
    let file = find(program).ok_or_else(|| format!("{}: no such program", Path::new(program).display()))?;
    if let Some(why) = unfit(&file) {
        return Err(format!(
            "{} {why}: run it without --one-process",
            Path::new(program).display()
        ));
    }
    let mut libraries = vec![installed(&this, LIBRARY, "--one-process")?];
    libraries.extend(clock(options, &this)?);
    let plan = serde_json::to_string(plan).map_err(|e| format!("--one-process: {e}"))?;
    let mut command = Command::new(&file);
    command
        .arg0(program)
        .args(arguments)
        .env("LD_PRELOAD", before_others(&libraries))
        .env(VARIABLE, plan);
    surroundings(&mut command, machine);
    Ok(command)
}

/// The file that is started by this name.
fn find(program: &OsStr) -> Option<PathBuf> {
    let is_file = |file: &PathBuf| file.is_file();
    if Path::new(program).components().count() > 1 {
        return Some(PathBuf::from(program)).filter(is_file);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(is_file)
}

/// Why a file cannot be run as ranks of one process, if it cannot.
fn unfit(file: &Path) -> Option<&'static str> {
    let name = file.canonicalize().unwrap_or_else(|_| file.into());
    let name = name
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if name.starts_with("python") {
        return Some("is Python, whose modules are loaded behind the simulator's back");
    }
    let mut start = Vec::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(1 << 12).read_to_end(&mut start));
    if read.is_err() {
        return Some("cannot be read");
    }
    if !start.starts_with(b"\x7fELF\x02\x01") {
        return Some("is no executable of this machine (a script?)");
    }
    (!is_dynamic(&start)).then_some("is linked statically")
}

/// Whether an ELF file, of which this is the start, is loaded by the dynamic linker.
fn is_dynamic(start: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    let number = |at: usize, len: usize| {
        let bytes = start.get(at..at + len)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0_u64, |all, byte| all << 8 | u64::from(*byte)),
        )
    };
    let headers = || {
        Some((
            number(32, 8)? as usize,
            number(54, 2)? as usize,
            number(56, 2)? as usize,
        ))
    };
    let Some((first, bytes, count)) = headers() else {
        return false;
    };
    (0..count).any(|nr| number(first + nr * bytes, 4) == Some(INTERPRETER.into()))
}
