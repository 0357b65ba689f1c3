//! Packets: a window per peer, port and priority (a *lane*). What arrives is kept until it is taken, and taken packets give the
//! window back.
//!
//! Cost class: *queued path*.

use super::Ofi;
use super::core::Inner;
use super::link::Link;
use super::packet_queues::PACKET_BYTES;
use super::wire::{Small, control};
use farpost_fabric::{Counter, Fault, PacketQueue, Peer, Port, Priority, Result, TrySend, lane};
use std::rc::Rc;

impl Inner {
    fn taken(&self, link: &Rc<Link>, lane: usize) {
        let credits = &link.credits[lane];
        credits.consumed.set(credits.consumed.get().wrapping_add(1));
        if link.peer == self.me {
            credits.returned.set(credits.consumed.get());
            return;
        }
        let owed = credits.consumed.get().wrapping_sub(credits.told.get());
        // The window that remains while this is owed is at least half of the smallest one.
        if owed >= (self.packets.window / 2).max(1) {
            credits.told.set(credits.consumed.get());
            let words = [u64::from(credits.consumed.get())];
            self.control(link, control::CREDIT, lane as u16, &words);
        }
    }
}

impl PacketQueue for Ofi {
    const ORDERED: bool = true;
    const PACKET_BYTES: usize = PACKET_BYTES;

    fn try_send(&self, peer: Peer, port: Port, priority: Priority, payload: &[u8]) -> TrySend {
        let inner = &self.0;
        assert!(
            payload.len() <= PACKET_BYTES,
            "a packet holds {PACKET_BYTES} bytes, not {}",
            payload.len()
        );
        let lane = lane(port, priority);
        let link = Rc::clone(inner.link(peer));
        let credits = &link.credits[lane];
        let under_way = || credits.sent.get().wrapping_sub(credits.returned.get());
        if under_way() >= inner.packets.window {
            inner.progress();
            if under_way() >= inner.packets.window {
                return TrySend::Full;
            }
        }
        if let Err(error) = inner.check_alive(&link) {
            inner.record_fault(Fault { peer, error });
            return TrySend::Sent;
        }
        credits.sent.set(credits.sent.get().wrapping_add(1));
        if peer == inner.me {
            inner.packets.keep(&link, lane, payload);
            return TrySend::Sent;
        }
        inner.announce(&link);
        let header = Small::control(link.token(), inner.me.0, control::PACKET, lane as u16, &[]);
        inner.send_parts(&link, &[header.bytes(), payload]);
        TrySend::Sent
    }

    fn poll_priority(&self, port: Port, priority: Priority, mut take: impl FnMut(Peer, &[u8])) -> bool {
        let lane = lane(port, priority);
        // The borrow ends before the closure runs: it may send.
        let next = self.0.packets.next(lane);
        let Some(packet) = next else {
            return false;
        };
        self.0.taken(&packet.from, lane);
        take(packet.from.peer, packet.payload());
        true
    }

    fn packets_waiting(&self, port: Port, priority: Priority, limit: u32) -> u32 {
        let waiting = self.0.packets.waiting(lane(port, priority));
        u32::try_from(waiting).unwrap_or(limit).min(limit)
    }
}

/// Counters of another process, asked for.
impl Inner {
    pub fn on_count(&self, link: &Rc<Link>, words: &[u64]) -> Option<()> {
        let peer = Peer(u32::try_from(words[1]).ok()?);
        self.check_peer(peer).ok()?;
        let which = usize::try_from(words[2]).ok().filter(|w| *w < Counter::COUNT)?;
        let value = self.known(peer).map_or(0, |l| l.counters[which].get());
        self.control(link, control::COUNTED, 0, &[words[0], value]);
        Some(())
    }

    /// A counter of another process. 0 when it does not answer.
    pub fn counter_of(&self, of: Peer, peer: Peer, counter: Counter) -> u64 {
        let link = Rc::clone(self.link(of));
        let words = [u64::from(peer.0), counter as u64];
        let answer: Result<_> = self.ask(&link, control::COUNT, &words, "a question for a counter");
        answer.map_or(0, |words| words[1])
    }
}
