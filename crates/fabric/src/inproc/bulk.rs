//! Bulk transfer: the copy happens when its event arrives.

use super::InProc;
use crate::{BulkTransfer, Completion, Counter, Counters, Descriptor, FabricError, Peer, Result, Ticket};

impl BulkTransfer for InProc {
    fn can_transfer(&self, peer: Peer) -> bool {
        peer.0 < self.size && self.network.0.borrow().config.bulk
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion> {
        self.check_peer(descriptor.peer)?;
        if !self.can_transfer(descriptor.peer) {
            return Err(FabricError::unsupported(
                descriptor.peer,
                "bulk transfer",
                "this network was configured without",
            ));
        }
        let ticket = self.network.0.borrow_mut().transfer(self.me, *descriptor)?;
        self.count(descriptor.peer, Counter::BulkBytes, descriptor.len as u64);
        Ok(Completion::Pending(Ticket(ticket)))
    }

    fn poll_transfer(&self, ticket: Ticket) -> Result<bool> {
        self.network.0.borrow_mut().transfer_ended(ticket.0)
    }
}
