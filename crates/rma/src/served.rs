//! What a target keeps for its origins.

/// What a target keeps for an origin that it has met.
#[derive(Default)]
pub(crate) struct Served {
    /// Long data on their way into the window.
    pub under_way: u64,
    /// Operations done that the origin has not been told of.
    pub untold: u64,
    /// What came of those, if it is an error.
    pub error: i32,
    pub hurry: bool,
    pub unlocking: bool,
}
