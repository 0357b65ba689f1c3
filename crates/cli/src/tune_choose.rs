//! Which value is best, from times.

/// Times below which a difference is no reason to leave the default: 2 percent on average.
const WORTH: f64 = 0.02;

/// One size: its bytes, and the time of a message by either way.
#[derive(Clone, Copy, Debug)]
pub struct Both {
    pub bytes: u64,
    /// The way of small messages.
    pub below: f64,
    /// The way of large ones.
    pub above: f64,
}

/// A switch point, and what it brings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub value: u64,
    /// Mean time with it, as a part of that with the default.
    pub gain: f64,
}

/// Mean of the logarithms of the times when messages up to `limit` go the way of small ones.
fn cost(points: &[Both], limit: u64) -> f64 {
    let of = |p: &Both| if p.bytes <= limit { p.below } else { p.above };
    points.iter().map(|p| of(p).ln()).sum::<f64>() / points.len().max(1) as f64
}

/// The largest size that goes the way of small messages, chosen so that all sizes together take the least time; the
/// default unless another is better by more than noise.
pub fn switch(points: &[Both], default: u64) -> Choice {
    let usual = cost(points, default);
    let limits = std::iter::once(0).chain(points.iter().map(|p| p.bytes));
    let best = limits
        .map(|limit| (limit, cost(points, limit)))
        .fold(
            (default, usual),
            |best, next| if next.1 < best.1 { next } else { best },
        );
    decide(best, usual, default)
}

/// The candidate with the least time; `times` by candidate, of the same messages each.
pub fn least(times: &[(u64, Vec<f64>)], default: u64) -> Choice {
    let mean = |times: &[f64]| times.iter().map(|t| t.ln()).sum::<f64>() / times.len().max(1) as f64;
    let all: Vec<(u64, f64)> = times.iter().map(|(value, times)| (*value, mean(times))).collect();
    let usual = all
        .iter()
        .find(|(value, _)| *value == default)
        .map(|(_, cost)| *cost);
    let best = all.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    match (best, usual) {
        (Some(best), Some(usual)) => decide(best, usual, default),
        (Some(best), None) => Choice {
            value: best.0,
            gain: 1.0,
        },
        (None, _) => Choice {
            value: default,
            gain: 1.0,
        },
    }
}

fn decide(best: (u64, f64), usual: f64, default: u64) -> Choice {
    if usual - best.1 < WORTH {
        return Choice {
            value: default,
            gain: 1.0,
        };
    }
    Choice {
        value: best.0,
        gain: (best.1 - usual).exp(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(pairs: &[(u64, f64, f64)]) -> Vec<Both> {
        let both = |&(bytes, below, above)| Both { bytes, below, above };
        pairs.iter().map(both).collect()
    }

    #[test]
    fn the_switch_is_where_the_curves_cross() {
        let curve = points(&[
            (1, 1.0, 3.0),
            (2, 2.0, 3.0),
            (4, 4.0, 4.5),
            (8, 8.0, 6.0),
            (16, 20.0, 8.0),
        ]);
        assert_eq!(switch(&curve, 16).value, 4);
        assert!(switch(&curve, 16).gain < 0.9);
        // A point out of line does not move it far.
        let noisy = points(&[
            (1, 1.0, 3.0),
            (2, 3.1, 3.0),
            (4, 4.0, 4.5),
            (8, 8.0, 6.0),
            (16, 20.0, 8.0),
        ]);
        assert_eq!(switch(&noisy, 16).value, 4);
        let never = points(&[(1, 2.0, 1.0), (2, 2.0, 1.0)]);
        assert_eq!(switch(&never, 2).value, 0);
    }

    #[test]
    fn the_default_stays_unless_something_is_better() {
        let same = points(&[(1, 1.0, 1.001), (2, 2.0, 2.01), (4, 4.0, 3.99)]);
        assert_eq!(switch(&same, 4), Choice { value: 4, gain: 1.0 });
        let times = [(8, vec![1.0, 2.0]), (16, vec![0.99, 2.0]), (32, vec![3.0, 3.0])];
        assert_eq!(least(&times, 8).value, 8);
        assert_eq!(least(&times, 32).value, 16);
        assert_eq!(least(&[], 5).value, 5);
    }
}
