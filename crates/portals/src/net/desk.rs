//! Long bodies that both sides copy: the receiver reads from the sender's memory while the sender writes to the receiver's.
//!
//! The sender keeps a line of shared memory for such a message, its *desk*. The body falls into parts, and whoever has
//! time claims the next one by adding to a word of that line, copies it, and adds one to another word. The receiver claims from the
//! front and the sender from the back, so that when the same memory is used again each finds in its caches what it had there. The
//! receiver is done when as many are copied as there are, and so a sender that computes holds nobody up: it claims nothing. Where the
//! body goes in the receiver's memory, its length and that of a part come in a packet from the receiver alone
//! ([`Op::Grant`](super::wire::Op::Grant)), which the fabric vouches for, and not from the line, which others may write.

use super::moves;
use super::{NetTunables, Owner};
use crate::memory::Segment;
use farpost_fabric::{Access, Completion, Direction, Fabric, LINE_BYTES, LocalMemory, Peer, Permission};

/// The desk of a process.
pub const DESK: u32 = 0x7b00_0001;
/// Lines of it.
const LINES: u16 = 64;
/// Parts that one call copies before it looks after the rest of the world.
const PARTS: u32 = 4;

/// Words of a line, as offsets. Of the parts claimed the low half counts those from the front, the high half those from the back.
const CLAIMED: usize = 0;
const COPIED: usize = 8;
const FAILED: usize = 16;

/// A body of ours whose receiver lets us copy parts of it.
#[derive(Clone, Copy)]
pub struct Offer {
    pub peer: Peer,
    pub line: u16,
    /// Where it lies here.
    pub body: usize,
    /// How much of it is wanted.
    pub bytes: u64,
    /// Bytes of a part.
    pub chunk: u64,
    /// Where it goes there.
    pub address: u64,
}

/// The sender's side.
pub struct Desk<F: Fabric> {
    memory: Option<F::Export>,
    free: Vec<u16>,
    open: Vec<Offer>,
    least: usize,
}

impl<F: Fabric> Desk<F> {
    pub fn new(fabric: &F, owner: Owner, mapped: bool, config: &NetTunables) -> Self {
        let memory = mapped
            .then(|| {
                let everyone = Access::Everyone(Permission::ReadWrite);
                fabric
                    .export(owner.segment(DESK), usize::from(LINES) * LINE_BYTES, everyone)
                    .ok()
            })
            .flatten();
        let lines = if memory.is_some() { LINES } else { 0 };
        Self {
            memory,
            free: (0..lines).rev().collect(),
            open: Vec::with_capacity(usize::from(LINES)),
            least: config.shared as usize,
        }
    }

    /// A line for a body of that length, if it is to have one.
    pub fn take_line(&mut self, length: usize) -> Option<u16> {
        if length < self.least {
            return None;
        }
        let memory = self.memory.as_ref()?;
        let line = self.free.pop()?;
        Line { memory, line }.clear();
        Some(line)
    }

    /// The message is over.
    pub fn give_line(&mut self, line: u16) {
        self.open.retain(|offer| offer.line != line);
        self.free.push(line);
    }

    pub fn open(&mut self, offer: Offer) {
        if self.open.iter().all(|open| open.line != offer.line) {
            self.open.push(offer);
        }
    }

    #[inline(always)]
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Copy parts of what is open. True: some were copied.
    pub fn serve(&mut self, fabric: &F) -> bool {
        let Some(memory) = &self.memory else {
            return false;
        };
        let mut moved = false;
        self.open.retain(|offer| {
            let line = Line {
                memory,
                line: offer.line,
            };
            for _ in 0..PARTS {
                let left = line.copy_part(Side::Back, (offer.bytes, offer.chunk), |at, len| {
                    let part = Segment {
                        address: offer.body.wrapping_add(at as usize),
                        len: len as usize,
                    };
                    let to = (offer.address.wrapping_add(at), 0);
                    let copied = moves::transfer(fabric, (offer.peer, Direction::Put), part, to);
                    if let Ok(Completion::Pending(ticket)) = copied {
                        fabric.cancel_transfer(ticket);
                    }
                    matches!(copied, Ok(Completion::Done))
                });
                if !left {
                    return false;
                }
                moved = true;
            }
            true
        });
        moved
    }
}

/// Which part somebody claims next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first one left: the receiver.
    Front,
    /// The last one left: the sender.
    Back,
}

/// A line, seen by either side.
pub struct Line<'a, M> {
    memory: &'a M,
    line: u16,
}

