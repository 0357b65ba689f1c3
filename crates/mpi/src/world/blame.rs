//! Whose error handler hears of an error that a request brought.

use super::World;
use crate::comm::Comm;
use farpost_fabric::Fabric;
use std::rc::Rc;

impl<F: Fabric> World<F> {
    /// The communicator of the receive that failed last, asked for once.
    #[cold]
    pub fn take_failed_comm(&self) -> Option<Rc<Comm>> {
        let slot = self.engine.borrow_mut().failed.take()?;
        let comms = self.comms.borrow();
        let others = comms.iter().map(|(_, comm)| comm);
        let mut all = [&self.comm_world, &self.comm_self].into_iter().chain(others);
        all.find(|comm| comm.slots.contains(&slot)).cloned()
    }
}
