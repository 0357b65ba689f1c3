//! JAM: the messaging library of StarT-X (Hoe, Hot Interconnects VI, 1998), on any fabric.
//!
//! | Mechanism | What | Section |
//! |---|---|---|
//! | [`pio`] | FIFOs of messages of 2 header words and 2 to 22 payload words, two priorities, one status word | 5.1 |
//! | [`vi`] | messages by the batch into a large ring in the receiver's memory, one doorbell for many | 5.2 |
//! | [`region`] | high-priority messages, by PIO and by batches, into memory of the receiver's own, which it reads without a call | 5.2 |
//! | [`rdma`] | a block transfer; the receiver is owned by one sender at a time | 5.3 |
//! | [`rpc`] | procedures with arguments of any size, run by the receiver's poll | 6.2 |
//! | [`cilk`] | work stealing in the manner of distributed Cilk, on `rpc` | 6.2 |
//!
//! A [`Jam`] is one process's network interface unit with everything on it. Nothing here blocks but what says so.
//! Where the paper leaves something open, the module says what was chosen and why.
//!
//! JAM's own protocols use a packet port of their own ([`farpost_fabric::Port::JamService`]), so that a program that never takes one kind of message does not stop the
//! other.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod bulk;
pub mod cilk;
mod crc16;
mod faults;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    //! For the fuzz targets.

    /// The check of a message's header and payload.
    pub fn check(bytes: &[u8]) -> u16 {
        crate::crc16::of(bytes)
    }
}
mod jam;
mod leftover;
pub mod message;
pub mod pio;
pub mod rdma;
#[allow(unsafe_code)]
pub mod region;
pub mod rpc;
pub mod vi;

pub use bulk::Buffer;
pub use jam::{Jam, Procedure};
pub use leftover::Tended;
pub use message::{Header, MAX_WORDS, MIN_WORDS, Message};
pub use pio::Status;
pub use rdma::FailedCall;
pub use region::Region;
pub use rpc::CallRoute;

use farpost_fabric::{FabricError, Peer};

farpost_tunables::tunables! {
    /// Tunables of JAM.
    pub struct JamTunables {
        /// Arguments of a remote procedure up to this size travel in messages; longer ones by block transfer.
        rpc_rdma: "FARPOST_JAM_RPC_RDMA" = 2048, 84..=1 << 20, "bytes";
        /// Longest argument of a remote procedure that a receiver makes room for.
        rpc_max: "FARPOST_JAM_RPC_MAX" = 1 << 30, 4096..=1 << 40, "bytes";
        /// How long the owner of a block transfer may send nothing before it loses its right.
        owner_silence: "FARPOST_JAM_OWNER_SILENCE" = 30_000, 1..=86_400_000, "ms";
        /// Bytes of the ring in memory that one sender may fill while the receiver computes.
        vi_ring: "FARPOST_JAM_VI_RING" = 4 << 20, 4096..=1 << 30, "bytes";
    }
}

/// What a call of JAM may answer instead of success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JamError {
    /// The transmit queue holds as many messages as it can. The status word tells how many it takes: look before.
    #[error("the transmit queue is full: it holds {0} messages (ask the status word before sending)")]
    TransmitFull(usize),
    /// A message has 2 to 22 words of payload.
    #[error("a message of {0} payload words: allowed are {min} to {max}", min = MIN_WORDS, max = MAX_WORDS)]
    Length(usize),
    /// No such process.
    #[error("{peer} does not exist: the job has {size} processes")]
    NoSuchPeer { peer: Peer, size: u32 },
    /// Nobody registered this procedure here.
    #[error("procedure {0} is not registered in this process")]
    NoSuchProcedure(u32),
    /// The peer has ended.
    #[error("{0} has ended")]
    PeerEnded(Peer),
    /// Too long for what it is to go into.
    #[error("{what}: {bytes} bytes, at most {most} fit")]
    TooLong {
        what: &'static str,
        bytes: usize,
        most: usize,
    },
    /// A receive region is too short for any message.
    #[error("a receive region of {0} bytes: the longest message takes {least}", least = region::LONGEST)]
    Region(usize),
    /// The receiver's fetch of a block failed.
    #[error("{peer} could not fetch the {bytes} bytes of a block from this process's memory")]
    NotFetched { peer: Peer, bytes: usize },
    /// A block is not what was sent.
    #[error("a block of {bytes} bytes came damaged to {peer}: its check is wrong")]
    Damaged { peer: Peer, bytes: usize },
    /// This process owned the receiver and sent it nothing for too long.
    #[error(
        "{peer} took back the right of this process to send it a block: nothing came for {millis} ms \
         (poll more often, or raise FARPOST_JAM_OWNER_SILENCE)"
    )]
    Silent { peer: Peer, millis: u32 },
    /// The fabric's word.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}
