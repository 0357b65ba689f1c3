//! What several trials say: the median, and how far they lie apart.

/// Times of several trials, in seconds per operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Half of the trials took at most this long.
    pub median: f64,
    /// The quickest trial.
    pub min: f64,
    /// The slowest trial.
    pub max: f64,
}

impl Summary {
    /// All times `factor`.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            median: self.median * factor,
            min: self.min * factor,
            max: self.max * factor,
        }
    }
}

/// Summarise `times`; panics if there are none, which the callers' trial counts exclude.
pub fn summarise(times: &[f64]) -> Summary {
    assert!(!times.is_empty(), "no trials");
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let mid = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 {
        sorted[mid]
    } else {
        (sorted[mid - 1] + sorted[mid]) / 2.0
    };
    Summary {
        median,
        min: sorted[0],
        max: sorted[sorted.len() - 1],
    }
}

/// How often to repeat an operation so that one trial takes about `target` seconds, knowing that `done`
/// repetitions took `took` seconds.
pub fn repetitions(target: f64, took: f64, done: u64, most: u64) -> u64 {
    let each = took.max(1e-9) / done.max(1) as f64;
    ((target / each).ceil() as u64).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(
            summarise(&[3.0, 1.0, 2.0]),
            Summary {
                median: 2.0,
                min: 1.0,
                max: 3.0
            }
        );
        assert_eq!(summarise(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
    }

    #[test]
    fn repetitions_fill_the_trial_and_stay_bounded() {
        assert_eq!(repetitions(0.01, 1e-4, 100, 1_000_000), 10_000);
        assert_eq!(repetitions(0.01, 5.0, 1, 1_000_000), 1);
        assert_eq!(repetitions(0.01, 0.0, 1, 5000), 5000);
    }

    proptest! {
        #[test]
        fn the_median_lies_between(times in prop::collection::vec(0.0f64..1e3, 1..40)) {
            let s = summarise(&times);
            prop_assert!(s.min <= s.median && s.median <= s.max);
        }
    }
}
