//! To those who map our memory: what goes by lines arrives, so that a message that is in its lines is over. Kept are only
//! those whose bodies the receiver fetches; these alone are numbered, and acknowledged when it is done with them.
//!
//! Cost class: fast path ([`Transmit::is_open`], [`put_short`] of one line); else queued path.

use super::*;
use crate::net::lines::Form;

/// Put a message whose body comes with its header. False: no room.
#[inline(never)]
pub fn put_short<F: Fabric>(lines: &mut Lines<F>, to: (Peer, usize), header: &[u8], body: &Segments) -> bool {
    let mut bytes = [0; PACKET_BYTES];
    let (length, len) = (body.len(), header.len() + body.len());
    bytes[..header.len()].copy_from_slice(header);
    moves::load_all(body, &mut bytes[header.len()..len]);
    lines.put(to, (Form::Short, header.len()), &bytes[..len], length)
}

impl<F: Fabric> Target<F> {
    /// The channels of which nothing waits, a bit each. What has gone as a packet before the receiver said that it has lines comes
    /// again, and so waits.
    pub(super) fn open_lanes(&self) -> u8 {
        let by_lines = self.by_lines;
        let [answers, requests] = self
            .lanes
            .each_ref()
            .map(|lane| lane.cursor.pending == NONE && (by_lines || lane.head == NONE));
        if self.dead {
            0
        } else {
            u8::from(answers) | u8::from(requests) << 1
        }
    }
}

impl<F: Fabric> Transmit<F> {
    /// Whether what fits may be put to the lines of a channel: nothing waits before it.
    #[inline(always)]
    pub(super) fn is_open(&self, to: Peer, index: usize) -> bool {
        self.open[to.index()] & 1 << index != 0
    }

    /// Put a short message to the lines of a channel. False: it is longer, something waits before it, or there is no room.
    #[inline(always)]
    pub(super) fn put_by_lines(
        &self,
        lines: &mut Lines<F>,
        figures: &mut Figures,
        to: (Peer, usize),
        header: &[u8],
        body: &Segments,
    ) -> bool {
        let length = body.len();
        let gone = self.is_open(to.0, to.1)
            && header.len() + length <= PACKET_BYTES - wire::WORD
            && put_short(lines, to, header, body);
        if gone {
            figures.sent += 1;
            figures.sent_bytes += length as u64;
        }
        gone
    }

    /// The receiver has lines for us. It has accepted nothing before.
    #[cold]
    pub(super) fn change_to_lines(&mut self, at: u16) {
        let target = self.targets.at(at);
        target.by_lines = true;
        for lane in &mut target.lanes {
            lane.sent = lane.base;
        }
        self.note_unsent(at);
    }

    /// Put to the lines of a channel what there is room for. True: something went.
    pub(super) fn go_by_lines(
        &mut self,
        (rx, lines): (&mut Receive<F>, &mut Lines<F>),
        at: u16,
        index: usize,
    ) -> bool {
        let mut moved = false;
        loop {
            let target = self.targets.at(at);
            let lane = &mut target.lanes[index];
            let Cursor { seq, pending, packet } = lane.cursor;
            if pending == NONE {
                return moved;
            }
            let to = (target.peer, index);
            let message = &mut self.pendings[usize::from(pending)];
            let header = usize::from(message.header_len);
            let (bytes, payload) = match packet {
                0 => (usize::from(message.packet_len), 0),
                _ => (0, stream_bytes(false)),
            };
            if message.kind == PacketKind::Short {
                let bytes = &message.packet[wire::WORD..bytes];
                if !lines.put(to, (Form::Short, header), bytes, message.length) {
                    return moved;
                }
            } else {
                let mut buffer = [0; PACKET_BYTES];
                let (kind, len) = if packet == 0 {
                    buffer[..bytes].copy_from_slice(&message.packet[..bytes]);
                    (message.kind, bytes)
                } else {
                    let staging = (self.staging.as_ref(), self.slot_bytes);
                    (
                        PacketKind::Data,
                        message.part(staging, packet, &mut buffer, false),
                    )
                };
                let (mut flags, ack) = rx.acknowledgement(target.peer, index);
                if self.free[index].len() <= self.scarce {
                    flags |= WANTS_ACK;
                }
                let word = Word {
                    kind,
                    flags,
                    second: if packet == 0 { message.header_len } else { 0 },
                    seq,
                    tag: target.tag,
                    ack,
                };
                buffer[..wire::WORD].copy_from_slice(&word.bits().to_le_bytes());
                if !lines.put(to, (Form::Packet, 0), &buffer[..len], payload) {
                    if flags & HAS_ACK != 0 {
                        rx.untold(target.peer, index, flags);
                    }
                    return moved;
                }
            }
            moved = true;
            if packet + 1 < message.packets {
                lane.cursor.packet = packet + 1;
                continue;
            }
            let next = message.next;
            lane.cursor.pending = next;
            lane.cursor.packet = 0;
            if matches!(
                message.kind,
                PacketKind::Staged | PacketKind::Pull | PacketKind::Gather
            ) {
                lane.cursor.seq = seq.wrapping_add(1);
                lane.sent = lane.cursor.seq;
                lane.gone = pending;
                continue;
            }
            // It is over, and leaves the lane.
            match lane.gone {
                NONE => lane.head = next,
                gone => self.pendings[usize::from(gone)].next = next,
            }
            if lane.tail == pending {
                lane.tail = lane.gone;
            }
            lane.lent -= 1;
            let empty = lane.head == NONE;
            self.asked -= if empty { target.counts(index) } else { 0 };
            let message = &mut self.pendings[usize::from(pending)];
            message.body = Segments::default();
            match std::mem::replace(&mut message.how, BodyRoute::Inline) {
                BodyRoute::Staged(slot) => self.slots.push_back(slot),
                BodyRoute::Stream => self.finished.push_back((message.token, Outcome::Done)),
                _ => {}
            }
            self.free[index].push(pending);
        }
    }
}
