//! Progress, and what a call does that found nothing: other threads, sleep, a look who has ended.

use super::Interface;
use super::arriving::Upcalls;
use crate::backend::Waiting;
use crate::network_interface::NetworkInterface;
use farpost_fabric::wait::{Pause, WaitPolicy};
use farpost_fabric::{Fabric, Peer};
use std::time::Duration;

/// Longest sleep while something is under way that rings nobody when it moves.
const SHORT: Duration = Duration::from_millis(1);
/// Longest sleep otherwise: peers that end ring nobody.
const LONG: Duration = Duration::from_millis(50);
/// Calls that find nothing between two looks at the clock: a power of two.
const CLOCK: u32 = 1024;

impl<F: Fabric> Waiting for Interface<F> {
    #[inline]
    fn poll(&self) -> bool {
        self.idle.begin(&self.policy);
        if self.advance() {
            self.empty.set(0);
            return true;
        }
        let empty = self.empty.get().wrapping_add(1);
        self.empty.set(empty);
        empty.is_multiple_of(CLOCK) && self.ask_who_has_ended()
    }

    #[inline]
    fn rest(&self) {
        // Other threads have their turn first.
        if self.passes(Pause::Yield) {
            return;
        }
        self.idle
            .nothing(&self.policy, &**self.fabric(), || self.has_packets());
    }

    #[inline(always)]
    fn found(&self) {
        self.idle.found();
    }

    #[inline(always)]
    fn glance(&self) -> bool {
        if !self.net.look(&mut Upcalls(self)) {
            return false;
        }
        if self.waiting.get() {
            self.empty_outbox();
        }
        self.run_handlers();
        true
    }

    #[inline(always)]
    fn policy(&self) -> &WaitPolicy {
        &self.policy
    }

    #[inline]
    fn passes(&self, pause: Pause) -> bool {
        self.relax.get().is_some_and(|relax| relax(pause))
    }

    fn sleep(&self, left: Option<Duration>) {
        self.net.flush();
        let longest = if self.is_idle() { LONG } else { SHORT };
        let longest = left.map_or(longest, |left| left.min(longest));
        self.fabric().sleep(longest, &mut || self.has_packets());
        self.ask_who_has_ended();
    }
}

impl<F: Fabric> Interface<F> {
    /// Move what can be moved, within whatever call: what did move is news to the next [`progress`](crate::NetworkInterface::progress) as
    /// well. True: something did.
    #[inline]
    pub(super) fn advance(&self) -> bool {
        let mut moved = self.net.progress(&mut Upcalls(self));
        if self.waiting.get() {
            moved |= self.empty_outbox();
        }
        if moved {
            self.needs_progress.set(true);
            self.run_handlers();
        }
        moved
    }

    /// Whether packets have come that nobody has looked at.
    #[inline]
    pub(super) fn has_packets(&self) -> bool {
        self.net.has_arrived()
    }

    /// Look whether processes have ended whose answers are awaited, now and then. True: one has.
    pub(super) fn ask_who_has_ended(&self) -> bool {
        let now = self.policy.now();
        if now - self.asked.get() < LONG {
            return false;
        }
        self.asked.set(now);
        let awaited = self.state.borrow().library.awaited();
        let ended: Vec<u32> = awaited
            .into_iter()
            .filter(|peer| {
                let via = self.routes.as_ref().and_then(|routes| routes.via(*peer));
                let is_gone = |peer| self.fabric().is_gone(peer);
                is_gone(Peer(*peer)) || via.is_some_and(|via| via.0 != *peer && is_gone(via))
            })
            .collect();
        if ended.is_empty() {
            return false;
        }
        // What it sent before is still taken.
        while self.advance() {}
        for peer in ended {
            self.state.borrow_mut().library.peer_ended(peer);
        }
        self.needs_progress.set(true);
        self.run_handlers();
        true
    }
}
