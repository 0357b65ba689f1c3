//! Going on after processes have ended: revoked communicators and agreement among those that are left (User-Level Failure
//! Mitigation, proposed to the MPI Forum). A world has them (`world/failures.rs`).
//!
//! Cost class: set-up path.

mod agreement;
#[cfg(test)]
mod tests;
mod told;

pub(crate) use agreement::{Agreement, Message, Verdict};
pub(crate) use told::Told;
