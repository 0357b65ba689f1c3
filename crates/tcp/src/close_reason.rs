//! Why connections end.

use crate::link::LinkError;

/// Why a connection ends.
pub enum CloseReason {
    /// The connection broke, or was closed.
    Lost(String),
    /// Malformed data came by it. The link sends again what was lost.
    Damaged(LinkError),
    /// The peer sent a frame that breaks the protocol: what was expected, and the value found.
    Violation(&'static str, u64),
    /// The peer says that this process broke the protocol.
    Accused(String),
}

/// What was expected of a field, and its value.
pub type InvalidField = (&'static str, u64);

impl From<InvalidField> for CloseReason {
    fn from((what, value): InvalidField) -> Self {
        CloseReason::Violation(what, value)
    }
}

impl From<LinkError> for CloseReason {
    fn from(error: LinkError) -> Self {
        CloseReason::Damaged(error)
    }
}
