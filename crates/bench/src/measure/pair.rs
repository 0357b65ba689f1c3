//! Two ranks measure one layer beside the bare cache line: ping-pong, streams, and bursts of requests. All kinds take turns,
//! trial by trial, so that what disturbs one disturbs all. [NetPIPE's walks](crate::netpipe) come after the others, one after the
//! other, as NetPIPE makes them. Rank 0 prints every sample; who started the job reads them.

use super::{pattern, verify};
use crate::abi::{BenchError, Result};
use crate::board::Board;
use crate::link::{Bare, Fm, HUGE, Jam, Layer, Link, MOST_PERTURBED, Mpi, Portals, Rsm};
use crate::netpipe::Schedule;
use crate::stats::repetitions;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The hidden first argument that makes the executable one of the two ranks.
pub const PROBE: &str = "__layer-probe";
/// What the line of samples begins with.
const ANSWER: &str = "farpost-layer ";
/// No trial repeats more often.
const MOST: u64 = 1_000_000;
/// No trial of messages repeats less often, however long they are: of one or two, the first with cold buffers is too large a part.
const FEWEST: u64 = 10;
/// The longest burst.
pub const LONGEST_BURST: u64 = 4096;

/// One thing that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// A bare line to and fro: seconds one way.
    Floor,
    /// A message of so many bytes to and fro: seconds one way.
    PingPong(usize),
    /// Messages of so many bytes back to back: seconds of each.
    Stream(usize),
    /// Messages of so many bytes from both ranks at the same time: seconds of each pair.
    Both(usize),
    /// So many requests with so many nanoseconds of computing after each: seconds of the burst, without waiting for the rest of
    /// the answers.
    Burst(u64, u64),
    /// So many nanoseconds of computing: the seconds it takes.
    Compute(u64),
    /// NetPIPE's walk: what is done with each size, the smallest one, the largest, and the perturbation. Its samples are those of
    /// [`PingPong`](Self::PingPong), [`Stream`](Self::Stream) or [`Both`](Self::Both).
    Walk(Traffic, usize, usize, usize),
}

/// What is done with each size of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Traffic {
    PingPong,
    Stream,
    Both,
}

impl Traffic {
    /// It, of so many bytes.
    pub fn of(self, bytes: usize) -> Op {
        match self {
            Traffic::PingPong => Op::PingPong(bytes),
            Traffic::Stream => Op::Stream(bytes),
            Traffic::Both => Op::Both(bytes),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Traffic::PingPong => "walk-pingpong",
            Traffic::Stream => "walk-stream",
            Traffic::Both => "walk-both",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Op::Floor => write!(f, "floor"),
            Op::PingPong(bytes) => write!(f, "pingpong:{bytes}"),
            Op::Stream(bytes) => write!(f, "stream:{bytes}"),
            Op::Both(bytes) => write!(f, "both:{bytes}"),
            Op::Burst(length, compute) => write!(f, "burst:{length}:{compute}"),
            Op::Compute(compute) => write!(f, "compute:{compute}"),
            Op::Walk(traffic, low, high, perturbation) => {
                write!(f, "{}:{low}:{high}:{perturbation}", traffic.name())
            }
        }
    }
}

impl std::str::FromStr for Op {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || usage!("\"{text}\" is nothing that can be timed");
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words
            .map(|w| w.parse().map_err(|_| refuse()))
            .collect::<Result<_>>()?;
        let longest = (HUGE + MOST_PERTURBED) as u64;
        let walk = |traffic, low: &u64, high: &u64, perturbation: &u64| {
            let fits = *low >= 1 && *high <= HUGE as u64 && *perturbation <= MOST_PERTURBED as u64;
            let walk = Op::Walk(traffic, *low as usize, *high as usize, *perturbation as usize);
            fits.then_some(walk).ok_or_else(refuse)
        };
        match (name, &numbers[..]) {
            ("floor", []) => Ok(Op::Floor),
            ("pingpong", [bytes]) if *bytes <= longest => Ok(Op::PingPong(*bytes as usize)),
            ("stream", [bytes]) if *bytes <= longest => Ok(Op::Stream(*bytes as usize)),
            ("both", [bytes]) if *bytes <= longest => Ok(Op::Both(*bytes as usize)),
            ("walk-pingpong", [low, high, around]) => walk(Traffic::PingPong, low, high, around),
            ("walk-stream", [low, high, around]) => walk(Traffic::Stream, low, high, around),
            ("walk-both", [low, high, around]) => walk(Traffic::Both, low, high, around),
            ("burst", [length @ 1..=LONGEST_BURST, compute]) => Ok(Op::Burst(*length, *compute)),
            ("compute", [compute]) => Ok(Op::Compute(*compute)),
            _ => Err(refuse()),
        }
    }
}

