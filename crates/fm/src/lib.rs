//! Illinois Fast Messages over any fabric's packet queues.
//!
//! From "High Performance Messaging on Workstations: Illinois Fast Messages (FM) for Myrinet" (Pakin, Lauria, Chien;
//! Supercomputing 1995), and for the streams from the documentation of FM 2.x.
//!
//! * **FM 1.0**: [`Fm::send_4`], [`Fm::send`] of at most one frame, 128 bytes ([`FmConfig`] changes that), [`Fm::extract`]. Reliable, not ordered.
//! * **FM 2.x**: [`Fm::begin_message`], pieces, and handlers that [receive](Receive::receive) piece by piece. Reliable,
//!   ordered between each two nodes.
//!
//! A message names the number of a handler, which runs in a call of [`extract`](Fm::extract) at its destination.
//!
//! | Queue of the paper | Here |
//! |---|---|
//! | send queue | `send_queue`: counters `hostsent` and `lanaisent` |
//! | receive queue | `receive_queue`: the fabric's packet queues |
//! | host receive queue | `host_receive_queue`: accepted, not handled yet |
//! | reject queue | `reject_queue`: came back, to be sent again |
//! | | `overdue`: of handlers that have waited in vain for a slot |
//!
//! Flow control is return-to-sender: a node sends optimistically, with one slot of its own reject queue reserved per
//! outstanding frame over all destinations; a receiver without room sends the frame back; acknowledgements free slots,
//! several at once, with other frames where there are any. Acknowledgements and returned frames can always be taken in,
//! so nothing ever waits for room in a circle. What a node keeps does not grow with the number of nodes.
//!
//! The queues take what cannot go on at once: a frame that the network takes does not wait in the send queue, nor one that its handler takes in the host
//! receive queue. [`Fm::tend`] is the LANai's part for whoever has a thread for it: while the program computes, frames move to the host
//! receive queue. [`FmConfig`] says which of the paper's features a node has, and how large its frames are.
//!
//! Generic over the fabric; knows nothing of other messaging layers, of C, or of environment variables.
//!
//! Order between two nodes takes no memory per peer. A piece says whether it is the oldest outstanding one; such a piece is in order by what
//! its sender knows. Others are accepted if the receiver remembers their predecessor; else they go back like frames without room. So a receiver may
//! forget. A handler of a message in pieces that wants bytes that have not arrived is suspended on a stack of its own (`corosensei`); a message that
//! begins finds a place for that, or goes back. Nothing else is buffered.
#![forbid(unsafe_code)]

mod frames;
pub mod host_receive_queue;
pub mod send_queue;
pub mod wire;

#[cfg(not(loom))]
mod apart;
#[cfg(not(loom))]
mod carrier;
#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod extract;
#[cfg(not(loom))]
mod faults;
#[cfg(not(loom))]
mod overdue;
#[cfg(not(loom))]
mod owed_acks;
#[cfg(not(loom))]
mod receive;
#[cfg(not(loom))]
mod receive_queue;
#[cfg(not(loom))]
mod reject_queue;
#[cfg(not(loom))]
mod running;
#[cfg(not(loom))]
mod sending;
#[cfg(not(loom))]
mod sorting;
#[cfg(not(loom))]
mod state;
#[cfg(not(loom))]
mod waiting;
#[cfg(not(loom))]
mod window;

pub use wire::{FRAME_PAYLOAD, FRAME_WORDS, LONG_WORDS};
#[cfg(not(loom))]
pub use {
    carrier::Label,
    config::{Buffers, FmConfig, FmFeatures, Interpret},
    engine::{ANY_ID, Fm, Tended},
    error::FmError,
    receive::Receive,
    running::Flow,
    sending::Sending,
    state::FmCounters,
};

farpost_tunables::tunables! {
    /// Tunables of Fast Messages.
    pub struct FmTunables {
        /// Frames of 128 bytes that a node may have outstanding, over all destinations. More hide a longer way, fewer stay in the cache.
        slots: "FARPOST_FM_SLOTS" = 128, 4..=4096, "frames";
        /// Frames in the host receive queue: accepted and not handled yet. With fewer, more are returned to their senders when handlers are slow.
        receive: "FARPOST_FM_RECEIVE" = 256, 1..=65536, "frames";
        /// Messages of several frames that may be arriving at once. Each has a stack while its handler waits for more.
        streams: "FARPOST_FM_STREAMS" = 16, 1..=1024, "messages";
        /// Stack of a handler that waits for more of its message. Memory is used where the handler touches it.
        stack: "FARPOST_FM_STACK" = 256 << 10, 16 << 10..=64 << 20, "bytes";
        /// Handlers inside handlers: a send without a slot runs handlers, which may send. At this depth a send waits for 100 us, then its frame is kept.
        depth: "FARPOST_FM_DEPTH" = 8, 1..=64, "handlers";
        /// How long a send at that depth, or from a handler that receives piece by piece, waits for a slot before it fails, when 64 frames are kept for each of the host receive queue; and how long a handler may try to begin a message before it is told.
        patience: "FARPOST_FM_PATIENCE" = 30, 1..=86400, "s";
    }
}
