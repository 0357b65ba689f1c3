//! Running the built `mpiexec`.
#![allow(dead_code)] // each test file uses a part of this

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A command line of `mpiexec`, without waiting input.
pub fn mpiexec(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpiexec"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for name in [
        "MPIEXEC_TIMEOUT",
        "FARPOST_LAUNCHER",
        "FARPOST_RSH",
        "SLURM_JOB_ID",
    ] {
        command.env_remove(name);
    }
    ends_with_the_test(&mut command);
    command
}

/// A test that fails half-way leaves no processes: its thread's end kills what it started, and a killed `mpiexec` takes
/// its ranks along.
pub fn ends_with_the_test(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure runs between fork and exec and makes one system call without pointers, which is
    // async-signal-safe.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
}

/// Run to the end.
pub struct Ran {
    pub out: String,
    pub err: String,
    pub code: i32,
}

pub fn done(output: Output) -> Ran {
    use std::os::unix::process::ExitStatusExt;
    Ran {
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output
            .status
            .code()
            .unwrap_or_else(|| -output.status.signal().unwrap_or(0)),
    }
}

pub fn run(args: &[&str]) -> Ran {
    done(mpiexec(args).output().unwrap())
}

/// Run `script` in a shell as every rank, with options given as one line; what is between single quotes stays together.
pub fn shell(options: &str, script: &str) -> Ran {
    let mut args: Vec<&str> = Vec::new();
    for (at, part) in options.split('\'').enumerate() {
        match at % 2 {
            0 => args.extend(part.split_whitespace()),
            _ => args.push(part),
        }
    }
    args.extend(["sh", "-c", script]);
    run(&args)
}

/// The lines of a text, sorted.
pub fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A directory that is removed at the end of the test.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Wait until `what` is true; the limit only keeps a failing test from hanging.
pub fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !is_true() {
        assert!(Instant::now() < limit, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A word in command lines by which the processes of one test are known.
pub fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // `sleep` takes fractions: a number of seconds that nobody else uses.
    format!(
        "600.{}{:03}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// How many `sleep MARKER` there are.
pub fn sleepers(marker: &str) -> usize {
    let wanted = format!("sleep\0{marker}\0");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|p| std::fs::read(p.path().join("cmdline")).is_ok_and(|c| c == wanted.as_bytes()))
        .count()
}

/// The first child of a process that is called `name`.
pub fn child_named(parent: u32, name: &str) -> Option<i32> {
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|p| {
        let stat = std::fs::read_to_string(p.path().join("stat")).ok()?;
        let (head, tail) = stat.rsplit_once(") ")?;
        let (pid, comm) = head.split_once(" (")?;
        (comm == name && tail.split(' ').nth(1)? == parent.to_string()).then(|| pid.parse().ok())?
    })
}

pub fn signal(pid: u32, signal: &str) {
    assert!(
        Command::new("kill")
            .args([&format!("-{signal}"), &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

/// SIGKILL to several, none of which gets to run in between.
pub fn kill_together(pids: [u32; 2]) {
    for sent in ["STOP", "KILL"] {
        pids.iter().for_each(|pid| signal(*pid, sent));
    }
}

/// A process that nobody has waited for is over all the same.
pub fn has_ended(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Wait for a started `mpiexec`.
pub fn finish(child: Child) -> Ran {
    done(child.wait_with_output().unwrap())
}
