//! What is kept of eager zero-copy payloads, and buffers for those that no receive has matched.

use super::heap::Rest;
use std::collections::{HashMap, VecDeque};

/// Polls by the protocol above before a payload is buffered: one finds the line, one matches a receive posted meanwhile.
const POLLS: u8 = 2;

/// Spare buffers, and the longest of them.
const SPARE_BUFFERS: usize = 8;
const SPARE_MAX: usize = 1 << 20;

/// Where an incoming payload goes.
pub enum Destination {
    /// Not known: the protocol above may poll so many times more.
    Undecided(u8),
    /// To the receiver's buffer; or it is there.
    Direct,
    /// To a buffer of the fabric, and from there to the address, if there is one, when it is complete.
    Buffered(Vec<u8>, Option<usize>),
    /// Nowhere: it is discarded.
    Dropped,
}

pub struct IncomingPayload {
    pub len: u32,
    pub complete: bool,
    pub destination: Destination,
}

impl IncomingPayload {
    pub fn new(len: u32) -> Self {
        let destination = Destination::Undecided(POLLS);
        Self {
            len,
            complete: false,
            destination,
        }
    }
}

pub struct OutgoingPayload {
    pub number: u32,
    pub address: usize,
    pub len: usize,
    /// A copy, when the user's memory was wanted back.
    pub copy: Option<Vec<u8>>,
}

/// The eager zero-copy payloads between this process and one peer.
#[derive(Default)]
pub struct PeerZcopy {
    /// Bytes that the peer has granted in all, and those sent.
    pub granted: u64,
    pub sent: u64,
    pub out: VecDeque<OutgoingPayload>,
    pub came: HashMap<u32, IncomingPayload>,
    /// Bytes that the peer may send in all, and the grant that it was sent last.
    pub allowed: u64,
    pub advertised: u64,
}

impl PeerZcopy {
    /// Give back what a burst took.
    pub fn shrink(&mut self) {
        self.out.shrink_to_fit();
        self.came.shrink_to_fit();
    }
}

/// Buffers for payloads that no receive has matched.
#[derive(Default)]
pub struct SpareBuffers {
    buffers: Vec<Vec<u8>>,
    rest: Rest,
}

impl SpareBuffers {
    /// A buffer of at least `len` bytes, which may have any values.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let fits = self.buffers.iter().position(|buffer| buffer.len() >= len);
        match fits {
            Some(at) => self.buffers.swap_remove(at),
            None => vec![0; len.next_power_of_two()],
        }
    }

    pub fn give(&mut self, buffer: Vec<u8>) {
        self.rest.used = true;
        if self.buffers.len() < SPARE_BUFFERS && buffer.len() <= SPARE_MAX {
            self.buffers.push(buffer);
        }
    }

    /// Free them if none was used for [`REST`]: so many bytes, and when to look again.
    pub fn rest(&mut self, now: u64) -> (usize, u64) {
        if self.buffers.is_empty() {
            return (0, u64::MAX);
        }
        if self.rest.is_over(now) {
            return (
                std::mem::take(&mut self.buffers).iter().map(Vec::len).sum(),
                u64::MAX,
            );
        }
        (0, self.rest.look_at())
    }
}

/// What to do with a frame of an eager zero-copy payload.
#[derive(PartialEq, Eq)]
pub enum ZcopyAction {
    /// Read it.
    Read,
    /// First let the protocol above poll.
    Wait,
}

#[cfg(test)]
mod tests {
    use super::super::heap::REST;
    use super::*;

    #[test]
    fn spare_buffers_are_freed_after_a_rest() {
        let mut spare = SpareBuffers::default();
        assert_eq!(spare.rest(0), (0, u64::MAX), "there are none");
        let buffer = spare.take(1000);
        spare.give(buffer);
        let (_, first) = spare.rest(5);
        assert_eq!(first, 5 + REST);
        assert_eq!(spare.rest(first - 1), (0, first));
        let buffer = spare.take(1000);
        spare.give(buffer);
        let (_, second) = spare.rest(first);
        assert_eq!(second, first + REST, "used meanwhile");
        assert_eq!(spare.rest(second), (1024, u64::MAX));
        assert!(spare.buffers.is_empty());
    }
}
