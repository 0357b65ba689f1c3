//! What was refused, counted by kind, and what peers did wrong, kept for whoever uses this interface: the fabric counts
//! it too, but its list of faults is for all layers of the process.

use farpost_fabric::{ErrorStatus, Fault};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Faults kept for whoever asks; of more, the oldest stay.
const KEPT: usize = 64;

/// What a process has refused so far: mistakes of its own calls, and what came from peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Calls that named a controller that is not there, or one that does not reach the node.
    pub controllers: u64,
    /// Connects to a segment that the node has not published, or not to this one.
    pub segments: u64,
    /// Accesses past the end of a segment.
    pub ranges: u64,
    /// Signals and connections of peers that this process's tables do not have.
    pub strangers: u64,
    /// Packets and directories that no library of ours writes.
    pub malformed: u64,
    /// Accesses that the connection's permission, and connects that the segment's, did not allow.
    pub denied: u64,
    /// Signals that were on their way when their segment was withdrawn or disconnected: nobody's fault.
    pub late: u64,
}

/// The counts, and the faults of peers.
#[derive(Default)]
pub struct Faults {
    refused: Cell<Refused>,
    kept: RefCell<VecDeque<Fault>>,
}

impl Faults {
    /// Count a refusal.
    #[cold]
    pub fn count(&self, one: impl FnOnce(&mut Refused) -> &mut u64) {
        let mut refused = self.refused.get();
        *one(&mut refused) += 1;
        self.refused.set(refused);
    }

    /// A peer did wrong: `fabric` counts it, and it is kept here.
    #[cold]
    pub fn record<F: ErrorStatus>(&self, fabric: &F, fault: Fault) {
        let kept = &mut *self.kept.borrow_mut();
        if kept.len() < KEPT {
            kept.push_back(fault.clone());
        }
        fabric.record_fault(fault);
    }

    /// The oldest fault that nobody was told of.
    pub fn next(&self) -> Option<Fault> {
        self.kept.borrow_mut().pop_front()
    }

    /// The counts.
    pub fn refused(&self) -> Refused {
        self.refused.get()
    }
}
