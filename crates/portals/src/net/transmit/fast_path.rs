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
        (rx, lines): (&mut impl Piggyback, &mut Lines<F>),
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
        let free = self.pendings.available(index);
        let (Some(number), Some(at)) = (self.pendings.next_free(index), self.targets.find(to)) else {
            return false;
        };
        if channel == Channel::Request && self.asked + 1 >= usize::from(self.targets.limit()) {
            return false;
        }
        let reserve = self.reserve(index);
        let target = self.targets.at(at);
        let counts = target.counts(index);
        if target.has_share(index, free, reserve) || target.checked || target.dead {
            return false;
        }
        let queue = &mut target.queues[index];
        let SendPath::Packets(connection) = &mut target.path else {
            return false;
        };
        if queue.has_waiting() {
            return false;
        }
        let Some(title) = connection.next_new(index, self.window_at_once) else {
            return false;
        };
        let scarce = self.pendings.are_scarce(index);
        let pending = self.pendings.at(number);
        let (first, rest) = pending.packet.split_at_mut(wire::WORD);
        fabric.charge(Cost::Copy(body));
        write(rest.as_chunks_mut().0);
        let (mut flags, ack) = rx.acknowledgement(to, index);
        if title.first {
            flags |= FIRST;
        }
        if scarce {
            flags |= WANTS_ACK;
        }
        let word = Word {
            kind: PacketKind::Short,
            flags,
            second: header as u8,
            seq: title.seq,
            tag: title.tag,
            ack,
        };
        first.copy_from_slice(&word.bits().to_le_bytes());
        let len = wire::WORD + header + body;
        let sent = fabric.try_send(to, self.port, Priority::ALL[index], &pending.packet[..len]);
        if sent == TrySend::Full {
            if flags & HAS_ACK != 0 {
                rx.untold(to, index, flags);
            }
            return false;
        }
        fabric.wake_by(&target.bell);
        pending.is_short(header, len);
        self.pendings.take(index);
        connection.went(index);
        if queue.is_empty() {
            self.asked += counts;
        }
        queue.push_gone(&mut self.pendings, number);
        // To those near it goes again by lines, and counts there.
        let counted = u64::from(!target.near);
        fabric.count(to, Counter::Sent, counted);
        fabric.count(to, Counter::SentBytes, counted * body as u64);
        figures.sent += 1;
        figures.sent_bytes += body as u64;
        true
    }
}
