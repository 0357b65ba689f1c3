//! Faults of peers: recorded with the fabric, which counts them, and queued here for this interface's user.

use farpost_fabric::{Fabric, Fault};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Faults that wait until somebody asks; later ones are not queued.
const FAULTS_MAX: usize = 64;

/// The faults of one interface.
pub(crate) struct Faults<F> {
    fabric: Rc<F>,
    queue: RefCell<VecDeque<Fault>>,
}

impl<F: Fabric> Faults<F> {
    pub fn new(fabric: Rc<F>) -> Rc<Self> {
        let queue = RefCell::default();
        Rc::new(Self { fabric, queue })
    }

    #[cold]
    pub fn record(&self, fault: Fault) {
        let queue = &mut *self.queue.borrow_mut();
        if queue.len() < FAULTS_MAX {
            queue.push_back(fault.clone());
        }
        self.fabric.record_fault(fault);
    }

    pub fn next(&self) -> Option<Fault> {
        self.queue.borrow_mut().pop_front()
    }
}
