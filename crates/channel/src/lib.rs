//! Ordered, exactly-once channels between two processes over remote memory: the postbox areas of Sun MPI (section 3 of the
//! paper), with their blocks and credits, rendezvous slots where both sides copy, queues of records, and rows of lines that processes show each other.
//!
//! Knows nothing of messages: what a postbox or a block holds is the caller's affair.
#![forbid(unsafe_code)]

mod area;
mod connect;
mod control;
mod grow;
mod lane;
mod pool;
pub mod postbox;
mod reap;
pub mod records;
mod rendezvous_slots;
pub mod rest;
pub mod rows;
mod shared_copy;
mod waiting;

pub use area::Layout;
pub use control::Service;
pub use farpost_fabric as fabric;
pub use lane::{Lane, Next};
pub use postbox::Postboxes;
pub use rendezvous_slots::{Record, RendezvousSlot, RendezvousSlots};
pub use shared_copy::{CopyOutcome, SharedCopy, Side, part_bytes};
pub use waiting::Waiting;

farpost_tunables::tunables! {
    /// Tunables of the postbox areas.
    pub struct ChannelTunables {
        /// Postboxes (64 bytes each) in the queue from one process to another. More absorb longer bursts; fewer stay in the first-level cache. Rounded up to a power of two.
        slots: "FARPOST_RSM_SLOTS" = 128, 16..=4096, "postboxes";
        /// Bytes of a pool block. Larger blocks mean fewer postboxes per long message, smaller ones finer overlap.
        block: "FARPOST_RSM_BLOCK" = 8192, 1024..=1 << 20, "bytes";
        /// Blocks in the pool that a process shares among all its receivers on a host.
        blocks: "FARPOST_RSM_BLOCKS" = 128, 8..=65536, "blocks";
    }
}
