//! A body that two processes copy together: the receiver reads from the sender's memory while the sender writes to the receiver's.
//!
//! The body falls into parts, and whoever has time claims the next one by adding to a word of a line that both map, copies it, and adds
//! one to another word. The receiver claims from the front and the sender from the back, so that when the same memory is used again each
//! finds in its caches what it had there. The receiver is done when as many are copied as there are, and so a sender that computes holds
//! nobody up: it claims nothing.
//!
//! Third processes may map the line too, so that nothing in it says where bytes go or come from, or how many.

use farpost_fabric::LocalMemory;

/// Words of a line, as offsets. Of the parts claimed the low half counts those from the front, the high half those from the back.
const CLAIMED: usize = 0;
const COPIED: usize = 8;
const FAILED: usize = 16;

/// Which part somebody claims next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first one left: the receiver.
    Front,
    /// The last one left: the sender.
    Back,
}

/// How far a body is of which all parts are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// The other side still copies.
    UnderWay,
    /// Nobody copies any more, and some part is not there.
    Failed,
    /// All is there.
    Whole,
}

/// Bytes of a part of a body of so many `bytes`, within limits: each side gets some, and each is worth a system call.
#[must_use]
pub fn part_bytes(bytes: u64, (least, most): (u64, u64)) -> u64 {
    let most = most.max(least);
    // Parts are counted in half a word.
    let countable = bytes >> 31;
    (bytes / 8)
        .clamp(least, most)
        .max(countable)
        .next_multiple_of(4096)
}

/// The first words of a line, seen by either side.
pub struct SharedCopy<'a, M> {
    memory: &'a M,
    offset: usize,
}

impl<'a, M: LocalMemory> SharedCopy<'a, M> {
    /// The line at `offset` of a memory.
    #[must_use]
    pub fn new(memory: &'a M, offset: usize) -> Self {
        Self { memory, offset }
    }

    /// Owner: for a new body, before its receiver knows of the line.
    pub fn clear(&self) {
        for word in [CLAIMED, COPIED, FAILED] {
            self.memory.store(self.offset + word, 0);
        }
    }

    /// Copy the next part of `bytes` bytes, in parts of `chunk`, that nobody has claimed, by `copy`, which gets where it begins and its
    /// bytes and says whether it is there. False: none is left.
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
            self.memory.store(self.offset + FAILED, 1);
        }
        self.memory.fetch_add(self.offset + COPIED, 1);
        true
    }

    /// The next part that nobody has claimed: where it begins and its bytes.
    fn claim(&self, side: Side, bytes: u64, chunk: u64) -> Option<(u64, u64)> {
        let parts = bytes.div_ceil(chunk);
        let halves = |claimed: u64| (claimed & 0xffff_ffff, claimed >> 32);
        // Who only asks, which a receiver does while the sender copies the last part, does not count: its half would run over
        // into the other some day, and parts that others write would be claimed again. Nor does it take the line from anybody.
        let (front, back) = halves(self.memory.load(self.offset + CLAIMED));
        if front + back >= parts {
            return None;
        }
        let one = match side {
            Side::Front => 1,
            Side::Back => 1 << 32,
        };
        let (front, back) = halves(self.memory.fetch_add(self.offset + CLAIMED, one));
        let left = parts.checked_sub(front + back)?.checked_sub(1)?;
        let at = match side {
            Side::Front => front * chunk,
            Side::Back => (front + left) * chunk,
        };
        Some((at, chunk.min(bytes - at)))
    }

    /// What has become of a body of which no part is left to copy.
    #[must_use]
    pub fn outcome(&self, (bytes, chunk): (u64, u64)) -> CopyOutcome {
        if self.memory.load(self.offset + COPIED) < bytes.div_ceil(chunk) {
            CopyOutcome::UnderWay
        } else if self.memory.load(self.offset + FAILED) != 0 {
            CopyOutcome::Failed
        } else {
            CopyOutcome::Whole
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use farpost_fabric::{Access, LINE_BYTES, Permission, RemoteMemory, SegmentId};
    use farpost_shm::ShmTunables;
    use farpost_shm::conformance::shm_ends;

    #[test]
    fn who_waits_for_the_last_part_claims_nothing() {
        let ends = shm_ends(1, &ShmTunables::default());
        let access = Access::Everyone(Permission::ReadWrite);
        let memory = ends[0]
            .export(SegmentId(1), 4 * LINE_BYTES, access)
            .expect("a segment");
        let line = SharedCopy::new(&memory, 3 * LINE_BYTES);
        line.clear();
        let body = (10, 4);
        assert!(line.copy_part(Side::Front, body, |at, len| (at, len) == (0, 4)));
        assert_eq!(line.claim(Side::Back, 10, 4), Some((8, 2)));
        assert!(line.copy_part(Side::Front, body, |at, len| (at, len) == (4, 4)));
        let claimed = memory.load(3 * LINE_BYTES + CLAIMED);
        for side in [Side::Front, Side::Back] {
            for _ in 0..1000 {
                assert!(!line.copy_part(side, body, |_, _| unreachable!("claimed")));
            }
        }
        assert_eq!(memory.load(3 * LINE_BYTES + CLAIMED), claimed);
        assert_eq!(line.outcome(body), CopyOutcome::UnderWay);
        memory.fetch_add(3 * LINE_BYTES + COPIED, 1);
        assert_eq!(line.outcome(body), CopyOutcome::Whole);
    }

    #[test]
    fn parts_are_few_enough_to_count_and_within_limits() {
        let limits = (32 << 10, 256 << 10);
        assert_eq!(part_bytes(100, limits), 32 << 10);
        assert_eq!(part_bytes(1 << 20, limits), 128 << 10);
        assert_eq!(part_bytes(1 << 30, limits), 256 << 10);
        assert_eq!(part_bytes(64 << 10, (1, 1)), 4096);
        for bytes in [1 << 50, 1 << 60] {
            assert!(bytes / part_bytes(bytes, limits) <= 1 << 31);
        }
    }
}
