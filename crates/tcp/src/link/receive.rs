//! What comes in.

use super::bulk::{Get, TransferId};
use super::frame::{FrameError, FrameKind, GetRequest, HEADER_BYTES, Header};
use super::link::{Arrival, Link, LinkError};
use super::log::NOWHERE;
use super::rail::{PartialFrame, RailState};
use super::{BULK_ACKS_MAX, LINK_LOG_MAX, PIECES_LIMIT, RailNumber};

const MS: u64 = 1_000_000;

/// Bytes of bulk data between acknowledgements while one rail is in use.
const BULK_ACK_BYTES: u64 = 512 << 10;
/// How long an acknowledgement of bulk data waits for more.
const BULK_ACK_DELAY: u64 = MS;

impl Link {
    /// Read and check the next header that came by `rail`. It stays the next one until [`Link::on_frame`],
    /// [`Link::on_bulk_header`] or [`Link::on_zcopy_header`] has taken it.
    ///
    /// # Errors
    /// It is not what the peer sent next. Drop the rail's connection.
    #[inline]
    pub fn parse(&self, rail: RailNumber, bytes: &[u8; HEADER_BYTES]) -> Result<Header, LinkError> {
        let rail = &self.rails[rail];
        match &rail.checks {
            Some(checks) => Ok(Header::parse(bytes, &checks.receive, rail.frames_in)?),
            None => Err(FrameError::Code.into()),
        }
    }

    /// The number that the next frame by `rail` has on its connection.
    pub fn frames_in(&self, rail: RailNumber) -> u64 {
        self.rails[rail].frames_in
    }

    /// The number that the next ordered frame has.
    #[cfg(fuzzing)]
    pub fn expected(&self) -> u32 {
        self.received as u32
    }

    /// Whether a frame that came says more than that the peer lives: a ping may acknowledge what makes room.
    #[inline]
    pub fn is_news(&self, header: &Header) -> bool {
        !matches!(header.kind, FrameKind::Ping | FrameKind::Pong) || header.ack != self.log.first()
    }

    /// A whole frame, other than bulk data, came by `rail`. On [`Arrival::Deliver`], apply it, then empty
    /// [`Link::next_held`].
    ///
    /// # Errors
    /// The peer did something that it must not. Drop the rail's connection and count it; the link itself is
    /// unharmed.
    #[inline]
    pub fn on_frame(
        &mut self,
        rail: RailNumber,
        header: &Header,
        payload: &[u8],
        now: u64,
    ) -> Result<Arrival, LinkError> {
        debug_assert_eq!(payload.len(), header.len as usize);
        self.rails[rail].frames_in += 1;
        self.on_ack(header.ack, now)?;
        self.on_bytes(rail, now);
        if !header.kind.ordered() {
            self.on_signal(rail, header, now)?;
            return Ok(Arrival::Signal);
        }
        self.ack_rail = rail;
        if header.seq != self.received as u32 {
            return self.out_of_turn(header, payload);
        }
        self.take_turn(header, payload)?;
        self.ack_owed += header.total() as u64;
        if self.ack_owed >= self.config.tunables.ack_bytes {
            self.ack_due = true;
        } else if self.ack_at == u64::MAX {
            self.ack_at = now + self.config.tunables.ack_delay * MS;
            self.wake_at(self.ack_at);
        }
        Ok(Arrival::Deliver)
    }

    /// Bytes of an unfinished frame came by `rail`: it lives.
    #[inline]
    pub fn on_bytes(&mut self, rail: RailNumber, now: u64) {
        self.rails[rail].heard = now;
        self.last_alive = now;
    }

    /// What comes in order counts as received, and what concerns the link is done.
    #[inline]
    fn take_turn(&mut self, header: &Header, payload: &[u8]) -> Result<(), LinkError> {
        self.received += 1;
        match header.kind {
            FrameKind::BulkGet if GetRequest::parse(payload).is_none() => {
                return Err(LinkError::Payload { kind: header.kind });
            }
            FrameKind::BulkGet if self.serves_ticket(header.object) => {
                return Err(LinkError::Again {
                    ticket: header.object,
                });
            }
            FrameKind::BulkDone => self.end_serve(TransferId::of(header), self.last_alive),
            FrameKind::BulkRefused => {
                self.gets.remove(&header.object);
            }
            FrameKind::Bye => self.bye_heard = true,
            _ => (),
        }
        Ok(())
    }

    #[cold]
    fn out_of_turn(&mut self, header: &Header, payload: &[u8]) -> Result<Arrival, LinkError> {
        let expected = self.received as u32;
        let ahead = header.seq.wrapping_sub(expected) as i32;
        // Whoever sends again wants to know how far we are.
        self.ack_due = true;
        if ahead < 0 {
            self.counters.duplicates += 1;
            return Ok(Arrival::Duplicate);
        }
        // A peer keeps what is not acknowledged in a log that has a bound.
        if self.early.bytes() + header.total() > LINK_LOG_MAX {
            return Err(LinkError::Ahead {
                seq: header.seq,
                expected,
            });
        }
        let number = self.received + ahead as u64;
        if self.early.keep(number, header, payload) {
            self.counters.early += 1;
            Ok(Arrival::Held)
        } else {
            self.counters.duplicates += 1;
            Ok(Arrival::Duplicate)
        }
    }

