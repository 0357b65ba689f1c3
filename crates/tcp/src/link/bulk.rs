//! Bulk transfers of a link: those we serve from our memory, asked for or as eager zero-copy payloads, and those that come here.

use super::frame::{FrameKind, Header, ZCOPY};
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

/// A transfer by its ticket, which the asker chose, or an eager zero-copy payload by its number, which its sender chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TransferId {
    pub zcopy: bool,
    pub number: u32,
}

impl TransferId {
    pub fn ticket(number: u32) -> Self {
        Self { zcopy: false, number }
    }

    pub fn zcopy(number: u32) -> Self {
        Self { zcopy: true, number }
    }

    /// Of a bulk frame.
    pub fn of(header: &Header) -> Self {
        Self {
            zcopy: header.flags == ZCOPY,
            number: header.object,
        }
    }

    /// A header of `kind` about it.
    pub fn header(self, kind: FrameKind) -> Header {
        Header {
            flags: if self.zcopy { ZCOPY } else { 0 },
            object: self.number,
            ..Header::new(kind)
        }
    }
}

/// A transfer that the peer asked for, or an eager zero-copy payload of ours.
pub(super) struct Serve {
    pub name: TransferId,
    /// Of an eager zero-copy payload: nothing.
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
    pub fn new(name: TransferId, key: u64, address: usize, len: u64) -> Self {
        let (again, flying) = Default::default();
        Self {
            name,
            key,
            address,
            len,
            next: 0,
            again,
            flying,
        }
    }

    /// Bytes that wait for a rail.
    pub fn unsent(&self) -> u64 {
        self.len - self.next + self.again.total()
    }
}

/// A transfer that we asked for, or an eager zero-copy payload that comes.
pub(super) struct Get {
    pub address: usize,
    pub len: u64,
    pub have: Ranges,
    /// Bytes that came since the last acknowledgement.
    pub owed: u64,
    /// The run that the last chunk belongs to.
    pub run: (u64, u64),
}

impl Get {
    pub fn new(address: usize, len: u64) -> Self {
        let (have, owed, run) = Default::default();
        Self {
            address,
            len,
            have,
            owed,
            run,
        }
    }
}

/// Free what a queue has beyond its elements: so many bytes.
pub(super) fn shrink<T>(queue: &mut VecDeque<T>) -> usize {
    let before = queue.capacity();
    queue.shrink_to_fit();
    (before - queue.capacity()) * size_of::<T>()
}
