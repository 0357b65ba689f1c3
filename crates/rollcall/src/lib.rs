//! The roll-call: what each rank of a job waits for, and why a job that hangs does.
//!
//! A rank whose wait lasts writes a [`Record`] of it to a [`Slot`] in its job's memory, by its [`Teller`]. Whoever may see that memory
//! (the launcher, `farpost top`, other ranks) reads the records of all ranks and makes one [`table`](table::table) of them: who waits
//! for whom, cycles, collectives that differ between ranks, ranks that are missing.
//!
//! Waits that end soon write nothing, so that messages pay nothing for this. What is read is input: a record that is damaged says so
//! in the table and nothing else.
//!
//! Cost class: *queued path* for who writes, set-up path for who reads.
//!
//! Who looks: mpiexec's guardian, a few times within `FARPOST_HANG_AFTER` and before it ends a job; `farpost top --waits` at any time. Under other
//! launchers and between hosts ranks look while they wait (`farpost-node`).

#![forbid(unsafe_code)]

mod clock;
mod encoding;
mod graph;
pub mod record;
pub mod slot;
pub mod table;
pub mod teller;

pub use clock::now;
pub use record::{Collective, Communicator, Mismatch, NearMiss, Record, WaitKind, WaitMode, Want};
pub use slot::Slot;
pub use teller::{Noted, Teller};

farpost_tunables::tunables! {
    /// Tunables of the roll-call.
    pub struct RollTunables {
        /// A job in which no rank has made progress for so long prints what each waits for on standard error, once. A rank that computes makes progress. 0: never.
        hang_after: "FARPOST_HANG_AFTER" = 30, 0..=31_536_000, "seconds";
    }
}
