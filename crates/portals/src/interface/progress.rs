//! Progress, and what a call does that found nothing: other threads, sleep, a look who has ended.

use super::Interface;
use super::arriving::Upcalls;
use crate::backend::{Waiting, Waits};
use crate::network_interface::NetworkInterface;
use farpost_fabric::Fabric;
use farpost_fabric::wait::Pause;
use std::time::Duration;

/// Longest sleep while something is under way that rings nobody when it moves.
const SHORT: Duration = Duration::from_millis(1);
/// Longest sleep otherwise: peers that end ring nobody.
const LONG: Duration = Duration::from_millis(50);

impl<F: Fabric> Waiting for Interface<F> {
    #[inline(always)]
    fn waits(&self) -> &Waits {
        &self.waits
    }

    #[inline]
    fn advance(&self) -> bool {
        let mut moved = self.net.progress(&mut Upcalls(self));
        if self.waiting.get() {
            moved |= self.empty_outbox();
        }
        if moved {
            self.waits.needs_progress.set(true);
            self.run_handlers();
        }
        moved
    }

    fn ask_who_has_ended(&self) -> bool {
        if !self.waits.may_ask(LONG) {
            return false;
        }
        let awaited = self.state.borrow().library.awaited();
        let ended: Vec<u32> = awaited
            .into_iter()
            .filter(|peer| {
                let via = self.routes.as_ref().and_then(|routes| routes.via(*peer));
                let is_gone = |peer| self.fabric().is_gone(peer);
                is_gone(self.process_of(*peer)) || via.is_some_and(|via| via.0 != *peer && is_gone(via))
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
        self.waits.needs_progress.set(true);
        self.run_handlers();
        true
    }

    #[inline]
    fn rest(&self) {
        // Other threads have their turn first.
        if self.passes(Pause::Yield) {
            return;
        }
        let Waits { idle, policy, .. } = &self.waits;
        idle.nothing(policy, &**self.fabric(), || self.has_packets());
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

    fn sleep(&self, left: Option<Duration>) {
        self.net.flush();
        let longest = if self.is_idle() { LONG } else { SHORT };
        let longest = left.map_or(longest, |left| left.min(longest));
        self.fabric().sleep(longest, &mut || self.has_packets());
        self.ask_who_has_ended();
    }
}

impl<F: Fabric> Interface<F> {
    /// Whether packets have come that nobody has looked at.
    #[inline]
    pub(super) fn has_packets(&self) -> bool {
        self.net.has_arrived()
    }
}
