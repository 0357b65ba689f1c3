//! NetPIPE's schedule, as version 3.6.2 has it: which sizes are measured, how often each is repeated, and which of several trials
//! counts. It measures nothing itself and asks no clock, so that the same walk is made in real time and in a simulated one.
//!
//! From the lower bound on sizes grow by an increment that doubles with every second size. Around each of them, once the
//! increment is large enough that neighbours stay apart, so many bytes less and more are measured too, the *perturbation*, so that effects of
//! alignment and of protocol limits show. How often a size is repeated follows from the time of the one before, in proportion to the size. Of the
//! trials of a size the quickest counts. When a message takes longer than a bound, no larger size is begun.

/// The fewest seconds that a time is taken for: clocks may say that something took none.
const LEAST: f64 = 1e-6;
/// Exchanges that tell how long the first size takes.
const FIRST: u64 = 100;
/// Places at the end of NetPIPE's table of samples that it leaves.
const SPARE: usize = 3;

/// What is walked through, and how it is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The smallest size, bytes (`-l`).
    pub lower: usize,
    /// The largest size, bytes, its perturbation not counted (`-u`).
    pub upper: usize,
    /// Bytes less and more around each size (`-p`); 0: none.
    pub perturbation: usize,
    /// So many sizes at most.
    pub samples: usize,
    /// Seconds that a message takes beyond which no larger size is begun.
    pub longest: f64,
    /// Trials of each size, of which the quickest counts; also the fewest repetitions in a trial.
    pub trials: usize,
    /// Seconds that a trial should take.
    pub trial_time: f64,
    /// So many repetitions in every trial (`-n`); `None`: as the times say.
    pub repetitions: Option<u64>,
}

impl Default for Schedule {
    /// What version 3.6.2 does without options.
    fn default() -> Self {
        Self {
            lower: 1,
            upper: i32::MAX as usize,
            perturbation: 3,
            samples: 8000,
            longest: 1.0,
            trials: 7,
            trial_time: 0.25,
            repetitions: None,
        }
    }
}

/// A size on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is measured.
    pub bytes: usize,
    /// How far apart sizes are there.
    pub increment: usize,
    /// The last of those around one size: the walk may end behind it.
    pub is_last_of_size: bool,
}

/// What one size took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub bytes: usize,
    /// Repetitions in each trial.
    pub repetitions: u64,
    /// Seconds of one message, in the quickest trial.
    pub seconds: f64,
}

impl Sample {
    /// As NetPIPE reports it: bits in a second by 2^20. What goes both ways at once counts twice, which the caller has to do.
    pub fn megabits(&self) -> f64 {
        self.bytes as f64 * 8.0 / (self.seconds * f64::from(1 << 20))
    }

    /// 10^6 bytes in a second.
    pub fn megabytes(&self) -> f64 {
        self.bytes as f64 / self.seconds / 1e6
    }
}

impl Schedule {
    /// From `lower` to `upper` bytes; all else as without options.
    pub fn of(lower: usize, upper: usize, perturbation: usize) -> Self {
        Self {
            lower,
            upper,
            perturbation,
            ..Self::default()
        }
    }

    /// All sizes in the order in which they are measured, as far as time does not end the walk. A size may come twice where a lower bound
    /// above 1 makes the walk meet its own neighbours. 0 bytes, which NetPIPE does not know, come before 1.
    pub fn steps(&self) -> impl Iterator<Item = Step> + use<> {
        let zero = (self.lower == 0).then_some(Step {
            bytes: 0,
            increment: 1,
            is_last_of_size: true,
        });
        let sizes = Sizes {
            at: self.lower.max(1),
            increment: (self.lower / 2).max(1),
            count: usize::from(self.lower > 1),
            upper: self.upper,
        };
        let perturbation = self.perturbation;
        let around = sizes.flat_map(move |(bytes, increment)| {
            // A size and its neighbours would else be one another's.
            let apart = perturbation > 0 && increment > perturbation + 1;
            let low = apart.then(|| bytes - perturbation);
            let high = apart.then(|| bytes + perturbation);
            let all = [low, Some(bytes), high].into_iter().flatten();
            all.map(move |bytes| (bytes, increment, high.unwrap_or(bytes)))
        });
        let steps = around.map(|(bytes, increment, last)| Step {
            bytes,
            increment,
            is_last_of_size: bytes == last,
        });
        zero.into_iter()
            .chain(steps)
            .take(self.samples.saturating_sub(SPARE))
    }

