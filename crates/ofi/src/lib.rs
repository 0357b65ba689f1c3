//! libfabric as a fabric: one reliable-datagram endpoint per process.
//!
//! | What | How |
//! |---|---|
//! | puts and lines | messages that the receiver applies when they have arrived whole (why: `wire.rs`); in order |
//! | packets | messages; a window per sender and priority, given back as packets are taken |
//! | bulk transfers | `fi_read` and `fi_write` straight between user memories |
//! | interrupts | the completion queue's descriptor; a message is its own interrupt |
//! | long gets | `fi_read` from the segment, whose memory its owner registers once |
//! | fence, other gets, import | a question and its answer, while our own side makes progress |
//!
//! The library is loaded when the fabric is opened ([`Library::load`]); a process without it loses nothing but
//! this fabric. [`survey`] tells what the library has and why it is taken or passed over.
//!
//! Everything belongs to one thread. Nothing moves but by calls: [`Fabric::progress`](farpost_fabric::Fabric::progress).
//!
//! Puts stay messages: a put is copied when it returns and may not wait, and where a provider does not promise `FI_ORDER_SAW` (efa, cxi) a
//! line behind an `fi_write` would have to wait for its completion. A caller with a long put that can keep its buffer uses a bulk transfer.
//!
//! Areas of peers go back to the system when they [rest](farpost_fabric::RemoteMemory::give_back), page by page: only polls write what was put. Not
//! given back are pages of a segment that a peer has read by `fi_read`, which the provider holds, and the buffers of messages:
//! `FARPOST_OFI_RECEIVES` of `FARPOST_OFI_MESSAGE` bytes for all peers together, and as many as sends had under way at once.
//!
//! libfabric makes the connections, so nothing can be proved when they are made; each message proves its sender instead (`token.rs`). Nothing is
//! encrypted: with `FARPOST_ENCRYPT` the `tcp` fabric is used.

#![cfg(not(loom))]

mod alive;
mod arrive;
mod bulk;
mod calls;
mod card;
#[cfg(feature = "conformance")]
pub mod conformance;
mod core;
mod ffi;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod held;
mod library;
mod link;
mod memory;
mod operations;
mod order;
mod packet_queues;
mod packets;
mod poller;
mod read;
mod readers;
mod segment_table;
mod started;
mod survey;
#[cfg(test)]
mod tests;
mod token;
mod traits;
mod transfers;
mod under_way;
mod waiting;
mod wire;

pub use self::core::{Listening, Ofi};
pub use library::{Library, OfiError};
pub use memory::Imported;
pub use survey::{OfiOptions, ProviderReport, TEXT_VARIABLES, Verdict, adapter, survey};

farpost_tunables::tunables! {
    /// Tunables of the libfabric fabric.
    pub struct OfiTunables {
        /// Buffers that wait for messages. More take longer bursts without making senders wait.
        receives: "FARPOST_OFI_RECEIVES" = 64, 4..=4096, "buffers";
        /// Payload of the largest message; what is longer goes in several. Each waiting buffer has this size.
        message: "FARPOST_OFI_MESSAGE" = 8192, 1024..=1 << 20, "bytes";
        /// Longer messages are read by the receiver straight from the sender's buffer; shorter ones go through the pool, if FARPOST_EAGER_FAR lets them.
        eager: "FARPOST_OFI_EAGER" = 16 << 10, 0..=1 << 20, "bytes";
        /// Packets that a peer may send before any is taken, per priority.
        packets: "FARPOST_OFI_PACKETS" = 64, 2..=4096, "packets";
        /// How long a question to a peer (for a segment, a fence) may stay without answer.
        answer: "FARPOST_OFI_ANSWER_TIMEOUT" = 60_000, 100..=86_400_000, "ms";
        /// How long a peer may leave something unanswered before its host is asked whether the process is there; ten times as long if it merely says nothing.
        probe: "FARPOST_OFI_PROBE" = 1000, 10..=3_600_000, "ms";
        /// Register all memory that the provider is given, also where it does not ask for it: to test what other providers need.
        register: "FARPOST_OFI_REGISTER" = 0, 0..=1, "switch";
        /// How long that host may be silent before the peer is given up.
        gone: "FARPOST_OFI_PEER_TIMEOUT" = 10_000, 100..=86_400_000, "ms";
    }
}
