//! What has happened to clients.

/// What has happened to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientFigures {
    /// It is being served.
    pub open: bool,
    /// Bodies go through windows: the agent cannot reach its memory.
    pub carried: bool,
    /// It wrote what cannot be.
    pub faulty: bool,
    /// It takes no events: what comes for it is dropped.
    pub wedged: bool,
    /// Its process has ended.
    pub ended: bool,
    /// Times that it has attached.
    pub openings: u64,
    /// Records posted to it as events.
    pub events: u64,
    /// Messages for it that were dropped because of one of these, or because it is not open.
    pub dropped: u64,
    /// Messages for it that were refused for want of room, and came again.
    pub refused: u64,
}