impl<'a, M: LocalMemory> Line<'a, M> {
    /// The line that a peer named, if its desk has it.
    pub fn of(memory: &'a M, line: u64) -> Option<Self> {
        let line = u16::try_from(line).ok().filter(|line| *line < LINES)?;
        (usize::from(LINES) * LINE_BYTES <= memory.len()).then_some(Self { memory, line })
    }

    fn at(&self, word: usize) -> usize {
        usize::from(self.line) * LINE_BYTES + word
    }

    /// Owner: for a new message, before its receiver knows of the line.
    fn clear(&self) {
        for word in [CLAIMED, COPIED, FAILED] {
            self.memory.store(self.at(word), 0);
        }
    }

    /// Copy the next part that nobody copies, by `copy`, which gets where it begins and its bytes and says whether it is there.
    /// False: none is left.
    pub fn copy_part(
        &self,
        side: Side,
        (bytes, chunk): (u64, u64),
        copy: impl FnOnce(u64, u64) -> bool,
    ) -> bool {
        let Some((at, len)) = self.claim(side, bytes, chunk) else {
            return false;
        };
        if !copy(at, len) {
            self.memory.store(self.at(FAILED), 1);
        }
        self.memory.fetch_add(self.at(COPIED), 1);
        true
    }

    /// The next part that nobody copies: where it begins and its bytes.
    fn claim(&self, side: Side, bytes: u64, chunk: u64) -> Option<(u64, u64)> {
        let parts = bytes.div_ceil(chunk);
        let halves = |claimed: u64| (claimed & 0xffff_ffff, claimed >> 32);
        // Who only asks, which a receiver does while the sender copies the last part, does not count: its half would run over
        // into the other some day, and parts that others write would be claimed again.
        let (front, back) = halves(self.memory.load(self.at(CLAIMED)));
        if front + back >= parts {
            return None;
        }
        let one = match side {
            Side::Front => 1,
            Side::Back => 1 << 32,
        };
        let (front, back) = halves(self.memory.fetch_add(self.at(CLAIMED), one));
        let left = parts.checked_sub(front + back)?.checked_sub(1)?;
        let at = match side {
            Side::Front => front * chunk,
            Side::Back => (front + left) * chunk,
        };
        Some((at, chunk.min(bytes - at)))
    }

    /// What has become of a body of which no part is left to copy.
    pub fn outcome(&self, bytes: u64, chunk: u64) -> Outcome {
        if self.memory.load(self.at(COPIED)) < bytes.div_ceil(chunk) {
            Outcome::UnderWay
        } else if self.memory.load(self.at(FAILED)) != 0 {
            Outcome::Failed
        } else {
            Outcome::Whole
        }
    }
}

/// How far a body is of which all parts are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The other side still copies.
    UnderWay,
    /// Nobody copies any more, and some part is not there.
    Failed,
    /// All is there.
    Whole,
}

/// Bytes of a part of a body that both copy: each side gets some, and each is worth a system call.
pub fn part(bytes: u64, most: u64) -> u64 {
    (bytes / 8)
        .clamp(32 << 10, most.max(32 << 10))
        .next_multiple_of(4096)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use farpost_fabric::RemoteMemory;
    use farpost_shm::ShmTunables;
    use farpost_shm::conformance::shm_ends;

    #[test]
    fn who_waits_for_the_last_part_claims_nothing() {
        let ends = shm_ends(1, &ShmTunables::default());
        let len = usize::from(LINES) * LINE_BYTES;
        let access = Access::Everyone(Permission::ReadWrite);
        let memory = ends[0]
            .export(farpost_fabric::SegmentId(DESK), len, access)
            .expect("a desk");
        let line = Line::of(&memory, 3).expect("a line");
        line.clear();
        let body = (10, 4);
        assert!(line.copy_part(Side::Front, body, |at, len| (at, len) == (0, 4)));
        assert_eq!(line.claim(Side::Back, 10, 4), Some((8, 2)));
        assert!(line.copy_part(Side::Front, body, |at, len| (at, len) == (4, 4)));
        let claimed = memory.load(line.at(CLAIMED));
        for side in [Side::Front, Side::Back] {
            for _ in 0..1000 {
                assert!(!line.copy_part(side, body, |_, _| unreachable!("claimed")));
            }
        }
        assert_eq!(memory.load(line.at(CLAIMED)), claimed);
        assert_eq!(line.outcome(10, 4), Outcome::UnderWay);
        memory.fetch_add(line.at(COPIED), 1);
        assert_eq!(line.outcome(10, 4), Outcome::Whole);
    }
}

#[cfg(all(test, loom))]
#[path = "desk_model.rs"]
#[allow(unsafe_code)] // Loom's cells, which report races.
mod model;