    /// How often to repeat `step` in a trial, when a message of the size before took `last` seconds.
    pub fn repetitions(&self, step: Step, last: f64) -> u64 {
        if let Some(fixed) = self.repetitions {
            return fixed.max(1);
        }
        let bytes = step.bytes as f64;
        let growth = bytes / (bytes - step.increment as f64 + 1.0);
        // Of no bytes nothing grows.
        let growth = if growth > 0.0 { growth } else { 1.0 };
        let times = self.trial_time / (growth * last.max(LEAST));
        (times as u64).max(self.trials as u64).max(1)
    }

    /// Walk. `exchange` makes so many exchanges of so many bytes and says how many seconds one message of them took: half of an exchange where
    /// messages go to and fro, all of it where they stream or go both ways at once. Whoever answers must be told the numbers by it.
    ///
    /// # Errors
    /// Those of `exchange`.
    pub fn run<E>(&self, mut exchange: impl FnMut(usize, u64) -> Result<f64, E>) -> Result<Vec<Sample>, E> {
        let mut last = exchange(self.lower, self.repetitions.unwrap_or(FIRST).max(1))?;
        let mut samples = Vec::new();
        let mut begins = true;
        for step in self.steps() {
            if begins && last >= self.longest {
                break;
            }
            let repetitions = self.repetitions(step, last);
            let trials = (0..self.trials.max(1)).map(|_| exchange(step.bytes, repetitions));
            let sample = Sample {
                bytes: step.bytes,
                repetitions,
                seconds: quickest(&trials.collect::<Result<Vec<_>, E>>()?),
            };
            last = sample.seconds;
            begins = step.is_last_of_size;
            samples.push(sample);
        }
        Ok(samples)
    }
}

/// Of trials the one that counts, seconds: what disturbs makes them longer and never shorter. No trials took for ever.
pub fn quickest(trials: &[f64]) -> f64 {
    let least = trials.iter().copied().fold(f64::INFINITY, f64::min);
    if least > 0.0 { least } else { LEAST }
}

/// Sizes and the increments that led to them, without those around them.
struct Sizes {
    at: usize,
    increment: usize,
    count: usize,
    upper: usize,
}

