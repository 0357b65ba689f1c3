//! Remote shared memory: segments, and the postbox areas of Sun MPI (section 3 of the paper) on top.
//!
//! Knows nothing of messages: what a postbox or a block holds is the caller's affair.
#![forbid(unsafe_code)]

pub mod api;
mod area;
mod bury;
mod connect;
mod desk;
mod pool;
pub mod postbox;
pub mod rows;
mod segment;
mod waiting;

pub use area::Layout;
pub use desk::{Desk, DeskLine, Record};
pub use farpost_fabric as fabric;
pub use postbox::Postboxes;
pub use segment::{Exported, Imported};
pub use waiting::Waiting;

farpost_tunables::tunables! {
    /// Tunables of the postbox areas.
    pub struct RsmTunables {
        /// Postboxes (64 bytes each) in the queue from one process to another. More absorb longer bursts; fewer stay in the first-level cache. Rounded up to a power of two.
        slots: "FARPOST_RSM_SLOTS" = 128, 16..=4096, "postboxes";
        /// Bytes of a pool block. Larger blocks mean fewer postboxes per long message, smaller ones finer overlap.
        block: "FARPOST_RSM_BLOCK" = 8192, 1024..=1 << 20, "bytes";
        /// Blocks in the pool that a process shares among all its receivers on a host.
        blocks: "FARPOST_RSM_BLOCKS" = 128, 8..=65536, "blocks";
    }
}
