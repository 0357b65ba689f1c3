//! Jobs of two ranks, one for each layer, round after round: every layer is alone in its job, as a program would have it, with
//! the cache-line floor measured beside it; rounds interleave the layers.

use super::pair::{self, Op, PROBE, Samples};
use crate::abi::{BenchError, Result};
use crate::board::Memory;
use crate::launch;
use crate::link::{Layer, UNSET};
use crate::netpipe::quickest;
use crate::stats::summarise;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How to run them.
#[derive(Clone, Debug)]
pub struct Jobs {
    pub launcher: PathBuf,
    /// Rounds over all layers.
    pub rounds: usize,
    /// Trials in each job.
    pub trials: usize,
    /// Microseconds of a trial.
    pub trial_micros: u64,
    /// Whether the ranks of a job with an agent are bound to a core each, as those of all others are.
    pub clients_bound: bool,
    /// Whether of trials the quickest counts, and not the median.
    pub quickest: bool,
    /// Whether ranks are left to the scheduler: several jobs at once would be bound to the same cores.
    pub unbound: bool,
}

/// What was measured of each layer: the samples of each round.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    rounds: BTreeMap<Layer, Vec<Samples>>,
    /// Of trials the quickest counts, as in NetPIPE, and not the median.
    pub quickest: bool,
    /// Why a layer has none.
    pub complaints: Vec<(Layer, String)>,
}

impl Jobs {
    /// The mpiexec beside this executable.
    pub fn new(rounds: usize, trials: usize, trial_micros: u64) -> Result<Self> {
        let launcher = launch::mpiexec()?;
        Ok(Self {
            launcher,
            rounds,
            trials,
            trial_micros,
            clients_bound: true,
            quickest: false,
            unbound: false,
        })
    }

    /// Measure what `ops` says of each layer, with the floor beside it; `step` hears of each job that has ended.
    pub fn run(&self, layers: &[(Layer, Vec<Op>)], mut step: impl FnMut(Layer)) -> Result<Measured> {
        let mut measured = Measured {
            quickest: self.quickest,
            ..Measured::default()
        };
        for _ in 0..self.rounds.max(1) {
            for (layer, ops) in layers {
                if measured.complaints.iter().any(|(l, _)| l == layer) {
                    continue;
                }
                match self.job(*layer, ops) {
                    Ok(samples) => measured.add(*layer, samples),
                    Err(e) => measured.complaints.push((*layer, e.to_string())),
                }
                step(*layer);
            }
        }
        if measured.rounds.is_empty()
            && let Some((layer, why)) = measured.complaints.first()
        {
            return Err(usage!("{}: {why}", layer.title()));
        }
        Ok(measured)
    }

    /// As many jobs of one layer at the same time as there are to be pairs: the samples of each.
    pub fn together(&self, layer: Layer, ops: &[Op], pairs: usize) -> Result<Vec<Samples>> {
        std::thread::scope(|scope| {
            let start = |_| scope.spawn(|| self.job(layer, ops));
            let jobs: Vec<_> = (0..pairs).map(start).collect();
            let end = |job: std::thread::ScopedJoinHandle<'_, Result<Samples>>| job.join().expect("no panic");
            jobs.into_iter().map(end).collect()
        })
    }

    /// Where an agent and its clients run, for people.
    pub fn placement(&self) -> &'static str {
        if self.clients_bound {
            "clients of an agent bound to a core each, the agent anywhere"
        } else {
            "agent and clients anywhere"
        }
    }

    fn job(&self, layer: Layer, ops: &[Op]) -> Result<Samples> {
        let what = || {
            format!(
                "measuring {} with {} -n 2",
                layer.title(),
                self.launcher.display()
            )
        };
        let failed = |cause| BenchError::Io { what: what(), cause };
        let memory = Memory::new()?;
        if layer.has_host_agent() {
            // A job's processes start none. It ends by itself.
            let mut agent = Command::new(std::env::current_exe().map_err(failed)?);
            let started = agent
                .args(["portals-host", "--start"])
                .stdin(Stdio::null())
                .output();
            let started = started.map_err(failed)?;
            if !started.status.success() {
                let said = String::from_utf8_lossy(&started.stderr).trim_end().to_owned();
                return Err(failed(std::io::Error::other(said)));
            }
        }
        let mut command = Command::new(&self.launcher);
        if self.unbound || layer.has_agent() && !self.clients_bound {
            command.args(["--bind-to", "none"]);
        } else if std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2) {
            command.args(["--bind-to", "core"]);
        }
        command
            .args(["-n", "2"])
            .arg(std::env::current_exe().map_err(failed)?);
        command.arg(PROBE).arg(memory.path()).arg(layer.key());
        command
            .arg(self.trials.to_string())
            .arg(self.trial_micros.to_string());
        command.args(ops.iter().map(Op::to_string));
        for name in UNSET {
            command.env_remove(name);
        }
        command.envs(layer.settings().iter().copied());
        let output = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .map_err(failed)?;
        let samples = pair::read(&String::from_utf8_lossy(&output.stdout));
        match samples {
            Some(samples) if output.status.success() => Ok(samples),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                let said = said
                    .lines()
                    .find(|l| !l.trim().is_empty())
                    .unwrap_or("it said nothing");
                Err(failed(std::io::Error::other(said.to_owned())))
            }
        }
    }
}

