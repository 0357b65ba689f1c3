//! One file per benchmark, and what they share: a plan, a measured point, repeated trials, checked data.

pub mod cilk;
pub mod collectives;
pub mod everyday;
pub mod fm_memory;
pub mod jobs;
pub mod load;
pub mod matmul;
pub mod pair;
pub mod pairs;
pub mod pingpong;
pub mod rate;
pub mod startup;

use crate::abi::{BenchError, Mpi, Result};
use crate::stats::{Summary, repetitions, summarise};
use std::time::Instant;

/// What to measure, and for how long.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Message sizes in bytes, in the order measured.
    pub sizes: Vec<usize>,
    /// Trials per point; the median is reported.
    pub trials: usize,
    /// How long one trial should take, in seconds. Repetitions adapt to it.
    pub trial_time: f64,
    /// Messages in flight in the rate benchmark.
    pub window: usize,
    /// Both sides send at once.
    pub bidirectional: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            sizes: vec![8],
            trials: 9,
            trial_time: 0.005,
            window: 64,
            bidirectional: false,
        }
    }
}

/// One line of a result.
#[derive(Clone, Debug)]
pub struct Point {
    /// The operation, where a benchmark has several.
    pub op: &'static str,
    /// Bytes of one message (of one block, for collectives).
    pub bytes: usize,
    /// Operations timed together in one trial.
    pub repetitions: u64,
    /// Trials taken.
    pub trials: usize,
    /// Seconds per operation: one way, one message, or one call.
    pub time: Summary,
    /// Bytes moved per operation, for bandwidths; 0 where that means nothing.
    pub moved: usize,
}

impl Plan {
    /// What was measured of `op` at `bytes`, which moved so many: repetitions and the time of one.
    fn point(
        &self,
        op: &'static str,
        bytes: usize,
        (repetitions, time): (u64, Summary),
        moved: usize,
    ) -> Point {
        let trials = self.trials;
        Point {
            op,
            bytes,
            repetitions,
            trials,
            time,
            moved,
        }
    }
}

impl Point {
    /// Microseconds of the median.
    pub fn micros(&self) -> f64 {
        self.time.median * 1e6
    }

    /// Megabytes (10^6) per second at time `t`.
    pub fn megabytes(&self, t: f64) -> f64 {
        self.moved as f64 / t / 1e6
    }
}

/// No trial repeats an operation more often than this, however quick it is.
const MOST_REPETITIONS: u64 = 10_000_000;

/// How often to repeat `run` so that a trial takes as long as planned, by rank 0's clock, on all ranks; also the warm-up.
fn calibrate(
    mpi: &Mpi,
    plan: &Plan,
    mut reset: impl FnMut() -> Result<()>,
    mut run: impl FnMut(u64) -> Result<()>,
) -> Result<u64> {
    // Grow until half a trial has passed. The quicker of two runs counts, so that one hiccup of the scheduler does not
    // end it early.
    let mut n = 1;
    reset()?;
    loop {
        let mut nanos = u64::MAX;
        for _ in 0..2 {
            let start = Instant::now();
            run(n)?;
            nanos = nanos.min(start.elapsed().as_nanos() as u64);
        }
        let took = mpi.share(nanos)? as f64 * 1e-9;
        let next = repetitions(plan.trial_time, took, n, MOST_REPETITIONS);
        if took >= plan.trial_time / 2.0 || n >= MOST_REPETITIONS {
            return Ok(next);
        }
        n = next.clamp(2 * n, 16 * n).min(MOST_REPETITIONS);
    }
}

/// Time `run(n)` (which performs `n` operations) in trials of the planned length. `reset` runs before each trial
/// and is not timed. Rank 0's clock decides how many repetitions all ranks make; the slowest rank's time counts if
/// `slowest`, else rank 0's. Returns the repetitions and the seconds per operation of each trial.
fn trials(
    mpi: &Mpi,
    plan: &Plan,
    slowest: bool,
    mut reset: impl FnMut() -> Result<()>,
    mut run: impl FnMut(u64) -> Result<()>,
) -> Result<(u64, Summary)> {
    let n = calibrate(mpi, plan, &mut reset, &mut run)?;
    let mut times = Vec::with_capacity(plan.trials);
    for _ in 0..plan.trials.max(1) {
        reset()?;
        mpi.barrier()?;
        let start = Instant::now();
        run(n)?;
        let took = start.elapsed().as_secs_f64();
        times.push(if slowest { mpi.max(took)? } else { took } / n as f64);
    }
    Ok((n, summarise(&times)))
}

/// Wake everything up: barriers for a twentieth of a second, so that the first point is measured like the others.
pub fn warm_up(mpi: &Mpi) -> Result<()> {
    let start = Instant::now();
    loop {
        for _ in 0..10 {
            mpi.barrier()?;
        }
        if mpi.share(u64::from(start.elapsed().as_millis() >= 50))? == 1 {
            return Ok(());
        }
    }
}

/// Fill `data` with a pattern that names its sender.
fn fill(data: &mut [u8], seed: usize) {
    for (i, byte) in data.iter_mut().enumerate() {
        *byte = pattern(i, seed);
    }
}

/// Never 0, so that a cleared buffer cannot pass; of period 251, so that shifted blocks cannot either.
fn pattern(i: usize, seed: usize) -> u8 {
    1 + ((i + 37 * seed) % 251) as u8
}

/// Check that `data` is what `fill` wrote at the sender with `seed`.
fn verify(data: &[u8], seed: usize, what: &str) -> Result<()> {
    match data
        .iter()
        .enumerate()
        .find(|(i, byte)| **byte != pattern(*i, seed))
    {
        None => Ok(()),
        Some((at, &got)) => {
            let sent = pattern(at, seed);
            Err(BenchError::Corrupt {
                what: what.to_owned(),
                at,
                len: data.len(),
                got,
                sent,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_cleared_and_shifted_data_is_refused() {
        let mut data = vec![0; 1000];
        fill(&mut data, 3);
        assert!(verify(&data, 3, "test").is_ok());
        assert!(verify(&data, 4, "test").is_err());
        assert!(verify(&data[1..], 3, "test").is_err());
        data[700] = 0;
        let err = verify(&data, 3, "the message").unwrap_err().to_string();
        assert!(
            err.contains("the message: byte 700 of 1000 arrived as 0x00"),
            "{err}"
        );
    }
}
