//! Bulk transfers.

use super::SimFabric;
use crate::link::{Link, OpId};
use farpost_fabric::{BulkTransfer, Completion, Descriptor, Fabric, Peer, Result, Ticket};

impl<L: Link> BulkTransfer for SimFabric<L> {
    fn can_transfer(&self, peer: Peer) -> bool {
        peer.0 < self.size() && self.link.transfers(peer)
    }

    unsafe fn expose(&self, peer: Peer, address: usize, len: usize, _writable: bool) -> Result<u64> {
        peer.check(self.size())?;
        self.link.expose(peer, address, len)
    }

    fn withdraw(&self, key: u64) {
        if key != 0 {
            self.link.withdraw(key);
        }
    }

    unsafe fn submit(&self, descriptor: &Descriptor) -> Result<Completion> {
        descriptor.peer.check(self.size())?;
        let op = self.link.transfer(descriptor)?;
        Ok(Completion::Pending(Ticket(op.0 as u64)))
    }

    fn poll_transfer(&self, ticket: Ticket) -> Result<bool> {
        let ended = self.link.ended(OpId(ticket.0 as usize), &mut []);
        ended.map_or(Ok(false), |result| result.map(|()| true))
    }
}
