//! What peers did wrong: recorded with the fabric, which counts it, and kept here for this interface's user.

use farpost_fabric::{Fabric, Fault};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Faults kept for whoever asks; of more, the oldest stay.
const KEPT: usize = 64;

/// The faults of one interface.
pub(crate) struct Faults<F> {
    fabric: Rc<F>,
    kept: RefCell<VecDeque<Fault>>,
}

impl<F: Fabric> Faults<F> {
    pub fn new(fabric: Rc<F>) -> Rc<Self> {
        let kept = RefCell::default();
        Rc::new(Self { fabric, kept })
    }

    #[cold]
    pub fn record(&self, fault: Fault) {
        let kept = &mut *self.kept.borrow_mut();
        if kept.len() < KEPT {
            kept.push_back(fault.clone());
        }
        self.fabric.record_fault(fault);
    }

    pub fn next(&self) -> Option<Fault> {
        self.kept.borrow_mut().pop_front()
    }
}
