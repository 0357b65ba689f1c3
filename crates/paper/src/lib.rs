//! The experiments of the four papers on their machines, simulated, with the protocol code that runs for real.
//!
//! A module for each paper runs its experiments and gives [`Row`]s, one for each number or claim of the paper, and [`Figure`]s. Constants of the machines
//! are in `machines/*.toml`. Nothing here knows a result but as what a row is compared with.

mod committed;
mod figure;
pub mod fm;
mod row;

pub use committed::Committed;
pub use figure::{Axis, Figure, Mark, Series};
pub use row::{Class, Expected, Origin, Row, Unit, Verdict};

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
