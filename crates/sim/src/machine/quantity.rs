//! Numbers of a machine file: a value with its unit, and where it is from.
//!
//! ```toml
//! latency = { value = "1.7 us", source = "Sun 4.2" }      # a paper or another public document says so
//! store   = { value = "250 ns", fitted = "S2" }           # chosen so that this row of results is met
//! buffer  = { value = 4, assumed = "not published" }      # nobody says; why this one
//! receive = { value = "100 ns", follows = "software.send", assumed = "as the send" }  # in this ratio to another number
//! ```

use crate::time::{Ps, Rate};
use serde::de::{Deserialize, Deserializer, Error as _};
use std::fmt;
use std::ops::Deref;
use toml::Spanned;

/// Where a number is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A document says so: its name and section.
    Source(String),
    /// Chosen so that this row of the papers' results is met.
    Fitted(String),
    /// Not published; why this value.
    Assumed(String),
    /// Not in the file, and nothing then.
    Absent,
}

/// A number of a machine with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity<T> {
    pub value: T,
    pub origin: Origin,
    /// Where in the file, in bytes.
    pub(super) at: usize,
}

impl<T> Deref for Quantity<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A cost that a file leaves out is no cost.
impl Default for Quantity<Ps> {
    fn default() -> Self {
        Self {
            value: Ps::ZERO,
            origin: Origin::Absent,
            at: 0,
        }
    }
}

/// So many bytes, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// So many, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u32);

/// A number without a unit, above zero.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Ratio(pub f64);

/// Of a clock.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Hertz(pub f64);

/// Cycles of a clock that the file states beside.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Cycles(pub f64);

impl Cycles {
    /// What they take.
    pub fn at(self, clock: Hertz) -> Ps {
        Ps::from_secs(self.0 / clock.0)
    }
}

/// What may stand for `value`.
#[derive(serde::Deserialize)]
#[serde(untagged)]
pub(super) enum Written {
    Text(String),
    Number(f64),
    Other(toml::Value),
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Number(number) => write!(f, "{number}"),
            Self::Other(other) => write!(f, "{other}"),
        }
    }
}

/// What numbers of a machine are measured in.
pub(super) trait Measure: Sized {
    /// What is allowed, for people.
    const ALLOWED: &'static str;
    /// Units with what one of them is; none: the number stands alone.
    const UNITS: &'static [(&'static str, f64)];
    /// Whether none of it is something.
    const ZERO: bool = false;

    /// From the number in the smallest unit; `None`: it is none of these.
    fn of(number: f64) -> Option<Self>;
}

const TIME: &[(&str, f64)] = &[("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("s", 1e12)];
const SIZE: &[(&str, f64)] = &[
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("kB", 1e3),
    ("MB", 1e6),
];
const RATE: &[(&str, f64)] = &[
    ("B/s", 1.0),
    ("kB/s", 1e3),
    ("MB/s", 1e6),
    ("GB/s", 1e9),
    ("MiB/s", 1048576.0),
    ("Gbit/s", 1.25e8),
];

/// Whole numbers up to where a double holds them all.
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && number < 9e15).then_some(number as u64)
}

impl Measure for Ps {
    const ALLOWED: &'static str = "a time like \"1.5 us\", in ps, ns, us, ms or s";
    const UNITS: &'static [(&'static str, f64)] = TIME;
    const ZERO: bool = true;

    fn of(number: f64) -> Option<Self> {
        (number < 1e18).then_some(Self(number.round() as u64))
    }
}

impl Measure for Rate {
    const ALLOWED: &'static str =
        "a rate above 0 like \"1.2 GB/s\", in B/s, kB/s, MB/s, GB/s, MiB/s or Gbit/s";
    const UNITS: &'static [(&'static str, f64)] = RATE;

    fn of(number: f64) -> Option<Self> {
        Some(Self(number))
    }
}

