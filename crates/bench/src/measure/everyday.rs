//! What an ordinary program meets, in jobs of their own without options: the first messages after the start, idle and beside busy
//! strangers; and calls that only look, in loops that work between them.
//!
//! The measured program is this executable, with any library of the standard ABI, or another that prints the same (`bench/polling.c`).

use crate::abi::{BenchError, Mpi, Result};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The hidden first argument that makes the executable the measured program.
pub const PROBE: &str = "__everyday-probe";
/// The same of a stranger.
pub const STRANGER: &str = "__busy-stranger";

/// Messages after which the time since the first is told.
pub const FIRST: [usize; 3] = [10, 100, 1000];
/// Messages of a batch, and how long batches follow.
const BATCH: usize = 100;
const BATCHES: Duration = Duration::from_millis(100);
const TAG: i32 = 7;

/// How jobs are started.
#[derive(Clone, Debug)]
pub struct Start {
    pub launcher: PathBuf,
    /// Options of the launcher, before the number of ranks.
    pub options: Vec<String>,
    /// The measured program; `None`: this executable.
    pub program: Option<PathBuf>,
}

/// One start: microseconds until the first messages had been exchanged, and of a message later, in the median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct First {
    pub first: [f64; 3],
    pub later: f64,
}

/// Busy processes that belong to nobody, until dropped.
pub struct Strangers(Vec<Child>);

