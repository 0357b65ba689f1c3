//! Tails: bulk data that nobody asked for, sent along with an ordered frame that tells of them. The receiver bounds what it
//! takes in by grants; where the bytes go is found out when they are here, not before.

use super::RailNumber;
use super::bulk::{Get, Name, Serve};
use super::frame::Header;
use super::link::{Link, LinkError};
use std::collections::VecDeque;

/// Tails of one peer that may be incomplete, counted from the oldest such on.
pub const TAILS_MAX: usize = 256;

/// One tail that comes.
enum Entry {
    /// It must exist, since a later one does.
    Unheard,
    /// And whether its bytes have a place.
    Coming(Get, bool),
    /// All of it was here.
    Over,
}

/// Tails that come, by number.
#[derive(Default)]
pub(super) struct Tails {
    base: u32,
    entries: VecDeque<Entry>,
    /// Bytes that the peer may send in all, and those it has announced.
    granted: u64,
    announced: u64,
}

impl Tails {
    fn entry(&mut self, number: u32) -> Option<&mut Entry> {
        self.entries.get_mut(number.wrapping_sub(self.base) as usize)
    }

    /// The tail `number`, if some of it is missing.
    pub fn coming(&mut self, number: u32) -> Option<&mut Get> {
        match self.entry(number)? {
            Entry::Coming(get, _) => Some(get),
            _ => None,
        }
    }

    pub fn all_coming(&mut self) -> impl Iterator<Item = (u32, &mut Get)> {
        let base = self.base;
        self.entries
            .iter_mut()
            .enumerate()
            .filter_map(move |(at, entry)| match entry {
                Entry::Coming(get, _) => Some((base.wrapping_add(at as u32), get)),
                _ => None,
            })
    }

    fn over(&mut self, number: u32) {
        if let Some(entry) = self.entry(number) {
            *entry = Entry::Over;
        }
        while let Some(Entry::Over) = self.entries.front() {
            self.entries.pop_front();
            self.base = self.base.wrapping_add(1);
        }
    }
}

impl Link {
    /// `len` bytes at `address` follow what was pushed so far, under the number that is returned. The memory is read
    /// until the peer has all ([`Kind::BulkDone`](super::Kind::BulkDone) with [`TAIL`](super::TAIL)) or
    /// [`Link::move_tail`] is called. The caller keeps to what the peer granted and to [`TAILS_MAX`].
    pub fn send_tail(&mut self, address: usize, len: u32) -> u32 {
        let number = self.next_tail;
        self.next_tail = number.wrapping_add(1);
        self.serves.push_back(Serve {
            name: Name::tail(number),
            key: 0,
            address,
            len: u64::from(len),
            next: 0,
            again: Default::default(),
            flying: VecDeque::new(),
        });
        number
    }

    /// How far the next tail would be from the oldest that the peer may not have all of.
    pub fn tails_ahead(&self) -> usize {
        let oldest = self.serves.iter().find(|serve| serve.name.tail);
        oldest.map_or(0, |oldest| {
            self.next_tail.wrapping_sub(oldest.name.number) as usize
        })
    }

    /// The bytes of a tail lie at `address` now; where they were is not read any more.
    pub fn move_tail(&mut self, number: u32, address: usize) {
        let name = Name::tail(number);
        let Some(serve) = self.serves.iter_mut().find(|serve| serve.name == name) else {
            return;
        };
        let before = std::mem::replace(&mut serve.address, address);
        for rail in &mut self.rails {
            rail.offer.clear();
            if let Some(super::rail::Rest::Bulk {
                name: of,
                address: Some(at),
                ..
            }) = &mut rail.rest
                && *of == name
            {
                *at = *at - before + address;
            }
        }
    }

    /// The peer may send so many bytes more in tails.
    pub fn grant_tails(&mut self, bytes: u64) {
        self.tails.granted += bytes;
    }

    /// Tail `number` of `len` bytes is known to come, by its first frame or otherwise. True: some of it is missing.
    ///
    /// # Errors
    /// It cannot be.
    pub fn expect_tail(&mut self, number: u32, len: u32) -> Result<bool, LinkError> {
        let bad = |why| Err(LinkError::Tail { number, len, why });
        let ahead = number.wrapping_sub(self.tails.base) as i32;
        if ahead < 0 {
            return Ok(false);
        }
        if ahead as usize >= TAILS_MAX {
            return bad("too many before it are not complete");
        }
        while self.tails.entries.len() <= ahead as usize {
            self.tails.entries.push_back(Entry::Unheard);
        }
        match &self.tails.entries[ahead as usize] {
            Entry::Over => Ok(false),
            Entry::Coming(get, _) if get.len == u64::from(len) => Ok(true),
            Entry::Coming(..) => bad("it had another length before"),
            Entry::Unheard if len == 0 => bad("there is nothing in it"),
            Entry::Unheard => {
                let announced = self.tails.announced + u64::from(len);
                if announced > self.tails.granted {
                    return bad("it is more than was granted");
                }
                self.tails.announced = announced;
                let get = Get {
                    address: 0,
                    len: u64::from(len),
                    have: Default::default(),
                    owed: 0,
                    run: (0, 0),
                };
                self.tails.entries[ahead as usize] = Entry::Coming(get, false);
                Ok(true)
            }
        }
    }

    /// The bytes of tail `number`, which is expected, go to `address` from now on; with `None` they are thrown away.
    /// What is here already has gone to the place before.
    pub fn land_tail(&mut self, number: u32, address: Option<usize>) {
        if let Some(Entry::Coming(get, placed)) = self.tails.entry(number) {
            *placed = address.is_some();
            get.address = address.unwrap_or(0);
        }
    }

    /// As [`Link::place`], for a tail.
    pub fn place_tail(&self, number: u32, offset: u64, len: u64) -> Option<usize> {
        let at = number.wrapping_sub(self.tails.base) as usize;
        match self.tails.entries.get(at)? {
            Entry::Coming(get, true) if offset.checked_add(len)? <= get.len => {
                Some(get.address + offset as usize)
            }
            _ => None,
        }
    }

    /// As [`Link::on_bulk_header`], for a frame of a tail.
    ///
    /// # Errors
    /// A tail that cannot be.
    pub fn on_tail_header(&mut self, rail: RailNumber, header: &Header, now: u64) -> Result<(), LinkError> {
        self.rails[rail].frames_in += 1;
        self.on_ack(header.ack, now)?;
        self.on_bytes(rail, now);
        self.expect_tail(header.object, header.seq).map(drop)
    }

    /// The whole payload of a frame of a tail is in its place, or thrown away. True: that completed the tail.
    ///
    /// # Errors
    /// A tail in too many pieces.
    pub fn on_tail(&mut self, rail: RailNumber, header: &Header, now: u64) -> Result<bool, LinkError> {
        self.on_bytes(rail, now);
        self.ack_rail = rail;
        let Some(get) = self.tails.coming(header.object) else {
            self.counters.duplicates += 1;
            return Ok(false);
        };
        let fresh = get.add(header)?;
        let complete = get.have.total() == get.len;
        if complete {
            self.tails.over(header.object);
        }
        self.part_came(Name::tail(header.object), complete, fresh, now);
        Ok(complete)
    }
}
