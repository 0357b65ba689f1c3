//! What an endpoint tells of itself: faults that nobody has asked for yet, and counters by peer.
//!
//! Cost class: *queued path*.

use farpost_fabric::{Counter, Fault, Peer};

/// Faults that wait until somebody asks; more are counted only.
const FAULTS_MAX: usize = 64;

pub struct Diagnostics {
    faults: Vec<Fault>,
    /// Faults beyond [`FAULTS_MAX`].
    dropped: u64,
    counters: Vec<Option<Box<[u64; Counter::COUNT]>>>,
}

impl Diagnostics {
    /// For a job of `size` processes.
    pub fn new(size: u32) -> Self {
        Self {
            faults: Vec::new(),
            dropped: 0,
            counters: (0..size).map(|_| None).collect(),
        }
    }

    pub fn record_fault(&mut self, fault: Fault) {
        if fault.peer.index() < self.counters.len() {
            self.count(fault.peer, Counter::Faults, 1);
        }
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        } else {
            self.dropped += 1;
        }
    }

    /// The faults since the last call, and how many more there were.
    pub fn take_faults(&mut self) -> (Vec<Fault>, u64) {
        (
            std::mem::take(&mut self.faults),
            std::mem::take(&mut self.dropped),
        )
    }

    /// Whether a fault waits to be taken.
    pub fn faulted(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Add `amount` to a counter of what is exchanged with `peer`.
    pub fn count(&mut self, peer: Peer, counter: Counter, amount: u64) {
        let counters = self.counters[peer.index()].get_or_insert_default();
        let cell = &mut counters[counter as usize];
        *cell = cell.wrapping_add(amount);
    }

    /// The value of a counter.
    pub fn counter(&self, peer: Peer, counter: Counter) -> u64 {
        let counters = self.counters[peer.index()].as_ref();
        counters.map_or(0, |counters| counters[counter as usize])
    }
}
