//! Interfaces of a host: processes that need not be of one job, by way of an agent that none of their jobs started.
//!
//! | File | What |
//! |---|---|
//! | `hub` | the agent's side: members by their pids, each with its library; messages between them |
//! | `client` | what a member links |
//!
//! A member gives its agent a descriptor of its own memory when it joins. From then on each call is a question and an answer, and all that a
//! message causes is done while its sender waits for the answer: matching, the copy from one process to the other, events, acknowledgements,
//! replies. So nothing is ever under way between two questions: a member that ends leaves nothing behind, and who sends to a pid that nobody
//! has is told at once (`PTL_NI_UNDELIVERABLE`).
//!
//! Who a member is (pid, user, job) is the agent's word, which has it from the kernel. A header has none of it.
//!
//! What members ask is input. One that asks what cannot be asked is put out; nobody else notices.
//!
//! Cost class: *queued path*: a call is two system calls of each side.

mod client;
mod hub;

pub use client::{Link, Member};
pub use hub::{Candidate, Hub, Memory, Refusal};

use crate::types::{Handle, Identity, Limits};

/// Members have pids from 1 on, and all less than this.
pub const PIDS: u32 = 1024;
/// Number of a host's interface in handles and headers; a job's is 0.
pub const INTERFACE: u8 = 1;
/// Says that both sides know the same questions.
pub const VERSION: u64 = 1;

/// The questions beside those of [`command`](crate::bridge::command).
pub mod question {
    /// The first one: version, pid or `PTL_PID_ANY`, limits.
    pub const JOIN: u64 = 1;
    /// The last one.
    pub const LEAVE: u64 = 2;
    /// Answered as soon as something has happened to the member, or so many milliseconds have passed.
    pub const WAIT: u64 = 40;
    /// The oldest event of the first queue that holds one.
    pub(super) const TAKE: u64 = 41;
    /// Events that handlers are to see.
    pub(super) const HANDLED: u64 = 42;
}

/// Queues that one [`TAKE`](question::TAKE) may name.
const QUEUES: usize = 256;

/// What a member is told when it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Its pid, user and job, as others see them.
    pub identity: Identity,
    /// The limits in force.
    pub limits: Limits,
    /// Its interface.
    pub handle: Handle,
}