    /// The next frame whose turn has come among those that came early.
    ///
    /// # Errors
    /// As [`Link::on_frame`].
    #[inline]
    pub fn next_held(&mut self) -> Result<Option<(Header, Vec<u8>)>, LinkError> {
        if self.early.is_empty() {
            return Ok(None);
        }
        self.early.forget_before(self.received);
        let Some((header, payload)) = self.early.take(self.received) else {
            return Ok(None);
        };
        self.take_turn(&header, &payload)?;
        self.ack_due = true;
        Ok(Some((header, payload)))
    }

    /// The peer has all frames before `ack`.
    #[inline]
    pub(super) fn on_ack(&mut self, ack: u32, now: u64) -> Result<(), LinkError> {
        let first = self.log.first();
        let count = ack.wrapping_sub(first);
        if count == 0 || count > 1 << 31 {
            return Ok(());
        }
        if count > self.high.wrapping_sub(first) {
            return Err(LinkError::Ack {
                ack,
                last: self.high.wrapping_sub(1),
            });
        }
        self.save_rests(ack);
        for _ in 0..count {
            let seq = self.log.first();
            let entry = self.log.pop().expect("as many as were sent");
            if entry.rail == NOWHERE {
                continue;
            }
            let rail = usize::from(entry.rail);
            let r = &mut self.rails[rail];
            r.ordered_out -= u64::from(entry.len);
            if let Some((timed, at)) = r.timed
                && timed == seq
            {
                r.timed = None;
                r.round_trip(now.saturating_sub(at));
            }
            self.progressed(rail, now);
        }
        self.log.leave();
        if (self.cursor.wrapping_sub(ack) as i32) < 0 {
            self.cursor = ack;
        }
        Ok(())
    }

    /// Frames before `ack` leave the log; what a transport has half of must stay.
    #[inline]
    fn save_rests(&mut self, ack: u32) {
        for rail in &mut self.rails {
            rail.offer.clear();
            if let Some(PartialFrame::Log { seq, at, len }) = rail.rest
                && (seq.wrapping_sub(ack) as i32) < 0
            {
                rail.saved.clear();
                rail.saved.extend_from_slice(self.log.bytes(at, len));
                rail.rest = Some(PartialFrame::Saved { from: 0 });
            }
        }
    }

    #[cold]
    fn on_signal(&mut self, rail: RailNumber, header: &Header, now: u64) -> Result<(), LinkError> {
        match header.kind {
            FrameKind::Ping => {
                self.rails[rail].pong_due = Some(header.object);
            }
            FrameKind::Pong => {
                if let Some((token, at)) = self.rails[rail].ping
                    && token == header.object
                {
                    self.rails[rail].ping = None;
                    self.rails[rail].round_trip(now.saturating_sub(at));
                    self.progressed(rail, now);
                    self.settle();
                }
            }
            FrameKind::Position => {
                self.rails[rail].ready = true;
                self.settle();
            }
            FrameKind::BulkAck => self.on_bulk_ack(header, now)?,
            _ => (),
        }
        Ok(())
    }

    fn on_bulk_ack(&mut self, header: &Header, now: u64) -> Result<(), LinkError> {
        let (start, end) = (header.offset, header.offset + u64::from(header.seq));
        let Some(serve) = self.serves.iter_mut().find(|s| s.name == TransferId::of(header)) else {
            return Ok(());
        };
        if end > serve.len {
            let (offset, len) = (start, serve.len);
            return Err(LinkError::Range { offset, end, len });
        }
        serve.again.remove(start, end);
        let mut progressed = 0u32;
        let rails = &mut self.rails;
        serve.flying.retain(|chunk| {
            let len = u64::from(chunk.len);
            if chunk.offset < start || chunk.offset + len > end {
                return true;
            }
            let r = &mut rails[usize::from(chunk.rail)];
            r.bulk_out -= len;
            r.speed
                .acknowledged(len, chunk.delivered, chunk.delivered_at, chunk.full, now);
            progressed |= 1 << chunk.rail;
            false
        });
        for rail in 0..self.rails.len() {
            self.rails[rail].offer.clear();
            if progressed & 1 << rail != 0 {
                self.progressed(rail, now);
            }
        }
        Ok(())
    }

