//! The two places where memory is handed to the fabric's bulk transfer: bytes exposed for a peer, bytes being
//! fetched. Both own their memory, so that it is there as long as the fabric may touch it.

use farpost_fabric::{Completion, Descriptor, Direction, Fabric, FabricError, Peer, Ticket};
use std::rc::Rc;

/// Bytes that a peer may fetch.
pub(crate) struct Exposed<F: Fabric> {
    fabric: Rc<F>,
    bytes: Box<[u8]>,
    key: u64,
    base: u64,
}

impl<F: Fabric> Exposed<F> {
    pub fn new(fabric: &Rc<F>, peer: Peer, bytes: Box<[u8]>) -> Result<Self, (Box<[u8]>, FabricError)> {
        let address = bytes.as_ptr() as usize;
        // SAFETY: the memory is a heap block owned by the value made here, which withdraws it before it lets it go;
        // it is exposed for reading only and nobody writes it.
        match unsafe { fabric.expose(peer, address, bytes.len(), false) } {
            Ok(key) => Ok(Self {
                base: fabric.exposed_base(peer, address),
                fabric: Rc::clone(fabric),
                bytes,
                key,
            }),
            Err(error) => Err((bytes, error)),
        }
    }

    /// What the peer needs: position and key.
    pub fn place(&self) -> (u64, u64) {
        (self.base, self.key)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<F: Fabric> Drop for Exposed<F> {
    fn drop(&mut self) {
        self.fabric.withdraw(self.key);
    }
}

/// Bytes on their way here.
pub(crate) struct Fetch<F: Fabric> {
    fabric: Rc<F>,
    bytes: Box<[u8]>,
    ticket: Option<Ticket>,
}

impl<F: Fabric> Fetch<F> {
    /// Begin to fetch as many bytes as `bytes` has.
    pub fn new(
        fabric: &Rc<F>,
        peer: Peer,
        (position, key): (u64, u64),
        mut bytes: Box<[u8]>,
    ) -> Result<Self, (Box<[u8]>, FabricError)> {
        let descriptor = Descriptor {
            peer,
            direction: Direction::Get,
            local: bytes.as_mut_ptr() as usize,
            remote: position as usize,
            key,
            len: bytes.len(),
        };
        // SAFETY: the local memory is a heap block owned by the value made here; until the transfer has ended or is
        // cancelled (`finished`, `drop`) nobody else sees it.
        match unsafe { fabric.submit(&descriptor) } {
            Ok(completion) => Ok(Self {
                fabric: Rc::clone(fabric),
                bytes,
                ticket: match completion {
                    Completion::Done => None,
                    Completion::Pending(ticket) => Some(ticket),
                },
            }),
            Err(error) => Err((bytes, error)),
        }
    }

    /// Whether all bytes are here.
    pub fn finished(&mut self) -> Result<bool, FabricError> {
        let Some(ticket) = self.ticket else {
            return Ok(true);
        };
        match self.fabric.poll_transfer(ticket) {
            Ok(false) => Ok(false),
            Ok(true) => {
                self.ticket = None;
                Ok(true)
            }
            Err(error) => {
                self.ticket = None;
                Err(error)
            }
        }
    }

    /// The bytes, once they are here.
    pub fn take(&mut self) -> Box<[u8]> {
        assert!(self.ticket.is_none(), "still on their way");
        std::mem::take(&mut self.bytes)
    }
}

impl<F: Fabric> Drop for Fetch<F> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.fabric.cancel_transfer(ticket);
        }
    }
}
