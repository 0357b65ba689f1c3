//! What Fast Messages adds to the memory of a process, in jobs of different sizes. Every process sends and receives about as
//! many messages, spread over all others, whatever their number; so what grows, grows with the number of processes.

use crate::abi::{BenchError, Mpi, Result};
use crate::link::{Fm, Layer};
use std::path::Path;
use std::process::{Command, Stdio};

/// The hidden first argument that makes the executable one of the processes.
pub const PROBE: &str = "__fm-memory-probe";
/// Messages of each process, about.
const MESSAGES: usize = 4096;
const ANSWER: &str = "fm-memory-kib ";

/// Proportional set size of this process in KiB: a page that several map counts in parts.
fn pss() -> Result<f64> {
    let failed = BenchError::io("reading /proc/self/smaps_rollup");
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").map_err(&failed)?;
    let value = text.lines().find_map(|l| l.strip_prefix("Pss:"));
    value
        .and_then(|v| v.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| failed(std::io::Error::other("it has no Pss")))
}

/// Be one of the processes.
pub fn probe() -> Result<()> {
    let mpi = Mpi::init()?;
    // Connections of the barrier are made before, and everybody is there.
    for _ in 0..3 {
        mpi.barrier()?;
    }
    let before = pss()?;
    mpi.barrier()?;
    let mut fm = Fm::open(Layer::FmSend4)?;
    mpi.barrier()?;
    fm.greet(mpi.size(), MESSAGES)?;
    mpi.barrier()?;
    let grown = pss()? - before;
    mpi.barrier()?;
    println!("{ANSWER}{grown}");
    fm.leave();
    mpi.finalize()
}

/// KiB that FM adds to a process of a job of `ranks`, the median of all.
pub fn of(launcher: &Path, ranks: usize) -> Result<f64> {
    let what = || format!("measuring FM's memory with {} -n {ranks}", launcher.display());
    let failed = |cause| BenchError::Io { what: what(), cause };
    let exe = std::env::current_exe().map_err(failed)?;
    let output = Command::new(launcher)
        .args(["-n", &ranks.to_string()])
        .arg(exe)
        .arg(PROBE)
        .stdin(Stdio::null())
        .output()
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let values: Vec<f64> = text
        .lines()
        .filter_map(|l| l.split(ANSWER).nth(1)?.trim().parse().ok())
        .collect();
    if !output.status.success() || values.len() != ranks {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or("it said nothing").to_owned();
        return Err(failed(std::io::Error::other(said)));
    }
    Ok(crate::stats::summarise(&values).median)
}
