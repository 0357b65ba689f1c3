//! Faults that wait until somebody asks for them.

use crate::Fault;

/// The first faults since somebody asked, up to a bound, and how many there were beyond it.
#[derive(Default)]
pub struct FaultLog {
    first: Vec<Fault>,
    more: u64,
}

impl FaultLog {
    /// So many are kept; more are counted only.
    pub const MOST: usize = 64;

    /// Add a fault.
    pub fn record(&mut self, fault: Fault) {
        if self.first.len() < Self::MOST {
            self.first.push(fault);
        } else {
            self.more += 1;
        }
    }

    /// As [`ErrorStatus::take_faults`](crate::ErrorStatus::take_faults).
    pub fn take(&mut self) -> (Vec<Fault>, u64) {
        let Self { first, more } = std::mem::take(self);
        (first, more)
    }

    /// Whether there is none to take.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}
