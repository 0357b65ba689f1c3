//! What another process wrote and cannot be.

pub use farpost_channel::records::Malformed;

use farpost_fabric::{ErrorStatus, FabricError, Fault, Peer};

/// A value that cannot be: what it was to be, and it.
macro_rules! error {
    ($what:expr, $value:expr) => {
        $crate::malformed::Malformed {
            what: $what,
            value: $value as u64,
        }
    };
}

/// A result that is such an [`error!`].
macro_rules! fail {
    ($what:expr, $value:expr) => {
        Err($crate::malformed::error!($what, $value))
    };
}

pub(crate) use {error, fail};

/// The fabric's error for it.
pub fn corrupt(peer: Peer, Malformed { what, value }: Malformed) -> FabricError {
    FabricError::Corrupt { peer, what, value }
}

/// Record it as a fault of the peer that wrote it.
#[cold]
pub fn record(fabric: &impl ErrorStatus, peer: Peer, bad: Malformed) {
    let error = corrupt(peer, bad);
    fabric.record_fault(Fault { peer, error });
}
