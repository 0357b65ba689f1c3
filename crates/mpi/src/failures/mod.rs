//! Going on after processes have ended: revoked communicators and agreement among those that are left (User-Level Failure
//! Mitigation, proposed to the MPI Forum). A world has them (`world/failures.rs`).
//!
//! Cost class: set-up path.

mod agreement;
#[cfg(test)]
mod tests;
mod told;

use crate::Error;

pub(crate) use agreement::{Agreement, Message, Verdict};
pub(crate) use told::Told;

/// The error of whatever is done with a revoked communicator.
#[cold]
pub(crate) fn revoked() -> Error {
    error!(MPIX_ERR_REVOKED: "the communicator is revoked (MPIX_Comm_revoke): only MPIX_Comm_agree, MPIX_Comm_shrink and local calls are possible")
}