impl Measured {
    /// One more round of a layer.
    pub fn add(&mut self, layer: Layer, samples: Samples) {
        self.rounds.entry(layer).or_default().push(samples);
    }

    /// What counts of one job's trials, seconds.
    pub fn of_job(&self, samples: &Samples, op: Op) -> Option<f64> {
        if !self.quickest {
            return median(samples, op);
        }
        let trials = samples.get(&op).filter(|trials| !trials.is_empty())?;
        Some(quickest(trials))
    }

    /// A time by the floor beside it, in the same job.
    pub fn over_floor(&self, layer: Layer, op: Op) -> Option<f64> {
        self.over_rounds(layer, |s| Some(self.of_job(s, op)? / self.of_job(s, Op::Floor)?))
    }

    /// The layers that could be measured, from the lowest.
    pub fn layers(&self) -> Vec<Layer> {
        let all = Layer::ALL.iter().copied();
        all.filter(|l| self.rounds.contains_key(l)).collect()
    }

    /// Median over the rounds of the median within each, in seconds; or the quickest trial of all.
    pub fn time(&self, layer: Layer, op: Op) -> Option<f64> {
        if self.quickest {
            let all = self.samples(layer, op);
            return (!all.is_empty()).then(|| quickest(&all));
        }
        self.over_rounds(layer, |samples| median(samples, op))
    }

    /// All samples of all rounds.
    pub fn samples(&self, layer: Layer, op: Op) -> Vec<f64> {
        let rounds = self.rounds.get(&layer).into_iter().flatten();
        rounds.filter_map(|s| s.get(&op)).flatten().copied().collect()
    }

    /// Median over the rounds of one number for each round.
    pub fn over_rounds(&self, layer: Layer, value: impl Fn(&Samples) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.rounds.get(&layer)?.iter().filter_map(value).collect();
        (!values.is_empty()).then(|| summarise(&values).median)
    }

    /// Median over the rounds of two layers of the second's time by the first's, round by round.
    pub fn ratio(&self, (below, below_op): (Layer, Op), (layer, op): (Layer, Op)) -> Option<f64> {
        let rounds = self.rounds.get(&below)?.iter().zip(self.rounds.get(&layer)?);
        let ratios: Vec<f64> = rounds
            .filter_map(|(b, l)| Some(self.of_job(l, op)? / self.of_job(b, below_op)?))
            .collect();
        (!ratios.is_empty()).then(|| summarise(&ratios).median)
    }

    /// The floor, over all jobs.
    pub fn floor(&self) -> Option<f64> {
        let all: Vec<f64> = self
            .rounds
            .values()
            .flatten()
            .filter_map(|s| median(s, Op::Floor))
            .collect();
        (!all.is_empty()).then(|| summarise(&all).median)
    }

    /// The curve of one kind by size: bytes and seconds.
    pub fn curve(&self, layer: Layer, of: impl Fn(usize) -> Op) -> Vec<(f64, f64)> {
        let Some(first) = self.rounds.get(&layer).and_then(|r| r.first()) else {
            return Vec::new();
        };
        let sizes = first.keys().filter_map(|op| match op {
            Op::PingPong(bytes) | Op::Stream(bytes) | Op::Both(bytes) if of(*bytes) == *op => Some(*bytes),
            _ => None,
        });
        sizes
            .filter_map(|bytes| Some((bytes as f64, self.time(layer, of(bytes))?)))
            .collect()
    }
}

/// The median of one job's samples.
pub fn median(samples: &Samples, op: Op) -> Option<f64> {
    let samples = samples.get(&op).filter(|s| !s.is_empty())?;
    Some(summarise(samples).median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ratios_and_curves_over_rounds() {
        let mut m = Measured::default();
        for (floor, fm) in [(1.0, 2.0), (2.0, 3.0), (1.0, 30.0)] {
            let round = |time: f64| {
                let mut s = Samples::new();
                s.insert(Op::Floor, vec![floor]);
                s.insert(Op::PingPong(16), vec![time]);
                s.insert(Op::Stream(16), vec![time, time, 100.0 * time]);
                s
            };
            m.rounds.entry(Layer::FmSend).or_default().push(round(fm));
            m.rounds
                .entry(Layer::MpiPostbox)
                .or_default()
                .push(round(2.0 * fm));
        }
        assert_eq!(m.time(Layer::FmSend, Op::PingPong(16)), Some(3.0));
        assert_eq!(m.floor(), Some(1.0));
        let (below, above) = (
            (Layer::FmSend, Op::PingPong(16)),
            (Layer::MpiPostbox, Op::PingPong(16)),
        );
        assert_eq!(m.ratio(below, above), Some(2.0));
        assert_eq!(m.ratio(below, (Layer::MpiJam, Op::Floor)), None);
        assert_eq!(m.curve(Layer::FmSend, Op::Stream), [(16.0, 3.0)]);
        assert_eq!(m.layers(), [Layer::FmSend, Layer::MpiPostbox]);
        m.quickest = true;
        assert_eq!(m.time(Layer::FmSend, Op::Stream(16)), Some(2.0), "of all trials");
        assert_eq!(
            m.over_floor(Layer::FmSend, Op::Stream(16)),
            Some(2.0),
            "2/1, 3/2, 30/1"
        );
    }
}
