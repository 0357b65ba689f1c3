//! What goes onto a rail next, and what became of it.
//!
//! Nothing is promised by offering: the transport takes some bytes of an offer, what it began is committed to the
//! rail, and the rest is offered again, here or on another rail.

use super::bulk::{Chunk, TransferId};
use super::frame::{FrameKind, HEADER_BYTES, Header};
use super::link::Link;
use super::rail::{OfferedItem, PartialFrame, Rail, RailState, Signal};
use super::{OFFER_ITEMS, RailNumber};

/// Sent in place of memory that was withdrawn, for a chunk that the peer ignores.
static ZEROS: [u8; 16 << 10] = [0; 16 << 10];

/// Bytes offered at most, not counting the last frame.
const OFFER_BYTES: usize = 1 << 20;

/// What a rail whose speed is not known may have on its way, while other rails live.
const FIRST_OUT: u64 = 512 << 10;

/// A piece of what is to be sent.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Bytes of the link's.
    Bytes(&'a [u8]),
    /// Memory given to [`Link::serve`].
    Memory { address: usize, len: usize },
}

impl Piece<'_> {
    /// Bytes.
    pub fn len(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Memory { len, .. } => *len,
        }
    }

    /// Whether there are none. Pieces offered are never empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a rail is to send, in order: an iterator over its pieces.
pub struct Gather<'a> {
    link: &'a Link,
    rail: &'a Rail,
    /// 0: the rest; then the items, one or two steps each.
    item: usize,
    step: usize,
    done: usize,
}

impl Gather<'_> {
    /// Whether there is nothing to send now.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rail.rest.is_none() && self.rail.offer.is_empty()
    }
}

impl<'a> Gather<'a> {
    fn of_rest(&mut self, rest: &'a PartialFrame) -> Option<Piece<'a>> {
        let step = self.step;
        self.step += 1;
        match (rest, step) {
            (PartialFrame::Signal { bytes, from }, 0) => Some(Piece::Bytes(&bytes[*from..])),
            (PartialFrame::Log { at, len, .. }, 0) => Some(Piece::Bytes(self.link.log.bytes(*at, *len))),
            (PartialFrame::Saved { from }, 0) => Some(Piece::Bytes(&self.rail.saved[*from..])),
            (PartialFrame::Bulk { header, from, .. }, 0) if *from < HEADER_BYTES => {
                Some(Piece::Bytes(&header[*from..]))
            }
            (PartialFrame::Bulk { .. }, 0) => self.of_rest(rest),
            (
                PartialFrame::Bulk {
                    address: Some(address),
                    len,
                    ..
                },
                1,
            ) => Some(Piece::Memory {
                address: *address,
                len: *len,
            }),
            (
                PartialFrame::Bulk {
                    address: None, len, ..
                },
                _,
            ) if self.done < *len => {
                let take = ZEROS.len().min(len - self.done);
                self.done += take;
                Some(Piece::Bytes(&ZEROS[..take]))
            }
            _ => None,
        }
    }

    fn of_item(&mut self, item: &'a OfferedItem) -> Option<Piece<'a>> {
        let step = self.step;
        self.step += 1;
        match (item, step) {
            (OfferedItem::Signal { bytes, .. }, 0) => Some(Piece::Bytes(bytes)),
            (OfferedItem::Ordered { at, len }, 0) => Some(Piece::Bytes(self.link.log.bytes(*at, *len))),
            (OfferedItem::Bulk { header, .. }, 0) => Some(Piece::Bytes(header)),
            (OfferedItem::Bulk { address, len, .. }, 1) => Some(Piece::Memory {
                address: *address,
                len: *len as usize,
            }),
            _ => None,
        }
    }
}

impl<'a> Iterator for Gather<'a> {
    type Item = Piece<'a>;

    #[inline]
    fn next(&mut self) -> Option<Piece<'a>> {
        loop {
            if self.item == 0 {
                if let Some(rest) = &self.rail.rest
                    && let Some(piece) = self.of_rest(rest)
                {
                    return Some(piece);
                }
            } else {
                let item = self.rail.offer.get(self.item - 1)?;
                if let Some(piece) = self.of_item(item) {
                    return Some(piece);
                }
            }
            self.item += 1;
            self.step = 0;
        }
    }
}

impl Link {
    /// What `rail` is to send now. After it was given to the transport, call [`Link::sent`] before anything else.
    #[inline]
    pub fn next_send(&mut self, rail: RailNumber, now: u64) -> Gather<'_> {
        self.offer(rail, now);
        if self.rails[rail].offer.is_empty() {
            let offer = std::mem::take(&mut self.rails[rail].offer);
            self.config.spare.give_offer(offer);
        }
        Gather {
            link: self,
            rail: &self.rails[rail],
            item: 0,
            step: 0,
            done: 0,
        }
    }

