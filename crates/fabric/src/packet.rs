//! Packet queues: bounded packets, two priorities.

use crate::Peer;

/// Largest payload of a packet. An Arctic message carries up to 88 bytes of payload, an FM frame 128 bytes
/// with its header; both fit.
pub const PACKET_BYTES: usize = 112;

/// High can hold up low, never the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// For answers and control: delivered before any low packet that waits.
    High = 0,
    /// For requests.
    Low = 1,
}

/// What became of a packet offered.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrySend {
    /// It will arrive, once.
    Sent,
    /// The queue is full: poll, then offer it again. Nothing was sent.
    Full,
}

/// Queues of bounded packets between the processes of a job. Packets of one priority between two processes
/// arrive in order unless [`PacketQueue::ORDERED`] says otherwise.
pub trait PacketQueue {
    /// Whether packets between the same two processes at the same priority arrive in order.
    const ORDERED: bool;
    /// Offer a packet of at most [`PACKET_BYTES`] bytes. Does not block.
    ///
    /// # Panics
    /// When the payload is longer than that, or the peer is not of the job.
    fn try_send(&self, peer: Peer, priority: Priority, payload: &[u8]) -> TrySend;
    /// Hand the next packet, high priority first, to `take` with its sender, which the fabric vouches for.
    /// False: none waited.
    fn poll_packet(&self, take: &mut dyn FnMut(Peer, Priority, &[u8])) -> bool;
}
