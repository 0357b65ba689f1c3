//! The packet queue of a process for one port and priority: a bounded ring in shared memory with many producers and
//! one consumer.
//!
//! ```text
//! slot     3 lines of 64 bytes
//! word 0   bits 0..32 sequence number, 32..56 sender, 56..64 bytes of payload
//! word 1.. payload
//! ```
//! A producer claims a position by moving the tail, writes the payload and then word 0, whose sequence number makes
//! the slot full: the position plus one. A packet of up to 56 bytes is one line, and no other line that both sides use is
//! written for it. The consumer writes no slot: it publishes its head on a line of its own, a quarter of the
//! ring at a time and when it finds the ring empty. Producers cache the head and load it again only when the ring is full by
//! the cached one.
//!
//! A producer that ends between claiming a position and filling it would stop the queue. So each producer writes the position that it is about to claim into a word of its own (the *claim*),
//! and clears it once the slot is full. The consumer,
//! when it has waited long for a claimed slot, reads the claims: it waits on for a process that lives, and skips a slot that
//! only processes that have ended had claimed. Nobody writes to a slot once the consumer has passed it.
//!
//! All fields are atomics, so the very same code is model-checked and mapped.
//!
//! Cost class: *fast path*, but for [`Ring::examine`].

use farpost_fabric::sync::{AtomicU64, Ordering};
use farpost_fabric::{LINE_BYTES, Peer};

/// Largest payload of a packet: what three lines hold beside their numbers, in words.
pub const PACKET_BYTES: usize = 176;
/// Slots in a ring: a power of two.
pub const SLOTS: usize = if cfg!(loom) { 2 } else { 64 };
/// Words of a slot. The model needs not check each word of the payload.
const WORDS: usize = if cfg!(loom) { 2 } else { 3 * LINE_BYTES / 8 };
/// Words of payload in the first line.
const FIRST: usize = if cfg!(loom) { 1 } else { 7 };
/// Packets taken after which the head is published.
const PUBLISH_AFTER: u64 = if cfg!(loom) { 1 } else { SLOTS as u64 / 4 };
/// Times that a producer tries to claim before it says *full*: others were always faster, or the tail is being damaged.
const TRIES: u32 = 10_000;
/// Senders' numbers are below this.
pub const SENDERS: u32 = 1 << 24;

const _: () = assert!(cfg!(loom) || PACKET_BYTES <= (WORDS - 1) * 8 && PACKET_BYTES < 256);

/// One packet.
#[repr(C, align(64))]
pub struct Slot {
    words: [AtomicU64; WORDS],
}

impl Slot {
    /// Fetch the line of a word. Of the second it is asked for along with the first: a packet that has one does not wait for
    /// two lines in turn.
    #[inline(always)]
    fn prefetch<const WORD: usize>(&self) {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: a hint; the address is inside the slot.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>((&raw const self.words[WORD]).cast());
        }
    }
}

/// A word alone on its cache line and on the line that the hardware prefetches with it.
#[repr(C, align(128))]
pub struct PaddedWord(AtomicU64);

/// A ring in shared memory. All-zero memory is an empty ring.
#[repr(C, align(128))]
pub struct Ring {
    /// Positions claimed.
    tail: PaddedWord,
    /// Positions consumed, as last published.
    head: PaddedWord,
    slots: [Slot; SLOTS],
}

/// What became of a packet offered.
#[derive(Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// It will be taken.
    Sent,
    /// No slot is free.
    Full,
    /// Head and tail that cannot be right; nothing was sent.
    Corrupt {
        /// The tail, as found.
        tail: u64,
    },
}

/// What the consumer found.
#[derive(Debug, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// A packet, which was handed over.
    Packet,
    /// Nothing, or a packet that is not yet written.
    Empty,
    /// A first word that cannot be right; the packet is dropped.
    Corrupt {
        /// As found.
        word: u64,
    },
}

/// Why the consumer finds no next packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Gap {
    /// Nothing: no packet was sent, or it is there by now.
    None,
    /// Somebody who lives is writing it.
    Writing,
    /// Its sender has ended; it was skipped.
    Ended(Peer),
    /// No process claims the slot, or head or tail are invalid; repaired. What was found, and its value.
    Corrupt(&'static str, u64),
}

/// A ring, as a claim names it: all of a claim but the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingId(u64);

