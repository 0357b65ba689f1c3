//! The bridge between clients and their *agent* ([`agent`](crate::agent)): what both know of it.
//!
//! | File | What |
//! |---|---|
//! | `routes` | who is reached by way of which agent; envelopes of messages |
//! | `mailbox` | queues of records between a client and the agent, in memory that the reader exports |
//! | `record` | what the records hold |
//! | `request` | an operation that an agent is asked for |

pub mod mailbox;
pub mod record;
mod request;
mod routes;

pub use record::{Halves, Record, SMALL, Update, Write, command};
pub use request::Request;
pub use routes::{ENVELOPE_BYTES, Routes, envelope, open_envelope};

/// Where matching is done for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u16)]
pub enum Mode {
    /// By the client, after an interrupt: it does not look for what arrives, but sleeps until it is rung.
    Generic = 0,
    /// By the agent.
    Accelerated = 1,
}