/// Samples by what was timed, in seconds.
pub type Samples = BTreeMap<Op, Vec<f64>>;

/// Read what rank 0 printed.
pub fn read(output: &str) -> Option<Samples> {
    let text = output.lines().find_map(|line| line.split(ANSWER).nth(1))?;
    let mut samples = Samples::new();
    for part in text.split_whitespace() {
        let (op, values) = part.split_once('=')?;
        let values: Option<Vec<f64>> = values.split(',').map(|v| v.parse().ok()).collect();
        samples.insert(op.parse().ok()?, values?);
    }
    Some(samples)
}

/// Be one of the two ranks: `MEMORY LAYER TRIALS MICROSECONDS OP...`.
pub fn probe(arguments: impl Iterator<Item = String>) -> Result<()> {
    let arguments: Vec<String> = arguments.collect();
    let wrong = || usage!("{PROBE} is for `farpost bench` itself");
    let [memory, layer, trials, micros, ops @ ..] = &arguments[..] else {
        return Err(wrong());
    };
    let task = Task {
        trials: trials.parse().map_err(|_| wrong())?,
        trial_time: micros.parse::<u64>().map_err(|_| wrong())? as f64 * 1e-6,
        ops: ops.iter().map(|op| op.parse()).collect::<Result<_>>()?,
    };
    let memory = Path::new(memory);
    let layer = Layer::parse(layer)?;
    match layer {
        // No library tells these two who is who, but the launcher numbers them.
        Layer::Line | Layer::Queue => {
            let rank = std::env::var("FARPOST_RANK").ok().and_then(|r| r.parse().ok());
            task.run(memory, Bare::new(Board::open(memory, rank.ok_or_else(wrong)?)?))
        }
        Layer::FmSend4
        | Layer::FmSend
        | Layer::FmBare
        | Layer::FmBuffers
        | Layer::FmBuffersSwitch
        | Layer::FmFlow
        | Layer::FmFlowSwitch
        | Layer::FmStream => task.run(memory, Fm::open(layer)?),
        Layer::JamPio | Layer::JamVi | Layer::JamRdma | Layer::JamRpc => task.run(memory, Jam::open(layer)?),
        Layer::PortalsPut
        | Layer::PortalsGet
        | Layer::PortalsMatch
        | Layer::GenericPut
        | Layer::GenericGet
        | Layer::AcceleratedPut
        | Layer::AcceleratedGet
        | Layer::HostPut => task.run(memory, Portals::open(layer)?),
        Layer::RsmPut => task.run(memory, Rsm::open()?),
        Layer::MpiPostbox | Layer::MpiFm | Layer::MpiJam | Layer::MpiPortals => {
            task.run(memory, Mpi::open()?)
        }
    }
}

struct Task {
    trials: usize,
    trial_time: f64,
    ops: Vec<Op>,
}

