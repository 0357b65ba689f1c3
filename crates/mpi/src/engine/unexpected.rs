//! What is kept of messages that came before their receives, and its bound.
//!
//! A queue is always emptied, so that whatever was sent is found. Memory is bounded by its senders instead: one of which
//! much is held learns with the next room in its queue that it is *held back* ([`Postboxes::hold_back`]), and sends no more
//! than headers from then on, each of a message that it keeps itself until that has been received.
//!
//! Cost class: *queued path*.
//!
//! [`Postboxes::hold_back`]: farpost_channel::Postboxes::hold_back

use super::context::Unexpected;
use super::request::Send;
use super::{Carrier, Engine};
use farpost_fabric::{Fabric, Peer};

/// What each sender may have here unasked, however much others have: its share is not theirs to use up.
const LEAST: u64 = 1 << 20;

impl<F: Fabric, C: Carrier<F>> Engine<F, C> {
    /// The bound on what is kept, of all senders.
    fn bound(&self) -> u64 {
        match self.tunables.unexpected_bytes {
            0 => u64::MAX,
            bytes => bytes,
        }
    }

    /// A message of `peer` is kept, which takes `cost` bytes.
    pub(crate) fn charge(&mut self, peer: Peer, cost: u64) {
        let of_peer = &mut self.unexpected_cost[peer.index()];
        *of_peer += cost;
        self.unexpected_total += cost;
        let bound = self.bound();
        if self.unexpected_total > bound
            && self.unexpected_cost[peer.index()] > bound.min(LEAST)
            && !self.is_held_back.get(peer)
        {
            self.is_held_back.set(peer, true);
            self.held_back.push(peer);
            C::hold_back(self, peer, true);
        }
    }

    /// It is kept no more. Who was held back may go on when half of what is allowed is free again.
    pub(crate) fn discharge(&mut self, peer: Peer, cost: u64) {
        let of_peer = &mut self.unexpected_cost[peer.index()];
        *of_peer = of_peer.saturating_sub(cost);
        self.unexpected_total = self.unexpected_total.saturating_sub(cost);
        if !self.held_back.is_empty() {
            self.let_go_on();
        }
    }

    /// Drop the held message that `is_it` means. False: it is not held, or not any more.
    pub(crate) fn take_back(&mut self, is_it: impl Fn(&Unexpected) -> bool) -> bool {
        let mut contexts = self.contexts.iter_mut();
        let Some(message) = contexts.find_map(|context| context.queues.take_back(&is_it)) else {
            return false;
        };
        self.discharge(message.peer, message.cost());
        true
    }

    #[cold]
    fn let_go_on(&mut self) {
        let bound = self.bound();
        let all = self.unexpected_total <= bound / 2;
        for at in (0..self.held_back.len()).rev() {
            let peer = self.held_back[at];
            if all || self.unexpected_cost[peer.index()] <= bound.min(LEAST) / 2 {
                self.held_back.swap_remove(at);
                self.is_held_back.set(peer, false);
                C::hold_back(self, peer, false);
            }
        }
    }

    /// Bytes of memory that messages take which came before their receives, beyond those that their senders keep.
    pub fn kept_bytes(&self) -> u64 {
        self.unexpected_total
    }

    /// Whether a request is a send that waits for room at its receiver: in its queue, in blocks, or because the receiver
    /// keeps as much as it may of messages that it has not asked for.
    pub fn waits_for_space(&self, handle: usize) -> bool {
        self.requests.send(handle).is_some_and(Send::waits_for_space)
    }
}
