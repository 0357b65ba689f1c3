//! Start-up: the wall time of a whole job that only initialises and finalises MPI, and the memory of a rank that sits idle.

use super::Point;
use crate::abi::{BenchError, Mpi, Result};
use crate::stats::summarise;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The hidden first argument that makes the executable the measured program.
pub const PROBE: &str = "__startup-probe";

/// The measured program: MPI_Init, MPI_Finalize; with the argument `idle`, a sleeping rank that tells its memory
/// before it ends.
pub fn probe(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let idle = arguments.next().is_some_and(|a| a == "idle");
    let mpi = Mpi::init()?;
    if idle {
        mpi.barrier()?;
        std::thread::sleep(Duration::from_millis(200));
        let status = std::fs::read_to_string("/proc/self/status")
            .map_err(BenchError::io("reading /proc/self/status"))?;
        let field = |name: &str| {
            let line = status
                .lines()
                .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok())
                .unwrap_or(0)
        };
        println!("rss-kib {} {}", field("VmRSS"), field("RssFile"));
    }
    mpi.finalize()
}

/// Memory of an idle rank, in KiB: everything resident, and the part that is pages of files (shared between ranks).
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    pub resident: u64,
    pub files: u64,
}

/// Start `trials` jobs for every number of ranks in `ranks`, with `launcher -n RANKS`. Points carry the ranks in
/// place of bytes and seconds of wall time.
pub fn run(
    launcher: &Path,
    ranks: &[usize],
    trials: usize,
    mut done: impl FnMut(&Point),
) -> Result<Vec<Point>> {
    let mut points = Vec::new();
    for &n in ranks {
        job(launcher, n, "")?; // warms the caches of files
        let mut times = Vec::with_capacity(trials);
        for _ in 0..trials.max(1) {
            let start = Instant::now();
            job(launcher, n, "")?;
            times.push(start.elapsed().as_secs_f64());
        }
        let point = Point {
            op: "",
            bytes: n,
            repetitions: 1,
            trials,
            time: summarise(&times),
            moved: 0,
        };
        done(&point);
        points.push(point);
    }
    Ok(points)
}

/// The memory of an idle rank in a job of `ranks` (the median rank).
pub fn idle(launcher: &Path, ranks: usize) -> Result<Idle> {
    let output = job(launcher, ranks, "idle")?;
    let mut seen: Vec<Idle> = output
        .lines()
        .filter_map(|l| {
            let mut words = l.split("rss-kib ").nth(1)?.split_whitespace();
            Some(Idle {
                resident: words.next()?.parse().ok()?,
                files: words.next()?.parse().ok()?,
            })
        })
        .collect();
    seen.sort_by_key(|i| i.resident);
    if seen.len() != ranks {
        let needs = "every rank's answer about its memory";
        return Err(BenchError::Ranks {
            benchmark: "startup",
            needs,
            have: seen.len(),
        });
    }
    Ok(seen[ranks / 2])
}

fn job(launcher: &Path, ranks: usize, mode: &str) -> Result<String> {
    let what = || format!("running {} -n {ranks}", launcher.display());
    let exe = std::env::current_exe().map_err(BenchError::io(what()))?;
    let mut command = Command::new(launcher);
    command
        .arg("-n")
        .arg(ranks.to_string())
        .arg(exe)
        .arg(PROBE)
        .arg(mode);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(BenchError::io(what()))?;
    if !output.status.success() {
        let cause = std::io::Error::other(format!("{}", output.status));
        return Err(BenchError::Io { what: what(), cause });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
