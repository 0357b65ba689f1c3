//! What fabrics can do, where some cannot by their nature.

/// What some fabrics have not, by their nature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Processes write to segments of others.
    Put,
    /// They read them.
    Get,
    /// Bytes go from one process's memory to another's.
    Transfer,
    /// Segments of others are seen by loads and stores.
    Mapping,
    /// Bytes follow a line from the sender's memory.
    ZeroCopy,
    /// A port that nobody polls holds up no other.
    Ports,
    /// A priority that nobody polls holds up no other.
    Priorities,
    /// A queue that nobody polls is full in the end.
    Bounds,
}
