//! Queues between hosts begin with a few postboxes, and grow when they are used.
//!
//! A receiver's area for a sender costs the pages that are touched, and a queue of which one postbox at a time is used touches all of
//! its pages one after the other. So it begins with [`FEW`](crate::area::FEW) postboxes, which lie in one page with the first parts of
//! blocks. A sender that finds half of them in use, or wants to post more than those at once, asks for all:
//!
//! 1. The sender says *grow* by a control packet, with its count, and posts nothing more.
//! 2. The receiver takes what was posted. From that count on it looks at the other queue, and says [`GROWN`] with its acknowledgement,
//!    of that count and all later ones.
//! 3. The sender goes on in the other queue.
//!
//! Nobody waits for anything but what drains the queue anyway: the receiver takes control packets and postboxes in every call that makes
//! progress, and its acknowledgement is a put. So a queue that grows is as one that is full. It grows once; of one that has grown
//! the pages are [given back](crate::rest) as of any other. Where the fabric maps memory, a queue costs its sender nothing until it is
//! used, and a sender looks at room more often than it would wait for an answer: there all postboxes are used from the first on.
//!
//! Cost class: *queued path*, once for a connection.

use crate::control::{GROW, PendingConnection};
use crate::postbox::{GROWN, Postboxes, Rx, Tx};
use farpost_fabric::{Fabric, FabricError, LocalMemory, Peer};

impl<F: Fabric> Tx<F> {
    /// Whether the receiver can have said so, with this count.
    pub(crate) fn may_have_grown(&self, consumed: u32) -> bool {
        if self.growing {
            consumed == self.head
        } else {
            self.lines.is_none() && self.slots > self.layout.first_queue().1
        }
    }

    /// The receiver has said so.
    #[cold]
    pub(crate) fn grow(&mut self) {
        self.growing = false;
        self.slots = self.layout.slots;
        self.queue = self.layout.queue(0);
        self.half = self.slots / 2;
        self.renew();
    }
}

impl<F: Fabric> Rx<F> {
    /// All that was posted before is taken: the next postbox is in the other queue.
    #[cold]
    pub(crate) fn grow(&mut self) {
        self.grows_at = None;
        self.slots = self.layout.slots;
        self.owed_most = self.slots.min(self.layout.blocks) / 4;
        self.lines = self.memory.lines(self.layout.queue(0), self.slots);
        self.say |= GROWN;
    }
}

impl<F: Fabric> Postboxes<F> {
    /// `count` postboxes are to be posted to `peer` at once, and there was no room: a queue that is too short for as many
    /// grows.
    #[cold]
    pub fn grow_for(&mut self, peer: Peer, count: usize) {
        let is_short = |tx: &Tx<F>| tx.slots < tx.layout.slots && count > tx.slots as usize / 2;
        if self.tx[peer.index()].as_deref().is_some_and(is_short) {
            self.grow(peer);
        }
    }

    /// Ask for it, once.
    #[cold]
    pub(crate) fn grow(&mut self, peer: Peer) {
        self.resume(peer);
        let Some(tx) = self.tx.get_mut(peer.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        if tx.dead || tx.growing || tx.slots == tx.layout.slots {
            return;
        }
        (tx.growing, tx.half) = (true, 0);
        tx.renew();
        let (count, layout) = (tx.head as u16, tx.layout);
        self.connecting.push(PendingConnection {
            peer,
            kind: GROW,
            count,
            layout,
        });
        self.send_pending();
    }

    /// A sender asks for it. What it has posted before may not be here yet.
    pub(crate) fn on_grow(&mut self, from: Peer, count: u16) -> Result<(), FabricError> {
        let corrupt = FabricError::corrupt(from, "the count at which a queue grows", count);
        let Some(rx) = self.rx[from.index()].as_deref_mut() else {
            return Err(corrupt);
        };
        let ahead = u32::from(count.wrapping_sub(rx.tail as u16));
        if rx.slots == rx.layout.slots || rx.grows_at.is_some() || ahead > rx.slots {
            return Err(corrupt);
        }
        rx.grows_at = Some(rx.tail.wrapping_add(ahead));
        // Whatever it takes next is acknowledged at once, and so the last of them.
        rx.owed_most = 1;
        if ahead == 0 { rx.acknowledge() } else { Ok(()) }
    }
}
