//! Memory of a simulated process as a segment: bytes of this process that have memory where they were written.
//!
//! Cost class: none; simulations are not on any fast path.

#[allow(unsafe_code)]
mod moving;
mod sparse;

pub use moving::{move_bytes, read_process, write_process};

use crate::{LINE_BYTES, Line, LocalMemory, assert_aligned, bytes_of};
use sparse::SparseBytes;
use std::cell::RefCell;
use std::rc::Rc;

type Bytes = Rc<RefCell<SparseBytes>>;

/// Memory of one endpoint. Clones are the same memory, also after a [`detach`](RemoteMemory::detach).
#[derive(Clone)]
pub struct Segment(Rc<RefCell<Bytes>>);

impl Segment {
    /// `len` zeroes.
    pub fn new(len: usize) -> Self {
        Self::of(Rc::new(RefCell::new(SparseBytes::new(len))))
    }

    fn of(bytes: Bytes) -> Self {
        Self(Rc::new(RefCell::new(bytes)))
    }

    /// The bytes as they are mapped now.
    fn bytes(&self) -> Bytes {
        Rc::clone(&self.0.borrow())
    }

    /// As an importer sees it: what it sees now, whatever the owner does later.
    pub fn as_imported(&self) -> Self {
        Self::of(self.bytes())
    }

    /// Other bytes with the same contents; imports keep the old ones.
    pub fn detach(&self) {
        let copy = self.bytes().borrow().clone();
        *self.0.borrow_mut() = Rc::new(RefCell::new(copy));
    }

    /// Make `range` zeroes that need no memory.
    pub fn clear(&self, range: std::ops::Range<usize>) {
        self.0.borrow().borrow_mut().clear(range);
    }

    /// Bytes of it that have memory: what was written and not [given back](RemoteMemory::give_back).
    pub fn memory(&self) -> usize {
        self.0.borrow().borrow().memory()
    }

    /// Bytes from the network.
    pub fn arrive(&self, offset: usize, bytes: &[u8]) {
        self.0.borrow().borrow_mut().write(offset, bytes);
    }

    fn words<const N: usize>(&self, offset: usize) -> [u64; N] {
        assert_aligned(offset, 8 * N);
        let mut words = [[0; 8]; N];
        self.0.borrow().borrow().read(offset, words.as_flattened_mut());
        words.map(u64::from_ne_bytes)
    }
}

impl core::fmt::Debug for Segment {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Segment({} bytes)", self.len())
    }
}

impl LocalMemory for Segment {
    type Lines = crate::PlainLines<Segment>;

    fn lines(&self, offset: usize, count: u32) -> Self::Lines {
        crate::PlainLines::new(self.clone(), offset, count)
    }

    fn len(&self) -> usize {
        self.0.borrow().borrow().len()
    }

    fn load(&self, offset: usize) -> u64 {
        self.words::<1>(offset)[0]
    }

    fn store(&self, offset: usize, value: u64) {
        assert_aligned(offset, 8);
        self.arrive(offset, &value.to_ne_bytes());
    }

    fn fetch_add(&self, offset: usize, amount: u64) -> u64 {
        let before = self.load(offset);
        self.store(offset, before.wrapping_add(amount));
        before
    }

    fn load_line(&self, offset: usize) -> Line {
        self.words::<8>(offset)
    }

    fn store_line(&self, offset: usize, line: &Line) {
        assert_aligned(offset, LINE_BYTES);
        self.arrive(offset, &bytes_of(line));
    }

    fn read(&self, offset: usize, to: &mut [u8]) {
        self.0.borrow().borrow().read(offset, to);
    }

    fn write(&self, offset: usize, from: &[u8]) {
        self.arrive(offset, from);
    }
}
