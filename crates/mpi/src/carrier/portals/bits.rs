//! Context, source and tag in the 64 match bits, and what goes along as header data.
//!
//! ```text
//! match bits, from bit 0:  tag (T) | source, rank in its group (R) | lane (2) | count (C) | leader (R) | kind (1)
//! header data:             bits 0..8 class of the datatype, 8..64 the sender's name for the message: place (24) | use (27) | queue (3) | in parts (1) | announced (1)
//! ```
//!
//! A communicator's context is its leader, how many the leader has led, and the lane (`world/lifetime.rs`): R is as wide as the
//! job's ranks need, and what they leave is shared by tag and count, T = 31 and C = 24 with 8 ranks, T = 19 and C = 22
//! with 1024. `MPI_TAG_UB` is 2^T - 1.
//!
//! Cost class: *fast path*.

use crate::engine::context::ANY_TAG;
use crate::engine::envelope::{COUNT_BITS, LANE_BITS};

/// The sender keeps the message where it is to be had: it is long, or synchronous.
pub const KEPT: u64 = 1 << 63;

/// In the sender's name for a message that it keeps: there is no match entry for it yet; whoever wants it has to say so first.
pub const ANNOUNCED: u64 = 1 << 55;
/// In the sender's name for a message: it is longer than agents can hold, only its header came, and it is fetched in parts
/// ([`parts`](super::parts)).
pub const IN_PARTS: u64 = 1 << 54;
/// The sender's name for a message.
pub const NAME: u64 = (1 << 56) - 1;

/// Places of messages under way at their sender, as many as the name of one has room for.
pub const PLACES: usize = 1 << PLACE;
const PLACE: u32 = 24;
const USE: u32 = 27;
const QUEUE: u32 = 3;

/// The sender's name for the message at this place, for the `nth` time that a place is used, with room for its events in this queue.
pub fn name_of(place: u32, nth: u32, queue: u8, flags: u64) -> u64 {
    let nth = u64::from(nth) & ones(USE);
    u64::from(place) | nth << PLACE | u64::from(queue) << (PLACE + USE) | flags
}

/// The place in a name.
pub fn place_of_name(name: u64) -> u32 {
    (name & ones(PLACE)) as u32
}

/// The queue in a name.
pub fn queue_of_name(name: u64) -> u64 {
    name >> (PLACE + USE) & ones(QUEUE)
}

/// Counts that are kept apart if the tag can do with fewer bits.
const COUNTS: u32 = 22;
/// The fewest bits of a tag: MPI asks for 15.
const LEAST_TAG: u32 = 16;
/// The most ranks that leave bits to tag and count.
pub const MOST_RANKS: u32 = 1 << 20;

/// Widths of the fields, the same at all ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    tag: u32,
    rank: u32,
    count: u32,
}

/// Whose message, in what, called what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub context: u64,
    pub source: u32,
    pub tag: i32,
}

const fn ones(bits: u32) -> u64 {
    (1 << bits) - 1
}

impl Layout {
    /// For a job of `size` ranks, at most [`MOST_RANKS`].
    pub fn new(size: u32) -> Self {
        let rank = (u32::BITS - (size.max(2) - 1).leading_zeros()).min(20);
        let rest = 63 - LANE_BITS - 2 * rank;
        let tag = rest.saturating_sub(COUNTS).clamp(LEAST_TAG, 31);
        let count = (rest - tag).min(COUNT_BITS);
        Self { tag, rank, count }
    }

    /// The largest tag.
    pub fn tag_ub(&self) -> i32 {
        ones(self.tag) as i32
    }

    /// Whether a tag is one of the program's that can be told apart, or the library's.
    #[inline(always)]
    pub fn admits(&self, context: u64, tag: i32) -> bool {
        tag as u64 <= ones(self.tag) || tag < 0 || context & ones(LANE_BITS) != 0
    }

    /// Bits that count the communicators of one leader.
    pub fn count_bits(&self) -> u32 {
        self.count
    }

    fn source_at(&self) -> u32 {
        self.tag
    }

    fn lane_at(&self) -> u32 {
        self.tag + self.rank
    }

    /// A tag as it travels. Negative ones are the library's, in lanes of their own.
    #[inline(always)]
    fn tag_bits(&self, tag: i32) -> u64 {
        let low = tag as u64 & ones(self.tag);
        if tag < 0 { low | 1 << (self.tag - 1) } else { low }
    }

    /// A tag as it is listed when a message came before its receive; any tag stays that.
    #[inline(always)]
    pub fn listed(&self, tag: i32) -> i32 {
        if tag == ANY_TAG {
            return tag;
        }
        self.tag_bits(tag) as i32
    }

