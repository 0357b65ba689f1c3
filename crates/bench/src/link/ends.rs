//! A way between two ranks: what each has, and what it can do.

use crate::abi::{BenchError, Result};

/// The largest message between the two ranks.
pub const LARGEST: usize = 1 << 20;
/// The largest message of Portals and of MPI by postboxes: the paper's figures end there.
pub const HUGE: usize = 8 << 20;
/// Bytes that a size may lie above that: NetPIPE perturbs sizes.
pub const MOST_PERTURBED: usize = 64;
/// Bytes of a request and of its answer.
pub const REQUEST: usize = 16;

/// Memory at the start of a cache line.
pub struct Block(Vec<Words>);

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Words([u8; 64]);

impl Block {
    /// `bytes` and the rest of the last line, all written once, so that no page is touched first inside a timed loop.
    pub fn new(bytes: usize) -> Self {
        Self(vec![Words([1; 64]); bytes.div_ceil(64)])
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `Words` are 64 initialised bytes without padding, next to one another.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 64) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * 64) }
    }
}

/// One of two ranks, and its memory.
pub struct Ends {
    pub rank: usize,
    /// What is sent is the beginning of this.
    pub out: Block,
    /// What has arrived last.
    pub into: Block,
}

impl Ends {
    /// With `bytes` each way.
    pub fn new(rank: usize, bytes: usize) -> Self {
        Self {
            rank,
            out: Block::new(bytes),
            into: Block::new(bytes),
        }
    }
}

/// A way between two ranks.
pub trait Link {
    /// This rank, what it will send, and what has arrived.
    fn ends(&mut self) -> &mut Ends;

    /// Whether the receiver fetches what the sender shows: then `receive` gets, and `send` waits until the other has got.
    fn pulls(&self) -> bool {
        false
    }

    /// Send and receive one message of each, at the same time.
    fn both(&mut self, bytes: usize) -> Result<()> {
        self.send(bytes)?;
        self.flush()?;
        self.receive(bytes)
    }

    /// Messages have so many bytes from here on; nothing is under way.
    fn prepare(&mut self, _bytes: usize) -> Result<()> {
        Ok(())
    }

    /// Send the first `bytes` of what it has to send, waiting for room.
    fn send(&mut self, bytes: usize) -> Result<()>;

    /// Wait for the next message.
    fn receive(&mut self, bytes: usize) -> Result<()>;

    /// Whatever was sent is to leave now, if the interface keeps something back.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Keep the network going.
    fn poll(&mut self) -> Result<()> {
        Ok(())
    }

    /// Rank 0: one request; takes answers in only where there is no room for it. Returns the answers taken in.
    fn ask(&mut self) -> Result<u64> {
        Err(BenchError::Usage("this layer has no requests".into()))
    }

    /// Rank 0: answers that are there, at most one where they can be taken one by one.
    fn take(&mut self) -> Result<u64> {
        self.ask()
    }

    /// Rank 1: answer what has been asked; returns how many.
    fn answer(&mut self) -> Result<u64> {
        self.ask()
    }

    /// Take leave.
    fn close(self) -> Result<()>
    where
        Self: Sized;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_lines() {
        let mut block = Block::new(65);
        assert_eq!(block.bytes().len(), 128);
        assert!(block.bytes_mut().as_ptr().addr().is_multiple_of(64));
    }
}