impl Iterator for Sizes {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        if self.at > self.upper {
            return None;
        }
        if self.count > 2 && !self.count.is_multiple_of(2) {
            self.increment *= 2;
        }
        let here = (self.at, self.increment);
        self.count += 1;
        self.at = self.at.saturating_add(self.increment);
        Some(here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(schedule: &Schedule) -> Vec<usize> {
        schedule.steps().map(|step| step.bytes).collect()
    }

    #[test]
    fn the_walk_without_options_is_that_of_3_6_2() {
        let schedule = Schedule::of(1, 99, 3);
        assert_eq!(
            bytes(&schedule),
            [
                1, 2, 3, 4, 6, 8, 12, 13, 16, 19, 21, 24, 27, 29, 32, 35, 45, 48, 51, 61, 64, 67, 93, 96, 99
            ]
        );
        assert_eq!(bytes(&Schedule::of(0, 4, 3)), [0, 1, 2, 3, 4]);
        assert_eq!(bytes(&Schedule::of(8, 32, 0)), [8, 12, 16, 24, 32]);
        let all = Schedule::default();
        assert_eq!((all.trials, all.trial_time, all.longest), (7, 0.25, 1.0));
        let few = Schedule {
            samples: 8,
            ..Schedule::default()
        };
        assert_eq!(bytes(&few), [1, 2, 3, 4, 6]);
    }

    #[test]
    fn repetitions_follow_the_size_before() {
        let schedule = Schedule::default();
        let step = |bytes, increment| Step {
            bytes,
            increment,
            is_last_of_size: true,
        };
        // 13 bytes after 12 of 15 us: 13 / (13 - 8 + 1) times as long is assumed.
        let last = 1.0 / 65536.0;
        assert_eq!(schedule.repetitions(step(13, 8), last), 16384 * 6 / 13);
        assert_eq!(schedule.repetitions(step(1, 1), last), 16384);
        assert_eq!(
            schedule.repetitions(step(8 << 20, 4 << 20), 0.5),
            7,
            "as many as trials"
        );
        assert!(schedule.repetitions(step(1, 1), 0.0).abs_diff(250_000) <= 1);
        assert_eq!(schedule.repetitions(step(0, 1), last), 16384);
        let fixed = Schedule {
            repetitions: Some(3),
            ..schedule
        };
        assert_eq!(fixed.repetitions(step(13, 8), last), 3);
    }

    /// A link of 5 us and a byte each 10 ns, disturbed in all trials but the third.
    #[test]
    fn of_the_trials_the_quickest_counts() {
        let schedule = Schedule {
            upper: 64,
            ..Schedule::default()
        };
        let mut asked = Vec::new();
        let made = schedule.run(|bytes, repetitions| -> Result<f64, ()> {
            asked.push((bytes, repetitions));
            let disturbed = if asked.len() % 7 == 3 { 1.0 } else { 1.5 };
            Ok((5e-6 + 1e-8 * bytes as f64) * disturbed)
        });
        let samples = made.unwrap();
        assert_eq!(asked[0], (1, 100), "how long the first size takes is asked first");
        assert_eq!(asked.len(), 1 + 7 * samples.len());
        for sample in &samples {
            let exact = 5e-6 + 1e-8 * sample.bytes as f64;
            assert!((sample.seconds / exact - 1.0).abs() < 1e-12, "{sample:?}");
        }
        let last = samples.last().unwrap();
        assert_eq!(last.bytes, 67);
        assert!((last.megabits() - 67.0 * 8.0 / 5.67e-6 / 1048576.0).abs() < 1e-6);
        assert!((last.megabytes() - 67.0 / 5.67).abs() < 1e-6);
        assert_eq!(quickest(&[0.0, 1.0]), 1e-6, "a clock that stood still");
    }

    #[test]
    fn no_size_is_begun_after_one_that_took_too_long() {
        let slow = Schedule {
            perturbation: 3,
            trials: 1,
            ..Schedule::default()
        };
        // 1 s is reached at 32 bytes; those around it are measured still.
        let samples = slow.run(|bytes, _| -> Result<f64, ()> { Ok(bytes as f64 / 32.0) });
        let sizes: Vec<usize> = samples.unwrap().iter().map(|s| s.bytes).collect();
        assert_eq!(sizes[sizes.len() - 3..], [29, 32, 35]);
        let refused = slow.run(|bytes, _| if bytes < 16 { Ok(1e-6) } else { Err(bytes) });
        assert_eq!(refused, Err(16));
    }

    proptest! {
        #[test]
        fn sizes_stay_in_range_and_ends_are_marked(lower in 1usize..5000, span in 0usize..1 << 22, p in 0usize..64) {
            let schedule = Schedule::of(lower, lower + span, p);
            let steps: Vec<Step> = schedule.steps().collect();
            prop_assert_eq!(steps[0].bytes.abs_diff(lower) % p.max(1), 0);
            prop_assert!(steps.iter().all(|s| s.bytes >= lower.saturating_sub(p) && s.bytes <= lower + span + p));
            prop_assert!(steps.iter().any(|s| s.bytes == lower));
            prop_assert!(steps.last().unwrap().is_last_of_size);
        }
    }
}
