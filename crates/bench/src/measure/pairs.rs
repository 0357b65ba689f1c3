//! Several pairs of ranks at once: rank r of the first half of the job with rank r of the second, as many pairs as are asked for, the
//! other ranks idle. Each pair keeps its own time, so that what all carry together and what one of them gets are both known.

use super::{Plan, calibrate, fill, verify};
use crate::abi::{BenchError, Mpi, Result};
use crate::stats::{Summary, summarise};
use std::cell::RefCell;
use std::time::Instant;

const DATA: i32 = 31;
const ANSWER: i32 = 32;

/// What the pairs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairTraffic {
    /// Windows of messages, each of which is answered with a byte; both ways at once without answers if bidirectional.
    Stream,
    /// A message to and fro; if bidirectional, both send at once and wait for both.
    PingPong,
}

/// What was measured of so many pairs at one size.
#[derive(Clone, Debug)]
pub struct PairsPoint {
    /// Pairs at work.
    pub pairs: usize,
    /// Bytes of a message.
    pub bytes: usize,
    /// Windows or round trips of each pair in one trial.
    pub repetitions: u64,
    /// What all pairs carried in the time of the slowest, bytes a second.
    pub aggregate: Summary,
    /// By pair: what it carried in its own time, bytes a second.
    pub each: Vec<Summary>,
    /// By pair: seconds of a message, one way.
    pub time: Vec<Summary>,
}

impl PairsPoint {
    /// Of the medians of the pairs: the smallest, the median, the largest.
    pub fn spread(of: &[Summary]) -> [f64; 3] {
        let medians: Vec<f64> = of.iter().map(|pair| pair.median).collect();
        let all = summarise(&medians);
        [all.min, all.median, all.max]
    }
}

/// Half of the ranks, if there are pairs.
pub(super) fn half(benchmark: &'static str, mpi: &Mpi) -> Result<usize> {
    let ranks = mpi.size();
    let even = ranks >= 2 && ranks.is_multiple_of(2);
    BenchError::check_ranks(benchmark, "an even number of ranks", ranks, even)?;
    Ok(ranks / 2)
}

/// The time of each rank, on rank 0; elsewhere nothing of use.
pub(super) fn gather_times(mpi: &Mpi, took: f64) -> Result<Vec<f64>> {
    let mut all = vec![0; 8 * mpi.size()];
    mpi.gather(&took.to_ne_bytes(), &mut all)?;
    let values = all.as_chunks::<8>().0.iter();
    Ok(values.map(|bytes| f64::from_ne_bytes(*bytes)).collect())
}

/// A window of messages from the first to the second of a pair, or both ways.
#[inline]
pub(super) fn window(
    mpi: &Mpi,
    (peer, first, both): (usize, bool, bool),
    out: &[u8],
    into: &mut [u8],
    bytes: usize,
) -> Result<()> {
    let mut answer = [0u8];
    if both {
        mpi.window(peer, DATA, (out, bytes), (into, bytes))
    } else if first {
        mpi.window(peer, DATA, (out, bytes), (&mut [], bytes))?;
        mpi.recv(&mut answer, peer, ANSWER)
    } else {
        mpi.window(peer, DATA, (&[], bytes), (into, bytes))?;
        mpi.send(&answer, peer, ANSWER)
    }
}

/// One message to and fro, or both ways at once.
#[inline]
pub(super) fn round_trip(
    mpi: &Mpi,
    (peer, first, both): (usize, bool, bool),
    out: &[u8],
    into: &mut [u8],
) -> Result<()> {
    if both {
        let piece = out.len();
        mpi.window(peer, DATA, (out, piece), (into, piece))
    } else if first {
        mpi.send(out, peer, DATA)?;
        mpi.recv(into, peer, DATA)
    } else {
        mpi.recv(into, peer, DATA)?;
        mpi.send(out, peer, DATA)
    }
}