    /// Whether `rail` has something to send now.
    #[inline]
    pub fn wants(&mut self, rail: RailNumber, now: u64) -> bool {
        !self.next_send(rail, now).is_empty()
    }

    #[inline]
    fn offer(&mut self, rail: RailNumber, now: u64) {
        let r = &mut self.rails[rail];
        r.offer.clear();
        r.offered = 0;
        if r.state == RailState::Down {
            return;
        }
        if r.offer.capacity() == 0 {
            r.offer = self.config.spare.take_offer();
        }
        let signals = r.position_due || r.ping_due || r.pong_due.is_some() || self.ack_due;
        if signals || !self.bulk_acks.is_empty() {
            self.offer_signals(rail);
        }
        let lead = self.lead == Some(rail);
        let r = &self.rails[rail];
        if !r.ready || !(lead || r.state == RailState::Up) {
            return;
        }
        let mut room = OFFER_BYTES;
        if lead {
            let mut seq = self.cursor;
            while seq != self.log.end() && self.rails[rail].offer.len() < OFFER_ITEMS && room > 0 {
                let (at, len, frames) = self.log.run(seq, room);
                let r = &mut self.rails[rail];
                if let Some(checks) = &r.checks {
                    let number = r.frames_out + r.offered;
                    self.log.seal(seq, frames, r.connection, number, &checks.send);
                }
                r.offered += u64::from(frames);
                r.offer.push(OfferedItem::Ordered { at, len });
                seq = seq.wrapping_add(frames);
                room = room.saturating_sub(len);
            }
        }
        if !self.serves.is_empty() {
            self.offer_bulk(rail, room, now);
        }
    }

    #[cold]
    fn offer_signals(&mut self, rail: RailNumber) {
        let ack = self.received as u32;
        let acks = self.ack_target() == Some(rail);
        let token = if self.rails[rail].ping_due {
            self.token()
        } else {
            0
        };
        let r = &mut self.rails[rail];
        let put = |r: &mut Rail, what, header: Header| {
            let bytes = r.seal(Header { ack, ..header }.emit());
            r.offer.push(OfferedItem::Signal { bytes, what, ack });
        };
        if r.position_due {
            put(r, Signal::Position, Header::new(FrameKind::Position));
        }
        if let Some(object) = r.pong_due {
            put(r, Signal::Pong, Header::of(FrameKind::Pong, object, 0));
        }
        if r.ping_due {
            put(r, Signal::Ping(token), Header::of(FrameKind::Ping, token, 0));
        }
        if acks {
            for &(name, offset, seq) in self.bulk_acks.iter().take(4) {
                let header = name.header(FrameKind::BulkAck);
                put(
                    r,
                    Signal::BulkAck,
                    Header {
                        offset,
                        seq,
                        ..header
                    },
                );
            }
            if self.ack_due && self.bulk_acks.is_empty() {
                put(r, Signal::Ack, Header::new(FrameKind::Ack));
            }
        }
    }

    /// The rail by which acknowledgements go.
    fn ack_target(&self) -> Option<RailNumber> {
        if self.rails[self.ack_rail].state == RailState::Up {
            return Some(self.ack_rail);
        }
        self.lead
            .or_else(|| (0..self.rails.len()).find(|&i| self.rails[i].state != RailState::Down))
    }

