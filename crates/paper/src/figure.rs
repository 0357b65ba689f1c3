//! A figure of a paper, as simulated, with the points that the paper states.

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    pub title: String,
    pub logarithmic: bool,
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A point that the paper states.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    pub at: (f64, f64),
    pub label: String,
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Of its files: `sun-5`.
    pub name: String,
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    pub marks: Vec<Mark>,
}
