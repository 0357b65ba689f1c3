//! Latency under load: the first pair (rank 0 and the first rank of the job's second half) sends messages to and fro while other pairs do
//! the same, as in figure 6 of the Sun Fire Link paper, or stream. The others begin before the first trial and end after it.

use super::pairs::{gather_times, half, round_trip, window};
use super::{Plan, calibrate, fill, verify};
use crate::abi::{BenchError, Mpi, Result};
use crate::stats::{Summary, summarise};
use std::cell::RefCell;
use std::time::Instant;

const CONTROL: i32 = 41;
const STOP: i32 = 42;
const READY: i32 = 43;
/// In how many parts a trial is made, after each of which it is seen whether it takes too long: under load all is slower.
const PARTS: u64 = 10;

/// What the other pairs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The same as the first pair, with messages of the same size.
    PingPong,
    /// Windows of messages of so many bytes.
    Stream(usize),
}

/// Latency at one size beside so many other pairs.
#[derive(Clone, Debug)]
pub struct LoadPoint {
    /// Bytes of a message of the first pair's.
    pub bytes: usize,
    /// Other pairs at work.
    pub others: usize,
    /// Round trips of the first pair, in all trials.
    pub round_trips: u64,
    /// Seconds one way.
    pub time: Summary,
    /// What the other pairs carried together meanwhile, bytes a second.
    pub load: f64,
}

struct Pair<'a> {
    mpi: &'a Mpi,
    plan: &'a Plan,
    /// This rank is of the first half, and its partner.
    first: bool,
    peer: usize,
}

impl Pair<'_> {
    /// Tell the partner whether another part follows; the partner hears it.
    fn goes_on(&self, mut more: bool) -> Result<bool> {
        let mut word = [u8::from(more)];
        if self.first {
            self.mpi.send(&word, self.peer, CONTROL)?;
        } else {
            self.mpi.recv(&mut word, self.peer, CONTROL)?;
            more = word[0] == 1;
        }
        Ok(more)
    }

    /// Parts of `n` round trips until there are ten, or the time of a trial is over. Round trips, and the seconds they took.
    fn measured(&self, n: u64, out: &[u8], into: &mut [u8]) -> Result<(u64, f64)> {
        let (mut trips, mut took) = (0, 0.0);
        while self.goes_on(trips < PARTS * n && took < self.plan.trial_time)? {
            let start = Instant::now();
            for _ in 0..n {
                round_trip(self.mpi, (self.peer, self.first, false), out, into)?;
            }
            took += start.elapsed().as_secs_f64();
            trips += n;
        }
        Ok((trips, took))
    }

    /// Load the network until rank 0 says that it is enough. Bytes, and the seconds they took.
    fn loads(&self, load: Load, out: &[u8], into: &mut [u8], bytes: usize) -> Result<(u64, f64)> {
        let way = (self.peer, self.first, false);
        let (mut units, mut told) = (0, false);
        let start = Instant::now();
        loop {
            let ends = self.first && told && self.mpi.probe(0, STOP)?;
            if !self.goes_on(!ends)? {
                break;
            }
            match load {
                Load::PingPong => round_trip(self.mpi, way, &out[..bytes], &mut into[..bytes])?,
                Load::Stream(bytes) => window(self.mpi, way, out, into, bytes)?,
            }
            units += 1;
            if self.first && !told {
                told = true;
                self.mpi.send(&[1], 0, READY)?;
            }
        }
        if self.first {
            self.mpi.recv(&mut [0], 0, STOP)?;
        }
        let moved = match load {
            Load::PingPong => 2 * bytes,
            Load::Stream(_) => out.len(),
        };
        Ok((units * moved as u64, start.elapsed().as_secs_f64()))
    }
}

/// Measure each size of the plan beside each number of other pairs. Points are true on rank 0 alone.
pub fn run(
    mpi: &Mpi,
    plan: &Plan,
    others: &[usize],
    load: Load,
    mut done: impl FnMut(&LoadPoint),
) -> Result<Vec<LoadPoint>> {
    let half = half("load", mpi)?;
    if let Some(wrong) = others.iter().find(|others| **others >= half) {
        return Err(usage!(
            "--others {wrong}: {} ranks make one pair that is measured and 0 to {} others",
            mpi.size(),
            half - 1
        ));
    }
    let first = mpi.rank() < half;
    let place = mpi.rank() % half;
    let pair = Pair {
        mpi,
        plan,
        first,
        peer: if first { place + half } else { place },
    };
    let largest = plan.sizes.iter().copied().max().unwrap_or(1);
    let room = match load {
        Load::PingPong => largest,
        Load::Stream(bytes) => largest.max(bytes * plan.window),
    };
    let (mut out, mut into) = (vec![1u8; room], vec![1u8; room]);
    let mut points = Vec::new();
    for &bytes in &plan.sizes {
        if bytes == 0 {
            return Err(BenchError::Usage("load: message sizes start at 1 byte".into()));
        }
        let way = (pair.peer, first, false);
        let alone = RefCell::new(&mut into[..bytes]);
        let n = calibrate(
            mpi,
            plan,
            || Ok(()),
            |n| {
                let into = &mut **alone.borrow_mut();
                (0..if place == 0 { n } else { 0 })
                    .try_for_each(|_| round_trip(mpi, way, &out[..bytes], into))
            },
        )?;
        let n = n.div_ceil(PARTS);
        for &others in others {
            let (mut times, mut round_trips, mut loads) = (Vec::new(), 0, Vec::new());
            for trial in 0..plan.trials.max(1) {
                fill(&mut out, trial + mpi.rank());
                into.fill(0);
                mpi.barrier()?;
                let mut rate = 0.0;
                if place == 0 {
                    if first {
                        (1..=others).try_for_each(|other| mpi.recv(&mut [0], other, READY))?;
                    }
                    let (trips, took) = pair.measured(n, &out[..bytes], &mut into[..bytes])?;
                    if first {
                        (1..=others).try_for_each(|other| mpi.send(&[0], other, STOP))?;
                    }
                    times.push(took / trips as f64 / 2.0);
                    round_trips += trips;
                    let what = format!("{bytes}-byte message from rank {} under load", pair.peer);
                    verify(&into[..bytes], trial + pair.peer, &what)?;
                } else if place <= others {
                    let of_load = match load {
                        Load::PingPong => bytes,
                        Load::Stream(bytes) => bytes * plan.window,
                    };
                    let (moved, took) = pair.loads(load, &out[..of_load], &mut into[..of_load], bytes)?;
                    if first {
                        rate = moved as f64 / took.max(f64::MIN_POSITIVE);
                    } else {
                        verify(&into[..of_load], trial + pair.peer, "a message of the load's")?;
                    }
                }
                loads.push(gather_times(mpi, rate)?.iter().sum::<f64>());
            }
            let point = LoadPoint {
                bytes,
                others,
                round_trips,
                time: summarise(if times.is_empty() { &[1.0] } else { &times }),
                load: summarise(&loads).median,
            };
            done(&point);
            points.push(point);
        }
    }
    Ok(points)
}
