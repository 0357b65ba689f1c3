//! What the network counts by itself, copied to the host's memory, where others watch.
//!
//! Cost class: *set-up path*; before sleeping.

use super::Routed;
use farpost_fabric::{Counter, Counters, Fabric, Moment, Peer};
use farpost_net::NetFabric;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

/// Counters that the network keeps and protocols do not: of the others the host's memory has its own count.
pub const COPIED: [Counter; 3] = [Counter::Stalls, Counter::Retries, Counter::BulkBytes];

/// What has been copied so far.
#[derive(Default)]
pub struct Tally {
    told: RefCell<HashMap<(u32, usize), u64>>,
    strangers: Cell<u64>,
    calls: Cell<u32>,
    /// Polls of the network since all was copied.
    polls: Cell<u32>,
    /// When rails were last shown.
    shown: Cell<Option<Moment>>,
}

/// After so many polls of the network all is copied by a process that never sleeps: a poll costs a system call.
const POLLS: u32 = 1 << 16;
/// Rails are shown no more often than this by a process that sleeps often.
const SHOWN_EACH: Duration = Duration::from_millis(10);

impl Tally {
    /// How much of a counter is in the host's memory already.
    pub fn told(&self, peer: Peer, counter: Counter) -> u64 {
        let told = self.told.borrow();
        told.get(&(peer.0, counter as usize)).copied().unwrap_or(0)
    }

    /// The network is polled: whether all is to be copied, since the process may never sleep.
    #[inline]
    pub fn is_due(&self) -> bool {
        let polls = self.polls.get().wrapping_add(1);
        self.polls.set(polls);
        polls.is_multiple_of(POLLS)
    }
}

impl<N: NetFabric> Routed<N> {
    /// Copy what is new. In large jobs not at every call.
    pub(super) fn tell_counters(&self, at_once: bool) {
        let Some(far) = &self.far else { return };
        let calls = self.tally.calls.get().wrapping_add(1);
        self.tally.calls.set(calls);
        if !at_once && !calls.is_multiple_of(1 + self.size() / 64) {
            return;
        }
        for peer in (0..self.processes())
            .map(Peer)
            .filter(|peer| self.way(*peer).is_some())
        {
            for counter in COPIED {
                let now = far.counter(self.me, peer, counter);
                let before = self.tally.told(peer, counter);
                if now != before {
                    self.near.count(peer, counter, now.wrapping_sub(before));
                    self.tally
                        .told
                        .borrow_mut()
                        .insert((peer.0, counter as usize), now);
                }
            }
        }
        // Strangers have no number; they are faults that this process met by itself.
        let strangers = far.strangers_turned_away();
        let new = strangers.wrapping_sub(self.tally.strangers.replace(strangers));
        if new != 0 {
            self.near.count(self.me, Counter::Faults, new);
        }
        let now = far.now();
        let fresh = |shown: Moment| now - shown < SHOWN_EACH;
        if at_once || !self.tally.shown.get().is_some_and(fresh) {
            self.tally.shown.set(Some(now));
            self.near.show_rails(&far.rail_figures());
        }
    }
}
