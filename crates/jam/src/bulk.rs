//! Memory of blocks, and the two places where it is handed to the fabric's bulk transfer: bytes exposed for a peer,
//! bytes being fetched. Both keep it until the fabric touches it no more.

use farpost_fabric::{BulkTransfer, Completion, Descriptor, Direction, FabricError, Peer, Ticket};
use std::rc::Rc;

/// Memory that a block comes from or goes to.
#[derive(Debug)]
pub struct Buffer(Memory);

#[derive(Debug)]
enum Memory {
    Own(Box<[u8]>),
    Lent { address: *mut u8, len: usize },
}

impl Buffer {
    /// Memory of the program's, used where it lies.
    ///
    /// # Safety
    /// `address` for `len` bytes stays valid as long as this value or a transfer that it was given to lives, and
    /// nobody writes it meanwhile; if it is given to receive, nobody reads it either. It may be null for no bytes.
    pub unsafe fn lent(address: *mut u8, len: usize) -> Self {
        // No bytes, but a place all the same, by which the program knows it again.
        if address.is_null() {
            return Buffer(Memory::Own(Box::default()));
        }
        Buffer(Memory::Lent { address, len })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Memory::Own(bytes) => bytes,
            // SAFETY: `lent` promises that the memory is there and that nobody writes it; it is not null.
            Memory::Lent { address, len } => unsafe { std::slice::from_raw_parts(*address, *len) },
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Own(bytes) => bytes,
            // SAFETY: `lent` promises that memory to receive is there and nobody else uses it; it is not null.
            Memory::Lent { address, len } => unsafe { std::slice::from_raw_parts_mut(*address, *len) },
        }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Memory::Own(bytes) => bytes.len(),
            Memory::Lent { len, .. } => *len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn address(&self) -> usize {
        match &self.0 {
            Memory::Own(bytes) => bytes.as_ptr() as usize,
            Memory::Lent { address, .. } => *address as usize,
        }
    }
}

impl<T: Into<Box<[u8]>>> From<T> for Buffer {
    fn from(bytes: T) -> Self {
        Buffer(Memory::Own(bytes.into()))
    }
}

/// Bytes that a peer may fetch.
pub(crate) struct Exposed<F: BulkTransfer> {
    fabric: Rc<F>,
    bytes: Buffer,
    key: u64,
    base: u64,
}

impl<F: BulkTransfer> Exposed<F> {
    pub fn new(fabric: &Rc<F>, peer: Peer, bytes: Buffer) -> Result<Self, (Buffer, FabricError)> {
        let address = bytes.address();
        // SAFETY: the value made here keeps the memory, and withdraws it before it lets it go; it is exposed for reading
        // only and nobody writes it.
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
        self.bytes.bytes()
    }
}

impl<F: BulkTransfer> Drop for Exposed<F> {
    fn drop(&mut self) {
        self.fabric.withdraw(self.key);
    }
}

/// Bytes on their way here.
pub(crate) struct Fetch<F: BulkTransfer> {
    fabric: Rc<F>,
    bytes: Option<Buffer>,
    ticket: Option<Ticket>,
}

impl<F: BulkTransfer> Fetch<F> {
    /// Begin to fetch `len` bytes to the front of `bytes`.
    pub fn new(
        fabric: &Rc<F>,
        peer: Peer,
        (position, key): (u64, u64),
        (bytes, len): (Buffer, usize),
    ) -> Result<Self, (Buffer, FabricError)> {
        assert!(len <= bytes.len());
        let descriptor = Descriptor {
            peer,
            direction: Direction::Get,
            local: bytes.address(),
            remote: position as usize,
            key,
            len,
        };
        // SAFETY: the value made here keeps the memory, which holds `len` bytes; until the transfer has ended or is
        // cancelled (`finished`, `drop`) nobody else sees it.
        match unsafe { fabric.submit(&descriptor) } {
            Ok(completion) => Ok(Self {
                fabric: Rc::clone(fabric),
                bytes: Some(bytes),
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

    /// The memory, when all bytes are here.
    pub fn fetched(&self) -> Option<&Buffer> {
        self.bytes.as_ref().filter(|_| self.ticket.is_none())
    }

    /// The memory, when nothing is on its way to it any more.
    pub fn take(&mut self) -> Option<Buffer> {
        if let Some(ticket) = self.ticket.take() {
            self.fabric.cancel_transfer(ticket);
        }
        self.bytes.take()
    }
}

impl<F: BulkTransfer> Drop for Fetch<F> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.fabric.cancel_transfer(ticket);
        }
    }
}