impl Strangers {
    /// `count` of them, each in a session of its own where that can be had, as other users' programs are.
    pub fn begin(count: usize) -> Result<Self> {
        let failed = BenchError::io("starting a busy stranger");
        let exe = std::env::current_exe().map_err(&failed)?;
        let mut strangers = Self(Vec::new());
        for _ in 0..count {
            let quiet = |mut command: Command| {
                command
                    .arg(STRANGER)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .spawn()
            };
            let mut apart = Command::new("setsid");
            apart.arg(&exe);
            let child = quiet(apart)
                .or_else(|_| quiet(Command::new(&exe)))
                .map_err(&failed)?;
            strangers.0.push(child);
        }
        if count > 0 {
            // The scheduler takes a while to believe in them.
            std::thread::sleep(Duration::from_millis(300));
        }
        Ok(strangers)
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended by itself needs nothing more.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The stranger: busy until whoever started it is gone.
pub fn stranger() -> Result<()> {
    let parent = std::os::unix::process::parent_id();
    while std::os::unix::process::parent_id() == parent {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(10) {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

impl Start {
    fn job(&self, ranks: usize, arguments: &[&str]) -> Result<String> {
        let what = format!("running {} -n {ranks}", self.launcher.display());
        let failed = BenchError::io(&what);
        let mut command = Command::new(&self.launcher);
        command.args(&self.options).arg("-n").arg(ranks.to_string());
        match &self.program {
            Some(program) => command.arg(program),
            None => command.arg(std::env::current_exe().map_err(&failed)?).arg(PROBE),
        };
        let output = command
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(&failed)?;
        if !output.status.success() {
            return Err(failed(std::io::Error::other(format!("{}", output.status))));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Start a job of two ranks and see how it goes.
    pub fn first(&self) -> Result<First> {
        let [a, b, c, later] = numbers(&self.job(2, &["start"])?, "start")?;
        Ok(First {
            first: [a, b, c],
            later,
        })
    }

    /// Microseconds of an iteration of `nanos` of work and a look that finds nothing, on `ranks` ranks.
    pub fn poll(&self, ranks: usize, nanos: u32) -> Result<f64> {
        let [micros] = numbers(&self.job(ranks, &["poll", &nanos.to_string()])?, "poll")?;
        Ok(micros)
    }

    /// Microseconds of a hop of a token that all wait for by looks alone.
    pub fn ring(&self, ranks: usize) -> Result<f64> {
        let [micros] = numbers(&self.job(ranks, &["ring"])?, "ring")?;
        Ok(micros)
    }
}

/// The numbers of the line that begins with `name`.
fn numbers<const N: usize>(output: &str, name: &str) -> Result<[f64; N]> {
    let line = output
        .lines()
        .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(' '));
    let numbers: Option<Vec<f64>> =
        line.and_then(|line| line.split_whitespace().map(|word| word.parse().ok()).collect());
    numbers.and_then(|n| n.try_into().ok()).ok_or_else(|| {
        usage!(
            "the measured program printed no line `{name}` with {N} number{}",
            if N == 1 { "" } else { "s" }
        )
    })
}

/// The measured program.
pub fn probe(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let mode = arguments.next().unwrap_or_default();
    let nanos = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let mpi = Mpi::init()?;
    let told = match mode.as_str() {
        "start" => first_messages(&mpi)?,
        "poll" => polls(&mpi, nanos)?,
        "ring" => token(&mpi)?,
        _ => return Err(usage!("no such measurement: {mode}")),
    };
    if mpi.rank() == 0 {
        println!("{mode} {told}");
    }
    mpi.finalize()
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// `messages` to and fro between ranks 0 and 1.
fn exchange(mpi: &Mpi, messages: usize) -> Result<()> {
    let mut data = *b"message.";
    for _ in 0..messages / 2 {
        if mpi.rank() == 0 {
            mpi.send(&data, 1, TAG)?;
            mpi.recv(&mut data, 1, TAG)?;
        } else {
            mpi.recv(&mut data, 0, TAG)?;
            mpi.send(&data, 0, TAG)?;
        }
    }
    Ok(())
}

/// Rank 0 says whether to go on.
fn goes_on(mpi: &Mpi, on: bool) -> Result<bool> {
    let mut word = [u8::from(on)];
    for to in 1..mpi.size() {
        if mpi.rank() == 0 {
            mpi.send(&word, to, TAG + 1)?;
        } else if mpi.rank() == to {
            mpi.recv(&mut word, 0, TAG + 1)?;
        }
    }
    Ok(word[0] == 1)
}

fn first_messages(mpi: &Mpi) -> Result<String> {
    BenchError::check_ranks("start", "2 ranks", mpi.size(), mpi.size() == 2)?;
    let begin = Instant::now();
    let (mut done, mut first) = (0, [0.0; 3]);
    for (time, messages) in first.iter_mut().zip(FIRST) {
        exchange(mpi, messages - done)?;
        (*time, done) = (micros(begin), messages);
    }
    let (begin, mut times) = (Instant::now(), Vec::new());
    loop {
        let batch = Instant::now();
        exchange(mpi, BATCH)?;
        times.push(micros(batch) / BATCH as f64);
        if !goes_on(mpi, begin.elapsed() < BATCHES)? {
            break;
        }
    }
    let later = crate::stats::summarise(&times).median;
    let [a, b, c] = first;
    Ok(format!("{a:.3} {b:.3} {c:.3} {later:.4}"))
}

/// Work that the compiler leaves alone.
fn work(turns: u64) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

/// Turns of work that take `nanos`: by the quickest of several measurements.
fn turns(nanos: u32) -> u64 {
    const TURNS: u64 = 20_000;
    let once = |_| {
        let begin = Instant::now();
        work(TURNS);
        begin.elapsed().as_secs_f64() * 1e9 / TURNS as f64
    };
    let turn = (0..20).map(once).fold(f64::INFINITY, f64::min);
    (f64::from(nanos) / turn) as u64
}

fn polls(mpi: &Mpi, nanos: u32) -> Result<String> {
    let turns = turns(nanos);
    let polls = 40_000_000 / (u64::from(nanos) + 400);
    let peer = (mpi.rank() + 1) % mpi.size();
    mpi.barrier()?;
    let begin = Instant::now();
    for _ in 0..polls {
        mpi.progress(peer, TAG + 2)?;
        work(turns);
    }
    let took = micros(begin) / polls as f64;
    mpi.barrier()?;
    Ok(format!("{took:.4}"))
}

fn token(mpi: &Mpi) -> Result<String> {
    let (rank, size) = (mpi.rank(), mpi.size());
    BenchError::check_ranks("ring", "2 ranks or more", size, size >= 2)?;
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    mpi.barrier()?;
    let (begin, mut rounds, mut token) = (Instant::now(), 0, [1]);
    while token[0] == 1 {
        if rank == 0 {
            token[0] = u8::from(rounds < 3 || begin.elapsed() < BATCHES);
            mpi.send(&token, to, TAG)?;
        }
        while !mpi.probe(from, TAG)? {}
        mpi.recv(&mut token, from, TAG)?;
        if rank != 0 {
            mpi.send(&token, to, TAG)?;
        }
        rounds += 1;
    }
    Ok(format!("{:.4}", micros(begin) / f64::from(rounds) / size as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_is_read_or_refused() {
        assert_eq!(
            numbers("x\nstart 1 2.5 3 0.4\n", "start").unwrap(),
            [1.0, 2.5, 3.0, 0.4]
        );
        for text in ["", "start 1 2\n", "started 1 2 3 4\n", "start 1 2 3 x\n"] {
            assert!(numbers::<4>(text, "start").is_err(), "{text}");
        }
    }

    #[test]
    fn work_takes_longer_the_more_of_it_there_is() {
        assert_eq!(turns(0), 0);
        assert!(turns(3000) > turns(30));
    }
}
