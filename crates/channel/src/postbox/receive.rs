//! Receiving: a look at the next postboxes, and the acknowledgement of those taken.
//!
//! Cost class: *fast path*, but for what is marked cold.

use super::{AHEAD, HOLD_BACK, Postboxes};
use crate::waiting::Waiting;
use farpost_fabric::{Cost, Fabric, FabricError, Fault, Line, Lines, LocalMemory, Peer};

impl<F: Fabric> Postboxes<F> {
    /// Tell `peer` whether messages that have to be kept are held back.
    #[cold]
    pub fn hold_back(&mut self, peer: Peer, on: bool) {
        let Some(rx) = self.rx.get_mut(peer.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        rx.say = rx.say & !HOLD_BACK | if on { HOLD_BACK } else { 0 };
        let result = rx.acknowledge();
        self.check_ack(peer, result);
    }

    /// A hint that postboxes from `peer`, which are there, will be read soon; counted from the next one.
    #[inline]
    pub fn prefetch(&self, peer: Peer, range: std::ops::Range<u32>) {
        if let Some(waiting) = self.waiting(peer) {
            range.for_each(|ahead| waiting.prefetch(ahead));
        }
    }

    /// Whether the next postbox from `peer` is there.
    #[inline(always)]
    pub fn is_there(&self, peer: Peer) -> bool {
        self.waiting(peer)
            .is_some_and(|waiting| waiting.first(0).is_some())
    }

    /// The next postbox from `peer`, if it is there. It stays until [`consume`](Self::consume).
    #[inline(always)]
    pub fn peek(&self, peer: Peer) -> Option<Line> {
        let rx = self.rx.get(peer.index())?.as_deref()?;
        self.fabric.charge(Cost::Poll);
        if rx.lines.first(rx.tail) as u32 != rx.tail.wrapping_add(1) {
            return None;
        }
        Some(rx.lines.line(rx.tail))
    }

    /// The postboxes of `peer`, to look at several at once.
    #[inline(always)]
    pub fn waiting(&self, peer: Peer) -> Option<Waiting<'_, <F::Export as LocalMemory>::Lines>> {
        let rx = self.rx.get(peer.index())?.as_deref()?;
        self.fabric.charge(Cost::Poll);
        Some(Waiting {
            lines: &rx.lines,
            tail: rx.tail,
        })
    }

    /// The postbox `ahead` of the next one.
    #[inline]
    pub fn peek_ahead(&self, peer: Peer, ahead: u32) -> Option<Line> {
        let rx = self.rx.get(peer.index())?.as_deref()?;
        let number = rx.tail.wrapping_add(ahead);
        let line = rx.lines.line(number);
        (ahead < rx.slots && line[0] as u32 == number.wrapping_add(1)).then_some(line)
    }

    /// Done with the next `count` postboxes from `peer`, which were seen.
    #[inline(always)]
    pub fn consume(&mut self, peer: Peer, count: u32, bytes: u64) {
        if let Some(waiting) = self.waiting(peer) {
            waiting.prefetch(count + AHEAD);
        }
        self.consume_burst(peer, count, bytes);
    }

    /// As [`consume`](Self::consume) where nobody knows whether there are more to come: nothing is prefetched.
    #[inline(always)]
    pub fn consume_burst(&mut self, peer: Peer, count: u32, bytes: u64) {
        let Some(rx) = self.rx.get_mut(peer.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        rx.tail = rx.tail.wrapping_add(count);
        rx.owed += count;
        rx.counted.postboxes += u64::from(count);
        rx.counted.bytes += bytes;
        rx.owed_bytes += bytes;
        if rx.ack_line.is_some() || rx.owes_much() {
            let result = rx.acknowledge();
            self.check_ack(peer, result);
        }
    }

    #[inline]
    pub(super) fn check_ack(&self, peer: Peer, result: Result<(), FabricError>) {
        if let Err(error) = result {
            self.fabric.record_fault(Fault { peer, error });
        }
    }
}