impl RingId {
    /// To `lane` of `to`.
    #[inline(always)]
    pub fn new(to: Peer, lane: usize) -> Self {
        Self(u64::from(to.0) << 38 | (lane as u64) << 33 | 1 << 32)
    }

    /// The claim of a position.
    #[inline(always)]
    pub fn claimed(self, position: u64) -> u64 {
        self.0 | u64::from(position as u32)
    }
}

/// The consumer's side of a ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// Packets taken.
    pub position: u64,
    /// The head last published.
    pub published: u64,
}

#[inline(always)]
fn sequence(position: u64) -> u32 {
    (position as u32).wrapping_add(1)
}

impl Ring {
    /// An empty ring, for tests (shared memory starts zeroed and needs none).
    #[cfg(any(test, loom))]
    pub fn new() -> Self {
        Ring {
            tail: PaddedWord(AtomicU64::new(0)),
            head: PaddedWord(AtomicU64::new(0)),
            slots: std::array::from_fn(|_| Slot {
                words: std::array::from_fn(|_| AtomicU64::new(0)),
            }),
        }
    }

    #[inline(always)]
    fn slot(&self, position: u64) -> &Slot {
        &self.slots[position as usize % SLOTS]
    }

    /// Producer: claim a position. `seen` is the head as last seen, `claim` this producer's own word.
    #[inline(always)]
    fn claim(&self, ring: RingId, claim: &AtomicU64, seen: &mut u64) -> Result<u64, SendOutcome> {
        let tail = &self.tail.0;
        let mut position = tail.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            if position.wrapping_sub(*seen) >= SLOTS as u64 {
                *seen = self.head.0.load(Ordering::Acquire);
                let lead = position.wrapping_sub(*seen);
                if lead >= SLOTS as u64 {
                    claim.store(0, Ordering::Release);
                    if lead == SLOTS as u64 {
                        return Err(SendOutcome::Full);
                    }
                    // The head passes a tail only if the tail moved on since it was loaded, and the head just loaded
                    // makes that move visible.
                    let now = tail.load(Ordering::Relaxed);
                    if now == position {
                        return Err(SendOutcome::Corrupt { tail: position });
                    }
                    position = now;
                    continue;
                }
            }
            claim.store(ring.claimed(position), Ordering::Release);
            let next = position.wrapping_add(1);
            // Whoever sees the tail moved sees the claim.
            match tail.compare_exchange(position, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Ok(position),
                Err(now) => position = now,
            }
        }
        claim.store(0, Ordering::Release);
        Err(SendOutcome::Full)
    }

    /// Producer: fill the slot of a position claimed.
    #[inline(always)]
    fn fill(&self, position: u64, claim: &AtomicU64, from: Peer, payload: &[u8]) {
        let [first, words @ ..] = &self.slot(position).words;
        let (whole, rest) = payload.as_chunks::<8>();
        let store = |at: usize, value| words[at].store(value, Ordering::Relaxed);
        // The first line last, in one go: the consumer looks at it all the time and takes it away between two stores.
        if !rest.is_empty() {
            let last = rest
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
            store(whole.len(), last);
        }
        for at in (FIRST..whole.len()).chain(0..whole.len().min(FIRST)) {
            store(at, u64::from_le_bytes(whole[at]));
        }
        let about = u64::from(from.0) << 32 | (payload.len() as u64) << 56;
        first.store(about | u64::from(sequence(position)), Ordering::Release);
        // Who sees the claim gone sees the slot full.
        claim.store(0, Ordering::Release);
    }

    /// Producer: offer a packet of at most [`PACKET_BYTES`].
    #[inline(always)]
    pub fn try_send(
        &self,
        ring: RingId,
        claim: &AtomicU64,
        seen: &mut u64,
        from: Peer,
        payload: &[u8],
    ) -> SendOutcome {
        match self.claim(ring, claim, seen) {
            Ok(position) => {
                self.fill(position, claim, from, payload);
                SendOutcome::Sent
            }
            Err(why) => why,
        }
    }

    /// Consumer (there is one): whether the slot at `position` is full.
    #[inline(always)]
    pub fn waiting(&self, position: u64) -> bool {
        self.slot(position).words[0].load(Ordering::Acquire) as u32 == sequence(position)
    }

    /// Consumer: take the next packet. `size` processes exist. `take` is also given the cursor after it.
    #[inline(always)]
    pub fn take(
        &self,
        cursor: &mut Cursor,
        size: u32,
        take: impl FnOnce(Cursor, Peer, &[u8]),
    ) -> ReceiveOutcome {
        let position = cursor.position;
        let slot = self.slot(position);
        slot.prefetch::<{ FIRST + 1 }>();
        let [first, words @ ..] = &slot.words;
        let word = first.load(Ordering::Acquire);
        if word as u32 != sequence(position) {
            self.publish_head(cursor, 1);
            return ReceiveOutcome::Empty;
        }
        // In a stream, the one after the next is there already.
        self.slot(position.wrapping_add(2)).prefetch::<0>();
        self.slot(position.wrapping_add(2)).prefetch::<{ FIRST + 1 }>();
        let (from, len) = ((word >> 32) as u32 & (SENDERS - 1), (word >> 56) as usize);
        if from >= size || len > PACKET_BYTES {
            self.passed(cursor);
            return ReceiveOutcome::Corrupt { word };
        }
        if len <= FIRST * 8 {
            let mut bytes = [[0; 8]; FIRST];
            for (to, word) in bytes.iter_mut().zip(words) {
                *to = word.load(Ordering::Relaxed).to_le_bytes();
            }
            self.passed(cursor);
            take(*cursor, Peer(from), &bytes.as_flattened()[..len]);
        } else {
            let mut bytes = [[0; 8]; PACKET_BYTES / 8];
            for (to, word) in bytes[..len.div_ceil(8)].iter_mut().zip(words) {
                *to = word.load(Ordering::Relaxed).to_le_bytes();
            }
            self.passed(cursor);
            take(*cursor, Peer(from), &bytes.as_flattened()[..len]);
        }
        ReceiveOutcome::Packet
    }

    #[inline(always)]
    fn passed(&self, cursor: &mut Cursor) {
        cursor.position = cursor.position.wrapping_add(1);
        self.publish_head(cursor, PUBLISH_AFTER);
    }

    /// Publish the head if at least so many packets were taken since it was published.
    #[inline(always)]
    fn publish_head(&self, cursor: &mut Cursor, least: u64) {
        if cursor.position.wrapping_sub(cursor.published) >= least {
            self.head.0.store(cursor.position, Ordering::Release);
            cursor.published = cursor.position;
        }
    }

    /// Consumer: whether anything was claimed that has not been taken, or head and tail cannot be right.
    pub fn is_odd(&self, cursor: &Cursor) -> bool {
        self.tail.0.load(Ordering::Relaxed) != cursor.position
            || self.head.0.load(Ordering::Relaxed) != cursor.published
    }

    /// Consumer, after a long wait: what is the matter with the next slot? Skips it when its sender has ended, and mends
    /// what somebody damaged. `claims` are those of all processes; `ended` tells who has ended.
    pub fn examine<'a>(
        &self,
        cursor: &mut Cursor,
        ring: RingId,
        claims: impl Iterator<Item = (Peer, &'a AtomicU64)>,
        ended: impl Fn(Peer) -> bool,
    ) -> Gap {
        let position = cursor.position;
        let head = self.head.0.load(Ordering::Relaxed);
        if head != cursor.published {
            self.head.0.store(cursor.published, Ordering::Release);
            return Gap::Corrupt("the head of a packet queue", head);
        }
        let tail = self.tail.0.load(Ordering::Acquire);
        let lead = tail.wrapping_sub(position);
        if lead == 0 || self.waiting(position) {
            return Gap::None;
        }
        if lead > SLOTS as u64 {
            // Producers claim nothing on such a tail, but it may have been mended since.
            let to = (position, Ordering::Relaxed, Ordering::Relaxed);
            let _ = self.tail.0.compare_exchange(tail, to.0, to.1, to.2);
            return Gap::Corrupt("the tail of a packet queue", tail);
        }
        let wanted = ring.claimed(position);
        let mut dead = None;
        for (peer, claim) in claims {
            if claim.load(Ordering::Acquire) == wanted {
                if !ended(peer) {
                    return Gap::Writing;
                }
                dead = Some(peer);
            }
        }
        // The one who was after it may have filled it meanwhile.
        if self.waiting(position) {
            return Gap::None;
        }
        let first = &self.slot(position).words[0];
        let found = first.load(Ordering::Relaxed);
        first.store(sequence(position).into(), Ordering::Relaxed);
        self.passed(cursor);
        match dead {
            Some(peer) => Gap::Ended(peer),
            None => Gap::Corrupt("a packet slot's first word", found),
        }
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
