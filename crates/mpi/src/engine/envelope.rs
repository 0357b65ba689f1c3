//! What a message is matched by, whatever carries it.

/// Contexts are 48 bits wide: who leads the communicator, which of those that it has led this is, and the lane.
pub const CONTEXT_MASK: u64 = (1 << 48) - 1;

/// Bits of a context number that say which messages of a communicator it carries: its lowest.
pub const LANE_BITS: u32 = 2;

/// Bits above those that count what one leader has handed out.
pub const COUNT_BITS: u32 = 30;

/// The sender waits for the match.
pub const FLAG_SYNC: u8 = 1;

/// The envelope of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub context: u64,
    pub source: u32,
    pub tag: i32,
    pub class: u8,
    pub flags: u8,
}

/// The number, of process 0, of the context on which processes tell each other of failures (`world/failures.rs`).
pub const FAILURES_COUNT: u64 = 4;
/// The lane of it that messages come on.
pub const FAILURES: u64 = FAILURES_COUNT << LANE_BITS;
