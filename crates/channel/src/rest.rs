//! Memory of queues and blocks that nobody uses goes back to the system.
//!
//! Pages of an area cost memory once they are touched. When nothing was posted to a receiver for [`REST`], and it has
//! acknowledged all there was, the pages of its queue are given back; so are those of free blocks when none was taken for as
//! long. They are touched again, page by page, by what is posted next. Nobody waits for any of this, and nothing is refused
//! meanwhile:
//!
//! The sender says that nothing is on its way: it writes [`RESTING`] and its count of postboxes to the second word of the
//! receiver's acknowledgement line, and a zero there before it writes anything else.
//!
//! - Where the fabric maps memory the area is the sender's. A queue of which everything is acknowledged, and a free block, are
//!   the sender's alone: the receiver only looks at the first word of postboxes that have yet to come, and zeroes are none of
//!   them. (But for number 2^32 - 1, which is sent as 0: a queue that comes to it in its next lap does not rest.) But each look
//!   brings the page back. So a receiver that finds the word looks at it from then on, in place of the queue, and says so in
//!   the third word of the line; then the sender gives the queue back.
//! - Elsewhere the area is the receiver's. One that finds the word set, with its own count, knows that nothing has arrived
//!   since, and gives all of the area back, with the word. That needs a receiver which itself takes in what peers put, in its
//!   own calls ([`gives_back`](farpost_fabric::RemoteMemory::gives_back)): nothing arrives between the look and the return of
//!   the pages.
//!
//! Cost class: *queued path*, for the idle moment.

pub use crate::pool::REST;
use crate::postbox::{AckLine, Outlet, Postboxes, Rx, Tx};
use farpost_fabric::{ByPeer, Fabric, FabricError, Fault, LINE_BYTES, LocalMemory, Moment, Peer, Remote};

/// Beside a sender's count of postboxes: nothing is on its way. The word is 0 otherwise.
const RESTING: u64 = 1 << 32;

/// Where the sender's word is in its receiver's acknowledgement line, and where the receiver says that it has seen it.
const WORD: usize = 8;
const SEEN: usize = 16;

impl<F: Fabric> Tx<F> {
    /// Whether nothing was posted for [`REST`], and nothing is on its way or about to be posted.
    fn may_rest(&mut self, now: Moment) -> bool {
        let unused = self.head == self.acked && self.lent == 0 && self.said == 0;
        let comes_to_zero = self.head.checked_add(self.layout.slots).is_none();
        if self.dead || self.resting || self.growing || !unused || comes_to_zero {
            self.quiet = None;
            return false;
        }
        match self.quiet {
            Some((head, since)) if head == self.head => now.since(since) >= REST,
            _ => {
                self.quiet = Some((self.head, now));
                false
            }
        }
    }

    /// Tell the receiver whether nothing is on its way.
    fn tell(&self, word: u64) -> Result<(), FabricError> {
        match &self.outlet {
            Outlet::Own(area) => {
                area.store(self.ack_offset + WORD, word);
                Ok(())
            }
            Outlet::Far(memory) => {
                memory.put_word(self.layout.ack(0) + WORD, word)?;
                memory.order()
            }
        }
    }
}

impl<F: Fabric> Rx<F> {
    /// Where the sender's word is.
    fn word_at(&self) -> usize {
        match self.ack {
            AckLine::Mapped(line) => line + WORD,
            AckLine::Far(..) => self.layout.ack(0) + WORD,
        }
    }

    /// If the sender says that nothing is on its way: give the area back, if it is here. True: the queue is not to be looked at
    /// before the word changes.
    fn rest(&self, fabric: &F, from: Peer) -> Result<bool, FabricError> {
        let word = self.memory.load(self.word_at());
        if word == 0 {
            return Ok(false);
        }
        if word != RESTING | u64::from(self.tail) {
            return Err(FabricError::corrupt(from, "the count of a queue at rest", word));
        }
        match self.ack {
            AckLine::Mapped(line) => self.memory.store(line + SEEN, word),
            AckLine::Far(..) => fabric.give_back(from, &self.memory, 0..self.memory.len()),
        }
        Ok(matches!(self.ack, AckLine::Mapped(_)))
    }
}

