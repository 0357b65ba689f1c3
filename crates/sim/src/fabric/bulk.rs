//! Bulk transfers.

use super::SimFabric;
use crate::process::OpId;
use farpost_fabric::{BulkTransfer, Completion, Descriptor, Peer, Result, Ticket};

impl BulkTransfer for SimFabric {
    fn can_transfer(&self, peer: Peer) -> bool {
        if peer.0 >= self.size {
            return false;
        }
        let mut core = self.core();
        let (adapter, _) = core.adapter(self.me, peer);
        adapter.transfers()
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion> {
        descriptor.peer.check(self.size)?;
        self.running.sync(self.me);
        let mut core = self.core();
        core.kernel.procs.check_alive(descriptor.peer)?;
        let (adapter, kernel) = core.adapter(self.me, descriptor.peer);
        let (time, op) = adapter.transfer(kernel, self.me, descriptor)?;
        core.spend(self.me, time);
        Ok(Completion::Pending(Ticket(op.0 as u64)))
    }

    fn poll_transfer(&self, ticket: Ticket) -> Result<bool> {
        self.running.sync(self.me);
        let ended = self.core().kernel.procs.ended(OpId(ticket.0 as usize));
        ended.map_or(Ok(false), |result| result.map(|_| true))
    }
}
