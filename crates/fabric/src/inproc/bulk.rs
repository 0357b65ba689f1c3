//! Bulk transfer: the copy happens when its event arrives.

use super::InProc;
use crate::{
    BulkTransfer, Completion, Counter, Counters, Descriptor, Direction, FabricError, Peer, Result, Ticket,
};

/// Copy within this process, checked by the kernel: an address that the peer got wrong is an error, not a
/// crash.
pub fn copy(d: &Descriptor) -> Result<()> {
    let (mut local, mut remote, mut len) = (d.local, d.remote, d.len);
    while len > 0 {
        let iovec = |at: usize| libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut::<libc::c_void>(at),
            iov_len: len,
        };
        let (ours, theirs) = (iovec(local), iovec(remote));
        // SAFETY: the submitter vouched for the local range until the completion, which comes after this;
        // the kernel checks the remote one.
        let moved = unsafe {
            let pid = libc::getpid();
            match d.direction {
                Direction::Get => libc::process_vm_readv(pid, &raw const ours, 1, &raw const theirs, 1, 0),
                Direction::Put => libc::process_vm_writev(pid, &raw const ours, 1, &raw const theirs, 1, 0),
            }
        };
        if moved <= 0 {
            let error = std::io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::EFAULT) => FabricError::corrupt(d.peer, "a buffer address", remote as u64),
                _ => FabricError::os_error("copy between endpoints", &error),
            });
        }
        let moved = moved as usize;
        (local, remote, len) = (local + moved, remote + moved, len - moved);
    }
    Ok(())
}

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
