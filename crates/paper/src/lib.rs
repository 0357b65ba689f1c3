//! The experiments of the four papers on their machines, simulated, with the protocol code that runs for real.
//!
//! A module for each paper runs its experiments and gives [`Row`]s, one for each number or claim of the paper, and [`Figure`]s. Constants of the machines
//! are in `machines/*.toml`. Nothing here knows a result but as what a row is compared with.

mod committed;
mod figure;
mod fit;
pub mod fm;
pub mod report;
mod row;
pub mod startx;
pub mod sun;
mod this_machine;
pub mod xt3;

pub use committed::Committed;
pub use figure::{Axis, Figure, Mark, Series};
pub use fit::Fit;
pub use row::{Class, Expected, Origin, Row, Unit, Verdict};
pub use this_machine::Here;

/// What a paper's experiments gave.
#[derive(Debug, Default)]
pub struct Results {
    pub rows: Vec<Row>,
    pub figures: Vec<Figure>,
}

/// How much is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// What takes less than a minute for each paper.
    #[default]
    Short,
    /// Everything.
    Full,
}

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Paper {
    Sun,
    Fm,
    StartX,
    Xt3,
}

impl Paper {
    /// For the head of its table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Sun => "Sun MPI over Sun Fire Link (Sistare and Jackson, 2002)",
            Self::Fm => "Illinois Fast Messages 1.0 on Myrinet (Pakin, Lauria and Chien, 1995)",
            Self::StartX => "StarT-X on the Arctic switch fabric (Hoe, 1998)",
            Self::Xt3 => "Portals 3.3 on the Cray XT3's SeaStar (Brightwell and others, 2005)",
        }
    }

    /// What the names of its rows begin with.
    pub fn letter(self) -> char {
        match self {
            Self::Sun => 'S',
            Self::Fm => 'F',
            Self::StartX => 'X',
            Self::Xt3 => 'P',
        }
    }

    /// All of its numbers that were fitted.
    ///
    /// # Panics
    /// When the machine that comes with Farpost cannot be read: a test says so before.
    pub fn fitted(self) -> Vec<Fit> {
        let others = match self {
            Self::Sun | Self::StartX => Vec::new(),
            Self::Fm => vec![fm::fit()],
            Self::Xt3 => vec![xt3::fit()],
        };
        fit::all(self, others)
    }

    /// What is wrong with its fitted numbers: too many, or of rows that it has not.
    pub fn wrong_fits(self, rows: &[Row]) -> Vec<String> {
        let fits = self.fitted();
        let many = (fits.len() > farpost_sim::machine::MOST_FITTED)
            .then(|| format!("{} numbers are fitted", fits.len()));
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

    /// Run its experiments.
    pub fn run(self, effort: Effort) -> Results {
        match self {
            Self::Sun => sun::run(effort),
            Self::Fm => fm::run(effort),
            Self::StartX => startx::run(effort),
            Self::Xt3 => xt3::run(effort),
        }
    }
}
