//! Messages that are one packet and go here and now.
//!
//! Cost class: fast path.

use super::*;
use crate::net::lines::LINE_HOLDS;

impl<F: Fabric> Transmit<F> {
    /// As [`send`](Self::send), of a message that is one packet, if its target is known, nothing of its channel waits and there is room:
    /// nothing is looked at or noted before it has gone that can be afterwards. Its pending keeps the packet, to be sent again.
    #[inline(always)]
    pub fn send_now(
        &mut self,
        fabric: &F,
        (rx, lines): (&mut Receive<F>, &mut Lines<F>),
        figures: &mut Figures,
        (to, channel): (Peer, Channel),
        (header, body): (usize, usize),
        write: impl FnOnce(&mut [[u8; 8]]),
    ) -> bool {
        let index = channel as usize;
        if self.is_open(to, index) {
            let gone = header + body <= LINE_HOLDS && lines.put_line((to, index), (header, body), write);
            if gone {
                figures.sent += 1;
                figures.sent_bytes += body as u64;
            }
            return gone;
        }
        let scarce = self.free[index].len() <= self.scarce;
        let (Some(&number), Some(at)) = (self.free[index].last(), self.targets.find(to)) else {
            return false;
        };
        if channel == Channel::Request && self.asked + 1 >= usize::from(self.targets.limit()) {
            return false;
        }
        let reserve = self.reserve(index);
        let target = self.targets.at(at);
        let (counts, by_lines) = (target.counts(index), target.by_lines);
        let lane = &mut target.lanes[index];
        let seq = lane.sent;
        if has_share(lane, self.free[index].len(), reserve)
            || target.tag == 0
            || target.checked
            || target.dead
            || by_lines
            || target.wait_until != 0
            || lane.cursor.pending != NONE
            || lane.cursor.seq != seq
            || seq.wrapping_sub(lane.base) >= self.window
        {
            return false;
        }
        let pending = &mut self.pendings[usize::from(number)];
        let (first, rest) = pending.packet.split_at_mut(wire::WORD);
        write(rest.as_chunks_mut().0);
        let (mut flags, ack) = rx.acknowledgement(to, index);
        if seq == lane.base {
            flags |= FIRST;
        }
        if scarce {
            flags |= WANTS_ACK;
        }
        let word = Word {
            kind: PacketKind::Short,
            flags,
            second: header as u8,
            seq,
            tag: target.tag,
            ack,
        };
        first.copy_from_slice(&word.bits().to_le_bytes());
        let len = wire::WORD + header + body;
        let sent = fabric.try_send(to, self.port, PRIORITY[index], &pending.packet[..len]);
        if sent == TrySend::Full {
            if flags & HAS_ACK != 0 {
                rx.untold(to, index, flags);
            }
            return false;
        }
        fabric.wake_by(&target.bell);
        self.free[index].pop();
        pending.packet_len = len as u8;
        pending.header_len = header as u8;
        pending.packets = 1;
        pending.next = NONE;
        pending.kind = PacketKind::Short;
        pending.how = BodyRoute::Inline;
        lane.sent = seq.wrapping_add(1);
        lane.cursor.seq = lane.sent;
        if lane.tail == NONE {
            lane.head = number;
            self.asked += counts;
        } else {
            self.pendings[usize::from(lane.tail)].next = number;
        }
        lane.tail = number;
        lane.lent += 1;
        figures.sent += 1;
        figures.sent_bytes += body as u64;
        true
    }
}
