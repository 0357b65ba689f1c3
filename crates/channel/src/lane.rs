//! The fast lane: one short message to a peer, or from it, when nothing is unusual.
//!
//! Cost class: *fast path*. Everything that it looks at is in the first line of the connection's [end](crate::postbox::Tx) and in the
//! postbox itself.
//!
//! The sender has one test: [`limit`](crate::postbox::Tx::limit) is beyond the head. It is not while the peer is dead, holds messages
//! back or has half a queue to take, while the queue rests, and while the channel's user has [closed](Postboxes::set_open) the lane, because
//! something else waits before the message or goes another way. The receiver's look at a postbox is one load; its user
//! compares the words of the envelope with those that it wants.

use crate::postbox::{AHEAD, Postboxes, Rx, Tx};
use farpost_fabric::{Cost, Fabric, Fault, Line, Lines, Peer, PeerFlags};

/// An open lane to a peer: one postbox may be posted.
pub struct Lane<'a, F: Fabric> {
    fabric: &'a F,
    tx: &'a mut Tx<F>,
}

/// The next postbox of a peer, which is there.
pub struct Next<'a, F: Fabric> {
    rx: &'a mut Rx<F>,
    fabric: &'a F,
    peer: Peer,
    first: u64,
}

impl<F: Fabric> Tx<F> {
    /// Whether a message goes without another look.
    #[inline(always)]
    pub(crate) fn is_clear(&self) -> bool {
        self.limit.wrapping_sub(self.head) as i32 > 0
    }
}

impl<F: Fabric> Rx<F> {
    /// The acknowledgement.
    #[inline(always)]
    pub(crate) fn ack_word(&self) -> u64 {
        u64::from(self.tail) | u64::from(self.say) << 32
    }

    /// One more postbox is consumed, and an acknowledgement costs a message.
    #[inline(never)]
    fn owe(&mut self, fabric: &F, peer: Peer) {
        self.owed += 1;
        if self.owes_much()
            && let Err(error) = self.acknowledge()
        {
            fabric.record_fault(Fault { peer, error });
        }
    }
}

impl<F: Fabric> Lane<'_, F> {
    /// Post one postbox of which the first `words` words count. `bytes` of payload are counted.
    #[inline(always)]
    pub fn post(self, mut line: Line, words: usize, bytes: u64) {
        let Lane { fabric, tx } = self;
        let number = tx.head;
        line[0] = line[0] & !0xffff_ffff | u64::from(number.wrapping_add(1));
        if let Some(lines) = &tx.lines {
            lines.put(number, &line, words);
            lines.prefetch_write(number.wrapping_add(AHEAD));
        }
        tx.head = number.wrapping_add(1);
        tx.counted.postboxes += 1;
        tx.counted.bytes += bytes;
        fabric.wake_by(&tx.bell);
    }
}

impl<'a, F: Fabric> Next<'a, F> {
    #[inline(always)]
    fn with(rx: &'a mut Rx<F>, fabric: &'a F, peer: Peer, upper: u32) -> Option<Self> {
        let first = rx.lines.first(rx.tail);
        let wanted = u64::from(upper) << 32 | u64::from(rx.tail.wrapping_add(1));
        (first == wanted).then_some(Next {
            rx,
            fabric,
            peer,
            first,
        })
    }

    /// Its first word.
    #[inline(always)]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Another word. The sender may change it at any time: load it once.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.rx.lines.word(self.rx.tail, index)
    }

    /// Done with it.
    #[inline(always)]
    pub fn consume(self, bytes: u64) {
        let Next { rx, fabric, peer, .. } = self;
        rx.lines.prefetch(rx.tail.wrapping_add(1 + AHEAD));
        rx.counted.postboxes += 1;
        rx.counted.bytes += bytes;
        rx.tail = rx.tail.wrapping_add(1);
        match &rx.ack_line {
            Some(line) => line.put_first(0, rx.ack_word()),
            None => rx.owe(fabric, peer),
        }
    }
}

impl<F: Fabric> Postboxes<F> {
    /// The lane to `peer`, if it is open. Only the first [`NEAR_PEERS`](farpost_fabric::NEAR_PEERS) have one.
    #[inline(always)]
    pub fn lane(&mut self, peer: Peer) -> Option<Lane<'_, F>> {
        let tx = self.tx.near_mut(peer.index())?.as_deref_mut()?;
        (tx.is_clear() && tx.lines.is_some()).then_some(Lane {
            fabric: &self.fabric,
            tx,
        })
    }

    /// The next postbox of `peer`, if it is there.
    #[inline(always)]
    pub fn next(&mut self, peer: Peer) -> Option<Next<'_, F>> {
        let rx = self.rx.get_mut(peer.index())?.as_deref_mut()?;
        self.fabric.charge(Cost::Poll);
        let first = rx.lines.first(rx.tail);
        (first as u32 == rx.tail.wrapping_add(1)).then_some(Next {
            rx,
            fabric: &self.fabric,
            peer,
            first,
        })
    }

    /// As [`next`](Self::next) if the upper half of its first word is `upper`, in one comparison. For the first [`NEAR_PEERS`](farpost_fabric::NEAR_PEERS) peers, on fabrics that
    /// [have lanes](farpost_fabric::Time::has_lanes).
    #[inline(always)]
    pub fn next_with(&mut self, peer: Peer, upper: u32) -> Option<Next<'_, F>> {
        let rx = self.rx.near_mut(peer.index())?.as_deref_mut()?;
        self.fabric.charge_in_lane(Cost::Poll);
        Next::with(rx, &self.fabric, peer, upper)
    }

    /// As [`next_with`](Self::next_with), of any peer on any fabric.
    pub fn next_of_any(&mut self, peer: Peer, upper: u32) -> Option<Next<'_, F>> {
        let rx = self.rx.get_mut(peer.index())?.as_deref_mut()?;
        self.fabric.charge(Cost::Poll);
        Next::with(rx, &self.fabric, peer, upper)
    }

    /// Whether messages may go to `peer` at once, as far as the channel's user knows: nothing waits before them.
    #[inline(always)]
    pub fn is_open(&self, peer: Peer) -> bool {
        self.open.get(peer)
    }

    /// Say so.
    pub fn set_open(&mut self, peer: Peer, open: bool) {
        self.open.set(peer, open);
        if let Some(tx) = self.tx.get_mut(peer.index()).and_then(Option::as_deref_mut) {
            tx.open = open;
            tx.renew();
        }
    }

    /// Say of every peer whether it is, before there are connections.
    pub fn set_all_open(&mut self, open: &PeerFlags) {
        debug_assert!(self.tx.written().next().is_none(), "no connection has been made");
        self.open.clone_from(open);
    }

    /// The sending end of a connection is made.
    pub(crate) fn connected(&mut self, peer: Peer, mut tx: Tx<F>) {
        tx.open = self.open.get(peer);
        tx.renew();
        self.tx[peer.index()] = Some(Box::new(tx));
    }
}
