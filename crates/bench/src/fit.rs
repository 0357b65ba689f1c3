//! From measured curves to the parameters of the papers: the FM paper's t_0, r_inf and n_1/2 (its section 4.1) and the LogP
//! signature of Culler et al. ("Assessing Fast Network Interfaces", IEEE Micro 1996).

/// A least-squares line through `points`: what it is at 0, and its slope. At least two different x.
pub fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (mx, my) = points
        .iter()
        .fold((0.0, 0.0), |(a, b), (x, y)| (a + x / n, b + y / n));
    let (sxy, sxx) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| {
        (a + (x - mx) * (y - my), b + (x - mx) * (x - mx))
    });
    let slope = if sxx > 0.0 { sxy / sxx } else { 0.0 };
    (my - slope * mx, slope)
}

/// The median of the slopes between all pairs of points (Theil and Sen): single points that were disturbed do not move it.
pub fn median_slope(points: &[(f64, f64)]) -> f64 {
    let mut slopes = Vec::new();
    for (i, a) in points.iter().enumerate() {
        let later = points[i + 1..].iter().filter(|b| b.0 != a.0);
        slopes.extend(later.map(|b| (b.1 - a.1) / (b.0 - a.0)));
    }
    match slopes.is_empty() {
        true => f64::NAN,
        false => crate::stats::summarise(&slopes).median,
    }
}

/// The FM paper's parameters of a stream of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// Startup overhead in seconds: where the line through the small sizes (up to 64 bytes) meets 0 bytes.
    pub t0: f64,
    /// Asymptotic bandwidth in bytes per second: the inverse slope of the line through the upper half of the sizes.
    pub r_inf: f64,
    /// Bytes at which half of it is reached, read from the curve.
    pub n_half: f64,
    /// The largest size measured does not reach half: `n_half` is that size, and the truth is more.
    pub at_least: bool,
}

/// Fit seconds per packet by bytes; sizes increase. None with fewer than four sizes, or when time does not grow with size.
pub fn stream(points: &[(f64, f64)]) -> Option<Stream> {
    if points.len() < 4 {
        return None;
    }
    let upper = &points[points.len() / 2..];
    let (_, slope) = line(upper);
    if slope.is_nan() || slope <= 0.0 {
        return None;
    }
    let r_inf = 1.0 / slope;
    let small: Vec<_> = points.iter().copied().filter(|p| p.0 <= 64.0).collect();
    let t0 = line(if small.len() >= 2 { &small } else { &points[..2] }).0;
    let mut before = (0.0, 0.0);
    for &(bytes, time) in points {
        let rate = bytes / time;
        if rate >= r_inf / 2.0 {
            let part = (r_inf / 2.0 - before.1) / (rate - before.1);
            let n_half = before.0 + part * (bytes - before.0);
            return Some(Stream {
                t0,
                r_inf,
                n_half,
                at_least: false,
            });
        }
        before = (bytes, rate);
    }
    Some(Stream {
        t0,
        r_inf,
        n_half: before.0,
        at_least: true,
    })
}

/// A LogP signature, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogP {
    /// What a send costs the sender.
    pub send: f64,
    /// What a receive costs the receiver.
    pub receive: f64,
    /// Time between messages when the sender does nothing else: the gap, or `send + receive` where that is more.
    pub gap: f64,
    /// What remains of half a round trip.
    pub latency: f64,
}

/// One curve: the seconds of computing between requests, and the seconds that bursts of so many requests took.
#[derive(Clone, Debug)]
pub struct Burst {
    pub compute: f64,
    pub points: Vec<(f64, f64)>,
}

/// Bursts up to this length show the overhead of sending: nothing pushes back yet.
pub const SHORT: f64 = 8.0;