    /// The match bits of a message, but for [`KEPT`].
    #[inline(always)]
    pub fn of(&self, name: &Name) -> u64 {
        let (lane, rest) = (name.context & ones(LANE_BITS), name.context >> LANE_BITS);
        let (count, leader) = (rest & ones(self.count), rest >> COUNT_BITS);
        let context = lane | count << LANE_BITS | leader << (LANE_BITS + self.count);
        self.tag_bits(name.tag) | u64::from(name.source) << self.source_at() | context << self.lane_at()
    }

    /// The reverse.
    #[inline(always)]
    pub fn name(&self, bits: u64) -> Name {
        let context = (bits & !KEPT) >> self.lane_at();
        let lane = context & ones(LANE_BITS);
        let count = context >> LANE_BITS & ones(self.count);
        let leader = context >> (LANE_BITS + self.count);
        Name {
            context: (leader << COUNT_BITS | count) << LANE_BITS | lane,
            source: (bits >> self.source_at() & ones(self.rank)) as u32,
            tag: (bits & ones(self.tag)) as i32,
        }
    }

    /// What a receive does not look at.
    #[inline(always)]
    pub fn ignore(&self, any_source: bool, any_tag: bool) -> u64 {
        let mut ignore = KEPT;
        if any_source {
            ignore |= ones(self.rank) << self.source_at();
        }
        if any_tag {
            ignore |= ones(self.tag);
        }
        ignore
    }
}

/// The header data of a message.
#[inline(always)]
pub fn header(class: u8, id: u64) -> u64 {
    u64::from(class) | id << 8
}

/// Class and name.
#[inline(always)]
pub fn of_header(data: u64) -> (u8, u64) {
    (data as u8, data >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_bits_in_jobs_of_every_size() {
        for size in [1, 2, 3, 8, 9, 1000, 1024, 65_536, MOST_RANKS] {
            let layout = Layout::new(size);
            assert!(
                layout.tag_ub() >= 32_767 && layout.count >= 5,
                "{size}: {layout:?}"
            );
            assert!(1 + 2 * layout.rank + LANE_BITS + layout.tag + layout.count <= 64);
            let counts = [0, 1, ones(layout.count)];
            for leader in [0, u64::from(size - 1)] {
                for count in counts {
                    for (lane, tag) in [(0, 0), (1, 7), (2, layout.tag_ub()), (3, layout.tag_ub() / 2)] {
                        let name = Name {
                            context: (leader << COUNT_BITS | count) << LANE_BITS | lane,
                            source: size - 1,
                            tag,
                        };
                        let bits = layout.of(&name);
                        assert_eq!(bits & KEPT, 0);
                        assert_eq!(layout.name(bits | KEPT), name);
                    }
                }
            }
        }
        assert_eq!(Layout::new(8).tag_ub(), i32::MAX);
    }

    #[test]
    fn names_of_messages_hold_what_was_put_in() {
        for flags in [0, IN_PARTS, ANNOUNCED, IN_PARTS | ANNOUNCED] {
            for (place, nth, queue) in [(0, 0, 0), (PLACES as u32 - 1, u32::MAX, 7), (77, 1, 5)] {
                let name = name_of(place, nth, queue, flags);
                assert_eq!(name & !NAME, 0);
                assert_eq!(name & (IN_PARTS | ANNOUNCED), flags);
                assert_eq!(
                    (place_of_name(name), queue_of_name(name)),
                    (place, u64::from(queue))
                );
            }
        }
    }

    #[test]
    fn fields_do_not_touch() {
        let layout = Layout::new(300);
        let name = Name {
            context: 5 << LANE_BITS | 1,
            source: 299,
            tag: 77,
        };
        let bits = layout.of(&name);
        let other = |change: Name| layout.of(&change) ^ bits;
        assert_eq!(
            other(Name {
                tag: layout.tag_ub(),
                ..name
            }) & !layout.ignore(false, true),
            0
        );
        assert_eq!(other(Name { source: 0, ..name }) & !layout.ignore(true, false), 0);
        let all = layout.ignore(true, true);
        assert_ne!(
            other(Name {
                context: 5 << LANE_BITS,
                ..name
            }) & !all,
            0
        );
        assert_ne!(
            other(Name {
                context: 6 << LANE_BITS | 1,
                ..name
            }) & !all,
            0
        );
    }

    #[test]
    fn the_librarys_tags_stay_apart_from_hashes() {
        let layout = Layout::new(2);
        let number = Name {
            context: 3,
            source: 0,
            tag: i32::MIN | 5,
        };
        assert_ne!(layout.of(&number), layout.of(&Name { tag: 5, ..number }));
        assert_eq!(layout.name(layout.of(&number)).tag, layout.listed(number.tag));
    }
}
