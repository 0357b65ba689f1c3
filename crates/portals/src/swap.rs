//! The memory of a get-put at its target.

use crate::memory::{SWAP_BYTES, Segments, user};

/// A get-put under way: what came, then what goes back.
pub struct Swap {
    pub token: u64,
    /// The bytes come, to be exchanged with these; `None`: they have been.
    with: Option<Segments>,
    bytes: Box<[u8; SWAP_BYTES]>,
    len: usize,
}

impl Swap {
    /// One of `len` bytes, at most [`SWAP_BYTES`], in the memory of one that is over, if there is such.
    pub fn new(token: u64, len: u64, with: Segments, over: Option<Swap>) -> Self {
        Self {
            token,
            with: Some(with),
            bytes: over.map_or_else(|| Box::new([0; SWAP_BYTES]), |over| over.bytes),
            len: len as usize,
        }
    }

    /// Where the bytes come to, and are sent from.
    pub fn memory(&mut self) -> Segments {
        Segments::one(self.bytes.as_mut_ptr().expose_provenance(), self.len)
    }

    /// They have come with the header, perhaps with more of them.
    pub fn fill(&mut self, bytes: &[u8]) {
        self.bytes[..self.len].copy_from_slice(&bytes[..self.len]);
    }

    /// The bytes are here: exchange them. What is to be sent back; `None`: that has been done.
    pub fn exchange(&mut self) -> Option<Segments> {
        let with = self.with.take()?;
        user::swap(&with, &mut self.bytes[..self.len]);
        Some(self.memory())
    }

    pub fn is_exchanged(&self) -> bool {
        self.with.is_none()
    }
}
