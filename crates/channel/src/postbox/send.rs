//! Sending: room in a queue, and postboxes put there.
//!
//! Cost class: *fast path*, but for what is marked cold.

use super::{AHEAD, GROWN, HOLD_BACK, Outlet, Postboxes};
use crate::postbox::Tx;
use farpost_fabric::{Counter, Fabric, FabricError, Fault, Line, LocalMemory, Peer};

impl<F: Fabric> Postboxes<F> {
    /// Postboxes that can be posted to `peer` now. 0 while the connection is being made; connects at the
    /// first call.
    #[inline(always)]
    pub fn room(&mut self, peer: Peer) -> u32 {
        if let Some(tx) = &self.tx[peer.index()] {
            let used = tx.head.wrapping_sub(tx.acked);
            if used < tx.half {
                return tx.slots - used;
            }
        }
        self.room_slow(peer)
    }

    /// As [`room`](Self::room), for messages that the receiver has to keep if nobody waits for them: 0 as long as it
    /// [holds them back](Self::is_held_back).
    #[inline(always)]
    pub fn eager_room(&mut self, peer: Peer) -> u32 {
        if let Some(tx) = &self.tx[peer.index()]
            && tx.is_clear()
        {
            return tx.slots - tx.head.wrapping_sub(tx.acked);
        }
        self.eager_room_slow(peer)
    }

    #[cold]
    #[inline(never)]
    fn eager_room_slow(&mut self, peer: Peer) -> u32 {
        let room = self.room_slow(peer);
        if self.is_held_back(peer) { 0 } else { room }
    }

    /// Whether `peer` wants no more messages that it would have to keep, as far as we know.
    pub fn is_held_back(&self, peer: Peer) -> bool {
        self.tx[peer.index()]
            .as_deref()
            .is_some_and(|tx| tx.said & HOLD_BACK != 0)
    }

    #[cold]
    #[inline(never)]
    fn room_slow(&mut self, peer: Peer) -> u32 {
        if self.tx[peer.index()].is_none() {
            self.connect(peer);
        }
        self.resume(peer);
        self.refresh(peer);
        let is_used =
            |tx: &Tx<F>| tx.slots < tx.layout.slots && tx.head.wrapping_sub(tx.acked) >= tx.slots / 2;
        if self.tx[peer.index()].as_deref().is_some_and(is_used) {
            self.grow(peer);
        }
        match &self.tx[peer.index()] {
            Some(tx) if !tx.dead && !tx.growing => {
                let room = tx.slots - tx.head.wrapping_sub(tx.acked);
                if room == 0 {
                    self.fabric.count(peer, Counter::Stalls, 1);
                }
                room
            }
            _ => 0,
        }
    }

    /// Read the receiver's ack and take back what it frees.
    pub(crate) fn refresh(&mut self, peer: Peer) {
        let Some(tx) = self.tx.get_mut(peer.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        if tx.dead || tx.head == tx.acked && tx.said == 0 && !tx.growing {
            return;
        }
        let word = tx.ack_memory.load(tx.ack_offset);
        let (consumed, said) = (word as u32, (word >> 32) as u32);
        let grown = said & GROWN != 0;
        let wrong = said & !(HOLD_BACK | GROWN) != 0 || grown && !tx.may_have_grown(consumed);
        if wrong || consumed.wrapping_sub(tx.acked) > tx.head.wrapping_sub(tx.acked) {
            tx.die();
            let error = FabricError::corrupt(peer, "an ack", word);
            self.fabric.record_fault(Fault { peer, error });
            return;
        }
        tx.acked = consumed;
        tx.said = said & HOLD_BACK;
        if grown && tx.growing {
            tx.grow();
        }
        tx.renew();
        while let Some(&(number, block)) = tx.blocks.front() {
            // The postbox `number` (counted from 0) is consumed when the count exceeds it.
            if (consumed.wrapping_sub(number) as i32) <= 0 {
                break;
            }
            tx.blocks.pop_front();
            if let Some(pool) = &mut self.pools[tx.home] {
                tx.lent -= pool.parts(block);
                pool.give(block);
            }
        }
    }

    /// Post one postbox. The caller has seen [`room`](Self::room) for it. `bytes` of payload are counted.
    #[inline]
    pub fn post(&mut self, peer: Peer, line: &Line, bytes: u64) {
        self.post_words(peer, &mut { *line }, 8, bytes);
    }

    /// As [`post`](Self::post); only the first `words` words of the line count.
    #[inline(always)]
    pub fn post_words(&mut self, peer: Peer, line: &mut Line, words: usize, bytes: u64) {
        let tx = self.tx[peer.index()]
            .as_deref_mut()
            .expect("room was asked first");
        debug_assert!(!tx.resting, "room was asked after the queue rested");
        if let Err(error) = tx.put_line(tx.head, line, words) {
            tx.die();
            self.fabric.record_fault(Fault { peer, error });
            return;
        }
        tx.head = tx.head.wrapping_add(1);
        tx.prepare(AHEAD - 1, 1);
        tx.counted.postboxes += 1;
        tx.counted.bytes += bytes;
        self.fabric.wake_by(&tx.bell);
    }

    /// Post several postboxes that belong together: whoever sees the first sees all (on fabrics that map;
    /// elsewhere they arrive in any order and the receiver waits for each).
    pub fn post_run(&mut self, peer: Peer, lines: &[Line], bytes: u64) {
        let tx = self.tx[peer.index()]
            .as_deref_mut()
            .expect("room was asked first");
        for (index, line) in lines.iter().enumerate().rev() {
            if let Err(error) = tx.put_line_of_run(tx.head.wrapping_add(index as u32), index, line) {
                tx.die();
                self.fabric.record_fault(Fault { peer, error });
                return;
            }
        }
        tx.head = tx.head.wrapping_add(lines.len() as u32);
        tx.prepare(0, AHEAD.max(lines.len() as u32));
        tx.counted.postboxes += lines.len() as u64;
        tx.counted.bytes += bytes;
        self.fabric.wake_by(&tx.bell);
    }

    /// Whether everything posted to `peer` has been consumed.
    pub fn drained(&mut self, peer: Peer) -> bool {
        self.refresh(peer);
        self.tx[peer.index()]
            .as_deref()
            .is_none_or(|tx| tx.dead || tx.head == tx.acked)
    }

    /// Whether somebody who maps what we post has not taken all of it.
    pub fn has_untaken(&self) -> bool {
        self.tx.written().filter_map(|(_, tx)| tx.as_deref()).any(|tx| {
            matches!(tx.outlet, Outlet::Own(..))
                && !tx.dead
                && tx.head != tx.acked
                && tx.ack_memory.load(tx.ack_offset) as u32 != tx.head
        })
    }

    /// Whether the queue to `peer` broke: what was or is posted there is lost.
    pub fn is_dead(&self, peer: Peer) -> bool {
        self.tx[peer.index()].as_deref().is_some_and(|tx| tx.dead)
    }
}
