//! What of a model was chosen so that rows of the paper come out: those rows are no predictions.

use crate::{Origin, Paper, Row, fm, xt3};
use farpost_sim::machine::{MOST_FITTED, Machine};

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

    /// All of its numbers that were fitted.
    ///
    /// # Panics
    /// When the machine that comes with Farpost cannot be read: a test says so before.
    pub fn fitted(self) -> Vec<Fit> {
        let machine = Machine::open(self.machine()).expect("it comes with Farpost");
        let of_file = machine.fitted().into_iter().map(|(number, rows)| Fit {
            number: number.path,
            value: number.value,
            rows: rows.split(", ").map(str::to_string).collect(),
        });
        let others = match self {
            Self::Sun | Self::StartX => Vec::new(),
            Self::Fm => vec![fm::fit()],
            Self::Xt3 => vec![xt3::fit()],
        };
        of_file.chain(others).collect()
    }

    /// What is wrong with its fitted numbers: too many, or of rows that it has not.
    pub fn wrong_fits(self, rows: &[Row]) -> Vec<String> {
        let fits = self.fitted();
        let many = (fits.len() > MOST_FITTED).then(|| format!("{} numbers are fitted", fits.len()));
        let unknown = fits.iter().flat_map(|fit| {
            let named = fit.rows.iter();
            let unknown = named.filter(|row| rows.iter().all(|it| it.id != **row));
            unknown.map(|row| format!("{} is fitted to {row}, which is no row", fit.number))
        });
        let marked = rows.iter().filter(|row| row.origin == Origin::Fitted);
        let unnamed = marked.filter(|row| fits.iter().all(|fit| !fit.rows.contains(&row.id)));
        let unnamed = unnamed.map(|row| format!("{} is fitted by no number", row.id));
        many.into_iter().chain(unknown).chain(unnamed).collect()
    }
}

/// Mark the rows that a paper's numbers were fitted to.
pub(crate) fn mark(paper: Paper, rows: &mut [Row]) {
    let fitted: Vec<String> = paper.fitted().into_iter().flat_map(|fit| fit.rows).collect();
    let named = rows.iter_mut().filter(|row| fitted.contains(&row.id));
    named.for_each(|row| row.origin = Origin::Fitted);
}
