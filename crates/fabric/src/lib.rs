//! The network interface as software sees it: the contract that fabrics implement and messaging layers are written to.
//!
//! Small traits, one per thing that the papers' adapters can do; a fabric implements those it has:
//!
//! | Trait | What | Where it comes from |
//! |---|---|---|
//! | [`RemoteMemory`] | export, import, put, get, fence, mapped access | Sun Fire Link, RDMA |
//! | [`PacketQueue`] | bounded packets, a port per messaging layer, two priorities | Myrinet/FM, Arctic/StarT-X |
//! | [`BulkTransfer`] | a descriptor in, a completion out | StarT-X RDMA mode, SeaStar DMA |
//! | [`ZeroCopy`] | eager zero-copy: bytes that follow a line unasked | sockets |
//! | [`Interrupt`] | ring a peer, sleep until rung | all of them |
//! | [`Time`] | a clock, pauses, random numbers, what work costs | simulated machines |
//! | [`ErrorStatus`] | sticky errors, each naming peer and cause | Sun's CESR |
//! | [`Counters`] | traffic per peer, watchable by another process | |
//! | [`Topology`] | hosts, rails, distances | RSMAPI |
//!
//! Protocol code is generic over these traits and monomorphised. Nothing here knows of MPI, of
//! communicators, or of any messaging layer.

pub mod ability;
mod bulk;
mod by_peer;
pub mod clock;
#[cfg(all(feature = "conformance", not(loom)))]
pub mod conformance;
mod counters;
mod error;
mod fault_log;
pub mod forward;
pub mod gate;
mod grant;
mod host;
#[cfg(feature = "conformance")]
pub mod inproc;
mod interrupt;
pub mod member_lock;
pub mod memcheck;
mod memory;
mod packet;
mod peer_flags;
mod peer_map;
pub mod progress;
pub mod publish;
mod registers;
#[cfg(feature = "simulated")]
pub mod segment;
pub mod slots;
pub mod sync;
mod time;
mod topology;
mod transfer_memory;
pub mod wait;
mod zcopy;

pub use bulk::{BulkTransfer, Completion, Descriptor, Direction, PIECES, Piece, Ticket};
pub use by_peer::{ByPeer, NEAR_PEERS};
pub use counters::{Counter, Counters};
pub use error::{End, ErrorStatus, FabricError, Fault, Result};
pub use fault_log::FaultLog;
pub use grant::{Grant, assert_aligned, check_range};
pub use interrupt::{Interrupt, Wake};
pub use memory::{
    Access, COMMON_BYTES, LINE_BYTES, Line, Lines, LocalMemory, Permission, PlainLines, Remote, RemoteMemory,
    bytes_of, line_of,
};
pub use packet::{LANES, PACKET_BYTES, PacketQueue, Port, Priority, Route, TrySend, copy_words, fits, lane};
pub use peer_flags::PeerFlags;
pub use peer_map::PeerMap;
pub use progress::ArmedWait;
pub use registers::{RAIL_WORDS, RAILS_SHOWN, RailFigures, Register};
pub use time::{Cost, Moment, Time, Work};
pub use topology::{Carried, Distance, Topology};
pub use transfer_memory::TransferMemory;
pub use zcopy::ZeroCopy;

/// Names a segment among those of its exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

/// A process of the job, numbered from 0 without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u32);

impl Peer {
    /// The number as an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether a job of `size` processes has it; else [`FabricError::NoSuchPeer`].
    #[inline]
    pub fn check(self, size: u32) -> Result<()> {
        if self.0 >= size {
            return Err(FabricError::NoSuchPeer { peer: self, size });
        }
        Ok(())
    }
}

impl core::fmt::Display for Peer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "process {}", self.0)
    }
}

/// Everything the messaging layers ask of an adapter.
#[ambassador::delegatable_trait]
pub trait Fabric:
    'static + RemoteMemory + PacketQueue + BulkTransfer + ZeroCopy + Interrupt + ErrorStatus + Counters + Topology
{
    /// Who I am.
    fn me(&self) -> Peer;
    /// Processes of the program: those that messaging layers know, 0 to this.
    fn size(&self) -> u32;
    /// Those, and after them processes that serve them and are no part of the program.
    #[inline]
    fn processes(&self) -> u32 {
        self.size()
    }
    /// A short name for people: `shm`, `tcp`.
    fn name(&self) -> &'static str;
    /// Move along what only calls of ours move: read sockets, take completions, send what waits. True: something
    /// happened. Called at every poll, so cheap when there is nothing.
    #[inline(always)]
    fn progress(&self) -> bool {
        false
    }
    /// The job ends in good order: what was put goes out, peers are told that silence is no failure from now on.
    /// At most for `patience`.
    fn close(&self, _patience: std::time::Duration) {}
}
