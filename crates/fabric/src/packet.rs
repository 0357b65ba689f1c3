//! Packet queues: bounded packets, several messaging layers, two priorities.

use crate::Peer;
use std::hint::black_box;
use strum::{EnumCount, EnumIter};

/// The most that a messaging layer here puts into a packet, in bytes: every fabric has room for it ([`fits`]), and some for more
/// ([`PacketQueue::PACKET_BYTES`]). An Arctic message carries up to 96 bytes, an FM frame 128 bytes and its header.
pub const PACKET_BYTES: usize = 176;

/// A layer above `F` calls this where it is made. It does not compile where its packets do not fit into the fabric's.
#[inline(always)]
pub const fn fits<F: PacketQueue>() {
    const {
        assert!(
            PACKET_BYTES <= F::PACKET_BYTES,
            "packets of the layers do not fit into the fabric's"
        )
    }
}

/// The messaging layer that a packet is for: layers share a process's fabric and do not see each other's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumCount, EnumIter)]
#[repr(u8)]
pub enum Port {
    /// Setting up postboxes.
    Postbox = 0,
    /// Remote shared memory as an interface of its own.
    Rsm = 1,
    /// Fast Messages.
    Fm = 2,
    /// JAM.
    Jam = 3,
    /// Portals.
    Portals = 4,
    /// JAM's own protocols, apart from its user's messages.
    JamService = 5,
    /// What carries MPI where messages of Fast Messages, JAM or Portals do.
    Device = 6,
    /// The job's own: all its processes meet.
    Job = 7,
    /// Setting up channels of Portals: for answers with high priority, for requests with low.
    PortalsChannel = 8,
    /// The same of the Portals that carries MPI.
    DeviceChannel = 9,
}

/// High can hold up low, never the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// For answers and control: delivered before any low packet that waits.
    High = 0,
    /// For requests.
    Low = 1,
}

impl Priority {
    /// Both, the high one first.
    pub const ALL: [Priority; 2] = [Priority::High, Priority::Low];
}

/// Which way a packet takes through a network that has several (the up-route of Arctic's fat tree).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// Always the same of them, by its number: a network with fewer ways takes the number modulo those it has.
    Fixed(u8),
    /// Any, chosen anew for each packet.
    Random,
}

impl Default for Route {
    fn default() -> Self {
        Route::Fixed(0)
    }
}

/// Queues between two processes, one for each port and priority.
pub const LANES: usize = Port::COUNT * Priority::ALL.len();

/// The number of a port's queue of one priority: what goes into a header on the wire.
#[inline(always)]
pub const fn lane(port: Port, priority: Priority) -> usize {
    port as usize * Priority::ALL.len() + priority as usize
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

/// Queues of bounded packets between the processes of a job. Packets of one port and priority between two processes
/// arrive in order unless [`PacketQueue::ORDERED`] says otherwise, where they take the same fixed [`Route`]. No port's packets hold up another's, and a full
/// queue of low priority does not hold up the high one.
///
/// Polls find what has arrived; [`Fabric::progress`](crate::Fabric::progress) makes it arrive where that takes calls.
#[ambassador::delegatable_trait]
pub trait PacketQueue {
    /// Whether packets between the same two processes of the same port, priority and fixed route arrive in order.
    const ORDERED: bool;
    /// Largest payload of a packet, in bytes.
    const PACKET_BYTES: usize;
    /// Offer a packet of at most [`PACKET_BYTES`](Self::PACKET_BYTES) bytes. Does not block, and does not wake the receiver: for that
    /// there is [`Interrupt::wake`](crate::Interrupt::wake), afterwards.
    ///
    /// # Panics
    /// When the payload is longer than that, or the peer is not of the job.
    fn try_send(&self, peer: Peer, port: Port, priority: Priority, payload: &[u8]) -> TrySend;
    /// As [`try_send`](Self::try_send), which takes the way of number 0, by another route. A fabric whose network has one way only
    /// takes that one.
    ///
    /// # Panics
    /// As there.
    #[inline(always)]
    fn try_send_by(
        &self,
        _route: Route,
        peer: Peer,
        port: Port,
        priority: Priority,
        payload: &[u8],
    ) -> TrySend {
        self.try_send(peer, port, priority, payload)
    }
    /// Hand the next packet of one port and priority to `take` with its sender, which the fabric vouches for. False:
    /// none waited. True without a call of `take`: what was there was damaged, and is recorded as a fault.
    fn poll_priority(&self, port: Port, priority: Priority, take: impl FnMut(Peer, &[u8])) -> bool;
    /// As [`poll_priority`](Self::poll_priority), of both priorities, high first.
    #[inline]
    fn poll_packet(&self, port: Port, take: impl FnMut(Peer, Priority, &[u8])) -> bool {
        let mut take = take;
        self.poll_priority(port, Priority::High, |from, bytes| {
            take(from, Priority::High, bytes);
        }) || self.poll_priority(port, Priority::Low, |from, bytes| {
            take(from, Priority::Low, bytes);
        })
    }
    /// How many packets polls would find now, counted up to `limit`.
    fn packets_waiting(&self, port: Port, priority: Priority, limit: u32) -> u32;
}

/// Copy bytes that were written word by word a moment ago, each word by itself: a processor makes a read that spans several
/// writes wait until they have left it, which takes longer than a short message. For up to a line or so.
///
/// # Panics
/// When `to` is too short. Its last word is filled up with zeros.
#[inline(always)]
pub fn copy_words(to: &mut [[u8; 8]], from: &[u8]) {
    let (whole, rest) = from.as_chunks::<8>();
    let (first, last) = to.split_at_mut(whole.len());
    for (to, word) in first.iter_mut().zip(whole) {
        // Else the compiler would make wide reads of these.
        *to = black_box(u64::from_le_bytes(*word)).to_le_bytes();
    }
    if !rest.is_empty() {
        let word = rest
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        last[0] = word.to_le_bytes();
    }
}
