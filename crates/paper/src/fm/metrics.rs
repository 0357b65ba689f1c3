//! `t_0`, `r_inf` and `n_1/2` of the paper's Table 2, from the times of packets in a stream.
//!
//! The paper does not say how it got them from what it measured, and its own values do not fit a line (`n_1/2 = t_0 r_inf` holds for none of the host's rows).
//! So: `t_0` is where a line through the sizes up to 64 bytes begins; `r_inf` is the slope of one through the upper half of the sizes; `n_1/2` is the first
//! size, with lines between those measured, that gets half of `r_inf`.

/// Bytes of 2^20, for which the paper writes MB.
pub const MEBI: f64 = 1_048_576.0;
/// Largest size of the paper's figures.
pub const LARGEST: u32 = 600;
/// The line of `t_0` ends here.
const SMALL: f64 = 64.0;

/// A row of Table 4.
#[derive(Clone, Copy, Debug)]
pub struct Metrics {
    /// In microseconds.
    pub t0: f64,
    /// In 2^20 bytes a second.
    pub rinf: f64,
    /// In bytes.
    pub half: f64,
}

/// Where it begins and how it rises: the line of least squares.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let square: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let slope = both / square;
    (y - slope * x, slope)
}

/// 2^20 bytes a second, of bytes in microseconds.
pub fn rate((bytes, micros): (f64, f64)) -> f64 {
    bytes / micros * 1e6 / MEBI
}

impl Metrics {
    /// From sizes, which rise, and times in microseconds.
    pub fn of(points: &[(f64, f64)]) -> Self {
        let part = |wanted: fn(f64) -> bool| -> Vec<(f64, f64)> {
            points.iter().copied().filter(|point| wanted(point.0)).collect()
        };
        let (t0, _) = line(&part(|bytes| bytes <= SMALL));
        let (_, slope) = line(&part(|bytes| bytes >= f64::from(LARGEST) / 2.0));
        let rinf = rate((1.0, slope));
        Self {
            t0,
            rinf,
            half: first_at(points, rinf / 2.0).unwrap_or(f64::INFINITY),
        }
    }
}

/// The first size that gets `wanted` 2^20 bytes a second.
fn first_at(points: &[(f64, f64)], wanted: f64) -> Option<f64> {
    let mut before = (0.0, 0.0);
    for point in points {
        let now = (point.0, rate(*point));
        if now.1 >= wanted {
            let part = (wanted - before.1) / (now.1 - before.1);
            return Some(before.0 + part * (now.0 - before.0));
        }
        before = now;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_times_that_are_a_line_and_of_a_bend() {
        let sizes = [
            4.0, 16.0, 32.0, 40.0, 48.0, 64.0, 128.0, 200.0, 250.0, 300.0, 450.0, 600.0,
        ];
        let straight = sizes.map(|bytes| (bytes, 3.5 + 0.0125 * bytes));
        let metrics = Metrics::of(&straight);
        assert!((metrics.t0 - 3.5).abs() < 1e-9);
        assert!((metrics.rinf - 76.29).abs() < 0.01);
        assert!((metrics.half - 280.0).abs() < 6.0, "t_0 r_inf: {}", metrics.half);
        // The bus is slower for what is large: half of its rate comes early.
        let bent = straight.map(|(bytes, micros)| (bytes, micros.max(1.9 + 0.045 * bytes)));
        let metrics = Metrics::of(&bent);
        assert!((metrics.rinf - 21.2).abs() < 0.1);
        assert!((metrics.half - 46.0).abs() < 3.0, "{}", metrics.half);
    }
}
