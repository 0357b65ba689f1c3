//! Eager zero-copy payloads: bulk data that was not asked for, sent along with an ordered frame that announces it. The receiver
//! bounds them by grants; where the bytes go is decided when they arrive.

use super::RailNumber;
use super::bulk::{Get, Serve, TransferId, ZCOPY_MAX, ZcopyEntry};
use super::frame::Header;
use super::link::{Link, LinkError};

impl Link {
    /// `len` bytes at `address` follow what was pushed so far, under the number that is returned. The memory is read
    /// until the peer has all ([`FrameKind::BulkDone`](super::FrameKind::BulkDone) with [`ZCOPY`](super::ZCOPY)) or
    /// [`Link::move_zcopy`] is called. The caller keeps to what the peer granted and to [`ZCOPY_MAX`].
    pub fn send_zcopy(&mut self, address: usize, len: u32) -> u32 {
        let number = self.next_zcopy;
        self.next_zcopy = number.wrapping_add(1);
        self.serves
            .push_back(Serve::new(TransferId::zcopy(number), 0, address, u64::from(len)));
        number
    }

    /// Payloads from the oldest that the peer may not have all of up to the next.
    pub fn zcopy_ahead(&self) -> usize {
        let oldest = self.serves.iter().find(|serve| serve.name.zcopy);
        oldest.map_or(0, |oldest| {
            self.next_zcopy.wrapping_sub(oldest.name.number) as usize
        })
    }

    /// The bytes of an eager zero-copy payload lie at `address` now; where they were is not read any more.
    pub fn move_zcopy(&mut self, number: u32, address: usize) {
        let name = TransferId::zcopy(number);
        let Some(serve) = self.serves.iter_mut().find(|serve| serve.name == name) else {
            return;
        };
        let before = std::mem::replace(&mut serve.address, address);
        for rail in &mut self.rails {
            rail.offer.clear();
            if let Some(super::rail::PartialFrame::Bulk {
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

    /// The peer may send so many bytes more in eager zero-copy payloads.
    pub fn grant_zcopy(&mut self, bytes: u64) {
        self.zcopy.granted += bytes;
    }

    /// Payload `number` of `len` bytes is known to come, by its first frame or otherwise. True: some of it is missing.
    ///
    /// # Errors
    /// It cannot be.
    pub fn expect_zcopy(&mut self, number: u32, len: u32) -> Result<bool, LinkError> {
        let bad = |why| Err(LinkError::Zcopy { number, len, why });
        let ahead = number.wrapping_sub(self.zcopy.base) as i32;
        if ahead < 0 {
            return Ok(false);
        }
        if ahead as usize >= ZCOPY_MAX {
            return bad("too many before it are not complete");
        }
        while self.zcopy.entries.len() <= ahead as usize {
            self.zcopy.entries.push_back(ZcopyEntry::Unseen);
        }
        match &self.zcopy.entries[ahead as usize] {
            ZcopyEntry::Over => Ok(false),
            ZcopyEntry::Coming(get, _) if get.len == u64::from(len) => Ok(true),
            ZcopyEntry::Coming(..) => bad("it had another length before"),
            ZcopyEntry::Unseen if len == 0 => bad("there is nothing in it"),
            ZcopyEntry::Unseen => {
                let announced = self.zcopy.announced + u64::from(len);
                if announced > self.zcopy.granted {
                    return bad("it is more than was granted");
                }
                self.zcopy.announced = announced;
                let get = Get::new(0, u64::from(len));
                self.zcopy.entries[ahead as usize] = ZcopyEntry::Coming(get, false);
                Ok(true)
            }
        }
    }

    /// The bytes of zero-copy payload `number`, which is expected, go to `address` from now on; with `None` they are thrown away.
    /// What is here already has gone to the place before.
    pub fn land_zcopy(&mut self, number: u32, address: Option<usize>) {
        if let Some(ZcopyEntry::Coming(get, placed)) = self.zcopy.entry(number) {
            *placed = address.is_some();
            get.address = address.unwrap_or(0);
        }
    }

    /// As [`Link::place`], for an eager zero-copy payload.
    pub fn place_zcopy(&self, number: u32, offset: u64, len: u64) -> Option<usize> {
        let at = number.wrapping_sub(self.zcopy.base) as usize;
        match self.zcopy.entries.get(at)? {
            ZcopyEntry::Coming(get, true) if offset.checked_add(len)? <= get.len => {
                Some(get.address + offset as usize)
            }
            _ => None,
        }
    }

    /// As [`Link::on_bulk_header`], for a frame of an eager zero-copy payload.
    ///
    /// # Errors
    /// An eager zero-copy payload that cannot be.
    pub fn on_zcopy_header(&mut self, rail: RailNumber, header: &Header, now: u64) -> Result<(), LinkError> {
        self.rails[rail].frames_in += 1;
        self.on_ack(header.ack, now)?;
        self.on_bytes(rail, now);
        self.expect_zcopy(header.object, header.seq).map(drop)
    }

    /// The whole payload of a frame of an eager zero-copy payload is in its place, or thrown away. True: that completed the zero-copy payload.
    ///
    /// # Errors
    /// An eager zero-copy payload in too many pieces.
    pub fn on_zcopy(&mut self, rail: RailNumber, header: &Header, now: u64) -> Result<bool, LinkError> {
        self.on_bytes(rail, now);
        self.ack_rail = rail;
        let Some(get) = self.zcopy.coming(header.object) else {
            self.counters.duplicates += 1;
            return Ok(false);
        };
        let fresh = get.add(header)?;
        let complete = get.have.total() == get.len;
        if complete {
            self.zcopy.over(header.object);
        }
        self.part_came(TransferId::zcopy(header.object), complete, fresh, now);
        Ok(complete)
    }
}
