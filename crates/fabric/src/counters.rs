//! Traffic counters per peer, in memory that another process may watch while the job runs.

use crate::{Peer, Register};

/// What is counted, per peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumCount, strum::EnumIter)]
#[repr(usize)]
pub enum Counter {
    /// Postboxes or packets sent.
    Sent = 0,
    /// Bytes of payload sent.
    SentBytes = 1,
    /// Postboxes or packets received.
    Received = 2,
    /// Bytes of payload received.
    ReceivedBytes = 3,
    /// Times a sender found no room.
    Stalls = 4,
    /// Times something was sent again.
    Retries = 5,
    /// Bytes moved in bulk, in one copy.
    BulkBytes = 6,
    /// Values refused because they cannot be right.
    Faults = 7,
}

impl Counter {
    /// Number of counters per peer.
    pub const COUNT: usize = <Self as strum::EnumCount>::COUNT;
}

/// Counting.
#[ambassador::delegatable_trait]
pub trait Counters {
    /// Add `amount` to a counter of mine about `peer`. One writer, any number of watchers.
    fn count(&self, peer: Peer, counter: Counter, amount: u64);
    /// A counter that process `of` keeps about `peer`. Any process of its host may look; from elsewhere it may be 0.
    fn counter(&self, of: Peer, peer: Peer, counter: Counter) -> u64;
    /// Set a register of `of`: of mine, or, where it is my part to write that one, of a process of this host that I act for. Each
    /// has one writer. Where nobody can look, nothing happens.
    fn set_register(&self, of: Peer, register: Register, value: u64) {
        let _ = (of, register, value);
    }
    /// A register of process `of`. Any process of its host may look; from elsewhere, and where none are kept, it is 0.
    fn register(&self, of: Peer, register: Register) -> u64 {
        let _ = (of, register);
        0
    }
    /// Add to a register, as [`set_register`](Self::set_register) has it.
    fn add_register(&self, of: Peer, register: Register, amount: u64) {
        self.set_register(of, register, self.register(of, register).wrapping_add(amount));
    }
}