/// Measure each number of pairs at each size of the plan. Points are true on rank 0 alone.
pub fn run(
    mpi: &Mpi,
    plan: &Plan,
    pairs: &[usize],
    traffic: PairTraffic,
    mut done: impl FnMut(&PairsPoint),
) -> Result<Vec<PairsPoint>> {
    let half = half("pairs", mpi)?;
    if let Some(wrong) = pairs.iter().find(|pairs| !(1..=half).contains(pairs)) {
        return Err(usage!(
            "--pairs {wrong}: {} ranks make 1 to {half} pairs",
            mpi.size()
        ));
    }
    let first = mpi.rank() < half;
    let place = mpi.rank() % half;
    let peer = if first { place + half } else { place };
    let both = plan.bidirectional;
    let count = match traffic {
        PairTraffic::Stream => plan.window,
        PairTraffic::PingPong => 1,
    };
    let largest = plan.sizes.iter().copied().max().unwrap_or(1) * count;
    let (mut out, mut into) = (vec![1u8; largest], vec![1u8; largest]);
    let mut points = Vec::new();
    for (i, &bytes) in plan.sizes.iter().enumerate() {
        if bytes == 0 {
            return Err(BenchError::Usage("pairs: message sizes start at 1 byte".into()));
        }
        let out = &mut out[..bytes * count];
        let into = RefCell::new(&mut into[..bytes * count]);
        fill(out, i + mpi.rank());
        for &pairs in pairs {
            let active = place < pairs;
            let reset = || {
                into.borrow_mut().fill(0);
                Ok(())
            };
            let work = |n: u64| {
                let into = &mut **into.borrow_mut();
                let way = (peer, first, both);
                (0..if active { n } else { 0 }).try_for_each(|_| match traffic {
                    PairTraffic::Stream => window(mpi, way, out, into, bytes),
                    PairTraffic::PingPong => round_trip(mpi, way, out, into),
                })
            };
            let n = calibrate(mpi, plan, reset, work)?;
            let (mut aggregate, mut each) = (Vec::new(), vec![Vec::new(); pairs]);
            // Messages of one repetition, in all; a ping-pong's two go one after the other.
            let messages = match (traffic, both) {
                (PairTraffic::PingPong, _) => 2,
                (PairTraffic::Stream, true) => 2 * count,
                (PairTraffic::Stream, false) => count,
            } as f64;
            for _ in 0..plan.trials.max(1) {
                reset()?;
                mpi.barrier()?;
                let start = Instant::now();
                work(n)?;
                let times = gather_times(mpi, start.elapsed().as_secs_f64())?;
                if mpi.rank() == 0 {
                    let carried = messages * bytes as f64 * n as f64;
                    let slowest = times[..pairs].iter().copied().fold(f64::MIN_POSITIVE, f64::max);
                    aggregate.push(carried * pairs as f64 / slowest);
                    for (each, time) in each.iter_mut().zip(&times) {
                        each.push(carried / time.max(f64::MIN_POSITIVE));
                    }
                }
            }
            if active && (both || !first || traffic == PairTraffic::PingPong) {
                let what = format!(
                    "{bytes}-byte messages from rank {peer} beside {} pairs",
                    pairs - 1
                );
                verify(&into.borrow(), i + peer, &what)?;
            }
            if mpi.rank() != 0 {
                (aggregate, each) = (vec![1.0], vec![vec![1.0]; pairs]);
            }
            let each: Vec<Summary> = each.iter().map(|rates| summarise(rates)).collect();
            let sent_at_once = if both { 2.0 } else { 1.0 };
            let seconds = |rate: f64| sent_at_once * bytes as f64 / rate;
            let time = |rates: &Summary| Summary {
                median: seconds(rates.median),
                min: seconds(rates.max),
                max: seconds(rates.min),
            };
            let point = PairsPoint {
                pairs,
                bytes,
                repetitions: n,
                aggregate: summarise(&aggregate),
                time: each.iter().map(time).collect(),
                each,
            };
            done(&point);
            points.push(point);
        }
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_of_medians() {
        let pair = |median| Summary {
            median,
            min: 0.0,
            max: 100.0,
        };
        assert_eq!(
            PairsPoint::spread(&[pair(3.0), pair(1.0), pair(2.0)]),
            [1.0, 2.0, 3.0]
        );
    }
}
