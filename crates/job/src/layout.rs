//! Where things are in the job memory. Everything follows from the number of ranks, so a process never
//! follows an offset it read: it computes the layout and compares.
//!
//! The ranks are those of the whole job, also where it spans hosts: each host has a memory of its own of the same
//! layout, of which only the pages of its own ranks are ever touched.
//!
//! ```text
//! 0        header (one page): identity, sizes, placement, the fence
//! 4096     rank table: 512 bytes per rank (state, processes, abort reason)
//! aligned  notices: 2 KiB per rank, written by that rank only: what it waits for
//! aligned  key-value logs: 64 KiB per rank, written by that rank only
//! aligned  region: 1 MiB + 1 MiB per rank (more beyond some 6,500 ranks), zero-filled and sparse, left to the fabric
//! ```

/// First eight bytes of a job memory.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FARPOSTj");
/// Version of the layout; changes whenever anything in this file does.
pub const VERSION: u32 = 7;
/// Most ranks one job memory can hold.
pub const MAX_RANKS: u32 = 16_384;

/// Bytes of the header.
pub const HEADER_LEN: usize = 4096;
/// Bytes of one entry of the rank table.
pub const RANK_STRIDE: usize = 512;
/// Bytes of one rank's notice.
pub const NOTICE_LEN: usize = 2048;
/// Bytes of one rank's key-value log, its header included.
pub const KVS_LOG_LEN: usize = 64 << 10;
/// Alignment of the key-value logs and of the region: the largest base page in use (64 KiB on arm64).
const ALIGN: usize = 64 << 10;
/// Region bytes for the job and again for each rank, at least; and for what each rank has of each other one.
const REGION_UNIT: usize = 1 << 20;
const REGION_OF_PEER: usize = 160;

/// Offsets in the header.
pub mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const HEADER_LEN: usize = 12;
    pub const TOTAL: usize = 16;
    pub const NONCE: usize = 24;
    pub const NONCE_2: usize = 32;
    pub const SIZE: usize = 40;
    pub const UID: usize = 44;
    pub const LAUNCHER: usize = 48;
    pub const ALLOWED_CORES: usize = 52;
    pub const BOUND: usize = 56;
    pub const UNIVERSE: usize = 60;
    pub const RANK_TABLE: usize = 64;
    pub const RANK_STRIDE: usize = 72;
    pub const KVS_LOG_LEN: usize = 76;
    pub const KVS: usize = 80;
    pub const REGION: usize = 88;
    pub const REGION_LEN: usize = 96;
    /// The job's secret, 32 bytes.
    pub const SECRET: usize = 104;
    /// How many of the ranks, the last, are services.
    pub const SERVICES: usize = 136;
    pub const CHECKSUM: usize = 144;
    /// The launcher's lifeline: its descriptor plus 1, and its inode.
    pub const LIFELINE: usize = 152;
    pub const LIFELINE_INODE: usize = 160;
    /// Ranks that have arrived at the current fence; a cache line of its own.
    pub const FENCE_ARRIVED: usize = 256;
    /// Fences completed, times two, and whether a rank has aborted (`meet`); a cache line of its own, the futex word.
    pub const FENCE_DONE: usize = 320;
    /// Ranks that have aborted; waiting ranks look at it.
    pub const ABORTED: usize = 384;
    /// After how many seconds without progress the job is to say what its ranks wait for, plus 1; 0: nobody has said so yet.
    pub const HANG_AFTER: usize = 388;
    /// How often a launcher has asked for the roll-call, and how often it has been given.
    pub const ROLL_ASKED: usize = 392;
    pub const ROLL_GIVEN: usize = 396;
    /// Ranks of this host that are ready for messages, and whether one has aborted (`meet`); a cache line of its own, a futex word.
    pub const READY: usize = 448;
    /// When the last of them was, in nanoseconds of the host's monotonic clock.
    pub const READY_AT: usize = 456;
}

/// Offsets in an entry of the rank table.
pub mod rank {
    pub const STATE: usize = 0;
    /// The process the launcher started for this rank.
    pub const PID: usize = 4;
    /// The process that attached as this rank.
    pub const OWNER: usize = 8;
    pub const CODE: usize = 12;
    pub const APPNUM: usize = 16;
    pub const MESSAGE_LEN: usize = 20;
    /// 1 when what the rank puts while it joins is in its key-value log; a futex word.
    pub const PUBLISHED: usize = 24;
    /// How its process ended, told by the launcher: a wait status with [`ENDED_SET`]; 0 before.
    pub const ENDED: usize = 28;
    pub const ENDED_SET: u32 = 1 << 31;
    pub const MESSAGE: usize = 64;
    /// Longest message, in bytes.
    pub const MESSAGE_MAX: usize = super::RANK_STRIDE - MESSAGE;
}

/// The layout of a job memory for a number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Ranks in the job.
    pub ranks: u32,
    /// Offset of the rank table.
    pub rank_table: usize,
    /// Offset of the notices.
    pub notices: usize,
    /// Offset of the key-value logs.
    pub kvs: usize,
    /// Offset of the fabric's region: also the length of what this crate maps.
    pub region: usize,
    /// Bytes of the region.
    pub region_len: usize,
    /// Bytes of the whole memory.
    pub total: usize,
}

impl Layout {
    /// The layout for `ranks` ranks; `None` outside 1 to [`MAX_RANKS`].
    pub fn for_ranks(ranks: u32) -> Option<Layout> {
        if ranks == 0 || ranks > MAX_RANKS {
            return None;
        }
        let n = ranks as usize;
        let notices = (HEADER_LEN + n * RANK_STRIDE).next_multiple_of(NOTICE_LEN);
        let kvs = (notices + n * NOTICE_LEN).next_multiple_of(ALIGN);
        let region = kvs + n * KVS_LOG_LEN;
        let region_len = REGION_UNIT.max(n * REGION_OF_PEER).next_multiple_of(ALIGN) * (n + 1);
        Some(Layout {
            ranks,
            rank_table: HEADER_LEN,
            notices,
            kvs,
            region,
            region_len,
            total: region + region_len,
        })
    }

    /// Offset of the entry of `rank` in the rank table.
    pub fn rank_entry(&self, rank: u32) -> usize {
        assert!(rank < self.ranks);
        self.rank_table + rank as usize * RANK_STRIDE
    }

    /// Offset of the notice of `rank`.
    pub fn notice(&self, rank: u32) -> usize {
        assert!(rank < self.ranks);
        self.notices + rank as usize * NOTICE_LEN
    }

    /// Offset of the key-value log of `rank`.
    pub fn kvs_log(&self, rank: u32) -> usize {
        assert!(rank < self.ranks);
        self.kvs + rank as usize * KVS_LOG_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_aligned_and_do_not_overlap() {
        for n in [1, 2, 3, 7, 64, 1000, MAX_RANKS] {
            let l = Layout::for_ranks(n).unwrap();
            assert!(l.rank_entry(n - 1) + RANK_STRIDE <= l.notices);
            assert!(l.notice(n - 1) + NOTICE_LEN <= l.kvs);
            assert_eq!(l.kvs_log(n - 1) + KVS_LOG_LEN, l.region);
            assert_eq!(l.region % ALIGN, 0);
            assert_eq!(l.total, l.region + l.region_len);
            let of_each = (1 << 20).max(160 * n as usize).next_multiple_of(64 << 10);
            assert_eq!(l.region_len, of_each * (n as usize + 1));
        }
        assert_eq!(Layout::for_ranks(0), None);
        assert_eq!(Layout::for_ranks(MAX_RANKS + 1), None);
    }
}