    fn offer_bulk(&mut self, rail: RailNumber, mut room: usize, now: u64) {
        let working = self.working_rails();
        let usable = working.count_ones();
        let whole = self.config.tunables.chunk;
        // How much waits matters only where rails share it.
        let unsent: u64 = match usable {
            0 | 1 => u64::MAX,
            _ => self.serves.iter().map(|s| s.unsent()).sum(),
        };
        let ack = self.received as u32;
        let mut offered = 0;
        let mut offer = std::mem::take(&mut self.rails[rail].offer);
        let lead = self.lead == Some(rail);
        'all: for serve in &self.serves {
            // An eager zero-copy payload follows its line, by the same rail: what overtakes the line finds nobody who waits for it.
            if serve.name.zcopy && !lead {
                continue;
            }
            // Over the rails that it may use, or, when none of them works, over any.
            let (rails, usable) = match working & serve.rails {
                0 => (working, usable),
                rails => (rails, rails.count_ones()),
            };
            let narrow = rails != working;
            if narrow && rails >> rail & 1 == 0 {
                continue;
            }
            let before = offered;
            let (mut at, mut end, mut again) = match serve.again.first() {
                Some((start, end)) => (start, end, true),
                None => (serve.next, serve.len, false),
            };
            loop {
                if at == end {
                    let following = if again { serve.again.after(end) } else { None };
                    match following {
                        Some((start, stop)) => (at, end) = (start, stop),
                        None if again && serve.next < serve.len => {
                            (at, end, again) = (serve.next, serve.len, false);
                        }
                        None => break,
                    }
                }
                if offer.len() >= OFFER_ITEMS || room == 0 {
                    break 'all;
                }
                let left = match narrow {
                    true => serve.unsent() - (offered - before),
                    false => unsent - offered,
                };
                let chunk = if usable <= 1 {
                    2 * whole
                } else {
                    // Smaller towards the end, so that all rails end together.
                    whole.min((left / (4 * usable as u64)).max(whole / 8))
                };
                let len = chunk.min(end - at);
                if usable > 1 && !self.may_take((rail, rails), offered, len, left, now) {
                    // The next one may go by other rails.
                    if narrow {
                        break;
                    }
                    break 'all;
                }
                let header = Header {
                    len: len as u32,
                    ack,
                    offset: at,
                    seq: if serve.name.zcopy { serve.len as u32 } else { 0 },
                    ..serve.name.header(FrameKind::BulkData)
                };
                offer.push(OfferedItem::Bulk {
                    header: self.rails[rail].seal(header.emit()),
                    name: serve.name,
                    offset: at,
                    len: len as u32,
                    address: serve.address + at as usize,
                    again,
                });
                at += len;
                offered += len;
                room = room.saturating_sub(len as usize);
            }
        }
        self.rails[rail].offer = offer;
    }

    /// Whether a rail should take `len` more bytes, with `extra` already offered and `left` waiting for any of the `rails`:
    /// not if it has enough on its way, nor if the others would be through sooner.
    fn may_take(&self, (rail, rails): (RailNumber, u32), extra: u64, len: u64, left: u64, now: u64) -> bool {
        let r = &self.rails[rail];
        let out = r.bulk_out + extra;
        let Some(rate) = r.speed.rate(now) else {
            return out == 0 || out + len <= FIRST_OUT;
        };
        // Long enough that a peer that is not scheduled for a while does not look like a slow rail: that would make the
        // limit smaller, and the rail look slower yet.
        let span = (2 * r.rtt + 20_000_000) as f64 / 1e9;
        let limit = ((rate * span) as u64).max(2 * FIRST_OUT);
        if out > 0 && out + len > limit {
            return false;
        }
        let (mut all, mut flying, mut fastest) = (0.0, 0, 0.0f64);
        for (i, other) in self.rails.iter().enumerate() {
            if other.state != RailState::Up || !other.ready || rails >> i & 1 == 0 {
                continue;
            }
            let Some(speed) = other.speed.rate(now) else {
                return true;
            };
            all += speed;
            flying += other.bulk_out + if i == rail { extra } else { 0 };
            fastest = fastest.max(speed);
        }
        // Its share by speed of all that is and will be on its way, and the fastest one when it has nothing to do.
        let share = (left + flying + len) as f64 / all;
        (out == 0 && rate >= fastest) || (out + len) as f64 / rate <= share
    }

    /// The transport took the first `bytes` bytes of what [`Link::next_send`] offered for `rail`.
    ///
    /// # Panics
    /// When that is more than was offered.
    pub fn sent(&mut self, rail: RailNumber, bytes: usize, now: u64) {
        if bytes > 0 {
            self.rails[rail].written_at = now;
            self.rails[rail].carried.sent += bytes as u64;
        }
        let mut left = self.advance_rest(rail, bytes);
        if left == 0 {
            let offer = std::mem::take(&mut self.rails[rail].offer);
            self.config.spare.give_offer(offer);
            return;
        }
        if !self.rails[rail].waiting() {
            self.rails[rail].quiet_since = now;
        }
        let mut offer = std::mem::take(&mut self.rails[rail].offer);
        for item in offer.drain(..) {
            if left == 0 {
                break;
            }
            match item {
                OfferedItem::Signal { bytes, what, ack } => {
                    self.rails[rail].frames_out += 1;
                    self.signal_sent(rail, what, ack, now);
                    if left < HEADER_BYTES {
                        self.rails[rail].rest = Some(PartialFrame::Signal { bytes, from: left });
                    }
                    left -= left.min(HEADER_BYTES);
                }
                OfferedItem::Ordered { at, len } => {
                    self.ordered_sent(rail, at, len.min(left), now);
                    left -= left.min(len);
                }
                OfferedItem::Bulk {
                    header,
                    name,
                    offset,
                    len,
                    address,
                    again,
                } => {
                    self.rails[rail].frames_out += 1;
                    self.chunk_sent(rail, name, offset, len, again, now);
                    let total = HEADER_BYTES + len as usize;
                    if left < total {
                        let from = left.min(HEADER_BYTES);
                        let skip = left - from;
                        self.rails[rail].rest = Some(PartialFrame::Bulk {
                            header,
                            from,
                            name,
                            address: Some(address + skip),
                            len: len as usize - skip,
                        });
                    }
                    left -= left.min(total);
                }
            }
        }
        assert_eq!(left, 0, "more sent than offered");
        self.config.spare.give_offer(offer);
        let r = &self.rails[rail];
        if r.waiting() {
            let at = r.quiet_since + self.limit(rail);
            self.wake_at(at);
        }
    }

    /// Take `bytes` off the rail's unfinished frame; what is left of them.
    fn advance_rest(&mut self, rail: RailNumber, bytes: usize) -> usize {
        let r = &mut self.rails[rail];
        let Some(rest) = &mut r.rest else {
            return bytes;
        };
        let remains = match rest {
            PartialFrame::Signal { from, .. } => HEADER_BYTES - *from,
            PartialFrame::Log { len, .. } => *len,
            PartialFrame::Saved { from } => r.saved.len() - *from,
            PartialFrame::Bulk { from, len, .. } => HEADER_BYTES - *from + *len,
        };
        if bytes >= remains {
            r.rest = None;
            return bytes - remains;
        }
        match rest {
            PartialFrame::Signal { from, .. } | PartialFrame::Saved { from } => *from += bytes,
            PartialFrame::Log { at, len, .. } => {
                *at += bytes as u64;
                *len -= bytes;
            }
            PartialFrame::Bulk {
                from, address, len, ..
            } => {
                let head = bytes.min(HEADER_BYTES - *from);
                *from += head;
                let body = bytes - head;
                *len -= body;
                if let Some(address) = address {
                    *address += body;
                }
            }
        }
        0
    }

    fn signal_sent(&mut self, rail: RailNumber, what: Signal, ack: u32, now: u64) {
        let r = &mut self.rails[rail];
        match what {
            Signal::Position => r.position_due = false,
            Signal::Pong => r.pong_due = None,
            Signal::Ping(token) => {
                r.ping_due = false;
                r.ping = Some((token, now));
                r.pinged_at = now;
                self.counters.pings += 1;
            }
            Signal::Ack => (),
            Signal::BulkAck => {
                self.bulk_acks.pop_front();
            }
        }
        if ack == self.received as u32 {
            self.ack_due = false;
            self.ack_owed = 0;
            self.ack_at = u64::MAX;
        }
    }

    /// `bytes` bytes of the frames at `at`, which are the next ones, are in the transport.
    #[inline]
    fn ordered_sent(&mut self, rail: RailNumber, at: u64, bytes: usize, now: u64) {
        debug_assert_eq!(self.log.peek(self.cursor).at, at);
        let mut left = bytes;
        while left > 0 {
            let seq = self.cursor;
            let fresh = seq == self.high;
            let entry = self.log.entry(seq);
            entry.rail = rail as u8;
            let (at, len) = (entry.at, entry.len as usize);
            let r = &mut self.rails[rail];
            r.frames_out += 1;
            r.ordered_out += len as u64;
            if fresh {
                self.high = seq.wrapping_add(1);
                if r.timed.is_none() {
                    r.timed = Some((seq, now));
                }
            } else {
                self.counters.frames_again += 1;
            }
            if left < len {
                let (at, rest) = (at + left as u64, len - left);
                if left < HEADER_BYTES {
                    // Another rail may get it, with another code, while the end of this one's has yet to go.
                    r.saved.clear();
                    r.saved.extend_from_slice(self.log.bytes(at, rest));
                    r.rest = Some(PartialFrame::Saved { from: 0 });
                } else {
                    r.rest = Some(PartialFrame::Log { seq, at, len: rest });
                }
            }
            left -= left.min(len);
            self.cursor = seq.wrapping_add(1);
        }
    }

    fn chunk_sent(
        &mut self,
        rail: RailNumber,
        name: TransferId,
        offset: u64,
        len: u32,
        again: bool,
        now: u64,
    ) {
        let r = &mut self.rails[rail];
        let full = r.bulk_out > u64::from(len);
        if r.bulk_out == 0 {
            r.speed.delivered_at = now;
        }
        r.bulk_out += u64::from(len);
        let chunk = Chunk {
            offset,
            len,
            rail: rail as u8,
            full,
            delivered: r.speed.delivered,
            delivered_at: r.speed.delivered_at,
        };
        let serve = self
            .serves
            .iter_mut()
            .rev()
            .find(|s| s.name == name)
            .expect("offered");
        let end = offset + u64::from(len);
        if again {
            serve.again.remove(offset, end);
        } else {
            serve.next = end;
        }
        serve.flying.push_back(chunk);
    }
}
