//! Bulk transfers of a link: those we serve from our memory and those we asked for.

use super::reorder::Ranges;
use std::collections::VecDeque;

/// Bytes of a transfer on their way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub offset: u64,
    pub len: u32,
    pub rail: u8,
    /// The rail was busy when this was sent.
    pub full: bool,
    /// The rail's counters when this was sent.
    pub delivered: u64,
    pub delivered_at: u64,
}

/// A transfer that the peer asked for.
pub(super) struct Serve {
    pub ticket: u32,
    pub key: u64,
    pub address: usize,
    pub len: u64,
    /// Never sent from here on.
    pub next: u64,
    /// To be sent again.
    pub again: Ranges,
    pub flying: VecDeque<Chunk>,
}

impl Serve {
    /// Bytes that wait for a rail.
    pub fn unsent(&self) -> u64 {
        self.len - self.next + self.again.total()
    }
}

/// A transfer that we asked for.
pub(super) struct Get {
    pub address: usize,
    pub len: u64,
    pub have: Ranges,
    /// Bytes that came since the last acknowledgement.
    pub owed: u64,
    /// The run that the last chunk belongs to.
    pub run: (u64, u64),
}