impl Task {
    fn run<L: Link>(&self, memory: &Path, mut link: L) -> Result<()> {
        let board = Board::open(memory, link.ends().rank)?;
        let pace = Pace::new();
        let mut pair = Pair { board, link, pace };
        // The slower of the two ranks says how fast both compute: they do not agree on it, nor need to.
        let mut plan = Vec::with_capacity(self.ops.len());
        let (walks, ops): (Vec<Op>, Vec<Op>) = self.ops.iter().partition(|op| matches!(op, Op::Walk(..)));
        for op in ops {
            plan.push((op, pair.calibrate(op, self.trial_time)?));
        }
        let mut samples: Vec<Vec<f64>> = vec![Vec::new(); plan.len()];
        for trial in 0..self.trials.max(1) {
            for ((op, repetitions), samples) in plan.iter().zip(&mut samples) {
                let took = pair.checked(*op, *repetitions, trial)?;
                samples.push(took.as_secs_f64() / op.parts(*repetitions, pair.link.pulls()));
            }
        }
        let mut all: Samples = plan.iter().map(|(op, _)| *op).zip(samples).collect();
        for walk in walks {
            if let Op::Walk(traffic, low, high, perturbation) = walk {
                let schedule = Schedule {
                    trials: self.trials.max(1),
                    trial_time: self.trial_time,
                    ..Schedule::of(low, high, perturbation)
                };
                all.extend(pair.walk(traffic, &schedule)?);
            }
        }
        if pair.board.rank() == 0 {
            let parts = all.iter().map(|(op, samples)| {
                let values: Vec<String> = samples.iter().map(|s| format!("{s:e}")).collect();
                format!("{op}={}", values.join(","))
            });
            println!("{ANSWER}{}", parts.collect::<Vec<_>>().join(" "));
        }
        let link = &mut pair.link;
        pair.board.meet(|| link.poll())?;
        pair.link.close()
    }
}

impl Op {
    /// What the time of so many repetitions is divided by.
    fn parts(self, repetitions: u64, pulls: bool) -> f64 {
        let parts = match self {
            Op::Floor | Op::PingPong(_) => 2 * repetitions,
            // The answer is a message like the others.
            Op::Stream(_) if !pulls => repetitions + 1,
            _ => repetitions,
        };
        parts as f64
    }

