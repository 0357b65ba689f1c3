//! A number or a claim of a paper, and what the simulation gave for it.

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum Unit {
    #[strum(to_string = "us")]
    Micros,
    #[strum(to_string = "s")]
    Seconds,
    /// 10^6 bytes a second.
    #[strum(to_string = "MB/s")]
    Megabytes,
    /// 2^20 bytes a second, which the FM paper calls MB/s.
    #[strum(to_string = "MiB/s")]
    Mebibytes,
    #[strum(to_string = "B")]
    Bytes,
    /// A ratio, a count, or 1 for a claim that holds.
    #[strum(to_string = "")]
    Plain,
}

/// What kind of statement the paper makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A value of the modelled hardware (A).
    Absolute,
    /// A ratio or difference that should hold (R).
    Ratio,
    /// The shape of a curve (F).
    Shape,
    /// How something is built (S).
    Structural,
}

/// Where the model's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Origin {
    /// A constant of the machine was chosen so that this row comes out.
    Fitted,
    /// It is a number that the model begins with.
    Input,
    /// It follows from constants chosen for other reasons.
    Predicted,
}

/// What a row has to meet.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// This value, within a tenth.
    Value(f64),
    /// One of two values between which the source contradicts itself.
    Either(f64, f64),
    /// More than this.
    AtLeast(f64),
    /// Less than this.
    AtMost(f64),
    /// A difference below the source's own noise: of this sign, and no more than so much in size.
    SignAndSize(f64),
    /// A claim, which holds (1) or not (0).
    Holds,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// As in the documents: `S1`, `X2.a.Os`.
    pub id: String,
    pub what: String,
    pub class: Class,
    pub origin: Origin,
    pub unit: Unit,
    pub expected: Expected,
    pub simulated: f64,
    /// What a model without any mechanism would say, where that is near: a row that it meets as well is not counted as reproduced.
    pub null_model: Option<f64>,
    /// For the reader, where something is to be said.
    pub note: String,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub enum Verdict {
    /// Within a tenth, or as claimed.
    Met,
    /// Beyond a tenth; the error is committed and its reason documented.
    Committed,
    /// Met, but so does the null model.
    NotCounted,
    /// Worse than committed, or beyond a tenth and not committed, or a claim that does not hold.
    Off,
}

/// Within a tenth.
pub const TOLERANCE: f64 = 0.10;

impl Row {
    /// The relative error against what the paper says; of claims 0 or 1.
    pub fn error(&self) -> f64 {
        let relative = |value: f64| (self.simulated - value) / value;
        match self.expected {
            Expected::Value(value) => relative(value),
            Expected::Either(one, other) => {
                let errors = [relative(one), relative(other)];
                if errors[0].abs() <= errors[1].abs() {
                    errors[0]
                } else {
                    errors[1]
                }
            }
            Expected::AtLeast(least) => relative(least).min(0.0),
            Expected::AtMost(most) => relative(most).max(0.0),
            Expected::SignAndSize(value) => {
                let fits = self.simulated * value >= 0.0 && self.simulated.abs() <= value.abs() * 1.5;
                f64::from(u8::from(!fits))
            }
            Expected::Holds => 1.0 - self.simulated,
        }
    }

    /// Simulated by stated, where that is a number.
    pub fn ratio(&self) -> Option<f64> {
        match self.expected {
            Expected::Value(value) | Expected::AtLeast(value) | Expected::AtMost(value) => {
                Some(self.simulated / value)
            }
            Expected::Either(..) => Some(1.0 + self.error()),
            Expected::SignAndSize(_) | Expected::Holds => None,
        }
    }

    /// With the error that is committed for it, if one is.
    pub fn verdict(&self, committed: Option<f64>) -> Verdict {
        let error = self.error().abs();
        if error <= TOLERANCE {
            let null = self.null_model.map(|value| Row {
                simulated: value,
                null_model: None,
                ..self.clone()
            });
            return match null {
                Some(null) if null.error().abs() <= TOLERANCE => Verdict::NotCounted,
                _ => Verdict::Met,
            };
        }
        match committed {
            // Runs are exact; the rest is what a table's rounding hides.
            Some(most) if self.origin == Origin::Predicted && error <= most.abs() + 0.0005 => {
                Verdict::Committed
            }
            _ => Verdict::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(expected: Expected, simulated: f64) -> Row {
        Row {
            id: "T1".into(),
            what: "a test".into(),
            class: Class::Absolute,
            origin: Origin::Predicted,
            unit: Unit::Micros,
            expected,
            simulated,
            null_model: None,
            note: String::new(),
        }
    }

    #[test]
    fn a_row_is_met_within_a_tenth_and_off_beyond_what_is_committed() {
        use Expected::{AtLeast, AtMost, Either, Holds, SignAndSize, Value};
        let verdict = |expected, simulated, committed| row(expected, simulated).verdict(committed);
        assert_eq!(verdict(Value(10.0), 10.9, None), Verdict::Met);
        assert_eq!(verdict(Value(10.0), 11.1, None), Verdict::Off);
        assert_eq!(verdict(Value(10.0), 11.1, Some(0.11)), Verdict::Committed);
        assert_eq!(verdict(Value(10.0), 11.2, Some(0.11)), Verdict::Off, "worse");
        assert_eq!(verdict(Either(792.0, 867.0), 860.0, None), Verdict::Met);
        assert_eq!(verdict(AtLeast(60.0), 90.0, None), Verdict::Met);
        assert_eq!(verdict(AtMost(60.0), 90.0, None), Verdict::Off);
        assert_eq!(verdict(SignAndSize(0.3), 0.2, None), Verdict::Met);
        assert_eq!(verdict(SignAndSize(0.3), -0.2, None), Verdict::Off);
        assert_eq!(verdict(Holds, 1.0, None), Verdict::Met);
        assert_eq!(verdict(Holds, 0.0, None), Verdict::Off);
    }

    #[test]
    fn a_fitted_row_has_no_excuse_and_the_null_model_takes_the_credit() {
        let fitted = Row {
            origin: Origin::Fitted,
            ..row(Expected::Value(10.0), 12.0)
        };
        assert_eq!(fitted.verdict(Some(0.3)), Verdict::Off);
        let near_one = Row {
            null_model: Some(1.0),
            ..row(Expected::Value(1.03), 1.02)
        };
        assert_eq!(near_one.verdict(None), Verdict::NotCounted);
    }
}
