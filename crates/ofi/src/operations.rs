//! Operations under way: what libfabric is given as their context, and their buffers. Made in chunks, used again,
//! never moved.
//!
//! Cost class: *fast path*, but for making a chunk.

use super::calls::{Endpoint, Registration};
use super::ffi;
use farpost_fabric::Peer;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// A buffer to receive into.
    Receive,
    /// A message to a peer.
    Send,
    /// Part of a bulk transfer.
    Bulk,
}

/// An operation. libfabric gets its address as the context, so the part that providers may use (`FI_CONTEXT2`)
/// comes first.
#[repr(C)]
pub struct Operation {
    provider: UnsafeCell<[u64; 8]>,
    /// What it is.
    pub kind: Cell<OperationKind>,
    /// With whom.
    pub peer: Cell<Peer>,
    /// Bytes of the buffer in use.
    pub len: Cell<usize>,
    /// Of a bulk transfer: which.
    pub ticket: Cell<u64>,
    buffer: NonNull<u8>,
    capacity: usize,
    desc: Cell<*mut c_void>,
}

impl Operation {
    /// What to give libfabric.
    #[inline]
    pub fn context(&self) -> *mut c_void {
        self.provider.get().cast()
    }

    /// The whole buffer.
    #[inline]
    pub fn room(&self) -> (*mut u8, usize) {
        (self.buffer.as_ptr(), self.capacity)
    }

    /// The part in use.
    #[inline]
    pub fn filled(&self) -> (*const u8, usize) {
        (self.buffer.as_ptr(), self.len.get())
    }

    /// What the provider wants along with the buffer.
    #[inline]
    pub fn desc(&self) -> *mut c_void {
        self.desc.get()
    }

    /// Put `parts`, one after the other, into the buffer.
    ///
    /// # Panics
    /// When they do not fit.
    #[inline]
    pub fn fill(&self, parts: &[&[u8]]) {
        let mut at = 0;
        for part in parts {
            assert!(part.len() <= self.capacity - at, "a message outgrew its buffer");
            // SAFETY: the buffer has `capacity` bytes, checked above; it belongs to this operation, which is not
            // under way; the part is somebody's slice, so they do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), self.buffer.as_ptr().add(at), part.len()) };
            at += part.len();
        }
        self.len.set(at);
    }

    /// Put `part` behind what is there, and zeroes up to a multiple of eight. False: it does not fit into `limit` bytes.
    #[inline]
    pub fn append(&self, parts: [&[u8]; 2], limit: usize) -> bool {
        let at = self.len.get();
        let len = parts[0].len() + parts[1].len();
        let padded = len.next_multiple_of(8);
        if at + padded > limit.min(self.capacity) {
            return false;
        }
        let mut to = at;
        for part in parts {
            // SAFETY: in range of the buffer, checked above; otherwise as in `fill`.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), self.buffer.as_ptr().add(to), part.len()) };
            to += part.len();
        }
        // SAFETY: as above.
        unsafe { std::ptr::write_bytes(self.buffer.as_ptr().add(to), 0, padded - len) };
        self.len.set(at + padded);
        true
    }

    /// What was received: the first `len` bytes.
    ///
    /// # Safety
    /// The operation is not under way, and stays so while the slice lives.
    #[inline]
    pub unsafe fn received(&self, len: usize) -> &[u8] {
        // SAFETY: in range of the buffer, which was zeroed when made; the caller vouches that nobody writes.
        unsafe { std::slice::from_raw_parts(self.buffer.as_ptr(), len.min(self.capacity)) }
    }
}

/// Memory for a chunk of operations.
struct Chunk {
    _operations: Box<[Operation]>,
    _registration: Option<Registration>,
    _buffers: Box<[UnsafeCell<u64>]>,
}

/// Operations of one size of buffer.
pub struct Pool {
    endpoint: Rc<Endpoint>,
    capacity: usize,
    chunk: usize,
    chunks: RefCell<Vec<Chunk>>,
    free: RefCell<Vec<NonNull<Operation>>>,
}

impl Pool {
    /// Operations with buffers of `capacity` bytes (0: none), made `chunk` at a time.
    pub fn new(endpoint: &Rc<Endpoint>, capacity: usize, chunk: usize) -> Self {
        Self {
            endpoint: Rc::clone(endpoint),
            capacity: capacity.next_multiple_of(64),
            chunk,
            chunks: RefCell::default(),
            free: RefCell::default(),
        }
    }

    /// An operation for the caller alone, until [`give`](Self::give). The reference is good for as long as the pool is.
    #[inline]
    pub fn take(&self, kind: OperationKind, peer: Peer) -> NonNull<Operation> {
        let free = self.free.borrow_mut().pop();
        let operation = match free {
            Some(operation) => operation,
            None => self.grow(),
        };
        // SAFETY: operations live in boxes that the pool keeps.
        let it = unsafe { operation.as_ref() };
        it.kind.set(kind);
        it.peer.set(peer);
        operation
    }

    /// Back after use.
    #[inline]
    pub fn give(&self, operation: NonNull<Operation>) {
        self.free.borrow_mut().push(operation);
    }

    #[cold]
    fn grow(&self) -> NonNull<Operation> {
        let bytes = self.capacity * self.chunk;
        let buffers: Box<[UnsafeCell<u64>]> = (0..bytes / 8).map(|_| UnsafeCell::new(0)).collect();
        let start = NonNull::new(buffers.as_ptr().cast_mut().cast::<u8>()).expect("a box is not null");
        let wants = self.endpoint.mr_mode() & ffi::FI_MR_LOCAL != 0 && bytes > 0;
        let access = ffi::FI_SEND | ffi::FI_RECV;
        let mut registration = None;
        if wants {
            let random = super::token::random();
            match self.endpoint.register((start.as_ptr(), bytes), access, random) {
                Ok(done) => registration = Some(done),
                // Sends with an unregistered buffer will fail and say why.
                Err((_, why)) => {
                    eprintln!("farpost: {bytes} bytes of message buffers could not be registered: {why}")
                }
            }
        }
        let desc = registration
            .as_ref()
            .map_or(std::ptr::null_mut(), Registration::desc);
        let operations: Box<[Operation]> = (0..self.chunk)
            .map(|i| Operation {
                provider: UnsafeCell::new([0; 8]),
                kind: Cell::new(OperationKind::Send),
                peer: Cell::new(Peer(u32::MAX)),
                len: Cell::new(0),
                ticket: Cell::new(0),
                // SAFETY: `i` is below the number of buffers, so this is inside the box (or its end, without bytes).
                buffer: unsafe { start.add(i * self.capacity) },
                capacity: self.capacity,
                desc: Cell::new(desc),
            })
            .collect();
        let mut free = self.free.borrow_mut();
        free.extend(operations.iter().map(NonNull::from));
        self.chunks.borrow_mut().push(Chunk {
            _operations: operations,
            _registration: registration,
            _buffers: buffers,
        });
        free.pop().expect("a chunk is not empty")
    }
}