    /// Bytes that arrive, where they are checked.
    fn bytes(self) -> Option<usize> {
        match self {
            Op::PingPong(bytes) | Op::Stream(bytes) | Op::Both(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Computing for a while, without looking at a clock.
struct Pace {
    turns_per_nano: f64,
}

#[inline(never)]
fn compute(turns: u64) {
    let mut value = 1u64;
    for _ in 0..turns {
        value = std::hint::black_box(value.wrapping_mul(3));
    }
}

impl Pace {
    fn new() -> Self {
        let turns = 200_000;
        let quickest = (0..5)
            .map(|_| {
                let start = Instant::now();
                compute(turns);
                start.elapsed()
            })
            .min();
        let nanos = quickest.map_or(1.0, |t| t.as_nanos().max(1) as f64);
        Self {
            turns_per_nano: turns as f64 / nanos,
        }
    }

    fn turns(&self, nanos: u64) -> u64 {
        (nanos as f64 * self.turns_per_nano).round() as u64
    }
}

struct Pair<L> {
    board: Board,
    link: L,
    pace: Pace,
}

impl<L: Link> Pair<L> {
    fn meet(&mut self) -> Result<()> {
        let link = &mut self.link;
        self.board.meet(|| link.poll())
    }

    /// How often to repeat so that a trial takes `target` seconds; also the warm-up.
    fn calibrate(&mut self, op: Op, target: f64) -> Result<u64> {
        let mut n = 1;
        loop {
            let took = self.checked(op, n, 0)?.min(self.checked(op, n, 1)?);
            // What a burst costs besides counts here, or many short ones would take for ever.
            let link = &mut self.link;
            let nanos = self.board.share(took.as_nanos().max(1) as u64, || link.poll())?;
            let took = nanos as f64 * 1e-9;
            let next = repetitions(target, took, n, MOST);
            if took >= target / 2.0 || n >= MOST {
                return Ok(match op {
                    Op::Burst(..) => next.min(2000),
                    _ if op.bytes().is_some() => next.max(FEWEST),
                    _ => next,
                });
            }
            n = next.clamp(2 * n, 16 * n).min(MOST);
            if matches!(op, Op::Burst(..)) && n >= 2000 {
                return Ok(2000);
            }
        }
    }

    /// Walk as `schedule` has it; every trial of each size. Rank 0's clock is the one that counts, so both do the same.
    fn walk(&mut self, traffic: Traffic, schedule: &Schedule) -> Result<Samples> {
        let (mut samples, mut trials) = (Samples::new(), 0);
        schedule.run(|bytes, n| {
            let op = traffic.of(bytes);
            trials += 1;
            let took = self.checked(op, n, trials % 64)?;
            let nanos = match self.board.rank() {
                0 => took.as_nanos().max(1) as u64,
                _ => 1,
            };
            let link = &mut self.link;
            let nanos = self.board.share(nanos, || link.poll())?;
            let each = nanos as f64 * 1e-9 / op.parts(n, self.link.pulls());
            // The first only tells how long the first size takes.
            if trials > 1 {
                samples.entry(op).or_default().push(each);
            }
            Ok::<f64, BenchError>(each)
        })?;
        Ok(samples)
    }

    /// `n` repetitions after both ranks have met; what arrived is compared with what was sent, outside the timed part.
    fn checked(&mut self, op: Op, n: u64, trial: usize) -> Result<Duration> {
        let rank = self.board.rank();
        let seed = |rank: usize| 2 * trial + rank + 1;
        if let Some(bytes) = op.bytes() {
            self.link.prepare(bytes)?;
            for (i, byte) in self.link.ends().out.bytes_mut()[..bytes].iter_mut().enumerate() {
                *byte = pattern(i, seed(rank));
            }
            self.link.ends().into.bytes_mut()[..bytes].fill(0);
        }
        self.meet()?;
        if op.bytes().is_some() {
            // What has just been filled is in other caches than what is sent again and again.
            self.timed(op, 1)?;
            self.meet()?;
        }
        let took = self.timed(op, n)?;
        if let Some(bytes) = op.bytes()
            && (rank == usize::from(!self.link.pulls())
                || matches!(op, Op::Both(_))
                || matches!(op, Op::PingPong(_)) && !self.link.pulls())
        {
            let what = format!("{op} from rank {}", 1 - rank);
            verify(&self.link.ends().into.bytes()[..bytes], seed(1 - rank), &what)?;
        }
        Ok(took)
    }

    fn timed(&mut self, op: Op, n: u64) -> Result<Duration> {
        let first = self.board.rank() == 0;
        let start = Instant::now();
        match op {
            Op::Floor => {
                for _ in 0..n {
                    self.board.floor_round();
                }
            }
            // One get after the other; each has the time of two messages, and counts once.
            Op::PingPong(bytes) if self.link.pulls() => self.pull(first, bytes, 2 * n)?,
            Op::Stream(bytes) if self.link.pulls() => self.pull(first, bytes, n)?,
            Op::Both(bytes) if self.link.pulls() => {
                for _ in 0..n {
                    self.link.receive(bytes)?;
                    self.link.send(bytes)?;
                }
            }
            Op::Both(bytes) => {
                for _ in 0..n {
                    self.link.both(bytes)?;
                }
            }
            Op::PingPong(bytes) => {
                for _ in 0..n {
                    if first {
                        self.link.send(bytes)?;
                        self.link.flush()?;
                        self.link.receive(bytes)?;
                    } else {
                        self.link.receive(bytes)?;
                        self.link.send(bytes)?;
                        self.link.flush()?;
                    }
                }
            }
            Op::Stream(bytes) => {
                // The last message's answer says that all have arrived.
                if first {
                    for _ in 0..n {
                        self.link.send(bytes)?;
                    }
                    self.link.flush()?;
                    self.link.receive(bytes)?;
                } else {
                    for _ in 0..n {
                        self.link.receive(bytes)?;
                    }
                    self.link.send(bytes)?;
                    self.link.flush()?;
                }
            }
            Op::Compute(nanos) => {
                let turns = self.pace.turns(nanos);
                for _ in 0..n {
                    compute(turns);
                }
            }
            Op::Burst(length, nanos) => return self.bursts(first, n, length, self.pace.turns(nanos)),
            Op::Walk(..) => {}
        }
        Ok(start.elapsed())
    }

    fn pull(&mut self, first: bool, bytes: usize, n: u64) -> Result<()> {
        for _ in 0..n {
            if first {
                self.link.receive(bytes)?;
            } else {
                self.link.send(bytes)?;
            }
        }
        Ok(())
    }

    /// Bursts of requests; only their making is timed. With computing between, one answer is taken in after each computation;
    /// without, only when there is no room for a request.
    fn bursts(&mut self, first: bool, n: u64, length: u64, turns: u64) -> Result<Duration> {
        let mut total = Duration::ZERO;
        if !first {
            let mut answered = 0;
            while answered < n * length {
                answered += self.link.answer()?;
            }
            return Ok(total);
        }
        for _ in 0..n {
            let mut taken = 0;
            let start = Instant::now();
            if turns == 0 {
                for _ in 0..length {
                    taken += self.link.ask()?;
                }
            } else {
                for _ in 0..length {
                    taken += self.link.ask()?;
                    compute(turns);
                    taken += self.link.take()?;
                }
            }
            total += start.elapsed();
            while taken < length {
                taken += self.link.take()?;
            }
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_timed_parses_back() {
        for op in [
            Op::Floor,
            Op::PingPong(8),
            Op::Stream(600),
            Op::Both(8 << 20),
            Op::Burst(200, 500),
            Op::Compute(1),
            Op::PingPong((8 << 20) + 3),
            Op::Walk(Traffic::Both, 1, 8 << 20, 3),
        ] {
            assert_eq!(op.to_string().parse::<Op>().unwrap(), op);
        }
        for bad in [
            "",
            "floor:1",
            "pingpong",
            "pingpong:x",
            "burst:0:1",
            "burst:5000:1",
            "stream:99999999",
            "walk-stream:0:8:3",
            "walk-both:1:99999999:3",
            "walk-pingpong:1:8:65",
        ] {
            let err = bad.parse::<Op>().unwrap_err().to_string();
            assert!(err.contains(bad), "{bad}: {err}");
        }
    }

    #[test]
    fn samples_are_found_among_other_output() {
        let samples = read("hello\nfarpost-layer floor=1e-7,2e-7 pingpong:8=3.5e-7\nbye\n").unwrap();
        assert_eq!(samples[&Op::Floor], [1e-7, 2e-7]);
        assert_eq!(samples[&Op::PingPong(8)], [3.5e-7]);
        assert!(read("farpost-layer floor=x").is_none() && read("nothing").is_none());
    }

    #[test]
    fn two_threads_time_the_bare_queue() {
        let memory = crate::board::Memory::new().unwrap();
        let (lines, meeting) = (memory.path(), crate::board::Memory::new().unwrap());
        let task = Task {
            trials: 2,
            trial_time: 1e-5,
            ops: vec![Op::Floor, Op::PingPong(56), Op::Stream(600), Op::Compute(100)],
        };
        std::thread::scope(|scope| {
            for rank in [1, 0] {
                let (lines, meeting, task) = (lines.clone(), meeting.path(), &task);
                scope.spawn(move || {
                    let link = Bare::new(Board::open(&lines, rank).unwrap());
                    task.run(&meeting, link).unwrap();
                });
            }
        });
    }

    #[test]
    fn two_threads_walk_through_the_same_sizes() {
        let memory = crate::board::Memory::new().unwrap();
        let (lines, meeting) = (memory.path(), crate::board::Memory::new().unwrap());
        let schedule = Schedule {
            trials: 3,
            trial_time: 1e-5,
            ..Schedule::of(1, 40, 3)
        };
        let walked = std::thread::scope(|scope| {
            let both = [1, 0].map(|rank| {
                let (lines, meeting, schedule) = (lines.clone(), meeting.path(), &schedule);
                scope.spawn(move || {
                    let mut pair = Pair {
                        board: Board::open(&meeting, rank).unwrap(),
                        link: Bare::new(Board::open(&lines, rank).unwrap()),
                        pace: Pace::new(),
                    };
                    pair.walk(Traffic::Stream, schedule).unwrap()
                })
            });
            both.map(|one| one.join().unwrap())
        });
        assert_eq!(walked[0], walked[1], "both go by one clock");
        let sizes: Vec<Op> = walked[0].keys().copied().collect();
        assert_eq!(
            sizes,
            crate::sizes::netpipe(1, 40, 3)
                .into_iter()
                .map(Op::Stream)
                .collect::<Vec<_>>()
        );
        assert!(walked[0].values().all(|trials| trials.len() == 3));
    }
}
