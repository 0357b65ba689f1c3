//! What an endpoint tells of itself: faults that nobody has asked for yet, and counters by peer.
//!
//! Cost class: *queued path*.

use farpost_fabric::{Counter, Fault, FaultLog, Peer};

pub struct Diagnostics {
    pub faults: FaultLog,
    counters: Vec<Option<Box<[u64; Counter::COUNT]>>>,
}

impl Diagnostics {
    /// For a job of `size` processes.
    pub fn new(size: u32) -> Self {
        Self {
            faults: FaultLog::default(),
            counters: (0..size).map(|_| None).collect(),
        }
    }

    pub fn record_fault(&mut self, fault: Fault) {
        if fault.peer.index() < self.counters.len() {
            self.count(fault.peer, Counter::Faults, 1);
        }
        self.faults.record(fault);
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