impl Measure for Bytes {
    const ALLOWED: &'static str =
        "a whole number of bytes above 0 like \"64 B\", in B, KiB, MiB, GiB, kB or MB";
    const UNITS: &'static [(&'static str, f64)] = SIZE;

    fn of(number: f64) -> Option<Self> {
        whole(number).map(Self)
    }
}

impl Measure for Hertz {
    const ALLOWED: &'static str = "a frequency above 0 like \"500 MHz\", in MHz or GHz";
    const UNITS: &'static [(&'static str, f64)] = &[("MHz", 1e6), ("GHz", 1e9)];

    fn of(number: f64) -> Option<Self> {
        Some(Self(number))
    }
}

impl Measure for Cycles {
    const ALLOWED: &'static str = "a number of cycles like \"8 cycles\"";
    const UNITS: &'static [(&'static str, f64)] = &[("cycles", 1.0)];
    const ZERO: bool = true;

    fn of(number: f64) -> Option<Self> {
        Some(Self(number))
    }
}

impl Measure for Count {
    const ALLOWED: &'static str = "a whole number from 1 to 4294967295";
    const UNITS: &'static [(&'static str, f64)] = &[];

    fn of(number: f64) -> Option<Self> {
        whole(number)
            .and_then(|number| u32::try_from(number).ok())
            .map(Self)
    }
}

impl Measure for Ratio {
    const ALLOWED: &'static str = "a number above 0 without a unit";
    const UNITS: &'static [(&'static str, f64)] = &[];

    fn of(number: f64) -> Option<Self> {
        Some(Self(number))
    }
}

/// A number and its unit: `12.5 ns`, one space between.
pub(super) fn split(text: &str) -> Option<(f64, &str)> {
    let (number, unit) = text.split_once(' ')?;
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | 'e');
    if !number.chars().all(plain) {
        return None;
    }
    Some((number.parse().ok()?, unit))
}

/// What is written, or what is wrong with it.
pub(super) fn measure<T: Measure>(written: &Written) -> Result<T, String> {
    let wrong = |what: &str| Err(format!("value {written} {what}, allowed is {}", T::ALLOWED));
    let number = match written {
        Written::Number(number) if T::UNITS.is_empty() => *number,
        Written::Number(_) => return wrong("has no unit"),
        Written::Text(text) if !T::UNITS.is_empty() => {
            let Some((number, unit)) = split(text) else {
                return wrong("is no number with a unit");
            };
            match T::UNITS.iter().find(|(name, _)| *name == unit) {
                Some((_, each)) => number * each,
                None => return wrong("has a wrong unit"),
            }
        }
        _ => return wrong("is no number"),
    };
    if number < 0.0 {
        return wrong("is negative");
    }
    if number == 0.0 && !T::ZERO {
        return wrong("is zero");
    }
    if !number.is_finite() {
        return wrong("is no number");
    }
    // Decimal fractions of large units are not exact in binary.
    let rounded = number.round();
    let number = if (number - rounded).abs() < 1e-9 * rounded.max(1.0) {
        rounded
    } else {
        number
    };
    T::of(number).map_or_else(|| wrong("is out of range"), Ok)
}

/// Rows of the papers' results, with commas between: `S2`, `F11`, `X2.a.Os`, and what of them.
fn are_rows(text: &str) -> bool {
    text.split(", ").all(is_row)
}

fn is_row(text: &str) -> bool {
    let row = text.split([' ', '.']).next().unwrap_or_default();
    let rows = match row.get(..1) {
        Some("S") => 17,
        Some("F") => 17,
        Some("X") => 15,
        Some("P") => 18,
        _ => return false,
    };
    row[1..]
        .parse::<u32>()
        .is_ok_and(|number| (1..=rows).contains(&number))
}

/// As a file has it.
#[derive(serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table { value, source }, { value, fitted } or { value, assumed }"
)]
struct RawQuantity {
    value: Written,
    source: Option<String>,
    fitted: Option<String>,
    assumed: Option<String>,
    follows: Option<String>,
}

