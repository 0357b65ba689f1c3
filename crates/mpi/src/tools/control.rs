//! Control variables (MPI-5.0 section 15.3.6): the tunables, and what else is set from outside.

use super::{DEVICE, SWITCH, ValueKind};
use farpost_tunables::Tunable;

/// Who may set a variable, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Nobody: it is so.
    Constant,
    /// From outside only, by the environment or a file.
    ReadOnly,
    /// Before `MPI_Init`, by each process as it likes, or by all alike.
    BeforeLocal,
    BeforeAlike,
    /// By each process, at any time.
    Local,
}

/// A control variable.
pub struct Control {
    pub name: &'static str,
    pub text: String,
    pub kind: ValueKind,
    pub scope: Scope,
    pub min: u64,
    pub max: u64,
}

impl Control {
    pub(super) fn of(tunable: &'static Tunable, scope: Scope) -> Self {
        Self {
            name: tunable.name,
            text: format!(
                "{} Default {}, {} to {} {}.",
                tunable.reason.trim(),
                tunable.default,
                tunable.min,
                tunable.max,
                tunable.unit
            ),
            kind: if tunable.unit == "switch" {
                ValueKind::Choice(SWITCH)
            } else {
                ValueKind::Number
            },
            scope,
            min: tunable.min,
            max: tunable.max,
        }
    }
}

/// What is no number.
pub(super) fn others() -> [Control; 2] {
    [
        Control {
            name: crate::carrier::VARIABLE,
            text: "What carries MPI's messages; the same for all ranks.".into(),
            kind: ValueKind::Choice(DEVICE),
            scope: Scope::ReadOnly,
            min: 0,
            max: 3,
        },
        Control {
            name: "FARPOST_VERSION",
            text: "Version of the library.".into(),
            kind: ValueKind::Text,
            scope: Scope::Constant,
            min: 0,
            max: 0,
        },
    ]
}
