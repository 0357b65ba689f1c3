//! What the layers above hand to a link.

use super::bulk::{Get, Serve, TransferId};
use super::frame::{
    CONTROL_MAX, FAULT_MAX, FrameKind, GetRequest, HEADER_BYTES, Header, OFFSET_LIMIT, ORDERED_MAX,
    PACKET_BYTES, Refusal,
};
use super::link::{Link, PushError};
use super::rail::PartialFrame;
use farpost_fabric::{LANES, Line};

impl Link {
    /// Queue `bytes` for a segment at `offset`, in as many frames as it takes; all of them or none.
    pub fn push_put(&mut self, segment: u32, offset: u64, bytes: &[u8]) -> Result<(), PushError> {
        assert!(offset + bytes.len() as u64 <= OFFSET_LIMIT, "a put beyond 1 TiB");
        if bytes.len() <= ORDERED_MAX {
            if bytes.is_empty() {
                return Ok(());
            }
            let header = Header::of(FrameKind::Put, segment, offset);
            return self.push(header, bytes);
        }
        let frames = bytes.len().div_ceil(ORDERED_MAX);
        let last = bytes.len() - (frames - 1) * ORDERED_MAX;
        if !self
            .log
            .fits(frames, ORDERED_MAX + HEADER_BYTES, last + HEADER_BYTES)
        {
            return Err(PushError::Full);
        }
        let mut at = offset;
        for piece in bytes.chunks(ORDERED_MAX) {
            let header = Header::of(FrameKind::Put, segment, at);
            self.push_frame(header, piece, true)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Queue a line for a segment at `offset`, a multiple of 64.
    #[inline]
    pub fn push_line(&mut self, segment: u32, offset: u64, line: &Line) -> Result<(), PushError> {
        let bytes = line.map(u64::to_ne_bytes);
        self.push(
            Header::of(FrameKind::PutLine, segment, offset),
            bytes.as_flattened(),
        )
    }

    /// Queue a word for a segment at `offset`, a multiple of 8.
    #[inline]
    pub fn push_word(&mut self, segment: u32, offset: u64, word: u64) -> Result<(), PushError> {
        self.push(
            Header::of(FrameKind::PutWord, segment, offset),
            &word.to_ne_bytes(),
        )
    }

    /// Queue a packet of at most [`PACKET_BYTES`] for a port and priority, by number.
    pub fn push_packet(&mut self, lane: u8, payload: &[u8]) -> Result<(), PushError> {
        assert!(payload.len() <= PACKET_BYTES && usize::from(lane) < LANES);
        self.push(Header::flagged(FrameKind::Packet, lane, 0), payload)
    }

    /// Queue a ring.
    pub fn push_ring(&mut self) -> Result<(), PushError> {
        self.push(Header::new(FrameKind::Ring), &[])
    }

    /// Queue a frame of the fabric's own: at most [`CONTROL_MAX`] bytes, `offset` below [`OFFSET_LIMIT`].
    pub fn push_control(
        &mut self,
        code: u8,
        object: u32,
        offset: u64,
        payload: &[u8],
    ) -> Result<(), PushError> {
        assert!(payload.len() <= CONTROL_MAX && offset < OFFSET_LIMIT);
        self.push(
            Header {
                flags: code,
                object,
                offset,
                ..Header::new(FrameKind::Control)
            },
            payload,
        )
    }

    /// Tell the peer what it did wrong; the text is cut to [`FAULT_MAX`] bytes. Goes beyond the log's bound.
    pub fn push_fault(&mut self, code: u32, text: &str) -> Result<(), PushError> {
        let text = &text.as_bytes()[..text.len().min(FAULT_MAX)];
        self.push_frame(Header::of(FrameKind::Fault, code, 0), text, true)
    }

    /// Say that nothing follows. Afterwards nothing can be pushed; drive the link until [`Link::drained`].
    pub fn push_bye(&mut self) -> Result<(), PushError> {
        self.push_frame(Header::new(FrameKind::Bye), &[], true)?;
        self.bye_sent = true;
        Ok(())
    }

    /// Ask for `len` bytes at `offset` of what the peer exposed under `key`, to be written to `address`. The
    /// ticket comes back from [`Link::on_bulk`] when all are there, or in a [`FrameKind::BulkRefused`] frame.
    pub fn push_get(&mut self, key: u64, offset: u64, address: usize, len: u64) -> Result<u32, PushError> {
        assert!(len > 0 && len <= OFFSET_LIMIT && offset.checked_add(len).is_some());
        let ticket = self.next_ticket;
        let request = GetRequest { key, offset, len }.emit();
        self.push(Header::of(FrameKind::BulkGet, ticket, 0), &request)?;
        self.next_ticket = self.next_ticket.wrapping_add(1);
        self.gets.insert(ticket, Get::new(address, len));
        Ok(ticket)
    }

    /// Serve the peer's request `ticket` with `len` bytes at `address`. The memory is read until the peer has all
    /// or [`Link::withdraw`] is called with `key`.
    pub fn serve(&mut self, ticket: u32, key: u64, address: usize, len: u64) {
        self.serve_over(ticket, key, address, len, super::ALL_RAILS);
    }

    /// As [`Link::serve`], striped over those rails only whose bits are set, as long as one of them works.
    pub fn serve_over(&mut self, ticket: u32, key: u64, address: usize, len: u64, rails: u32) {
        // Two of one name would be taken for each other, and one be read beyond its end.
        debug_assert!(!self.serves_ticket(ticket), "the link has refused the request");
        if self.serves.len() >= super::SERVES_MAX {
            self.refuse(ticket, Refusal::TooMany);
            return;
        }
        let serve = Serve::new(TransferId::ticket(ticket), key, address, len);
        self.serves.push_back(Serve { rails, ..serve });
    }

    /// Whether the peer's request of that ticket is under way.
    pub(super) fn serves_ticket(&self, ticket: u32) -> bool {
        let name = TransferId::ticket(ticket);
        self.serves.iter().any(|serve| serve.name == name)
    }

    /// Refuse the peer's request `ticket`.
    pub fn refuse(&mut self, ticket: u32, reason: Refusal) {
        let header = Header::of(FrameKind::BulkRefused, ticket, reason as u64);
        let _ = self.push_frame(header, &[], true);
    }

    /// The memory exposed under `key` is not read any more after this returns. Requests for it that are not
    /// complete are refused.
    pub fn withdraw(&mut self, key: u64, now: u64) {
        let mut at = 0;
        while at < self.serves.len() {
            let name = self.serves[at].name;
            if self.serves[at].key != key || name.zcopy {
                at += 1;
                continue;
            }
            // Half a chunk is in a transport, the rest must follow and is not to be had: the peer must not take
            // what comes instead for the data.
            for rail in 0..self.rails.len() {
                if matches!(self.rails[rail].rest, Some(PartialFrame::Bulk { name: n, .. }) if n == name) {
                    self.drop_rail(rail, "memory was withdrawn in the middle of a chunk", now);
                }
            }
            self.end_serve(name, now);
            self.refuse(name.number, Refusal::Withdrawn);
        }
    }

    /// Forget a transfer served.
    pub(super) fn end_serve(&mut self, name: TransferId, now: u64) {
        let Some(at) = self.serves.iter().position(|s| s.name == name) else {
            return;
        };
        let serve = self.serves.remove(at).expect("just found");
        for chunk in &serve.flying {
            let rail = &mut self.rails[chunk.rail as usize];
            rail.bulk_out -= u64::from(chunk.len);
            let len = u64::from(chunk.len);
            rail.speed
                .acknowledged(len, chunk.delivered, chunk.delivered_at, chunk.full, now);
            rail.quiet_since = now;
        }
        for rail in &mut self.rails {
            rail.offer.clear();
            if let Some(PartialFrame::Bulk { name: n, address, .. }) = &mut rail.rest
                && *n == name
            {
                *address = None;
            }
        }
    }

    #[inline]
    fn push(&mut self, header: Header, payload: &[u8]) -> Result<(), PushError> {
        self.push_frame(header, payload, false)
    }

    #[inline]
    pub(super) fn push_frame(
        &mut self,
        header: Header,
        payload: &[u8],
        force: bool,
    ) -> Result<(), PushError> {
        if self.bye_sent || self.lost {
            return Err(PushError::Closed);
        }
        let seq = self.log.end();
        let header = Header {
            len: payload.len() as u32,
            seq,
            ack: self.received as u32,
            ..header
        };
        let pushed = self.log.push(header.total(), force, |to| {
            to[..HEADER_BYTES].copy_from_slice(&header.emit());
            to[HEADER_BYTES..].copy_from_slice(payload);
        });
        if !pushed {
            return Err(PushError::Full);
        }
        if self.cursor == seq {
            // It goes next, and takes the acknowledgement along.
            self.ack_owed = 0;
            self.ack_due = false;
            self.ack_at = u64::MAX;
        }
        Ok(())
    }
}
