//! Virtual time and speeds.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

/// A point in virtual time, or a length of it: picoseconds, 213 days at most. Sums and differences saturate.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Ps(pub u64);

impl Ps {
    /// The start, or no time at all.
    pub const ZERO: Self = Self(0);
    /// After everything.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.saturating_mul(1_000))
    }

    /// So many seconds, rounded to the next picosecond.
    pub fn from_secs(seconds: f64) -> Self {
        Self((seconds * 1e12).round() as u64)
    }

    /// A multiple of it.
    pub fn times(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as u64)
    }

    /// Whole nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0 / 1_000
    }

    /// In seconds.
    pub fn secs(self) -> f64 {
        self.0 as f64 * 1e-12
    }

    /// In microseconds.
    pub fn micros(self) -> f64 {
        self.0 as f64 * 1e-6
    }
}

impl Add for Ps {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Ps {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Ps {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Ps {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Sum for Ps {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Ps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..=999_999 => write!(f, "{} ns", self.0 as f64 / 1e3),
            1_000_000..=999_999_999 => write!(f, "{:.3} us", self.micros()),
            1_000_000_000..=999_999_999_999 => write!(f, "{:.3} ms", self.0 as f64 / 1e9),
            _ => write!(f, "{:.3} s", self.secs()),
        }
    }
}

/// How fast bytes pass, bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, serde::Serialize, serde::Deserialize)]
pub struct Rate(pub f64);

impl Rate {
    /// So fast that bytes take no time.
    pub const INFINITE: Self = Self(f64::INFINITY);

    /// What `bytes` take.
    pub fn time(self, bytes: u64) -> Ps {
        Ps((bytes as f64 * 1e12 / self.0).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time() {
        assert_eq!(Rate(80e6).time(128), Ps::from_nanos(1600), "a frame on Myrinet");
        assert_eq!(Rate::INFINITE.time(1 << 40), Ps::ZERO);
        assert_eq!(Ps::NEVER + Ps(1), Ps::NEVER);
        assert_eq!(Ps(1) - Ps(2), Ps::ZERO);
    }

    #[test]
    fn times_are_shown_in_fitting_units() {
        let shown: Vec<String> = [1_500, 5_390_000, 2_000_000_000, 3_000_000_000_000]
            .map(|ps| Ps(ps).to_string())
            .into();
        assert_eq!(shown, ["1.5 ns", "5.390 us", "2.000 ms", "3.000 s"]);
    }
}
