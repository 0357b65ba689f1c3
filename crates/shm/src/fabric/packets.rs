//! Packets through the rings of the region.
//!
//! Cost class: *fast path*, but for what follows a long wait.

use super::region::{self, Process};
use super::ring::{Cursor, Gap, PACKET_BYTES, ReceiveOutcome, RingId, SendOutcome};
use super::{Shm, ring};
use farpost_fabric::sync::AtomicU64;
use farpost_fabric::{ErrorStatus, FabricError, Fault, PacketQueue, Peer, Port, Priority, TrySend};
use farpost_fabric::{LANES, lane};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Cached heads of other processes' rings. Two rings that share an entry load the head each time.
const SEEN: usize = 64;
/// Empty polls in a row after which the ring is examined for a packet that was begun and never completed.
const EXAMINE_AFTER: u32 = 1024;
/// How long a packet that was begun may take before the ring asks whether its sender lives.
const PATIENCE: Duration = Duration::from_millis(100);

/// The consumer's side of one ring.
#[derive(Default)]
struct RingConsumer {
    cursor: Cell<Cursor>,
    /// Polls in a row that found nothing.
    empty: Cell<u32>,
    /// The position of a packet that was begun, and since when the consumer waits for it.
    begun: Cell<Option<(u64, Instant)>>,
}

/// A process's side of all rings.
pub struct Packets {
    mine: [RingConsumer; LANES],
    /// A bit for each ring that was ever polled. The others occupy no memory yet and are not touched.
    polled: Cell<u32>,
    /// By entry: the ring, and its cached head.
    seen: [Cell<(u64, u64)>; SEEN],
}

impl Default for Packets {
    fn default() -> Self {
        Self {
            mine: Default::default(),
            polled: Cell::new(0),
            seen: [const { Cell::new((0, 0)) }; SEEN],
        }
    }
}

impl Shm {
    #[inline(always)]
    fn claim(&self, peer: Peer) -> &AtomicU64 {
        &self.process(peer).claim.0
    }

    #[inline(always)]
    fn my_ring(&self, lane: usize) -> &ring::Ring {
        &self.process(Peer(self.index)).rings[lane]
    }

    /// Count an empty poll. True: the ring was damaged and is repaired.
    #[inline(always)]
    fn count_empty_poll(&self, lane: usize) -> bool {
        let empty = &self.packets.mine[lane].empty;
        let count = empty.get() + 1;
        empty.set(count);
        if count == 1 {
            self.packets.polled.set(self.packets.polled.get() | 1 << lane);
        }
        count >= EXAMINE_AFTER && self.examine_ring(lane)
    }

    #[cold]
    fn examine_ring(&self, lane: usize) -> bool {
        let mine = &self.packets.mine[lane];
        mine.empty.set(0);
        let ring = self.my_ring(lane);
        let mut cursor = mine.cursor.get();
        if !ring.is_odd(&cursor) || ring.waiting(cursor.position) {
            mine.begun.set(None);
            return false;
        }
        match mine.begun.get() {
            Some((position, since)) if position == cursor.position => {
                if since.elapsed() < PATIENCE {
                    return false;
                }
            }
            _ => {
                mine.begun.set(Some((cursor.position, Instant::now())));
                return false;
            }
        }
        mine.begun.set(None);
        let me = Peer(self.index);
        let claims = (0..self.size).map(|i| (Peer(i), self.claim(Peer(i))));
        let gap = ring.examine(&mut cursor, RingId::new(me, lane), claims, |peer| {
            self.has_ended(peer)
        });
        mine.cursor.set(cursor);
        let (peer, error) = match gap {
            Gap::None | Gap::Writing => return false,
            Gap::Ended(peer) => (peer, FabricError::dead(peer, "it ended while it sent a packet")),
            // Who did that left no name.
            Gap::Corrupt(what, value) => (me, FabricError::corrupt(me, what, value)),
        };
        self.record_fault(Fault { peer, error });
        true
    }

    /// Before a sleep: how long it may take at most, so that what a dead sender left is found. None: something was
    /// mended just now, look again.
    pub(super) fn before_sleep(&self, longest: Duration) -> Option<Duration> {
        let mut polled = self.packets.polled.get();
        let mut limit = self.ring_again(longest);
        while polled != 0 {
            let lane = polled.trailing_zeros() as usize;
            polled &= polled - 1;
            if self.examine_ring(lane) {
                return None;
            }
            if self.packets.mine[lane].begun.get().is_some() {
                limit = limit.min(PATIENCE);
            }
        }
        Some(limit)
    }
}

impl PacketQueue for Shm {
    const ORDERED: bool = true;
    const PACKET_BYTES: usize = PACKET_BYTES;

    #[inline]
    fn try_send(&self, peer: Peer, port: Port, priority: Priority, payload: &[u8]) -> TrySend {
        assert!(
            payload.len() <= PACKET_BYTES,
            "a packet holds {PACKET_BYTES} bytes"
        );
        let lane = lane(port, priority);
        let process: &Process = self.process(peer);
        let place = &self.packets.seen[(peer.index() + lane * 7) % SEEN];
        let key = (u64::from(peer.0) << 8) | (lane as u64 + 1);
        let (whose, head) = place.get();
        // An old head is no mistake, the ring only seems fuller.
        let mut seen = if whose == key { head } else { 0 };
        let me = Peer(self.index);
        let offered =
            process.rings[lane].try_send(RingId::new(peer, lane), self.claim(me), &mut seen, me, payload);
        place.set((key, seen));
        match offered {
            SendOutcome::Sent => TrySend::Sent,
            SendOutcome::Full => TrySend::Full,
            SendOutcome::Corrupt { tail } => {
                let what = "the tail of a packet queue";
                let error = FabricError::corrupt(peer, what, tail);
                self.record_fault(Fault { peer, error });
                TrySend::Full
            }
        }
    }

    #[inline]
    fn poll_priority(&self, port: Port, priority: Priority, mut take: impl FnMut(Peer, &[u8])) -> bool {
        let lane = lane(port, priority);
        let mine = &self.packets.mine[lane];
        let mut cursor = mine.cursor.get();
        let taken = self
            .my_ring(lane)
            .take(&mut cursor, self.size, |passed, from, bytes| {
                // Before the closure runs: it may poll.
                mine.cursor.set(passed);
                mine.empty.set(0);
                take(from, bytes);
            });
        match taken {
            ReceiveOutcome::Packet => true,
            ReceiveOutcome::Empty => {
                mine.cursor.set(cursor);
                self.count_empty_poll(lane)
            }
            ReceiveOutcome::Corrupt { word } => {
                mine.cursor.set(cursor);
                let peer = Peer((word >> 32) as u32 & (ring::SENDERS - 1));
                let what = "a packet's first word";
                let error = FabricError::corrupt(peer, what, word);
                self.record_fault(Fault { peer, error });
                true
            }
        }
    }

    fn packets_waiting(&self, port: Port, priority: Priority, limit: u32) -> u32 {
        let lane = lane(port, priority);
        let ring = self.my_ring(lane);
        let first = self.packets.mine[lane].cursor.get().position;
        let limit = limit.min(ring::SLOTS as u32);
        let there = |n: &u32| ring.waiting(first.wrapping_add(u64::from(*n)));
        let count = (0..limit).take_while(there).count() as u32;
        if count == 0 {
            // Who only asks shall find out as well; mended, there is something to poll.
            self.count_empty_poll(lane);
        }
        count
    }
}

const _: () = assert!(LANES <= 32 && size_of::<region::Claim>() == 128);