    /// Where bytes `offset` to `offset + len` of the transfer `ticket` belong. None: nowhere, read them and throw
    /// them away (the transfer is complete or refused). To be asked again before *every* read into that memory: once
    /// a transfer is complete by way of another rail, its memory is somebody else's.
    pub fn place(&self, ticket: u32, offset: u64, len: u64) -> Option<usize> {
        let get = self.gets.get(&ticket)?;
        (offset.checked_add(len)? <= get.len).then(|| get.address + offset as usize)
    }

    /// A [`FrameKind::BulkData`] header came by `rail`; whether it can be.
    ///
    /// # Errors
    /// A range or a ticket that does not exist.
    pub fn on_bulk_header(&mut self, rail: RailNumber, header: &Header, now: u64) -> Result<(), LinkError> {
        debug_assert_eq!(header.kind, FrameKind::BulkData);
        self.rails[rail].frames_in += 1;
        self.on_ack(header.ack, now)?;
        self.on_bytes(rail, now);
        let end = header.offset + u64::from(header.len);
        match self.gets.get(&header.object) {
            Some(get) if end > get.len => Err(LinkError::Range {
                offset: header.offset,
                end,
                len: get.len,
            }),
            None if (header.object.wrapping_sub(self.next_ticket) as i32) >= 0 => Err(LinkError::Ticket {
                ticket: header.object,
            }),
            _ => Ok(()),
        }
    }

    /// The whole payload of a [`FrameKind::BulkData`] frame is in its place, or thrown away. The ticket, if that
    /// completed its transfer.
    ///
    /// # Errors
    /// A transfer in too many pieces.
    pub fn on_bulk(&mut self, rail: RailNumber, header: &Header, now: u64) -> Result<Option<u32>, LinkError> {
        self.on_bytes(rail, now);
        self.ack_rail = rail;
        let ticket = header.object;
        let Some(get) = self.gets.get_mut(&ticket) else {
            self.counters.duplicates += 1;
            return Ok(None);
        };
        let fresh = get.add(header)?;
        let complete = get.have.total() == get.len;
        if complete {
            self.gets.remove(&ticket);
        }
        self.part_came(TransferId::ticket(ticket), complete, fresh, now);
        Ok(complete.then_some(ticket))
    }

    /// A part of a transfer or an eager zero-copy payload came, of which `fresh` bytes were not there before: acknowledge it now or later.
    pub(super) fn part_came(&mut self, name: TransferId, complete: bool, fresh: u64, now: u64) {
        if complete {
            // Fails only after bye, when the peer waits for nothing.
            let _ = self.push_frame(name.header(FrameKind::BulkDone), &[], true);
            return;
        }
        let several = self.rails.iter().filter(|r| r.state == RailState::Up).count() > 1;
        let get = match name.zcopy {
            true => self.zcopy.coming(name.number),
            false => self.gets.get_mut(&name.number),
        };
        let Some(get) = get else { return };
        if fresh == 0 || several || get.owed >= BULK_ACK_BYTES {
            self.counters.duplicates += u64::from(fresh == 0);
            acknowledge(&mut self.bulk_acks, name, get);
        } else if self.bulk_ack_at == u64::MAX {
            self.bulk_ack_at = now + BULK_ACK_DELAY;
            self.wake_at(self.bulk_ack_at);
        }
    }

    /// Acknowledge what came of all transfers.
    pub(super) fn acknowledge_gets(&mut self) {
        for (&ticket, get) in &mut self.gets {
            if get.owed > 0 {
                acknowledge(&mut self.bulk_acks, TransferId::ticket(ticket), get);
            }
        }
        for (number, get) in self.zcopy.all_coming() {
            if get.owed > 0 {
                acknowledge(&mut self.bulk_acks, TransferId::zcopy(number), get);
            }
        }
    }
}

impl Get {
    /// The bytes of a frame are here; how many of them were not before.
    pub(super) fn add(&mut self, header: &Header) -> Result<u64, LinkError> {
        let start = header.offset;
        let (fresh, run) = self.have.add(start, start + u64::from(header.len));
        if self.have.runs() > PIECES_LIMIT {
            return Err(LinkError::TooManyPieces { limit: PIECES_LIMIT });
        }
        self.owed += fresh;
        self.run = run;
        Ok(fresh)
    }
}

/// Queue an acknowledgement of the run that the last chunk belongs to.
fn acknowledge(
    acks: &mut std::collections::VecDeque<(TransferId, u64, u32)>,
    name: TransferId,
    get: &mut Get,
) {
    get.owed = 0;
    let (start, end) = get.run;
    let start = start.max(end.saturating_sub(u64::from(u32::MAX)));
    let len = (end - start) as u32;
    if let Some(last) = acks.back_mut()
        && last.0 == name
        && start <= last.1
        && last.1 + u64::from(last.2) <= end
    {
        *last = (name, start, len);
        return;
    }
    // What is dropped here is acknowledged by the end of the transfer.
    if acks.len() < BULK_ACKS_MAX {
        acks.push_back((name, start, len));
    }
}