/// Whether a sender whose queue rests has taken that back.
fn goes_on<F: Fabric>(rx: &ByPeer<Option<Box<Rx<F>>>>, from: Peer) -> bool {
    rx[from.index()]
        .as_deref()
        .is_none_or(|rx| rx.memory.load(rx.word_at()) != RESTING | u64::from(rx.tail))
}

impl<F: Fabric> Postboxes<F> {
    /// Give back memory that was not used for [`REST`], as of `now`: to be called some times in a second. True: a queue was
    /// closed, and a fault says why.
    pub fn rest(&mut self, now: Moment) -> bool {
        // Who sent waits for them to rest.
        self.settle();
        let mut next = 0;
        while let Some(peer) = self.tx.written_from(next) {
            next = peer.index() + 1;
            if self.tx[peer.index()].is_some() && self.fabric.gives_back(peer) {
                self.refresh(peer);
                self.rest_queue(peer, now);
            }
        }
        let me = self.fabric.me();
        if let (Some(area), Some(pool)) = (&self.own_area, &mut self.pools[me.index()]) {
            for run in pool.unused(now) {
                let end = self.layout.pool_block(run.end - 1) + self.layout.block as usize;
                self.fabric
                    .give_back(me, area, self.layout.pool_block(run.start)..end);
            }
        }
        let mut closed = false;
        for at in (0..self.senders.len()).rev() {
            let from = self.senders[at];
            let Some(rx) = self.rx[from.index()].as_deref() else {
                continue;
            };
            match rx.rest(&self.fabric, from) {
                Ok(false) => {}
                Ok(true) => {
                    self.senders.swap_remove(at);
                    self.resting.push(from);
                }
                Err(error) => {
                    self.fail_sender(from, error);
                    closed = true;
                }
            }
        }
        closed
    }

    /// Senders that have gone on are looked at again.
    #[cold]
    pub(crate) fn look_at_resting(&mut self) {
        let rx = &self.rx;
        let resumed = self.resting.extract_if(.., |from| goes_on(rx, *from));
        self.senders.extend(resumed);
    }

    /// Whether a sender has gone on that is not [looked at](Self::poll_control) yet: before a sleep.
    pub fn has_resumed(&self) -> bool {
        self.resting.iter().any(|from| goes_on(&self.rx, *from))
    }

    fn rest_queue(&mut self, peer: Peer, now: Moment) {
        let Some(tx) = self.tx.get_mut(peer.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        if let Outlet::Own(area) = &tx.outlet
            && tx.resting
            && !tx.given_back
            && area.load(tx.ack_offset + SEEN) == RESTING | u64::from(tx.head)
        {
            let bytes = tx.layout.slots as usize * LINE_BYTES;
            self.fabric.give_back(peer, area, tx.queue..tx.queue + bytes);
            tx.given_back = true;
        }
        if !tx.may_rest(now) {
            return;
        }
        tx.resting = true;
        tx.half = 0;
        tx.renew();
        tx.blocks.shrink_to_fit();
        let result = tx.tell(RESTING | u64::from(tx.head));
        self.check_put(peer, result);
    }

    /// The queue to `peer` is about to be used. Asked for before anything is written there.
    #[cold]
    pub(crate) fn resume(&mut self, peer: Peer) {
        let Some(tx) = self
            .tx
            .get_mut(peer.index())
            .and_then(Option::as_deref_mut)
            .filter(|tx| tx.resting)
        else {
            return;
        };
        (tx.resting, tx.given_back, tx.quiet) = (false, false, None);
        tx.half = tx.slots / 2;
        tx.renew();
        let result = tx.tell(0);
        self.check_put(peer, result);
    }

    fn check_put(&mut self, peer: Peer, result: Result<(), FabricError>) {
        if let (Err(error), Some(tx)) = (
            result,
            self.tx.get_mut(peer.index()).and_then(Option::as_deref_mut),
        ) {
            tx.die();
            self.fabric.record_fault(Fault { peer, error });
        }
    }
}
