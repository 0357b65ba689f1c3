//! What a message is matched by, whatever carries it.

/// Contexts are 48 bits wide.
pub const CONTEXT_MASK: u64 = (1 << 48) - 1;

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
