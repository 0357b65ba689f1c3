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

mod encoding;
mod graph;
pub mod record;
pub mod slot;
pub mod table;
pub mod teller;

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

/// Nanoseconds of the clock that all processes of a host share.
pub fn now() -> u64 {
    nanoseconds(rustix::time::ClockId::Monotonic)
}

/// Nanoseconds of processor time that all threads of this process have used.
pub(crate) fn used() -> u64 {
    nanoseconds(rustix::time::ClockId::ProcessCPUTime)
}

/// Nanoseconds for which this thread could have run and had no processor (proc(5), schedstat); 0 where the kernel does not count them.
pub(crate) fn waited_for_processor() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let field = text.split_ascii_whitespace().nth(1);
    field.and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

fn nanoseconds(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
