//! Bulk transfers.

use super::SimFabric;
use crate::adapter::Pair;
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

    unsafe fn expose(&self, peer: Peer, address: usize, len: usize, _writable: bool) -> Result<u64> {
        peer.check(self.size)?;
        self.running.sync(self.me);
        let mut core = self.core();
        let (adapter, kernel) = core.adapter(self.me, peer);
        let pair = Pair {
            from: self.me,
            to: peer,
        };
        Ok(adapter.expose(kernel, pair, address, len))
    }

    fn withdraw(&self, key: u64) {
        if key == 0 {
            return;
        }
        self.running.sync(self.me);
        let mut core = self.core();
        let host = core.kernel.procs.host_of(self.me);
        let (adapter, kernel) = core.adapter_of(host);
        adapter.withdraw(kernel, key);
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
