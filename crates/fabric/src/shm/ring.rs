//! The packet queue of a process: a bounded ring in shared memory with many producers and one consumer.
//!
//! Each slot carries a ticket word. A slot is free for the producer whose position equals its ticket, and
//! full for the consumer when the ticket is position + 1; the consumer frees it for the next lap by
//! position + slots (the bounded queue of D. Vyukov). All fields are atomics, so the very same code is
//! model-checked and mapped.

use crate::sync::{AtomicU64, Ordering};
use crate::{PACKET_BYTES, Peer};

/// Slots in a ring: a power of two.
pub const SLOTS: usize = if cfg!(loom) { 2 } else { 32 };
/// The model needs not check each word of the payload.
const WORDS: usize = if cfg!(loom) { 1 } else { PACKET_BYTES / 8 };

/// One packet: a ticket, who and how long, and the payload.
#[repr(C, align(128))]
pub struct Slot {
    ticket: AtomicU64,
    /// Sender in the upper half, bytes of payload in the lower.
    header: AtomicU64,
    payload: [AtomicU64; WORDS],
}

/// A ring in shared memory. All-zero memory is an empty ring: tickets are stored relative to the slot's
/// index.
#[repr(C, align(128))]
pub struct Ring {
    tail: AtomicU64,
    slots: [Slot; SLOTS],
}

/// What became of a packet offered.
#[derive(Debug, PartialEq, Eq)]
pub enum Offered {
    /// It will be taken.
    Sent,
    /// No slot is free.
    Full,
    /// A ticket that cannot be right; nothing was sent.
    Corrupt { ticket: u64 },
}

/// What the consumer found.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// A packet of that many bytes.
    Packet { from: Peer, len: usize },
    /// Nothing.
    Empty,
    /// A header or ticket that cannot be right; the packet, if there was one, is dropped.
    Corrupt {
        header: u64,
        what: &'static str,
        value: u64,
    },
}

impl Ring {
    /// An empty ring, for tests (shared memory starts zeroed and needs none).
    #[cfg(any(test, loom))]
    pub fn new() -> Self {
        Ring {
            tail: AtomicU64::new(0),
            slots: std::array::from_fn(|_| Slot {
                ticket: AtomicU64::new(0),
                header: AtomicU64::new(0),
                payload: std::array::from_fn(|_| AtomicU64::new(0)),
            }),
        }
    }

    /// Producer: offer a packet.
    pub fn try_send(&self, from: Peer, payload: &[u8]) -> Offered {
        assert!(
            payload.len() <= PACKET_BYTES,
            "a packet holds {PACKET_BYTES} bytes"
        );
        let mut position = self.tail.load(Ordering::Relaxed);
        loop {
            let index = position as usize % SLOTS;
            let slot = &self.slots[index];
            let ticket = slot.ticket.load(Ordering::Acquire).wrapping_add(index as u64);
            let lead = ticket.wrapping_sub(position) as i64;
            if lead != 0 {
                if (-(SLOTS as i64)..0).contains(&lead) {
                    return Offered::Full;
                }
                // A slot is ahead only if the tail moved on since it was loaded, and the ticket just loaded
                // makes that move visible.
                let now = self.tail.load(Ordering::Relaxed);
                if now == position {
                    return Offered::Corrupt { ticket };
                }
                position = now;
                continue;
            }
            match self.tail.compare_exchange_weak(
                position,
                position.wrapping_add(1),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Err(now) => position = now,
                Ok(_) => {
                    slot.header
                        .store(u64::from(from.0) << 32 | payload.len() as u64, Ordering::Relaxed);
                    for (word, bytes) in slot.payload.iter().zip(payload.chunks(8)) {
                        let mut whole = [0; 8];
                        whole[..bytes.len()].copy_from_slice(bytes);
                        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
                    }
                    let full = position.wrapping_add(1).wrapping_sub(index as u64);
                    slot.ticket.store(full, Ordering::Release);
                    return Offered::Sent;
                }
            }
        }
    }

    /// Consumer (there is one): whether there is something to take at `position`.
    #[inline]
    pub fn waiting(&self, position: u64) -> bool {
        self.ticket(position) != position
    }

    #[inline]
    fn ticket(&self, position: u64) -> u64 {
        let index = position as usize % SLOTS;
        let ticket = &self.slots[index].ticket;
        ticket.load(Ordering::Acquire).wrapping_add(index as u64)
    }

