//! Bulk transfers of a link: those we serve from our memory, asked for or as eager zero-copy payloads, and those that come here.

use super::frame::{FrameKind, Header, ZCOPY};
use super::reorder::Ranges;
use std::collections::VecDeque;

/// Every rail, for [`Link::serve_over`](super::Link::serve_over).
pub const ALL_RAILS: u32 = u32::MAX;

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
    /// The rails that it is striped over, a bit each, as long as one of them works.
    pub rails: u32,
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
            rails: ALL_RAILS,
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

/// Eager zero-copy payloads of one peer that may be incomplete, counted from the oldest such on.
pub const ZCOPY_MAX: usize = 256;

/// One incoming payload.
pub(super) enum ZcopyEntry {
    /// Nothing of it came yet, but a later one did.
    Unseen,
    /// Part of it is missing; and whether its bytes have a place.
    Coming(Get, bool),
    /// All of it was here.
    Over,
}

/// Incoming eager zero-copy payloads, by number.
#[derive(Default)]
pub(super) struct IncomingZcopy {
    pub base: u32,
    pub entries: VecDeque<ZcopyEntry>,
    /// Bytes that the peer may send in all, and those it has announced.
    pub granted: u64,
    pub announced: u64,
}

impl IncomingZcopy {
    pub fn entry(&mut self, number: u32) -> Option<&mut ZcopyEntry> {
        self.entries.get_mut(number.wrapping_sub(self.base) as usize)
    }

    /// The zero-copy payload `number`, if some of it is missing.
    pub fn coming(&mut self, number: u32) -> Option<&mut Get> {
        match self.entry(number)? {
            ZcopyEntry::Coming(get, _) => Some(get),
            _ => None,
        }
    }

    pub fn all_coming(&mut self) -> impl Iterator<Item = (u32, &mut Get)> {
        let base = self.base;
        self.entries
            .iter_mut()
            .enumerate()
            .filter_map(move |(at, entry)| match entry {
                ZcopyEntry::Coming(get, _) => Some((base.wrapping_add(at as u32), get)),
                _ => None,
            })
    }

    /// Payloads that there is memory for.
    pub fn kept(&self) -> usize {
        self.entries.capacity()
    }

    /// Give back what a burst took: so many bytes.
    pub fn shrink(&mut self) -> usize {
        shrink(&mut self.entries)
    }

    pub fn over(&mut self, number: u32) {
        if let Some(entry) = self.entry(number) {
            *entry = ZcopyEntry::Over;
        }
        while let Some(ZcopyEntry::Over) = self.entries.front() {
            self.entries.pop_front();
            self.base = self.base.wrapping_add(1);
        }
    }
}