impl<'de, T: Measure> Deserialize<'de> for Quantity<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Spanned::<RawQuantity>::deserialize(from)?;
        let at = raw.span().start;
        let raw = raw.into_inner();
        let value = measure(&raw.value).map_err(D::Error::custom)?;
        if raw.follows.is_some() && raw.assumed.is_none() {
            return Err(D::Error::custom(format!(
                "value {} follows another number, allowed is that with assumed: why in this ratio",
                raw.value
            )));
        }
        let origin = match (raw.source, raw.fitted, raw.assumed) {
            (Some(text), None, None) => Origin::Source(text),
            (None, Some(text), None) => Origin::Fitted(text),
            (None, None, Some(text)) => Origin::Assumed(text),
            (None, None, None) => {
                return Err(D::Error::custom(format!(
                    "value {} has no origin, allowed is one of source, fitted, assumed",
                    raw.value
                )));
            }
            _ => {
                return Err(D::Error::custom(format!(
                    "value {} has several origins, allowed is one of source, fitted, assumed",
                    raw.value
                )));
            }
        };
        match &origin {
            Origin::Fitted(rows) if !are_rows(rows) => Err(D::Error::custom(format!(
                "fitted \"{rows}\" is no row of the papers' results, allowed are S1 to S17, F1 to F17, X1 to X15 and P1 to P18"
            ))),
            Origin::Source(text) | Origin::Assumed(text) if text.trim().is_empty() => {
                Err(D::Error::custom(format!(
                    "value {} has an empty origin, allowed is a document and its section, or why this value",
                    raw.value
                )))
            }
            _ => Ok(Self { value, origin, at }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Measure>(text: &str) -> Result<T, String> {
        measure(&Written::Text(text.into()))
    }

    #[test]
    fn units_are_what_they_say() {
        assert_eq!(read("12.5 ns"), Ok(Ps(12_500)));
        assert_eq!(read("0 ms"), Ok(Ps::ZERO));
        assert_eq!(read("1.1 us"), Ok(Ps(1_100_000)));
        assert_eq!(read("100 Gbit/s"), Ok(Rate(12.5e9)));
        assert_eq!(read("60 MB/s"), Ok(Rate(60e6)));
        assert_eq!(read("1.5 MiB/s"), Ok(Rate(1_572_864.0)));
        assert_eq!(read("384 KiB"), Ok(Bytes(393_216)));
        assert_eq!(read("2 kB"), Ok(Bytes(2000)));
        assert_eq!(read::<Hertz>("2.4 GHz"), Ok(Hertz(2.4e9)));
        assert_eq!(Cycles(8.0).at(Hertz(25e6)), Ps::from_nanos(320));
        assert_eq!(measure(&Written::Number(7.0)), Ok(Count(7)));
    }

    #[test]
    fn what_is_written_otherwise_is_refused() {
        for text in [
            "1", "1us", "1  us", " 1 us", "1 us ", "+1 us", "inf us", "nan s", "1 uS", "1,5 us", "1 MB/s", "",
        ] {
            assert!(read::<Ps>(text).is_err(), "{text}");
        }
        assert!(read::<Bytes>("1.5 B").is_err());
        assert!(read::<Rate>("0 B/s").is_err());
        assert!(measure::<Count>(&Written::Number(1.5)).is_err());
        assert!(measure::<Count>(&Written::Number(5e9)).is_err());
        assert!(measure::<Ratio>(&Written::Number(f64::INFINITY)).is_err());
    }

    #[test]
    fn rows_are_those_of_the_papers() {
        for row in ["S1", "S17", "F11", "X15", "P18", "S13 Bcast", "X2.a.Os, X2.a.Bs"] {
            assert!(are_rows(row), "{row}");
        }
        for row in ["S0", "S18", "X16", "Q1", "P", "", "1", "X2.a.Os, much"] {
            assert!(!are_rows(row), "{row}");
        }
    }
}
