//! Tunables: each is declared once, beside the code that uses it, with its name, default, range, unit and
//! reason. From that declaration come the environment reader (`FARPOST_*`), `farpost info`, and the
//! reference page.
//!
//! ```
//! farpost_tunables::tunables! {
//!     /// Sizes of the example layer.
//!     pub struct Example {
//!         /// Slots in a queue. More absorb longer bursts, fewer stay in the first-level cache.
//!         slots: "FARPOST_EXAMPLE_SLOTS" = 128, 16..=4096, "slots";
//!     }
//! }
//! let mut e = Example::default();
//! e.set("FARPOST_EXAMPLE_SLOTS", "64").unwrap();
//! assert_eq!(e.slots, 64);
//! assert!(e.set("FARPOST_EXAMPLE_SLOTS", "7").is_err());
//! ```
#![forbid(unsafe_code)]

pub mod file;

/// One declared tunable: what a person needs to know to change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// The environment variable that sets it.
    pub name: &'static str,
    /// Value used when nothing sets it.
    pub default: u64,
    /// Smallest value accepted.
    pub min: u64,
    /// Largest value accepted.
    pub max: u64,
    /// What one unit of the value is.
    pub unit: &'static str,
    /// Why one would change it.
    pub reason: &'static str,
}

/// Why a value for a tunable was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TunableError {
    /// The text is not a number.
    #[error(
        "{name}={value}: not a number; allowed are {min} to {max} {unit} (suffixes k, m, g count in 1024)"
    )]
    NotANumber {
        name: &'static str,
        value: String,
        min: u64,
        max: u64,
        unit: &'static str,
    },
    /// The number is outside the declared range.
    #[error("{name}={value}: out of range; allowed are {min} to {max} {unit}")]
    OutOfRange {
        name: &'static str,
        value: String,
        min: u64,
        max: u64,
        unit: &'static str,
    },
}

impl Tunable {
    /// Parse `value` for this tunable. `k`, `m`, `g` (either case) multiply by powers of 1024.
    pub fn parse(&self, value: &str) -> Result<u64, TunableError> {
        let bad = || TunableError::NotANumber {
            name: self.name,
            value: value.to_owned(),
            min: self.min,
            max: self.max,
            unit: self.unit,
        };
        let text = value.trim();
        let (digits, shift) = match text.chars().last().map(|c| c.to_ascii_lowercase()) {
            Some('k') => (&text[..text.len() - 1], 10),
            Some('m') => (&text[..text.len() - 1], 20),
            Some('g') => (&text[..text.len() - 1], 30),
            _ => (text, 0),
        };
        let number: u64 = digits.parse().map_err(|_| bad())?;
        let number = number.checked_mul(1 << shift).ok_or_else(bad)?;
        if number < self.min || number > self.max {
            return Err(TunableError::OutOfRange {
                name: self.name,
                value: value.to_owned(),
                min: self.min,
                max: self.max,
                unit: self.unit,
            });
        }
        Ok(number)
    }
}

/// Declare a group of tunables as a struct of `u64` fields with defaults, a table and a setter by name.
#[macro_export]
macro_rules! tunables {
    ($(#[$meta:meta])* $vis:vis struct $group:ident {
        $($(#[doc = $reason:literal])+ $field:ident : $name:literal = $default:expr, $range:expr, $unit:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        $vis struct $group { $($(#[doc = $reason])+ pub $field: u64,)* }

        impl Default for $group {
            fn default() -> Self { Self { $($field: $default,)* } }
        }

        impl $group {
            /// The declarations, in order.
            pub const TABLE: &'static [$crate::Tunable] = &[$($crate::Tunable {
                name: $name,
                default: $default,
                min: *($range).start(),
                max: *($range).end(),
                unit: $unit,
                reason: concat!($($reason),+),
            },)*];

            /// The value of the tunable called `name`; `None`: no tunable of this group has that name.
            pub fn get(&self, name: &str) -> ::core::option::Option<u64> {
                match name {
                    $($name => Some(self.$field),)*
                    _ => None,
                }
            }

            /// Set the tunable called `name`. `Ok(false)`: no tunable of this group has that name.
            pub fn set(&mut self, name: &str, value: &str) -> ::core::result::Result<bool, $crate::TunableError> {
                let mut at = 0;
                $(
                    if name == $name {
                        self.$field = Self::TABLE[at].parse(value)?;
                        return Ok(true);
                    }
                    at += 1;
                )*
                let _ = at;
                Ok(false)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    tunables! {
        /// A group for the tests.
        pub struct Group {
            /// First.
            one: "FARPOST_ONE" = 4, 1..=64, "things";
            /// Second.
            two: "FARPOST_TWO" = 1 << 20, 0..=1 << 30, "bytes";
        }
    }

    #[test]
    fn values_are_parsed_with_suffixes_and_checked() {
        let mut g = Group::default();
        assert_eq!(g.set("FARPOST_TWO", "3m"), Ok(true));
        assert_eq!(g.two, 3 << 20);
        assert_eq!(
            (g.get("FARPOST_TWO"), g.get("FARPOST_THREE")),
            (Some(3 << 20), None)
        );
        assert_eq!(g.set("FARPOST_THREE", "3"), Ok(false));
        let err = g.set("FARPOST_ONE", "65").unwrap_err().to_string();
        assert!(
            err.contains("FARPOST_ONE=65") && err.contains("1 to 64 things"),
            "{err}"
        );
        assert!(g.set("FARPOST_ONE", "many").is_err());
        assert!(g.set("FARPOST_TWO", "99999999999999999999g").is_err());
        assert_eq!(g.one, 4);
        assert_eq!(Group::TABLE[1].default, 1 << 20);
    }
}