/// Read the signature from the curve without computing, the one with the most, and the round trip. None if a curve is missing.
///
/// All are slopes of a burst's time by its length, so that what a burst costs once (reading the clock) is in none of them.
pub fn logp(curves: &[Burst], round_trip: f64) -> Option<LogP> {
    let idle = curves.iter().min_by(|a, b| a.compute.total_cmp(&b.compute))?;
    let busy = curves.iter().max_by(|a, b| a.compute.total_cmp(&b.compute))?;
    if idle.compute >= busy.compute || idle.points.len() < 4 || busy.points.len() < 4 {
        return None;
    }
    let short: Vec<_> = idle.points.iter().copied().filter(|p| p.0 <= SHORT).collect();
    let send = median_slope(&short);
    // The longest third: queues are full.
    let gap = median_slope(&idle.points[2 * idle.points.len() / 3..]);
    let receive = median_slope(&busy.points[busy.points.len() / 2..]) - busy.compute - send;
    Some(LogP {
        send,
        receive,
        gap,
        latency: round_trip / 2.0 - send - receive,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, share: f64) {
        assert!((a - b).abs() <= share * b.abs(), "{a} is not {b}");
    }

    #[test]
    fn a_straight_line_gives_its_parameters() {
        let sizes = [4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 384.0, 512.0, 600.0];
        let points: Vec<_> = sizes.iter().map(|n| (*n, 40e-9 + n / 2e9)).collect();
        let fit = stream(&points).unwrap();
        near(fit.t0, 40e-9, 1e-9);
        near(fit.r_inf, 2e9, 1e-9);
        near(fit.n_half, 80.0, 0.08); // t_0 times r_inf, up to the interpolation between 64 and 128
        assert!(!fit.at_least);
    }

    #[test]
    fn two_slopes_are_kept_apart() {
        // The wire takes the small ones, the bus the large ones, as in the FM paper.
        let points: Vec<_> = (1..=40)
            .map(|i| f64::from(i) * 16.0)
            .map(|n| (n, (3.5e-6 + 12.5e-9 * n).max(2e-6 + 47e-9 * n)))
            .collect();
        let fit = stream(&points).unwrap();
        near(fit.r_inf, 1e9 / 47.0, 0.01);
        assert!(fit.t0 > 1.9e-6 && fit.t0 < 3.6e-6, "{fit:?}");
        assert!(fit.n_half > 30.0 && fit.n_half < 120.0, "{fit:?}");
    }

    #[test]
    fn a_curve_that_does_not_reach_half_says_at_least() {
        let points: Vec<_> = [4.0, 8.0, 16.0, 32.0]
            .iter()
            .map(|n| (*n, 1e-6 + n / 1e9))
            .collect();
        let fit = stream(&points).unwrap();
        assert!(fit.at_least && fit.n_half == 32.0, "{fit:?}");
        assert!(stream(&points[..3]).is_none());
        assert!(stream(&[(4.0, 1.0), (8.0, 1.0), (16.0, 1.0), (32.0, 1.0)]).is_none());
    }

    #[test]
    fn a_known_machine_gives_its_signature() {
        // Overheads of 60 and 90 ns, a gap of 200 ns once 20 messages are out, a clock of 30 ns, one curve disturbed.
        let (send, receive, gap, clock) = (60e-9, 90e-9, 200e-9, 30e-9);
        let lengths = [
            1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 48.0, 96.0, 128.0, 200.0,
        ];
        let curve = |compute: f64| Burst {
            compute,
            points: lengths
                .iter()
                .map(|m: &f64| {
                    let each = if compute > 0.0 {
                        send + receive + compute
                    } else {
                        send
                    };
                    let slow = if compute > 0.0 { 0.0 } else { (m - 20.0).max(0.0) };
                    let mut time = clock + m * each + slow * (gap - send);
                    if *m == 96.0 {
                        time *= 1.5;
                    }
                    (*m, time)
                })
                .collect(),
        };
        let fit = logp(&[curve(1e-6), curve(0.0), curve(0.5e-6)], 900e-9).unwrap();
        near(fit.send, send, 0.01);
        near(fit.receive, receive, 0.01);
        near(fit.gap, gap, 0.05);
        near(fit.latency, 300e-9, 0.02);
        assert!(logp(&[curve(0.0)], 1e-6).is_none());
    }
}