    /// Consumer: take the packet at `*position` into `to`. `size` processes exist.
    pub fn take(&self, position: &mut u64, size: u32, to: &mut [u8; PACKET_BYTES]) -> Taken {
        let ticket = self.ticket(*position);
        if ticket == *position {
            return Taken::Empty;
        }
        let index = *position as usize % SLOTS;
        let slot = &self.slots[index];
        let header = slot.header.load(Ordering::Relaxed);
        let next = position.wrapping_add(1);
        if ticket != next && self.tail.load(Ordering::Relaxed) == *position {
            // Nobody has taken this slot: free it.
            let free = position.wrapping_sub(index as u64);
            slot.ticket.store(free, Ordering::Release);
        } else {
            for (bytes, word) in to.chunks_mut(8).zip(&slot.payload) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
            let next_lap = position.wrapping_add(SLOTS as u64).wrapping_sub(index as u64);
            slot.ticket.store(next_lap, Ordering::Release);
            *position = next;
        }
        if ticket != next {
            return Taken::Corrupt {
                header,
                what: "a packet slot's ticket",
                value: ticket,
            };
        }
        let (from, len) = ((header >> 32) as u32, header as u32 as usize);
        if from >= size || len > PACKET_BYTES {
            return Taken::Corrupt {
                header,
                what: "a packet header",
                value: header,
            };
        }
        Taken::Packet {
            from: Peer(from),
            len,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn packets_arrive_in_order_and_full_is_said() {
        let ring = Ring::new();
        let mut position = 0;
        let mut buffer = [0; PACKET_BYTES];
        for lap in 0..5u8 {
            for i in 0..SLOTS as u8 {
                assert_eq!(ring.try_send(Peer(3), &[lap, i, 7]), Offered::Sent);
            }
            assert_eq!(ring.try_send(Peer(3), &[0]), Offered::Full);
            for i in 0..SLOTS as u8 {
                let taken = ring.take(&mut position, 4, &mut buffer);
                assert_eq!(
                    taken,
                    Taken::Packet {
                        from: Peer(3),
                        len: 3
                    }
                );
                assert_eq!(buffer[..3], [lap, i, 7]);
            }
            assert_eq!(ring.take(&mut position, 4, &mut buffer), Taken::Empty);
        }
    }

    #[test]
    fn a_stranger_or_a_lying_length_is_refused() {
        let ring = Ring::new();
        let (mut position, mut buffer) = (0, [0; PACKET_BYTES]);
        assert_eq!(ring.try_send(Peer(9), &[1]), Offered::Sent);
        assert!(matches!(
            ring.take(&mut position, 4, &mut buffer),
            Taken::Corrupt { .. }
        ));
        assert_eq!(ring.try_send(Peer(1), &[1]), Offered::Sent);
        ring.slots[1]
            .header
            .store(1 << 32 | (PACKET_BYTES as u64 + 1), Ordering::Relaxed);
        assert!(matches!(
            ring.take(&mut position, 4, &mut buffer),
            Taken::Corrupt { .. }
        ));
        assert_eq!(ring.try_send(Peer(1), &[5]), Offered::Sent);
        assert_eq!(
            ring.take(&mut position, 4, &mut buffer),
            Taken::Packet {
                from: Peer(1),
                len: 1
            }
        );
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn model(check: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(check);
    }

    #[test]
    fn loom_two_producers_one_consumer() {
        model(|| {
            let ring = Arc::new(Ring::new());
            let producers = [0, 1].map(|me: u32| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || ring.try_send(Peer(me), &[me as u8 + 1]))
            });
            let (mut position, mut buffer, mut seen) = (0, [0; PACKET_BYTES], 0);
            let mut take = |seen: &mut u32| match ring.take(&mut position, 2, &mut buffer) {
                Taken::Packet { from, len } => {
                    assert_eq!((len, u32::from(buffer[0])), (1, from.0 + 1));
                    *seen += 1 << from.0;
                    true
                }
                Taken::Empty => false,
                corrupt @ Taken::Corrupt { .. } => panic!("{corrupt:?}"),
            };
            take(&mut seen);
            for producer in producers {
                assert_eq!(producer.join().unwrap(), Offered::Sent);
            }
            while take(&mut seen) {}
            assert_eq!(seen, 3);
        });
    }

    /// More packets than slots: a slot is used again only when it was emptied, and nothing that happens by
    /// itself looks corrupt.
    #[test]
    fn loom_slots_are_used_again() {
        model(|| {
            let ring = Arc::new(Ring::new());
            for i in 0..SLOTS as u8 {
                assert_eq!(ring.try_send(Peer(0), &[i]), Offered::Sent);
            }
            let producer = thread::spawn({
                let ring = Arc::clone(&ring);
                move || {
                    let offered = ring.try_send(Peer(0), &[SLOTS as u8]);
                    assert!(!matches!(offered, Offered::Corrupt { .. }));
                    offered == Offered::Sent
                }
            });
            let (mut position, mut buffer, mut next) = (0, [0; PACKET_BYTES], 0);
            let mut take = || {
                if !ring.waiting(position) {
                    return false;
                }
                let taken = ring.take(&mut position, 2, &mut buffer);
                let wanted = Taken::Packet {
                    from: Peer(0),
                    len: 1,
                };
                assert_eq!((taken, buffer[0]), (wanted, next));
                next += 1;
                true
            };
            take();
            let sent = producer.join().unwrap();
            while take() {}
            assert_eq!(usize::from(next), SLOTS + usize::from(sent));
        });
    }
}
