//! What of a model was chosen so that rows of the paper come out: those rows are no predictions.

use crate::{Origin, Paper, Row};
use farpost_sim::machine::Machine;

/// A number that was chosen with rows in view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Its path in the machine's file, or what it is.
    pub number: String,
    /// As written there.
    pub value: String,
    /// The rows that it was chosen for, or that say the same as those.
    pub rows: Vec<String>,
}

impl Fit {
    /// Of a number that no machine file has.
    pub fn new(number: &str, value: &str, rows: &[&str]) -> Self {
        Self {
            number: number.into(),
            value: value.into(),
            rows: rows.iter().map(|row| (*row).to_string()).collect(),
        }
    }
}

impl Paper {
    /// The name of its machine.
    pub fn machine(self) -> &'static str {
        match self {
            Self::Sun => "sun-fire-link",
            Self::Fm => "myrinet-fm",
            Self::StartX => "startx",
            Self::Xt3 => "xt3",
        }
    }
}

/// The fitted numbers of a paper's machine: those of its file, and `others`.
///
/// # Panics
/// When the machine that comes with Farpost cannot be read: a test says so before.
pub(crate) fn all(paper: Paper, others: Vec<Fit>) -> Vec<Fit> {
    let machine = Machine::open(paper.machine()).expect("it comes with Farpost");
    let of_file = machine.fitted().into_iter().map(|(number, rows)| Fit {
        number: number.path,
        value: number.value,
        rows: rows.split(", ").map(str::to_string).collect(),
    });
    of_file.chain(others).collect()
}

/// Mark the rows that a paper's numbers were fitted to, `others` being those that its machine's file has not.
pub(crate) fn mark(paper: Paper, others: Vec<Fit>, rows: &mut [Row]) {
    let fitted: Vec<String> = all(paper, others).into_iter().flat_map(|fit| fit.rows).collect();
    let named = rows.iter_mut().filter(|row| fitted.contains(&row.id));
    named.for_each(|row| row.origin = Origin::Fitted);
}
